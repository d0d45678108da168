"""The oracle of the context's streams: plain dictionaries, one row at a time, nothing clever.

For captures without losses: what a loss leaves open is proven by damaging captures (see ``tests.support.soundness``).
Takes rows of frames as dictionaries and returns what the context must say of each message of a stream. Knows no arrays,
no batches and nothing of the package but the names of columns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

DATA = {0x57: 1, 0x58: 1, 0x59: 1, 0x5F: 0, 0x60: 1, 0x62: 1, 0x63: 1, 0x64: 0}  # opcode to whether it has a document
REVISED = {0x57, 0x58, 0x59, 0x60}
DRAFT_DATA = {"mutation", "deletion", "expiration"}
PREPARES = {0x60, 0x63}
DELETION = 0x58
STREAM_REQUEST, MARKER, STREAM_END, STATE, OSO, FLUSH = 0x53, 0x56, 0x55, 0x5B, 0x65, 0x5A
CACHE = {0x66, 0x67}
CLOCK = 1_262_304_000 * 10**9
MISREAD = {"extras-length-unknown", "lengths-exceed-body"}


def number(value: int | None, otherwise: int = -1) -> int:
    return otherwise if value is None else value


@dataclass
class Instance:
    """One stream."""

    granted: int = 0
    answer: int = 0
    request: int = 0
    start: int = -1
    marker: int = 0  # ordinal
    span: tuple[int, int, int] = (-1, -1, -1)
    items: int = 0
    total: int = 0
    last: int = 0  # ordinal
    seqno: int = -1
    cas: int = 0
    bracket: int = 0
    inside: bool = False
    disk_end: int = -1
    completed: int = -1
    typed: bool = False
    merged: bool = False
    foreign: int = 0  # ordinal
    dense: int = 0
    unreadable: int = 0
    versions: dict[tuple[bool, bytes], tuple[int, int, int, int]] = field(default_factory=dict)


@dataclass
class Oracle:
    """All connections."""

    ordinal: int = 0
    gaps: dict[tuple[str, int], int] = field(default_factory=dict)
    waiting: dict[tuple[object, ...], deque[Row]] = field(default_factory=dict)
    live: dict[tuple[str, int, int, int], Instance] = field(default_factory=dict)

    def take(self, rows: Iterable[Row]) -> dict[int, dict[str, int]]:
        """Return what is true of each message of a stream, by ordinal."""
        found: dict[int, dict[str, int]] = {}
        for row in rows:
            self.ordinal += 1
            end = (row["connection"], row["direction"])
            if row["gap"] + row["skipped"] >= 24:
                self.gaps[end] = self.ordinal
            told = self._one(row, end)
            if told is not None:
                found[self.ordinal] = told
        return found

    def _one(self, row: Row, end: tuple[str, int]) -> dict[str, int] | None:
        if row["dialect"] == "draft":
            return self._draft(row, end)
        if row["dialect"] == "upr-proto":
            return None  # its opcodes mean other things; those of all others do not
        opcode = row["opcode"]
        if opcode == STREAM_REQUEST:
            place = (row["connection"], row["direction"] ^ row["response"], row["opaque"])
            if not row["response"]:
                self._ask(place, row)
            else:
                self._answer(place, row, granted=row["status"] == 0)
            return None
        known = opcode in DATA or opcode in CACHE or opcode in (MARKER, STREAM_END, STATE, OSO, FLUSH)
        if row["response"] or not known or row["vbucket"] is None:
            return None
        sid = number(row["stream_id"], 0)
        instance = self.live.setdefault((row["connection"], row["vbucket"], sid, row["direction"]), Instance())
        told = self._tell(instance, end)
        if opcode in DATA:
            self._item(instance, row, told, opcode)
        elif opcode == MARKER:
            self._marker(instance, row, told)
        elif opcode == OSO:
            instance.bracket, instance.inside = self.ordinal, row["oso_flags"] == 1
        return told

    # ------------------------------------------------------------------------------------------- requests, answers

    def _ask(self, place: tuple[object, ...], row: Row) -> None:
        self.waiting.setdefault(place, deque()).append({**row, "ordinal": self.ordinal})

    def _answer(self, place: tuple[object, ...], row: Row, *, granted: bool) -> None:
        waiting = self.waiting.get(place)
        asked = waiting.popleft() if waiting else None
        if asked is not None and granted:
            sid = 0
            text = asked["text"] or ""
            if '"sid":' in text:
                sid = int("".join(each for each in text.partition('"sid":')[2][:6] if each.isdigit()))
            key = (row["connection"], asked["vbucket"], sid, row["direction"])
            self.live[key] = Instance(1, self.ordinal, asked["ordinal"], number(asked["start_seqno"]))

    def _draft(self, row: Row, end: tuple[str, int]) -> dict[str, int] | None:
        name, vbucket = row["name"], number(row["vbucket"], 0)
        place = (row["connection"], row["direction"] ^ row["response"], "draft", vbucket, row["opaque"])
        if not row["response"]:
            self._ask(place, row)
            return None
        if name in ("stream_ok", "stream_not_my_vbucket", "stream_rollback", "failover_log"):
            self._answer(place, row, granted=name == "stream_ok")
            return None
        if row["vbucket"] is None:
            return None
        instance = self.live.setdefault((row["connection"], row["vbucket"], 0, row["direction"]), Instance())
        told = self._tell(instance, end)
        if name in DRAFT_DATA:
            self._item(instance, row, told, 0x57)
        elif name == "snapshot_start":
            self._marker(instance, row, told)
        return told

    # ------------------------------------------------------------------------------------------------- the stream

    def _tell(self, instance: Instance, end: tuple[str, int]) -> dict[str, int]:
        gap = max(self.gaps.get(end, 0), instance.unreadable)
        snapshot = max(instance.marker, instance.bracket)
        return {
            "granted": instance.granted,
            "answer_ordinal": instance.answer,
            "start": instance.start,
            "gap": gap,
            "marker_ordinal": instance.marker,
            "marker_start": instance.span[0],
            "marker_end": instance.span[1],
            "marker_type": instance.span[2],
            "items": instance.items,
            "total": instance.total,
            "previous_seqno": instance.seqno,
            "previous_ordinal": instance.last,
            "inside_oso": int(instance.inside),
            "snapshot_ordinal": snapshot,
            "oso_since_marker": int(instance.bracket > instance.marker),
            "oso_since_previous": int(instance.bracket > instance.last),
            "lost_since_answer": int(gap > instance.answer),
            "lost_since_marker": int(gap > instance.marker),
            "lost_since_previous": int(gap > instance.last),
            "disk_end": instance.disk_end,
            "completed": instance.completed,
            "typed": int(instance.typed),
            "merged": int(instance.merged),
            "foreign_ordinal": instance.foreign,
            "dense": instance.dense,
            "version_ordinal": -1,
            "version_snapshot": -1,
            "version_seqno": -1,
            "version_rev": -1,
        }

    def _item(self, instance: Instance, row: Row, told: dict[str, int], opcode: int) -> None:
        seqno = number(row["by_seqno"])
        if seqno < 0 or MISREAD & set(row["defects"] or ()):
            instance.unreadable = self.ordinal
            return
        cas, rev = number(row["cas"], 0), number(row["rev_seqno"])
        if DATA[opcode] and row["key_length"] and row["key_hash"] is not None:
            place = (opcode in PREPARES, row["key_hash"])
            before = instance.versions.get(place)
            if before is not None:
                names = ("version_ordinal", "version_snapshot", "version_seqno", "version_rev")
                told.update(zip(names, before, strict=True))
            instance.versions[place] = (self.ordinal, told["snapshot_ordinal"], seqno, rev)
            backwards = instance.cas >= CLOCK and cas >= CLOCK and cas < instance.cas and opcode != DELETION
            if opcode in REVISED and (backwards or rev > seqno) and not instance.inside:
                told["foreign_ordinal"] = instance.foreign = self.ordinal
        instance.items += 1
        instance.total += 1
        instance.cas = cas
        if not self._refused(instance, seqno, told):
            instance.last, instance.seqno = self.ordinal, seqno

    def _refused(self, instance: Instance, seqno: int, told: dict[str, int]) -> bool:
        """A consumer refuses what is absurd, outside of the snapshot, or not above the last that it accepted."""
        start, end, _ = instance.span
        ranged = start >= 0 <= end and not instance.inside and not told["lost_since_marker"]
        if seqno >= 1 << 48 or (ranged and not start <= seqno <= end):
            return True
        comparable = not (instance.inside or told["oso_since_previous"] or told["lost_since_previous"])
        return comparable and seqno <= instance.seqno

    def _marker(self, instance: Instance, row: Row, told: dict[str, int]) -> None:
        start, end, kind = (number(row[name]) for name in ("snap_start_seqno", "snap_end_seqno", "snapshot_type"))
        if start > end >= 0:
            return  # refused
        before = instance.span
        if before[1] >= 0 and before[1] - before[0] + 1 >= 20 and 2 * instance.items >= before[1] - before[0] + 1:
            instance.dense += 1
        inside = start > max(instance.seqno, instance.start, before[0]) and start <= before[1] <= end
        history = kind > 0 and kind & 0x10
        if inside and not history and not told["lost_since_marker"] and not told["oso_since_marker"]:
            instance.merged = True
            told["merged"] = 1  # the marker itself shows it
        instance.typed = instance.typed or kind >= 2
        if kind > 0 and kind & 2:
            instance.disk_end = end
            if number(row["high_completed_seqno"]) > 0:
                instance.completed = number(row["high_completed_seqno"])
        instance.marker, instance.span, instance.items = self.ordinal, (start, end, kind), 0
