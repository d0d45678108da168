"""The summary of an archive as text: a table of violated rules, the files in quarantine, and the number of findings.

Knows the tables of an archive.
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
_MAX_FILES_NAMED = 5  #: files of the quarantine that are named


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """What is printed at the end of a run."""

    rules: list[dict[str, Any]]
    findings: dict[str, int]  #: by severity
    quarantine: list[dict[str, Any]]

    def violations(self, least: Severity) -> int:
        """Return the number of findings of at least this severity."""
        return sum(count for name, count in self.findings.items() if Severity(name).rank <= least.rank)


def archive_summary(spark: SparkSession, archive: Path) -> ArchiveSummary:
    """Query an archive for its summary."""
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


def summary_lines(outcome: Outcome, summary: ArchiveSummary, terminal: Terminal) -> Iterator[str]:
    """Yield the lines for stdout: contents, table of violated rules, number of findings."""
    entries = outcome.manifest.rings
    captures = sum(len(entry.captures) for entry in entries.values())
    connections = sum(entry.connections for entry in entries.values())
    contents = f"{outcome.frames:,} frames on {connections:,} connections in {captures:,} captures"
    yield f"{contents}; of {len(entries):,} rings {len(outcome.read):,} read now, {outcome.kept:,} as before."
    if summary.rules:
        yield ""
        yield from _rule_lines(summary.rules, terminal)
    yield ""
    parts = [f"{summary.findings[each.value]:,} {each.value}" for each in Severity if summary.findings.get(each.value)]
    yield terminal.heading(
        f"{sum(summary.findings.values()):,} findings: {', '.join(parts)}." if parts else "No findings."
    )


def warning_lines(outcome: Outcome, summary: ArchiveSummary) -> Iterator[str]:
    """Yield the lines for stderr: what was lost, and what else a user has to know."""
    if outcome.recovered:
        yield "an earlier run had been interrupted; what it had done was completed"
    if outcome.gone:
        yield f"{outcome.gone:,} captures are gone, and with them their rows"
    for each in summary.quarantine[:_MAX_FILES_NAMED]:
        yield f"{each['outcome']}: {each['capture']}: {each['reason'].removeprefix(each['capture'] + ': ')}"
    more = len(summary.quarantine) - _MAX_FILES_NAMED
    if more > 0:
        yield f"{more:,} more files in the table quarantine"


def _rule_lines(rules: list[dict[str, Any]], terminal: Terminal) -> Iterator[str]:
    rows = [[each[name] if isinstance(each[name], str) else f"{each[name]:,}" for name in _HEADINGS] for each in rules]
    widths = [max(len(row[at]) for row in (list(_HEADINGS), *rows)) for at in range(len(_HEADINGS))]
    yield terminal.heading("  ".join(_cell(at, text, widths[at]) for at, text in enumerate(_HEADINGS)))
    for row in rows:
        yield "  ".join(_cell(at, text, widths[at]) for at, text in enumerate(row)).rstrip()


def _cell(at: int, text: str, width: int) -> str:
    return pad(text, width, right=at >= 2)
