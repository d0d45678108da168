"""The messages of streams in one batch, sorted by stream; and columns that look back in a message's own stream.

All streams of all connections at once. A column is made when it is asked for, and of the rows that it is asked for.
State from before the batch is in the entries of :class:`analysis.context.streams.instances.Instances`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.context import kinds
from analysis.context.lookback import RowsOfKind, filled
from dissector.arrow import lengths, take, valid

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.lookback import RowGroups
    from analysis.context.streams.instances import Instances
    from dissector.array_types import Longs, Mask

    Rows = Longs | None  #: None: all
    Column = Callable[[Rows], NDArray[Any]]  #: makes a column for some rows
    LongColumn = Callable[[Rows], Longs]
    MaskColumn = Callable[[Rows], Mask]
    RefColumn = Callable[[Rows], NDArray[np.void]]

#: Kinds of rows that are no messages of a stream, but have their place among them.
BEGUN, CLOSED, CONFIRMED = range(kinds.SETUP + 1, kinds.SETUP + 4)
_MISREAD = frozenset(("extras-length-unknown", "lengths-exceed-body"))  #: defects


class SortedRows(NamedTuple):
    """Which rows of a batch belong to streams: each stream's in their order, one stream after the other."""

    in_batch: Longs  #: number of each row in the batch
    key: Longs  #: of its stream
    kind: Longs
    groups: RowGroups  #: rows of the same stream instance
    entries: Longs  #: of each group, in Instances


class StreamRows:
    """The rows of a batch, sorted by stream. Rows are numbered in that order, but for those of ``in_batch``."""

    def __init__(self, frames: ContextBatch, instances: Instances, order: SortedRows, gaps: Longs) -> None:
        """Lay out the rows; ``gaps`` has the last gap before each frame of the batch."""
        self.frames, self.instances = frames, instances
        self.in_batch, self.key, self.kind, self.groups, self.entries = order
        self.size = len(self.in_batch)
        self.entry: Longs = self.entries[self.groups.number]
        self.ordinal = frames.base + self.in_batch
        self.seqno = frames.numbers("by_seqno")[self.in_batch]
        self.seqno[_misread(frames)[self.in_batch]] = -1
        data = self.kind == kinds.DATA
        unreadable = data & (self.seqno < 0)
        self.data: Mask = data & ~unreadable
        self._unreadable = RowsOfKind(self.groups, unreadable)
        self._keyless = RowsOfKind(self.groups, data & self._key_lost())
        self.gaps = self._last_gaps(gaps[self.in_batch], self._unreadable, "unreadable")
        self.lossy = bool(self.gaps.any())
        self.items = RowsOfKind(self.groups, self.data)
        self.markers = self._markers_in_force()
        self.brackets = self.rows_of_kind(kinds.OSO)

    def _markers_in_force(self) -> RowsOfKind:
        """Return the markers without those that start after their end: a consumer refuses them (SNP-03)."""
        markers = self.rows_of_kind(kinds.MARKER)
        if len(markers):
            start, end = (self.numbers(name, markers.at) for name in ("snap_start_seqno", "snap_end_seqno"))
            refused = (end >= 0) & (start > end)
            if refused.any():
                mask = markers.mask.copy()
                mask[markers.at[refused]] = False
                return RowsOfKind(self.groups, mask)
        return markers

    def rows_of_kind(self, kind: int) -> RowsOfKind:
        """Return the rows of a kind."""
        return RowsOfKind(self.groups, self.kind == kind)

    def _key_lost(self) -> Mask:
        """Tell which rows have a key that was cut off."""
        frames = self.frames
        cut = frames.numbers("missing") > 0
        if not cut.any():
            return np.zeros(self.size, bool)
        cut &= (frames.numbers("key_length") > 0) & ~valid(frames.batch.column("key_hash"))
        return cut[self.in_batch]

    @cached_property
    def key_gaps(self) -> Longs:
        """Return each row's last gap; an item without its key is as good as lost for those who ask about keys."""
        return self._last_gaps(self.gaps, self._keyless, "keyless")

    def _last_gaps(self, gaps: Longs, some: RowsOfKind, remembered: str) -> Longs:
        """Return each row's last gap; some items are as good as lost for all rows after them."""
        if not len(some) and not self.instances[remembered][self.entries].any():
            return gaps
        last: Longs = np.maximum(gaps, filled(some.before(None), self.ordinal, self.instances[remembered], self.entry))
        return last

    # ------------------------------------------------------------------------------------------------------ columns

    def numbered(self, rows: Rows) -> Longs:
        """Return the numbers of some rows, or of all."""
        return np.arange(self.size) if rows is None else rows

    def entries_of(self, rows: Rows) -> Longs:
        """Return the entries of some rows."""
        return self.entry if rows is None else self.entry[rows]

    def numbers(self, name: str, rows: Rows) -> Longs:
        """Return a column of the frames, at some rows."""
        return self.frames.numbers(name)[self.in_batch if rows is None else self.in_batch[rows]]

    def from_instance(self, name: str) -> LongColumn:
        """Make a column of what the instance of each row has."""
        return lambda rows: self.instances[name][self.entries_of(rows)]

    def ref_from_instance(self, name: str) -> RefColumn:
        """Make a column of references that the instance of each row has."""
        return lambda rows: self.instances.refs[name][self.entries_of(rows)]

    def last_value(self, some: RowsOfKind, column: str, remembered: str) -> LongColumn:
        """Make a column: what a column of the frames has at the last of some rows before each row.

        Where there is none in the batch, the column ``remembered`` of the instance has it.
        """

        def make(rows: Rows) -> Longs:
            entry = self.entries_of(rows)
            if not len(some):
                return self.instances[remembered][entry]
            found = some.before(rows)
            result = self.frames.numbers(column)[self.in_batch[found]]
            missing = np.flatnonzero(found < 0)
            if len(missing):
                result[missing] = self.instances[remembered][entry[missing]]
            return result

        return make

    def last_ordinal(self, some: RowsOfKind, remembered: str) -> LongColumn:
        """Make a column: the ordinal of the last of some rows before each row; 0: there is none."""

        def make(rows: Rows) -> Longs:
            before, entry = self.instances.refs[remembered]["ordinal"], self.entries_of(rows)
            return filled(some.before(rows), self.ordinal, before, entry) if len(some) else before[entry]

        return make

    def last_ref(self, some: RowsOfKind, remembered: str) -> RefColumn:
        """Make a column: a reference to the last of some rows before each row."""

        def make(rows: Rows) -> NDArray[np.void]:
            result: NDArray[np.void] = self.instances.refs[remembered][self.entries_of(rows)]
            found = some.before(rows)
            here = np.flatnonzero(found >= 0)
            result[here] = self.frames.refs()[self.in_batch[found[here]]]
            return result

        return make

    def lost_since(self, ordinals: LongColumn) -> MaskColumn:
        """Make a column that tells whether something was lost since the rows of these ordinals."""

        def make(rows: Rows) -> Mask:
            if not self.lossy:
                return np.zeros(self.size if rows is None else len(rows), bool)
            lost: Mask = (self.gaps if rows is None else self.gaps[rows]) > ordinals(rows)
            return lost

        return make

    # ----------------------------------------------------------------------------------------------------- remember

    def remember_ref(self, name: str, some: RowsOfKind) -> None:
        """Keep a reference to the last of some rows for the next batch."""
        if len(some):
            found = some.until(self.groups.ends)
            here = found >= 0
            self.instances.refs[name][self.entries[here]] = self.frames.refs()[self.in_batch[found[here]]]

    def remember_value(self, name: str, some: RowsOfKind, column: str) -> None:
        """Keep what a column of the frames has at the last of some rows for the next batch."""
        if len(some):
            found = some.until(self.groups.ends)
            here = found >= 0
            self.instances[name][self.entries[here]] = self.frames.numbers(column)[self.in_batch[found[here]]]

    def remember_unreadable(self) -> None:
        """Keep the last items without a seqno, and without a key, for the next batch."""
        for name, some in (("unreadable", self._unreadable), ("keyless", self._keyless)):
            if len(some):
                found = some.until(self.groups.ends)
                here = found >= 0
                self.instances[name][self.entries[here]] = self.ordinal[found[here]]


def _misread(frames: ContextBatch) -> Mask:
    """Tell which rows are not what their message says, so that none of their fields means anything."""
    misread = np.zeros(frames.size, bool)
    defects = frames.batch.column("defects")
    listed = np.flatnonzero(lengths(defects))
    if len(listed):
        for row, names in zip(listed.tolist(), take(defects, listed).to_pylist(), strict=True):
            misread[row] = not _MISREAD.isdisjoint(names)
    return misread
