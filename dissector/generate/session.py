"""The verbs that scenarios are written in: open, set parameters, ask for a stream, acknowledge, wait.

Knows what a well-behaved producer and consumer of each era put into their messages, and when a consumer gives bytes
back; must not know rules or faults. A :class:`Session` writes into one conversation; its streams write into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from dissector.generate.bucket import Bucket
from dissector.generate.conversation import CLIENT, SERVER
from dissector.generate.frame import ALL_THAT_ARRIVED, Frame
from dissector.generate.stream import (
    ACK,
    CHECKPOINT,
    DISK,
    HISTORY,
    MAY_DUPLICATE,
    MEMORY,
    REASON_CLOSED,
    REASON_OK,
    REASON_STATE,
    ROLLBACK,
    SUCCESS,
    Stream,
    pack_log,
)
from dissector.spec import enums
from dissector.spec.model import Dialect, Release

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from dissector.generate.conversation import Conversation, Emission

__all__ = [
    "ACK",
    "CHECKPOINT",
    "DELETE_TIMES",
    "DISK",
    "DISK_ONLY",
    "HISTORY",
    "MAY_DUPLICATE",
    "MEMORY",
    "NO_END",
    "PRODUCER",
    "REASON_CLOSED",
    "REASON_OK",
    "REASON_STATE",
    "ROLLBACK",
    "SUCCESS",
    "TAKEOVER",
    "TO_LATEST",
    "Session",
    "Stream",
    "pack_log",
]

NO_END = (1 << 64) - 1
TAKEOVER, DISK_ONLY, TO_LATEST = map(enums.STREAM_FLAGS.bit, ("takeover", "disk_only", "to_latest"))
PRODUCER = enums.OPEN_FLAGS.bit("producer")
DELETE_TIMES = enums.OPEN_FLAGS.bit("include_delete_times")
SECOND = 1_000_000_000
_ERA = Release(7)
_WINDOW = "connection_buffer_size"
_ACK_SHARE = 5  #: a consumer gives bytes back when more than a fifth of the window has arrived
_ACK_AFTER_NS = 5 * SECOND  #: or when nothing came for so long


@dataclass(slots=True, eq=False)
class Session:
    """One UPR/DCP connection being written: who produces, what was agreed upon, what number comes next."""

    conversation: Conversation
    chance: random.Random
    dialect: Dialect = Dialect.DCP
    era: Release = _ERA
    producer: int = SERVER  #: the side that produces
    collections: bool = False
    sync_writes: bool = False
    delete_times: bool = False
    next_opaque: int = 1
    next_noop: int = 10_000_001
    bucket: Bucket = field(default_factory=Bucket)
    acking: bool = False  #: the consumer gives bytes back by itself, as servers do
    in_flight: int = 0  #: how many of the consumer's last messages are still on their way to the producer
    answering: bool = False  #: the consumer answers each message of a stream, as the early ones did
    window: int = 0  #: the flow-control window that was agreed upon
    outstanding: int = 0  #: bytes that the producer sent and did not get back
    noop_interval_ns: int = 0
    clock_ns: int = 0  #: time since the beginning of the conversation
    last_noop_ns: int = 0
    pending_ns: int = 0  #: how long it is silent before the next message

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

    def send(self, side: int, frame: Frame, *, unheard: int = 0) -> Emission:
        """Send a message; a consumer that acknowledges by itself does so when it is time."""
        if side == self.producer:
            unheard = unheard or self.in_flight
        emission = self.conversation.send(side, frame, unheard=unheard, pause_ns=self.pending_ns or None)
        self.pending_ns = 0
        self.clock_ns += emission.pause_ns
        if side == self.producer and not frame.response and frame.message.flow is not None:
            self.outstanding += frame.flow_bytes
            if self.acking and self.window and self.outstanding * _ACK_SHARE > self.window:
                self.ack()
        return emission

    def ask(self, side: int, request: Frame, *, status: int = SUCCESS, answer: Frame | None = None) -> Emission:
        """Send a request and its answer; return the request."""
        asked = self.send(side, request)
        if answer is None:
            answer = self.frame(request.name, response=True, status=status)
        answer.opaque = request.opaque
        self.send(1 - side, answer)
        return asked

    def hello(self, features: Sequence[int], agent: bytes = b"uprscope") -> Emission:
        """Ask for HELLO features; all are granted."""
        wanted = b"".join(feature.to_bytes(2, "big") for feature in features)
        self.collections = self.collections or enums.COLLECTIONS_FEATURE in features
        self.conversation.notes["collections"] = self.collections
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
        asked = self.ask(self.consumer, request, status=status)
        if status == SUCCESS:
            self.heed(key, value)
        return asked

    def heed(self, key: str, value: str) -> None:
        """Do from now on what an accepted parameter says."""
        if key == _WINDOW:
            self.window = int(value)
        elif key == "set_noop_interval":
            self.noop_interval_ns = int(float(value) * SECOND)
            self.last_noop_ns = self.clock_ns

    def ack(self, amount: int = ALL_THAT_ARRIVED, *, unheard: int = 0) -> Emission:
        """Give flow-control bytes back; the early dialect answers that."""
        early = self.dialect is Dialect.UPR
        self.outstanding = 0 if amount == ALL_THAT_ARRIVED else max(0, self.outstanding - amount)
        if amount == ALL_THAT_ARRIVED and unheard:
            sent = (each.frame for each in reversed(self.conversation.emissions) if each.side == self.producer)
            self.outstanding = sum(frame.flow_bytes for frame in islice(sent, unheard))
        frame = self.frame("buffer_ack", fields={"buffer_bytes": amount}, opaque=self.opaque())
        if early:
            frame.layout = "count as value"
            return self.ask(self.consumer, frame)
        return self.send(self.consumer, frame, unheard=unheard)

    def noop(self) -> Emission:
        """Send a no-op and its answer."""
        self.next_noop += 1
        asked = self.ask(self.producer, self.frame("noop", opaque=(self.next_noop - 1).to_bytes(4, "little")))
        self.last_noop_ns = self.clock_ns
        return asked

    def idle(self, seconds: float) -> None:
        """Have nothing to say for a while: what arrived is acknowledged, and no-ops go on."""
        until = self.clock_ns + int(seconds * SECOND)
        if self.acking and self.window and self.outstanding and self.clock_ns + _ACK_AFTER_NS < until:
            self.pending_ns = _ACK_AFTER_NS
            self.ack()
        while self.noop_interval_ns and self.last_noop_ns + self.noop_interval_ns <= until:
            self.pending_ns = max(1, self.last_noop_ns + self.noop_interval_ns - self.clock_ns)
            self.noop()
        self.pending_ns = max(0, until - self.clock_ns)

    def keep_alive(self) -> None:
        """Send a no-op if it is time for one; data does not put it off."""
        if self.noop_interval_ns and self.clock_ns - self.last_noop_ns >= self.noop_interval_ns:
            self.noop()

    def failover_log(self, vbucket: int, log: Sequence[tuple[int, int]] = ()) -> Emission:
        """Ask for a vbucket's failover log."""
        request = self.frame("get_failover_log", vbucket=vbucket, opaque=self.opaque())
        value = pack_log(log or self.bucket.vbucket(vbucket).log)
        return self.ask(self.consumer, request, answer=self.frame("get_failover_log", response=True, value=value))

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
        stream = Stream(
            self, vbucket, opaque or self.opaque(), start, end, stream_id, last=start, snap_end=low - 1, snap_start=low
        )
        # A request names its stream id in the value; framing extras come with what follows it.
        frame = stream.frame("stream_request", fields=fields, value=value, framing=None)
        self.send(self.consumer, frame, unheard=unheard)
        return stream

    def stream(
        self, vbucket: int, start: int = 0, end: int = NO_END, *, log: Sequence[tuple[int, int]] = (), **how: object
    ) -> Stream:
        """Ask for a stream and get it. ``log`` is the failover log, newest entry first."""
        stream = self.request(vbucket, start, end, **how)  # type: ignore[arg-type]
        stream.accept(log)
        return stream
