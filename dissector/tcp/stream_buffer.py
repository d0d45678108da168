"""The bytes of many flows in one buffer: of each flow what its framer still holds, then its segments.

Knows where each part of the buffer came from; ``fast_path`` chooses the flows and finds the frames.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dissector.arrow import take
from dissector.tcp.frame_table import SLACK_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.array_types import Longs, Mask
    from dissector.link.segment_block import SegmentBlock


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """A buffer in parts: tails, which are what flows had left over before, and segments."""

    stream: memoryview
    """All bytes, and some more at the end."""
    begins: Longs
    """Of each flow: where its bytes begin."""
    ends: Longs
    is_segment: Mask
    """Of each part: whether it is a segment. If not, it is the tail of its flow."""
    part_ends: Longs
    """Of each part: where it ends."""


def assemble(block: SegmentBlock, chosen: Longs, counts: Longs, tails: Sequence[bytearray]) -> Assembly:
    """Put segments of a block together, and in front of each flow's its tail, which may be empty.

    ``chosen`` are the segments, flow by flow; ``counts`` is how many of them each flow has: at least one.
    """
    if not len(chosen):
        none = np.empty(0, np.int64)
        return Assembly(memoryview(bytes(SLACK_BYTES)), none, none, none.astype(bool), none)
    offsets, chosen = _elements(block, chosen)
    sizes = np.diff(offsets)
    # There is room for a tail where something else was copied: the longest element, as often as it takes.
    longest = int(np.argmax(sizes))
    unit = int(sizes[longest])
    held = np.fromiter(map(len, tails), np.int64, len(tails))
    has_tail = held > 0
    parts = np.cumsum(counts + has_tail)
    tail_parts = (parts - counts - 1)[has_tail]
    is_segment = np.ones(int(parts[-1]), bool)
    is_segment[tail_parts] = False
    element = np.full(len(is_segment), longest)
    element[is_segment] = chosen
    copies = np.ones(len(is_segment), np.int64)
    copies[tail_parts] = -(-held[has_tail] // unit)
    part_ends = np.cumsum(sizes[element] * copies)
    slack = np.full(-(-SLACK_BYTES // unit), longest)
    stream = _taken(block, offsets, np.concatenate((np.repeat(element, copies), slack)))
    lengths = np.add.reduceat(sizes[chosen], np.cumsum(counts) - counts)
    ends = part_ends[parts - 1]
    _put_tails(stream, tails, part_ends[tail_parts].tolist())
    stream[int(ends[-1]) :] = bytes(len(stream) - int(ends[-1]))
    return Assembly(stream, ends - lengths - held, ends, is_segment, part_ends)


def _elements(block: SegmentBlock, chosen: Longs) -> tuple[Longs, Longs]:
    """Return the block's bytes as elements of an array, by their offsets, and which of them are the chosen payloads.

    The payloads are the odd elements, and whatever lies before each of them the even ones.
    """
    start = block.payload_offset
    end = start + block.payload_captured
    if (start[1:] < start[:-1]).any():  # some came out of fragments, and lie after all others
        by_start = np.argsort(start, kind="stable")
        start, end = start[by_start], end[by_start]
        place = np.empty_like(by_start)
        place[by_start] = np.arange(len(by_start))
        chosen = place[chosen]
    offsets = np.zeros(2 * len(start) + 1, np.int64)
    offsets[1::2] = start
    offsets[2::2] = end
    return offsets, 2 * chosen + 1


def _taken(block: SegmentBlock, offsets: Longs, elements: Longs) -> memoryview:
    """Copy elements one after the other: in C, without an object for each."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.buffer)]
    source = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    taken = memoryview(take(source, elements).buffers()[2]).cast("B")
    # pyarrow returns a writable buffer here, but does not document it: copy if it is read-only.
    return memoryview(bytearray(taken)) if taken.readonly else taken


def _put_tails(stream: memoryview, tails: Sequence[bytearray], ends: list[int]) -> None:
    for tail, end in zip(filter(None, tails), ends, strict=True):
        stream[end - len(tail) : end] = tail
