"""Lua's source text: literals of tables, texts and numbers, one line per row. No protocol here.

Only what every Lua from 5.1 on reads alike is written: decimal and hexadecimal integers below 2^53, double-quoted texts
with decimal escapes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Literal = Any  #: None, a truth value, a number, a text, or a list or mapping of such

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_KEYWORDS = frozenset(
    [
        "and",
        "break",
        "do",
        "else",
        "elseif",
        "end",
        "false",
        "for",
        "function",
        "goto",
        "if",
        "in",
        "local",
        "nil",
        "not",
        "or",
        "repeat",
        "return",
        "then",
        "true",
        "until",
        "while",
    ]
)
_EXACT = 1 << 53


def literal(value: Literal) -> str:
    """Write a value: None is nil, a sequence a list, a mapping a table without the keys whose value is None."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -_EXACT < value < _EXACT:
            raise ValueError(f"{value} is not exact in every Lua")
        return str(value)
    if isinstance(value, str):
        return text(value)
    if hasattr(value, "items"):
        inside = ", ".join(f"{_key(key)} = {literal(entry)}" for key, entry in value.items() if entry is not None)
    else:
        inside = ", ".join(literal(entry) for entry in value)
    return f"{{ {inside} }}" if inside else "{}"


def text(words: str) -> str:
    """Write a text."""
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(_escaped(each) for each in escaped) + '"'


def _escaped(letter: str) -> str:
    if " " <= letter <= "~":
        return letter
    return "".join(f"\\{byte:03d}" for byte in letter.encode("utf-8"))


def _key(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return key if _NAME.match(key) and key not in _KEYWORDS else f"[{text(key)}]"


def rows(name: str, entries: Iterable[Literal], remark: str) -> str:
    """Write a list with one entry per line."""
    return table(name, (literal(entry) for entry in entries), remark)


def keyed(name: str, entries: Mapping[str, Literal] | Mapping[int, Literal], remark: str) -> str:
    """Write a table with one key per line."""
    return table(name, (f"{_key(key)} = {literal(entry)}" for key, entry in entries.items()), remark)


def table(name: str, lines: Iterable[str], remark: str) -> str:
    """Write a table of lines that are Lua already."""
    inside = "".join(f"  {line},\n" for line in lines)
    return f"-- {remark}\n{assigned(name)} = {{\n{inside}}}\n"


def assigned(name: str) -> str:
    """Write what a value is assigned to: a local variable, of which Lua has at most 200, or a member of a table."""
    return name if "." in name else f"local {name}"
