"""The other sections of a report: verdicts, connections and streams, what the capture lacks, how the page was made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.check.text_report import CheckSummary
from analysis.report.table import Cell, PageColumn, PageTable, without_empty_columns
from analysis.rules.model import REASONS
from dissector.display.table import CONNECTION_TABLE, STREAM_TABLE
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.check.findings import Tally
    from analysis.report.collect import ReportData
    from dissector.display.table import TextColumn

    Row = dict[str, Any]
    Pairs = Sequence[tuple[str, str]]

_ALWAYS = 4  #: columns of rules that are there even if they are empty
_LONGEST = 80  #: characters of a cell
MOST_ROWS = 5000  #: of a table: browsers get slow
_VERDICTS = {
    "violated": "✗ violated",
    "unknown": "? undecided in part",
    "holds": "✓ holds",
    "unchecked": "· nothing to check",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one sentence that matters most."""

    sentence: str
    severity: str  #: of the worst finding, or good


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of connections or streams, and what has no place in it."""

    table: PageTable
    notes: Sequence[str]
    contradictions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Quality:
    """What the capture lacks, and what could not be decided because of that."""

    losses: Sequence[str]
    packets: Pairs  #: counts; empty where frames were read from Parquet
    undecided: PageTable | None  #: None: the findings were given, nothing was checked


@dataclass(frozen=True, slots=True)
class Made:
    """How the page was made."""

    provenance: Pairs
    names: Sequence[str]  #: files that were read


def verdict(data: ReportData) -> Verdict:
    """Sum up all findings."""
    findings = data.inspection.findings
    worst = min((finding.severity for finding in findings), key=lambda each: each.rank, default=None)
    if data.findings_given:
        by = Counter(finding.severity.value for finding in findings)
        listed = ", ".join(f"{number:,} {name}" for name, number in by.items())
        said = f"The archive has {len(findings):,} findings ({listed})." if findings else "The archive has no findings."
    else:
        said = CheckSummary(data.inspection, data.rules, data.selection).closing()
    return Verdict(said, worst.value if worst is not None else "good")


def rules(data: ReportData) -> PageTable:
    """Return a table of all rules with their verdicts."""
    rule_of = {rule.id: rule for rule in data.rules}
    counts = Counter(finding.rule for finding in data.inspection.findings)
    first = {finding.rule: finding.id for finding in reversed(data.shown)}
    order = [*_VERDICTS]

    def rank(tally: Tally) -> tuple[int, int, str]:
        rule = rule_of.get(tally.rule)
        return order.index(tally.verdict), rule.severity.rank if rule else 0, tally.rule

    rows = []
    for tally in sorted(data.inspection.tallies, key=rank):
        rule = rule_of.get(tally.rule)
        rows.append(
            (
                Cell(tally.rule, link=first.get(tally.rule, "")),
                Cell(_VERDICTS[tally.verdict], tag=tally.verdict),
                rule.severity.value if rule else "",
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
    return without_empty_columns(PageTable("rules-table", "Rules", columns, rows), _ALWAYS)


def connections(data: ReportData) -> Listing | None:
    """Return the table of connections, if there are any."""
    if not data.connections:
        return None
    table = _table("connections-table", "Connections", CONNECTION_TABLE, data.connections)
    contradictions = [
        f"Connection {row['number']}: {line}." for row in data.connections for line in row.get("contradictions") or ()
    ]
    return Listing(table, _more(len(data.connections), "connections", "uprscope connections"), contradictions)


def streams(data: ReportData) -> Listing | None:
    """Return the table of streams, if there are any."""
    if not data.streams:
        return None
    table = _table("streams-table", "Streams and refused requests", STREAM_TABLE, data.streams)
    return Listing(table, _more(len(data.streams), "streams", "uprscope connections --streams"))


def _table(name: str, caption: str, columns: Sequence[TextColumn], rows: Sequence[Row]) -> PageTable:
    cells = [[_cut(column.show(row)) for column in columns] for row in rows[:MOST_ROWS]]
    headings = [PageColumn(column.heading, column.right) for column in columns]
    return without_empty_columns(PageTable(name, caption, headings, cells))


def _cut(shown: str) -> str:
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _more(number: int, what: str, command: str) -> list[str]:
    if number <= MOST_ROWS:
        return []
    return [f"{number - MOST_ROWS:,} more {what} are not listed here: {command} has all."]


def quality(data: ReportData) -> Quality:
    """Return what the capture lacks, and what could not be decided."""
    report = data.inspection.report
    packets: list[tuple[str, str]] = []
    if data.source.has_packets:
        packets = [(name.replace("-", " "), f"{number:,}") for name, number in report.link.as_dict().items()]
        packets += [
            ("connections", f"{report.connections:,}"),
            ("of another protocol", f"{report.connections_ignored:,}"),
            ("bytes sent again", f"{report.bytes_repeated:,}"),
            ("of them with other content", f"{report.bytes_conflicting:,}"),
        ]
    return Quality([*report.losses(), *data.notes], packets, None if data.findings_given else _undecided(data))


def _undecided(data: ReportData) -> PageTable:
    reasons: dict[str, list[tuple[str, int]]] = {}
    for tally in data.inspection.tallies:
        for reason, number in tally.unknown.items():
            reasons.setdefault(reason, []).append((tally.rule, number))
    rows = [
        (
            reason,
            REASONS.get(reason, reason),
            f"{sum(number for _, number in cases):,}",
            ", ".join(f"{rule} ({number:,})" for rule, number in sorted(cases)),
        )
        for reason, cases in sorted(reasons.items())
    ]
    columns = (
        *(PageColumn("reason"), PageColumn("what it means", wrap=True)),
        *(PageColumn("cases", right=True), PageColumn("rules", wrap=True)),
    )
    return PageTable("undecided-table", "Undecided", columns, rows)


def made(data: ReportData, provenance: Pairs) -> Made:
    """Return how the page was made."""
    severity = data.selection.severity.value
    told = [*provenance, ("findings told", f"{severity} or worse"), ("rules", f"{len(data.rules)}")]
    return Made(told, [safe_text(name) for name in data.source.names])
