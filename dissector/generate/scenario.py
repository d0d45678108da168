"""What a scenario and a fault are, and what they are given to work with.

Both are declarations around a plain function. A scenario writes conversations that break no rule; a fault changes them
so that one rule is broken, and says by which messages. Adding either is one declaration in one file.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.generate.conversation import Conversation, Emission, size_buffer_acks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Size:
    """How large a scenario shall be; each scenario does with it what makes sense, and None is its own default."""

    frames: int | None = None
    connections: int | None = None
    vbuckets: int | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """Traffic that behaves."""

    name: str
    title: str  #: one line for people
    write: Callable[[random.Random, Size], list[Conversation]]
    dialect: str  #: draft, upr or dcp
    era: str  #: the servers that talk like this: "3.0 to 4.1"
    #: The rules that a naive check would find broken here, and the reason why they are not.
    excuses: tuple[tuple[str, str], ...] = ()

    def conversations(self, seed: int, size: Size | None = None) -> list[Conversation]:
        """Write it; the same seed gives the same messages."""
        return self.write(random.Random(f"{self.name}/{seed}"), size or Size())  # noqa: S311 - no secret depends on it


@dataclass(frozen=True, slots=True)
class FaultPlace:
    """Where a fault shall be: at the first chance from this message on, counted over all connections from 1."""

    frame: int = 1


class NoPlaceError(UsageError):
    """A scenario has nothing that a fault could break."""


@dataclass(frozen=True, slots=True)
class Broken:
    """What a fault did: the messages that prove it, the guilty one first."""

    rule: str
    variant: str
    conversation: Conversation
    emissions: tuple[Emission, ...]
    because: str  #: with the numbers in it


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break one rule."""

    rule: str
    title: str  #: what it does, for people
    scenario: str  #: where it is at home: the scenario that has everything it needs
    apply: Callable[[Script], Broken]
    variant: str = ""  #: tells several faults of one rule apart
    #: Other rules that cannot but be broken by the same messages.
    implies: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Script:
    """The conversations that a fault works on, and where it may begin."""

    conversations: list[Conversation]
    chance: random.Random
    place: FaultPlace = field(default_factory=FaultPlace)

    def find(self, wanted: Callable[[Emission], bool]) -> tuple[Conversation, Emission]:
        """Return the first message from the place on that is wanted."""
        for number, (conversation, emission) in enumerate(self.all(), 1):
            if number >= self.place.frame and wanted(emission):
                return conversation, emission
        where = f" from message {self.place.frame} on" if self.place.frame > 1 else ""
        raise NoPlaceError(f"nothing to break{where}")

    def all(self) -> Iterator[tuple[Conversation, Emission]]:
        """Go through all messages, one connection after the other."""
        for conversation in self.conversations:
            for emission in conversation:
                yield conversation, emission


def size_all_buffer_acks(conversations: Sequence[Conversation]) -> None:
    """Size the buffer acks of all conversations; call it after the last fault."""
    for conversation in conversations:
        size_buffer_acks(conversation)
