"""What a historical bug is: a defect of a server or client that was once in the field, and the traffic that it made.

A bug is a declaration: its number, what it was, which rules see it, and a function that tells its story as
conversations. A bug that no capture can show says why. Must not know the analysis: rules are names here.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.generate.scenario import Broken, size_all_buffer_acks

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission

_NAME = re.compile(r"MB-[0-9]{4,6}\Z")


@dataclass(slots=True, eq=False)
class Story:
    """The conversations of a bug, and by which messages which rule sees it."""

    conversations: list[Conversation]
    broken: list[Broken] = field(default_factory=list)

    def shows(self, rule: str, because: str, guilty: Emission, *more: Emission) -> Story:
        """Note that a rule sees it, by these messages, the guilty one first."""
        owner = next(each for each in self.conversations if any(sent is guilty for sent in each))
        self.broken.append(Broken(rule, "", owner, (guilty, *more), because))
        return self


@dataclass(frozen=True, slots=True)
class Bug:
    """A historical defect. The name is its number in the tracker of the servers."""

    name: str
    title: str  #: what it was, in a line
    doc: str  #: what it was, and what it looked like on the wire
    rules: tuple[str, ...] = ()  #: the rules that see it in a single capture, the most telling one first
    across: tuple[str, ...] = ()  #: the rules that see it only by comparing connections or captures
    #: Rules that are named together with it and say nothing of it, each with the reason.
    silent: tuple[tuple[str, str], ...] = ()
    tell: Callable[[random.Random], Story] | None = None
    why_no_capture: str = ""
    era: str = ""  #: the servers that talk like its capture
    dialect: str = "dcp"

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"{self.name} is no number of a bug")
        if (self.tell is None) is not bool(self.why_no_capture):
            raise ValueError(f"{self.name} needs either a story or the reason why it has none")
        if self.tell is not None and not (self.rules and self.era):
            raise ValueError(f"{self.name} has a capture, and so needs rules that see it, and an era")

    @property
    def number(self) -> int:
        """Return the number alone."""
        return int(self.name.partition("-")[2])

    @property
    def implies(self) -> tuple[str, ...]:
        """Return the rules that its capture breaks besides the first."""
        return self.rules[1:]

    @property
    def capture(self) -> str:
        """Return its capture's name below captures/, or nothing."""
        return f"bugs/{self.name}.pcapng" if self.tell is not None else ""

    def story(self, seed: int = 1) -> Story:
        """Tell it; the same seed gives the same messages."""
        if self.tell is None:
            raise LookupError(f"{self.name} has no capture: {self.why_no_capture}")
        story = self.tell(random.Random(f"{self.name}/{seed}"))  # noqa: S311 - no secret depends on it
        size_all_buffer_acks(story.conversations)
        return story
