"""Violations of TKO-01 to TKO-07: takeovers."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import Selector, in_streams, kind, needs_request, stream_of
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

ACTIVE = 1


def _states(talk: Talk, message: Message) -> list[Message]:
    return [each for each in stream_of(talk, message).messages if each.opcode == m.STATE]


def _of_takeovers(*opcodes: int, state: int | None = None) -> Selector:
    """Messages of takeovers that say two states and end; of states, those that say this one, or pending (0)."""

    def select(talk: Talk) -> list[Message]:
        found = []
        for stream in talk.streams():
            states = [each for each in stream.messages if each.opcode == m.STATE]
            if stream.stream_flags & 1 and len(states) == 2 and stream.end is not None:
                found += [each for each in stream.messages if each.opcode in opcodes]
        if state is None:
            return found
        return [each for each in found if (each.at(0, 1) == ACTIVE) == (state == ACTIVE)]

    return select


_PENDINGS, _ACTIVES = _of_takeovers(m.STATE, state=0), _of_takeovers(m.STATE, state=ACTIVE)
_ENDS = _of_takeovers(m.STREAM_END)


def _late(talk: Talk, answer: Message, behind: Message) -> Message:
    """Have an answer be sent, and heard, only behind a message of the other side."""
    twin = talk.new(answer)
    talk.remove(answer)
    return talk.put_behind(behind, twin)


# --- TKO-01 --------------------------------------------------------------------------------------------------------


@kind("TKO-01", where=_ACTIVES)
def no_pending(talk: Talk, message: Message) -> list[Message]:
    """A takeover goes straight to active."""
    needs_request(talk, message)
    pending = _states(talk, message)[0]
    answer = talk.answer_to(pending)
    if answer is None:
        return []
    talk.remove(answer)
    talk.remove(pending)
    return [message]


@kind("TKO-01", where=_PENDINGS)
def dead_first(talk: Talk, message: Message) -> list[Message]:
    """A takeover begins with the state dead."""
    needs_request(talk, message)
    message.put(0, 4, 1)
    return [message]


@kind("TKO-01", where=_ACTIVES)
def pending_again(talk: Talk, message: Message) -> list[Message]:
    """A takeover says pending twice, and never active."""
    needs_request(talk, message)
    message.extras = _states(talk, message)[0].extras
    end = stream_of(talk, message).end
    assert end is not None
    end.put(0, 2, 4)
    return [message]


@kind("TKO-01", where=_ACTIVES)
def third_state(talk: Talk, message: Message) -> list[Message]:
    """A takeover says active twice."""
    needs_request(talk, message)
    answer = talk.answer_to(message)
    if answer is None:
        return []
    again = talk.new(message)
    talk.put_behind(answer, again)
    talk.put_behind(again, talk.new(answer))
    return [again]


# --- TKO-02 --------------------------------------------------------------------------------------------------------


@kind("TKO-02", where=_ACTIVES)
def item_behind_active(talk: Talk, message: Message) -> list[Message]:
    """A snapshot of one item comes behind the state active."""
    needs_request(talk, message)
    stream = stream_of(talk, message)
    marker, items = stream.markers[-1], stream.items
    answer = talk.answer_to(message)
    if not items or answer is None or items[-1].opcode != m.MUTATION or stream.end is None:
        return []
    last = items[-1].seqno + 1
    twin = talk.new(marker)
    twin.first = twin.last = last
    twin.flags = m.MEMORY
    if len(twin.extras) == 1:
        twin.value = twin.value[:20] + last.to_bytes(8) + bytes(8)
    talk.put_before(stream.end, twin)
    item = talk.new(items[-1], key=items[-1].key[:-1] + b"~", cas=items[-1].cas + 0x10000)
    item.seqno = last
    talk.put_before(stream.end, item)
    return [item]


# --- TKO-03 --------------------------------------------------------------------------------------------------------


@kind("TKO-03", where=_ACTIVES)
def active_before_answer(talk: Talk, message: Message) -> list[Message]:
    """Active is sent before pending was answered."""
    needs_request(talk, message)
    pending = _states(talk, message)[0]
    answer = talk.answer_to(pending)
    if answer is None:
        return []
    talk.needs(pending, _late(talk, answer, message))
    return [message]


@kind("TKO-03", where=_ENDS)
def end_before_answer(talk: Talk, message: Message) -> list[Message]:
    """The stream ends before active was answered."""
    needs_request(talk, message)
    active = _states(talk, message)[1]
    answer = talk.answer_to(active)
    if answer is None:
        return []
    talk.needs(active, _late(talk, answer, message))
    return [message]


@kind("TKO-03", where=_ENDS)
def end_without_answer(talk: Talk, message: Message) -> list[Message]:
    """The stream ends though active was never answered."""
    needs_request(talk, message)
    active = _states(talk, message)[1]
    answer = talk.answer_to(active)
    if answer is None:
        return []
    talk.needs(active)
    talk.remove(answer)
    return [message]


# --- TKO-04 --------------------------------------------------------------------------------------------------------


@kind("TKO-04", where=_PENDINGS)
def pending_before_confirmation(talk: Talk, message: Message) -> list[Message]:
    """Pending is sent before the last snapshot was confirmed."""
    needs_request(talk, message)
    here = talk.index(message)
    asked = [each for each in stream_of(talk, message).markers if each.flags & m.ACKNOWLEDGE]
    before = [each for each in asked if talk.index(each) < here]
    answers = [
        each
        for each in talk.messages[:here]
        if each.opcode == m.MARKER and each.response and each.opaque == message.opaque
    ]
    if not before or len(answers) != len(before):
        return []
    talk.needs(*before, *answers[:-1], _late(talk, answers[-1], message))
    return [message]


# --- TKO-05 --------------------------------------------------------------------------------------------------------


@kind("TKO-05", where=_PENDINGS)
def takeover_flag_not_asked_for(talk: Talk, message: Message) -> list[Message]:
    """States are sent on a stream that was requested without the flag takeover."""
    needs_request(talk, message)
    request = stream_of(talk, message).request
    request.put(0, request.at(0, 4) & ~1, 4)
    return [message]


@kind("TKO-05", where=in_streams(m.MUTATION))
def state_in_plain_stream(talk: Talk, message: Message) -> list[Message]:
    """A state is sent in the middle of a stream that is no takeover."""
    stream = stream_of(talk, message)
    if stream.stream_flags & 1 or talk.early or stream.messages_have_id:
        return []
    needs_request(talk, message)
    state = talk.made(message, talk.producer, 0x80, m.STATE, number=message.number, extras=b"\x03")
    talk.put_behind(message, state)
    talk.put_behind(state, talk.made(state, talk.consumer, 0x81, m.STATE))
    return [state]


# --- TKO-06 --------------------------------------------------------------------------------------------------------


@kind("TKO-06", where=_ENDS)
def done_and_state_changed(talk: Talk, message: Message) -> list[Message]:
    """A takeover that is done ends because of a changed state."""
    needs_request(talk, message)
    active = _states(talk, message)[1]
    talk.needs(active, talk.answer_to(active))
    message.put(0, 2, 4)
    return [message]


@kind("TKO-06", where=_ENDS)
def ok_without_active(talk: Talk, message: Message) -> list[Message]:
    """A takeover ends with ok behind pending."""
    needs_request(talk, message)
    active = _states(talk, message)[1]
    answer = talk.answer_to(active)
    if answer is None:
        return []
    talk.remove(answer)
    talk.remove(active)
    return [message]


# --- TKO-07 --------------------------------------------------------------------------------------------------------


@kind("TKO-07", where=_PENDINGS)
def pending_as_two(talk: Talk, message: Message) -> list[Message]:
    """A server that knows HELLO sends pending as 2."""
    if not talk.modern or not talk.open_flags & 1:
        return []
    needs_request(talk, message)
    talk.needs(*(each for each in talk.messages if each.opcode == m.HELLO))
    message.put(0, 2, 1)
    return [message]
