"""The verdict on the captures in a sentence, and on each rule in a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.check.text_report import CheckSummary
from analysis.report.table import Cell, PageColumn, PageTable, without_empty_columns
from analysis.rules.model import Severity
from dissector.terminal.amounts import count

if TYPE_CHECKING:
    from analysis.check.findings import Tally
    from analysis.report.collect import ReportData

_ALWAYS = 4  #: columns that are there even if they are empty
_VERDICTS = {
    "violated": "violated",
    "unknown": "? undecided in part",
    "holds": "✓ holds",
    "unchecked": "· nothing to check",
}
_MATTERS = ("violated", "unknown")  #: verdicts that are told first; the others are folded away
#: Severities differ in shape, not in colour alone.
MARKS = {Severity.ERROR: "✗", Severity.WARNING: "▲", Severity.INFO: "●"}
GOOD, EMPTY = "good", "empty"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one sentence that matters most."""

    sentence: str
    severity: str  #: of the worst finding, or good, or empty: there was nothing to judge
    mark: str


def verdict(data: ReportData) -> Verdict:
    """Sum up all findings."""
    findings = data.inspection.findings
    if data.findings_given:
        by = Counter(finding.severity.value for finding in findings)
        listed = ", ".join(f"{number:,} {name}" for name, number in by.items())
        said = f"The archive has {len(findings):,} findings ({listed})." if findings else "The archive has no findings."
    else:
        said = CheckSummary(data.inspection, data.rules, data.selection).closing()
    if findings:
        worst = min((finding.severity for finding in findings), key=lambda each: each.rank)
        return Verdict(said, worst.value, MARKS[worst])
    empty = data.inspection.verdict.empty and not data.findings_given
    return Verdict(said, EMPTY, "·") if empty else Verdict(said, GOOD, "✓")


def rules(data: ReportData) -> PageTable:
    """Return a table of all rules with their verdicts."""
    rule_of = {rule.id: rule for rule in data.rules}
    counts = Counter(finding.rule for finding in data.inspection.findings)
    first = {finding.rule: finding.id for finding in reversed(data.shown)}
    severities = {rule.id: rule.severity for rule in data.rules}
    # Some ways to break a rule are less severe than the others. Findings are listed from the worst on.
    severities |= {finding.rule: finding.severity for finding in reversed(data.inspection.findings)}
    order = [*_VERDICTS]

    def rank(tally: Tally) -> tuple[int, int, str]:
        severity = severities.get(tally.rule)
        return order.index(tally.verdict), severity.rank if severity else 0, tally.rule

    rows = []
    for tally in sorted(data.inspection.tallies, key=rank):
        rule, severity = rule_of.get(tally.rule), severities.get(tally.rule)
        rows.append(
            (
                Cell(tally.rule, link=first.get(tally.rule, "")),
                _verdict(tally, severity),
                severity.value if severity else "",
                *(f"{number:,}" if number else "" for number in (tally.checked, tally.violated, counts[tally.rule])),
                ", ".join(f"{number:,} {reason}" for reason, number in sorted(tally.unknown.items())),
                rule.title if rule else "",
            )
        )
    columns = (
        *(PageColumn("rule"), PageColumn("verdict"), PageColumn("severity"), PageColumn("checked", right=True)),
        *(PageColumn("violated", right=True), PageColumn("findings", right=True), PageColumn("undecided", wrap=True)),
        PageColumn("what must hold", wrap=True),
    )
    matters = sum(tally.verdict in _MATTERS for tally in data.inspection.tallies)
    table = PageTable("rules-table", "Rules", columns, rows, first=matters, folded=_folded(data.inspection.tallies))
    return without_empty_columns(table, _ALWAYS)


def _verdict(tally: Tally, severity: Severity | None) -> Cell:
    if tally.verdict == "violated" and severity is not None:
        return Cell(f"{MARKS[severity]} violated", tag=severity.value)
    return Cell(_VERDICTS[tally.verdict], tag=tally.verdict)


def _folded(tallies: list[Tally]) -> str:
    """Say which rules are folded away."""
    counts = Counter(tally.verdict for tally in tallies)
    parts = []
    for verdict, one, many, what in (("holds", "holds", "hold", ""), ("unchecked", "has", "have", " nothing to check")):
        number = counts[verdict]
        if number:
            parts.append(f"{count(number, 'rule')} {one if number == 1 else many}{what}")
    return ", ".join(parts)
