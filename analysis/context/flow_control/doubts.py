"""Why rows of flow control can't be decided, where sums are known only within bounds.

A sum has a least and a most value. Where both are the same it is known, whatever was lost before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from analysis.context.codes import UnknownReason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs


UNBOUNDED = 1 << 56  #: more than can ever be outstanding
EVERYTHING = 1 << 44  #: more than a capture has bytes; some thousand of them can be added up


@dataclass(frozen=True, slots=True)
class Doubts:
    """Doubts about some rows."""

    reason: UnknownReason  #: why sums have bounds
    unopened: bool = False
    rows: Longs | None = None  #: rows that can't be decided at all; None: there are none

    @property
    def sure(self) -> NDArray[np.bool_] | bool:
        """Tell which rows can be decided, if their sums allow it."""
        return True if self.rows is None else self.rows == UnknownReason.KNOWN

    def some(self, rows: NDArray[np.bool_] | slice | Longs) -> Doubts:
        """Return the doubts about some of the rows."""
        return self if self.rows is None else replace(self, rows=self.rows[rows])

    def of(self, least: Longs, most: Longs) -> Longs | int:
        """Return why each row can't be decided, by what its sum is at least and at most."""
        if least is most:
            return UnknownReason.KNOWN if self.rows is None else self.rows
        found: Longs = np.where(least == most, UnknownReason.KNOWN, self.reason)
        return found if self.rows is None else np.where(self.rows > 0, self.rows, found)

    def of_requests(self, seen: NDArray[np.bool_], lost: NDArray[np.bool_]) -> Longs:
        """Return why it is not known of rows whether a request came before, by whether one may have been lost."""
        reason = np.where(lost, UnknownReason.GAP, UnknownReason.KNOWN)
        found: Longs = np.where(seen, UnknownReason.KNOWN, UnknownReason.START if self.unopened else reason)
        return found
