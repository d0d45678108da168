"""GitHub's Markdown: tables, code, headings with anchors, a table of contents. No protocol here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOC_DEPTH = 3


def escape(text: str) -> str:
    """Make text safe inside a table cell or a paragraph, outside of code."""
    text = re.sub(r"([\\`<>\[\]|])", r"\\\1", text)
    # An underscore between letters is no emphasis on GitHub, a leading or trailing one is.
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def code(text: str) -> str:
    """Set text as code; in a table a pipe has to be escaped even there."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table; the cells are Markdown already."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells for {len(header)} columns: {row}")
        lines.append(f"| {' | '.join(cell.replace(chr(10), ' ') or ' ' for cell in row)} |")
    return "\n".join(lines)


def slug(title: str) -> str:
    """Return the anchor that GitHub makes of a heading."""
    plain = re.sub(r"[^\w\- ]", "", title.lower())
    return plain.replace(" ", "-")


@dataclass(slots=True)
class MarkdownPage:
    """A page that grows: blocks, with headings remembered for the table of contents."""

    blocks: list[str] = field(default_factory=list)
    headings: list[tuple[int, str, str]] = field(default_factory=list)

    def heading(self, level: int, title: str) -> str:
        """Add a heading and return its anchor; a repeated one gets a number, as on GitHub."""
        anchor = slug(title)
        same = sum(1 for _, _, known in self.headings if re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", known))
        anchor = f"{anchor}-{same}" if same else anchor
        self.headings.append((level, title, anchor))
        self.blocks.append(f"{'#' * level} {title}")
        return anchor

    def add(self, *blocks: str) -> None:
        """Add paragraphs, tables, lists."""
        self.blocks.extend(block for block in blocks if block)

    def contents(self) -> str:
        """Return the table of contents: nested links to every heading below the title."""
        lines = [
            f"{'  ' * (level - 2)}- [{title}](#{anchor})"
            for level, title, anchor in self.headings
            if 2 <= level <= _TOC_DEPTH
        ]
        return "\n".join(lines)
