"""Rows that belong together, in their order: the one primitive that everything which looks back is made of.

Rows are sorted by group; within a group they keep their order. A question such as "which marker came last before this
row" is one running maximum over the whole batch, and the groups' beginnings tell where an answer is too old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]


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

    def at_ends(self, per_row: Longs) -> Longs:
        """Return what each group's last row has."""
        return per_row[self.ends]

    @staticmethod
    def _running(mask: Mask) -> Longs:
        return np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))


def sorted_by(code: Longs) -> tuple[Longs, RowGroups]:
    """Return the order that brings equal codes together, and the groups in it."""
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    first = np.empty(len(code), bool)
    if len(code):
        first[0] = True
        first[1:] = ordered[1:] != ordered[:-1]
    return order, RowGroups(first)


def filled(found: Longs, values: Longs, otherwise: Longs) -> Longs:
    """Return ``values`` at the rows that were found, and what was carried over where none was."""
    return np.where(found >= 0, values[found], otherwise) if len(values) else otherwise
