"""Messages of streams in context: for each one its instance, the marker in force, the item before it, its key's past.

One pass over a batch, all streams of all connections at once. What has to outlive the batch is in the entries of
:class:`analysis.context.instances.Instances`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.dealings import KEY_BITS
from analysis.context.groups import Groups, filled
from analysis.context.tables import Table, gathered
from analysis.context.versions import Version, Versions
from dissector.frames import NO_END
from dissector.summary.view import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.dealings import Happenings
    from analysis.context.desk import Desk
    from analysis.context.instances import Instances
    from analysis.context.sight import Sight

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]

#: Columns of the frames that go into the table as they are; seqnos and the like are -1 where there are none.
_TAKEN = (
    *("opcode", "opaque", "time_ns", "end_offset", "acked_offset", "snap_start_seqno", "snap_end_seqno", "rev_seqno"),
    *("snapshot_type", "max_visible_seqno", "high_completed_seqno", "high_prepared_seqno", "purge_seqno"),
    *("marker_version", "end_reason", "oso_flags", "vbucket_state", "prepared_seqno", "extras_length"),
)
_FACTS = ("serial", "granted", "start", "end", "flags", "ask_snap_start", "ask_snap_end", "filtered")
_MARKER = (
    ("marker_start", "snap_start_seqno"),
    ("marker_end", "snap_end_seqno"),
    ("marker_type", "snapshot_type"),
)
TAKEOVER = 0x01  #: stream flag
DENSE_SPAN = 20  #: snapshots of fewer seqnos say nothing about density


class Streams:
    """All streams of a run."""

    def __init__(self, instances: Instances, desk: Desk, versions: Versions | None = None) -> None:
        self.instances = instances
        self.desk = desk
        self._versions = versions or Versions()
        self._forgotten = np.zeros(0, np.int64)  #: ordinals of markers whose snapshots lost keys

    def fold(self, sight: Sight, done: Happenings, gaps: Longs) -> Pass:
        """Take a batch; what comes back gives a table of the messages of streams, each stream's in their order."""
        rows, key, begun = self._rows(sight, done)
        order = np.argsort(key, kind="stable")
        rows, key, begun = rows[order], key[order], begun[order]
        first = np.empty(len(rows), bool)
        if len(rows):
            first[0] = True
            first[1:] = key[1:] != key[:-1]
        entry = self._entries(done, key, begun, first)
        first |= begun >= 0
        groups = Groups(first)
        return Pass(self, sight, rows, key, groups, entry, gaps[rows], done)

    def _rows(self, sight: Sight, done: Happenings) -> tuple[Longs, Longs, Longs]:
        """Return the rows that matter, each with its stream's key and, where a stream begins, its entry."""
        vbucket = sight.numbers("vbucket")
        own = (sight.kind >= kinds.FIRST_OF_STREAM) & (sight.kind <= kinds.LAST_OF_STREAM) & (vbucket >= 0)
        extra = [*done.begins, *done.closes]
        if extra:
            own[extra] = True
        rows = np.flatnonzero(own)
        stream_id = np.maximum(sight.numbers("stream_id")[rows], 0)
        key = sight.connection[rows] << KEY_BITS | vbucket[rows] << 17 | stream_id << 1 | sight.side[rows]
        begun = np.full(len(rows), -1, np.int64)
        if extra:
            for row, (begun_key, instance) in done.begins.items():
                at = int(np.searchsorted(rows, row))
                key[at], begun[at] = begun_key, instance
            for row, closed_key in done.closes.items():
                key[int(np.searchsorted(rows, row))] = closed_key
        return rows, key, begun

    def _entries(self, done: Happenings, key: Longs, begun: Longs, first: Mask) -> Longs:
        """Return each row's entry: that of the last beginning before it, or of the stream as the batch found it."""
        keys, place = distinct(key)
        known = np.full(len(keys), -1, np.int64)
        for number, each in enumerate(keys):
            if each in done.before:
                known[number] = done.before[each]
            else:
                known[number] = self.desk.talk(each >> KEY_BITS).live.get(each, -1)
        heads = np.flatnonzero(first)
        needed = place[heads[begun[heads] < 0]]
        for number in needed[known[needed] < 0].tolist():
            known[number] = self._unasked(keys[number], done)
        entry: Longs = known[place] if len(keys) else np.empty(0, np.int64)
        if done.begins:
            groups = Groups(first)
            last = groups.last_until(begun >= 0)
            entry = filled(last, begun, entry)
        return entry

    def _unasked(self, key: int, done: Happenings) -> int:
        """Make an entry for a stream whose beginning was not captured."""
        talk = self.desk.talk(key >> KEY_BITS)
        fresh = self.instances.add()
        if key in done.before:
            done.before[key] = fresh
            done.over.append(fresh)
        else:
            talk.live[key] = fresh
        return fresh

    def versions(self, space: Longs, key_hash: Longs, fresh: Version) -> Version:
        """Exchange versions of keys, and remember which snapshots are not complete any more."""
        found, lost = self._versions.exchange(space, key_hash, fresh)
        if len(lost):
            self._forgotten = np.union1d(self._forgotten, lost)
        return found

    def forgotten(self, marker: Longs) -> Mask:
        """Tell which snapshots lost keys."""
        if not len(self._forgotten):
            return np.zeros(len(marker), bool)
        return np.isin(marker, self._forgotten)

    def forget(self) -> None:
        """Keep the list of incomplete snapshots short: only those of live streams matter."""
        if len(self._forgotten):
            live = self.instances.refs["marker"]["ordinal"]
            self._forgotten = np.intersect1d(self._forgotten, live)


class Pass:
    """One batch on its way: the table that it gives, and what has to be carried over once the table has been used."""

    def __init__(
        self,
        streams: Streams,
        sight: Sight,
        rows: Longs,
        key: Longs,
        groups: Groups,
        entry: Longs,
        gaps: Longs,
        done: Happenings,
    ) -> None:
        self._streams, self._sight, self.rows, self.key = streams, sight, rows, key
        self._groups, self.entry, self._gaps, self._done = groups, entry, gaps, done
        self._instances = streams.instances
        self._kind = sight.kind[rows].astype(np.int64)
        self._settled = bool(done.begins or done.closes)
        if self._settled:
            self._kind[np.isin(rows, [*done.begins, *done.closes])] = kinds.NONE
        self._seqno = sight.numbers("by_seqno")[rows]
        self._data = (self._kind == kinds.DATA) & (self._seqno >= 0)
        self._is_marker = self._kind == kinds.MARKER
        self._bracket, self._end = self._kind == kinds.OSO, self._kind == kinds.END
        self._closes = np.isin(rows, [*done.closes]) if done.closes else np.zeros(len(rows), bool)
        self._columns: dict[str, Any] = {}
        self._refs: dict[str, Any] = {}

    def table(self) -> Table:
        """Fill in everything."""
        columns, instances, entry = self._columns, self._instances, self.entry
        columns |= {name: gathered(partial(self._sight.numbers, name), self.rows) for name in _TAKEN}
        columns |= {
            "connection": self.key >> KEY_BITS,
            "vbucket": self.key >> 17 & 0xFFFF,
            "stream_id": self.key >> 1 & 0xFFFF,
            "key": self.key,
            "entry": entry,
            "kind": self._kind,
            "by_seqno": self._seqno,
            "gap": self._gaps,
            "row": self.rows,
            "early": self._sight.early[self.rows],
            "draft": self._sight.draft[self.rows],
            "cas": gathered(lambda: self._sight.signed("cas"), self.rows),
        }
        for name in _FACTS:
            columns[name] = _carried(instances[name], entry)
        columns["instance_opaque"] = _carried(instances["opaque"], entry)
        for name in ("answer", "request"):
            self._refs[name] = _carried(instances.refs[name], entry)
        begun = instances.refs["answer"]["ordinal"][entry]
        columns["lost_since_begin"] = (self._gaps > begun) | (instances["granted"][entry] == 0)
        self._refs["guilty"] = gathered(self._sight.refs, self.rows)
        self._markers()
        self._items()
        self._brackets_and_ends()
        self._keys()
        columns["completes"] = self._completes = (
            self._data & (self._seqno >= columns["marker_end"]) & (columns["marker_end"] >= 0)
        )
        table = Table(len(self.rows), columns, self._refs)
        return table.where(self._kind != kinds.NONE) if self._settled else table

    def _at(self, found: Longs, name: str) -> Any:
        """Return a source of references: to the rows that were found, or to what was carried over."""
        carried = self._instances.refs[name]

        def make(rows: Longs | None) -> NDArray[np.void]:
            entry, here = (self.entry, found) if rows is None else (self.entry[rows], found[rows])
            result: NDArray[np.void] = carried[entry]
            result[here >= 0] = self._sight.refs()[self.rows[here[here >= 0]]]
            return result

        self._refs[name] = make
        return make

    def _ordinal(self, found: Longs, name: str) -> Longs:
        """Return the ordinals of the same frames."""
        return filled(found, self._sight.base + self.rows, self._instances.refs[name]["ordinal"][self.entry])

    def _markers(self) -> None:
        """The marker in force before each message."""
        columns, instances, entry, groups, sight = self._columns, self._instances, self.entry, self._groups, self._sight
        self._marker = found = groups.last_before(self._is_marker)
        for name, source in _MARKER:
            own = sight.numbers(source)[self.rows]
            columns[name] = filled(found, own, instances[name][entry])
        self._completed = self._is_marker
        if self._is_marker.any():
            self._completed = self._is_marker & (sight.numbers("high_completed_seqno")[self.rows] >= 0)
            columns["marker_completed"] = filled(
                groups.last_before(self._completed),
                sight.numbers("high_completed_seqno")[self.rows],
                instances["marker_completed"][entry],
            )
        else:
            columns["marker_completed"] = _carried(instances["marker_completed"], entry)
        columns["markers"] = groups.count_before(self._is_marker) + instances["markers"][entry]
        self._at(found, "marker")
        columns["marker_ordinal"] = self._marker_ordinal = self._ordinal(found, "marker")
        #: Whether something was lost since the marker, so that it may not be the one in force.
        columns["lost_since_marker"] = self._gaps > self._marker_ordinal

    def _items(self) -> None:
        """The item before each message, and how many came under the marker."""
        columns, instances, entry, groups = self._columns, self._instances, self.entry, self._groups
        data = self._data
        found = groups.last_before(data)
        columns["previous_seqno"] = filled(found, self._seqno, instances["last_seqno"][entry])
        opcode = self._sight.opcode[self.rows]
        columns["previous_opcode"] = filled(found, opcode, instances["last_opcode"][entry])
        self._at(found, "last")
        columns["previous_ordinal"] = previous = self._ordinal(found, "last")
        columns["lost_since_previous"] = self._gaps > previous
        count = groups.count_before(data)
        columns["total"] = count + instances["total"][entry]
        since = np.where(self._marker >= 0, count - count[self._marker], count + instances["items"][entry])
        columns["items"] = since
        opening = data & (since == 0)  # the first item under its marker
        columns["first_seqno"] = np.where(
            since > 0, filled(groups.last_before(opening), self._seqno, instances["first_seqno"][entry]), -1
        )
        columns["dense"] = _carried(instances["dense"], entry)

    def _brackets_and_ends(self) -> None:
        """Out-of-order snapshots, ends and closes before each message."""
        columns, instances, entry, groups = self._columns, self._instances, self.entry, self._groups
        flags = self._sight.numbers("oso_flags")[self.rows] if self._bracket.any() else self._seqno
        found = groups.last_before(self._bracket)
        columns["inside_oso"] = filled(found, flags, instances["oso"][entry]) == 1
        columns["oso_seen"] = filled(found, np.ones(len(found), np.int64), instances["oso_seen"][entry])
        self._at(found, "bracket")
        for name, mask in (("ending", self._end), ("closing", self._closes)):
            found = groups.last_before(mask)
            self._at(found, name)
            columns[f"{name}_ordinal"] = self._ordinal(found, name)

    def _keys(self) -> None:
        """Each document's last version in the same stream."""
        columns, sight, rows = self._columns, self._sight, self.rows
        opcode = np.where(columns["draft"], kinds.MUTATION, sight.opcode[rows])
        document = self._data & kinds.DOCUMENT[opcode] & (sight.numbers("key_length")[rows] > 0)
        hashes = sight.view.batch.column("key_hash")
        if hashes.null_count:
            document &= hashes.is_valid().to_numpy(zero_copy_only=False)[rows]
            hashes = hashes.fill_null(0)
        columns["document"] = document
        chosen = np.flatnonzero(document)
        # Arrival decides what came before, not the order of streams: the table must not depend on how batches are cut.
        chosen = chosen[np.argsort(rows[chosen], kind="stable")]
        key_hash: Longs = hashes.to_numpy(zero_copy_only=False)
        at = rows[chosen]
        code = opcode[chosen]
        fresh = Version(
            sight.ordinal[at],
            sight.numbers("frame")[at],
            self._marker_ordinal[chosen],
            self._seqno[chosen],
            sight.numbers("rev_seqno")[at],
            sight.signed("cas")[at],
            code,
        )
        space = self._instances["serial"][self.entry[chosen]] * 2 + kinds.PREPARED[code]
        found = self._streams.versions(space, key_hash[at], fresh)
        for name in Version._fields:
            column = np.full(len(rows), -1, np.int64)
            column[chosen] = np.where(found.ordinal > 0, getattr(found, name), -1)
            columns[f"version_{name}"] = column
        columns["forgotten"] = self._streams.forgotten(self._marker_ordinal)
        self._sync(chosen, at, code, key_hash)

    def _sync(self, chosen: Longs, at: Longs, code: Longs, key_hash: Longs) -> None:
        """What the last prepare or completion of each key was, for prepares and completions."""
        sight = self._sight
        names = ("sync_seqno", "sync_opcode", "sync_frame", "sync_ordinal")
        sync = kinds.SYNC[code]
        nothing = np.full(len(self.rows), -1, np.int64)
        self._columns |= {name: nothing.copy() if sync.any() else nothing for name in names}
        if not sync.any():
            return
        chosen, at, code = chosen[sync], at[sync], code[sync]
        zero = np.zeros(len(chosen), np.int64)
        fresh = Version(
            sight.ordinal[at],
            sight.numbers("frame")[at],
            self._marker_ordinal[chosen],
            self._seqno[chosen],
            zero,
            zero,
            code,
        )
        # Numbers of name spaces are even and odd serials; negative ones are this third space.
        found = self._streams.versions(-self._instances["serial"][self.entry[chosen]], key_hash[at], fresh)
        for name, values in zip(names, (found.seqno, found.opcode, found.frame, found.ordinal), strict=True):
            self._columns[name][chosen] = np.where(found.ordinal > 0, values, -1)

    def remember(self) -> None:
        """Carry over what the next batch has to know; behind the last use of the table."""
        instances, groups, columns = self._instances, self._groups, self._columns
        if not groups.size:
            return
        last = groups.ends
        entry = self.entry[last]
        marker = groups.last_until(self._is_marker)[last]
        here = marker >= 0
        for name, source in _MARKER:
            instances[name][entry[here]] = self._sight.numbers(source)[self.rows[marker[here]]]
        item = groups.last_until(self._data)[last]
        found = item >= 0
        instances["last_seqno"][entry[found]] = self._seqno[item[found]]
        instances["last_opcode"][entry[found]] = self._sight.opcode[self.rows[item[found]]]
        mine, is_marker = self._data[last], self._is_marker[last]
        instances["items"][entry] = np.where(is_marker, 0, columns["items"][last] + mine)
        instances["total"][entry] = columns["total"][last] + mine
        instances["markers"][entry] = columns["markers"][last] + is_marker
        first = np.where(mine & (columns["items"][last] == 0), self._seqno[last], columns["first_seqno"][last])
        instances["first_seqno"][entry] = np.where(is_marker, -1, first)
        if self._completed.any():
            completed = groups.last_until(self._completed)[last]
            there = completed >= 0
            values = self._sight.numbers("high_completed_seqno")[self.rows[completed[there]]]
            instances["marker_completed"][entry[there]] = values
        for name, mask in (
            ("marker", self._is_marker),
            ("last", self._data),
            ("bracket", self._bracket),
            ("ending", self._end),
            ("closing", self._closes),
            ("reached", self._completes),
        ):
            if mask.any():
                self._remember_last(name, mask, entry, last)
        self._dense()

    def _remember_last(self, name: str, mask: Mask, entry: Longs, last: Longs) -> None:
        """Carry over which row was the last of its kind."""
        found = self._groups.last_until(mask)[last]
        here = found >= 0
        rows = self.rows[found[here]]
        self._instances.refs[name][entry[here]] = self._sight.refs()[rows]
        if name == "bracket":
            self._instances["oso"][entry[here]] = self._sight.numbers("oso_flags")[rows]
            self._instances["oso_seen"][entry[here]] = 1
        elif name == "reached":
            self._instances["reached_offset"][entry[here]] = self._sight.numbers("end_offset")[rows]

    def _dense(self) -> None:
        """Count the snapshots that delivered at least half of the seqnos they span (SEQ-12)."""
        columns = self._columns
        span = columns["marker_end"] - columns["marker_start"] + 1
        dense = self._is_marker & (columns["marker_end"] >= 0) & (span >= DENSE_SPAN) & (2 * columns["items"] >= span)
        if dense.any():
            np.add.at(self._instances["dense"], self.entry[dense], 1)

    def reached(self) -> None:
        """Tell the desk of streams that have delivered what was asked for."""
        columns, instances, entry = self._columns, self._instances, self.entry
        end = instances["end"][entry]
        asked = self._completes & (end >= 0) & (end < NO_END) & (instances["granted"][entry] == 1)
        asked &= (self._seqno >= end) & (columns["previous_seqno"] < end)
        asked &= (instances["flags"][entry] & TAKEOVER == 0) & ~columns["early"] & ~columns["draft"]
        for at in np.flatnonzero(asked).tolist():
            key = int(self.key[at])
            self._streams.desk.reach(key >> KEY_BITS, key, self._sight.ref(int(self.rows[at])))


def _carried(column: NDArray[Any], entry: Longs) -> Any:
    """Return a source that takes what was carried over."""
    return lambda rows: column[entry if rows is None else entry[rows]]
