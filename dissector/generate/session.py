"""The verbs that scenarios are written in: open, ask for a stream, send a snapshot, acknowledge, close.

Knows what a well-behaved producer and consumer of each era put into their messages; must not know rules or faults.
A :class:`Session` writes into one conversation; a :class:`Stream` into the session it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.encode import pack_records
from dissector.generate.conversation import CLIENT, SERVER
from dissector.generate.frame import ALL_THAT_ARRIVED, STREAM_ID, Frame
from dissector.leb128 import pack as leb128
from dissector.spec import enums
from dissector.spec.fields import FAILOVER_ENTRY
from dissector.spec.model import Dialect, Release

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from dissector.generate.conversation import Conversation, Emission

NO_END = (1 << 64) - 1
MEMORY, DISK, CHECKPOINT, ACK, HISTORY, MAY_DUPLICATE = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
TAKEOVER, DISK_ONLY, TO_LATEST = 0x01, 0x02, 0x04
REASON_OK, REASON_CLOSED, REASON_STATE = 0, 1, 2
SUCCESS, ROLLBACK = 0x00, 0x23
PRODUCER = enums.OPEN_FLAGS.bit("producer")
DELETE_TIMES = enums.OPEN_FLAGS.bit("include_delete_times")
_ERA = Release(7)
_FIRST_CAS = 0x16E0_0000_0000_0000  #: a hybrid clock in 2022


@dataclass(slots=True, eq=False)
class Session:
    """One UPR/DCP connection being written: who produces, what was agreed upon, what number comes next."""

    talk: Conversation
    chance: random.Random
    dialect: Dialect = Dialect.DCP
    era: Release = _ERA
    producer: int = SERVER  #: the side that produces
    collections: bool = False
    sync_writes: bool = False
    delete_times: bool = False
    next_opaque: int = 1
    next_noop: int = 10_000_001
    cas: int = _FIRST_CAS

    @property
    def consumer(self) -> int:
        """Return the side that consumes."""
        return 1 - self.producer

    def opaque(self) -> bytes:
        """Return a fresh opaque, counted little-endian as servers do."""
        self.next_opaque += 1
        return (self.next_opaque - 1).to_bytes(4, "little")

    def frame(self, name: str, **attributes: object) -> Frame:
        """Make a frame of the session's dialect."""
        return Frame(self.dialect, name, **attributes)  # type: ignore[arg-type]

    def ask(self, side: int, request: Frame, *, status: int = SUCCESS, answer: Frame | None = None) -> Emission:
        """Send a request and its answer; return the request."""
        asked = self.talk.send(side, request)
        if answer is None:
            answer = self.frame(request.name, response=True, status=status)
        answer.opaque = request.opaque
        self.talk.send(1 - side, answer)
        return asked

    def hello(self, features: Sequence[int], agent: bytes = b"uprscope") -> Emission:
        """Ask for HELLO features; all are granted."""
        wanted = b"".join(feature.to_bytes(2, "big") for feature in features)
        self.collections = self.collections or enums.COLLECTIONS_FEATURE in features
        request = self.frame("hello", key=agent, value=wanted, opaque=self.opaque())
        return self.ask(CLIENT, request, answer=self.frame("hello", response=True, value=wanted))

    def select_bucket(self, bucket: bytes = b"default") -> Emission:
        """Select a bucket."""
        return self.ask(CLIENT, self.frame("select_bucket", key=bucket, opaque=self.opaque()))

    def open(self, name: bytes, flags: int | None = None, value: bytes = b"", datatype: int = 0) -> Emission:
        """Open the connection; the client says which role the *server* has."""
        if flags is None:
            flags = (PRODUCER if self.producer == SERVER else 0) | (DELETE_TIMES if self.delete_times else 0)
        request = self.frame(
            "open", fields={"open_flags": flags}, key=name, value=value, datatype=datatype, opaque=self.opaque()
        )
        return self.ask(CLIENT, request)

    def control(self, key: str, value: str, *, status: int = SUCCESS) -> Emission:
        """Set a parameter; the consumer's side does it."""
        request = self.frame("control", key=key.encode(), value=value.encode(), opaque=self.opaque())
        return self.ask(self.consumer, request, status=status)

    def ack(self, amount: int = ALL_THAT_ARRIVED, *, unheard: int = 0) -> Emission:
        """Give flow-control bytes back; the early dialect answers that."""
        early = self.dialect is Dialect.UPR
        frame = self.frame("buffer_ack", fields={"buffer_bytes": amount}, opaque=self.opaque())
        if early:
            frame.layout = "count as value"
            return self.ask(self.consumer, frame)
        return self.talk.send(self.consumer, frame, unheard=unheard)

    def noop(self) -> Emission:
        """Send a no-op and its answer."""
        self.next_noop += 1
        return self.ask(self.producer, self.frame("noop", opaque=(self.next_noop - 1).to_bytes(4, "little")))

    def failover_log(self, vbucket: int, log: Sequence[tuple[int, int]]) -> Emission:
        """Ask for a vbucket's failover log."""
        request = self.frame("get_failover_log", vbucket=vbucket, opaque=self.opaque())
        answer = self.frame("get_failover_log", response=True, value=pack_log(log))
        return self.ask(self.consumer, request, answer=answer)

    def request(
        self,
        vbucket: int,
        start: int = 0,
        end: int = NO_END,
        *,
        uuid: int = 0,
        snapshot: tuple[int, int] | None = None,
        flags: int = 0,
        opaque: bytes | None = None,
        stream_id: int | None = None,
        value: bytes = b"",
        unheard: int = 0,
    ) -> Stream:
        """Ask for a stream; nothing is answered yet: see :meth:`Stream.accept` and :meth:`Stream.refuse`."""
        low, high = snapshot if snapshot is not None else (start, start)
        fields = {"stream_flags": flags, "start_seqno": start, "end_seqno": end, "vbucket_uuid": uuid}
        if self.dialect is Dialect.UPR:
            fields["high_seqno"] = high
        else:
            fields |= {"snap_start_seqno": low, "snap_end_seqno": high}
        stream = Stream(self, vbucket, opaque or self.opaque(), start, end, stream_id, last=start, snap_end=low - 1)
        frame = stream.frame("stream_request", fields=fields, value=value)
        self.talk.send(self.consumer, frame, unheard=unheard)
        return stream

    def stream(
        self, vbucket: int, start: int = 0, end: int = NO_END, *, log: Sequence[tuple[int, int]] = (), **how: object
    ) -> Stream:
        """Ask for a stream and get it. ``log`` is the failover log, newest entry first."""
        stream = self.request(vbucket, start, end, **how)  # type: ignore[arg-type]
        stream.accept(log)
        return stream


@dataclass(slots=True, eq=False)
class Stream:
    """A vbucket's stream on a session."""

    session: Session
    vbucket: int
    opaque: bytes
    start: int
    end_seqno: int
    stream_id: int | None = None
    last: int = 0  #: seqno of the last item
    snap_end: int = 0  #: end of the last marker
    versions: dict[bytes, int] = field(default_factory=dict)  #: rev seqno of each key

    def frame(self, name: str, **attributes: object) -> Frame:
        """Make a frame of this stream."""
        framing = None if self.stream_id is None else [(STREAM_ID, self.stream_id.to_bytes(2, "big"))]
        return self.session.frame(
            name, **{"vbucket": self.vbucket, "opaque": self.opaque, "framing": framing, **attributes}
        )

    def produce(self, name: str, **attributes: object) -> Emission:
        """Send a message of the producer's."""
        return self.session.talk.send(self.session.producer, self.frame(name, **attributes))

    def _answer(self, name: str, **attributes: object) -> Emission:
        frame = self.session.frame(name, response=True, opaque=self.opaque, **attributes)
        return self.session.talk.send(self.session.producer, frame)

    def accept(self, log: Sequence[tuple[int, int]] = ()) -> Emission:
        """Answer the request with success and a failover log."""
        known = log or ((0xF00D_0000_0000_0000 + self.vbucket, 0),)
        return self._answer("stream_request", value=pack_log(known))

    def refuse(self, status: int, text: bytes = b"") -> Emission:
        """Answer the request with an error."""
        return self._answer("stream_request", status=status, value=text)

    def roll_back(self, seqno: int) -> Emission:
        """Answer the request with a rollback."""
        return self._answer("stream_request", status=ROLLBACK, fields={"rollback_seqno": seqno})

    def marker(self, start: int, end: int, flags: int = MEMORY, **more: int) -> Emission:
        """Announce a snapshot; ``more`` are fields of the later forms, such as ``max_visible_seqno``."""
        self.snap_end = end
        fields = {} if self.session.dialect is Dialect.UPR else {"snap_start_seqno": start, "snap_end_seqno": end}
        if fields:
            fields |= {"snapshot_type": flags, **more}
        return self.produce("snapshot_marker", fields=fields)

    def key(self, name: bytes, collection: int = 0) -> bytes:
        """Return a key as it is on this session's wire."""
        return leb128(collection) + name if self.session.collections else name

    def _item(
        self, name: str, seqno: int, key: bytes, collection: int, own: dict[str, int], **attributes: object
    ) -> Emission:
        self.last = seqno
        wire_key = self.key(key, collection)
        revised = self.versions.get(wire_key, 0) + 1
        self.versions[wire_key] = revised
        self.session.cas += 0x10000
        fields = {"by_seqno": seqno, "rev_seqno": revised, **own}
        attributes.setdefault("cas", self.session.cas)
        return self.produce(name, fields=fields, key=wire_key, **attributes)

    def mutation(
        self, seqno: int, key: bytes, value: bytes = b"{}", *, collection: int = 0, datatype: int = 0, **own: int
    ) -> Emission:
        """Send a mutation."""
        return self._item("mutation", seqno, key, collection, own, value=value, datatype=datatype)

    def deletion(
        self, seqno: int, key: bytes, *, collection: int = 0, value: bytes = b"", datatype: int = 0, **own: int
    ) -> Emission:
        """Send a deletion: 21 bytes of extras where delete times were agreed upon, or collections."""
        if self.session.delete_times or self.session.collections:
            own = {"delete_time": 1_660_000_000, **own}
        return self._item("deletion", seqno, key, collection, own, value=value, datatype=datatype)

    def expiration(self, seqno: int, key: bytes, *, collection: int = 0, **own: int) -> Emission:
        """Send an expiration."""
        if self.session.delete_times or self.session.collections:
            own = {"delete_time": 1_660_000_000, **own}
        return self._item("expiration", seqno, key, collection, own)

    def prepare(self, seqno: int, key: bytes, value: bytes = b"{}", *, collection: int = 0, **own: int) -> Emission:
        """Send a prepare."""
        return self._item("prepare", seqno, key, collection, {"durability_level": 1, **own}, value=value)

    def complete(self, name: str, seqno: int, prepared: int, key: bytes, *, collection: int = 0) -> Emission:
        """Send a ``commit`` or an ``abort``."""
        self.last = seqno
        fields = {"prepared_seqno": prepared, f"{name}_seqno": seqno}
        return self.produce(name, fields=fields, key=self.key(key, collection))

    def advance(self, seqno: int) -> Emission:
        """Send a seqno advanced."""
        self.last = seqno
        return self.produce("seqno_advanced", fields={"by_seqno": seqno})

    def event(self, seqno: int, event: int, version: int = 0, key: bytes = b"", value: bytes = b"") -> Emission:
        """Send a system event."""
        self.last = seqno
        fields = {"by_seqno": seqno, "event": event, "event_version": version}
        return self.produce("system_event", fields=fields, key=key, value=value)

    def bracket(self, flags: int) -> Emission:
        """Begin (1) or end (2) an out-of-order snapshot."""
        return self.produce("oso_snapshot", fields={"oso_flags": flags})

    def acknowledge(self, seqno: int, *, unheard: int = 0) -> Emission:
        """Tell the producer which prepares are on this replica."""
        frame = self.frame("seqno_acknowledged", fields={"prepared_seqno": seqno})
        return self.session.talk.send(self.session.consumer, frame, unheard=unheard)

    def state(self, state: int) -> Emission:
        """Set the vbucket's state on the other side, and have it confirmed."""
        return self.session.ask(self.session.producer, self.frame("set_vbucket_state", fields={"vbucket_state": state}))

    def confirm_marker(self) -> Emission:
        """Confirm a marker that asked for it."""
        frame = self.session.frame("snapshot_marker", response=True, opaque=self.opaque)
        return self.session.talk.send(self.session.consumer, frame)

    def close(self, *, unheard: int = 0, status: int = SUCCESS) -> Emission:
        """Close the stream, as the consumer."""
        asked = self.session.talk.send(self.session.consumer, self.frame("close_stream"), unheard=unheard)
        self._answer("close_stream", status=status)
        return asked

    def end(self, reason: int = REASON_OK) -> Emission:
        """End the stream, as the producer."""
        return self.produce("stream_end", fields={"end_reason": reason})

    def snapshot(
        self,
        first: int,
        last: int,
        flags: int = MEMORY,
        *,
        start: int | None = None,
        prefix: bytes = b"key",
        **more: int,
    ) -> list[Emission]:
        """Send a marker and one mutation for each seqno; return all of them."""
        sent = [self.marker(first if start is None else start, last, flags, **more)]
        return sent + [self.mutation(seqno, b"%s-%d" % (prefix, seqno)) for seqno in range(first, last + 1)]


def pack_log(log: Sequence[tuple[int, int]]) -> bytes:
    """Write a failover log."""
    return pack_records(FAILOVER_ENTRY, [{"vbucket_uuid": uuid, "seqno": seqno} for uuid, seqno in log])
