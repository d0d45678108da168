"""Findings: violations with the frames that prove them; and, per rule, how often it was checked and how that went."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analysis.rules.model import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.context.roles import Roles
    from analysis.rules.model import Check, Rule, Severity


_WORTH_A_RANGE = 2  #: packets so far apart have others between them


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
    fault: str = ""  #: producer, consumer, proxy or capture; without known roles: the guilty frame's sender or receiver
    at_sender: bool | None = None  #: the one at fault sent the guilty frame; None: neither end is, or it is not known
    next_step: str = ""  #: what to look at next
    echoes: int = 0  #: further violations of the same rule with the same root
    last_echo: FrameRef | None = None
    packets: tuple[int, int] | None = None  #: first and last of a range that belongs to it, besides those of frames

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
        between = range(0)
        if self.packets is not None and self.packets[1] - self.packets[0] >= _WORTH_A_RANGE:
            between = range(self.packets[0], self.packets[1] + 1)
        listed = {number: str(number) for number in numbers if number not in between}
        if between:
            listed[between[0]] = f"{between[0]}..{between[-1]}"
        named = [listed[number] for number in sorted(listed)]
        return f"frame.number in {{{', '.join(named)}}}" if len(named) > 1 or between else f"frame.number == {named[0]}"


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


def next_step(
    rule: Rule, check: Check, facts: Mapping[str, int], guilty: FrameRef, connection: str, finding: str
) -> str:
    """Return what to look at next, with the numbers and names in it; captures are quoted as shells want it."""
    named: dict[str, int | str] = {"frame": guilty.frame, "capture": shlex.quote(guilty.capture)}
    return check.filled_in(
        check.next_step or rule.next_step, facts, {**named, "connection": connection, "finding": finding}
    )


def signed_facts(columns: dict[str, Any], index: int) -> dict[str, int]:
    """Return one row's facts as plain numbers."""
    return {name: int(values[index]) for name, values in columns.items()}


def party_at_fault(fault: Fault, roles: Roles, sender: int) -> tuple[str, bool | None]:
    """Return who is to blame, and whether that is the ``sender`` of the guilty frame, which is given by its side.

    Who is to blame is told by role, or as the check puts it where the roles are not known.
    """
    if fault is Fault.CAPTURE:
        return fault.value, None
    if fault in (Fault.SENDER, Fault.RECEIVER):
        at_sender = fault is Fault.SENDER
        return roles.party(sender if at_sender else 1 - sender) or fault.value, at_sender
    if not roles.known:
        return fault.value, None
    side = roles.producer if fault is Fault.PRODUCER else 1 - roles.producer
    return roles.party(side), side == sender
