"""What is handed from task to task about talks that cross pieces of a run: notes of a scout, and checkpoints.

Knows the records and how they become rows. Must not know how notes are taken (``scouting``), what they are good for
(``stitching``), nor what a frame is.

A scout sees one piece. Of a talk that begins there with a SYN it knows all. Of any other it can't tell where in its
stream it is, so it follows a connection of its own making, whose offsets count from :data:`UNSYNCED_OFFSET`, and notes per
direction what came before its :class:`SyncPoint`: the *head*. Behind the anchor, whoever knows the connection from its
beginning needs nothing but where the scout ended: the rest is the same but for the offsets.
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
    from dissector.tcp.framing import Framer, Mark
    from dissector.tcp.reassembly import HalfConnection

#: Where offsets of a scout's own connections begin: far from 0, where acknowledgements of older bytes would end, and a
#: multiple of 2^32, so that sequence numbers are not touched.
UNSYNCED_OFFSET = 1 << 40
#: In the place of a direction: from here on only greetings are listed, as nothing else can change the dialect;
DIALECT_DECIDED = -1
#: or only those and what may settle it, as there is some dialect of UPR already.
DIALECT_LIKELY = -2
_WRAP = 1 << 32


class RecordKind(IntEnum):
    """What a row is about."""

    SPLIT = 0  #: a piece that is there
    FRAGMENT = 1  #: a packet that is a fragment of an IP datagram
    NOTES = 2  #: what a scout knows of a talk in its piece
    LOST = 3  #: a talk that its scout lost sight of
    CHECKPOINT = 4  #: the state of a talk where a piece begins, if it was there before, and it goes on behind it
    LAST_CHECKPOINT = 5  #: the same where no later piece has anything of it
    FALLBACK = 6  #: a talk that can't be stitched: its segments are shuffled
    FRAME_COUNT = 7  #: how many frames of some talks a piece releases
    END_COUNT = 8  #: how many frames the end of the run releases of a talk, and what orders them


#: From scouts to stitchers, sorted by :data:`NOTES_ORDER`.
NOTES = pa.schema(
    [
        ("partition", pa.int32()),  # which stitcher's
        ("conversation", pa.binary()),  # empty: a fragment or a piece
        ("packet", pa.int64()),  # ordinal in the run: of a fragment, or of the talk's first segment in the piece
        ("split", pa.int64()),
        ("kind", pa.int8()),
        ("body", pa.binary()),
    ]
)
NOTES_ORDER = ("partition", "conversation", "packet", "kind")
#: From stitchers to whoever decodes a piece.
CHECKPOINTS = pa.schema(
    [
        ("split", pa.int64()),
        ("kind", pa.int8()),
        ("conversation", pa.binary()),
        ("body", pa.binary()),
    ]
)


class HeadSegment(NamedTuple):
    """A segment from before an anchor, and where its connection was behind it by the scout's count."""

    segment: TcpSegment
    side: int
    acked: int  #: by its direction
    other_next: int  #: next byte of the other direction


class SyncState(NamedTuple):
    """What two connections have in common in a direction if they go on alike from here, whatever their offsets."""

    sequence: int  #: number of the next byte
    buffer: bytes  #: what is there of the next frame
    marks: tuple[Mark, ...]  #: of these bytes, with offsets from the next one
    forced: bool
    searched: int | None


class Counts(NamedTuple):
    """Counts of a direction."""

    next: int
    delivered: int
    lost: int
    gaps: int
    repeated: int
    conflicting: int
    frames: int
    skipped: int


class SyncPoint(NamedTuple):
    """A place where a direction is in step: the next frame begins at a known byte, and nothing waits for a hole."""

    packet: int  #: it came with this one
    state: SyncState
    counts: Counts


class DialectHint(NamedTuple):
    """A frame behind an anchor that may tell the dialect."""

    packet: int  #: that released it
    side: int  #: or :data:`DIALECT_DECIDED` or :data:`DIALECT_LIKELY`
    data: bytes


@dataclass(slots=True)
class PrescanNotes:
    """A scout's notes on a connection of its own making."""

    first: TcpSegment
    head: list[HeadSegment] = field(default_factory=list)
    sync_points: list[SyncPoint | None] = field(default_factory=lambda: [None, None])
    given_up: list[bool] = field(default_factory=lambda: [False, False])
    """By direction: too much came without an anchor. Its head is not kept."""
    hints: list[DialectHint] = field(default_factory=list)
    dialect_decided: bool = False
    dialect_likely: bool = False
    """Whether the dialect is, as far as the scout knows."""
    syn_inside: bool = False
    """Something came that can't be judged without knowing the connection."""


class OpeningSyn(NamedTuple):
    """A SYN that begins a connection."""

    key: bytes
    sequence: int


@dataclass(slots=True)
class ConversationNotes:
    """What a scout knows of a talk in its piece."""

    packet: int
    """The first one of the talk in the piece."""
    opening: OpeningSyn | None = None
    """Of the first connection that is known from its beginning; None: there is none, or none can have been before."""
    earlier_notes: PrescanNotes | None = None
    """Of the connection that was there before, and its state where the piece, or :attr:`opening`, ended it."""
    earlier_state: Connection | None = None
    state: Connection | None = None
    """Of the last connection that is known from its beginning."""
    began: int = 0
    """The packet that it began with."""
    frames: int = 0
    """Of all connections that are known from their beginnings."""


@dataclass(slots=True)
class Checkpoint:
    """A talk where a piece begins."""

    state: Connection
    began: int
    """The packet that it began with."""
    frames: int
    """Of the talk so far."""


#: Body of a row of kind FRAMES (a count), and of one of kind END (the packet that a connection began with, a count).
FRAME_COUNT, END_COUNT = struct.Struct("<q"), struct.Struct("<qq")


def pack(record: ConversationNotes | Checkpoint) -> bytes:
    """Make bytes of a record."""
    return pickle.dumps(record, pickle.HIGHEST_PROTOCOL)


def unpack_notes(body: bytes) -> ConversationNotes:
    """Read what :func:`pack` made, in another task of the same job."""
    found = pickle.loads(body)  # noqa: S301 - nobody else writes these rows
    if not isinstance(found, ConversationNotes):
        raise TypeError(type(found))
    return found


def unpack_checkpoint(body: bytes) -> Checkpoint:
    """Read what :func:`pack` made, in another task of the same job."""
    found = pickle.loads(body)  # noqa: S301 - nobody else writes these rows
    if not isinstance(found, Checkpoint):
        raise TypeError(type(found))
    return found


def sync_state_of(direction: HalfConnection, framer: Framer) -> SyncState | None:
    """Return where a direction is in step; None: it is not."""
    if direction.base is None or direction.ack is None or direction.held or not framer.settled:
        return None
    next_offset = direction.next
    # A mark counts from the byte on that it is asked for, and those before the last one of these never.
    marks = [mark._replace(offset=max(mark.offset, framer.position) - next_offset) for mark in framer.marks]
    first = max((index for index, mark in enumerate(marks) if mark.offset <= framer.position - next_offset), default=0)
    kept = tuple(marks[first:]) if framer.buffer else ()
    return SyncState((direction.base + next_offset) % _WRAP, bytes(framer.buffer), kept, framer.forced, framer.searched)


def sync_point_of(packet: int, direction: HalfConnection, framer: Framer) -> SyncPoint | None:
    """Return an anchor if a direction is in step."""
    state = sync_state_of(direction, framer)
    return None if state is None else SyncPoint(packet, state, counts_of(direction, framer))


def counts_of(direction: HalfConnection, framer: Framer) -> Counts:
    """Return the counts of a direction."""
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
    """Set the counts of a direction, but for its place, which is more than a count."""
    direction.bytes_delivered, direction.bytes_lost, direction.gaps = counts.delivered, counts.lost, counts.gaps
    direction.bytes_repeated, direction.bytes_conflicting = counts.repeated, counts.conflicting
    framer.frames, framer.bytes_skipped = counts.frames, counts.skipped
