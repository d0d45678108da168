"""Cells of tables on a terminal: how wide text is there, padded and cut to a width.

Wide characters (East Asian) take two places, combining ones none. Knows text, and no table in particular.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Between two columns of a table.
GUTTER = "  "


def display_width(text: str) -> int:
    """Return how many places text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of the widest cell of each column."""
    return [max(map(display_width, column)) for column in zip(*rows, strict=True)]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill a cell up to a width: with spaces after the text, or before it."""
    space = " " * (width - display_width(text))
    return space + text if right else text + space


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut a cell down to a width; an ellipsis shows that it was longer."""
    if display_width(text) <= width:
        return text
    return text[: _fitting(text, max(width - len(ellipsis), 0))] + ellipsis[:width]


def filled(parts: Sequence[str], first: int, rest: int) -> list[str]:
    """Put parts into lines, of which the first one has less room; a part that is too long for a line is broken."""
    lines, line, room = [], "", first
    for part in parts:
        width = display_width(part)
        if line and display_width(line) + len(GUTTER) + width <= room:
            line += GUTTER + part
            continue
        if line or (width > room and room < rest):
            lines.append(line)
            room = rest
        line = part
        while display_width(line) > room:
            at = max(_fitting(line, room), 1)
            lines.append(line[:at])
            line = line[at:]
    return [*lines, line] if line or not lines else lines


def _fitting(text: str, width: int) -> int:
    """Return how many characters of a text, which is longer, have room in a width."""
    if text.isascii():
        return width
    used = 0
    for at, char in enumerate(text):
        used += display_width(char)
        if used > width:
            return at
    return len(text)


def table_line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Return one line of a table; columns with ``right`` are flush right."""
    padded = [pad(text, width, right=flush) for text, width, flush in zip(cells, widths, right, strict=True)]
    return GUTTER.join(padded).rstrip()
