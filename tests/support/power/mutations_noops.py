"""Violations of NOP-01 to NOP-06: no-ops."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import asks, kind
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

IDLE = 360  #: seconds
UNUSED = b"\xe1\xe2\xe3\xe4"


def _noops(talk: Talk) -> list[Message]:
    """All no-ops of the producer that are answered."""
    return [each for each in talk.asks(m.NOOP) if each.side == talk.producer and talk.answer_to(each) is not None]


def _interval(talk: Talk) -> float:
    """The interval that was agreed upon; 0 where no-ops were not, or where no stream was granted."""
    agreed = talk.agreed(b"set_noop_interval")
    if talk.agreed(b"enable_noop") != b"true" or agreed is None or not talk.streams():
        return 0
    return float(agreed)


def _needs_interval(talk: Talk) -> None:
    talk.needs_beginning()
    talk.needs(talk.streams()[0].request, talk.streams()[0].answer)


def _later(talk: Talk, message: Message, seconds: float) -> None:
    """Have a message, and all behind it, come later. A question of the other side shows that time passes."""
    place = talk.messages[talk.index(message) - 1]
    talk.rest(place, seconds)


def _silent(talk: Talk, message: Message, seconds: float) -> None:
    """Let time pass before a message, and nothing be said meanwhile."""
    for each in talk.messages[talk.index(message) :]:
        each.time += seconds


# --- NOP-01 --------------------------------------------------------------------------------------------------------


@kind("NOP-01", "OPQ-01", where=asks(m.NOOP))
def noop_answered_with_other_opaque(talk: Talk, message: Message) -> list[Message]:
    """The answer to a no-op has another opaque."""
    answer = talk.answer_to(message)
    if answer is None:
        return []
    talk.needs_beginning()
    answer.opaque = UNUSED
    return [answer]


@kind("NOP-01", where=asks(m.NOOP))
def noop_passed_over(talk: Talk, message: Message) -> list[Message]:
    """A no-op is not answered, and the next one is."""
    noops = _noops(talk)
    if message not in noops or message is noops[-1]:
        return []
    answer = talk.answer_to(message)
    assert answer is not None
    talk.needs(*noops[noops.index(message) + 1 :])
    talk.remove(answer)
    return [message]


# --- NOP-02 --------------------------------------------------------------------------------------------------------


@kind("NOP-02", "OPQ-02", where=asks(m.NOOP))
def noop_answered_late(talk: Talk, message: Message) -> list[Message]:
    """The answer to a no-op takes longer than the server waits."""
    answer = talk.answer_to(message)
    limit = IDLE if talk.modern else _interval(talk)
    if answer is None or not _interval(talk):
        return []
    _needs_interval(talk)
    _later(talk, answer, limit + 3)
    return [answer, message]


# --- NOP-03 --------------------------------------------------------------------------------------------------------


@kind("NOP-03", where=asks(m.NOOP))
def noop_late(talk: Talk, message: Message) -> list[Message]:
    """A no-op comes later than twice the interval."""
    noops = _noops(talk)
    if not _interval(talk) or message not in noops[1:]:
        return []
    _needs_interval(talk)
    before = noops[noops.index(message) - 1]
    if talk.index(before) < talk.index(talk.streams()[0].answer):
        return []
    talk.needs(before, talk.answer_to(before))
    _later(talk, message, 2 * _interval(talk) + 45)
    return [message]


@kind("NOP-03", where=asks(m.NOOP))
def noops_stop(talk: Talk, message: Message) -> list[Message]:
    """No-ops stop, and the connection goes on."""
    noops = _noops(talk)
    answer = talk.answer_to(message)
    if not _interval(talk) or message not in noops or answer is None or not _live(talk):
        return []
    if talk.index(message) < talk.index(talk.streams()[0].answer):
        return []
    _needs_interval(talk)
    for each in noops[noops.index(message) + 1 :]:
        later = talk.answer_to(each)
        assert later is not None
        talk.remove(later)
        talk.remove(each)
    for each in [one for one in talk.asks(m.NOOP) if talk.index(one) > talk.index(answer)]:
        talk.remove(each)
    talk.rest(talk.messages[-1], 2 * _interval(talk) + 45)
    return [answer, message]


def _live(talk: Talk) -> bool:
    """Whether a stream is open at the end."""
    closed = {each.number for each in talk.asks(m.CLOSE_STREAM)}
    return any(each.end is None and each.vbucket not in closed for each in talk.streams())


# --- NOP-04 --------------------------------------------------------------------------------------------------------


@kind("NOP-04", where=asks(m.NOOP))
def two_noops_at_once(talk: Talk, message: Message) -> list[Message]:
    """A no-op is sent right behind another one."""
    answer = talk.answer_to(message)
    if answer is None or message.side != talk.producer:
        return []
    number = int.from_bytes(message.opaque, "little") + 1
    for each in talk.messages[talk.index(message) + 1 :]:
        if each.opcode == m.NOOP and each is not answer:
            each.opaque = (int.from_bytes(each.opaque, "little") + 1).to_bytes(4, "little")
    opaque = number.to_bytes(4, "little")
    second = talk.put_behind(message, talk.new(message, opaque=opaque))
    talk.put_behind(answer, talk.new(answer, opaque=opaque))
    talk.needs(message)
    return [second]


# --- NOP-05 --------------------------------------------------------------------------------------------------------


def _count_on(talk: Talk, message: Message, more: int) -> None:
    for each in talk.messages[talk.index(message) :]:
        if each.opcode == m.NOOP:
            each.opaque = (int.from_bytes(each.opaque, "little") + more).to_bytes(4, "little")


@kind("NOP-05", where=asks(m.NOOP))
def noop_number_left_out(talk: Talk, message: Message) -> list[Message]:
    """A server leaves numbers out."""
    noops = [each for each in talk.asks(m.NOOP) if each.side == talk.producer]
    if not talk.open_flags & 1 or message not in noops[1:]:
        return []
    talk.needs(*talk.asks(m.OPEN), noops[noops.index(message) - 1])
    _count_on(talk, message, 2)
    return [message]


@kind("NOP-05", where=lambda talk: talk.asks(m.NOOP)[:1])
def first_noop_number(talk: Talk, message: Message) -> list[Message]:
    """A server's first no-op has a number that servers do not begin with."""
    if not talk.open_flags & 1:
        return []
    talk.needs_beginning()
    _count_on(talk, message, 41)
    return [message]


# --- NOP-06 --------------------------------------------------------------------------------------------------------


@kind("NOP-06", "NOP-03", where=asks(m.NOOP))
def long_silence(talk: Talk, message: Message) -> list[Message]:
    """Nothing is said for longer than the idle timeout, and then the connection goes on."""
    noops = _noops(talk)
    if not _interval(talk) or message not in noops[1:]:
        return []
    if talk.index(message) < talk.index(talk.streams()[0].answer):
        return []
    _needs_interval(talk)
    _silent(talk, message, IDLE + 60)
    return [message]
