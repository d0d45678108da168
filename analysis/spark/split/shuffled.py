"""One share of a run's connections: sorted segment rows in, frames out, by the ordinary engine.

Knows that rows come sorted by share, connection and packet, in batches cut anywhere. Must not know who sorted them, nor
what a frame is: lanes, framers and columns are those of the single-process reader, fed with whole connections instead
of whole chunks. What that reader does to one connection depends on no other one, so the rows are the same; only the
limits that connections share (bytes held over all of them, connections followed at once) count per task here.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.spark.partitioning import conversation_key, partition_of
from analysis.spark.split.conversations import ConversationFrames
from dissector.link.flow_key import reverse_key
from dissector.link.reference import ReferenceDecoder
from dissector.link.segment_block import SegmentBlock
from dissector.options import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray


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


class PartitionDecoder:
    """Decodes the rows that one task gets: any number of shares, one after the other."""

    def __init__(self, captures: Sequence[str], shares: int, options: ReadOptions | None = None) -> None:
        self._shares = shares
        self._talks = ConversationFrames(captures, options or ReadOptions())
        self._share = -1
        self._talk = b""  #: the one that may go on in the next batch
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

    def _frames(self, block: SegmentBlock, over: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        yield from self._talks.run(block)
        yield from self._talks.end(over)

    def _end_share(self) -> Iterator[pa.RecordBatch]:
        if self._talk:
            yield from self._late([self._talk])
            yield from self._talks.end([self._talk])
        for talk in sorted(self._extras):
            yield from self._late([talk])
            yield from self._talks.end([talk])
        self._talk = b""
        self._fragments = ReferenceDecoder()

    def _play(self, rows: pa.RecordBatch) -> None:
        """Put fragments together, all of the run in order, and keep the segments that belong to this share."""
        columns = (rows.column(name).to_pylist() for name in ("packet", "time_ns", "seq", "length", "payload"))
        for packet, time_ns, linktype, original, data in zip(*columns, strict=True):
            segment = self._fragments.segment(data, linktype, original, time_ns)
            if segment is None:
                continue
            talk, reverse = conversation_key(segment.key)
            if partition_of(talk, self._shares) == self._share:
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
