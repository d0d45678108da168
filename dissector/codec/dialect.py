"""The dialect, era and features of a connection, from the evidence of its frames.

Nothing is inferred from ports, and roles never from which side opened the connection: towards a consumer the TCP server
sends the stream requests. ``draft`` has the opcodes of SET to INCREMENT and was never released, so it is believed only
on positive evidence; ``upr-proto`` is never detected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.codec.dialect_evidence import HELLO, UPR_REQUESTS, DialectTally, is_draft_form
from dissector.codec.message import Header
from dissector.spec import enums, fingerprints, registry
from dissector.spec.model import Dialect, MessageType, Party, Release

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = registry.HEADER_SIZE
_COLLECTIONS = enums.COLLECTIONS_FEATURE.to_bytes(2, "big")
_OPEN, _ADD_STREAM, _NOOP, _CONTROL = (
    registry.named(Dialect.DCP, name).opcode for name in ("open", "add_stream", "noop", "control")
)
_OPEN_EXTRAS, _OPEN_FLAGS_AT = registry.OPEN_EXTRAS, registry.OPEN_FLAGS_AT
_SENDERS = {known.opcode: known.sender for known in registry.MESSAGES if known.dialect is Dialect.DCP}
_ENOUGH = 2
#: More draft-like requests than this are not remembered: a hostile capture must not fill the memory.
_MAX_PENDING = 4096


@dataclass(frozen=True, slots=True)
class Evidence:
    """One frame that says something, and what it says."""

    frame: int  #: number of the frame among those fed, from 0
    says: str


@dataclass(frozen=True, slots=True)
class DialectVerdict:
    """What is known of a connection."""

    dialect: Dialect
    era: Release | None = None  #: the oldest release that can have sent what was seen
    until: Release | None = None  #: the newest one
    producer: int | None = None  #: direction (0 or 1) whose sender produces
    collections: bool = False  #: document keys carry a collection id
    evidence: tuple[Evidence, ...] = ()
    contradictions: tuple[Evidence, ...] = ()


@dataclass(slots=True)
class Detector:
    """Collects evidence frame by frame; :meth:`verdict` may be asked at any time."""

    forced: Dialect | None = None
    collections: bool = False
    producer: int | None = None
    draft_forms: int = 0  #: frames of a form that the draft alone has, while nothing said whether it is spoken
    _count: int = 0
    _weight: int = 0  #: frames that only UPR can explain; :data:`_ENOUGH` make it UPR
    _drafted: bool = False
    _tally: DialectTally = field(default_factory=DialectTally)
    _forms: dict[fingerprints.Fingerprint, Evidence] = field(default_factory=dict)
    _era: Release | None = None  #: by what belongs to no dialect's form
    _asked: dict[bytes, int] = field(default_factory=dict)  #: draft-like requests: id to vbucket
    _hellos: set[tuple[int, bytes]] = field(default_factory=set)
    _controls: list[bytes] = field(default_factory=list)
    _evidence: dict[str, Evidence] = field(default_factory=dict)

    def feed(self, direction: int, frame: bytes) -> None:
        """Look at one frame of a direction (0 or 1), in the order they were seen."""
        number = self._count
        self._count += 1
        if len(frame) < _HEADER:
            return
        header = Header.parse(frame)
        magic = header.known_magic
        if magic is None or magic.server_push:
            return
        if header.framing_length + header.extras_length + header.key_length > header.body_length:
            return
        request = magic.direction is MessageType.REQUEST
        if header.opcode in registry.DRAFT_OPCODES and not magic.flexible:
            self._feed_draft(number, header, request)
        elif header.opcode == HELLO:
            self._feed_hello(direction, header, frame, request)
        elif header.opcode in _SENDERS and request:
            self._feed_upr(number, direction, header, frame)

    @property
    def dialect(self) -> Dialect:
        """Return the dialect as the frames so far show it."""
        if self.forced is not None:
            return self.forced
        spoken = self.spoken
        if spoken is not None:
            return spoken
        return Dialect.DCP if self._weight >= _ENOUGH else Dialect.MEMCACHED

    @property
    def spoken(self) -> Dialect | None:
        """Return the dialect that forms of messages show, whatever dialect is forced."""
        if self._drafted:
            return Dialect.DRAFT
        # Servers that know HELLO are later than upr. Forms are not looked at any more once that is clear.
        later = self._tally.hello and self._weight >= _ENOUGH
        return self._tally.dialect or (Dialect.DCP if later else None)

    @property
    def decided(self) -> bool:
        """Tell whether no further frame can change the dialect, but for a HELLO."""
        if self.forced is not None or self._drafted:
            return True
        return self._tally.final and self.dialect is not Dialect.MEMCACHED

    @property
    def may_be_draft(self) -> bool:
        """Tell whether later frames can still show that the draft is spoken."""
        return self.forced is None and not self._drafted and self._tally.leader is None and not self._tally.hello

    @property
    def likely(self) -> bool:
        """Tell whether the connection is UPR: then only messages that one dialect alone has say more."""
        return self.dialect is not Dialect.MEMCACHED

    def verdict(self) -> DialectVerdict:
        """Say what the frames so far show, and why."""
        spoken = self.spoken
        evidence, contradictions = dict(self._evidence), dict[str, Evidence]()
        since, until = self._era, None
        for form, found in self._forms.items():
            if form.dialect is not spoken:
                contradictions.setdefault(found.says, found)
                continue
            evidence.setdefault(found.says, found)
            since, until = narrowed((since, until), form.since, form.until)
        return DialectVerdict(
            self.dialect,
            since,
            until,
            self.producer,
            self.collections,
            tuple(sorted(evidence.values(), key=_frame_number)),
            tuple(contradictions.values()),
        )

    def _note(self, number: int, says: str) -> None:
        self._evidence.setdefault(says, Evidence(number, says))

    def _feed_draft(self, number: int, header: Header, request: bool) -> None:
        """Weigh an opcode of 0x01 to 0x05: KV, unless it cannot be."""
        spec = registry.drafted(header.opcode, header.datatype)
        if spec is None:
            return
        form = is_draft_form(
            request=request,
            opcode=header.opcode,
            subtype=header.datatype,
            extras=header.extras_length,
            key=header.key_length,
            value=header.body_length - header.extras_length - header.key_length,
        )
        if request and form and len(self._asked) < _MAX_PENDING:
            self._asked[header.opaque] = header.vbucket_or_status
        elif not request and spec.push is not None:
            answered = (
                header.opcode == fingerprints.DRAFT_RESPONSE
                and self._asked.get(header.opaque) == header.vbucket_or_status
            )
            if answered or (header.opcode == fingerprints.DRAFT_STREAM_MESSAGE and header.key_length > 0):
                self._note(number, f"draft: {spec.name}")
                self._drafted |= self._tally.leader is None and not self._tally.hello
        self.draft_forms += form and self.may_be_draft

    def _feed_hello(self, direction: int, header: Header, frame: bytes, request: bool) -> None:
        if request or header.vbucket_or_status == enums.SUCCESS:
            self._tally.hello = True
        if request:
            if len(self._hellos) < _MAX_PENDING:
                self._hellos.add((direction, header.opaque))
            return
        if (1 - direction, header.opaque) not in self._hellos or header.vbucket_or_status != enums.SUCCESS:
            return
        start = _HEADER + header.framing_length + header.extras_length + header.key_length
        granted = frame[start : header.frame_length]
        self.collections = _COLLECTIONS in (granted[index : index + 2] for index in range(0, len(granted) - 1, 2))

    def _feed_upr(self, number: int, direction: int, header: Header, frame: bytes) -> None:
        opcode, extras = header.opcode, header.extras_length
        spec = registry.message(Dialect.DCP, opcode)
        if spec is None or (opcode, extras) not in UPR_REQUESTS:
            return
        self._weight += _ENOUGH if opcode in fingerprints.DECISIVE_OPCODES else 1
        start = _HEADER + header.framing_length
        body = frame[start : header.frame_length]
        for form in fingerprints.fingerprints_of(opcode, extras, body[0] if body else None):
            self._tally.add(opcode, form.dialect)
            self._forms.setdefault(form, Evidence(number, f"{form.dialect}: {spec.name} with {extras} bytes of extras"))
        if header.flexible:
            self._at_least(fingerprints.FLEXIBLE_SINCE)
        self._learn_role(direction, opcode, extras, body)
        self._learn_program(number, header, body)

    def _at_least(self, since: Release) -> None:
        self._era, _ = narrowed((self._era, None), since, None)

    def _learn_role(self, direction: int, opcode: int, extras: int, body: bytes) -> None:
        other = 1 - direction
        if opcode == _OPEN and extras == _OPEN_EXTRAS and len(body) >= _OPEN_EXTRAS:
            flags = int.from_bytes(body[_OPEN_FLAGS_AT:_OPEN_EXTRAS], "big")
            # The flags name the role of the *receiver*; a notifier is a producer of stream ends alone.
            produces = enums.OPEN_FLAGS.bit("producer") | enums.OPEN_FLAGS.bit("notifier")
            self.producer = other if flags & produces else direction
            if flags & enums.OPEN_FLAGS.bit("include_delete_times"):
                self._at_least(fingerprints.DELETE_TIMES_SINCE)
        elif self.producer is None:
            sender = _SENDERS[opcode]
            if sender is Party.PRODUCER:
                self.producer = direction
            elif sender is Party.CONSUMER:
                self.producer = other
            elif opcode == _ADD_STREAM:
                self.producer = direction  # it goes to a consumer: its sender is on the producer's side

    def _learn_program(self, number: int, header: Header, body: bytes) -> None:
        if header.opcode == _OPEN and header.opaque.startswith(fingerprints.GOMEMCACHED_OPEN):
            self._note(number, "open opaque of a couchbase/gomemcached client")
        elif header.opcode == _NOOP:
            counter = int.from_bytes(header.opaque, "little")
            for low, high, says in fingerprints.NOOP_COUNTERS:
                if low < counter <= high:
                    self._note(number, says)
        elif header.opcode == _CONTROL:
            key = body[header.extras_length : header.extras_length + header.key_length]
            self._controls = [*self._controls[1 - len(fingerprints.KV_ENGINE_CONTROLS) :], key]
            wanted = fingerprints.KV_ENGINE_CONTROLS
            if tuple(self._controls[-len(wanted) :]) == wanted:
                self._note(number, "controls in the order of a kv_engine consumer")


def narrowed(
    era: tuple[Release | None, Release | None], since: Release | None, until: Release | None
) -> tuple[Release | None, Release | None]:
    """Narrow releases (oldest, newest) down by what one message proves."""
    oldest, newest = era
    if since is not None and (oldest is None or since > oldest):
        oldest = since
    if until is not None and (newest is None or until < newest):
        newest = until
    return oldest, newest


def _frame_number(evidence: Evidence) -> int:
    return evidence.frame


def detect(frames: Iterable[tuple[int, bytes]], forced: Dialect | None = None) -> DialectVerdict:
    """Judge a connection by its frames, given as (direction, bytes) in the order they were seen."""
    detector = Detector(forced)
    for direction, frame in frames:
        detector.feed(direction, frame)
    return detector.verdict()
