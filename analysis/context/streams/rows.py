"""A stretch: one batch's messages of streams, each with its instance, the marker in force and what came before it.

All streams of all connections at once, and columns only when they are asked for. What has to outlive the batch is in
the entries of :class:`analysis.context.streams.instances.Instances`; :meth:`StreamRows.remember` puts it there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.requests.stream_lifecycle import KEY_BITS
from analysis.context.streams.documents import Documents
from analysis.context.streams.snapshots import Snapshots
from analysis.context.tables import Table, gathered
from analysis.context.trails import RowsOfKind, filled
from dissector.arrow import lengths, take
from dissector.frames.schema import NO_END

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch, DirectionGaps
    from analysis.context.lookback import RowGroups
    from analysis.context.requests.stream_lifecycle import BatchChanges
    from analysis.context.streams.index import StreamIndex

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Rows = Longs | None

#: Kinds of rows that are no messages of a stream, but have their place among them.
BEGUN, CLOSED, CONFIRMED = range(kinds.DESK + 1, kinds.DESK + 4)
#: Columns of the frames that go into the table as they are; seqnos and the like are -1 where there are none.
_TAKEN = (
    *("opcode", "opaque", "time_ns", "end_offset", "acked_offset", "snap_start_seqno", "snap_end_seqno", "rev_seqno"),
    *("snapshot_type", "max_visible_seqno", "high_completed_seqno", "high_prepared_seqno", "purge_seqno"),
    *("marker_version", "end_reason", "oso_flags", "vbucket_state", "prepared_seqno", "extras_length", "status"),
)
#: What is known of the instance.
_ASKED = ("serial", "granted", "start", "end", "flags", "ask_snap_start", "ask_snap_end", "filtered")
_TAKEOVER = 0x01  #: stream flag
_ACK_WANTED = 0x08  #: flag of markers
_MISREAD = frozenset(("extras-length-unknown", "lengths-exceed-body"))  #: defects


class StreamRows:
    """The rows of a batch, sorted by stream. ``rows`` are numbers in the batch, all others are numbers in here."""

    def __init__(
        self,
        streams: StreamIndex,
        sight: ContextBatch,
        rows: Longs,
        key: Longs,
        kind: Longs,
        groups: RowGroups,
        entries: Longs,
        gaps: Longs,
        directions: DirectionGaps,
        done: BatchChanges,
    ) -> None:
        self.sight, self.rows, self.key, self.kind, self.groups = sight, rows, key, kind, groups
        self._streams, self._directions, self._done, self._all_gaps = streams, directions, done, gaps
        self.instances = streams.instances
        self.entries = entries  #: of each group
        self.entry: Longs = entries[groups.number]
        self.seqno = sight.numbers("by_seqno")[rows]
        data = kind == kinds.DATA
        self.seqno[_misread(sight)[rows]] = -1
        unreadable = data & (self.seqno < 0)
        self.data: Mask = data & ~unreadable
        self.ordinal = sight.base + rows
        self._unreadable = RowsOfKind(groups, unreadable)
        self.gaps = self._holes(gaps[rows])
        self.lossy = bool(self.gaps.any())
        self.items = RowsOfKind(groups, self.data)
        self.markers = self.trail(kinds.MARKER)
        self.brackets = self.trail(kinds.OSO)
        self.snapshots = Snapshots(self)
        self.documents = Documents(self, streams.versions, streams.syncs)

    def trail(self, kind: int) -> RowsOfKind:
        """Return the rows of a kind."""
        return RowsOfKind(self.groups, self.kind == kind)

    def _holes(self, gaps: Longs) -> Longs:
        """Return each row's last gap; an item without a seqno is as good as lost to all behind it."""
        if not len(self._unreadable) and not self.instances["unreadable"][self.entries].any():
            return gaps
        found = self._unreadable.before(None)
        holes: Longs = np.maximum(gaps, filled(found, self.ordinal, self.instances["unreadable"], self.entry))
        return holes

    # ------------------------------------------------------------------------------------------------------ sources

    def of(self, rows: Rows) -> Longs:
        """Return the entries of some rows."""
        return self.entry if rows is None else self.entry[rows]

    def number(self, name: str, rows: Rows) -> Longs:
        """Return a column of the frames."""
        return self.sight.numbers(name)[self.rows if rows is None else self.rows[rows]]

    def carried(self, name: str) -> Any:
        """Return a source that takes what the entry has."""
        return lambda rows: self.instances[name][self.of(rows)]

    def last(self, trail: RowsOfKind, column: str, carried: str) -> Any:
        """Return a source: a column of the last row of a trail before each row."""

        def make(rows: Rows) -> Longs:
            entry = self.of(rows)
            if not len(trail):
                return self.instances[carried][entry]
            found = trail.before(rows)
            result = self.sight.numbers(column)[self.rows[found]]
            missing = np.flatnonzero(found < 0)
            if len(missing):
                result[missing] = self.instances[carried][entry[missing]]
            return result

        return make

    def ordinals(self, trail: RowsOfKind, name: str) -> Any:
        """Return a source: the ordinal of the last row of a trail before each row."""

        def make(rows: Rows) -> Longs:
            carried, entry = self.instances.refs[name]["ordinal"], self.of(rows)
            return filled(trail.before(rows), self.ordinal, carried, entry) if len(trail) else carried[entry]

        return make

    def references(self, trail: RowsOfKind, name: str) -> Any:
        """Return a source: references to the last row of a trail before each row."""

        def make(rows: Rows) -> NDArray[np.void]:
            result: NDArray[np.void] = self.instances.refs[name][self.of(rows)]
            found = trail.before(rows)
            here = np.flatnonzero(found >= 0)
            result[here] = self.sight.refs()[self.rows[found[here]]]
            return result

        return make

    def lost_since(self, ordinals: Any) -> Any:
        """Return a source that tells whether something was lost since the rows of these ordinals."""

        def make(rows: Rows) -> Mask:
            size = len(self.rows) if rows is None else len(rows)
            if not self.lossy:
                return np.zeros(size, bool)
            lost: Mask = (self.gaps if rows is None else self.gaps[rows]) > ordinals(rows)
            return lost

        return make

    # ------------------------------------------------------------------------------------------------------- tables

    def tables(self, facts: Mapping[str, Longs]) -> Iterator[tuple[str, Table]]:
        """Give out the tables: messages of streams, confirmations of markers, seqnos acknowledged."""
        columns: dict[str, Any] = {name: gathered(partial(self.sight.numbers, name), self.rows) for name in _TAKEN}
        columns |= {name: gathered(partial(_same, column), self.rows) for name, column in facts.items()}
        columns |= {
            "connection": lambda rows: self._keys(rows) >> KEY_BITS,
            "vbucket": lambda rows: self._keys(rows) >> 17 & 0xFFFF,
            "stream_id": lambda rows: self._keys(rows) >> 1 & 0xFFFF,
            "key": self.key,
            "entry": self.entry,
            "kind": self.kind,
            "by_seqno": self.seqno,
            "gap": self.gaps,
            "row": self.rows,
            "ordinal": self.ordinal,
            "early": gathered(lambda: self.sight.early, self.rows),
            "draft": gathered(lambda: self.sight.draft, self.rows),
            "cas": gathered(lambda: self.sight.signed("cas"), self.rows),
        }
        columns |= {name: self.carried(name) for name in _ASKED}
        columns["instance_opaque"] = self.carried("opaque")
        columns["answer_offset"] = lambda rows: self.instances.refs["answer"]["start_offset"][self.of(rows)]
        columns["answer_ordinal"] = lambda rows: self.instances.refs["answer"]["ordinal"][self.of(rows)]
        columns["lost_since_begin"] = self._lost_since_begin
        columns["unheard"] = lambda rows: self.number("acked_offset", rows) > self._other_side(rows)[0]
        columns["connection_gap"] = lambda rows: self._other_side(rows)[1]
        refs: dict[str, Any] = {"guilty": gathered(self.sight.refs, self.rows)}
        refs["here"] = refs["guilty"]
        for name in ("answer", "request"):
            refs[name] = partial(self._of_instance, name)
        ends = {"ending": self.trail(kinds.END), "closing": self.trail(CLOSED)}
        for name, trail in ends.items():
            columns[f"{name}_ordinal"] = self.ordinals(trail, name)
            refs[name] = self.references(trail, name)
        self._acknowledged(columns, refs)
        for part in (self.snapshots, self.documents):
            columns |= part.columns()
            refs |= part.refs()
        whole = Table(len(self.rows), columns, refs)
        extra = self.kind > kinds.LAST_OF_STREAM
        if not extra.any():
            yield "stream", whole
            return
        yield "stream", whole.where(~extra)
        for name, kind in (("confirmations", CONFIRMED), ("seqno_acks", kinds.SEQNO_ACK)):
            if (self.kind == kind).any():
                yield name, whole.where(self.kind == kind)

    def _keys(self, rows: Rows) -> Longs:
        return self.key if rows is None else self.key[rows]

    def _of_instance(self, name: str, rows: Rows) -> NDArray[np.void]:
        found: NDArray[np.void] = self.instances.refs[name][self.of(rows)]
        return found

    def _lost_since_begin(self, rows: Rows) -> Mask:
        entry = self.of(rows)
        unasked: Mask = self.instances["granted"][entry] == 0
        if not self.lossy:
            return unasked
        # An answer that was lost before the one which was seen may have been the request's.
        gaps = self.gaps if rows is None else self.gaps[rows]
        lost: Mask = unasked | (gaps > self.instances.refs["request"]["ordinal"][entry])
        return lost

    def _other_side(self, rows: Rows) -> tuple[Longs, Longs]:
        """Return how far the other side's frames had come before each row, and the connection's last gap then."""
        sight, at = self.sight, self.rows if rows is None else self.rows[rows]
        other = sight.stream_of_bytes[at] ^ 1
        heard, gap = np.full(len(at), -1, np.int64), self._all_gaps[at]
        for code in np.unique(other).tolist():
            theirs = np.flatnonzero(sight.stream_of_bytes == code)
            mine = np.flatnonzero(other == code)
            place = np.searchsorted(theirs, at[mine]) - 1
            here = place >= 0
            heard[mine] = self._directions.heard(code)
            heard[mine[here]] = sight.numbers("end_offset")[theirs[place[here]]]
            gaps = np.full(len(mine), self._directions.gap(code))
            gaps[here] = self._all_gaps[theirs[place[here]]]
            gap[mine] = np.maximum(gap[mine], gaps)
        return heard, gap

    def _acknowledged(self, columns: dict[str, Any], refs: dict[str, Any]) -> None:
        """What replicas acknowledged before, and which markers are confirmed."""
        self._acks = acks = self.trail(kinds.SEQNO_ACK)
        self._confirmed = confirmed = self.trail(CONFIRMED)
        flags = self.sight.numbers("snapshot_type")[self.rows] if len(self.markers) else self.kind
        self._asking = asking = RowsOfKind(self.groups, self.markers.mask & (flags > 0) & (flags & _ACK_WANTED > 0))
        columns["acked_before"] = self.last(acks, "prepared_seqno", "acked_seqno")
        refs["before"] = self.references(acks, "seqno_ack")
        columns["due"] = lambda rows: (
            self.instances["due"][self.of(rows)] + asking.count_before(rows) - confirmed.count_before(rows)
        )
        if len(confirmed):
            asked = {row: each for row, each, _ in self._done.confirmations}
            markers = [asked[row] for row in self.rows[confirmed.at].tolist()]
            for name, numbers in (
                ("asked_ordinal", [each.ref.ordinal for each in markers]),
                ("asked_end", [each.marker_end for each in markers]),
            ):
                column = np.full(len(self.rows), -1, np.int64)
                column[confirmed.at] = numbers
                columns[name] = column
            asking_refs = np.zeros(len(self.rows), self.sight.refs().dtype)
            asking_refs[confirmed.at] = [tuple(each.ref) for each in markers]
            refs["asked"] = asking_refs

    # ---------------------------------------------------------------------------------------------- what is carried

    def remember(self) -> None:
        """Carry over what the next batch has to know; behind the last use of the tables."""
        if not self.groups.size:
            return
        instances, ends = self.instances, self.groups.ends
        self.snapshots.remember()
        self.documents.remember()
        for name, trail in (("ending", self.trail(kinds.END)), ("closing", self.trail(CLOSED))):
            self.keep(name, trail)
        self.keep("seqno_ack", self._acks)
        self.keep_number("acked_seqno", self._acks, "prepared_seqno")
        np.add.at(instances["due"], self.entry[self._asking.at], 1)
        np.subtract.at(instances["due"], self.entry[self._confirmed.at], 1)
        if len(self._unreadable):
            found = self._unreadable.until(ends)
            instances["unreadable"][self.entries[found >= 0]] = self.ordinal[found[found >= 0]]

    def release(self) -> None:
        """Let go of the parts that refer back here: whole batches would wait for the garbage collector."""
        del self.snapshots, self.documents

    def keep(self, name: str, trail: RowsOfKind) -> None:
        """Carry over which row of a trail was the last."""
        if len(trail):
            found = trail.until(self.groups.ends)
            here = found >= 0
            self.instances.refs[name][self.entries[here]] = self.sight.refs()[self.rows[found[here]]]

    def keep_number(self, name: str, trail: RowsOfKind, column: str) -> None:
        """Carry over a column of the last row of a trail."""
        if len(trail):
            found = trail.until(self.groups.ends)
            here = found >= 0
            self.instances[name][self.entries[here]] = self.sight.numbers(column)[self.rows[found[here]]]

    def reached(self) -> None:
        """Tell the desk of streams that have delivered what was asked for."""
        instances = self.instances
        end, flags = instances["end"][self.entries], instances["flags"][self.entries]
        finite = (end >= 0) & (end < NO_END) & (instances["granted"][self.entries] == 1) & (flags & _TAKEOVER == 0)
        if not finite.any():
            return
        rows = np.flatnonzero(finite[self.groups.number] & self.data)
        marker_end = self.snapshots.marker_end(rows)
        target = np.maximum(marker_end, instances["end"][self.entry[rows]])
        first = (self.seqno[rows] >= target) & (self.snapshots.previous_seqno(rows) < target)
        rows = rows[first & (marker_end >= 0)]
        at = self.rows[rows]
        rows = rows[~self.sight.early[at] & ~self.sight.draft[at]]
        for row in rows.tolist():
            key = int(self.key[row])
            self._streams.desk.reach(key >> KEY_BITS, key, self.sight.ref(int(self.rows[row])))


def _misread(sight: ContextBatch) -> Mask:
    """Tell which rows are not what their message says, so that no field of theirs means anything."""
    misread = np.zeros(sight.size, bool)
    defects = sight.batch.column("defects")
    listed = np.flatnonzero(lengths(defects))
    if len(listed):
        for row, names in zip(listed.tolist(), take(defects, listed).to_pylist(), strict=True):
            misread[row] = not _MISREAD.isdisjoint(names)
    return misread


def _same(column: NDArray[Any]) -> NDArray[Any]:
    return column
