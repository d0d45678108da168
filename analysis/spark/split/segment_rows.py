"""TCP segments as rows: what is shuffled of conversations that can't be stitched.

Knows how the segments of a split become record batches. A row says where it belongs (``partition``, ``conversation``)
and where in the run it stands (``packet``): sorted by these, the rows of a conversation are its segments in capture
order.

Fragments of one IP datagram may lie in several splits, and are reassembled in the order of the run. So they are not
reassembled here: each goes, as a whole packet, to every partition, and the decoder of a partition reassembles all of
them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.spark.partitioning import conversation_key, partition_of
from dissector.capture import CaptureReader
from dissector.capture.chunk_sizes import PACKET_CHUNK_BYTES
from dissector.capture.split import FilePartStream
from dissector.link.columnar import ColumnarDecoder
from dissector.link.drop_counts import Reason
from dissector.link.reference import ReferenceDecoder
from dissector.link.segment_block import SegmentBlock, columns_of
from dissector.tcp.connections import packet_ordinal

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from numpy.typing import NDArray

    from analysis.spark.storage import Location
    from dissector.capture.packet_block import Damage, PacketBlock
    from dissector.capture.split import FilePart
    from dissector.link.segment_block import PacketSegment, SegmentColumns

SEGMENTS = pa.schema(
    [
        ("partition", pa.int32()),  # of the shuffle
        ("conversation", pa.binary()),  # key of the direction that sorts first; empty: a fragment, as a whole packet
        ("packet", pa.int64()),  # ordinal in the run
        ("time_ns", pa.int64()),
        ("reverse", pa.bool_()),  # sent in the other direction than ``conversation`` says
        ("seq", pa.int64()),
        ("ack", pa.int64()),
        ("flags", pa.int16()),
        ("length", pa.int64()),  # of the payload on the wire; of a fragment: of the packet
        ("payload", pa.binary()),  # of a fragment: the packet
        ("linktype", pa.int64()),  # of a fragment; null for a segment
    ]
)
SEGMENTS_ORDER = ("partition", "conversation", "packet")


class FragmentPacket(NamedTuple):
    """A packet that is an IP fragment."""

    packet: int  #: ordinal in the run
    time_ns: int
    linktype: int
    original: int
    data: bytes


def blocks_of_part(
    address: Location, part: FilePart, capture: int, damage: list[Damage] | None = None, *, whole_run: bool = False
) -> Iterator[tuple[SegmentBlock, list[FragmentPacket]]]:
    """Read a part of a capture; yield its segments, with packets numbered as in the whole file, and its fragments.

    ``whole_run``: the run has no other part, so fragments are reassembled here.
    """
    decoder = ColumnarDecoder() if whole_run else PartDecoder(part.packets_before)
    with address.open() as file:
        reader = CaptureReader(FilePartStream(file, part), capture, PACKET_CHUNK_BYTES, address.name)
        for block in reader:
            segments = decoder.decode(block)
            fragments: list[FragmentPacket] = []
            if isinstance(decoder, PartDecoder):
                fragments, decoder.fragments = decoder.fragments, fragments
            yield replace(segments, number=segments.number + part.packets_before), fragments
        if damage is not None:
            damage += reader.damage


def rows_of_part(
    address: Location,
    part: FilePart,
    capture: int,
    partitions: int,
    damage: list[Damage] | None = None,
    *,
    conversations: Container[bytes] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a part of a capture; yield its segments as rows, only those of ``conversations`` if given."""
    for block, fragments in blocks_of_part(address, part, capture, damage):
        segments = block if conversations is None else select_conversations(block, conversations)
        if len(segments):
            yield _segment_rows(segments, partitions)
        if fragments:
            yield from _fragment_rows(fragments, partitions)


def select_conversations(block: SegmentBlock, conversations: Container[bytes], *, others: bool = False) -> SegmentBlock:
    """Return the segments of some conversations, or of all others."""
    wanted = np.array([(conversation_key(key)[0] in conversations) != others for key in block.keys], np.bool_)
    return block if wanted.all() else select_segments(block, np.flatnonzero(wanted[block.flow]))


def select_segments(block: SegmentBlock, chosen: NDArray[np.int64]) -> SegmentBlock:
    """Return some segments of a block."""
    names = ("number", "time_ns", "flow", "seq", "ack", "flags", "payload_offset", "payload_captured", "payload_length")
    return replace(block, **{name: getattr(block, name)[chosen] for name in names})


class PartDecoder(ColumnarDecoder):
    """Finds the segments of a part, and collects fragments without reassembling them."""

    def __init__(self, packets_before: int = 0) -> None:
        super().__init__()
        self.fragments: list[FragmentPacket] = []
        """Fragments since the caller last took them."""
        self._packets_before = packets_before
        self._single = _FragmentDetector()

    def _one_by_one(self, block: PacketBlock, at: NDArray[np.int64]) -> tuple[NDArray[np.uint8], SegmentColumns]:
        found: list[tuple[int, PacketSegment]] = []
        first = packet_ordinal(block.capture, self._packets_before + block.first_number)
        for index in at.tolist():
            packet, original = block.packet(index), int(block.original[index])
            linktype, time_ns = int(block.linktype[index]), int(block.time_ns[index])
            self._single.fragmented = False
            segment = self._single.segment(packet, linktype, original, time_ns)
            if self._single.fragmented:
                self.fragments.append(FragmentPacket(first + index, time_ns, linktype, original, packet))
            elif segment is not None:
                found.append((index, segment))
        return columns_of(block, block.buffer, found)


class _FragmentDetector(ReferenceDecoder):
    """Decodes one packet at a time, and says whether it was a fragment."""

    fragmented = False

    def _fragment(self, *_: Any, **__: Any) -> PacketSegment | Reason:
        self.fragmented = True
        return Reason.FRAGMENT_HELD


def _segment_rows(block: SegmentBlock, partitions: int) -> pa.RecordBatch:
    conversations = [conversation_key(key) for key in block.keys]
    partition = np.array([partition_of(conversation, partitions) for conversation, _ in conversations], np.int32)
    reverse = np.array([other for _, other in conversations], np.bool_)
    names = pa.array([conversation for conversation, _ in conversations], pa.binary())
    flow = block.flow
    return pa.RecordBatch.from_arrays(
        [
            pa.array(partition[flow]),
            names.take(pa.array(flow)),
            pa.array(packet_ordinal(block.capture, block.number)),
            pa.array(block.time_ns),
            pa.array(reverse[flow]),
            pa.array(block.seq.astype(np.int64)),
            pa.array(block.ack.astype(np.int64)),
            pa.array(block.flags.astype(np.int16)),
            pa.array(block.payload_length),
            _payloads(block),
            pa.nulls(len(block), pa.int64()),
        ],
        schema=SEGMENTS,
    )


def _payloads(block: SegmentBlock) -> pa.Array:
    """Copy the payloads: view the buffer as an array of payloads and the bytes between, and take the payloads."""
    start = block.payload_offset
    order = np.argsort(start, kind="stable")
    offsets = np.zeros(2 * len(start) + 1, np.int64)
    offsets[1::2] = start[order]
    offsets[2::2] = (start + block.payload_captured)[order]
    index = np.empty(len(start), np.int64)
    index[order] = 2 * np.arange(len(start)) + 1
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(block.buffer))]
    source = pa.Array.from_buffers(pa.large_binary(), 2 * len(start), buffers)
    return source.take(pa.array(index)).cast(pa.binary())


def _fragment_rows(fragments: Sequence[FragmentPacket], partitions: int) -> Iterator[pa.RecordBatch]:
    count = len(fragments)
    columns = [
        pa.array([b""] * count, pa.binary()),
        pa.array([each.packet for each in fragments], pa.int64()),
        pa.array([each.time_ns for each in fragments], pa.int64()),
        pa.array([False] * count),
        pa.array([0] * count, pa.int64()),
        pa.array([0] * count, pa.int64()),
        pa.array([0] * count, pa.int16()),
        pa.array([each.original for each in fragments], pa.int64()),
        pa.array([each.data for each in fragments], pa.binary()),
        pa.array([each.linktype for each in fragments], pa.int64()),
    ]
    for partition in range(partitions):
        yield pa.RecordBatch.from_arrays([pa.array([partition] * count, pa.int32()), *columns], schema=SEGMENTS)
