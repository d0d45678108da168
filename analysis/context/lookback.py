"""Looking back: which row of a kind was the last before another row of the same group.

Rows are sorted by group (a stream, a direction, a connection); within a group they keep their order. "Which marker came
last before this row" is one running maximum over the whole batch, and the groups' beginnings tell where an answer is
too old. For few rows a binary search is cheaper. What came before the batch is carried over by the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dissector.array_types import Longs, Mask


_SEARCH = 8  #: a search costs as much as a running maximum over so many rows


_SHORT_CODES = 1 << 16  #: numbers below are sorted as 16-bit integers, by radix: several times as fast


class RowGroups:
    """Rows sorted by group. All arrays that go in or come out are in that order."""

    def __init__(self, first: Mask) -> None:
        """Make groups of rows that are in order; ``first`` marks where a new one begins."""
        self.size = len(first)
        self.starts: Longs = np.flatnonzero(first)
        self.number: Longs = np.cumsum(first) - 1  #: of each row's group
        self.start: Longs = self.starts[self.number] if self.size else self.starts  #: where each row's group begins
        self.ends: Longs = np.r_[self.starts[1:], self.size] - 1 if self.size else self.starts  #: last row of each

    def last_before(self, mask: Mask) -> Longs:
        """Return for each row the last marked row of its group before it; -1: none."""
        found = self._running(mask)
        before: Longs = np.empty_like(found)
        if self.size:
            before[0] = -1
            before[1:] = found[:-1]
        before[before < self.start] = -1
        return before

    def last_until(self, mask: Mask) -> Longs:
        """Return for each row the last marked row of its group up to itself; -1: none."""
        found = self._running(mask)
        found[found < self.start] = -1
        return found

    def count_before(self, mask: Mask) -> Longs:
        """Return for each row how many marked rows of its group are before it."""
        total = np.cumsum(mask)
        before: Longs = total - mask
        return before - before[self.start] if self.size else before

    @staticmethod
    def _running(mask: Mask) -> Longs:
        return np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))


def sorted_by(code: Longs) -> tuple[Longs, RowGroups]:
    """Return the order that brings equal codes together, and the groups in it."""
    small = len(code) > 0 and int(code.min()) >= 0 and int(code.max()) < _SHORT_CODES
    order = np.argsort(code.astype(np.uint16) if small else code, kind="stable")
    ordered = code[order]
    first = np.empty(len(code), bool)
    if len(code):
        first[0] = True
        first[1:] = ordered[1:] != ordered[:-1]
    return order, RowGroups(first)


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
        """Return for each row the last row of the kind before it in its stream; -1: none in the batch."""
        groups = self._groups
        if self._full is None and (rows is None or len(rows) * _SEARCH > groups.size):
            self._full = groups.last_before(self.mask)
        if self._full is not None:
            return self._full if rows is None else self._full[rows]
        return self._searched(rows, "left")

    def until(self, rows: Longs | None) -> Longs:
        """Return the same, but a row of the kind finds itself."""
        return self._searched(rows, "right")

    def count_before(self, rows: Longs | None) -> Longs:
        """Return how many rows of the kind are before each row in its stream."""
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


def filled(found: Longs, values: Longs, carried: Longs, entry: Longs) -> Longs:
    """Return the values at the rows that were found, and where none was what ``carried`` has at the row's ``entry``."""
    if not len(values):
        return carried[entry]
    result: Longs = values[found]
    missing = np.flatnonzero(found < 0)
    if len(missing):
        result[missing] = carried[entry[missing]]
    return result


def as_of(known: Longs, place: Longs, changes: Mapping[int, int]) -> Longs:
    """Return what was known at each row, itself included, and leave in ``known`` what is known after the last one.

    ``place`` is where each row's number is kept; ``changes`` are rows, and their new numbers.
    """
    if not changes:
        constant: Longs = known[place]
        return constant
    changed = np.zeros(len(place), bool)
    values = np.zeros(len(place), np.int64)
    changed[[*changes]] = True
    values[[*changes]] = [*changes.values()]
    order, groups = sorted_by(place)
    found = filled(groups.last_until(changed[order]), values[order], known, place[order])
    result = np.empty(len(place), np.int64)
    result[order] = found
    known[place[order][groups.ends]] = found[groups.ends]
    return result
