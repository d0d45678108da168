"""The records that tasks hand on about conversations that cross splits: notes of the prescan, and checkpoints.

Knows the records and how they become rows; ``prescan`` makes notes, ``stitch`` turns them into checkpoints.

The prescan sees one split. It knows all of a connection that begins there with a SYN. Of any other it doesn't know the
offsets, so it follows a stand-in whose offsets count from :data:`UNSYNCED_OFFSET`, and records for each direction the
segments before the :class:`SyncPoint`: the *head*. After the sync point the prescan's state differs from the true one
only by a constant offset, so its end state is enough.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from dissector.tcp.connections import Connection, TcpSegment
    from dissector.tcp.framing import Framer
    from dissector.tcp.packet_marks import Mark
    from dissector.tcp.reassembly import HalfConnection

#: First offset of a connection that the prescan joins midway: far from 0, so that acknowledgements of older bytes don't
#: reach it, and a multiple of 2^32, so that sequence numbers are unchanged.
UNSYNCED_OFFSET = 1 << 40
#: In place of a direction in :class:`DialectHint`: from here on only HELLOs are listed, as nothing else can change the
#: dialect.
DIALECT_DECIDED = -1
#: From here on only HELLOs and frames that decide the dialect are listed, as a dialect of UPR is likely.
DIALECT_LIKELY = -2
_WRAP = 1 << 32


class RecordKind(IntEnum):
    """What a row is about."""

    SPLIT = 0  #: a split; every split has one such row
    FRAGMENT = 1  #: a packet that is a fragment of an IP datagram
    NOTES = 2  #: what the prescan knows of a conversation in a split
    LOST = 3  #: a conversation that the prescan dropped, because of a limit of its task
    CHECKPOINT = 4  #: state of a conversation at the start of a split (if any); later splits have it too
    LAST_CHECKPOINT = 5  #: the same where no later split has the conversation
    FALLBACK = 6  #: a conversation that can't be stitched: its segments are shuffled
    FRAME_COUNT = 7  #: how many frames of some conversations a split releases
    END_COUNT = 8  #: how many frames of a conversation the end of the run releases, and what orders them


#: From the prescan to stitching, sorted by :data:`NOTES_ORDER`.
NOTES = pa.schema(
    [
        ("partition", pa.int32()),  # of stitching
        ("conversation", pa.binary()),  # empty: a fragment or a split
        ("packet", pa.int64()),  # ordinal in the run: of the fragment, or of the conversation's first segment here
        ("split", pa.int64()),
        ("kind", pa.int8()),
        ("body", pa.binary()),
    ]
)
NOTES_ORDER = ("partition", "conversation", "packet", "kind")
#: From stitching to the decoders of splits.
CHECKPOINTS = pa.schema(
    [
        ("split", pa.int64()),
        ("kind", pa.int8()),
        ("conversation", pa.binary()),
        ("body", pa.binary()),
    ]
)


class HeadSegment(NamedTuple):
    """A segment before a sync point, and the prescan's state after it."""

    segment: TcpSegment
    side: int
    acked: int  #: bytes that its direction has acknowledged, by the prescan's count
    other_next: int  #: offset of the other direction's next byte, by the prescan's count


class SyncState(NamedTuple):
    """What decides how a direction goes on, whatever its offsets: two directions that agree in this go on alike."""

    sequence: int  #: number of the next byte
    buffer: bytes  #: the bytes of the next frame that are there
    marks: tuple[Mark, ...]  #: packets of these bytes, with offsets relative to the next byte
    forced: bool
    searched: int | None


class Counts(NamedTuple):
    """Counters of a direction."""

    next: int
    delivered: int
    lost: int
    gaps: int
    repeated: int
    conflicting: int
    frames: int
    skipped: int


class SyncPoint(NamedTuple):
    """Where a direction is in sync: the next frame begins at a known byte, and no earlier byte is missing."""

    packet: int  #: the packet that brought the direction there
    state: SyncState
    counts: Counts


class DialectHint(NamedTuple):
    """A frame after a sync point that may tell the dialect."""

    packet: int  #: the packet that completed the frame
    side: int  #: or :data:`DIALECT_DECIDED` or :data:`DIALECT_LIKELY`
    data: bytes


@dataclass(slots=True)
class PrescanNotes:
    """The prescan's notes on a connection that began before the split."""

    first: TcpSegment
    head: list[HeadSegment] = field(default_factory=list)
    sync_points: list[SyncPoint | None] = field(default_factory=lambda: [None, None])
    given_up: list[bool] = field(default_factory=lambda: [False, False])
    """By direction: too many bytes came without a sync point, so its head is not kept."""
    hints: list[DialectHint] = field(default_factory=list)
    dialect_decided: bool = False
    """Whether the prescan knows the dialect: hints end with :data:`DIALECT_DECIDED`."""
    dialect_likely: bool = False
    """Whether the prescan has seen a dialect of UPR: hints have a :data:`DIALECT_LIKELY`."""
    syn_inside: bool = False
    """A SYN came after a sync point: only the true state tells what it is."""


class OpeningSyn(NamedTuple):
    """A SYN that begins a connection."""

    key: bytes
    sequence: int
    length: int
    """Of the data that it carries."""


@dataclass(slots=True)
class ConversationNotes:
    """What the prescan knows of a conversation in a split."""

    packet: int
    """The conversation's first packet in the split."""
    opening: OpeningSyn | None = None
    """SYN of the first connection that begins here; None: no connection does, or none can have been before it."""
    earlier_notes: PrescanNotes | None = None
    """Notes on the connection from earlier splits, ..."""
    earlier_state: Connection | None = None
    """... and its state, by the prescan's offsets, at the end of the split or where :attr:`opening` ended it."""
    state: Connection | None = None
    """State of the last connection that begins here."""
    began: int = 0
    """The packet that it began with."""
    frames: int = 0
    """Frames of all connections that begin here."""


@dataclass(slots=True)
class Checkpoint:
    """State of a conversation at the start of a split."""

    state: Connection
    began: int
    """The packet that the connection began with."""
    frames: int
    """Frames of the conversation so far."""


#: Body of a row of kind FRAME_COUNT (a count), and of kind END_COUNT (the packet that a connection began with, a
#: count).
FRAME_COUNT, END_COUNT = struct.Struct("<q"), struct.Struct("<qq")


def pack(record: ConversationNotes | Checkpoint) -> bytes:
    """Serialize a record."""
    return pickle.dumps(record, pickle.HIGHEST_PROTOCOL)


def unpack_notes(body: bytes) -> ConversationNotes:
    """Read what :func:`pack` made, in another task of the same job."""
    found = pickle.loads(body)  # noqa: S301 - only tasks of this job write these rows
    if not isinstance(found, ConversationNotes):
        raise TypeError(type(found))
    return found


def unpack_checkpoint(body: bytes) -> Checkpoint:
    """Read what :func:`pack` made, in another task of the same job."""
    found = pickle.loads(body)  # noqa: S301 - only tasks of this job write these rows
    if not isinstance(found, Checkpoint):
        raise TypeError(type(found))
    return found


def sync_state_of(direction: HalfConnection, framer: Framer) -> SyncState | None:
    """Return the sync state of a direction; None: it is not in sync."""
    if direction.base is None or direction.ack is None or direction.held or not framer.in_step:
        return None
    next_offset = direction.next
    # Only the last mark at or before the first buffered byte matters; drop earlier ones.
    marks = [mark._replace(offset=max(mark.offset, framer.position) - next_offset) for mark in framer.marks]
    first = max((index for index, mark in enumerate(marks) if mark.offset <= framer.position - next_offset), default=0)
    kept = tuple(marks[first:]) if framer.buffer else ()
    return SyncState((direction.base + next_offset) % _WRAP, bytes(framer.buffer), kept, framer.forced, framer.searched)


def sync_point_of(packet: int, direction: HalfConnection, framer: Framer) -> SyncPoint | None:
    """Return a sync point if a direction is in sync."""
    state = sync_state_of(direction, framer)
    return None if state is None else SyncPoint(packet, state, counts_of(direction, framer))


def counts_of(direction: HalfConnection, framer: Framer) -> Counts:
    """Return the counters of a direction."""
    return Counts(
        direction.next,
        direction.bytes_delivered,
        direction.bytes_lost,
        direction.gaps,
        direction.bytes_repeated,
        direction.bytes_conflicting,
        framer.frames,
        framer.bytes_skipped,
    )


def set_counts(direction: HalfConnection, framer: Framer, counts: Counts) -> None:
    """Set the counters of a direction, without the offset of its next byte, which is more than a counter."""
    direction.bytes_delivered, direction.bytes_lost, direction.gaps = counts.delivered, counts.lost, counts.gaps
    direction.bytes_repeated, direction.bytes_conflicting = counts.repeated, counts.conflicting
    framer.frames, framer.bytes_skipped = counts.frames, counts.skipped
