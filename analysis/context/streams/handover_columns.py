"""Vbucket states in the streams of a batch: which came before each message, and the table of handing a vbucket over.

Within the producer's direction the order is exact, so states are counted by looking back. What the producer had been
answered by then comes from :mod:`analysis.context.requests.handovers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.frame_refs import NO_REF
from analysis.context.lookback import RowsOfKind
from analysis.context.requests.handovers import HandoverFacts
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from analysis.context.streams.rows import Column, Rows, StreamRows
    from analysis.context.tables import Table
    from dissector.array_types import Longs

_ACTIVE = enums.VBUCKET_STATES.number("active")
_NOTHING = HandoverFacts()


class HandoverColumns:
    """The columns of stream rows that are about vbucket states."""

    def __init__(self, rows: StreamRows, facts: Mapping[int, HandoverFacts]) -> None:
        """Take the rows of a batch, and ``facts`` of states and stream ends by their rows in the batch."""
        self._rows, self._facts = rows, facts
        self._states = rows.rows_of_kind(kinds.STATE)
        active = self._states.mask
        if len(self._states):
            active = active & (rows.numbers("vbucket_state", None) == _ACTIVE)
        self._active = RowsOfKind(rows.groups, active)

    def columns(self) -> dict[str, Column | NDArray[Any]]:
        """Return the columns that all messages have."""
        return {"activated_ordinal": self._rows.last_ordinal(self._active, "activated")}

    def refs(self) -> dict[str, Column | NDArray[np.void]]:
        """Return the references that all messages have."""
        return {"activated": self._rows.last_ref(self._active, "activated")}

    def table(self, whole: Table) -> Table | None:
        """Cut states and stream ends out of the table of all messages, with what only they have."""
        rows = self._rows
        mask = (rows.kind == kinds.STATE) | (rows.kind == kinds.END)
        if not mask.any():
            return None
        known = [self._facts.get(row, _NOTHING) for row in rows.in_batch[mask].tolist()]
        columns: dict[str, Column | NDArray[Any]] = {
            "states": self._count,
            "previous_state": rows.last_value(self._states, "vbucket_state", "last_state"),
        }
        for name in ("state_ordinal", "state_answered", "answer_unknown", "markers_waiting", "marker_unknown"):
            columns[name] = np.zeros(rows.size, np.int64)
            columns[name][mask] = [int(getattr(each, name)) for each in known]  # type: ignore[index]
        refs: dict[str, NDArray[np.void]] = {}
        for name, field in (("state", "state"), ("waiting", "marker")):
            refs[name] = np.zeros(rows.size, rows.frames.refs().dtype)
            refs[name][mask] = [tuple(getattr(each, field) or NO_REF) for each in known]
        return whole.extended(columns, refs).where(mask)

    def _count(self, chosen: Rows) -> Longs:
        """Return how many states are before each row in its stream."""
        remembered = self._rows.instances["states"][self._rows.entries_of(chosen)]
        return remembered + self._states.count_before(chosen)

    def remember(self) -> None:
        """Store what the next batch has to know."""
        rows = self._rows
        rows.remember_ref("activated", self._active)
        rows.remember_value("last_state", self._states, "vbucket_state")
        np.add.at(rows.instances["states"], rows.entry[self._states.at], 1)
