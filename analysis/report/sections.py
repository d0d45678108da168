"""The other sections of a report: connections and streams, what the capture lacks, how the page was made."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.report.table import PageColumn, PageTable, without_empty_columns
from analysis.rules.model import REASONS
from dissector.display.table import CONNECTION_TABLE, STREAM_TABLE
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.collect import ReportData
    from dissector.display.table import TextColumn

    Row = dict[str, Any]
    Pairs = Sequence[tuple[str, str]]

_LONGEST = 80  #: characters of a cell
MOST_ROWS = 5000  #: of a table: browsers get slow
_FIRST = 30  #: rows of a listing that are there at first; the others can be unfolded
#: Columns that a page has room for at its right end only: amounts come before them.
_START = "start"
_DATE = 10  #: characters
_LAST = ("producer", _START, "seconds", "bucket", "agent", "opaque", "request", "flags", "uuid", "id")
#: Columns of text whose beginning is enough.
_CUT = ("client", "server", "name", "bucket", "agent", "id")


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


def connections(data: ReportData) -> Listing | None:
    """Return the table of connections, if there are any."""
    if not data.connections:
        return None
    columns = CONNECTION_TABLE
    if len({row["start"][:_DATE] for row in data.connections}) == 1:  # which is at the top of the page
        columns = tuple(_without_date(column) for column in columns)
    table = _table("connections-table", "Connections", columns, data.connections)
    contradictions = [
        f"Connection {row['number']}: {line}." for row in data.connections for line in row.get("contradictions") or ()
    ]
    return Listing(table, _more(len(data.connections), "connections", "uprscope connections"), contradictions)


def _without_date(column: TextColumn) -> TextColumn:
    shown = column.show
    return dataclasses.replace(column, show=lambda row: shown(row)[_DATE + 1 :]) if column.heading == _START else column


def streams(data: ReportData) -> Listing | None:
    """Return the table of streams, if there are any."""
    if not data.streams:
        return None
    table = _table("streams-table", "Streams and refused requests", STREAM_TABLE, data.streams)
    return Listing(table, _more(len(data.streams), "streams", "uprscope connections --streams"))


def _table(name: str, caption: str, columns: Sequence[TextColumn], rows: Sequence[Row]) -> PageTable:
    columns = sorted(columns, key=lambda column: column.heading in _LAST and _LAST.index(column.heading) + 1)
    cells = [[_cut(column.show(row)) for column in columns] for row in rows[:MOST_ROWS]]
    headings = [PageColumn(column.heading, column.right, cut=column.heading in _CUT) for column in columns]
    folded = f"{len(cells) - _FIRST:,} more rows"
    table = PageTable(name, caption, headings, cells, first=min(_FIRST, len(cells)), folded=folded)
    return without_empty_columns(table)


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
    return Quality(
        [*report.losses(), *data.statistics.notes], packets, None if data.findings_given else _undecided(data)
    )


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
