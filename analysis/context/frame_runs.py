"""Runs of frames: how many were read one right after the other before a frame, since something was lost or passed over.

The first frame of a run was searched for, and may have been found by mistake in the middle of another one. A frame
after it starts where the one before ends. Bytes that are missing inside of a frame end no run: its length is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.lookback import sorted_by

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs

#: Before a direction's first frame: it starts with the first byte that there is, and was not searched for.
_BEGINNING = 1 << 20
_LONG = 1 << 10  #: a run of so many frames is beyond doubt


class FrameRuns:
    """The runs of all directions, carried from batch to batch."""

    def __init__(self) -> None:
        self._length: Longs = np.zeros(0, np.int64)  #: by direction, of the run so far

    def fold(self, frames: ContextBatch) -> Longs:
        """Return for each row how many frames of its run come before it; 0: it was searched for."""
        room = int(frames.direction_id.max()) + 1
        if room > len(self._length):
            more = max(room, 2 * len(self._length)) - len(self._length)
            self._length = np.r_[self._length, np.full(more, _BEGINNING)]
        broken = (frames.numbers("gap") > 0) | (frames.numbers("skipped") > 0)
        lengths: Longs = self._length[frames.direction_id]
        if not broken.any() and (lengths >= _LONG).all():
            return lengths  # how long exactly does not matter
        order, groups = sorted_by(frames.direction_id)
        place = np.arange(frames.size)
        since = groups.last_until(broken[order])
        carried = lengths[order] + place - groups.start
        before = np.empty(frames.size, np.int64)
        before[order] = np.where(since >= 0, place - since, carried)
        self._length[frames.direction_id] = before + 1  # of several writes to one place the last one stays
        return before
