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


def cut(text: str, width: int) -> str:
    """Cut a cell down to a width; an ellipsis shows that it was longer."""
    if display_width(text) <= width:
        return text
    while display_width(text) > width - 1:
        text = text[:-1]
    return text + "…"


def table_line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """Return one line of a table; columns with ``right`` are flush right."""
    padded = [pad(text, width, right=flush) for text, width, flush in zip(cells, widths, right, strict=True)]
    return GUTTER.join(padded).rstrip()
