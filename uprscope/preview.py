"""The first rows of a table, as text and as HTML, for people at a prompt or in a notebook.

Nothing of a capture reaches a terminal or a page raw.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from dissector.display.table import TextColumn, table_lines
from dissector.frames.writers import plain_rows
from dissector.terminal.style import Terminal, safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    Row = dict[str, Any]

ROWS = 5
_WIDTH = 100
_STYLE = "text-align: left; white-space: pre; font-family: monospace"


def as_text(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """Write the first rows as an aligned table; columns on the right are left out where there is no room for them."""
    rows = _rows(table, columns)
    shown = []
    for at, name in enumerate(columns):
        number = any(isinstance(row.get(name), int) for row in rows)
        is_binary = str(table.schema.field(name).type) == "binary"
        shown.append(TextColumn(name, _cell(name), right=number, narrowest=8 if is_binary else None, drop=at))
    return [*table_lines(rows, shown, Terminal(color=False), _WIDTH), *_rest(table)] if rows else []


def as_html(title: str, table: pa.Table, columns: Sequence[str]) -> str:
    """Write the first rows as an HTML table under a title."""
    rows = _rows(table, columns)
    parts = [f"<div><p>{html.escape(title)}</p>"]
    if rows:
        heads = "".join(f'<th style="{_STYLE}">{html.escape(name)}</th>' for name in columns)
        parts.append(f"<table><thead><tr>{heads}</tr></thead><tbody>")
        for row in rows:
            cells = (html.escape(_cell(name)(row)) for name in columns)
            parts.append("<tr>" + "".join(f'<td style="{_STYLE}">{cell}</td>' for cell in cells) + "</tr>")
        parts.append("</tbody></table>")
    return "\n".join([*parts, *(f"<p>{html.escape(line)}</p>" for line in _rest(table)), "</div>"])


def _rows(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    batches = table.select(list(columns)).slice(0, ROWS).to_batches()
    return [row for batch in batches for row in plain_rows(batch)]


def _rest(table: pa.Table) -> list[str]:
    return ["..."] if table.num_rows > ROWS else []


def _cell(name: str) -> Callable[[Row], str]:
    return lambda row: safe_text(str(row.get(name, "")))
