"""Snapshots in the streams of a batch: the marker in force before each message, and the items since.

Knows markers, the brackets around out-of-order (OSO) snapshots, and the draft's snapshots; must not know documents.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.lookback import RowsOfKind
from analysis.context.streams.accepted import accepted_items
from dissector.frames.schema import NO_END
from dissector.spec import enums
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from analysis.context.streams.rows import Column, LongColumn, RefColumn, Rows, StreamRows
    from dissector.array_types import Longs, Mask

DENSE_SPAN = 20  #: snapshots of fewer seqnos say nothing about density (SEQ-12)
_MARKER = (
    ("marker_start", "snap_start_seqno"),
    ("marker_end", "snap_end_seqno"),
    ("marker_type", "snapshot_type"),
)
_DISK, _HISTORY = map(enums.MARKER_FLAGS.bit, ("disk", "history"))
_STREAM_START = kinds.opcode("stream_start", Dialect.DRAFT)
_BITS = 2  #: a type of at least this shows that types are bits: in old servers they are 0 and 1


class Snapshots:
    """The columns of stream rows that are about snapshots."""

    def __init__(self, stream_rows: StreamRows) -> None:
        self._stream_rows = stream_rows
        self._instances = stream_rows.instances
        self._oso = bool(len(stream_rows.brackets)) or bool(
            self._instances.refs["bracket"]["ordinal"][stream_rows.entries].any()
        )
        self.marker_start, self.marker_end, self.marker_type = (
            stream_rows.last_value(stream_rows.markers, column, name) for name, column in _MARKER
        )
        self.marker_ordinal = stream_rows.last_ordinal(stream_rows.markers, "marker")
        self.bracket_ordinal = stream_rows.last_ordinal(stream_rows.brackets, "bracket")
        self.accepted = accepted_items(stream_rows, self)
        self.previous_seqno = stream_rows.last_value(self.accepted, "by_seqno", "last_seqno")
        self._upr = bool(stream_rows.frames.early.any())
        self._draft = bool(stream_rows.frames.draft.any())

    # ------------------------------------------------------------------------------------------- markers of a kind

    def _markers_where(self, chosen: Mask) -> RowsOfKind:
        """Return some of the markers; ``chosen`` has an entry for each marker."""
        stream_rows = self._stream_rows
        mask = np.zeros(stream_rows.size, bool)
        mask[stream_rows.markers.at[chosen]] = True
        return RowsOfKind(stream_rows.groups, mask)

    def _of_markers(self, column: str) -> Longs:
        return self._stream_rows.numbers(column, self._stream_rows.markers.at)

    @cached_property
    def _types(self) -> Longs:
        return np.maximum(self._of_markers("snapshot_type"), 0)

    @cached_property
    def _typed(self) -> RowsOfKind:
        return self._markers_where(self._types >= _BITS)

    @cached_property
    def _disk(self) -> RowsOfKind:
        return self._markers_where(self._types & _DISK > 0)

    @cached_property
    def _completed(self) -> RowsOfKind:
        return self._markers_where((self._types & _DISK > 0) & (self._of_markers("high_completed_seqno") > 0))

    @cached_property
    def _dense(self) -> RowsOfKind:
        """Markers after a snapshot that delivered at least half of the seqnos it spans (SEQ-12)."""
        at = self._stream_rows.markers.at
        span = self.marker_end(at) - self.marker_start(at) + 1
        return self._markers_where((self.marker_end(at) >= 0) & (span >= DENSE_SPAN) & (2 * self.items(at) >= span))

    @cached_property
    def _merging(self) -> RowsOfKind:
        """Markers that start inside what the one before them had left unsent: a replica merges snapshots (SNP-04)."""
        stream_rows, at = self._stream_rows, self._stream_rows.markers.at
        start, before = self._of_markers("snap_start_seqno"), self.marker_end(at)
        sent = np.maximum(self.previous_seqno(at), self._instances["start"][stream_rows.entry[at]])
        merging = (start > sent) & (start > self.marker_start(at)) & (start <= before)
        merging &= (self._of_markers("snap_end_seqno") >= before) & (self._types & _HISTORY == 0)
        if stream_rows.lossy:
            merging &= stream_rows.gaps[at] <= self.marker_ordinal(at)
        return self._markers_where(merging & ~self.oso_since_marker(at))

    @cached_property
    def _broken_off(self) -> RowsOfKind:
        """Markers before which another one may have been lost: they do not start right after the end of the last."""
        stream_rows, at = self._stream_rows, self._stream_rows.markers.at
        entry = stream_rows.entry[at]
        before = self.marker_ordinal(at)
        since = np.where(before > 0, before, self._instances.refs["answer"]["ordinal"][entry])
        wanted = np.where(before > 0, self.marker_end(at) + 1, self._instances["ask_snap_start"][entry])
        return self._markers_where((stream_rows.gaps[at] > since) & (self._of_markers("snap_start_seqno") != wanted))

    # ------------------------------------------------------------------------------------------------------ columns

    def columns(self) -> dict[str, Column]:
        """Return the columns."""
        stream_rows = self._stream_rows
        previous = stream_rows.last_ordinal(self.accepted, "last")
        return {
            "marker_start": self.marker_start,
            "marker_end": self.marker_end,
            "marker_type": self.marker_type,
            "marker_ordinal": self.marker_ordinal,
            "lost_since_marker": stream_rows.lost_since(self.marker_ordinal),
            "previous_seqno": self.previous_seqno,
            "previous_opcode": stream_rows.last_value(self.accepted, "opcode", "last_opcode"),
            "previous_offset": stream_rows.last_value(self.accepted, "end_offset", "last_offset"),
            "previous_ordinal": previous,
            "lost_since_previous": stream_rows.lost_since(previous),
            "opening_ordinal": stream_rows.last_ordinal(self._opening, "opening"),
            "items": self.items,
            "total": self.total,
            "completed": stream_rows.last_value(self._completed, "high_completed_seqno", "completed"),
            "disk_end": self.disk_end,
            "typed": lambda rows: (self._typed.before(rows) >= 0) | (self._remembered("typed", rows) > 0),
            "merged": lambda rows: (self._merging.until(rows) >= 0) | (self._remembered("merged", rows) > 0),
            "marker_lost": self._marker_lost,
            "dense": lambda rows: self._remembered("dense", rows) + self._dense.count_before(rows),
            "whole_from": self.whole_from,
            "bracket_ordinal": self.bracket_ordinal,
            "inside_oso": self.inside_oso,
            "oso_since_marker": self.oso_since_marker,
            "oso_since_previous": lambda rows: self._oso_since(previous, rows),
            "inside_draft": self._inside_draft,
            "started_ordinal": stream_rows.last_ordinal(self._started, "started"),
        }

    def refs(self) -> dict[str, RefColumn]:
        """Return references to frames."""
        stream_rows = self._stream_rows
        return {
            "marker": stream_rows.last_ref(stream_rows.markers, "marker"),
            "last": stream_rows.last_ref(self.accepted, "last"),
            "opening": stream_rows.last_ref(self._opening, "opening"),
            "bracket": stream_rows.last_ref(stream_rows.brackets, "bracket"),
        }

    def _marker_lost(self, rows: Rows) -> Mask:
        """Tell where a marker of the stream may have been lost before."""
        lost: Mask = self._remembered("markers_lost", rows) > 0
        if self._stream_rows.lossy:
            lost |= self._broken_off.until(rows) >= 0
        return lost

    @cached_property
    def _count(self) -> Longs:
        """Return how many items the batch has up to each row."""
        return np.cumsum(self._stream_rows.data)

    def _before(self, rows: Longs) -> Longs:
        before: Longs = self._count[rows] - self._stream_rows.data[rows]
        return before

    def _remembered(self, name: str, rows: Rows) -> Longs:
        """Return what is known from earlier batches."""
        return self._instances[name][self._stream_rows.entries_of(rows)]

    def items(self, rows: Rows) -> Longs:
        """Return how many items came since the marker."""
        stream_rows = self._stream_rows
        rows = stream_rows.numbered(rows)
        marker = stream_rows.markers.before(rows)
        count = self._before(rows)
        since: Longs = count - self._count[marker] if len(self._count) else count
        earlier = np.flatnonzero(marker < 0)  # the marker is of an earlier batch
        if len(earlier):
            some = rows[earlier]
            begun = self._before(stream_rows.groups.start[some])
            since[earlier] = count[earlier] - begun + self._instances["items"][stream_rows.entry[some]]
        return since

    def total(self, rows: Rows) -> Longs:
        """Return how many items came since the stream began."""
        stream_rows = self._stream_rows
        rows = stream_rows.numbered(rows)
        begun = self._before(stream_rows.groups.start[rows])
        found: Longs = self._before(rows) - begun + self._instances["total"][stream_rows.entry[rows]]
        return found

    def inside_oso(self, rows: Rows) -> Mask:
        """Tell which messages are inside an out-of-order snapshot."""
        if not self._oso:
            return np.zeros(len(self._stream_rows.entries_of(rows)), bool)
        inside: Mask = self._stream_rows.last_value(self._stream_rows.brackets, "oso_flags", "oso")(rows) == 1
        if self._stream_rows.lossy:
            # The end may have been lost: a marker tells.
            bracket = self.bracket_ordinal
            inside &= ~(self._stream_rows.lost_since(bracket)(rows) & (self.marker_ordinal(rows) > bracket(rows)))
        return inside

    def snapshot_ordinal(self, rows: Longs) -> Longs:
        """Return the ordinal of the marker or bracket that opened the snapshot of each message."""
        found: Longs = self.marker_ordinal(rows)
        if self._oso:
            found = np.maximum(found, self.bracket_ordinal(rows))
        return found

    def oso_since_marker(self, rows: Rows) -> Mask:
        """Tell where an out-of-order snapshot began or ended since the marker."""
        return self._oso_since(self.marker_ordinal, rows)

    def _oso_since(self, ordinals: LongColumn, rows: Rows) -> Mask:
        if not self._oso:
            return np.zeros(len(self._stream_rows.entries_of(rows)), bool)
        since: Mask = self.bracket_ordinal(rows) > ordinals(rows)
        return since

    @cached_property
    def _whole(self) -> RowsOfKind:
        """The first item after the first marker after each loss; also where the stream's beginning is not known."""
        stream_rows, instances = self._stream_rows, self._instances
        at = stream_rows.items.at
        gaps, entry = stream_rows.key_gaps[at], stream_rows.entry[at]
        marker = self.marker_ordinal(at)
        whole = (marker > 0) & (marker >= gaps)
        before = stream_rows.items.before(at)
        same = np.where(before >= 0, stream_rows.key_gaps[before] == gaps, (instances["whole_gap"][entry] == gaps))
        followed = np.zeros(stream_rows.size, bool)
        followed[at] = whole
        known = np.where(before >= 0, followed[before], instances["whole_from"][entry] >= 0)
        mask = np.zeros(stream_rows.size, bool)
        mask[at] = whole & ~(same & known)
        return RowsOfKind(stream_rows.groups, mask)

    def disk_end(self, rows: Rows) -> Longs:
        """Return the end of the last disk marker before each row."""
        return self._stream_rows.last_value(self._disk, "snap_end_seqno", "disk_end")(rows)

    def whole_from(self, rows: Rows) -> Longs:
        """Return the seqno from which on nothing of the stream was lost up to each row; 0: nothing at all was lost."""
        stream_rows, instances = self._stream_rows, self._instances
        entry = stream_rows.entries_of(rows)
        gaps = stream_rows.key_gaps if rows is None else stream_rows.key_gaps[rows]
        answer = instances.refs["answer"]["ordinal"][entry]
        complete = (instances["granted"][entry] > 0) & (gaps <= answer)
        found = self._whole.until(rows)
        here = found >= 0
        seqno = np.where(here, stream_rows.seqno[found], instances["whole_from"][entry])
        gap = np.where(here, stream_rows.key_gaps[found], instances["whole_gap"][entry])
        result: Longs = np.where(complete, 0, np.where((seqno >= 0) & (gap == gaps), seqno, NO_END))
        return result

    @cached_property
    def _finished(self) -> RowsOfKind:
        return self._stream_rows.rows_of_kind(kinds.SNAPSHOT_END)

    @cached_property
    def _started(self) -> RowsOfKind:
        """Messages of the draft that say that a stream starts."""
        stream_rows = self._stream_rows
        if not self._draft:
            return RowsOfKind(stream_rows.groups, np.zeros(stream_rows.size, bool))
        at = stream_rows.in_batch
        mask = (
            stream_rows.frames.draft[at]
            & (stream_rows.kind == kinds.OTHER)
            & (stream_rows.frames.opcode[at] == _STREAM_START)
        )
        return RowsOfKind(stream_rows.groups, mask)

    def _inside_draft(self, rows: Rows) -> Mask:
        """Tell which messages of the draft are between a snapshot's start and its end."""
        inside: Mask = self.marker_ordinal(rows) > self._stream_rows.last_ordinal(self._finished, "finish")(rows)
        return inside

    @cached_property
    def _opening(self) -> RowsOfKind:
        """The first item after each marker, in UPR streams: there a marker comes after the items it closes (SNP-01)."""
        stream_rows = self._stream_rows
        mask = np.zeros(stream_rows.size, bool)
        if self._upr:
            rows = np.flatnonzero(stream_rows.data & stream_rows.frames.early[stream_rows.in_batch])
            mask[rows] = self.items(rows) == 0
        return RowsOfKind(stream_rows.groups, mask)

    # ----------------------------------------------------------------------------------------------------- remember

    def remember(self) -> None:
        """Store what the next batch has to know."""
        stream_rows, instances = self._stream_rows, self._instances
        ends, entries = stream_rows.groups.ends, stream_rows.entries
        is_item, is_marker = stream_rows.data[ends], stream_rows.markers.mask[ends]
        instances["items"][entries] = np.where(is_marker, 0, self.items(ends) + is_item)
        instances["total"][entries] = self.total(ends) + is_item
        if len(stream_rows.markers):
            if stream_rows.lossy:
                np.add.at(instances["markers_lost"], stream_rows.entry[self._broken_off.at], 1)
            for name, some in (("dense", self._dense), ("typed", self._typed), ("merged", self._merging)):
                np.add.at(instances[name], stream_rows.entry[some.at], 1)
            stream_rows.remember_value("completed", self._completed, "high_completed_seqno")
            stream_rows.remember_value("disk_end", self._disk, "snap_end_seqno")
            for name, column in _MARKER:
                stream_rows.remember_value(name, stream_rows.markers, column)
            stream_rows.remember_ref("marker", stream_rows.markers)
        if stream_rows.key_gaps.any() or not instances["granted"][entries].all():
            found = self._whole.until(ends)
            here = found >= 0
            instances["whole_from"][entries[here]] = stream_rows.seqno[found[here]]
            instances["whole_gap"][entries[here]] = stream_rows.key_gaps[found[here]]
        for name, column in (("last_seqno", "by_seqno"), ("last_opcode", "opcode"), ("last_offset", "end_offset")):
            stream_rows.remember_value(name, self.accepted, column)
        stream_rows.remember_ref("last", self.accepted)
        if len(stream_rows.brackets):
            stream_rows.remember_ref("bracket", stream_rows.brackets)
            stream_rows.remember_value("oso", stream_rows.brackets, "oso_flags")
        if self._upr:
            stream_rows.remember_ref("opening", self._opening)
        if self._draft:
            stream_rows.remember_ref("finish", self._finished)
            stream_rows.remember_ref("started", self._started)
