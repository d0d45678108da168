"""The checker: tables of the context through the rules, into findings and tallies. The same for command line and Spark.

It knows no rule; it knows what a check is, and that one finding stands for all that go back to the same root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import Context
from analysis.context.refs import Ref
from analysis.findings import Finding, FrameRef, Tally, finding_id, signed_facts
from analysis.rules import RULES
from analysis.rules.parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from analysis.context import Table
    from analysis.rules.model import Check, Rule

#: Findings of one rule that are kept; more are counted only.
MAX_FINDINGS = 1000


class Checker:
    """One run of the rules over batches of frames."""

    def __init__(self, rules: Sequence[Rule] = RULES, *, limit: int = MAX_FINDINGS) -> None:
        self.rules = tuple(rules)
        self.tallies = {rule.id: Tally(rule.id) for rule in self.rules}
        self.findings: list[Finding] = []
        self.left_out = 0  #: findings beyond the limit
        self._limit = limit
        self._context = Context()
        self._roots: dict[tuple[object, ...], Finding] = {}
        self._kept: dict[str, int] = dict.fromkeys(self.tallies, 0)
        self._by_table: dict[str, dict[str, list[tuple[Rule, Check]]]] = {}
        for rule in self.rules:
            for check in rule.checks:
                table = PARTS[check.over][0] if check.over in PARTS else check.over
                self._by_table.setdefault(table, {}).setdefault(check.over, []).append((rule, check))

    @property
    def connections(self) -> int:
        """Return how many connections there were."""
        return len(self._context.connections.names)

    def fold(self, batch: pa.RecordBatch) -> None:
        """Check a batch of frames."""
        self._take(self._context.fold(batch))

    def finish(self) -> None:
        """The frames are over."""
        self._take(self._context.finish())
        self.findings.sort(key=lambda finding: (finding.severity.rank, finding.rule, finding.time_ns, finding.id))

    def _take(self, tables: Iterable[tuple[str, Table]]) -> None:
        for name, table in tables:
            for over, checks in self._by_table.get(name, {}).items():
                part = table.where(PARTS[over][1](table)) if over in PARTS else table
                if part.size:
                    for rule, check in checks:
                        self._check(rule, check, part)

    def _check(self, rule: Rule, check: Check, table: Table) -> None:
        if check.when is not None:
            table = table.where(check.when(table).astype(bool))
        if not table.size:
            return
        tally = self.tallies[rule.id]
        tally.checked += table.size
        decided = np.ones(table.size, bool)
        for unknown in check.unknown:
            doubtful = unknown.when(table).astype(bool) & decided
            count = int(np.count_nonzero(doubtful))
            if count:
                tally.unknown[unknown.reason] += count
                decided &= ~doubtful
        broken = np.flatnonzero(decided & ~check.holds(table).astype(bool))
        if len(broken):
            tally.violated += len(broken)
            self._report(rule, check, table.take(broken))

    def _report(self, rule: Rule, check: Check, table: Table) -> None:
        """Make findings of the rows of a table."""
        columns = {name: table[name] for name in check.facts}
        guilty = table.refs("guilty")
        evidence = {name: table.refs(name) for name in check.evidence}
        places = [table[name].tolist() for name in ("connection", "vbucket", "stream_id")]
        roots = table[check.root].tolist() if check.root is not None else None
        for index, (connection, vbucket, stream_id) in enumerate(zip(*places, strict=True)):
            frame = self._frame("guilty", Ref.of(guilty[index]))
            if roots is not None:
                key = (rule.id, check.name, connection, vbucket, stream_id, roots[index])
                root = self._roots.get(key)
                if root is not None:
                    root.echoes += 1
                    root.last_echo = frame
                    continue
            if self._kept[rule.id] >= self._limit:
                self.left_out += 1
                continue
            self._kept[rule.id] += 1
            refs = ((name, Ref.of(column[index])) for name, column in evidence.items())
            frames = (frame, *(self._frame(name, ref) for name, ref in refs if ref.ordinal))
            facts = signed_facts(columns, index)
            name = self._context.connections.names[connection]
            ref = Ref.of(guilty[index])
            finding = Finding(
                finding_id(rule, check, name, ref.side, ref.start_offset),
                rule.id,
                check.severity or rule.severity,
                rule.title,
                name,
                None if vbucket < 0 else vbucket,
                stream_id or None,
                frames,
                facts,
                check.because.format_map(facts),
                check.name,
            )
            self.findings.append(finding)
            if roots is not None:
                self._roots[key] = finding

    def _frame(self, role: str, ref: Ref) -> FrameRef:
        capture = self._context.captures.names[ref.capture]
        return FrameRef(role, ref.frame, capture, ref.packet_first, ref.packet_last, ref.time_ns)
