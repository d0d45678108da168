"""The segments of a block by two paths: flows in plain order all at once, everything else one segment at a time.

The fast path is for connections whose two directions are established and whose framers are in step. Segments that were
swapped or sent twice within the block are reordered where that is beyond doubt. Anything else sends the whole
connection to the sequential engine for this block. Both paths give the same frames and leave the same state.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from dissector.link.segment_block import ACK, RST, SYN
from dissector.tcp import header_check
from dissector.tcp.connections import Connections, packet_ordinal, segments_of
from dissector.tcp.frame_table import NOTHING_ACKED, Emitted, FrameTable, join, table_of
from dissector.tcp.limits import SEGMENT_OVERHEAD
from dissector.tcp.reorder import reorder, with_reordered
from dissector.tcp.state_update import (
    BufferParts,
    FastFlow,
    IgnoredFlow,
    SortedSegments,
    acknowledged,
    commit_acks,
    commit_bytes,
    commit_ignored,
    touch,
)
from dissector.tcp.stream_buffer import assemble

if TYPE_CHECKING:
    from dissector.array_types import Longs
    from dissector.link.segment_block import SegmentBlock
    from dissector.tcp.connections import Connection
    from dissector.tcp.framing import RawFrame
    from dissector.tcp.reassembly import HalfConnection


_U32 = struct.Struct(">I").unpack_from
_MASK = 0xFFFFFFFF
HEADER_SIZE = header_check.HEADER_SIZE
_KNOWN_MAGIC = np.zeros(256, bool)
_KNOWN_MAGIC[list(header_check.MAGICS)] = True


class FastPath:
    """The plainly ordered flows of one block."""

    def __init__(self, connections: Connections, block: SegmentBlock) -> None:
        self.connections = connections
        self.block = block
        self._sequential: set[int] = set()  #: indexes of connections that the sequential path takes
        self._ignored: set[int] = set()  #: flow numbers of connections of another protocol
        self.flows: list[FastFlow] = []
        self._ack_only: list[tuple[HalfConnection, int, int]] = []  #: directions that only acknowledge, and their rows
        self.stream = memoryview(b"")
        self._entries = [connections.live.get(key) for key in block.keys]
        # numpy sorts 16-bit numbers by radix, several times faster than others.
        narrow = block.flow.astype(np.uint16) if len(block.keys) < 1 << 16 else block.flow
        order = np.argsort(narrow, kind="stable")
        flow = block.flow[order]
        first = np.flatnonzero(np.diff(flow, prepend=-1))
        ends = np.append(first, len(flow))[1:]
        self._segments = SortedSegments(block, order, flow, block.payload_length[order], first, ends)
        self._reordered: dict[int, tuple[Longs, int]] = {}  #: by flow number: rows in order, bytes that came twice
        self._limit_near = self._near_limits()
        if len(order) and not self._limit_near:
            self._find_plain()

    def _near_limits(self) -> bool:
        """Tell whether a shared limit could be reached in this block: then the order across flows matters."""
        limits, shared = self.connections.limits, self.connections
        coming = int(self.block.payload_captured.sum()) + len(self.block) * SEGMENT_OVERHEAD
        new = self._entries.count(None)
        return (
            shared.held_total + coming > limits.out_of_order_total
            or shared.partial_total + coming > limits.partial_total
            or len(shared.live) + 2 * new > 2 * limits.connections
        )

    def _find_plain(self) -> None:
        """Sort out the connections that have a direction in no plain order, and reorder where that is safe."""
        block, segments = self.block, self._segments
        order, flow, first, length = segments.order, segments.flow, segments.first, segments.length
        has_data = np.logical_or.reduceat(length > 0, first).tolist()
        expected = np.zeros(len(block.keys), np.int64)
        ignored = np.zeros(len(block.keys), bool)
        patient = self.connections.patience is not None
        for number, data in zip(flow[first].tolist(), has_data, strict=True):
            entry = self._entries[number]
            if entry is None:
                continue
            connection, side = entry
            direction = connection.directions[side]
            if connection.ignored:
                ignored[number] = True
                self._ignored.add(number)
            elif patient and any(each.held for each in connection.directions):
                self._sequential.add(connection.index)  # an acknowledgement may show that a hole is lost
            elif direction.ack is None or (
                data and (direction.base is None or direction.held or not connection.framers[side].in_step)
            ):
                self._sequential.add(connection.index)
            elif direction.base is not None:
                expected[number] = direction.base + direction.next
        flags = block.flags[order]
        # Segments without data do not move the sequence: each starts where the lengths before it add up to.
        before = np.cumsum(length) - length
        before -= np.repeat(before[first], segments.ends - first)
        distance = (block.seq[order] - expected[flow]) & _MASK
        usual = (flags & (SYN | RST) == 0) & (flags & ACK != 0) & (block.payload_captured[order] == length)
        usual |= ignored[flow] & (flags & SYN == 0)
        usual_flow = np.logical_and.reduceat(usual, first)
        in_order = (distance == before & _MASK) | (length == 0) | ignored[flow]
        plain = usual_flow & np.logical_and.reduceat(in_order, first)
        limit = self.connections.limits.out_of_order_bytes
        for position in np.flatnonzero(~plain).tolist():
            number = int(flow[first[position]])
            entry = self._entries[number]
            if entry is None or entry[0].index in self._sequential:
                continue
            begin, end = int(first[position]), int(segments.ends[position])
            reordered = reorder(distance[begin:end], length[begin:end], limit) if usual_flow[position] else None
            if reordered is None:
                self._sequential.add(entry[0].index)
            else:
                self._reordered[number] = (reordered.rows + begin, reordered.bytes_repeated)

    def remaining_segments(self) -> Longs:
        """Return the segments that the sequential path takes, in capture order."""
        taken = np.zeros(len(self.block.keys), bool)
        if not self._limit_near:
            for number, entry in enumerate(self._entries):
                taken[number] = entry is not None and entry[0].index not in self._sequential
        return np.flatnonzero(~taken[self.block.flow])

    def assemble(self) -> bool:
        """Put the flows' bytes together and find their frames; False: a connection was sorted out, so try again."""
        self.flows, self._ack_only = [], []
        segments = self._segments
        # Where each flow's segments with data are among all that have any.
        data = np.flatnonzero(segments.length)
        lows = np.searchsorted(data, segments.first)
        counts = np.searchsorted(data, segments.ends) - lows
        reordered: list[tuple[int, Longs]] = []
        positions: list[int] = []
        flows = (
            ()
            if self._limit_near
            else zip(
                segments.flow[segments.first].tolist(),
                segments.first.tolist(),
                segments.ends.tolist(),
                counts.tolist(),
                strict=True,
            )
        )
        for position, (number, begin, end, count) in enumerate(flows):
            entry = self._entries[number]
            if entry is None or entry[0].index in self._sequential or number in self._ignored:
                continue
            connection, side = entry
            direction = connection.directions[side]
            if not count:
                self._ack_only.append((direction, begin, end))
                continue
            rows, repeated = self._reordered.get(number, (None, 0))
            if rows is not None:
                reordered.append((len(positions), rows))
            positions.append(position)
            self.flows.append(FastFlow(connection, side, direction, connection.framers[side], begin, end, repeated))
        chosen = np.zeros(len(counts), bool)
        chosen[positions] = True
        self._join(*with_reordered(data[np.repeat(chosen, counts)], counts[chosen], reordered))
        self._walk()
        return self._check()

    def _join(self, rows: Longs, counts: Longs) -> None:
        """Make one run of bytes: of each flow what its framer still holds, then its segments."""
        order, framers = self._segments.order, [flow.framer for flow in self.flows]
        assembly = assemble(self.block, order[rows], counts, [framer.buffer for framer in framers])
        for flow, begin, end in zip(self.flows, assembly.begins.tolist(), assembly.ends.tolist(), strict=True):
            flow.stream_begin, flow.stream_end = begin, end
        marks = [framer.first_packet() if framer.buffer else None for framer in framers]
        self._tail_packets = np.array([0 if mark is None else mark[0] for mark in marks], np.int64)
        acked = [NOTHING_ACKED if mark is None or mark[1] is None else mark[1] for mark in marks]
        self._tail_acked = np.array(acked, np.int64)
        held = np.array([len(framer.buffer) for framer in framers], np.int64)
        parts = np.empty(len(assembly.is_segment), np.int64)
        parts[assembly.is_segment] = rows
        parts[~assembly.is_segment] = len(order) + np.flatnonzero(held)
        origins = np.array([flow.direction.next for flow in self.flows], np.int64) - held
        self._parts = BufferParts(parts, assembly.part_ends, origins)
        self.stream = assembly.stream

    def _walk(self) -> None:
        """Go from header to header, the only loop over frames."""
        bodies = self.stream[8:]  # so that a frame's start is where its body length is read
        read = _U32
        starts: list[int] = []
        append = starts.append
        for flow in self.flows:
            position, end = flow.stream_begin, flow.stream_end
            last = end - HEADER_SIZE
            before = len(starts)
            while position <= last:
                append(position)
                (size,) = read(bodies, position)
                position += size + HEADER_SIZE
            if position > end:
                position = starts.pop()  # it is not there whole
            flow.stream_stop = position
            flow.frames = len(starts) - before
        self._starts = np.array(starts, np.int64)

    def _check(self) -> bool:
        """Check all headers at once, those of unfinished frames included; sort out connections with a bad one."""
        pending = [flow.stream_stop for flow in self.flows if flow.stream_end - flow.stream_stop >= HEADER_SIZE]
        positions = np.r_[self._starts, np.array(pending, np.int64)]
        data = np.frombuffer(self.stream, np.uint8)
        good = _KNOWN_MAGIC[data[positions]]
        top = data[positions + 8].astype(np.int64) << 24 | data[positions + 9].astype(np.int64) << 16
        large = top + HEADER_SIZE > self.connections.limits.frame_bytes - (1 << 16)
        for index in np.flatnonzero(large & good).tolist():
            position = int(positions[index])
            good[index] = HEADER_SIZE + _U32(self.stream, position + 8)[0] <= self.connections.limits.frame_bytes
        if good.all():
            return True
        begins = np.array([flow.stream_begin for flow in self.flows], np.int64)
        for number in np.searchsorted(begins, positions[~good], side="right").tolist():
            self._sequential.add(self.flows[number - 1].connection.index)
        return False

    def commit_state(self) -> None:
        """Bring connections to the state that the sequential engine would have left."""
        acking = [(flow.direction, flow.begin, flow.end) for flow in self.flows] + self._ack_only
        self._acked = acknowledged(self._segments, acking)
        commit_acks(self._segments, acking, self._acked)
        more = commit_bytes(self._segments, self.flows, self.stream, self._parts, self._acked)
        self.connections.partial_total += more
        touch(self.connections, self._segments)
        if self.connections.count_ignored and self._ignored:
            self._commit_ignored()

    def _commit_ignored(self) -> None:
        """Count what flows of other protocols send."""
        flows = []
        for place, number in enumerate(self._segments.flow[self._segments.first].tolist()):
            entry = self._entries[number]
            if number in self._ignored and entry is not None and entry[0].index not in self._sequential:
                flows.append(IgnoredFlow(place, *entry))
        commit_ignored(self._segments, flows)

    def table(self) -> FrameTable:
        """Return the frames, flow by flow."""
        block, parts, order = self.block, self._parts, self._segments.order
        counts = np.array([flow.frames for flow in self.flows], np.int64)
        stops = np.array([flow.stream_stop for flow in self.flows], np.int64)
        begins = np.array([flow.stream_begin for flow in self.flows], np.int64)
        sides = np.array([flow.side for flow in self.flows], np.int64)
        from_start = np.array([flow.direction.from_start for flow in self.flows], bool)
        flow = np.repeat(np.arange(len(self.flows)), counts)
        starts = self._starts
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[np.cumsum(counts)[counts > 0] - 1] = stops[counts > 0]
        first = np.searchsorted(parts.ends, starts, side="right")
        last = np.searchsorted(parts.ends, ends, side="left")
        # The packet of each part, counted within the block; a tail came before all of them.
        arrival = np.concatenate((order, np.full(len(self.flows), -1)))[parts.rows]
        earliest, latest, released = self._arrivals(arrival, first, last)
        number = packet_ordinal(block.capture, block.number)
        in_tail = earliest < 0
        packet_first = number[earliest]
        if in_tail.any():
            packet_first[in_tail] = self._tail_packets[flow[in_tail]]
        acked = np.concatenate((np.maximum(self._acked, 0), self._tail_acked))
        none = np.zeros(len(starts), np.int64)
        return FrameTable(
            stream=self.stream,
            connections=[entry.connection for entry in self.flows],
            connection=flow,
            side=sides[flow],
            position=starts,
            available=ends - starts,
            start=(parts.origins - begins)[flow] + starts,
            length=ends - starts,
            packet_first=packet_first,
            packet_last=number[latest],
            time_ns=block.time_ns[latest],
            acked=acked[parts.rows[first]],
            from_start=from_start[flow],
            gap=none,
            skipped=none,
            released=number[released],
            rank=np.arange(len(starts)),
        )

    def _arrivals(self, arrival: Longs, first: Longs, last: Longs) -> tuple[Longs, Longs, Longs]:
        """Return when the first and the last packet of each frame came, and when everything up to its end was there."""
        if not self._reordered or not len(first):
            return arrival[first], arrival[last], arrival[last]
        bounds = np.c_[first, last + 1].reshape(-1)
        padded = np.r_[arrival, 0]
        earliest = np.minimum.reduceat(padded, bounds)[::2]
        latest = np.maximum.reduceat(padded, bounds)[::2]
        # Flows are kept apart by a number that grows from one to the next.
        begins = np.array([entry.stream_begin for entry in self.flows], np.int64)
        part_flow = np.searchsorted(begins, self._parts.ends - 1, side="right") * (len(self.block) + 1)
        highest = np.maximum.accumulate(arrival + part_flow) - part_flow
        return earliest, latest, highest[last]


class SequentialPath:
    """Collects the frames that the sequential engine emits, each with the packet that released it."""

    def __init__(self) -> None:
        self.frames: list[Emitted] = []
        self.packet = 0

    def emit(self, connection: Connection, side: int, frame: RawFrame) -> None:
        """Take a frame."""
        from_start = connection.directions[side].from_start
        self.frames.append(Emitted(self.packet, connection, side, frame, from_start))

    def run(self, connections: Connections, block: SegmentBlock, indexes: Longs) -> None:
        """Feed some segments of a block to the engine, in capture order."""
        for segment in segments_of(block, indexes.tolist()):
            self.packet = segment.packet
            connections.feed(segment)

    def table(self) -> FrameTable:
        """Return what was emitted since the last time."""
        frames, self.frames = self.frames, []
        return table_of(frames)


def run_block(connections: Connections, sequential: SequentialPath, block: SegmentBlock) -> FrameTable:
    """Feed all segments of a block to the two paths; return the frames that they completed."""
    fast = FastPath(connections, block)
    # A direction with a bad header moves its connection to the sequential path.
    while not fast.assemble():
        pass
    sequential.run(connections, block, fast.remaining_segments())
    fast.commit_state()
    return join(fast.table(), sequential.table())
