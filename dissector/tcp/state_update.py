"""Writes the results of the fast path back into connections: the state that the sequential engine would leave.

Knows acknowledgements, unfinished frames and the order of last use; ``fast_path`` finds the frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dissector.link.segment_block import FIN, RST
from dissector.tcp.connections import Connection, packet_ordinal
from dissector.tcp.ignored_bytes import count_in_order, count_segment
from dissector.tcp.packet_marks import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.array_types import Ints, Longs
    from dissector.link.segment_block import SegmentBlock
    from dissector.tcp.connections import Connections
    from dissector.tcp.framing import Framer
    from dissector.tcp.reassembly import HalfConnection


_MASK = 0xFFFFFFFF
_HALF = 1 << 31


@dataclass(slots=True, eq=False)
class FastFlow:
    """A direction on the fast path: its rows among the sorted segments, and its place in the assembled bytes."""

    connection: Connection
    side: int
    direction: HalfConnection
    framer: Framer
    begin: int
    end: int
    bytes_repeated: int = 0
    stream_begin: int = 0
    stream_stop: int = 0
    stream_end: int = 0
    frames: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class IgnoredFlow:
    """A direction of a connection of another protocol, and its place among the flows."""

    place: int
    connection: Connection
    side: int


@dataclass(frozen=True, slots=True, eq=False)
class SortedSegments:
    """The segments of a block sorted by flow."""

    block: SegmentBlock
    order: Longs
    """Index of each in the block."""
    flow: Ints
    length: Longs
    first: Longs
    """Of each flow: the place of its first segment,"""
    ends: Longs
    """and the one after its last."""


@dataclass(frozen=True, slots=True, eq=False)
class BufferParts:
    """What the assembled bytes are made of; see :class:`dissector.tcp.stream_buffer.Assembly`."""

    rows: Longs
    """Place among the sorted segments; of a flow's tail: their number and the flow's."""
    ends: Longs
    origins: Longs
    """Of each flow: the offset in its direction of its first byte here."""


def acknowledged(segments: SortedSegments, acking: Sequence[tuple[HalfConnection, int, int]]) -> Longs:
    """Return what each segment of these directions acknowledged, as an offset of the other direction.

    ``acking`` has directions with the places of their first segment and after their last one.
    """
    ack = segments.block.ack[segments.order].astype(np.int64)
    if not len(ack):
        return ack
    steps = np.empty(len(ack), np.int64)
    steps[1:] = ack[1:] - ack[:-1]
    base = np.zeros(len(ack), np.int64)
    rows = np.array([begin for _, begin, _ in acking], np.int64)
    steps[rows] = ack[rows] - np.array([direction.ack or 0 for direction, _, _ in acking], np.int64)
    base[rows] = [direction.acked for direction, _, _ in acking]
    moved = np.cumsum((steps + _HALF & _MASK) - _HALF)
    # Each flow counts from its own start: take away what had moved before it.
    shift = base[segments.first] - np.concatenate(([0], moved[segments.first[1:] - 1]))
    moved += np.repeat(shift, segments.ends - segments.first)
    return moved


def commit_acks(segments: SortedSegments, acking: Sequence[tuple[HalfConnection, int, int]], acked: Longs) -> None:
    """Note the last acknowledgement of each direction, and whether it is finished."""
    block, order = segments.block, segments.order
    last = np.array([end - 1 for _, _, end in acking], np.int64)
    numbers = zip(acking, block.ack[order[last]].tolist(), acked[last].tolist(), strict=True)
    for (direction, _, _), ack, offset in numbers:
        direction.ack, direction.acked = ack, offset
    finishing = np.flatnonzero(block.flags[order] & FIN)
    if len(finishing):
        finished = set(segments.flow[finishing].tolist())
        for direction, begin, _ in acking:
            if int(segments.flow[begin]) in finished:
                direction.finished = True


def commit_bytes(
    segments: SortedSegments, flows: Sequence[FastFlow], stream: memoryview, parts: BufferParts, acked: Longs
) -> int:
    """Move directions and framers on; return how many more bytes the framers hold now."""
    marks, bounds = _marks(segments, flows, parts, acked)
    more = low = 0
    for flow, high in zip(flows, bounds, strict=True):
        direction, framer = flow.direction, flow.framer
        buffer = framer.buffer
        held, left = len(buffer), flow.stream_end - flow.stream_stop
        new = flow.stream_end - flow.stream_begin - held
        direction.bytes_repeated += flow.bytes_repeated
        direction.next += new
        direction.bytes_delivered += new
        if flow.frames:
            framer.marks.clear()
            framer.frames += flow.frames
        framer.position = direction.next - left
        more += left - held
        if left:
            buffer[:] = stream[flow.stream_stop : flow.stream_end]
            framer.marks += marks[low:high]
            framer.compact_marks()
        else:
            buffer.clear()
        low = high
    return more


def commit_ignored(segments: SortedSegments, flows: Sequence[IgnoredFlow]) -> None:
    """Count the bytes of flows of another protocol, and note how they end."""
    block, order, first, length = segments.block, segments.order, segments.first, segments.length
    captured, flags = block.payload_captured[order], block.flags[order]
    expected = np.zeros(len(first), np.int64)
    for flow in flows:
        known = flow.connection.directions[flow.side].ignored
        expected[flow.place] = 0 if known is None else known.next
    before = np.cumsum(length) - length
    expected -= before[first]
    in_order = (block.seq[order] - np.repeat(expected, segments.ends - first) - before) & _MASK == 0
    plain = np.logical_and.reduceat((in_order & (captured == length)) | (length == 0), first).tolist()
    seen = np.bitwise_or.reduceat(flags, first).tolist()
    counts = np.add.reduceat(length, first).tolist()
    for flow in flows:
        direction = flow.connection.directions[flow.side]
        direction.finished |= bool(seen[flow.place] & FIN)
        flow.connection.reset |= bool(seen[flow.place] & RST)
        if plain[flow.place] and direction.ignored is not None and not seen[flow.place] & RST:
            count_in_order(direction, counts[flow.place])
        elif counts[flow.place]:
            rows = slice(int(first[flow.place]), int(segments.ends[flow.place]))
            columns = (block.seq[order[rows]], length[rows], captured[rows], flags[rows])
            for seq, size, there, flag in zip(*(column.tolist() for column in columns), strict=True):
                if size and not flag & RST:
                    count_segment(direction, seq, size, there)


def _marks(
    segments: SortedSegments, flows: Sequence[FastFlow], parts: BufferParts, acked: Longs
) -> tuple[list[Mark], list[int]]:
    """Return the marks of the packets of unfinished frames, and where each flow's end in that list."""
    block = segments.block
    begins = np.array([flow.stream_begin for flow in flows], np.int64)
    stops = np.array([flow.stream_stop for flow in flows], np.int64)
    ends = np.array([flow.stream_end for flow in flows], np.int64)
    first = np.searchsorted(parts.ends, stops, side="right")
    last = np.searchsorted(parts.ends, ends, side="left")
    # What the framer held before has its marks: a tail is the first of its flow's parts.
    some = np.flatnonzero(stops < ends)
    first[some] += parts.rows[first[some]] >= len(segments.order)
    counts = np.where(stops < ends, last + 1 - first, 0)
    bounds = np.cumsum(counts)
    # All parts of all unfinished frames, one after the other.
    chosen = np.repeat(first - (bounds - counts), counts) + np.arange(int(counts.sum()))
    rows = parts.rows[chosen]
    index = segments.order[rows]
    starts = np.maximum(parts.ends[chosen] - segments.length[rows], np.repeat(stops, counts))
    marks = map(
        Mark,
        (starts + np.repeat(parts.origins - begins, counts)).tolist(),
        packet_ordinal(block.capture, block.number[index]).tolist(),
        block.time_ns[index].tolist(),
        np.maximum(acked[rows], 0).tolist(),
    )
    return list(marks), bounds.tolist()


def touch(connections: Connections, segments: SortedSegments) -> None:
    """Bring the connections of a block, of both paths, into the order of their last packets."""
    block, live = segments.block, connections.live
    last = segments.order[segments.ends - 1]
    packets = packet_ordinal(block.capture, block.number[last]).tolist()
    times = block.time_ns[last].tolist()
    numbers = segments.flow[segments.first].tolist()
    # Each direction's last packet, the later one after the other: the last one of a connection counts.
    for position in np.argsort(last).tolist():
        entry = live.get(block.keys[numbers[position]])
        if entry is not None and packets[position] >= entry[0].last_packet:
            connections.touch(entry[0], packets[position], times[position])
