"""In which packets frames are: ordinals of packets in a run, and where a frame's reading has to begin.

Knows columns of frames; must not know why a frame is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.arrow import encoded
from dissector.tcp.connections import packet_ordinal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dissector.array_types import Longs
    from dissector.capture import Input

#: What :class:`FramePackets` reads.
COLUMNS = frozenset(("capture", "capture_first", "packet_first", "packet_last", "connection", "direction"))
_FARTHEST_BACK = 256  #: packets to go back at most to one in which a frame begins


class FramePackets:
    """The packets of frames, batch after batch; ``inputs`` in the order in which they are read."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._captures = {each.name: index for index, each in enumerate(inputs)}
        self._before: dict[
            tuple[str, int], tuple[int, int]
        ] = {}  #: by direction: the last packet, and where its range began

    def first(self, batch: pa.RecordBatch) -> Longs:
        """Return the packet of each frame's first byte."""
        return self._ordinals(batch, "capture_first", "packet_first")

    def last(self, batch: pa.RecordBatch) -> Longs:
        """Return the last packet of each frame."""
        return self._ordinals(batch, "capture", "packet_last")

    def _ordinals(self, batch: pa.RecordBatch, capture: str, packet: str) -> Longs:
        names, codes = encoded(batch.column(capture))
        firsts = [packet_ordinal(self._captures[name], 0) for name in names.to_pylist()]
        found: Longs = np.array(firsts, np.int64)[codes]
        found += batch.column(packet).to_numpy()
        return found

    def begins(self, batch: pa.RecordBatch, first: Longs, last: Longs) -> Longs:
        """Return, for each row, the nearest packet up to it in which a frame of its direction begins anew."""
        begins = first.copy()
        side, names = sides_of(batch)
        for code in np.unique(side).tolist():
            rows = np.flatnonzero(side == code)
            key = (names[code // 2], code % 2)
            before = self._before.get(key, (-1, -1))
            fresh = first[rows] != np.r_[before[0], last[rows][:-1]]
            index = np.maximum.accumulate(np.where(fresh, np.arange(len(rows)), -1))
            found = np.where(index < 0, before[1], first[rows][index])
            far = first[rows] - found > _FARTHEST_BACK
            begins[rows] = np.where(far, first[rows], found)
            self._before[key] = (int(last[rows][-1]), int(found[-1]))
        return begins


def sides_of(batch: pa.RecordBatch) -> tuple[Longs, list[str]]:
    """Return a number for the direction of each row, and names: number // 2 is the name's place, % 2 the direction."""
    names, codes = encoded(batch.column("connection"))
    side: Longs = codes.astype(np.int64) * 2 + batch.column("direction").to_numpy()
    return side, names.to_pylist()
