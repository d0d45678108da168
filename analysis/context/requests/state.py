"""State of one connection: which side produces, what was agreed upon, which requests wait for an answer.

Plain records, without rows or batches; the request tracker and its readers fill them in.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.context.codes import UnknownReason
from analysis.context.requests.hidden import HiddenBytes
from analysis.context.requests.opening import OpenState
from dissector.frames import stream_key as keys
from dissector.frames.pairing import PendingRequests
from dissector.spec import enums
from dissector.spec.registry import HEADER_SIZE

if TYPE_CHECKING:
    from analysis.context.frame_refs import Ref
    from analysis.context.requests.handovers import Handover

#: A hostile capture must not fill the memory: of each kind so many are remembered per connection.
MAX_WAITING = 8192
#: 3.0 sends no-ops every 180 s, from 3.0.2 on it is 20 s: without an agreement it may be either.
DEFAULT_INTERVAL_NS = 180 * 10**9

#: What can be agreed upon, a bit each: control parameters by name, HELLO features, and open flags.
AGREEMENTS: tuple[str, ...] = (
    "enable_noop",
    "enable_ext_metadata",
    "enable_value_compression",
    "force_value_compression",
    "send_stream_end_on_client_close_stream",
    "enable_expiry_opcode",
    "enable_stream_id",
    "enable_sync_writes",
    "consumer_name",
    "enable_out_of_order_snapshots",
    "v7_dcp_status_codes",
    "flatbuffers_system_events",
    "change_streams",
    "max_marker_version",
    "cache_transfer",
    "hello_xattr",
    "hello_snappy",
    "hello_json",
    "hello_collections",
    *(f"open_{flag.name}" for flag in enums.OPEN_FLAGS.members),
)
_BITS = {name: 1 << index for index, name in enumerate(AGREEMENTS)}
FEATURE_BITS = {
    feature.value: _BITS[f"hello_{feature.name}"]
    for feature in enums.FEATURES.members
    if f"hello_{feature.name}" in _BITS
}


#: Every agreement, those that an open makes, and those that a control makes.
ALL_AGREEMENTS = (1 << len(AGREEMENTS)) - 1
OPEN_AGREEMENTS = sum(bit for name, bit in _BITS.items() if name.startswith("open_"))
CONTROL_AGREEMENTS = sum(bit for name, bit in _BITS.items() if not name.startswith(("hello_", "open_")))


def bit(name: str) -> int:
    """Return the bit of something that can be agreed upon."""
    return _BITS[name]


def control_bit(name: str) -> int:
    """Return the bit of a control parameter; 0 for those that no rule asks about."""
    return 0 if name.startswith(("hello_", "open_")) else _BITS.get(name, 0)


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request that waits for its answer."""

    opcode: int
    ref: Ref
    end_offset: int
    vbucket: int = -1
    stream_id: int = 0
    opaque: int = 0
    marker_end: int = -1
    ranged: bool = False  #: stream request: it tells the snapshot that the client is in
    text: str = ""
    key: bytes = b""
    numbers: dict[str, int] = field(default_factory=dict)
    links: list[AddStreamLink] = field(default_factory=list)  #: add stream: the stream requests that carry it out
    maybe_answered: bool = False  #: the answer may be in bytes that were lost
    answered: bool = False
    misanswered: bool = False  #: a no-op: it was answered with another opaque
    answer_end: int = -1  #: where its answer ends, in the other side's bytes
    overtaken: bool = False  #: a request that came after it was answered, and no answer can have been lost before
    reported: bool = False  #: that its answer is overdue
    unreadable: bool = False  #: what it asks for is not known: a part was not captured, or it may be another's answer
    draft: bool = False


class AddStreamLink(NamedTuple):
    """A stream request that carries out an add stream."""

    opaque: int
    flags: int
    ref: Ref
    acked: int


@dataclass(frozen=True, slots=True, eq=False)
class ReplyToData:
    """An answer to a message of a stream, and what was known when it came."""

    index: int  #: row of the batch
    connection: int
    ref: Ref
    opcode: int
    opaque: int
    status: int
    acked: int  #: what its sender had received
    key: int | None  #: of the stream that was granted with its opaque
    is_upr: bool
    repeated: bool  #: a request with this opcode and opaque was answered before
    leaving: frozenset[int]  #: vbuckets whose stream is over, being closed or handed over
    lost_row: int  #: the last row before which an end of the stream may have been lost; 0: none
    lost_acked: int  #: what the sender of the reply had received when a close of it may have been lost; -1: none was
    refused_marker: bool  #: it or one before it refuses a marker
    unopened: bool  #: the beginning of the connection was not captured
    unknown: int  #: why it is not certain that it was not asked for


@dataclass(slots=True, eq=False)
class PendingClose:
    """A stream that the producer agreed to close."""

    key: int
    ref: Ref  #: the answer
    request: Ref
    vbucket: int
    stream_id: int
    announced: bool  #: a stream end was agreed upon
    unsure: bool  #: or was it? what was agreed upon is not known


@dataclass(slots=True, eq=False)
class NoopState:
    """What is remembered of a connection's no-ops."""

    interval_ns: int = DEFAULT_INTERVAL_NS
    unsure: bool = False  #: another interval may have been agreed upon
    first_due: int = 0  #: the first row with no-ops on and a stream there; 0: not yet
    due: Ref | None = None  #: from when on the next one is due; None: one waits for its answer, or none is due
    last: PendingRequest | None = None
    lost_bytes: int = 0  #: of its sender, up to it


@dataclass(slots=True, eq=False)
class ConnectionState:
    """One connection."""

    number: int
    opened: int = 0  #: ordinal of the open; 0: not captured
    producer: int = -1  #: side
    agreed: int = 0
    doubted: int = 0  #: of what can be agreed upon, that of which an answer may have been lost
    hello_seen: int = 0  #: the features that a HELLO has settled: all, or none
    refused: int = 0  #: controls that were refused, and not granted since
    refusals: dict[int, Ref] = field(default_factory=dict)  #: agreement to the answer that refused it
    opening: OpenState = field(default_factory=OpenState)
    window: int = -1  #: accepted connection_buffer_size; -1: none
    window_unsure: bool = False  #: another size may have been accepted
    hidden: tuple[HiddenBytes, HiddenBytes] = field(default_factory=lambda: (HiddenBytes(), HiddenBytes()))  #: by side
    received: list[int] = field(default_factory=lambda: [-1, -1])  #: by side: what it had received of the other one
    #: By side: the first row from which on a stream may have begun that nobody saw begin; 0: none.
    unseen_streams: list[int] = field(default_factory=lambda: [0, 0])
    unseen_close: list[int] = field(default_factory=lambda: [0, 0])  #: by side: the last close of a stream unknown
    begun: list[bool] = field(default_factory=lambda: [False, False])  #: by side: its first byte was captured
    overflowed: bool = False  #: something was not kept because there was no room
    #: Requests by (side, opcode, opaque).
    pending: PendingRequests[PendingRequest] = field(default_factory=lambda: PendingRequests(MAX_WAITING))
    fresh: tuple[deque[PendingRequest], deque[PendingRequest]] = field(
        default_factory=lambda: (deque(), deque())
    )  #: by side: those of which no loss can have the answer yet
    answered: OrderedDict[tuple[int, int, int], Ref] = field(default_factory=OrderedDict)
    refused_markers: OrderedDict[tuple[int, int], None] = field(default_factory=OrderedDict)  #: by side and opaque
    #: Of the answered, the keys of which it is not known which request was answered.
    ambiguous: OrderedDict[tuple[int, int, int], None] = field(default_factory=OrderedDict)
    live: dict[int, int] = field(default_factory=dict)  #: stream key to instance
    over: set[int] = field(default_factory=set)  #: keys of streams that ended or were closed
    ended: dict[int, int] = field(default_factory=dict)  #: key of a stream to the ordinal of a stream end for it
    leaving: Counter[int] = field(default_factory=Counter)  #: vbuckets whose stream is being closed or handed over
    opaques: OrderedDict[int, int] = field(default_factory=OrderedDict)  #: of streams, to a stream key
    closing: dict[int, PendingClose] = field(default_factory=dict)
    #: Stream key to what its consumer was asked to confirm.
    handovers: OrderedDict[int, Handover] = field(default_factory=OrderedDict)
    noops: NoopState = field(default_factory=NoopState)
    reached: dict[int, Ref] = field(default_factory=dict)  #: key of a stream to the item that reached its end
    #: Vbucket to the add stream in progress, and to its last stream request that carries out none.
    added: OrderedDict[int, PendingRequest] = field(default_factory=OrderedDict)
    byte_order: int = 0  #: opaques in add stream answers: 1 as in the header, 2 byte-reversed
    byte_order_ref: Ref | None = None  #: the first answer that shows it

    @property
    def unsure(self) -> int:
        """Return that of which it is not known whether it was agreed upon."""
        return self.doubted if self.opened else ALL_AGREEMENTS

    def leaving_vbuckets(self, vbucket: int | None) -> frozenset[int]:
        """Return the vbuckets whose streams are over, being closed or handed over; of one, or of all."""
        over = {keys.vbucket_of(key) for key in self.over}
        if vbucket is not None:
            return frozenset((vbucket,) if vbucket in over or self.leaving[vbucket] > 0 else ())
        return frozenset(over | {each for each, count in self.leaving.items() if count > 0})

    def remember(self, table: OrderedDict[Any, Any], key: object, what: object) -> None:
        """Keep an entry; the oldest one goes if there are too many."""
        table[key] = what
        table.move_to_end(key)
        if len(table) > MAX_WAITING:
            table.popitem(last=False)

    def wait(self, key: tuple[int, int, int], request: PendingRequest) -> bool:
        """Let a request wait for its answer; tell whether there was room."""
        if not self.pending.add(key, request):
            self.overflowed = True
            return False
        side = request.ref.side
        # The other side had received it before some row that was read already: it may have been answered there.
        request.maybe_answered = self.received[1 - side] >= request.end_offset >= 0
        if not request.maybe_answered:
            fresh = self.fresh[side]
            while fresh and fresh[0].answered:
                fresh.popleft()
            fresh.append(request)
        return True

    def answer(self, key: tuple[int, int, int]) -> PendingRequest | None:
        """Return the request that an answer belongs to: the oldest that waits.

        Where the oldest may have been answered before, and another one waits, it can be either: the newest is taken.
        """
        request = self.pending.take(key)
        while request is not None and request.maybe_answered and key in self.pending:
            request = self.pending.take(key)
            if request is not None:
                request.unreadable = True
            self.remember(self.ambiguous, key, None)
        if request is not None:
            request.answered = True
        return request

    def unasked(self, side: int, opcode: int, opaque: int, acked: int) -> UnknownReason:
        """Return why it is not certain that a side, of which so much was received, made no such request."""
        hidden = self.hidden[side]
        if self.overflowed:
            return UnknownReason.LIMIT
        if acked < HEADER_SIZE:  # an answer to nothing: the other side's offsets do not count from its beginning
            return UnknownReason.ONE_SIDED
        if (side, opcode, opaque) in self.ambiguous:
            return UnknownReason.GAP
        if not hidden.may_hide(opcode, opaque, acked, begun=self.opened > 0):
            return UnknownReason.KNOWN
        return UnknownReason.GAP if self.opened else UnknownReason.START
