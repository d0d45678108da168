"""Snapshots in a stretch of streams: the marker in force before each message, and the items since.

Knows markers, out-of-order brackets and the draft's snapshots; must not know documents.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.lookback import RowsOfKind
from dissector.spec import enums
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.streams.rows import StreamRows

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Rows = Longs | None

DENSE_SPAN = 20  #: snapshots of fewer seqnos say nothing about density (SEQ-12)
_MARKER = (
    ("marker_start", "snap_start_seqno"),
    ("marker_end", "snap_end_seqno"),
    ("marker_type", "snapshot_type"),
)
_DISK, _HISTORY = map(enums.MARKER_FLAGS.bit, ("disk", "history"))
_STREAM_START = kinds.opcode("stream_start", Dialect.DRAFT)
_BITS = 2  #: a type that is no less says that types are bits: once they were 0 and 1


class Snapshots:
    """The columns of a stretch that are about snapshots."""

    def __init__(self, stretch: StreamRows) -> None:
        self._stretch = stretch
        self._instances = stretch.instances
        self._oso = bool(len(stretch.brackets)) or bool(
            self._instances.refs["bracket"]["ordinal"][stretch.entries].any()
        )
        self.marker_start, self.marker_end, self.marker_type = (
            stretch.last(stretch.markers, column, name) for name, column in _MARKER
        )
        self.previous_seqno = stretch.last(stretch.items, "by_seqno", "last_seqno")
        self.marker_ordinal = stretch.ordinals(stretch.markers, "marker")
        self._early = bool(stretch.sight.early.any())
        self._draft = bool(stretch.sight.draft.any())

    # ------------------------------------------------------------------------------------------- markers of a kind

    def _some(self, wanted: Mask) -> RowsOfKind:
        """Return the markers that are wanted; there is an answer for each."""
        stretch = self._stretch
        mask = np.zeros(len(stretch.rows), bool)
        mask[stretch.markers.at[wanted]] = True
        return RowsOfKind(stretch.groups, mask)

    def _of_markers(self, column: str) -> Longs:
        return self._stretch.number(column, self._stretch.markers.at)

    @cached_property
    def _types(self) -> Longs:
        return np.maximum(self._of_markers("snapshot_type"), 0)

    @cached_property
    def _typed(self) -> RowsOfKind:
        return self._some(self._types >= _BITS)

    @cached_property
    def _disk(self) -> RowsOfKind:
        return self._some(self._types & _DISK > 0)

    @cached_property
    def _completed(self) -> RowsOfKind:
        return self._some((self._types & _DISK > 0) & (self._of_markers("high_completed_seqno") > 0))

    @cached_property
    def _dense(self) -> RowsOfKind:
        """Markers behind a snapshot that delivered at least half of the seqnos it spans (SEQ-12)."""
        at = self._stretch.markers.at
        span = self.marker_end(at) - self.marker_start(at) + 1
        return self._some((self.marker_end(at) >= 0) & (span >= DENSE_SPAN) & (2 * self.items(at) >= span))

    @cached_property
    def _merging(self) -> RowsOfKind:
        """Markers that start inside what the one before them had left unsent: a replica merges snapshots (SNP-04)."""
        stretch, at = self._stretch, self._stretch.markers.at
        start, before = self._of_markers("snap_start_seqno"), self.marker_end(at)
        sent = np.maximum(self.previous_seqno(at), self._instances["start"][stretch.entry[at]])
        merging = (start > sent) & (start > self.marker_start(at)) & (start <= before)
        merging &= (self._of_markers("snap_end_seqno") >= before) & (self._types & _HISTORY == 0)
        if stretch.lossy:
            merging &= stretch.gaps[at] <= self.marker_ordinal(at)
        return self._some(merging & ~self.oso_since_marker(at))

    # ------------------------------------------------------------------------------------------------------ columns

    def columns(self) -> dict[str, Any]:
        """Return the columns."""
        stretch, carried = self._stretch, self._instances
        previous = stretch.ordinals(stretch.items, "last")
        return {
            "marker_start": self.marker_start,
            "marker_end": self.marker_end,
            "marker_type": self.marker_type,
            "marker_ordinal": self.marker_ordinal,
            "lost_since_marker": stretch.lost_since(self.marker_ordinal),
            "previous_seqno": self.previous_seqno,
            "previous_opcode": stretch.last(stretch.items, "opcode", "last_opcode"),
            "previous_offset": stretch.last(stretch.items, "end_offset", "last_offset"),
            "previous_ordinal": previous,
            "lost_since_previous": stretch.lost_since(previous),
            "items": self.items,
            "total": self.total,
            "completed": stretch.last(self._completed, "high_completed_seqno", "completed"),
            "disk_end": stretch.last(self._disk, "snap_end_seqno", "disk_end"),
            "typed": lambda rows: (self._typed.before(rows) >= 0) | (carried["typed"][stretch.of(rows)] > 0),
            "merged": lambda rows: (self._merging.until(rows) >= 0) | (carried["merged"][stretch.of(rows)] > 0),
            "dense": lambda rows: carried["dense"][stretch.of(rows)] + self._dense.count_before(rows),
            "inside_oso": self.inside_oso,
            "oso_since_marker": self.oso_since_marker,
            "oso_since_previous": lambda rows: self._oso_since(previous, rows),
            "inside_draft": self._inside_draft,
            "started_ordinal": stretch.ordinals(self._started, "started"),
        }

    def refs(self) -> dict[str, Any]:
        """Return references to frames."""
        stretch = self._stretch
        return {
            "marker": stretch.references(stretch.markers, "marker"),
            "last": stretch.references(stretch.items, "last"),
            "opening": stretch.references(self._opening, "opening"),
            "bracket": stretch.references(stretch.brackets, "bracket"),
        }

    @cached_property
    def _count(self) -> Longs:
        """Return how many items there are up to each row."""
        return np.cumsum(self._stretch.data)

    def _before(self, rows: Longs) -> Longs:
        before: Longs = self._count[rows] - self._stretch.data[rows]
        return before

    def items(self, rows: Rows) -> Longs:
        """Return how many items came under the marker."""
        stretch = self._stretch
        rows = np.arange(len(stretch.rows)) if rows is None else rows
        marker = stretch.markers.before(rows)
        count = self._before(rows)
        since: Longs = count - self._count[marker] if len(self._count) else count
        carried = np.flatnonzero(marker < 0)
        if len(carried):
            some = rows[carried]
            begun = self._before(stretch.groups.start[some])
            since[carried] = count[carried] - begun + self._instances["items"][stretch.entry[some]]
        return since

    def total(self, rows: Rows) -> Longs:
        """Return how many items came since the beginning."""
        stretch = self._stretch
        rows = np.arange(len(stretch.rows)) if rows is None else rows
        begun = self._before(stretch.groups.start[rows])
        found: Longs = self._before(rows) - begun + self._instances["total"][stretch.entry[rows]]
        return found

    def inside_oso(self, rows: Rows) -> Mask:
        """Tell which messages are inside an out-of-order snapshot."""
        if not self._oso:
            return np.zeros(len(self._stretch.of(rows)), bool)
        inside: Mask = self._stretch.last(self._stretch.brackets, "oso_flags", "oso")(rows) == 1
        return inside

    def snapshot_ordinal(self, rows: Longs) -> Longs:
        """Return the ordinal of what opened the snapshot that each message is in."""
        found: Longs = self.marker_ordinal(rows)
        if self._oso:
            found = np.maximum(found, self._stretch.ordinals(self._stretch.brackets, "bracket")(rows))
        return found

    def oso_since_marker(self, rows: Rows) -> Mask:
        """Tell where an out-of-order snapshot began or ended since the marker."""
        return self._oso_since(self.marker_ordinal, rows)

    def _oso_since(self, ordinals: Any, rows: Rows) -> Mask:
        if not self._oso:
            return np.zeros(len(self._stretch.of(rows)), bool)
        since: Mask = self._stretch.ordinals(self._stretch.brackets, "bracket")(rows) > ordinals(rows)
        return since

    @cached_property
    def _finished(self) -> RowsOfKind:
        return self._stretch.trail(kinds.SNAPSHOT_END)

    @cached_property
    def _started(self) -> RowsOfKind:
        """Where the draft says that a stream starts."""
        stretch = self._stretch
        if not self._draft:
            return RowsOfKind(stretch.groups, np.zeros(len(stretch.rows), bool))
        at = stretch.rows
        mask = stretch.sight.draft[at] & (stretch.kind == kinds.OTHER) & (stretch.sight.opcode[at] == _STREAM_START)
        return RowsOfKind(stretch.groups, mask)

    def _inside_draft(self, rows: Rows) -> Mask:
        """Tell which messages of the draft are between a snapshot's start and its end."""
        inside: Mask = self.marker_ordinal(rows) > self._stretch.ordinals(self._finished, "finish")(rows)
        return inside

    @cached_property
    def _opening(self) -> RowsOfKind:
        """The first items behind each marker, of early streams: there it comes behind what it closes (SNP-01)."""
        stretch = self._stretch
        mask = np.zeros(len(stretch.rows), bool)
        if self._early:
            rows = np.flatnonzero(stretch.data & stretch.sight.early[stretch.rows])
            mask[rows] = self.items(rows) == 0
        return RowsOfKind(stretch.groups, mask)

    # ---------------------------------------------------------------------------------------------- what is carried

    def remember(self) -> None:
        """Carry over what the next batch has to know."""
        stretch, instances = self._stretch, self._instances
        ends, entries = stretch.groups.ends, stretch.entries
        mine, over = stretch.data[ends], stretch.markers.mask[ends]
        instances["items"][entries] = np.where(over, 0, self.items(ends) + mine)
        instances["total"][entries] = self.total(ends) + mine
        if len(stretch.markers):
            for name, trail in (("dense", self._dense), ("typed", self._typed), ("merged", self._merging)):
                np.add.at(instances[name], stretch.entry[trail.at], 1)
            stretch.keep_number("completed", self._completed, "high_completed_seqno")
            stretch.keep_number("disk_end", self._disk, "snap_end_seqno")
            for name, column in _MARKER:
                stretch.keep_number(name, stretch.markers, column)
            stretch.keep("marker", stretch.markers)
        for name, column in (("last_seqno", "by_seqno"), ("last_opcode", "opcode"), ("last_offset", "end_offset")):
            stretch.keep_number(name, stretch.items, column)
        stretch.keep("last", stretch.items)
        if len(stretch.brackets):
            stretch.keep("bracket", stretch.brackets)
            stretch.keep_number("oso", stretch.brackets, "oso_flags")
        if self._early:
            stretch.keep("opening", self._opening)
        if self._draft:
            stretch.keep("finish", self._finished)
            stretch.keep("started", self._started)
