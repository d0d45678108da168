"""Frames as lines for people: what happened, one line per message, safe to print whatever the capture holds.

What is wrong with a frame stands first, then what matters most: where a line is chopped, the rest is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dissector.display import message_details
from dissector.display.kind_colors import request_color
from dissector.display.list_layout import ListForm, Overflow, fitting
from dissector.display.message_details import details, trouble
from dissector.terminal.alignment import GUTTER, cut, display_width, filled

if TYPE_CHECKING:
    import pyarrow as pa

    from dissector.frames.connection_numbers import ConnectionNumbers
    from dissector.terminal.style import Terminal

_LEAST_WRAPPED = 40  #: columns; with less, what goes on in the next line begins further left
_HANGING = 8
_TIGHT = 40  #: columns; with less, the name of a lesser defect would leave no room for seqno and key
_COLUMNS = message_details.USED | {"frame", "connection", "direction"}


def columns_to_show(batch: pa.RecordBatch) -> list[str]:
    """Return the columns that lines are made from: those that have a value in any row, and those that must be there."""
    return [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name in _COLUMNS and (name in message_details.NEEDED or column.null_count < batch.num_rows)
    ]


class Listing:
    """Lines of one run."""

    def __init__(self, terminal: Terminal, numbering: ConnectionNumbers, form: ListForm | None = None) -> None:
        self._terminal = terminal
        self._numbering = numbering
        self._form = form or ListForm()
        self._layout = fitting(self._form)
        room = self._form.room
        chopped = room is not None and self._form.overflow is not Overflow.WRAP
        self._brief = self._layout.brief and chopped
        self._tight = chopped and self._layout.start + _TIGHT > (room or 0)
        self._arrows = ("→", "←") if terminal.unicode else (">", "<")

    def heading(self) -> str:
        """Return the line above the others."""
        text, room = self._layout.heading(self._form.time), self._form.room
        return self._terminal.heading(text if room is None else cut(text, room, self._terminal.ellipsis))

    def lines(self, row: dict[str, Any], time: str) -> list[str]:
        """Return a frame's line, or its lines if it may go on; ``time`` stands in the time column."""
        front, name, back = self._front(row, time), self._name(row), self._back(row)
        start = len(front) + display_width(name) + len(back)
        room, overflow = self._form.room, self._form.overflow
        left = None if room is None or overflow is not Overflow.CHOP else room - start
        parts, marked = self._parts(row, left)
        if left is not None and left < 1:
            return [cut(f"{front}{name}".rstrip(), room or 0, self._terminal.ellipsis)]
        if room is not None and overflow is Overflow.WRAP:
            first, *rest = _wrapped(parts, room, start) or [""]
            hanging = " " * (start if room - start >= _LEAST_WRAPPED else _HANGING)
            lines = [first, *(hanging + line for line in rest)]
        else:
            text = GUTTER.join(parts)
            lines = [text if left is None else cut(text, left, self._terminal.ellipsis)]
        lines[0] = self._mark(lines[0], GUTTER.join(parts[:marked]))
        lines[0] = f"{front}{self._paint(row, name)}{back}{lines[0]}".rstrip()
        return lines

    def _front(self, row: dict[str, Any], time: str) -> str:
        layout = self._layout
        text = f"{row['frame']:>{layout.frame}} "
        if layout.time:
            text += f"{time:>{layout.time}} "
        if layout.connection:
            text += f"{self._numbering.numbers[row['connection']]:>{layout.connection}} "
        return f"{text}{self._arrows[row['direction']]} "

    def _name(self, row: dict[str, Any]) -> str:
        """Return the message's name; the place of a vbucket that is not there may be used."""
        layout = self._layout
        width = layout.message
        if layout.vbucket and row["vbucket"] is None:
            width += 1 + layout.vbucket
        name = f"{row['name']} reply" if row["response"] else row["name"]
        return f"{name:<{width}}"

    def _back(self, row: dict[str, Any]) -> str:
        """Return what stands between the message's name and what it says."""
        layout = self._layout
        has_vbucket = layout.vbucket and row["vbucket"] is not None
        vbucket = f" {row['vbucket']:>{layout.vbucket}}" if has_vbucket else ""
        return f"{vbucket} {row['opaque']:08x}  " if layout.opaque else f"{vbucket}  "

    def _parts(self, row: dict[str, Any], left: int | None) -> tuple[list[str], int]:
        """Return what there is to say in order, and how many parts of it are about trouble."""
        wrong = trouble(row, tight=self._tight)
        if left is not None and wrong:
            left -= len(wrong) + len(GUTTER)
        parts = details(row, brief=self._brief, room=left)
        marked = 1 if row["status"] else 0
        if wrong:
            parts.insert(0, wrong)
            marked += 1
        if not self._terminal.unicode:
            parts = [self._terminal.encode(part) for part in parts]
        return parts, marked

    def _mark(self, text: str, wrong: str) -> str:
        """Mark what stands in front of a text, or all that is left of it."""
        if not wrong or not self._terminal.color:
            return text
        at = len(wrong) if text.startswith(wrong) else len(text)
        return self._terminal.warning(text[:at]) + text[at:]

    def _paint(self, row: dict[str, Any], text: str) -> str:
        if row["response"]:
            return self._terminal.dim(text) if not row["status"] else self._terminal.warning(text)
        return self._terminal.paint(request_color(row["name"]), text)


def _wrapped(parts: list[str], room: int, start: int) -> list[str]:
    """Put parts into lines; a part that is too long for one is broken."""
    first = max(room - start, 1)
    rest = first if first >= _LEAST_WRAPPED else max(room - _HANGING, 1)
    return filled(parts, first, rest)
