"""The tables of streams: one batch's messages, each with its instance, the marker in force and what came before it.

Joins the columns of the frames with those of :class:`Snapshots` and :class:`Documents`. After the tables were used,
:meth:`StreamTables.remember` stores what the next batch needs in :class:`Instances`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.lookback import RowsOfKind
from analysis.context.streams.documents import Documents
from analysis.context.streams.rows import CLOSED, CONFIRMED
from analysis.context.streams.snapshots import Snapshots
from analysis.context.tables import Table, gathered
from dissector.frames.schema import NO_END
from dissector.frames.stream_key import connection_of, stream_id_of, vbucket_of
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.stream_lifecycle import BatchChanges
    from analysis.context.streams.index import StreamIndex
    from analysis.context.streams.rows import Column, Rows, StreamRows
    from dissector.array_types import Longs, Mask

#: Columns of the frames that go into the table as they are; seqnos and the like are -1 where there are none.
_OF_FRAMES = (
    *("opcode", "opaque", "time_ns", "end_offset", "acked_offset", "snap_start_seqno", "snap_end_seqno", "rev_seqno"),
    *("snapshot_type", "max_visible_seqno", "high_completed_seqno", "high_prepared_seqno", "purge_seqno"),
    *("marker_version", "end_reason", "oso_flags", "vbucket_state", "prepared_seqno", "extras_length", "status"),
)
#: Columns of the instance.
_OF_INSTANCES = ("serial", "granted", "start", "end", "flags", "ask_snap_start", "ask_snap_end", "filtered")
_TAKEOVER = enums.STREAM_FLAGS.bit("takeover")
_ACK_REQUESTED = enums.MARKER_FLAGS.bit("acknowledge")


class StreamTables:
    """Makes the tables of one batch."""

    def __init__(
        self, index: StreamIndex, rows: StreamRows, changes: BatchChanges, gaps: Longs, directions: DirectionProgress
    ) -> None:
        self.rows = rows
        self._instances = rows.instances
        self._tracker, self._changes, self._gaps, self._directions = index.tracker, changes, gaps, directions
        self._snapshots = Snapshots(rows)
        self._documents = Documents(rows, self._snapshots, index.versions, index.syncs)
        self._ends = {"ending": rows.rows_of_kind(kinds.END), "closing": rows.rows_of_kind(CLOSED)}
        self.ending_ordinal = rows.last_ordinal(self._ends["ending"], "ending")
        self._acks = rows.rows_of_kind(kinds.SEQNO_ACK)
        self._confirmed = rows.rows_of_kind(CONFIRMED)
        flags = rows.numbers("snapshot_type", None) if len(rows.markers) else rows.kind
        self._asking = RowsOfKind(rows.groups, rows.markers.mask & (flags > 0) & (flags & _ACK_REQUESTED > 0))

    def tables(self, facts: Mapping[str, Longs]) -> Iterator[tuple[str, Table]]:
        """Give out the tables: messages of streams, confirmations of markers, seqnos acknowledged."""
        rows = self.rows
        columns = self._frame_columns(facts) | self._instance_columns()
        refs: dict[str, Column | NDArray[np.void]] = {"guilty": gathered(rows.frames.refs, rows.in_batch)}
        refs["here"] = refs["guilty"]
        for name in ("answer", "request"):
            refs[name] = rows.ref_from_instance(name)
        for name, some in self._ends.items():
            columns[f"{name}_ordinal"] = rows.last_ordinal(some, name)
            refs[name] = rows.last_ref(some, name)
        columns["acked_before"] = rows.last_value(self._acks, "prepared_seqno", "acked_seqno")
        refs["before"] = rows.last_ref(self._acks, "seqno_ack")
        columns["unconfirmed_markers"] = self._unconfirmed_markers
        self._add_confirmed(columns, refs)
        columns |= self._snapshots.columns() | self._documents.columns()
        refs |= self._snapshots.refs()
        whole = Table(rows.size, columns, refs)
        extra = rows.kind > kinds.LAST_OF_STREAM
        if not extra.any():
            yield "stream", whole
            return
        yield "stream", whole.where(~extra)
        for name, kind in (("confirmations", CONFIRMED), ("seqno_acks", kinds.SEQNO_ACK)):
            if (rows.kind == kind).any():
                yield name, whole.where(rows.kind == kind)

    def _frame_columns(self, facts: Mapping[str, Longs]) -> dict[str, Column | NDArray[Any]]:
        rows, frames = self.rows, self.rows.frames
        columns: dict[str, Column | NDArray[Any]] = {
            name: gathered(partial(frames.numbers, name), rows.in_batch) for name in _OF_FRAMES
        }
        columns |= {name: gathered(partial(_same, column), rows.in_batch) for name, column in facts.items()}
        return columns | {
            "connection": lambda chosen: connection_of(self._keys(chosen)),
            "vbucket": lambda chosen: vbucket_of(self._keys(chosen)),
            "stream_id": lambda chosen: stream_id_of(self._keys(chosen)),
            "key": rows.key,
            "entry": rows.entry,
            "kind": rows.kind,
            "by_seqno": rows.seqno,
            "gap": rows.gaps,
            "row": rows.in_batch,
            "ordinal": rows.ordinal,
            "is_upr": gathered(lambda: frames.early, rows.in_batch),
            "draft": gathered(lambda: frames.draft, rows.in_batch),
            "cas": gathered(lambda: frames.signed("cas"), rows.in_batch),
            "peer_not_captured": lambda chosen: rows.numbers("acked_offset", chosen) > self._other_side(chosen)[0],
            "connection_gap": lambda chosen: self._other_side(chosen)[1],
        }

    def _instance_columns(self) -> dict[str, Column | NDArray[Any]]:
        rows, refs = self.rows, self._instances.refs
        columns: dict[str, Column | NDArray[Any]] = {name: rows.from_instance(name) for name in _OF_INSTANCES}
        columns["instance_opaque"] = rows.from_instance("opaque")
        columns["answer_offset"] = lambda chosen: refs["answer"]["start_offset"][rows.entries_of(chosen)]
        columns["answer_ordinal"] = lambda chosen: refs["answer"]["ordinal"][rows.entries_of(chosen)]
        columns["lost_since_begin"] = self._lost_since_begin
        return columns

    def _keys(self, chosen: Rows) -> Longs:
        return self.rows.key if chosen is None else self.rows.key[chosen]

    def _lost_since_begin(self, chosen: Rows) -> Mask:
        rows, entry = self.rows, self.rows.entries_of(chosen)
        not_granted: Mask = self._instances["granted"][entry] == 0
        if not rows.lossy:
            return not_granted
        # A response that was lost before the one which was captured may have been the request's.
        gaps = rows.gaps if chosen is None else rows.gaps[chosen]
        lost: Mask = not_granted | (gaps > self._instances.refs["request"]["ordinal"][entry])
        return lost

    def _other_side(self, chosen: Rows) -> tuple[Longs, Longs]:
        """Return where the other side's frames before each row end, and the connection's last gap then."""
        frames, at = self.rows.frames, self.rows.in_batch if chosen is None else self.rows.in_batch[chosen]
        other = frames.direction_id[at] ^ 1
        end, gap = np.full(len(at), -1, np.int64), self._gaps[at]
        for direction in np.unique(other).tolist():
            theirs = np.flatnonzero(frames.direction_id == direction)
            mine = np.flatnonzero(other == direction)
            place = np.searchsorted(theirs, at[mine]) - 1
            here = place >= 0
            end[mine] = self._directions.heard(direction)
            end[mine[here]] = frames.numbers("end_offset")[theirs[place[here]]]
            gaps = np.full(len(mine), self._directions.gap(direction))
            gaps[here] = self._gaps[theirs[place[here]]]
            gap[mine] = np.maximum(gap[mine], gaps)
        return end, gap

    def _unconfirmed_markers(self, chosen: Rows) -> Longs:
        remembered = self._instances["unconfirmed_markers"][self.rows.entries_of(chosen)]
        return remembered + self._asking.count_before(chosen) - self._confirmed.count_before(chosen)

    def _add_confirmed(
        self, columns: dict[str, Column | NDArray[Any]], refs: dict[str, Column | NDArray[np.void]]
    ) -> None:
        """Add what is known of the marker that each confirmation is about."""
        confirmed = self._confirmed
        if not len(confirmed):
            return
        rows = self.rows
        asked = {row: each for row, each, _ in self._changes.confirmations}
        markers = [asked[row] for row in rows.in_batch[confirmed.at].tolist()]
        for name, numbers in (
            ("asked_ordinal", [each.ref.ordinal for each in markers]),
            ("asked_end", [each.marker_end for each in markers]),
        ):
            column = np.full(rows.size, -1, np.int64)
            column[confirmed.at] = numbers
            columns[name] = column
        marker_refs = np.zeros(rows.size, rows.frames.refs().dtype)
        marker_refs[confirmed.at] = [tuple(each.ref) for each in markers]
        refs["asked"] = marker_refs

    # ------------------------------------------------------------------------------------------------ after the use

    def note_reached(self) -> None:
        """Tell the request tracker of streams that have delivered what was requested."""
        rows, instances = self.rows, self._instances
        end, flags = instances["end"][rows.entries], instances["flags"][rows.entries]
        finite = (end >= 0) & (end < NO_END) & (instances["granted"][rows.entries] == 1) & (flags & _TAKEOVER == 0)
        if not finite.any():
            return
        items = np.flatnonzero(finite[rows.groups.number] & rows.data)
        marker_end = self._snapshots.marker_end(items)
        target = np.maximum(marker_end, instances["end"][rows.entry[items]])
        first = (rows.seqno[items] >= target) & (self._snapshots.previous_seqno(items) < target)
        items = items[first & (marker_end >= 0)]
        at = rows.in_batch[items]
        items = items[~rows.frames.early[at] & ~rows.frames.draft[at]]
        for item in items.tolist():
            key = int(rows.key[item])
            self._tracker.note_end_reached(connection_of(key), key, rows.frames.ref(int(rows.in_batch[item])))

    def remember(self) -> None:
        """Store what the next batch has to know; no table may be used after this."""
        rows, instances = self.rows, self._instances
        if not rows.size:
            return
        self._snapshots.remember()
        self._documents.remember()
        for name, some in self._ends.items():
            rows.remember_ref(name, some)
        rows.remember_ref("seqno_ack", self._acks)
        rows.remember_value("acked_seqno", self._acks, "prepared_seqno")
        np.add.at(instances["unconfirmed_markers"], rows.entry[self._asking.at], 1)
        np.subtract.at(instances["unconfirmed_markers"], rows.entry[self._confirmed.at], 1)
        rows.remember_unreadable()


def _same(column: NDArray[Any]) -> NDArray[Any]:
    return column
