"""The fallback: shuffled segment rows of one partition to frames, by the TCP engine.

Knows that rows come sorted by partition, conversation and packet, in batches cut anywhere. Engine, framers and batch
builder are those of the single-process reader, fed with whole conversations instead of whole chunks. What that reader
makes of one connection depends on no other one, so the rows are the same; only the limits that connections share
(bytes held by all of them, connections followed at once) count per task here.
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


class _FragmentSegment(NamedTuple):
    """A segment that was reassembled from fragments."""

    packet: int
    time_ns: int
    reverse: bool
    seq: int
    ack: int
    flags: int
    length: int
    payload: bytes


class PartitionDecoder:
    """Decodes the rows that one task gets: any number of partitions, one after the other."""

    def __init__(self, captures: Sequence[str], partitions: int, options: ReadOptions | None = None) -> None:
        self._partitions = partitions
        self._conversations = ConversationFrames(captures, options or ReadOptions())
        self._partition = -1
        self._conversation = b""  #: the last one, which may go on in the next batch
        self._fragments = ReferenceDecoder()
        self._from_fragments: defaultdict[bytes, list[_FragmentSegment]] = defaultdict(list)

    def decode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take sorted segment rows, all there are; yield frames."""
        for batch in batches:
            partition = batch.column("partition").to_numpy()
            bounds = np.flatnonzero(np.diff(partition, prepend=self._partition, append=-1)).tolist()
            begin = 0
            for end in [*(bound for bound in bounds if 0 < bound < len(partition)), len(partition)]:
                if begin == end:
                    continue
                if partition[begin] != self._partition:
                    yield from self._end_partition()
                    self._partition = int(partition[begin])
                yield from self._decode_rows(batch.slice(begin, end - begin))
                begin = end
        yield from self._end_partition()

    def _decode_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Decode rows of one partition."""
        encoded = rows.column("conversation").dictionary_encode()
        conversations, index = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        if conversations[0] == b"":
            count = int(np.count_nonzero(index == 0))
            self._add_fragments(rows.slice(0, count))
            rows, conversations, index = rows.slice(count), conversations[1:], index[count:] - 1
        if not conversations:
            return
        ended = [
            conversation
            for conversation in (self._conversation, *conversations[:-1])
            if conversation and conversation != conversations[-1]
        ]
        if self._conversation and self._conversation != conversations[0]:
            yield from self._fragments_after([self._conversation])
        self._conversation = conversations[-1]
        from_fragments = self._fragments_among(conversations, int(rows.column("packet")[-1].as_py()))
        yield from self._frames(_segment_block(rows, conversations, index, from_fragments), ended)

    def _fragments_among(self, conversations: list[bytes], last: int) -> list[tuple[int, _FragmentSegment]]:
        """Take the segments from fragments that stand among these rows; the last conversation may have later ones."""
        found: list[tuple[int, _FragmentSegment]] = []
        for number, conversation in enumerate(conversations):
            waiting = self._from_fragments.pop(conversation, None)
            if waiting is None:
                continue
            if number == len(conversations) - 1:
                later = [each for each in waiting if each.packet > last]
                waiting = [each for each in waiting if each.packet < last]
                if later:
                    self._from_fragments[conversation] = later
            found += [(number, each) for each in waiting]
        return found

    def _fragments_after(self, conversations: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Decode the segments from fragments that come after all other rows of their conversations."""
        for conversation in list(conversations):
            waiting = self._from_fragments.pop(conversation, None)
            if waiting:
                yield from self._frames(
                    _segment_block(None, [conversation], np.empty(0, np.int64), [(0, each) for each in waiting]), []
                )

    def _frames(self, block: SegmentBlock, ended: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        yield from self._conversations.run(block)
        yield from self._conversations.end(ended)

    def _end_partition(self) -> Iterator[pa.RecordBatch]:
        if self._conversation:
            yield from self._fragments_after([self._conversation])
            yield from self._conversations.end([self._conversation])
        for conversation in sorted(self._from_fragments):
            yield from self._fragments_after([conversation])
            yield from self._conversations.end([conversation])
        self._conversation = b""
        self._fragments = ReferenceDecoder()

    def _add_fragments(self, rows: pa.RecordBatch) -> None:
        """Reassemble fragments, all of the run in order, and keep the segments of this partition."""
        columns = (rows.column(name).to_pylist() for name in ("packet", "time_ns", "linktype", "length", "payload"))
        for packet, time_ns, linktype, original, data in zip(*columns, strict=True):
            segment = self._fragments.segment(data, linktype, original, time_ns)
            if segment is None:
                continue
            conversation, reverse = conversation_key(segment.key)
            if partition_of(conversation, self._partitions) == self._partition:
                source = segment.datagram if segment.datagram is not None else data
                payload = source[segment.payload_start : segment.payload_start + segment.payload_captured]
                facts = (segment.seq, segment.ack, segment.flags, segment.payload_length, payload)
                self._from_fragments[conversation].append(_FragmentSegment(packet, time_ns, reverse, *facts))


def _segment_block(
    rows: pa.RecordBatch | None,
    conversations: list[bytes],
    index: NDArray[np.int64],
    from_fragments: list[tuple[int, _FragmentSegment]],
) -> SegmentBlock:
    """Make a block of rows and segments from fragments, in order; packets are ordinals, so its capture is 0."""
    numbers: dict[str, NDArray[np.int64]] = {}
    for name in ("packet", "time_ns", "seq", "ack", "flags", "length", "reverse"):
        own = [] if rows is None else rows.column(name).to_numpy(zero_copy_only=False)
        numbers[name] = np.r_[
            np.asarray(own, np.int64), np.array([getattr(each, name) for _, each in from_fragments], np.int64)
        ]
    buffer, offset, captured = _payloads(rows)
    sizes = np.array([len(each.payload) for _, each in from_fragments], np.int64)
    offset = np.r_[offset, len(buffer) + np.cumsum(sizes) - sizes]
    captured = np.r_[captured, sizes]
    if from_fragments:
        added = np.frombuffer(b"".join(each.payload for _, each in from_fragments), np.uint8)
        buffer = np.concatenate([buffer, added])
    conversation = np.r_[index.astype(np.int64), np.array([number for number, _ in from_fragments], np.int64)]
    order = np.lexsort((numbers["packet"], conversation)) if from_fragments else np.arange(len(conversation))
    flow = (2 * conversation + numbers["reverse"])[order].astype(np.int32)
    return SegmentBlock(
        capture=0,
        buffer=buffer,
        number=numbers["packet"][order],
        time_ns=numbers["time_ns"][order],
        keys=tuple(key for each in conversations for key in (each, reverse_key(each))),
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
    # A slice shares the buffers of the whole batch: skip what lies before its first payload.
    buffer = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    return buffer, ends[:-1] - ends[0], np.diff(ends)
