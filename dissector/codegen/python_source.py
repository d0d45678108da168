"""Python's source text as ``ruff format`` leaves it: names, lists with remarks, calls, docstrings. No protocol here."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH = 120


def hexadecimal(number: int) -> str:
    """Write a number in hexadecimal, of a byte at least."""
    return f"0x{number:02X}"


def snake(text: str) -> str:
    """Make a name of a text: ``snapshot marker flags`` is ``snapshot_marker_flags``."""
    return re.sub(r"\W+", "_", text.lower()).strip("_")


def camel(text: str) -> str:
    """Make a part of a class's name of a text: ``stream_request`` is ``StreamRequest``, ``V2.0`` is ``V20``."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[\W_]+", text.replace(".", "")))


def tuple_of(items: Iterable[int | str]) -> str:
    """Write a tuple of numbers or of plain texts."""
    texts = [f'"{item}"' if isinstance(item, str) else str(item) for item in items]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def remark(text: str, prefix: str) -> str:
    """Wrap a text, each line after a prefix such as that of a comment."""
    return textwrap.fill(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


def lines(entries: Iterable[tuple[str, str]], depth: int = 1) -> str:
    """Write entries of a list, one a line, with its remark after it or, where it does not fit there, above."""
    indent = "    " * depth
    found = []
    for entry, about in entries:
        line = "\n".join(indent + part for part in f"{entry},".split("\n"))
        if about and "\n" not in line and len(line) + len(about) + 4 <= WIDTH:
            line += f"  # {about}"
        elif about:
            found.append(remark(about, f"{indent}# "))
        found.append(line)
    return "\n".join(found)


def call(function: str, *arguments: str, depth: int = 2) -> str:
    """Write a call on one line or, where it is too long at this depth of indentation, an argument a line."""
    line = f"{function}({', '.join(arguments)})"
    if len(line) + 4 * depth + 1 <= WIDTH:
        return line
    parts = (f"    {argument},".replace("\n", "\n    ") for argument in arguments)
    return "\n".join([f"{function}(", *parts, ")"])


def docstring(first: str, text: str = "", indent: str = "    ") -> str:
    """Wrap a docstring; the caller puts the quotes around it."""
    room = WIDTH - len(indent) - 6
    wrapped = [
        textwrap.fill(paragraph.replace("\\", "\\\\"), room, break_long_words=False, break_on_hyphens=False)
        for paragraph in (first, text)
        if paragraph
    ]
    body = "\n\n".join(wrapped).replace("\n", f"\n{indent}").replace(f"\n{indent}\n", "\n\n")
    return f"{body}\n{indent}" if "\n" in body else body
