"""A page of text for a terminal: paragraphs, labelled facts, tables that wrap their last column."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from dissector.terminal.alignment import GUTTER, column_widths, display_width, pad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dissector.terminal.style import Terminal

_INDENT = "  "
_LEAST = 20  #: a last column narrower than this goes on a line of its own, if it has to be broken
_MIDDLE = 26  #: a longer cell before the last column has a line of its own, so that one name does not starve the rest
_EMPHASIS = re.compile(r"\*(\w+)\*")
#: Keeps two words on one line.
TIE = "\N{NO-BREAK SPACE}"


class Page:
    """Collects lines; :meth:`text` gives them back."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.lines: list[str] = []

    def text(self) -> str:
        """Return the page, fit for its stream."""
        return self.terminal.encode("\n".join(self.lines).replace(TIE, " ").rstrip() + "\n")

    def gap(self) -> None:
        """Leave one line empty, unless the page starts here or one is empty already."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def title(self, text: str, rest: str = "") -> None:
        """Say what an answer is about, with a line under it."""
        self.gap()
        line = f"{text}  {rest}" if rest else text
        if len(line) > self.terminal.width:
            self.lines.append(self.terminal.title(text))
            self.lines.extend(self.terminal.wrap(rest, _INDENT))
        else:
            self.lines.append(self.terminal.title(text) + (f"  {rest}" if rest else ""))
        self.lines.append(self.terminal.dim("─" * min(self.terminal.width, max(len(line), 40))))

    def section(self, text: str, aside: str = "") -> None:
        """Start a section; the aside is set off, and goes under the title where it does not fit beside it."""
        self.gap()
        if aside and len(text) + len(aside) + 2 > self.terminal.width:
            self.lines.extend(self.terminal.heading(line) for line in self.terminal.wrap(text))
            self.lines.extend(self.terminal.dim(line) for line in self.terminal.wrap(aside, _INDENT))
            return
        lines = self.terminal.wrap(text)
        self.lines.extend(self.terminal.heading(line) for line in lines)
        if aside:
            self.lines[-1] += f"  {self.terminal.dim(aside)}"

    def paragraph(self, text: str, indent: str = "") -> None:
        """Add prose. Emphasis in the spec's texts is Markdown's."""
        self.lines.extend(self.terminal.wrap(_EMPHASIS.sub(r"\1", text), indent))

    def drawing(self, lines: Sequence[str]) -> None:
        """Add lines as they are."""
        self.lines.extend(lines)

    def facts(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Add labelled facts, those without a text left out."""
        shown = [(label, text) for label, text in pairs if text]
        self.table(shown, style=self.terminal.dim)

    def bullets(self, items: Sequence[str], indent: str = _INDENT) -> None:
        """Add a list."""
        for item in items:
            self.lines.extend(self.terminal.wrap(item, f"{indent}· ", f"{indent}  "))

    def table(
        self,
        rows: Sequence[Sequence[str]],
        header: Sequence[str] = (),
        *,
        right: Sequence[int] = (),
        styled: int = 0,
        style: Callable[[str], str] | None = None,
        shorten: bool = False,
    ) -> None:
        """Add columns; the last one wraps, or is cut with ``shorten``. Column ``styled`` is shown as a name."""
        if not rows:
            return
        style = style or self.terminal.name
        last = len(rows[0]) - 1
        every = [*([header] if header else []), *rows]
        *widths, tail = column_widths(every)
        if len(_INDENT) + sum(width + len(GUTTER) for width in widths) + tail > self.terminal.width:
            short = [display_width(row[last - 1]) for row in every if display_width(row[last - 1]) <= _MIDDLE]
            widths[-1] = max(short) if short else _MIDDLE
        start = len(_INDENT) + sum(width + len(GUTTER) for width in widths)
        if self.terminal.width - start < min(_LEAST, tail):
            start = 2 * len(_INDENT)
        room = self.terminal.width - start
        for row in every:
            cells = [
                pad(cell, width, right=column in right)
                for column, (cell, width) in enumerate(zip(row[:last], widths, strict=True))
            ]
            front = _INDENT + "".join(cell + GUTTER for cell in cells)
            lines = [_cut(row[last], room)] if shorten else _wrapped(row[last], room)
            if lines and display_width(front) <= start:
                front += lines.pop(0)
            front = front.rstrip()
            if row is header:
                front = self.terminal.dim(front)
            elif styled < last and row[styled]:
                front = front.replace(row[styled], style(row[styled]), 1)
            self.lines.append(front)
            self.lines.extend(f"{'':{start}}{line}" for line in lines if line)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _cut(text: str, width: int) -> str:
    return textwrap.shorten(text, width, placeholder="…", break_long_words=False, break_on_hyphens=False)
