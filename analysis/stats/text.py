"""Statistics on one screen of a terminal: sentences, then tables whose last rows are summed up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analysis.stats.tables import facts, tables
from dissector.display.table import table_lines
from dissector.terminal.alignment import GUTTER, pad
from dissector.terminal.text_page import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analysis.stats.statistics import Statistics
    from dissector.terminal.style import Terminal

#: Rows of each table, so that all of it is about forty lines.
MOST_ROWS = 6
#: A number and its unit stay on one line.
_UNIT = re.compile(r"(\d) ([kMGTP]?B|h|min|s|ms|µs|ns|messages?)\b")


def lines(found: Statistics, terminal: Terminal, *, most_rows: int = MOST_ROWS) -> Iterator[str]:
    """Give out the lines."""
    told = list(facts(found))
    width = max(len(name) for name, _ in told)
    for name, text in told:
        indent = " " * (width + len(GUTTER))
        first, *rest = (line.replace(TIE, " ") for line in terminal.wrap(_UNIT.sub(rf"\1{TIE}\2", text), indent))
        yield terminal.heading(pad(name, width)) + first[width:]
        yield from rest
    for table in tables(found):
        yield ""
        yield from table_lines(table.shortened(most_rows), table.columns, terminal, terminal.width)
    for note in found.notes:
        yield ""
        yield from terminal.wrap(note)
