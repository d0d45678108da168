"""Text for terminals: styles, widths, and the escaping that keeps a capture's bytes from driving the terminal.

Knows terminals and environment variables. rich is for tables and progress bars of long runs: it takes longer to import
than ``uprscope explain`` takes to answer.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOR_CHOICES = ("auto", "always", "never")
DEFAULT_WIDTH = 80
#: Prose wider than this is hard to read, whatever the terminal has room for.
MAX_WIDTH = 100
MIN_WIDTH = 40

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_RAW_BYTE = range(0xDC80, 0xDD00)  #: where Python's surrogateescape keeps bytes that are no UTF-8
_ASCII = str.maketrans(
    {
        **dict.fromkeys("┌┬┐├┼┤└┴┘╵╷╶╴", "+"),
        **dict.fromkeys("─", "-"),
        **dict.fromkeys("│", "|"),
        **dict.fromkeys("·•", "*"),
        "→": "->",
        "…": "...",
        "≤": "<=",
        "≥": ">=",
        "≠": "!=",
        "⋮": ":",
        "▶": ">",
        "µ": "u",
    }
)


def _escaped(char: str) -> str:
    code = ord(char)
    if code in _RAW_BYTE:
        return f"\\x{code - 0xDC00:02x}"
    if char in _SHORT:
        return _SHORT[char]
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """Escape what is not printable in one line of our own text, which may quote other text."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def safe_text(data: bytes | str) -> str:
    r"""Show text that a capture or a caller controls, without letting any of it reach the terminal raw.

    Whatever Unicode calls unprintable is escaped: C0 and C1 controls with ESC among them, direction overrides,
    zero-width and unassigned characters, spaces that are not the space. ``\xNN`` is one byte (a control character or no
    UTF-8), ``\uNNNN`` one character, and a backslash is doubled, so that the bytes can be told from what is shown.
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    return one_line(text.replace("\\", "\\\\"))


def wants_color(choice: str, stream: IO[str], env: Mapping[str, str] | None = None) -> bool:
    """Decide about colour: the option first, then NO_COLOR, CLICOLOR_FORCE and TERM, then what the stream is."""
    env = os.environ if env is None else env
    if choice != "auto":
        return choice == "always"
    if env.get("NO_COLOR"):
        return False
    if env.get("CLICOLOR_FORCE", "0") not in {"", "0"}:
        return True
    return is_terminal(stream) and env.get("TERM") != "dumb"


def is_terminal(stream: IO[str]) -> bool:
    """Tell whether a stream is a terminal; a closed one is not."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def text_width(stream: IO[str], env: Mapping[str, str] | None = None) -> int:
    """Return how wide text may get: COLUMNS if set, the terminal's width, else 80; never absurd."""
    width = _columns(env)
    if width is None:
        width = _terminal_width() if is_terminal(stream) else DEFAULT_WIDTH
    return max(MIN_WIDTH, min(MAX_WIDTH, width))


def line_width(stream: IO[str], env: Mapping[str, str] | None = None) -> int | None:
    """Return how wide lines of a list may get on a terminal; None for a pipe or a file, where programs read them."""
    if not is_terminal(stream):
        return None
    return _columns(env) or _terminal_width()


def _columns(env: Mapping[str, str] | None) -> int | None:
    columns = (os.environ if env is None else env).get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() and int(columns) > 0 else None


def _terminal_width() -> int:
    return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns


def is_unicode(stream: IO[str]) -> bool:
    """Tell whether the stream can take box characters and arrows."""
    try:
        "┌→…".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Terminal:
    """How to write for one stream. Styled text never changes its width: pad first, style then."""

    width: int = DEFAULT_WIDTH
    color: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: IO[str], color: str = "auto") -> Terminal:
        """Look at a stream and the environment."""
        return cls(text_width(stream), wants_color(color, stream), is_unicode(stream))

    def _sgr(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and text else text

    def title(self, text: str) -> str:
        """Style what an answer is about."""
        return self._sgr("1;36", text)

    def heading(self, text: str) -> str:
        """Style the title of a section."""
        return self._sgr("1", text)

    def name(self, text: str) -> str:
        """Style a name of the protocol."""
        return self._sgr("36", text)

    def dim(self, text: str) -> str:
        """Style what is only there for reference."""
        return self._sgr("2", text)

    def warning(self, text: str) -> str:
        """Style what is wrong with something."""
        return self._sgr("33", text)

    def error(self, text: str) -> str:
        """Style what stopped the command."""
        return self._sgr("31", text)

    def paint(self, code: str, text: str) -> str:
        """Style a kind of message; the code is one of SGR, empty for text as it is."""
        return self._sgr(code, text) if code else text

    @property
    def ellipsis(self) -> str:
        """Return what stands for text that was cut off."""
        return self.encode("…")

    def encode(self, text: str) -> str:
        """Replace box characters and arrows where the stream cannot take them."""
        return text if self.unicode else text.translate(_ASCII)

    def wrap(self, text: str, indent: str = "", hanging: str | None = None) -> list[str]:
        """Break prose into lines. Words and identifiers stay whole."""
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent if hanging is None else hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
