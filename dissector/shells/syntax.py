"""A command line as a shell sees it: commands, options, and what a word may be.

Knows neither argparse nor any shell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_COMMAND = '""'


class Kind(Enum):
    """How a word is completed."""

    NOTHING = auto()
    FILES = auto()
    WORDS = auto()
    LIST = auto()  #: words with commas between them
    THINGS = auto()  #: names that can be explained; many, so they stand in the script once


@dataclass(frozen=True, slots=True)
class Values:
    """What a word may be."""

    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command; ``values`` is None if it has no argument."""

    flags: tuple[str, ...]
    help: str
    values: Values | None
    repeats: bool
    metavar: str = ""

    @property
    def last(self) -> bool:
        """Tell whether nothing else makes sense beside it."""
        return "--help" in self.flags or "--version" in self.flags


@dataclass(frozen=True, slots=True)
class Syntax:
    """A command with everything that may follow it."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: Values = field(default=Values(Kind.NOTHING))  #: what is no option
    metavar: str = ""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Everything that can be completed."""

    program: str
    front: Syntax
    """In front of a command."""
    commands: tuple[Syntax, ...]
    things: tuple[str, ...]
    """Names that can be explained."""


def folded(words: Sequence[str], indent: str) -> Iterator[str]:
    """Write many words on lines of readable length."""
    line = indent
    for word in words:
        if len(line) + len(word) > 110 and line.strip():
            yield line.rstrip()
            line = indent
        line += word + " "
    yield line.rstrip()
