"""What is remembered of a connection: who plays which part, what was agreed upon, what waits for an answer.

Plain records; the desk and its readers fill them in. Must not know rows or batches.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from dissector.frames.pairing import PendingRequests, Request
from dissector.spec import enums

if TYPE_CHECKING:
    from analysis.context.frame_refs import Ref

#: A hostile capture must not fill the memory: of each kind so many are remembered per connection.
MAX_WAITING = 8192

#: Why something stays undecided, as numbers in tables; 0: nothing is in doubt.
KNOWN, GAP, START, END, ONE_SIDED, LIMIT = range(6)

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
    instance: int = -1  #: that it is about
    marker_end: int = -1
    text: str = ""
    key: bytes = b""
    numbers: dict[str, int] = field(default_factory=dict)
    links: list[AddStreamLink] = field(default_factory=list)  #: add stream: the stream requests that carry it out


class AddStreamLink(NamedTuple):
    """A stream request that carries out an add stream."""

    opaque: int
    flags: int
    ref: Ref
    acked: int


@dataclass(slots=True, eq=False)
class UnmatchedResponse:
    """An answer to nothing, until all that its sender had heard has been seen."""

    opcode: int
    opaque: int
    side: int
    status: int
    acked: int
    ref: Ref
    first: Ref | None  #: the request of this opcode and opaque that was answered before
    features: tuple[int, ...] = ()
    key: int | None = None  #: of the stream that its opaque belongs to
    harmless: bool = False  #: if no request turns up, it may have answered something that is not remembered


@dataclass(slots=True, eq=False)
class PendingClose:
    """A stream that the producer agreed to close."""

    key: int
    ref: Ref  #: the answer
    request: Ref
    vbucket: int
    stream_id: int
    announced: bool  #: a stream end was agreed upon


@dataclass(slots=True, eq=False)
class ConnectionState:
    """One connection."""

    number: int
    opened: int = 0  #: ordinal of the open; 0: not captured
    producer: int = -1  #: side
    agreed: int = 0
    window: int = -1  #: accepted connection_buffer_size; -1: none
    doubt: list[int] = field(default_factory=lambda: [0, 0])  #: by side, ordinal of the last unexplained row
    crowded: bool = False  #: something was not remembered for want of room
    #: Requests by (side, opcode, opaque).
    pending: PendingRequests[PendingRequest] = field(default_factory=lambda: PendingRequests(MAX_WAITING))
    answered: OrderedDict[tuple[int, int, int], Ref] = field(default_factory=OrderedDict)
    #: Answers by the request that they miss.
    unmatched: PendingRequests[UnmatchedResponse] = field(default_factory=lambda: PendingRequests(MAX_WAITING))
    live: dict[int, int] = field(default_factory=dict)  #: stream key to instance
    over: set[int] = field(default_factory=set)  #: keys of streams that ended or were closed
    ended: dict[int, int] = field(default_factory=dict)  #: key of a stream to the ordinal of a stream end for it
    leaving: Counter[int] = field(default_factory=Counter)  #: vbuckets whose stream is being closed or handed over
    opaques: OrderedDict[int, int] = field(default_factory=OrderedDict)  #: of streams, to a stream key
    closing: dict[int, PendingClose] = field(default_factory=dict)
    reached: dict[int, Ref] = field(default_factory=dict)  #: stream keys that are at their end, and wait for the word
    added: OrderedDict[int, PendingRequest] = field(
        default_factory=OrderedDict
    )  #: vbucket to the add stream in progress
    unlinked: OrderedDict[int, AddStreamLink] = field(
        default_factory=OrderedDict
    )  #: vbucket to its last stream request
    variant: int = 0  #: opaques in add stream answers: 1 as in the header, 2 byte-reversed
    variant_ref: Ref | None = None  #: the first answer that shows it

    def remember(self, table: OrderedDict[Any, Any], key: object, what: object) -> None:
        """Keep something, and not too much."""
        table[key] = what
        table.move_to_end(key)
        if len(table) > MAX_WAITING:
            table.popitem(last=False)

    def wait(self, key: tuple[int, int, int], asked: PendingRequest) -> bool:
        """Let a request wait for its answer; tell whether there was room."""
        return self._add(self.pending, key, asked)

    def answer(self, key: tuple[int, int, int]) -> PendingRequest | None:
        """Return the request that an answer belongs to: the oldest that waits."""
        return self.pending.take(key)

    def leave_orphan(self, key: tuple[int, int, int], orphan: UnmatchedResponse) -> bool:
        """Let an answer wait for its request; tell whether there was room."""
        return self._add(self.unmatched, key, orphan)

    def adopt(self, key: tuple[int, int, int], end_offset: int) -> UnmatchedResponse | None:
        """Return the answer that a request belongs to, which the capture has before it."""
        orphan = self.unmatched.first(key)
        # Its receiver had the request when the answer was sent: only the capture has them the wrong way round.
        if orphan is None or orphan.acked < end_offset:
            return None
        return self.unmatched.take(key)

    def _add(self, table: PendingRequests[Request], key: tuple[int, int, int], what: Request) -> bool:
        if table.add(key, what):
            return True
        self.crowded = True
        return False

    def lost(self, since: int = 0) -> int:
        """Return whether something may be missing: from either direction, since a row."""
        if not self.opened:
            return START
        return GAP if max(self.doubt) > since else LIMIT if self.crowded else KNOWN
