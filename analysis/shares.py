"""One share of a run's connections: sorted segment rows in, frames out, by the ordinary engine.

Knows that rows come sorted by share, connection and packet, in batches cut anywhere. Must not know who sorted them, nor
what a frame is: lanes, framers and columns are those of the single-process reader, fed with whole connections instead
of whole chunks. What that reader does to one connection depends on no other one, so the rows are the same; only the
limits that connections share (bytes held over all of them, connections followed at once) count per task here.

Frames carry ``released``, the packet that completed them, which orders those of different connections; ``frame`` counts
those of one pair of addresses and ports from 1. Sorted by both, frames are in the order of the single-process reader.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.segment_rows import share_of, talk_of
from dissector.columns import batch_of
from dissector.connections import Connections
from dissector.frames import SCHEMA
from dissector.lanes import SlowLane, run_block
from dissector.link.flows import reverse_key
from dissector.link.reference import ReferenceDecoder
from dissector.link.segments import SegmentBlock
from dissector.run import Options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dissector.connections import Connection, Segment
    from dissector.tables import FrameTable

RELEASED = pa.field("released", pa.int64(), metadata={"doc": "packet that completed it; see analysis/shares.py"})
ORDERED_SCHEMA = SCHEMA.append(RELEASED)
#: Frames that the end of the run released come last, in the order in which their connections began.
AT_END = 1 << 62
#: How many segments of a new connection are taken at first, and up to where before all the rest.
_STEPS = (32, 512)


class _Extra(NamedTuple):
    """A segment that came in fragments."""

    packet: int
    time_ns: int
    reverse: bool
    seq: int
    ack: int
    flags: int
    length: int
    payload: bytes


class _Tracked(Connections):
    """Connections that remember which packet they began with."""

    def __init__(self, slow: SlowLane, options: Options) -> None:
        super().__init__(slow.emit, options.limits, options.ports, dialect=options.dialect)
        self.began: dict[int, int] = {}

    def open(self, segment: Segment) -> tuple[Connection, int]:
        """Make a connection for a segment that belongs to none."""
        entry = super().open(segment)
        self.began[entry[0].index] = segment.packet
        return entry

    def end(self, connection: Connection) -> None:
        """Give out what is left of a connection and forget it."""
        super().end(connection)
        self.began.pop(connection.index, None)


class ShareDecoder:
    """Decodes the rows that one task gets: any number of shares, one after the other."""

    def __init__(self, captures: Sequence[str], shares: int, options: Options | None = None) -> None:
        self._captures = captures
        self._shares = shares
        self._options = options or Options()
        self._slow = SlowLane()
        self._connections = _Tracked(self._slow, self._options)
        self._share = -1
        self._talk = b""  #: the one that may go on in the next batch
        self._counts: defaultdict[bytes, int] = defaultdict(int)
        self._fragments = ReferenceDecoder()
        self._extras: defaultdict[bytes, list[_Extra]] = defaultdict(list)

    def decode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take sorted segment rows, all there are; yield frames."""
        for batch in batches:
            share = batch.column("share").to_numpy()
            bounds = np.flatnonzero(np.diff(share, prepend=self._share, append=-1)).tolist()
            begin = 0
            for end in [*(bound for bound in bounds if 0 < bound < len(share)), len(share)]:
                if begin == end:
                    continue
                if share[begin] != self._share:
                    yield from self._end_share()
                    self._share = int(share[begin])
                yield from self._run(batch.slice(begin, end - begin))
                begin = end
        yield from self._end_share()

    def _run(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows of one share."""
        encoded = rows.column("talk").dictionary_encode()
        talks, place = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        if talks[0] == b"":
            count = int(np.count_nonzero(place == 0))
            self._play(rows.slice(0, count))
            rows, talks, place = rows.slice(count), talks[1:], place[count:] - 1
        if not talks:
            return
        over = [talk for talk in (self._talk, *talks[:-1]) if talk and talk != talks[-1]]
        if self._talk and self._talk != talks[0]:
            yield from self._late([self._talk])
        self._talk = talks[-1]
        extras = self._due(talks, int(rows.column("packet")[-1].as_py()))
        yield from self._frames(_block(rows, talks, place, extras), over)

    def _due(self, talks: list[bytes], last: int) -> list[tuple[int, _Extra]]:
        """Take the segments out of fragments that stand among these rows; of the last talk those before its last."""
        due: list[tuple[int, _Extra]] = []
        for number, talk in enumerate(talks):
            waiting = self._extras.pop(talk, None)
            if waiting is None:
                continue
            if number == len(talks) - 1:
                later = [each for each in waiting if each.packet > last]
                waiting = [each for each in waiting if each.packet < last]
                if later:
                    self._extras[talk] = later
            due += [(number, each) for each in waiting]
        return due

    def _late(self, talks: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Run the segments out of fragments that came behind all other rows of their talks."""
        for talk in list(talks):
            waiting = self._extras.pop(talk, None)
            if waiting:
                yield from self._frames(
                    _block(None, [talk], np.empty(0, np.int64), [(0, each) for each in waiting]), []
                )

    def _frames(self, block: SegmentBlock, over: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        for part in self._steps(block):
            yield from self._batch(run_block(self._connections, self._slow, part))
        yield from self._end(over)

    def _steps(self, block: SegmentBlock) -> Iterator[SegmentBlock]:
        """Take the first segments of new connections first: only what is established goes through the fast lane."""
        talk = block.flow // 2
        first = np.flatnonzero(np.diff(talk, prepend=-1))
        new = [block.keys[2 * each] not in self._connections.live for each in talk[first].tolist()]
        counts = np.diff(first, append=len(talk))
        rank = np.arange(len(talk)) - np.repeat(first, counts)
        step = np.where(np.repeat(new, counts), np.searchsorted(_STEPS, rank, side="right"), len(_STEPS))
        for number in range(len(_STEPS) + 1):
            chosen = np.flatnonzero(step == number)
            if len(chosen):
                yield block if len(chosen) == len(block) else _only(block, chosen)

    def _end(self, talks: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """The run is over for some connections."""
        for talk in talks:
            entry = self._connections.live.get(talk)
            if entry is not None:
                began = self._connections.began[entry[0].index]
                before = len(self._slow.frames)
                self._connections.end(entry[0])
                emitted = self._slow.frames[before:]
                self._slow.frames[before:] = [(AT_END + began, *frame[1:]) for frame in emitted]
        yield from self._batch(self._slow.table())
        for talk in talks:
            self._counts.pop(talk, None)

    def _end_share(self) -> Iterator[pa.RecordBatch]:
        if self._talk:
            yield from self._late([self._talk])
            yield from self._end([self._talk])
        for talk in sorted(self._extras):
            yield from self._late([talk])
            yield from self._end([talk])
        self._talk = b""
        self._fragments = ReferenceDecoder()

    def _batch(self, table: FrameTable) -> Iterator[pa.RecordBatch]:
        if not len(table):
            return
        batch = batch_of(table, 1, self._captures, self._options)
        counts = self._counts
        frame = np.empty(len(table), np.int64)
        talks = [talk_of(connection.key)[0] for connection in table.connections]
        for index, connection in enumerate(table.connection.tolist()):
            counts[talks[connection]] += 1
            frame[index] = counts[talks[connection]]
        arrays = [pa.array(frame), *batch.columns[1:], pa.array(table.released)]
        yield pa.RecordBatch.from_arrays(arrays, schema=ORDERED_SCHEMA)

    def _play(self, rows: pa.RecordBatch) -> None:
        """Put fragments together, all of the run in order, and keep the segments that belong to this share."""
        columns = (rows.column(name).to_pylist() for name in ("packet", "time_ns", "seq", "length", "payload"))
        for packet, time_ns, linktype, original, data in zip(*columns, strict=True):
            segment = self._fragments.segment(data, linktype, original, time_ns)
            if segment is None:
                continue
            talk, reverse = talk_of(segment.key)
            if share_of(talk, self._shares) == self._share:
                source = segment.datagram if segment.datagram is not None else data
                payload = source[segment.payload_start : segment.payload_start + segment.payload_captured]
                facts = (segment.seq, segment.ack, segment.flags, segment.payload_length, payload)
                self._extras[talk].append(_Extra(packet, time_ns, reverse, *facts))


def _block(
    rows: pa.RecordBatch | None, talks: list[bytes], place: NDArray[np.int64], extras: list[tuple[int, _Extra]]
) -> SegmentBlock:
    """Make a block of rows and further segments, in order. Packets are ordinals, so the block's capture is 0."""
    numbers: dict[str, NDArray[np.int64]] = {}
    for name in ("packet", "time_ns", "seq", "ack", "flags", "length", "reverse"):
        own = [] if rows is None else rows.column(name).to_numpy(zero_copy_only=False)
        numbers[name] = np.r_[
            np.asarray(own, np.int64), np.array([getattr(each, name) for _, each in extras], np.int64)
        ]
    buffer, offset, captured = _payloads(rows)
    sizes = np.array([len(each.payload) for _, each in extras], np.int64)
    offset = np.r_[offset, len(buffer) + np.cumsum(sizes) - sizes]
    captured = np.r_[captured, sizes]
    if extras:
        added = np.frombuffer(b"".join(each.payload for _, each in extras), np.uint8)
        buffer = np.concatenate([buffer, added])
    talk = np.r_[place.astype(np.int64), np.array([number for number, _ in extras], np.int64)]
    order = np.lexsort((numbers["packet"], talk)) if extras else np.arange(len(talk))
    flow = (2 * talk + numbers["reverse"])[order].astype(np.int32)
    return SegmentBlock(
        capture=0,
        buffer=buffer,
        number=numbers["packet"][order],
        time_ns=numbers["time_ns"][order],
        keys=tuple(key for each in talks for key in (each, reverse_key(each))),
        flow=flow,
        seq=numbers["seq"][order].astype(np.uint32),
        ack=numbers["ack"][order].astype(np.uint32),
        flags=numbers["flags"][order].astype(np.uint8),
        payload_offset=offset[order],
        payload_captured=captured[order],
        payload_length=numbers["length"][order],
    )


def _only(block: SegmentBlock, chosen: NDArray[np.int64]) -> SegmentBlock:
    """Return some segments of a block."""
    names = ("number", "time_ns", "flow", "seq", "ack", "flags", "payload_offset", "payload_captured", "payload_length")
    return replace(block, **{name: getattr(block, name)[chosen] for name in names})


def _payloads(rows: pa.RecordBatch | None) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return the payloads' buffer, where each begins, and how long each is, without a copy."""
    if rows is None or not len(rows):
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    column = rows.column("payload")
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    # A slice has the buffers of the whole: what lies before its first payload is not for the assembly.
    buffer = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    return buffer, ends[:-1] - ends[0], np.diff(ends)
