"""The tables of streams: one batch's messages, each with its instance, the marker in force and what came before it.

Joins the columns of the frames with those of :class:`Snapshots` and :class:`Documents`. After the tables were used,
:meth:`StreamTables.remember` stores what the next batch needs in :class:`Instances`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.causality import had_received
from analysis.context.lookback import RowsOfKind
from analysis.context.streams.documents import Documents
from analysis.context.streams.handover_columns import HandoverColumns
from analysis.context.streams.instances import UNKNOWN
from analysis.context.streams.rows import CLOSED, CONFIRMED
from analysis.context.streams.snapshots import Snapshots
from analysis.context.tables import Table, gathered
from dissector.frames.schema import NO_END
from dissector.frames.stream_key import connection_of, side_of, stream_id_of, vbucket_of
from dissector.spec import enums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.state import ReplyToData
    from analysis.context.requests.stream_lifecycle import BatchChanges
    from analysis.context.streams.index import StreamIndex
    from analysis.context.streams.instances import Instances
    from analysis.context.streams.rows import Column, Rows, StreamRows
    from dissector.array_types import Longs

#: Columns of the frames that go into the table as they are; seqnos and the like are -1 where there are none.
_OF_FRAMES = (
    *("opcode", "opaque", "time_ns", "end_offset", "acked_offset", "snap_start_seqno", "snap_end_seqno", "rev_seqno"),
    *("snapshot_type", "max_visible_seqno", "high_completed_seqno", "high_prepared_seqno", "purge_seqno"),
    *("marker_version", "end_reason", "oso_flags", "vbucket_state", "prepared_seqno", "extras_length", "status"),
    "missing",
)
#: Columns of the instance.
_OF_INSTANCES = ("serial", "granted", "presumed", "start", "end", "flags", "ask_snap_start", "ask_snap_end", "filtered")
_OF_RESUMED = (kinds.DATA, kinds.MARKER)
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
        self._handovers = HandoverColumns(rows, changes.handovers)
        self._acks = rows.rows_of_kind(kinds.SEQNO_ACK)
        self._own = RowsOfKind(rows.groups, (rows.kind >= kinds.FIRST_OF_STREAM) & (rows.kind <= kinds.LAST_OF_STREAM))
        self._opaques = self._learned_opaques()
        self._confirmed = rows.rows_of_kind(CONFIRMED)
        flags = rows.numbers("snapshot_type", None) if len(rows.markers) else rows.kind
        self._asking = RowsOfKind(rows.groups, rows.markers.mask & (flags > 0) & (flags & _ACK_REQUESTED > 0))

    def tables(self, facts: Mapping[str, Longs]) -> Iterator[tuple[str, Table]]:
        """Give out the tables: messages of streams, states and ends, confirmations of markers, seqnos acknowledged."""
        rows = self.rows
        columns = self._frame_columns(facts) | self._instance_columns()
        refs: dict[str, Column | NDArray[np.void]] = {"guilty": gathered(rows.frames.refs, rows.in_batch)}
        refs["here"] = refs["guilty"]
        for name in ("answer", "request"):
            refs[name] = rows.ref_from_instance(name)
        for name, some in self._ends.items():
            columns[f"{name}_ordinal"] = rows.last_ordinal(some, name)
            refs[name] = rows.last_ref(some, name)
        columns["ending_opaque"] = rows.last_value(self._ends["ending"], "opaque", "ending_opaque")
        columns["acked_before"] = rows.last_value(self._acks, "prepared_seqno", "acked_seqno")
        refs["before"] = rows.last_ref(self._acks, "seqno_ack")
        columns["unconfirmed_markers"] = self._unconfirmed_markers
        self._add_confirmed(columns, refs)
        columns |= self._snapshots.columns() | self._documents.columns() | self._handovers.columns()
        refs |= self._snapshots.refs() | self._handovers.refs()
        whole = Table(rows.size, columns, refs)
        resumed = self._resumed()
        if len(resumed):
            for name in ("resumed_after", "resumed_surely"):
                whole.add(name, rows.from_instance(name))
            yield "resumed_streams", whole.take(resumed)
        handovers = self._handovers.table(whole)
        if handovers is not None:
            yield "handovers", handovers
        extra = rows.kind > kinds.LAST_OF_STREAM
        if not extra.any():
            yield "stream", whole
            return
        yield "stream", whole.where(~extra)
        for name, kind in (("confirmations", CONFIRMED), ("seqno_acks", kinds.SEQNO_ACK)):
            if (rows.kind == kind).any():
                yield name, whole.where(rows.kind == kind)

    def _resumed(self) -> Longs:
        """Return the markers and items with which streams begin that go on behind the one before; mostly none."""
        rows = self.rows
        groups = np.flatnonzero(self._instances["resumed_after"][rows.entries] >= 0)
        if not len(groups):
            return groups
        mine = np.flatnonzero(np.isin(rows.groups.number, groups) & np.isin(rows.kind, _OF_RESUMED))
        first: Longs = mine[self._snapshots.previous_seqno(mine) < 0]
        return first

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
            "key_gap": rows.key_gaps,
            "row": rows.in_batch,
            "ordinal": rows.ordinal,
            "is_upr": gathered(lambda: frames.early, rows.in_batch),
            "draft": gathered(lambda: frames.draft, rows.in_batch),
            "cas": gathered(lambda: frames.signed("cas"), rows.in_batch),
            "peer_lost": gathered(lambda: frames.peer_lost, rows.in_batch),
            "producer_gap": lambda chosen: self._gap_of(0, chosen),
            "consumer_gap": lambda chosen: self._gap_of(1, chosen),
        }

    def _instance_columns(self) -> dict[str, Column | NDArray[Any]]:
        rows, refs = self.rows, self._instances.refs

        def answer_ordinal(chosen: Rows) -> Longs:
            return refs["answer"]["ordinal"][rows.entries_of(chosen)]

        columns: dict[str, Column | NDArray[Any]] = {name: rows.from_instance(name) for name in _OF_INSTANCES}
        columns["instance_opaque"] = self._opaques
        columns["answer_offset"] = lambda chosen: refs["answer"]["start_offset"][rows.entries_of(chosen)]
        columns["answer_ordinal"] = answer_ordinal
        columns["lost_since_answer"] = rows.lost_since(answer_ordinal)
        return columns

    def _keys(self, chosen: Rows) -> Longs:
        return self.rows.key if chosen is None else self.rows.key[chosen]

    def _gap_of(self, other: int, chosen: Rows) -> Longs:
        """Return the last row up to each row before which something was lost in a direction; 0: there is none.

        That of the stream's messages, or if ``other`` is 1 the other one.
        """
        rows, frames = self.rows, self.rows.frames
        numbers = rows.numbered(chosen)
        at = rows.in_batch[numbers]
        wanted = frames.connection[at] * 2 + (side_of(rows.key[numbers]) ^ other)
        gaps = np.zeros(len(numbers), np.int64)
        for direction in np.unique(wanted).tolist():
            mine = np.flatnonzero(wanted == direction)
            sent = np.flatnonzero(frames.direction_id == direction)
            place = np.searchsorted(sent, at[mine], side="right") - 1
            here = place >= 0
            found = np.full(len(mine), self._directions.gap(direction))
            found[here] = self._gaps[sent[place[here]]]
            gaps[mine] = found
        return gaps

    def _learned_opaques(self) -> Longs | Column:
        """Return the opaque of each row's stream: of the request, or where that is not known of its first messages.

        Two messages that agree settle it, for the messages after them; -1: it is not known.
        """
        rows, instances = self.rows, self._instances
        self._learned: dict[int, int] = {}  #: entry to opaque
        unknown = (instances["opaque"][rows.entries] == UNKNOWN) & (instances["presumed"][rows.entries] > 0)
        groups = np.flatnonzero(unknown)
        if not len(groups):
            return rows.from_instance("opaque")
        found = instances["opaque"][rows.entry]
        opaque = rows.numbers("opaque", None)
        for group in groups.tolist():
            begin, end = int(rows.groups.starts[group]), int(rows.groups.ends[group]) + 1
            own = begin + np.flatnonzero(self._own.mask[begin:end])
            if not len(own):
                continue
            entry = int(rows.entries[group])
            said = np.concatenate(([instances["candidate"][entry]], opaque[own]))
            same = np.flatnonzero(said[1:] == said[:-1])
            if len(same):
                self._learned[entry] = int(said[1:][same[0]])
                found[own[same[0]] + 1 : end] = self._learned[entry]
            else:
                instances["candidate"][entry] = said[-1]
        return found

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

    # ------------------------------------------------------------------------------------- what the tracker asks for

    @property
    def instances(self) -> Instances:
        """Return the entries of all streams."""
        return self._instances

    @property
    def frames(self) -> ContextBatch:
        """Return the batch."""
        return self.rows.frames

    def before_begin(self, index: int) -> tuple[int, int]:
        """Return the entry of the vbucket's stream before the one that begins at a row, and its last message."""
        rows, changes = self.rows, self._changes
        key, _ = changes.begins[index]
        place = int(np.flatnonzero(rows.in_batch == index)[0]) - 1
        carried = place < 0 or rows.key[place] != key
        direction = connection_of(key) * 2 + side_of(key)
        doubted = [*changes.doubts.get(key, ()), *changes.doubted_directions.get(direction, ())]
        if any((-1 if carried else int(rows.in_batch[place])) < row <= index for row in doubted):
            return UNKNOWN, 0
        if carried:
            entry = changes.before.get(key, UNKNOWN)
            return entry, self._last_seen(entry)
        entry = int(rows.entry[place])
        own = int(self._own.until(np.array([place]))[0])
        return entry, int(rows.ordinal[own]) if own >= 0 else self._last_seen(entry)

    def delivered_before(self, key: int, index: int) -> tuple[int, bool]:
        """Return the seqno of the last item that a stream had delivered before a row; -1: it is not known.

        Also whether it surely was the last one: nothing was lost or could not be read since.
        """
        rows, changes = self.rows, self._changes
        mine = np.flatnonzero((rows.key == key) & (rows.in_batch < index))
        place = int(mine[-1]) if len(mine) else -1
        direction = connection_of(key) * 2 + side_of(key)
        doubted = [*changes.doubts.get(key, ()), *changes.doubted_directions.get(direction, ())]
        if any((-1 if place < 0 else int(rows.in_batch[place])) < row <= index for row in doubted):
            return UNKNOWN, False
        if place >= 0:
            entry, lost = int(rows.entry[place]), int(rows.gaps[place])
            item = int(self._snapshots.accepted.until(np.array([place]))[0])
            if item >= 0:
                return int(rows.seqno[item]), int(rows.ordinal[item]) >= max(lost, int(self._gaps[index]))
        else:
            entry = changes.before.get(key, self._tracker.state(connection_of(key)).live.get(key, UNKNOWN))
            if entry < 0:
                return UNKNOWN, False
            lost = int(self._instances["unreadable"][entry])
        last = int(self._instances.refs["last"]["ordinal"][entry])
        return int(self._instances["last_seqno"][entry]), last >= max(lost, int(self._gaps[index]))

    def last_message(self, entry: int, index: int) -> int:
        """Return the last message of a stream before a row."""
        rows = self.rows
        mine = self._own.at[(rows.entry[self._own.at] == entry) & (rows.in_batch[self._own.at] < index)]
        return int(rows.ordinal[mine].max()) if len(mine) else self._last_seen(entry)

    def opaque_of(self, entry: int) -> int:
        """Return the opaque of a stream; -1: it is not known."""
        return self._learned.get(entry, int(self._instances["opaque"][entry])) if entry >= 0 else UNKNOWN

    def _last_seen(self, entry: int) -> int:
        if entry < 0:
            return 0
        return max(int(self._instances["seen"][entry]), int(self._instances.refs["answer"]["ordinal"][entry]))

    def stream_with(self, reply: ReplyToData) -> int | None:
        """Return the stream whose messages have a reply's opaque, as far as its sender had received them."""
        frames, rows = self.rows.frames, self.rows
        direction = int(frames.direction_id[reply.index]) ^ 1
        at = rows.in_batch
        same = self._own.mask & (frames.direction_id[at] == direction) & (rows.numbers("opaque", None) == reply.opaque)
        same &= (at < reply.index) & had_received(reply.acked, rows.numbers("end_offset", None))
        found = np.flatnonzero(same)
        if len(found):
            return int(rows.key[found[np.argmax(at[found])]])
        return self._tracker.state(reply.connection).opaques.get(reply.opaque)

    def marker_before(self, key: int, index: int) -> tuple[int, int]:
        """Return the last marker of a stream before a row, 0 if there is none, and the offset of its end."""
        rows = self.rows
        at = rows.markers.at
        some = at[(rows.key[at] == key) & (rows.in_batch[at] < index)]
        if len(some):
            place = int(some[np.argmax(rows.in_batch[some])])
            return int(rows.ordinal[place]), int(rows.numbers("end_offset", np.array([place]))[0])
        entry = self._changes.before.get(key, self._tracker.state(connection_of(key)).live.get(key, -1))
        if entry < 0:
            return 0, -1
        return int(self._instances.refs["marker"]["ordinal"][entry]), int(self._instances["marker_offset"][entry])

    # ------------------------------------------------------------------------------------------------ after the use

    def note_reached(self) -> None:
        """Tell the request tracker of streams that have delivered what was requested."""
        rows, instances = self.rows, self._instances
        end, flags = instances["end"][rows.entries], instances["flags"][rows.entries]
        finite = (end >= 0) & (end < NO_END) & (instances["granted"][rows.entries] == 1) & (flags & _TAKEOVER == 0)
        if not finite.any():
            return
        items = np.flatnonzero(finite[rows.groups.number] & rows.data)
        at = rows.in_batch[items]
        early = rows.frames.early[at]
        marker_end = self._snapshots.marker_end(items)
        # A marker of the dialect upr has no range, and comes after the items.
        target = np.where(
            early, instances["end"][rows.entry[items]], np.maximum(marker_end, instances["end"][rows.entry[items]])
        )
        first = (rows.seqno[items] >= target) & (self._snapshots.previous_seqno(items) < target)
        items = items[first & ((marker_end >= 0) | early) & ~rows.frames.draft[at]]
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
        self._handovers.remember()
        for name, some in self._ends.items():
            rows.remember_ref(name, some)
        rows.remember_ref("seqno_ack", self._acks)
        rows.remember_value("acked_seqno", self._acks, "prepared_seqno")
        np.add.at(instances["unconfirmed_markers"], rows.entry[self._asking.at], 1)
        np.subtract.at(instances["unconfirmed_markers"], rows.entry[self._confirmed.at], 1)
        rows.remember_unreadable()
        instances["resumed_after"][rows.entries[instances["last_seqno"][rows.entries] >= 0]] = UNKNOWN
        found = self._own.until(rows.groups.ends)
        here = found >= 0
        instances["seen"][rows.entries[here]] = rows.ordinal[found[here]]
        rows.remember_value("marker_offset", rows.markers, "end_offset")
        rows.remember_value("ending_opaque", self._ends["ending"], "opaque")
        for entry, opaque in self._learned.items():
            instances["opaque"][entry] = opaque
            key = int(rows.key[rows.groups.starts[np.flatnonzero(rows.entries == entry)[0]]])
            state = self._tracker.state(connection_of(key))
            if opaque not in state.opaques:
                state.remember(state.opaques, opaque, key)


def _same(column: NDArray[Any]) -> NDArray[Any]:
    return column
