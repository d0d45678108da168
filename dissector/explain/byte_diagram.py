"""Byte diagrams: the fields of a layout drawn four bytes to the row, as protocol documents do. Knows no protocol."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.spec.model import Field

_ROW = 4  #: bytes per row
_MARGIN = 5  #: the offsets at the left
_WIDE, _NARROW = 15, 7
#: Box characters by which of their arms are drawn: up 8, down 4, left 2, right 1.
_JUNCTIONS = " ╶╴─╷┌┐┬╵└┘┴│├┤┼"


def offsets(fields: Sequence[Field]) -> list[tuple[int, Field]]:
    """Pair fields with their offsets from the start of the first."""
    placed, offset = [], 0
    for field in fields:
        placed.append((offset, field))
        offset += field.size
    return placed


def draw(fields: Sequence[Field], width: int) -> list[str]:
    """Draw a layout, as wide as fits; offsets stand at the left of each row."""
    return _Drawing(fields, width).lines() if fields else []


class _Drawing:
    """One diagram, while it is drawn."""

    def __init__(self, fields: Sequence[Field], width: int) -> None:
        self.fields = fields
        self.owners = [number for number, field in enumerate(fields) for _ in range(field.size)]
        self.cell = _WIDE if width > _MARGIN + _ROW * (_WIDE + 1) else _NARROW
        self.rows = math.ceil(len(self.owners) / _ROW)
        self.columns = min(_ROW, len(self.owners))

    def owner(self, row: int, column: int) -> int | None:
        """Return which field a byte belongs to."""
        place = row * _ROW + column
        return self.owners[place] if row >= 0 and 0 <= column < _ROW and place < len(self.owners) else None

    def lines(self) -> list[str]:
        """Draw everything."""
        ruler = "".join(f"{column:^{self.cell}} " for column in range(self.columns))
        drawn = [f"{'':{_MARGIN}} {ruler}".rstrip()]
        labels = self._labels()
        for row in range(self.rows + 1):
            border = self._border(row)
            if border.strip(" │"):
                drawn.append(f"{'':{_MARGIN}}{border}")
            if row < self.rows:
                drawn.extend(self._row(row, labels))
        return drawn

    def _border(self, row: int) -> str:
        text = []
        for column in range(self.columns + 1):
            up = self.owner(row - 1, column - 1) != self.owner(row - 1, column)
            down = self.owner(row, column - 1) != self.owner(row, column)
            left = column > 0 and self._edge(row, column - 1)
            right = self._edge(row, column)
            text.append(_JUNCTIONS[up << 3 | down << 2 | left << 1 | right])
            if column < self.columns:
                text.append(("─" if right else " ") * self.cell)
        return "".join(text).rstrip()

    def _edge(self, row: int, column: int) -> bool:
        return self.owner(row - 1, column) != self.owner(row, column)

    def _segments(self, row: int) -> list[tuple[int, int]]:
        """Return field and number of bytes for each run of one field in a row."""
        runs: list[tuple[int, int]] = []
        for column in range(self.columns):
            number = self.owner(row, column)
            if number is None:
                break
            if runs and runs[-1][0] == number:
                runs[-1] = (number, runs[-1][1] + 1)
            else:
                runs.append((number, 1))
        return runs

    def _labels(self) -> dict[int, int]:
        """Choose the row that names each field: the first one where it is widest."""
        chosen: dict[int, tuple[int, int]] = {}
        for row in range(self.rows):
            for number, size in self._segments(row):
                if number not in chosen or size > chosen[number][1]:
                    chosen[number] = (row, size)
        return {number: row for number, (row, _) in chosen.items()}

    def _row(self, row: int, labels: dict[int, int]) -> list[str]:
        cells = []
        for number, size in self._segments(row):
            room = size * (self.cell + 1) - 1
            text = _broken(self.fields[number].name, room) if labels[number] == row else []
            cells.append((room, text))
        height = max(1, *(len(text) for _, text in cells))
        drawn = []
        for line in range(height):
            margin = f"{row * _ROW:>{_MARGIN - 1}} " if line == 0 else " " * _MARGIN
            inner = "│".join(f"{text[line] if line < len(text) else '':^{room}}" for room, text in cells)
            drawn.append(f"{margin}│{inner}│")
        return drawn


def _broken(name: str, room: int) -> list[str]:
    """Break a name that is wider than its cell, after underscores if that is enough."""
    lines = [""]
    for part in name.replace("_", "_\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > room:
            lines.append("")
        lines[-1] += part
    return [line[start : start + room] for line in lines for start in range(0, len(line), room)]
