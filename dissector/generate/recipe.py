"""What is to be said, and what is to be wrong with it: a scenario, its size and seed, and the rules to break.

Knows scenarios and faults by name; must not know the network.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dissector.errors import UsageError
from dissector.generate.scenario import (
    Broken,
    Fault,
    FaultPlace,
    NoPlaceError,
    Scenario,
    Script,
    Size,
    size_all_buffer_acks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.generate.bugs.model import Bug
    from dissector.generate.conversation import Conversation


class Break(NamedTuple):
    """A wish for a broken rule: ``SEQ-01``, ``FLC-01/variant``, ``SNP-02@frame=40``."""

    rule: str
    variant: str | None = None
    frame: int = 1

    @classmethod
    def parse(cls, text: str) -> Break:
        """Read it."""
        found = re.fullmatch(r"([A-Za-z]{3}-[0-9]{2})(?:/([^@]+))?(?:@frame=([0-9]{1,12}))?", text)
        if found is None or found[3] == "0":
            raise UsageError(f"--break {text}: expected RULE, RULE/VARIANT or either with @frame=N, N from 1")
        return cls(found[1].upper(), found[2], int(found[3] or 1))

    def __str__(self) -> str:
        return self.rule if self.variant is None else f"{self.rule}/{self.variant}"


@dataclass(frozen=True, slots=True)
class Made:
    """Conversations ready to be sent, and the faults, or the bug, that were put into them."""

    scenario: Scenario
    conversations: list[Conversation]
    broken: list[tuple[Fault | Bug, Broken]] = field(default_factory=list)


def fault_of(wish: Break) -> Fault:
    """Return the fault that breaks a rule."""
    from dissector.generate.faults import fault  # noqa: PLC0415 - all of them, and only who breaks a rule needs any

    return fault(wish.rule, wish.variant)


def make(scenario: Scenario, seed: int, size: Size | None = None, breaks: Sequence[Break] = ()) -> Made:
    """Write a scenario's conversations and break rules in them; the same seed gives the same."""
    chosen = [(wish, fault_of(wish)) for wish in breaks]
    conversations = scenario.conversations(seed, size)
    made = Made(scenario, conversations)
    for number, (wish, fault) in enumerate(chosen):
        chance = random.Random(f"{wish}/{number}/{seed}")  # noqa: S311 - no secret depends on it
        try:
            broken = fault.apply(Script(conversations, chance, FaultPlace(wish.frame)))
        except NoPlaceError as error:
            home = "" if fault.scenario == scenario.name else f"; {fault.scenario} has what it needs"
            raise UsageError(f"--break {wish}: {error} in {scenario.name}{home}") from error
        made.broken.append((fault, broken))
    size_all_buffer_acks(conversations)
    return made


def make_bug(bug: Bug, seed: int) -> Made:
    """Tell the story of a historical bug as a scenario of its own; the same seed gives the same."""
    if bug.tell is None:
        raise UsageError(f"--bug {bug.name}: there is no capture of it: {bug.why_no_capture}")
    story = bug.story(seed)
    scenario = Scenario(bug.name, bug.title, lambda _chance, _size: story.conversations, bug.dialect, bug.era)
    return Made(scenario, story.conversations, [(bug, broken) for broken in story.broken])
