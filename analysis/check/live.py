"""A check that goes on for as long as frames come: findings as they are proven, in memory that does not grow.

The checker and its context keep a little of every connection that they have seen. So connections are checked in groups,
in the order in which they come up, and a group is released when all of its connections are over. Nothing that rules
look at reaches from one connection to another, except the clock, of which each group has its own.

Knows findings and connections by name; must not know rules, nor how findings are shown.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analysis.check import transcript
from analysis.check.checker import MAX_FINDINGS, Checker
from analysis.check.findings import Tally
from analysis.check.inspection import Inspection
from analysis.check.selection import EVERYTHING, Selection
from dissector.arrow import encoded
from dissector.frames.connection_numbers import ConnectionNumbers, is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.check.findings import Finding
    from analysis.check.transcript import Transcript
    from analysis.rules import Rule
    from dissector.options import ReadReport

GROUP = 1024  #: connections that are checked together
RECENT_ROWS = 4096  #: of all connections, for the transcripts of findings


@dataclass(slots=True, eq=False)
class _Group:
    """Connections that are checked together."""

    checker: Checker
    open: set[str] = field(default_factory=set)  #: more may come of these
    size: int = 0  #: connections that it ever had


class LiveChecker:
    """Takes batches and gives findings, until it is told that nothing more comes."""

    def __init__(
        self,
        rules: Sequence[Rule],
        *,
        selection: Selection = EVERYTHING,
        limit: int = MAX_FINDINGS,
        group: int = GROUP,
    ) -> None:
        self.numbering = ConnectionNumbers()
        self._rules, self._selection, self._limit, self._most = rules, selection, limit, group
        self._total = Inspection([], [Tally(rule.id) for rule in rules], 0, 0, has_upr=False)
        self._kept: Counter[str] = Counter()  #: findings of the released groups, by rule
        self._groups: list[_Group] = []
        self._owner: dict[str, _Group] = {}  #: by connection
        self._recent: deque[pa.RecordBatch] = deque()
        self._recent_rows = 0

    def follow(self, connection: str) -> None:
        """Tell from now on of the connection of this id alone: its name has come up."""
        self._selection = dataclasses.replace(self._selection, connection=connection)
        for group in self._groups:
            group.checker.follow(connection)

    def fold(self, batch: pa.RecordBatch) -> list[Finding]:
        """Check a batch of frames; return the findings that it proves."""
        if not batch.num_rows:
            return []
        self._total.frames += batch.num_rows
        self.numbering.see(batch)
        self._remember(batch)
        names, codes = encoded(batch.column("connection"))
        owners = [self._group_of(name) for name in names.to_pylist()]
        found: list[Finding] = []
        for group in dict.fromkeys(owners):
            mine = np.array([owner is group for owner in owners])
            group.checker.fold(batch if mine.all() else batch.filter(pa.array(mine[codes])))
            found += group.checker.proven()
        return found

    def end(self, connection: str) -> list[Finding]:
        """Take note that all frames of a connection have come; return the findings that this proves."""
        group = self._owner.get(connection)
        if group is None:
            return []
        group.open.discard(connection)
        self.numbering.forget(connection)
        if group.open or group.size < self._most:
            return []
        return self._release(group)

    def finish(self, report: ReadReport) -> tuple[list[Finding], Inspection]:
        """Check what only the end decides; return its findings, and the result of everything.

        A finding has more in the result than it had when it was given out: its echoes, and perhaps who is at fault.
        """
        found = [finding for group in [*self._groups] for finding in self._release(group)]
        if self._total.connections <= self._most:  # after days nobody knows all their names
            self._selection.confirm(self.numbering.names)
        total = self._total
        total.report = report
        total.findings.sort(key=lambda each: (each.severity.rank, each.rule, each.time_ns, each.id))
        return found, total

    @property
    def frames(self) -> int:
        """Return how many frames were checked."""
        return self._total.frames

    def transcript_of(self, findings: Sequence[Finding]) -> Transcript:
        """Return the frames around findings that were given out just now, as far as they are remembered."""
        near = transcript.NEIGHBOURS
        return transcript.around([*self._recent], findings, near, near, self.numbering)

    @property
    def remembered(self) -> dict[str, int]:
        """Return the sizes of what could grow."""
        return {
            "groups": len(self._groups),
            "connections": len(self._owner),
            "numbers": len(self.numbering.numbers),
            "rows": self._recent_rows,
            "findings": len(self._total.findings) + sum(len(group.checker.findings) for group in self._groups),
        }

    def _remember(self, batch: pa.RecordBatch) -> None:
        self._recent.append(batch)
        self._recent_rows += batch.num_rows
        while len(self._recent) > 1 and self._recent_rows - self._recent[0].num_rows >= RECENT_ROWS:
            self._recent_rows -= self._recent.popleft().num_rows

    def _group_of(self, connection: str) -> _Group:
        group = self._owner.get(connection)
        if group is None:
            if not self._groups or self._groups[-1].size >= self._most:
                checker = Checker(self._rules, limit=self._limit, selection=self._local_selection(), live=True)
                self._groups.append(_Group(checker))
            group = self._owner[connection] = self._groups[-1]
            group.open.add(connection)
            group.size += 1
        return group

    def _local_selection(self) -> Selection:
        """Return the selection for a new group, in which the number of a connection counts from its first one."""
        selection = self._selection
        if selection.connection is None or not is_number(selection.connection):
            return selection
        # Numbers are given in the order of groups, and this one begins with the connection that comes now.
        before = self._total.connections + sum(group.size for group in self._groups)
        return dataclasses.replace(selection, connection=str(max(int(selection.connection) - before, 0)))

    def _release(self, group: _Group) -> list[Finding]:
        """Finish the check of a group, add its result to the total, and forget it."""
        checker, total = group.checker, self._total
        found = checker.finish()
        for tally, more in zip(total.tallies, checker.tallies.values(), strict=True):
            tally.checked += more.checked
            tally.violated += more.violated
            tally.unknown += more.unknown
            tally.mild += more.mild
            tally.unlisted += more.unlisted
        total.has_upr |= checker.has_upr
        total.hidden += checker.hidden
        total.left_out += checker.left_out
        for finding in checker.findings:
            if self._kept[finding.rule] < self._limit:
                self._kept[finding.rule] += 1
                total.findings.append(finding)
            else:
                total.left_out += 1 + finding.echoes
        total.connections += group.size
        self._groups.remove(group)
        self._owner = {name: owner for name, owner in self._owner.items() if owner is not group}
        return found
