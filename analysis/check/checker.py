"""The checker: runs the rules over the context's tables and makes findings and tallies, for command line and Spark.

A check is the same to it whatever the rule. One finding stands for all violations that go back to the same root.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.check.findings import Finding, FrameRef, Tally, finding_id, next_step, party_at_fault, signed_facts
from analysis.check.selection import EVERYTHING, Selection
from analysis.context import Context
from analysis.context.frame_refs import Ref
from analysis.rules import RULES
from analysis.rules.model import GAP, reason_of_loss
from analysis.rules.row_sets import PARTS, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from analysis.context import Table
    from analysis.rules.model import Check, Fault, Rule, Severity
    from dissector.array_types import Mask


_MOST = 8  #: where at most one row in so many is left out, the others are looked at in place
#: Findings of one rule that are kept; more are counted only.
MAX_FINDINGS = 1000


class _Blamed(NamedTuple):
    """A finding, and what tells who is at fault."""

    finding: Finding
    fault: Fault
    connection: int
    side: int  #: of the guilty frame


class Checker:
    """One run of the rules over batches of frames."""

    def __init__(
        self,
        rules: Sequence[Rule] = RULES,
        *,
        limit: int = MAX_FINDINGS,
        selection: Selection = EVERYTHING,
        live: bool = False,
    ) -> None:
        """Begin; ``live``: findings are asked for as they are proven, and those beyond the limit are told as well."""
        self.rules = tuple(rules)
        self.tallies = {rule.id: Tally(rule.id) for rule in self.rules}
        self.findings: list[Finding] = []
        self.left_out = 0  #: violations beyond the limit
        self.hidden: Counter[str] = Counter()  #: what the selection left out: violations, and findings known before
        self.has_upr = False  #: whether there was any message of UPR or DCP; known after the last frame
        self._limit = limit
        self._selection = selection
        self._live = live
        self._context = Context(prompt=live)
        self._connections, self._captures = self._context.connections, self._context.captures
        self._roots: dict[tuple[object, ...], Finding] = {}
        self._lost: dict[str, Counter[int]] = {}  #: by rule and connection: cases that something lost leaves undecided
        self._blamed: list[_Blamed] = []
        self._told = 0  #: of these, how many were given out by ``proven``
        self._late: list[_Blamed] = []  #: beyond the limit, not yet given out
        self._late_roots: OrderedDict[tuple[object, ...], Finding] = OrderedDict()  #: the last ones of these
        self._kept: dict[str, int] = dict.fromkeys(self.tallies, 0)
        self._by_table: dict[str, dict[str, list[tuple[Rule, Check]]]] = {}
        for rule in self.rules:
            for check in rule.checks:
                self._by_table.setdefault(table_of(check.over), {}).setdefault(check.over, []).append((rule, check))

    @property
    def connections(self) -> int:
        """Return how many connections there were."""
        return len(self._connections.names)

    @property
    def connection_ids(self) -> list[str]:
        """Return the ids of connections, in the order in which they came up."""
        return self._connections.names

    def follow(self, connection: str) -> None:
        """Tell from now on of the connection of this id alone."""
        self._selection = dataclasses.replace(self._selection, connection=connection)

    def fold(self, batch: pa.RecordBatch) -> None:
        """Check a batch of frames."""
        self._take(self._context.fold(batch))

    def proven(self) -> list[Finding]:
        """Return the findings since the last call; who is at fault is as far as it is known by now."""
        new = [*self._blamed[self._told :], *self._late]
        self._told = len(self._blamed)
        self._late.clear()
        self._blame(new)
        return [each.finding for each in new]

    def finish(self) -> list[Finding]:
        """Check what only the end of the frames decides, and release what is remembered of them.

        Returns the findings that ``proven`` has not given out.
        """
        self._take(self._context.finish())
        last = self.proven()
        self._blame(self._blamed)  # now all is known about who is who
        self.has_upr = self._context.has_upr
        self._tell_losses()
        del self._context, self._blamed
        if not self._live:
            self._selection.confirm(self._connections.names)
        self.findings.sort(key=lambda finding: (finding.severity.rank, finding.rule, finding.time_ns, finding.id))
        return last

    def _blame(self, some: Iterable[_Blamed]) -> None:
        for finding, fault, connection, side in some:
            finding.fault, finding.at_sender = party_at_fault(fault, self._context.roles.of(connection), side)

    def _take(self, tables: Iterable[tuple[str, Table]]) -> None:
        for name, table in tables:
            for over, checks in self._by_table.get(name, {}).items():
                mask = PARTS[over].rows(table).astype(bool, copy=False) if over in PARTS else None
                part, rows = _narrowed(table, mask)
                if part.size:
                    for rule, check in checks:
                        self._check(rule, check, part, rows)

    def _check(self, rule: Rule, check: Check, table: Table, rows: Mask | None) -> None:
        """Check the rows of a table; ``rows`` tells which, None stands for all."""
        if check.when is not None:
            wanted = check.when(table).astype(bool, copy=False)
            table, rows = _narrowed(table, wanted if rows is None else wanted & rows)
        if not table.size:
            return
        tally = self.tallies[rule.id]
        mine = self._selection.rows(table, self._connections.names)
        tally.checked += _counted(rows, mine, table.size)
        decided = rows
        for unknown in check.unknown:
            doubtful = unknown.when(table).astype(bool, copy=False)
            if decided is not None:
                doubtful = doubtful & decided
            if doubtful.any():
                if unknown.reason == GAP:
                    lost = doubtful if mine is None else doubtful & mine
                    self._note_lost(rule, table["connection"][lost])
                elif count := _counted(doubtful, mine, table.size):
                    tally.unknown[unknown.reason] += count
                decided = ~doubtful if decided is None else decided & ~doubtful
        broken = ~check.holds(table).astype(bool, copy=False)
        if decided is not None:
            broken &= decided
        if broken.any():
            found = np.flatnonzero(broken)
            tally.violated += _counted(broken, mine, table.size)
            self._report(rule, check, table.take(found))

    def _note_lost(self, rule: Rule, connections: NDArray[np.int64]) -> None:
        """Count cases that something lost leaves undecided; in the end their connections tell what that was."""
        counts = self._lost.setdefault(rule.id, Counter())
        found = np.bincount(connections)
        for connection in np.flatnonzero(found).tolist():
            counts[connection] += int(found[connection])

    def _tell_losses(self) -> None:
        """Say what was lost, now that it is known what every connection has."""
        for rule, counts in self._lost.items():
            for connection, count in counts.items():
                self.tallies[rule].unknown[reason_of_loss(self._context.doubts.of(connection))] += count

    def _report(self, rule: Rule, check: Check, table: Table) -> None:
        """Make findings of the rows of a table that the selection wants."""
        chosen = self._chosen(check.severity or rule.severity, table, self.tallies[rule.id])
        if not len(chosen):
            return
        table = table.take(chosen)
        guilty = table.refs(check.guilty)
        first, last, count = self._gathered(table, check.root)
        rows = _Rows(table, check, guilty)
        for index, end, size in zip(first.tolist(), last.tolist(), count.tolist(), strict=True):
            key = (rule.id, check.name, *rows.places[index], rows.roots[index]) if rows.roots is not None else None
            root = self._roots.get(key) if key is not None else None
            if root is None:
                full = self._kept[rule.id] >= self._limit
                if full:
                    self.left_out += size
                    self.tallies[rule.id].unlisted += size
                    if not self._live or key in self._late_roots:
                        continue
                root = self._finding(rule, check, rows, index)
                blamed = _Blamed(root, check.fault, rows.places[index][0], int(guilty[index]["side"]))
                if full:
                    self._keep_late(blamed, key)
                    continue
                if self._selection.keeps(root.id):
                    self._kept[rule.id] += 1
                    self.findings.append(root)
                    self._blamed.append(blamed)
                else:
                    self.hidden["baseline"] += 1
                if key is not None:
                    self._roots[key] = root
                echoes = size - 1
            else:
                echoes = size
            if echoes:
                root.echoes += echoes
                root.last_echo = self._frame("guilty", Ref.of(guilty[end]))

    def _keep_late(self, blamed: _Blamed, key: tuple[object, ...] | None) -> None:
        """Have a finding beyond the limit told, but keep only its root: the oldest of them are forgotten."""
        if not self._selection.keeps(blamed.finding.id):
            return
        self._late.append(blamed)
        if key is not None:
            self._late_roots[key] = blamed.finding
            if len(self._late_roots) > self._limit:
                self._late_roots.popitem(last=False)

    def _chosen(self, severity: Severity, table: Table, tally: Tally) -> NDArray[np.int64]:
        """Return the rows that the selection wants; count the others."""
        rows = np.arange(table.size)
        for name, value in self._selection.wanted(self._connections.names).items():
            kept = rows[table[name][rows] == value]
            self.hidden[name] += len(rows) - len(kept)
            rows = kept
        if severity.rank > self._selection.severity.rank:
            self.hidden["severity"] += len(rows)
            tally.mild += len(rows)
            return rows[:0]
        return rows

    @staticmethod
    def _gathered(table: Table, root: str | None) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return, for each finding there may be, its first row, its last one, and how many there are."""
        rows = np.arange(table.size)
        if root is None:
            return rows, rows, np.ones(table.size, np.int64)
        keys = np.stack([table[name].astype(np.int64) for name in ("connection", "vbucket", "stream_id", root)])
        _, first, code, count = np.unique(keys, axis=1, return_index=True, return_inverse=True, return_counts=True)
        last = np.zeros(len(first), np.int64)
        last[code.reshape(-1)] = rows  # of several writes the last one stays
        order = np.argsort(first)
        return first[order], last[order], count[order]

    def _finding(self, rule: Rule, check: Check, rows: _Rows, index: int) -> Finding:
        connection, vbucket, stream_id = rows.places[index]
        ref = Ref.of(rows.guilty[index])
        refs = ((name, Ref.of(column[index])) for name, column in rows.evidence.items())
        frames = (self._frame("guilty", ref), *(self._frame(name, each) for name, each in refs if each.ordinal))
        facts = signed_facts(rows.facts, index)
        owner = self._connections.names[connection]
        name = finding_id(rule, check, owner, ref.side, ref.start_offset)
        return Finding(
            name,
            rule.id,
            check.severity or rule.severity,
            rule.title,
            owner,
            None if vbucket < 0 else vbucket,
            stream_id if stream_id > 0 else None,
            frames,
            {check.exported_as.get(name, name): facts[name] for name in check.facts},
            check.sentence(facts),
            check.name,
            packets=_between(frames, check.between),
            next_step=next_step(rule, check, facts, frames[0], owner, name),
        )

    def _frame(self, role: str, ref: Ref) -> FrameRef:
        capture = self._captures.names[ref.capture]
        return FrameRef(role, ref.frame, capture, ref.packet_first, ref.packet_last, ref.time_ns)


class _Rows:
    """The columns that findings are made of."""

    def __init__(self, table: Table, check: Check, guilty: NDArray[np.void]) -> None:
        self.guilty = guilty
        self.facts = {name: table[name] for name in (*check.facts, *check.spoken)}
        self.evidence = {name: table.refs(name) for name in check.evidence}
        columns = [table[name].tolist() for name in ("connection", "vbucket", "stream_id")]
        self.places: list[tuple[int, int, int]] = list(zip(*columns, strict=True))
        self.roots: list[int] | None = table[check.root].tolist() if check.root is not None else None


def _between(frames: tuple[FrameRef, ...], role: str) -> tuple[int, int] | None:
    """Return the first and last packet between the guilty frame and that of a role, where one capture has both."""
    guilty = frames[0]
    other = next((frame for frame in frames if frame.role == role and frame.capture == guilty.capture), None)
    if other is None:
        return None
    first, last = sorted((guilty, other), key=lambda frame: frame.packet_last)
    return first.packet_last, max(first.packet_last, last.packet_first)


def _counted(rows: Mask | None, mine: Mask | None, size: int) -> int:
    """Count chosen rows that are also ``mine``; None stands for all ``size`` rows."""
    chosen = mine if rows is None else rows if mine is None else rows & mine
    return size if chosen is None else int(np.count_nonzero(chosen))


def _narrowed(table: Table, mask: Mask | None) -> tuple[Table, Mask | None]:
    """Return the chosen rows: as a table of their own, or with the mask where that would copy nearly everything."""
    if mask is None:
        return table, None
    count = int(np.count_nonzero(mask))
    if count == table.size:
        return table, None
    return (table, mask) if count * _MOST > table.size * (_MOST - 1) else (table.take(np.flatnonzero(mask)), None)
