"""The beginning of a report: whose capture it is, what is in it, and the numbers of ``uprscope stats``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.report.table import PageColumn, PageTable, without_empty_columns
from analysis.stats.tables import facts, tables
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.collect import ReportData
    from analysis.stats.tables import StatisticsTable

_MOST_NAMES = 3
_WIDE = 7  #: columns of a table that has no other one beside it; page.css has the same number
_MOST_ROWS = 8  #: of a table; the last one stands for all others


@dataclass(frozen=True, slots=True)
class Overview:
    """What is in the captures, in sentences and in tables."""

    facts: Sequence[tuple[str, str]]
    tables: Sequence[PageTable]


def overview(data: ReportData) -> Overview:
    """Return what there is to say about the captures as a whole."""
    found = sorted(map(_table, tables(data.statistics)), key=lambda table: len(table.columns) >= _WIDE)
    return Overview([*facts(data.statistics)], found)


def title(names: Sequence[str]) -> str:
    """Return the name of a capture; of several that of the first one, and how many there are."""
    if not names:
        return "no captures"
    first = safe_text(Path(names[0]).name)
    return first if len(names) == 1 else f"{first} and {len(names) - 1:,} more"


def short_names(names: Sequence[str]) -> str:
    """Return the names of the first files, and how many more were read."""
    short = [safe_text(Path(name).name) for name in names]
    more = len(short) - _MOST_NAMES
    return ", ".join(short[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def _table(table: StatisticsTable) -> PageTable:
    columns = [PageColumn(column.heading, column.right, cut=not column.right) for column in table.columns]
    rows = [[column.show(row) for column in table.columns] for row in table.shortened(_MOST_ROWS)]
    name = f"overview-{table.title.lower().replace(' ', '-')}"
    return without_empty_columns(PageTable(name, table.title, columns, rows, fixed=True))
