"""The fast lane: all flows of a block that get exactly the bytes they expect, assembled and walked together.

For connections whose two directions are established and in step with their framers. A flow whose packets were swapped
or sent twice is mended where that is beyond doubt. Everything else is none of this module's business.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dissector import headers
from dissector.connections import Connection, Connections, packet_ordinal
from dissector.framing import Mark
from dissector.limits import SEGMENT_OVERHEAD
from dissector.link.segments import ACK, FIN, RST, SYN
from dissector.mending import mend
from dissector.tables import NOTHING_ACKED, SLACK, FrameTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dissector.link.segments import SegmentBlock
    from dissector.reassembly import Direction

    Longs = NDArray[np.int64]

_U32 = struct.Struct(">I").unpack_from
_MASK = 0xFFFFFFFF
HEADER_SIZE = headers.HEADER_SIZE
_KNOWN_MAGIC = np.zeros(256, bool)
_KNOWN_MAGIC[list(headers.MAGICS)] = True


@dataclass(slots=True, eq=False)
class _Flow:
    """A direction in the fast lane: its rows among the sorted segments, and its place in the assembled bytes."""

    connection: Connection
    side: int
    begin: int
    end: int
    rows: Longs  #: its segments with data among the sorted ones, in the order of their bytes
    bytes_repeated: int = 0
    stream_begin: int = 0
    stream_stop: int = 0
    stream_end: int = 0
    frames: int = 0


class FastLane:
    """The plainly ordered flows of one block."""

    def __init__(self, connections: Connections, block: SegmentBlock) -> None:
        self.connections = connections
        self.block = block
        self._slow: set[int] = set()  #: indexes of connections that are not for this lane
        self.flows: list[_Flow] = []
        self._quiet: list[tuple[Direction, int, int]] = []  #: directions that only acknowledge, and their rows
        self.stream = b""
        self._found = [connections.live.get(key) for key in block.keys]
        flow = block.flow
        # numpy sorts 16-bit numbers by radix, several times faster than others.
        narrow = flow.astype(np.uint16) if len(block.keys) < 1 << 16 else flow
        self._order = np.argsort(narrow, kind="stable")
        self._flow = flow[self._order]
        size = len(self._order)
        self._first = np.flatnonzero(np.r_[True, self._flow[1:] != self._flow[:-1]]) if size else np.empty(0, np.int64)
        self._ends = np.r_[self._first[1:], size] if size else self._first
        self._length = block.payload_length[self._order]
        self._mended: dict[int, tuple[Longs, int]] = {}  #: by flow number: rows in order, bytes that came twice
        self._crowded = self._near_limits()
        if size and not self._crowded:
            self._rule_out()

    def _near_limits(self) -> bool:
        """Tell whether a shared limit could be reached in this block: then the order across flows matters."""
        limits, shared = self.connections.limits, self.connections
        coming = int(self.block.payload_captured.sum()) + len(self.block) * SEGMENT_OVERHEAD
        new = self._found.count(None)
        return (
            shared.held_total + coming > limits.out_of_order_total
            or shared.partial_total + coming > limits.partial_total
            or len(shared.live) + 2 * new > 2 * limits.connections
        )

    def _rule_out(self) -> None:
        """Find the connections that have a direction that is not plain."""
        block, order, flow, first, length = self.block, self._order, self._flow, self._first, self._length
        has_data = np.logical_or.reduceat(length > 0, first).tolist()
        expected = np.zeros(len(block.keys), np.int64)
        ignored = np.zeros(len(block.keys), bool)
        for number, data in zip(flow[first].tolist(), has_data, strict=True):
            entry = self._found[number]
            if entry is None:
                continue
            connection, side = entry
            direction = connection.directions[side]
            if connection.ignored:
                ignored[number] = True
            elif direction.ack is None or (
                data and (direction.base is None or direction.held or not connection.framers[side].settled)
            ):
                self._slow.add(connection.index)
            elif direction.base is not None:
                expected[number] = direction.base + direction.next
        flags = block.flags[order]
        # Segments without data do not move the sequence: each starts where the lengths before it add up to.
        before = np.cumsum(length) - length
        before -= np.repeat(before[first], self._ends - first)
        distance = (block.seq[order] - expected[flow]) & _MASK
        usual = (flags & (SYN | RST) == 0) & (flags & ACK != 0) & (block.payload_captured[order] == length)
        usual |= ignored[flow] & (flags & SYN == 0)
        usual_flow = np.logical_and.reduceat(usual, first)
        in_order = (distance == before & _MASK) | (length == 0) | ignored[flow]
        plain = usual_flow & np.logical_and.reduceat(in_order, first)
        limit = self.connections.limits.out_of_order_bytes
        for position in np.flatnonzero(~plain).tolist():
            number = int(flow[first[position]])
            entry = self._found[number]
            if entry is None or entry[0].index in self._slow:
                continue
            begin, end = int(first[position]), int(self._ends[position])
            mended = mend(distance[begin:end], length[begin:end], limit) if usual_flow[position] else None
            if mended is None:
                self._slow.add(entry[0].index)
            else:
                self._mended[number] = (mended.rows + begin, mended.bytes_repeated)

    def others(self) -> Longs:
        """Return the segments that are not for this lane, in capture order."""
        taken = np.zeros(len(self.block.keys), bool)
        if not self._crowded:
            for number, entry in enumerate(self._found):
                taken[number] = entry is not None and entry[0].index not in self._slow
        return np.flatnonzero(~taken[self.block.flow])

    def assemble(self) -> bool:
        """Put the flows' bytes together and walk their frames; False: something is not plain, try again without it."""
        self.flows, self._quiet = [], []
        if not self._crowded:
            numbers = self._flow[self._first].tolist()
            begins, ends = self._first.tolist(), self._ends.tolist()
            # Where each flow's segments with data are among all that have any.
            data = np.flatnonzero(self._length)
            lows = np.searchsorted(data, self._first).tolist()
            highs = np.searchsorted(data, self._ends).tolist()
            for position, number in enumerate(numbers):
                entry = self._found[number]
                if entry is None or entry[0].index in self._slow or entry[0].ignored:
                    continue
                low, high, mended = lows[position], highs[position], self._mended.get(number)
                if low == high:
                    self._quiet.append((entry[0].directions[entry[1]], begins[position], ends[position]))
                    continue
                rows, repeated = mended if mended is not None else (data[low:high], 0)
                self.flows.append(_Flow(entry[0], entry[1], begins[position], ends[position], rows, repeated))
        self._join()
        self._walk()
        return self._check()

    def _join(self) -> None:
        """Make one run of bytes: of each flow what its framer still holds, then its segments."""
        flows = self.flows
        rows = np.concatenate([flow.rows for flow in flows]) if flows else np.empty(0, np.int64)
        offsets = self.block.payload_offset[self._order[rows]]
        sizes = self._length[rows]
        # All in C: a slice object, the slice of the buffer, no byte code per segment.
        slices = list(map(self.block.buffer.data.__getitem__, map(slice, offsets.tolist(), (offsets + sizes).tolist())))
        sums = np.concatenate(([0], np.cumsum(sizes))).tolist()
        pieces: list[bytes | memoryview] = []
        tails: list[tuple[int, int]] = []
        origins: list[int] = []
        tail_places: list[int] = []  # the pieces that are tails,
        tail_flows: list[int] = []  # the flows that they belong to,
        tail_sizes: list[int] = []  # and their sizes
        position, at = 0, 0
        for number, flow in enumerate(flows):
            count = len(flow.rows)
            flow.stream_begin = position
            framer = flow.connection.framers[flow.side]
            held = len(framer.buffer)
            first = framer.first_mark() if held else None
            tails.append((0, NOTHING_ACKED) if first is None else (first[0], _or_nothing(first[1])))
            origins.append(flow.connection.directions[flow.side].next - held)
            if held:
                tail_places.append(len(pieces))
                tail_flows.append(number)
                tail_sizes.append(held)
                pieces.append(bytes(framer.buffer))
            pieces += slices[at : at + count]
            position += held + sums[at + count] - sums[at]
            at += count
            flow.stream_end = position
        self._tails = np.array(tails, np.int64).reshape(len(tails), 2).T
        self._origins = np.array(origins, np.int64)
        # Of each piece: its row; of a tail: the number behind all rows and earlier flows.
        is_segment = np.ones(len(pieces), bool)
        is_segment[tail_places] = False
        self._pieces = np.empty(len(pieces), np.int64)
        self._pieces[is_segment] = rows
        self._pieces[~is_segment] = len(self._order) + np.array(tail_flows, np.int64)
        lengths = np.empty(len(pieces), np.int64)
        lengths[is_segment] = sizes
        lengths[~is_segment] = tail_sizes
        self._piece_ends = np.cumsum(lengths)
        pieces.append(SLACK)
        self.stream = b"".join(pieces)

    def _walk(self) -> None:
        """Go from header to header, the only loop over frames."""
        bodies = memoryview(self.stream)[8:]  # so that a frame's start is where its body length is read
        read = _U32
        starts: list[int] = []
        append = starts.append
        for flow in self.flows:
            position, end = flow.stream_begin, flow.stream_end
            last = end - HEADER_SIZE
            before = len(starts)
            while position <= last:
                append(position)
                position += read(bodies, position)[0] + HEADER_SIZE
            if position > end:
                position = starts.pop()  # it is not there whole
            flow.stream_stop = position
            flow.frames = len(starts) - before
        self._starts = np.array(starts, np.int64)

    def _check(self) -> bool:
        """Look at all headers at once, those of unfinished frames included; rule out who lost the place."""
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
            self._slow.add(self.flows[number - 1].connection.index)
        return False

    def acks(self) -> Longs:
        """Return what each sorted segment of these flows acknowledged, as an offset of the other direction."""
        ack = self.block.ack[self._order].astype(np.int64)
        steps = np.empty(len(ack), np.int64)
        steps[1:] = ack[1:] - ack[:-1]
        base = np.zeros(len(ack), np.int64)
        acking = [(flow.connection.directions[flow.side], flow.begin) for flow in self.flows]
        acking += [(direction, begin) for direction, begin, _ in self._quiet]
        rows = np.array([begin for _, begin in acking], np.int64)
        steps[rows] = ack[rows] - np.array([direction.ack or 0 for direction, _ in acking], np.int64)
        base[rows] = [direction.acked for direction, _ in acking]
        moved = np.cumsum((steps + (1 << 31) & _MASK) - (1 << 31)) if len(ack) else steps
        # Each flow counts from its own start: take away what had moved before it.
        shift = base[self._first] - np.r_[0, moved[self._first[1:] - 1]] if len(ack) else base
        result: Longs = moved + np.repeat(shift, self._ends - self._first)
        return result

    def settle(self) -> None:
        """Leave the state behind that the sequential engine would have left."""
        self._acks = self.acks()
        block, order = self.block, self._order
        acking = [(flow.connection.directions[flow.side], flow.begin, flow.end) for flow in self.flows] + self._quiet
        last_rows = [end - 1 for _, _, end in acking]
        last_ack = block.ack[order[last_rows]].tolist()
        last_acked = self._acks[last_rows].tolist()
        finished = np.concatenate(([0], np.cumsum(block.flags[order] & FIN))).tolist()
        for (direction, begin, end), ack, acked in zip(acking, last_ack, last_acked, strict=True):
            direction.ack, direction.acked = ack, acked
            if finished[end] != finished[begin]:
                direction.finished = True
        marks = self._marks()
        for flow in self.flows:
            direction = flow.connection.directions[flow.side]
            framer = flow.connection.framers[flow.side]
            held = len(framer.buffer)
            new = flow.stream_end - flow.stream_begin - held
            direction.bytes_repeated += flow.bytes_repeated
            direction.next += new
            direction.bytes_delivered += new
            if flow.frames:
                framer.marks.clear()
                framer.frames += flow.frames
            framer.buffer[:] = self.stream[flow.stream_stop : flow.stream_end]
            framer.position = direction.next - len(framer.buffer)
            if framer.buffer:
                framer.marks += next(marks)
                framer.condense()
            self.connections.partial_total += len(framer.buffer) - held
        self._touch()

    def _marks(self) -> Iterator[list[Mark]]:
        """Yield, for each flow with an unfinished frame, the marks of that frame's packets in this block."""
        block, ordinal = self.block, packet_ordinal(self.block.capture, 0)
        flows = [flow for flow in self.flows if flow.stream_end > flow.stream_stop]
        stops = np.array([flow.stream_stop for flow in flows], np.int64)
        ends = np.array([flow.stream_end for flow in flows], np.int64)
        first = np.searchsorted(self._piece_ends, stops, side="right")
        last = np.searchsorted(self._piece_ends, ends - 1, side="right")
        counts = last + 1 - first
        # All pieces of all unfinished frames, one after the other.
        pieces = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
        rows = self._pieces[pieces]
        is_segment = rows < len(self._order)  # what the framer held before has its marks
        rows = np.where(is_segment, rows, 0)
        index = self._order[rows]
        begins = np.maximum(self._piece_ends[pieces] - self._length[rows], np.repeat(stops, counts))
        made = zip(
            begins.tolist(),
            (ordinal + block.number[index]).tolist(),
            block.time_ns[index].tolist(),
            np.maximum(self._acks[rows], 0).tolist(),
            is_segment.tolist(),
            strict=True,
        )
        for flow, count in zip(flows, counts.tolist(), strict=True):
            # By now the direction has moved on: its next byte is the one behind the flow's last.
            origin = flow.connection.directions[flow.side].next - flow.stream_end
            some = [next(made) for _ in range(count)]
            yield [Mark(origin + begin, packet, time, acked) for begin, packet, time, acked, keep in some if keep]

    def _touch(self) -> None:
        """Bring the connections of this block, of both lanes, into the order of their last packets."""
        block, live = self.block, self.connections.live
        last = self._order[self._ends - 1] if len(self._ends) else self._order
        packets = (packet_ordinal(block.capture, 0) + block.number[last]).tolist()
        times = block.time_ns[last].tolist()
        used: dict[int, Connection] = {}
        for position, number in enumerate(self._flow[self._first].tolist()):
            entry = live.get(block.keys[number])
            if entry is None:
                continue
            connection = used.setdefault(entry[0].index, entry[0])
            if packets[position] > connection.last_packet:
                connection.last_packet, connection.last_ns = packets[position], times[position]
        for connection in sorted(used.values(), key=_last_packet):
            self.connections.touch(connection, connection.last_packet, connection.last_ns)

    def table(self) -> FrameTable:
        """Return the frames, flow by flow."""
        block, size = self.block, len(self._order)
        counts = np.array([flow.frames for flow in self.flows], np.int64)
        stops = np.array([flow.stream_stop for flow in self.flows], np.int64)
        begins = np.array([flow.stream_begin for flow in self.flows], np.int64)
        sides = np.array([flow.side for flow in self.flows], np.int64)
        flow = np.repeat(np.arange(len(self.flows)), counts)
        starts = self._starts
        ends = np.empty_like(starts)
        ends[:-1] = starts[1:]
        ends[np.cumsum(counts)[counts > 0] - 1] = stops[counts > 0]
        first = np.searchsorted(self._piece_ends, starts, side="right")
        last = np.searchsorted(self._piece_ends, ends - 1, side="right")
        # The packet of each piece, counted within the block; a tail came before all of them.
        arrival = np.r_[self._order, np.full(len(self.flows), -1)][self._pieces]
        earliest, latest, released = self._arrivals(arrival, first, last)
        ordinal = packet_ordinal(block.capture, 0)
        number = ordinal + block.number
        in_tail = earliest < 0
        packet_first = number[earliest]
        if in_tail.any():
            packet_first[in_tail] = self._tails[0][flow[in_tail]]
        acked = np.r_[np.maximum(self._acks, 0), self._tails[1]] if size else self._tails[1]
        none = np.zeros(len(starts), np.int64)
        return FrameTable(
            stream=self.stream,
            connections=[entry.connection for entry in self.flows],
            connection=flow,
            side=sides[flow],
            position=starts,
            available=ends - starts,
            start=self._origins[flow] + starts - begins[flow],
            length=ends - starts,
            packet_first=packet_first,
            packet_last=number[latest],
            time_ns=block.time_ns[latest],
            acked=acked[self._pieces[first]],
            gap=none,
            skipped=none,
            released=number[released],
        )

    def _arrivals(self, arrival: Longs, first: Longs, last: Longs) -> tuple[Longs, Longs, Longs]:
        """Return when the first and the last packet of each frame came, and when everything up to its end was there."""
        if not self._mended or not len(first):
            return arrival[first], arrival[last], arrival[last]
        bounds = np.c_[first, last + 1].reshape(-1)
        padded = np.r_[arrival, 0]
        earliest = np.minimum.reduceat(padded, bounds)[::2]
        latest = np.maximum.reduceat(padded, bounds)[::2]
        # Flows are kept apart by a number that grows from one to the next.
        begins = np.array([entry.stream_begin for entry in self.flows], np.int64)
        piece_flow = np.searchsorted(begins, self._piece_ends - 1, side="right") * (len(self._order) + 1)
        highest = np.maximum.accumulate(arrival + piece_flow) - piece_flow
        return earliest, latest, highest[last]


def _or_nothing(acked: int | None) -> int:
    return NOTHING_ACKED if acked is None else acked


def _last_packet(connection: Connection) -> int:
    return connection.last_packet
