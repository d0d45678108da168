"""Findings: violations with the frames that prove them; and, per rule, how often it was checked and how that went."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.rules.model import Check, Rule, Severity


@dataclass(frozen=True, slots=True)
class FrameRef:
    """A frame, with what is needed to find it again."""

    role: str  #: what it is to the finding: guilty, or the name of the evidence
    frame: int  #: number in the run
    capture: str
    packet_first: int
    packet_last: int
    time_ns: int


@dataclass(slots=True, eq=False)
class Finding:
    """One violation, with everything like it that goes back to the same cause."""

    id: str  #: the same in every run over the same traffic
    rule: str
    severity: Severity
    title: str
    connection: str
    vbucket: int | None
    stream_id: int | None
    frames: tuple[FrameRef, ...]  #: the guilty one first
    facts: dict[str, int]
    sentence: str
    check: str = ""
    echoes: int = 0  #: further violations of the same rule with the same root
    last_echo: FrameRef | None = None

    @property
    def guilty(self) -> FrameRef:
        """Return the frame that the finding is about."""
        return self.frames[0]

    @property
    def time_ns(self) -> int:
        """Return when it happened."""
        return self.frames[0].time_ns

    def display_filter(self) -> str:
        """Return a Wireshark display filter that shows the packets, for the capture that the guilty frame is in."""
        numbers: set[int] = set()
        for frame in self.frames:
            if frame.capture == self.guilty.capture:
                numbers |= {frame.packet_first, frame.packet_last}
        listed = ", ".join(str(number) for number in sorted(numbers))
        return f"frame.number in {{{listed}}}" if len(numbers) > 1 else f"frame.number == {listed}"


@dataclass(slots=True)
class Tally:
    """How one rule fared."""

    rule: str
    checked: int = 0
    violated: int = 0
    unknown: Counter[str] = field(default_factory=Counter)  #: by reason
    mild: int = 0  #: violations less severe than the selection wants
    unlisted: int = 0  #: violations that the selection wants, without a finding because there are too many

    @property
    def undecided(self) -> int:
        """Return how many cases could not be decided."""
        return self.unknown.total()

    @property
    def held(self) -> int:
        """Return how many cases were as they must be."""
        return self.checked - self.violated - self.undecided

    @property
    def verdict(self) -> str:
        """Return violated, unknown or holds; or unchecked where there was nothing to check."""
        if self.violated:
            return "violated"
        if self.undecided:
            return "unknown"
        return "holds" if self.checked else "unchecked"


def finding_id(rule: Rule, check: Check, connection: str, side: int, offset: int) -> str:
    """Return a name that depends on the traffic alone: not on packet numbers, nor on how the capture was cut."""
    text = f"{rule.id}/{check.name}/{connection}/{side}/{offset}"
    return f"{rule.id}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def signed_facts(columns: dict[str, Any], index: int) -> dict[str, int]:
    """Return one row's facts as plain numbers."""
    return {name: int(values[index]) for name, values in columns.items()}
