"""The dialect, era and features of a connection, from the evidence of its frames.

Nothing is inferred from ports, and roles never from which side opened the connection: towards a consumer the TCP server
sends the stream requests. ``draft`` has the opcodes of SET to INCREMENT and was never released, so it is believed only
on positive evidence; ``upr-proto`` is never detected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.codec.dialect_evidence import HELLO, UPR_REQUESTS
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
    _count: int = 0
    _weight: int = 0  #: frames that only UPR can explain; :data:`_ENOUGH` make it UPR
    _form: Dialect | None = None
    _era: Release | None = None
    _until: Release | None = None
    _asked: dict[bytes, int] = field(default_factory=dict)  #: draft-like requests: id to vbucket
    _hellos: set[tuple[int, bytes]] = field(default_factory=set)
    _controls: list[bytes] = field(default_factory=list)
    _evidence: dict[str, Evidence] = field(default_factory=dict)
    _contradictions: dict[str, Evidence] = field(default_factory=dict)

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
        if self._form is not None:
            return self._form
        return Dialect.DCP if self._weight >= _ENOUGH else Dialect.MEMCACHED

    @property
    def decided(self) -> bool:
        """Tell whether no further frame can change the dialect; a HELLO may still change :attr:`collections`."""
        return self.forced is not None or self._form is not None

    def verdict(self) -> DialectVerdict:
        """Say what the frames so far show, and why."""
        return DialectVerdict(
            self.dialect,
            self._era,
            self._until,
            self.producer,
            self.collections,
            tuple(self._evidence.values()),
            tuple(self._contradictions.values()),
        )

    def _note(self, number: int, says: str) -> None:
        self._evidence.setdefault(says, Evidence(number, says))

    def _feed_draft(self, number: int, header: Header, request: bool) -> None:
        """Weigh an opcode of 0x01 to 0x05: KV, unless it cannot be."""
        spec = registry.drafted(header.opcode, header.datatype)
        if spec is None:
            return
        if request and spec.request is not None:
            described = {layout.extras_size for layout in spec.request.layouts}
            is_set = header.extras_length == fingerprints.SET_EXTRAS and header.key_length > 0
            if not is_set and header.extras_length in described and len(self._asked) < _MAX_PENDING:
                self._asked[header.opaque] = header.vbucket_or_status
        elif not request and spec.push is not None:
            answered = (
                header.opcode == fingerprints.DRAFT_RESPONSE
                and self._asked.get(header.opaque) == header.vbucket_or_status
            )
            if answered or (header.opcode == fingerprints.DRAFT_STREAM_MESSAGE and header.key_length > 0):
                self._note(number, f"draft: {spec.name}")
                self._form = self._form or Dialect.DRAFT

    def _feed_hello(self, direction: int, header: Header, frame: bytes, request: bool) -> None:
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
            self._decide(number, form, f"{spec.name} with {extras} bytes of extras")
        if header.flexible:
            self._narrow(fingerprints.FLEXIBLE_SINCE, None)
        self._learn_role(direction, opcode, extras, body)
        self._learn_program(number, header, body)

    def _decide(self, number: int, form: fingerprints.Fingerprint, says: str) -> None:
        if form.dialect is not None and self._form is None:
            self._form = form.dialect
            self._note(number, f"{form.dialect}: {says}")
        elif form.dialect is not self._form:
            self._contradictions.setdefault(says, Evidence(number, f"{form.dialect}: {says}"))
            return
        self._narrow(form.since, form.until)

    def _narrow(self, since: Release | None, until: Release | None) -> None:
        if since is not None and (self._era is None or since > self._era):
            self._era = since
        if until is not None and (self._until is None or until < self._until):
            self._until = until

    def _learn_role(self, direction: int, opcode: int, extras: int, body: bytes) -> None:
        other = 1 - direction
        if opcode == _OPEN and extras == _OPEN_EXTRAS and len(body) >= _OPEN_EXTRAS:
            flags = int.from_bytes(body[_OPEN_FLAGS_AT:_OPEN_EXTRAS], "big")
            # The flags name the role of the *receiver*; a notifier is a producer of stream ends alone.
            produces = enums.OPEN_FLAGS.bit("producer") | enums.OPEN_FLAGS.bit("notifier")
            self.producer = other if flags & produces else direction
            if flags & enums.OPEN_FLAGS.bit("include_delete_times"):
                self._narrow(fingerprints.DELETE_TIMES_SINCE, None)
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


def detect(frames: Iterable[tuple[int, bytes]], forced: Dialect | None = None) -> DialectVerdict:
    """Judge a connection by its frames, given as (direction, bytes) in the order they were seen."""
    detector = Detector(forced)
    for direction, frame in frames:
        detector.feed(direction, frame)
    return detector.verdict()
