"""Faults of no-ops: wrong, missing and late answers, no-ops at the wrong time, silence (NOP-01 to NOP-06).

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dissector.generate.faults.edits import fresh_opaque, put_after, take_out
from dissector.generate.faults.idle_time import renumber
from dissector.generate.faults.stream_finder import pick
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import PRODUCER, SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_LATE, _OVERDUE, _SILENT = 30, 75, 430  #: seconds, where the interval is 20
_JUMP = 5


@dataclass(frozen=True, slots=True, eq=False)
class _Noop:
    """A no-op and its answer."""

    conversation: Conversation
    asked: Emission
    reply: Emission
    former: _Noop | None
    last: bool  #: none comes after it

    @property
    def number(self) -> int:
        """Return the number that servers read."""
        return int.from_bytes(self.asked.frame.opaque, "little")

    @property
    def following(self) -> list[Emission]:
        """Return what is said after its answer."""
        return self.conversation.emissions[self.conversation.place(self.reply) + 1 :]


def _noops(script: Script) -> Iterator[_Noop]:
    """Go through all no-ops that are answered."""
    for conversation in script.conversations:
        pairs = []
        for emission in conversation:
            if emission.frame.name != "noop" or emission.frame.response:
                continue
            same = [
                each
                for each in conversation
                if each.frame.name == "noop" and each.frame.response and each.frame.opaque == emission.frame.opaque
            ]
            if len(same) == 1:
                pairs.append((emission, same[0]))
        former = None
        for at, (asked, reply) in enumerate(pairs):
            former = _Noop(conversation, asked, reply, former, at == len(pairs) - 1)
            yield former


def _served(each: _Noop) -> bool:
    """Tell whether a server sent it."""
    opens = [one.frame for one in each.conversation if one.frame.name == "open" and not one.frame.response]
    return bool(opens) and bool(opens[0].fields.get("open_flags", 0) & PRODUCER)


def _wrong_opaque(script: Script) -> Broken:
    found = pick(script, ((each.reply, each) for each in _noops(script)))
    right = found.asked.frame.opaque
    found.reply.frame.opaque = fresh_opaque(script, found.conversation)
    because = f"the no-op's opaque is {right.hex()}, the answer's {found.reply.frame.opaque.hex()}"
    return Broken("NOP-01", "opaque", found.conversation, (found.reply, found.asked), because)


def _skipped(script: Script) -> Broken:
    found = pick(script, ((each.asked, each) for each in _noops(script) if not each.last))
    take_out(found.conversation, found.reply)
    because = f"the no-op with opaque {found.asked.frame.opaque.hex()} is not answered, and the next one is"
    return Broken("NOP-01", "skipped", found.conversation, (found.asked,), because)


def _late_answer(script: Script) -> Broken:
    found = pick(script, ((each.reply, each) for each in _noops(script)))
    found.reply.pause_ns += _LATE * SECOND
    because = f"a no-op is answered after more than {_LATE} seconds, and the interval is 20"
    return Broken("NOP-02", "", found.conversation, (found.reply, found.asked), because)


def _late_noop(script: Script) -> Broken:
    found = pick(script, ((each.asked, each) for each in _noops(script) if each.former is not None))
    found.asked.pause_ns += _OVERDUE * SECOND
    because = f"the next no-op comes more than {_OVERDUE} seconds late, and the interval is 20"
    return Broken("NOP-03", "late", found.conversation, (found.asked,), because)


def _stopped(script: Script) -> Broken:
    """Leave all no-ops after one unsaid, while the producer goes on for long enough."""
    options = []
    for each in _noops(script):
        producer = each.asked.side
        passed, reached = 0, 0
        for one in each.following:
            passed += one.pause_ns
            if one.side == producer and one.frame.name != "noop":
                reached = passed
        if reached > _OVERDUE * SECOND and not each.last:
            options.append((each.reply, each))
    found = pick(script, options)
    for emission in [one for one in found.following if one.frame.name == "noop"]:
        take_out(found.conversation, emission)
    because = "no no-op comes any more, and the producer goes on"
    return Broken("NOP-03", "stopped", found.conversation, (found.reply, found.asked), because)


def _two_at_once(script: Script) -> Broken:
    found = pick(script, ((each.asked, each) for each in _noops(script)))
    conversation = found.conversation
    at = conversation.place(found.reply) + 1
    renumber(conversation, at, 1)
    opaque = (found.number + 1).to_bytes(4, "little")
    guilty = put_after(conversation, found.asked, found.asked.side, found.asked.frame.copy(opaque=opaque))
    put_after(conversation, found.reply, found.reply.side, found.reply.frame.copy(opaque=opaque))
    because = "a second no-op before the first was answered"
    return Broken("NOP-04", "", conversation, (guilty, found.asked), because)


def _jump(script: Script) -> Broken:
    found = pick(script, ((each.asked, each) for each in _noops(script) if each.former is not None and _served(each)))
    before = found.number - 1
    renumber(found.conversation, found.conversation.place(found.asked), _JUMP)
    because = f"a no-op has number {found.number} after {before}"
    return Broken("NOP-05", "next", found.conversation, (found.asked,), because)


def _first(script: Script) -> Broken:
    found = pick(script, ((each.asked, each) for each in _noops(script) if each.former is None and _served(each)))
    renumber(found.conversation, 0, _JUMP - found.number)
    because = f"the first no-op has number {_JUMP}"
    return Broken("NOP-05", "first", found.conversation, (found.asked,), because)


def _silence(script: Script) -> Broken:
    found = pick(script, ((each.asked, each) for each in _noops(script) if each.former is not None))
    found.asked.pause_ns += _SILENT * SECOND
    because = f"nothing is said for {_SILENT} seconds, with no-ops on"
    return Broken("NOP-06", "", found.conversation, (found.asked,), because)


FAULTS: tuple[Fault, ...] = (
    Fault(
        "NOP-01",
        "a no-op is answered with another opaque",
        "noop-slow-side",
        _wrong_opaque,
        "opaque",
        implies=("OPQ-01", "OPQ-02"),
    ),
    Fault(
        "NOP-01",
        "a no-op is not answered, and the next one is",
        "noop-idle",
        _skipped,
        "skipped",
        implies=("OPQ-02", "NOP-02", "NOP-04"),
    ),
    Fault("NOP-02", "a no-op is answered later than the interval", "noop-idle", _late_answer),
    Fault("NOP-03", "a no-op comes more than a minute late", "noop-idle", _late_noop, "late"),
    Fault("NOP-03", "no-ops stop, and the producer goes on", "noop-idle", _stopped, "stopped"),
    Fault("NOP-04", "a no-op is sent while another one waits", "noop-idle", _two_at_once),
    Fault("NOP-05", "a server's no-op leaves out numbers", "noop-idle", _jump, "next"),
    Fault("NOP-05", "a server's first no-op has a number of its own", "noop-idle", _first, "first"),
    Fault("NOP-06", "nothing is said for minutes, with no-ops on", "noop-idle", _silence, implies=("NOP-03",)),
)
