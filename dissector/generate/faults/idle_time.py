"""Time that passes on a connection while nothing is said but no-ops.

Knows what must go on meanwhile: no-ops at the agreed interval, numbered on, and connections that begin later begin
later still. Must not know rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.conversation import LATENCY_NS
from dissector.generate.faults import edits
from dissector.generate.frame import Frame
from dissector.generate.session import SECOND
from dissector.spec.model import Dialect
from dissector.spec.vocabulary import Reply

if TYPE_CHECKING:
    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_FIRST_NOOP = 10_000_001


def hold(script: Script, conversation: Conversation, emission: Emission, seconds: int) -> None:
    """Let so much more time pass before a message is sent."""
    at = conversation.place(emission)
    clock = sum(each.pause_ns for each in conversation.emissions[:at])
    before = conversation.begin_ns + clock
    for other in script.conversations:
        if other is not conversation and other.begin_ns > before:
            other.begin_ns += seconds * SECOND
    until = clock + emission.pause_ns + seconds * SECOND
    side, interval, last = _noops(conversation, at)
    opaque = _last_opaque(conversation, at)
    asked = 0
    while interval and max(last, clock) + LATENCY_NS < until - LATENCY_NS and last + interval < until - LATENCY_NS:
        asked += 1
        opaque += 1
        last = max(last + interval, clock + LATENCY_NS)
        name = opaque.to_bytes(4, "little")
        edits.put(conversation, at, side, Frame(Dialect.DCP, "noop", opaque=name), pause_ns=last - clock)
        answer = Frame(Dialect.DCP, "noop", response=True, opaque=name)
        edits.put(conversation, at + 1, 1 - side, answer, pause_ns=LATENCY_NS)
        clock, at = last + LATENCY_NS, at + 2
    emission.pause_ns = until - clock
    renumber(conversation, at, asked)


def restful(conversation: Conversation, emission: Emission) -> bool:
    """Tell whether no answer is pending before this message, so that time may pass."""
    waiting: set[tuple[str, bytes]] = set()
    for each in conversation.emissions[: conversation.place(emission)]:
        frame = each.frame
        if frame.response:
            waiting.discard((frame.name, frame.opaque))
        elif frame.message.reply is Reply.ALWAYS:
            waiting.add((frame.name, frame.opaque))
    return not waiting


def _noops(conversation: Conversation, at: int) -> tuple[int, int, int]:
    """Return the producer's side, the interval that was agreed upon (or 0) and when the last no-op was, at a place."""
    asked: dict[bytes, Emission] = {}
    side, interval, last, clock, enabled = 0, 0, 0, 0, False
    for each in conversation.emissions[:at]:
        frame = each.frame
        clock += each.pause_ns
        if frame.name == "control" and not frame.response:
            asked[frame.opaque] = each
        elif frame.name == "control" and not frame.status and frame.opaque in asked:
            request = asked.pop(frame.opaque)
            side = each.side
            if request.frame.key == b"enable_noop":
                enabled = request.frame.value == b"true"
                last = clock
            elif request.frame.key == b"set_noop_interval":
                interval = int(float(request.frame.value) * SECOND)
                last = clock
        elif frame.name == "noop" and not frame.response:
            last = clock
    return side, interval if enabled else 0, last


def _last_opaque(conversation: Conversation, at: int) -> int:
    """Return the number of the last no-op before a place, or what it would have been."""
    numbers = [int.from_bytes(each.frame.opaque, "little") for each in conversation if _is_noop(each)]
    seen = sum(_is_noop(each) for each in conversation.emissions[:at])
    if seen:
        return numbers[seen - 1]
    return (numbers[0] if numbers else _FIRST_NOOP) - 1


def renumber(conversation: Conversation, at: int, more: int) -> None:
    """Count no-ops from a place on: servers number them without a hole (NOP-05)."""
    for each in conversation.emissions[at:]:
        if each.frame.name == "noop":
            number = int.from_bytes(each.frame.opaque, "little") + more
            each.frame.opaque = number.to_bytes(4, "little")


def _is_noop(emission: Emission) -> bool:
    return emission.frame.name == "noop" and not emission.frame.response
