"""What is remembered of a connection: who plays which part, what was agreed upon, what waits for an answer."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.spec import enums

if TYPE_CHECKING:
    from analysis.context.refs import Ref

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
class Asked:
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
    overdue: bool = False  #: and reported
    links: list[tuple[int, int, Ref]] = field(default_factory=list)  #: add stream: opaque, flags and request of each 53


@dataclass(slots=True, eq=False)
class Orphan:
    """An answer to nothing, until all that its sender had heard has been seen."""

    opcode: int
    opaque: int
    side: int
    status: int
    acked: int
    ref: Ref
    repeated: bool
    first: Ref | None


@dataclass(slots=True, eq=False)
class Closing:
    """A stream that the producer agreed to close."""

    key: int
    ref: Ref  #: the answer
    request: Ref
    vbucket: int
    stream_id: int
    announced: bool  #: a stream end was agreed upon


@dataclass(slots=True, eq=False)
class Talk:
    """One connection."""

    number: int
    opened: int = 0  #: ordinal of the open; 0: not captured
    producer: int = -1  #: side
    since: int = 0  #: era as a number: 6.5 is 605
    agreed: int = 0
    window: int = -1  #: accepted connection_buffer_size; -1: none
    doubt: list[int] = field(default_factory=lambda: [0, 0])  #: by side, ordinal of the last unexplained row
    waiting: dict[tuple[int, int, int], deque[Asked]] = field(default_factory=dict)  #: (side, opcode, opaque)
    order: OrderedDict[int, Asked] = field(default_factory=OrderedDict)  #: by ordinal, those with a time limit
    answered: OrderedDict[tuple[int, int, int], Ref] = field(default_factory=OrderedDict)
    orphans: list[Orphan] = field(default_factory=list)
    live: dict[int, int] = field(default_factory=dict)  #: stream key to instance
    over: set[int] = field(default_factory=set)  #: keys of streams that ended or were closed
    opaques: OrderedDict[int, int] = field(default_factory=OrderedDict)  #: of streams, to a stream key
    closing: dict[int, Closing] = field(default_factory=dict)
    reached: dict[int, Ref] = field(default_factory=dict)  #: stream keys that are at their end, and wait for the word
    added: dict[int, Asked] = field(default_factory=dict)  #: vbucket to the add stream in progress
    variant: int = 0  #: add stream answers: 1 as in the header, 2 byte-reversed

    def remember(self, table: OrderedDict[tuple[int, int, int], Ref], key: tuple[int, int, int], ref: Ref) -> None:
        """Keep a reference, and not too many."""
        table[key] = ref
        table.move_to_end(key)
        if len(table) > MAX_WAITING:
            table.popitem(last=False)
