"""State of one connection: which side produces, what was agreed upon, which requests wait for an answer.

Plain records, without rows or batches; the request tracker and its readers fill them in.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.context.codes import UnknownReason
from dissector.frames.pairing import PendingRequests, Request
from dissector.spec import enums

if TYPE_CHECKING:
    from analysis.context.frame_refs import Ref

#: A hostile capture must not fill the memory: of each kind so many are remembered per connection.
MAX_WAITING = 8192

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
    """A response without a request, kept until the capture has everything that its sender had received."""

    opcode: int
    opaque: int
    side: int
    status: int
    acked: int
    ref: Ref
    first: Ref | None  #: the request of this opcode and opaque that was answered before
    features: tuple[int, ...] = ()
    key: int | None = None  #: of the stream that its opaque belongs to
    harmless: bool = False  #: without a request it is an answer to data


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
    last_gap: list[int] = field(default_factory=lambda: [0, 0])  #: by side, the first row after the last loss
    overflowed: bool = False  #: something was not kept because there was no room
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
    reached: dict[int, Ref] = field(default_factory=dict)  #: key of a stream to the item that reached its end
    #: Vbucket to the add stream in progress, and to its last stream request that carries out none.
    added: OrderedDict[int, PendingRequest] = field(default_factory=OrderedDict)
    unlinked: OrderedDict[int, AddStreamLink] = field(default_factory=OrderedDict)
    byte_order: int = 0  #: opaques in add stream answers: 1 as in the header, 2 byte-reversed
    byte_order_ref: Ref | None = None  #: the first answer that shows it

    def remember(self, table: OrderedDict[Any, Any], key: object, what: object) -> None:
        """Keep an entry; the oldest one goes if there are too many."""
        table[key] = what
        table.move_to_end(key)
        if len(table) > MAX_WAITING:
            table.popitem(last=False)

    def wait(self, key: tuple[int, int, int], request: PendingRequest) -> bool:
        """Let a request wait for its answer; tell whether there was room."""
        return self._add(self.pending, key, request)

    def answer(self, key: tuple[int, int, int]) -> PendingRequest | None:
        """Return the request that an answer belongs to: the oldest that waits."""
        return self.pending.take(key)

    def keep_unmatched(self, key: tuple[int, int, int], unmatched: UnmatchedResponse) -> bool:
        """Let an answer wait for its request; tell whether there was room."""
        return self._add(self.unmatched, key, unmatched)

    def match_late_request(self, key: tuple[int, int, int], end_offset: int) -> UnmatchedResponse | None:
        """Return the answer to a request that the capture has after its answer; None: there is none."""
        unmatched = self.unmatched.first(key)
        # The sender had received the request when it answered: only the capture has them the wrong way round.
        if unmatched is None or unmatched.acked < end_offset:
            return None
        return self.unmatched.take(key)

    def _add(self, table: PendingRequests[Request], key: tuple[int, int, int], what: Request) -> bool:
        if table.add(key, what):
            return True
        self.overflowed = True
        return False

    def lost(self, since: int = 0) -> UnknownReason:
        """Return why something may be missing, from either direction since a row; KNOWN: nothing is."""
        if not self.opened:
            return UnknownReason.START
        if max(self.last_gap) > since:
            return UnknownReason.GAP
        return UnknownReason.LIMIT if self.overflowed else UnknownReason.KNOWN
