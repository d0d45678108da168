"""Time bins that get wider as the time grows: arrays of lanes by bins, of bounded size.

A bin is 2^n nanoseconds wide and begins at a multiple of its width. When the time does not fit, each two bins are
merged into one. The result depends on the first and the last time alone, not on how frames were cut into batches.
A lane is one series of numbers, named by an integer key. Knows numbers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.frames.batch import distinct

if TYPE_CHECKING:
    from dissector.array_types import Longs


NONE = np.iinfo(np.int64).min  #: an empty bin
BINS = 1024  #: at most, with few lanes
_CELLS = 1 << 20
_LEAST_BINS = 128
MAX_LANES = _CELLS // _LEAST_BINS
_FINEST = 10  #: width as a power of two: about a microsecond

SUM, LEAST, MOST, FIRST, LAST = "sum", "least", "most", "first", "last"


class TimeBins:
    """Arrays by name, all with the same lanes and bins."""

    def __init__(self, **arrays: str) -> None:
        """Make arrays by name; the value says how several numbers in one bin become one: SUM, LEAST, ..."""
        self.reduction = arrays
        self.keys: list[int] = []  #: of the lanes
        self.left_out = 0  #: rows whose lane had no room
        self.shift = _FINEST
        self.low = 0  #: number of the first bin since the epoch
        self.first_ns: int | None = None
        self.last_ns = 0
        self._lanes: dict[int, int] = {}
        self._limit = BINS
        self._room = 8
        self.arrays = {name: _empty(reduction, self._room, self._limit) for name, reduction in arrays.items()}

    def __getitem__(self, name: str) -> Longs:
        """Return an array, cut to the lanes and bins in use."""
        return self.arrays[name][: len(self.keys), : self.count]

    @property
    def count(self) -> int:
        """Return the number of bins from the first time to the last."""
        return 0 if self.first_ns is None else (self.last_ns >> self.shift) - self.low + 1

    @property
    def width_ns(self) -> int:
        """Return the width of a bin."""
        return 1 << self.shift

    def starts_ns(self) -> Longs:
        """Return the start of each bin."""
        return np.arange(self.low, self.low + self.count, dtype=np.int64) << self.shift

    def place(self, keys: Longs, times_ns: Longs) -> tuple[Longs, Longs, Longs]:
        """Return lanes, bins and rows: each row's place in the arrays. Rows whose lane has no room are left out."""
        rows = np.arange(len(keys))
        if not len(rows):
            return rows, rows, rows
        known, code = distinct(keys)
        lanes = np.array([self._lane(key) for key in known], np.int64)[code]
        if (lanes < 0).any():
            rows = np.flatnonzero(lanes >= 0)
            self.left_out += len(lanes) - len(rows)
            lanes, times_ns = lanes[rows], times_ns[rows]
        if len(rows):
            self._fit(int(times_ns.min()), int(times_ns.max()))
        return lanes, (times_ns >> self.shift) - self.low, rows

    def extend(self, first_ns: int, last_ns: int) -> None:
        """Make bins for this time, even if they stay empty."""
        self._fit(first_ns, last_ns)

    def put(self, name: str, lanes: Longs, bins: Longs, numbers: Longs | int) -> None:
        """Enter numbers, in capture order."""
        array, reduction = self.arrays[name], self.reduction[name]
        at = (lanes, bins)
        if reduction == SUM:
            np.add.at(array, at, numbers)
        elif reduction == LAST:
            array[at] = numbers
        elif reduction == MOST:
            np.maximum.at(array, at, numbers)
        elif reduction == LEAST:
            # NONE is the least integer: give empty bins the greatest one before taking the minimum.
            array[at] = np.where(array[at] == NONE, np.iinfo(np.int64).max, array[at])
            np.minimum.at(array, at, numbers)
        else:
            fresh = np.flatnonzero(array[at] == NONE)[::-1]  # backwards: the first one stays
            chosen = numbers if isinstance(numbers, int) else numbers[fresh]
            array[lanes[fresh], bins[fresh]] = chosen

    def _lane(self, key: int) -> int:
        lane = self._lanes.get(key)
        if lane is None:
            if len(self.keys) >= MAX_LANES:
                return -1
            lane = self._lanes[key] = len(self.keys)
            self.keys.append(key)
            if lane >= self._room:
                self._grow()
        return lane

    def _grow(self) -> None:
        self._room *= 2
        while self._room * self._limit > _CELLS and self._limit > _LEAST_BINS:
            self._limit //= 2
        if self.first_ns is not None:
            self._fit(self.first_ns, self.last_ns)
        for name, reduction in self.reduction.items():
            grown = _empty(reduction, self._room, self._limit)
            grown[: self._room // 2] = self.arrays[name][:, : self._limit]
            self.arrays[name] = grown

    def _fit(self, first_ns: int, last_ns: int) -> None:
        fresh = self.first_ns is None
        first = first_ns if self.first_ns is None else min(self.first_ns, first_ns)
        last = last_ns if fresh else max(self.last_ns, last_ns)
        shift = self.shift
        while (last >> shift) - (first >> shift) >= self._limit:
            shift += 1
        if fresh:
            self.shift, self.low = shift, first >> shift
        while self.shift < shift:
            self._merge_pairs()
        back = self.low - (first >> shift)
        if back > 0:
            for name, reduction in self.reduction.items():
                moved = _empty(reduction, *self.arrays[name].shape)
                moved[:, back:] = self.arrays[name][:, :-back]
                self.arrays[name] = moved
            self.low -= back
        self.first_ns, self.last_ns = first, last

    def _merge_pairs(self) -> None:
        """Merge each two bins into one."""
        odd = self.low & 1
        for name, reduction in self.reduction.items():
            array = self.arrays[name]
            lanes, width = array.shape
            padded = _empty(reduction, lanes, width + 2)
            padded[:, odd : odd + width] = array
            left, right = padded[:, ::2], padded[:, 1::2]
            halved = _empty(reduction, lanes, width)
            halved[:, : left.shape[1]] = _merged(reduction, left, right)
            self.arrays[name] = halved
        self.low >>= 1
        self.shift += 1


def _empty(reduction: str, lanes: int, bins: int) -> Longs:
    return np.full((lanes, bins), 0 if reduction == SUM else NONE, np.int64)


def _merged(reduction: str, left: Longs, right: Longs) -> Longs:
    if reduction == SUM:
        return left + right
    if reduction == MOST:
        return np.maximum(left, right)
    if reduction == FIRST:
        return np.where(left == NONE, right, left)
    if reduction == LAST:
        return np.where(right == NONE, left, right)
    return np.where(left == NONE, right, np.where(right == NONE, left, np.minimum(left, right)))


def forward_fill(values: Longs) -> Longs:
    """Return each lane's last number up to each bin; NONE before its first."""
    there = values != NONE
    place = np.maximum.accumulate(np.where(there, np.arange(values.shape[1]), 0), axis=1)
    found: Longs = np.take_along_axis(values, place, axis=1)
    return found
