"""Trails: the rows of one kind in streams, and which of them was the last before any other row.

A trail of few rows answers by search, one that is asked about everything by one running maximum. What came before the
batch is the business of those who remember it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.lookback import RowGroups

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_SEARCH = 8  #: a search costs as much as a running maximum over so many rows


class RowsOfKind:
    """Rows of one kind. Rows are numbers in the order of streams; None stands for all of them."""

    __slots__ = ("_full", "_groups", "at", "mask")

    def __init__(self, groups: RowGroups, mask: Mask) -> None:
        self._groups = groups
        self.mask = mask
        self.at: Longs = np.flatnonzero(mask)
        self._full: Longs | None = None

    def __len__(self) -> int:
        return len(self.at)

    def before(self, rows: Longs | None) -> Longs:
        """Return for each row the last one of the trail before it in its stream; -1: none in the batch."""
        groups = self._groups
        if self._full is None and (rows is None or len(rows) * _SEARCH > groups.size):
            self._full = groups.last_before(self.mask)
        if self._full is not None:
            return self._full if rows is None else self._full[rows]
        return self._searched(rows, "left")

    def until(self, rows: Longs | None) -> Longs:
        """Return the same, but a row of the trail itself finds itself."""
        return self._searched(rows, "right")

    def count_before(self, rows: Longs | None) -> Longs:
        """Return how many of the trail are before each row in its stream."""
        rows = self._numbers(rows)
        found: Longs = np.searchsorted(self.at, rows) - np.searchsorted(self.at, self._groups.start[rows])
        return found

    def _searched(self, rows: Longs | None, side: str) -> Longs:
        rows = self._numbers(rows)
        if not len(self.at):
            return np.full(len(rows), -1, np.int64)
        place = np.searchsorted(self.at, rows, side=side) - 1  # type: ignore[call-overload]
        found: Longs = self.at[place]
        found[(place < 0) | (found < self._groups.start[rows])] = -1
        return found

    def _numbers(self, rows: Longs | None) -> Longs:
        return np.arange(self._groups.size) if rows is None else rows


def filled(found: Longs, values: Longs, carried: NDArray[np.int64], entry: Longs) -> Longs:
    """Return the values at the rows that were found, and what their entries carry where none was."""
    if not len(values):
        return carried[entry]
    result: Longs = values[found]
    missing = np.flatnonzero(found < 0)
    if len(missing):
        result[missing] = carried[entry[missing]]
    return result
