"""Fast path for reordered or duplicated segments, when the block itself holds all of them.

Flows that cannot be put in order beyond doubt are left to the sequential engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.tcp.limits import SEGMENT_OVERHEAD
from dissector.tcp.reassembly import OLDEST_BYTES

if TYPE_CHECKING:
    from dissector.array_types import Longs


_WRAP = 1 << 32


class Reordered(NamedTuple):
    """Segments that follow each other without a hole, by their place among those given."""

    rows: Longs
    bytes_repeated: int


def reorder(distance: Longs, length: Longs, limit: int) -> Reordered | None:
    """Order segments by their distance from what is expected next; None if that leaves holes, overlaps or doubts.

    ``distance`` is the difference of sequence numbers modulo 2^32, in order of arrival; ``limit`` is how much may be
    held out of order.
    """
    data = np.flatnonzero(length > 0)
    start = distance[data] % _WRAP
    start = np.where(start < _WRAP - OLDEST_BYTES, start, start - _WRAP)
    size = length[data]
    if int(size.sum()) + len(data) * SEGMENT_OVERHEAD > limit:
        return None
    order = np.lexsort((data, start))
    start, size, rows = start[order], size[order], data[order]
    end = start + size
    # Wholly old: bytes from before this block. They were delivered, so nothing can be said of them any more.
    old = end <= 0
    same = np.zeros(len(rows), bool)
    same[1:] = (start[1:] == start[:-1]) & (size[1:] == size[:-1])
    keep = ~old & ~same
    kept_start, kept_end, kept = start[keep], end[keep], rows[keep]
    if not len(kept) or kept_start[0] != 0 or (kept_start[1:] != kept_end[:-1]).any():
        return None
    # A second copy is dropped without a look if the first had been delivered by then: everything before it was there.
    released = np.maximum.accumulate(kept)
    repeated = np.flatnonzero(same & ~old)
    first_copy = np.searchsorted(kept_start, start[repeated])
    if (released[first_copy] > rows[repeated]).any():
        return None
    return Reordered(kept, int(size[~keep].sum()))


def with_reordered(rows: Longs, counts: Longs, reordered: list[tuple[int, Longs]]) -> tuple[Longs, Longs]:
    """Put the rows of reordered flows, by their place among the flows, where rows in order of arrival stood."""
    if not reordered:
        return rows, counts
    bounds, counts = np.cumsum(counts).tolist(), counts.copy()
    parts, done = [], 0
    for flow, instead in reordered:
        parts += [rows[done : bounds[flow] - counts[flow]], instead]
        done, counts[flow] = bounds[flow], len(instead)
    return np.concatenate([*parts, rows[done:]]), counts
