"""What an archive holds, for people: a table of its rules, what is in quarantine, and the last word.

Knows the tables of an archive; must not know how they came about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.archive import spark_tables
from analysis.archive.schema import FINDINGS, QUARANTINE, SUMMARY
from analysis.rules.model import Severity
from dissector.terminal.alignment import pad

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from analysis.archive.job import Outcome
    from dissector.terminal.style import Terminal

_RULES = """
select rule, first(severity) as severity, first(title) as title, sum(checked) as checked, sum(violated) as violated,
  sum(findings) as findings, sum(undecided) as unknown, count_if(violated > 0) as rings
from {summary} group by rule having sum(violated) > 0 order by severity, rule
"""
_HEADINGS = ("rule", "severity", "checked", "violated", "findings", "rings", "unknown")
_QUARANTINED = 5  #: files that are named


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """What there is to tell at the end of a run."""

    rules: list[dict[str, Any]]
    findings: dict[str, int]  #: by severity
    quarantine: list[dict[str, Any]]

    def violations(self, least: Severity) -> int:
        """Return how many findings are at least so bad."""
        return sum(count for name, count in self.findings.items() if Severity(name).rank <= least.rank)


def archive_summary(spark: SparkSession, archive: Path) -> ArchiveSummary:
    """Ask an archive how it stands."""
    summary = spark_tables.read(spark, archive, SUMMARY)
    rules = [row.asDict() for row in spark.sql(_RULES, summary=summary).collect()]
    counted = spark_tables.read(spark, archive, FINDINGS).groupBy("severity").count().collect()
    files = (
        spark_tables.read(spark, archive, QUARANTINE)
        .dropDuplicates(["capture", "outcome"])
        .orderBy("capture")
        .collect()
    )
    return ArchiveSummary(rules, {row["severity"]: row["count"] for row in counted}, [row.asDict() for row in files])


def lines(outcome: Outcome, told: ArchiveSummary, terminal: Terminal) -> Iterator[str]:
    """Give out the table and the last word."""
    entries = outcome.manifest.rings
    captures = sum(len(entry.captures) for entry in entries.values())
    connections = sum(entry.connections for entry in entries.values())
    there = f"{outcome.frames:,} frames on {connections:,} connections in {captures:,} captures"
    yield f"{there}; of {len(entries):,} rings {len(outcome.read):,} read now, {outcome.kept:,} as before."
    if told.rules:
        yield ""
        yield from _table(told.rules, terminal)
    yield ""
    parts = [f"{told.findings[each.value]:,} {each.value}" for each in Severity if told.findings.get(each.value)]
    yield terminal.heading(
        f"{sum(told.findings.values()):,} findings: {', '.join(parts)}." if parts else "No findings."
    )


def notes(outcome: Outcome, told: ArchiveSummary) -> Iterator[str]:
    """Give out what was lost, and what else has to be said."""
    if outcome.recovered:
        yield "an earlier run had been interrupted; what it had done was completed"
    if outcome.gone:
        yield f"{outcome.gone:,} captures are gone, and with them their rows"
    for each in told.quarantine[:_QUARANTINED]:
        yield f"{each['outcome']}: {each['capture']}: {each['reason'].removeprefix(each['capture'] + ': ')}"
    more = len(told.quarantine) - _QUARANTINED
    if more > 0:
        yield f"{more:,} more files in the table quarantine"


def _table(rules: list[dict[str, Any]], terminal: Terminal) -> Iterator[str]:
    rows = [[each[name] if isinstance(each[name], str) else f"{each[name]:,}" for name in _HEADINGS] for each in rules]
    widths = [max(len(row[at]) for row in (list(_HEADINGS), *rows)) for at in range(len(_HEADINGS))]
    yield terminal.heading("  ".join(_cell(at, text, widths[at]) for at, text in enumerate(_HEADINGS)))
    for row in rows:
        yield "  ".join(_cell(at, text, widths[at]) for at, text in enumerate(row)).rstrip()


def _cell(at: int, text: str, width: int) -> str:
    return pad(text, width, right=at >= 2)
