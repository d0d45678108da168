"""What is wrong with a filter, and where: the text with a mark under the character. It knows text, not the language."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from dissector.errors import UprscopeError
from dissector.terminal.alignment import display_width
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_INDENT = "  "
#: Characters shown on each side of the mark: the message of a long filter stays readable.
_BEFORE, _AFTER = 50, 25
_WORD_SHOWN = 40
_CUT = "..."


class FilterError(UprscopeError):
    """A filter that cannot be understood. Its message has three lines: the reason, the text, the mark."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        self.reason = reason  #: one line, without the text
        self.text = text  #: the whole filter
        self.position = position  #: of the offending character in it, from 0; its length: the end
        super().__init__(f"{reason}\n{self.pointer()}")

    def pointer(self) -> str:
        """Return the lines with the text, or what is around the place, and the mark: fit for any terminal."""
        start = max(0, self.position - _BEFORE)
        end = self.position + _AFTER
        before = (_CUT if start else "") + _flat(self.text[start : self.position])
        after = _flat(self.text[self.position : end]) + (_CUT if end < len(self.text) else "")
        return f"{_INDENT}{before}{after}".rstrip() + f"\n{_INDENT}{' ' * display_width(before)}^"


def shown(word: str) -> str:
    """Quote a part of the filter for a message; a long one is cut."""
    return f'"{safe_text(word if len(word) <= _WORD_SHOWN else word[:_WORD_SHOWN] + _CUT)}"'


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that comes closest, if one comes close."""
    close = difflib.get_close_matches(word.lower(), list(known), 1)
    return close[0] if close else None


def _flat(text: str) -> str:
    """Put text on one line, a character for a character."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
