"""Violations of OPQ-01, 02, 03, 05 and 11: answers."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import answers, asks, in_streams, kind
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

PLAIN = (m.CONTROL, m.NOOP, m.FAILOVER_LOG, m.CLOSE_STREAM)
TOO_LONG = 80  #: seconds; an answer is due within 60
UNUSED = b"\xe1\xe2\xe3\xe4"


# --- OPQ-01 --------------------------------------------------------------------------------------------------------


@kind("OPQ-01", where=in_streams(m.MUTATION, m.MARKER))
def unasked_answer(talk: Talk, message: Message) -> Message:
    """The producer answers what nobody asked."""
    talk.needs_beginning()
    return talk.put_behind(
        message, talk.made(message, talk.producer, 0x81, m.FAILOVER_LOG, opaque=UNUSED, value=bytes(16))
    )


@kind("OPQ-01", where=asks(m.NOOP, m.MARKER))
def unasked_answer_of_consumer(talk: Talk, message: Message) -> Message:
    """The consumer answers a no-op that nobody sent."""
    talk.needs_beginning()
    answer = talk.answer_to(message) if message.opcode == m.NOOP else None
    return talk.put_behind(answer or message, talk.made(message, talk.consumer, 0x81, m.NOOP, opaque=UNUSED))


@kind("OPQ-01", where=answers(*PLAIN, m.OPEN, m.STREAM_REQUEST))
def second_answer(talk: Talk, message: Message) -> Message:
    """One request is answered twice."""
    talk.needs_beginning()
    return talk.put_behind(message, talk.new(message))


@kind("OPQ-01", where=answers(*PLAIN, m.OPEN))
def answer_with_other_opaque(talk: Talk, message: Message) -> Message:
    """An answer whose opaque no request has."""
    talk.needs_beginning()
    message.opaque = UNUSED
    return message


@kind("OPQ-01", where=answers(m.CONTROL, m.NOOP))
def answer_with_other_opcode(talk: Talk, message: Message) -> Message | None:
    """An answer to another kind of request than the one with its opaque."""
    talk.needs_beginning()
    if any(each.opaque == message.opaque for each in talk.asks(m.FAILOVER_LOG)):
        return None
    message.opcode = m.FAILOVER_LOG
    return message


# --- OPQ-02 --------------------------------------------------------------------------------------------------------


def _unanswered(talk: Talk, message: Message) -> list[Message]:
    """Take the answer to a request away, and let the connection go on for long."""
    answer = talk.answer_to(message)
    if answer is None or not talk.streams() or not talk.behind(message):
        return []
    talk.remove(answer)
    return [message]


@kind("OPQ-02", where=asks(*PLAIN))
def answer_never_comes(talk: Talk, message: Message) -> list[Message]:
    """A request stays without an answer while the connection goes on."""
    guilty = _unanswered(talk, message)
    if guilty:
        talk.rest(talk.messages[-1], TOO_LONG)
    return guilty


@kind("OPQ-02", where=asks(*PLAIN, m.STATE))
def answer_comes_late(talk: Talk, message: Message) -> list[Message]:
    """An answer comes after more than a minute."""
    answer = talk.answer_to(message)
    if answer is None or not talk.streams():
        return []
    last = talk.messages[talk.index(answer) - 1]
    talk.rest(last, TOO_LONG)
    return [message, answer]


@kind("OPQ-02", where=asks(m.STREAM_REQUEST))
def stream_request_never_answered(talk: Talk, message: Message) -> list[Message]:
    """A stream request stays without an answer, and nothing comes of it, while the connection goes on."""
    stream = next((each for each in talk.streams() if each.request is message), None)
    if stream is None or len(talk.streams()) < 2:
        return []
    for each in (stream.answer, *stream.messages):
        talk.remove(each)
    for each in talk.asks(m.CLOSE_STREAM):
        if each.number == message.number and each in talk.behind(message):
            return []
    talk.rest(talk.messages[-1], 90)
    return [message]


@kind("OPQ-02", "SNP-10", where=in_streams(m.STATE))
def state_never_answered(talk: Talk, message: Message) -> list[Message]:
    """A vbucket state stays without an answer while the connection goes on."""
    guilty = _unanswered(talk, message)
    if guilty:
        talk.rest(talk.messages[-1], TOO_LONG)
    return guilty


# --- OPQ-03 --------------------------------------------------------------------------------------------------------


@kind("OPQ-03", where=in_streams(m.MUTATION, m.DELETION, m.EXPIRATION, m.COMMIT, m.PREPARE, m.ADVANCED))
def answered_item(talk: Talk, message: Message) -> Message | None:
    """The consumer says that it took an item."""
    if talk.early:
        return None
    return talk.put_behind(message, talk.made(message, talk.consumer, 0x81, message.opcode))


@kind("OPQ-03", where=asks(m.ACK))
def answered_ack(talk: Talk, message: Message) -> Message | None:
    """The producer answers a buffer ack."""
    if talk.early or message.side != talk.consumer:
        return None
    return talk.put_behind(message, talk.made(message, talk.producer, 0x81, m.ACK))


# --- OPQ-05 --------------------------------------------------------------------------------------------------------


def _added(talk: Talk) -> list[Message]:
    return [each for each in answers(m.ADD_STREAM)(talk) if len(each.extras) == 4]


def _both(talk: Talk, answer: Message) -> list[Message]:
    """An answer and its request."""
    before = talk.messages[: talk.index(answer)]
    same = [each for each in before if each.opcode == answer.opcode and each.opaque == answer.opaque and each.request]
    return [answer, same[-1]] if same else [answer]


@kind("OPQ-05", where=_added)
def add_stream_names_other_opaque(talk: Talk, message: Message) -> list[Message]:
    """The answer to an add stream names an opaque that is not the stream's."""
    message.extras = bytes((0x0A, 0x0B, 0x0C, 0x0D))
    return _both(talk, message)


@kind("OPQ-05", where=_added)
def add_stream_in_other_byte_order(talk: Talk, message: Message) -> list[Message]:
    """One answer names the opaque in another byte order than the others."""
    if len(_added(talk)) < 3 or message.extras == message.extras[::-1]:
        return []
    message.extras = message.extras[::-1]
    return _both(talk, message)


@kind("OPQ-05", where=_added)
def add_stream_loses_flags(talk: Talk, message: Message) -> list[Message]:
    """The stream request lacks a flag that the add stream has."""
    both = _both(talk, message)
    if len(both) < 2:
        return []
    both[1].put(0, both[1].at(0, 4) | 0x10, 4)
    asked = [each for each in talk.asks(m.STREAM_REQUEST) if each.number == both[1].number]
    return [*both, *asked]


@kind("OPQ-05", where=_added)
def add_stream_without_request(talk: Talk, message: Message) -> list[Message]:
    """An add stream succeeds for a vbucket that no stream was asked for."""
    both = _both(talk, message)
    if len(both) < 2:
        return []
    both[1].number = 77
    return both


# --- OPQ-11 --------------------------------------------------------------------------------------------------------


def _steady(talk: Talk) -> list[Message]:
    """Items of streams that are neither handed over nor closed."""
    closed = {each.number for each in talk.asks(m.CLOSE_STREAM)}
    found = []
    for stream in talk.streams():
        if not stream.stream_flags & 1 and stream.vbucket not in closed and not talk.early:
            found += [each for each in stream.messages if each.opcode in m.DOCUMENTS and not each.odd]
    return found


@kind("OPQ-11", where=_steady)
def refused_item(talk: Talk, message: Message) -> list[Message]:
    """The consumer refuses an item: out of range."""
    answer = talk.made(message, talk.consumer, 0x81, message.opcode, number=0x22)
    return [talk.put_behind(message, answer), message]


@kind("OPQ-11", where=_steady)
def item_without_stream_at_consumer(talk: Talk, message: Message) -> list[Message]:
    """The consumer knows no stream for an item."""
    answer = talk.made(message, talk.consumer, 0x81, message.opcode, number=0x01)
    return [talk.put_behind(message, answer), message]
