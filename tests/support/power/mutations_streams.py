"""Violations of OPQ-04, 06 to 10 and 12: the life of streams."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import answers, in_streams, kind, plain, stream_of
from tests.support.power.messages import Message
from tests.support.power.streams import Stream
from tests.support.power.talks import Talk

UNUSED = b"\xd1\xd2\xd3\xd4"
UNASKED = 901  #: a vbucket that no recording has


# --- OPQ-04 --------------------------------------------------------------------------------------------------------


@kind("OPQ-04", where=in_streams(*m.DATA))
def item_with_other_opaque(_: Talk, message: Message) -> Message:
    """An item with an opaque that its stream does not have."""
    message.opaque = UNUSED
    return message


@kind("OPQ-04", where=in_streams(m.MARKER, m.OSO))
def marker_with_other_opaque(_: Talk, message: Message) -> Message:
    """A marker with an opaque that its stream does not have."""
    message.opaque = UNUSED
    return message


@kind("OPQ-04", where=in_streams(m.STREAM_END, m.STATE))
def end_with_other_opaque(_: Talk, message: Message) -> Message:
    """A stream end, or a state, with an opaque that its stream does not have."""
    message.opaque = UNUSED
    return message


@kind("OPQ-04", where=in_streams(m.MUTATION, m.DELETION))
def item_without_stream(talk: Talk, message: Message) -> Message:
    """An item of a vbucket that nobody asked for."""
    talk.needs_beginning()
    message.number = UNASKED
    return message


@kind("OPQ-04", where=in_streams(m.MUTATION, m.DELETION))
def item_of_other_stream(talk: Talk, message: Message) -> Message | None:
    """An item whose vbucket is that of another live stream."""
    mine = stream_of(talk, message)
    for other in _live_at(talk, message):
        if other.vbucket != mine.vbucket and other.request.opaque != mine.request.opaque:
            message.number = other.vbucket
            return message
    return None


def _live_at(talk: Talk, message: Message) -> list[Stream]:
    """The streams that are live at a message: granted before, with messages of their own behind it."""
    at = talk.index(message)
    found = []
    for each in talk.streams():
        ends = each.messages[-1] if each.messages else each.answer
        if talk.index(each.answer) < at < talk.index(ends):
            found.append(each)
    return found


# --- OPQ-06 --------------------------------------------------------------------------------------------------------


@kind("OPQ-06", where=in_streams(m.STREAM_END))
def item_behind_end(talk: Talk, message: Message) -> Message | None:
    """An item behind the stream end."""
    items = stream_of(talk, message).items
    if not items or items[-1].opcode == m.ADVANCED:
        return None
    twin = talk.new(items[-1])
    twin.seqno += 1
    return talk.put_behind(message, twin)


@kind("OPQ-06", where=in_streams(m.STREAM_END))
def second_end(talk: Talk, message: Message) -> Message:
    """A stream ends twice."""
    return talk.put_behind(message, talk.new(message))


@kind("OPQ-06", where=in_streams(m.STREAM_END))
def marker_behind_end(talk: Talk, message: Message) -> Message | None:
    """A marker behind the stream end."""
    markers = stream_of(talk, message).markers
    if not markers:
        return None
    twin = talk.new(markers[-1])
    if twin.ranged:
        twin.first, twin.last = twin.last + 1, twin.last + 2
    return talk.put_behind(message, twin)


# --- OPQ-07 --------------------------------------------------------------------------------------------------------


@kind("OPQ-07", where=in_streams(m.MUTATION, m.DELETION))
def granted_twice(talk: Talk, message: Message) -> list[Message] | None:
    """A second stream of a vbucket is granted while the first one goes on."""
    stream = stream_of(talk, message)
    if message is stream.messages[-1]:
        return None
    request = talk.put_behind(message, talk.new(stream.request, opaque=UNUSED))
    answer = talk.put_behind(request, talk.new(stream.answer, opaque=UNUSED))
    return [answer, request]


@kind("OPQ-07", where=in_streams(m.MUTATION))
def granted_twice_with_same_opaque(talk: Talk, message: Message) -> list[Message] | None:
    """The same request again, granted again."""
    stream = stream_of(talk, message)
    if message is stream.messages[-1]:
        return None
    request = talk.put_behind(message, talk.new(stream.request))
    answer = talk.put_behind(request, talk.new(stream.answer))
    return [answer, request]


# --- OPQ-08 and OPQ-12 ---------------------------------------------------------------------------------------------


@kind("OPQ-08", where=answers(m.STREAM_REQUEST))
def shared_opaque(talk: Talk, message: Message) -> list[Message] | None:
    """A new stream has the opaque of another live one."""
    stream = next((each for each in talk.streams() if each.answer is message), None)
    if stream is None:
        return None
    for other in _live_at(talk, message):
        if other.request.opaque != stream.request.opaque and other is not stream:
            talk.needs(other.request, other.answer)
            talk.rename(stream, other.request.opaque)
            return [stream.answer, stream.request]
    return None


@kind("OPQ-12", where=answers(m.STREAM_REQUEST))
def reused_opaque(talk: Talk, message: Message) -> list[Message] | None:
    """A stream has the opaque of the vbucket's stream before it."""
    streams = talk.streams()
    at = next((index for index, each in enumerate(streams) if each.answer is message), -1)
    if at < 0:
        return None
    mine = streams[at]
    before = [each for each in streams[:at] if each.vbucket == mine.vbucket and not each.messages_have_id]
    if not before or before[-1].request.opaque == mine.request.opaque:
        return None
    talk.needs(before[-1].request, before[-1].answer)
    talk.rename(mine, before[-1].request.opaque)
    return [mine.answer, mine.request]


# --- OPQ-09 --------------------------------------------------------------------------------------------------------


def _closed(talk: Talk) -> list[Message]:
    """Closes that the consumer asked for and the producer granted."""
    found = []
    for each in talk.asks(m.CLOSE_STREAM):
        answer = talk.answer_to(each)
        if each.side == talk.consumer and answer is not None and not answer.number:
            found.append(each)
    return found


def _closed_stream(talk: Talk, close: Message) -> Stream | None:
    at = talk.index(close)
    same = [each for each in talk.streams() if each.vbucket == close.number and talk.index(each.answer) < at]
    same = [
        each for each in same if not close.stream_id or any(item.stream_id == close.stream_id for item in each.messages)
    ]
    return same[-1] if same else None


@kind("OPQ-09", where=_closed)
def no_end_behind_close(talk: Talk, message: Message) -> list[Message] | None:
    """A close that was to be followed by a stream end is not."""
    stream = _closed_stream(talk, message)
    if not talk.agreed(b"send_stream_end_on_client_close_stream") or stream is None or stream.end is None:
        return None
    answer = talk.answer_to(message)
    if answer is None or stream.end not in talk.behind(answer):
        return None
    talk.remove(stream.end)
    talk.needs(*(each for each in talk.asks(m.CONTROL) if each.key == b"send_stream_end_on_client_close_stream"))
    talk.rest(talk.messages[-1], 100)
    return [answer, message]


@kind("OPQ-09", where=_closed)
def wrong_reason_behind_close(talk: Talk, message: Message) -> list[Message] | None:
    """The stream end behind a close has another reason."""
    stream = _closed_stream(talk, message)
    if not talk.agreed(b"send_stream_end_on_client_close_stream") or stream is None or stream.end is None:
        return None
    answer = talk.answer_to(message)
    if answer is None or stream.end not in talk.behind(answer) or stream.end.at(0, 4) != 1:
        return None
    stream.end.put(0, 2, 4)
    talk.needs(*(each for each in talk.asks(m.CONTROL) if each.key == b"send_stream_end_on_client_close_stream"))
    return [stream.end, answer, message]


@kind("OPQ-09", where=_closed)
def end_behind_close(talk: Talk, message: Message) -> list[Message] | None:
    """A stream end behind a close, which was not agreed upon."""
    talk.needs_beginning()
    stream = _closed_stream(talk, message)
    answer = talk.answer_to(message)
    if talk.modern or stream is None or answer is None or stream.end is not None:
        return None
    end = talk.made(answer, talk.producer, 0x80, m.STREAM_END, number=stream.vbucket, extras=(1).to_bytes(4))
    end.opaque = stream.request.opaque
    return [talk.put_behind(answer, end), answer, message]


@kind("OPQ-09", where=_closed)
def item_behind_close(talk: Talk, message: Message) -> list[Message] | None:
    """An item behind the answer to a close."""
    talk.needs_beginning()
    stream = _closed_stream(talk, message)
    answer = talk.answer_to(message)
    if talk.agreed(b"send_stream_end_on_client_close_stream") or stream is None or answer is None or not stream.items:
        return None
    twin = talk.new(stream.items[-1])
    twin.seqno += 1
    return [talk.put_behind(answer, twin)]


# --- OPQ-10 --------------------------------------------------------------------------------------------------------


@kind("OPQ-10", where=plain(m.STREAM_END))
def completed_stream_without_end(talk: Talk, message: Message) -> list[Message] | None:
    """A stream has delivered all that was asked for, and no stream end comes."""
    stream = stream_of(talk, message)
    asked = stream.request.at(16)
    if stream.stream_flags or message.at(0, 4) or not stream.items or stream.items[-1].seqno < asked or stream.filtered:
        return None
    last = stream.items[-1]
    talk.remove(message)
    talk.rest(talk.messages[-1], 100)
    markers = [each for each in stream.markers[-1:] if talk.early]
    return [last, stream.answer, stream.request, *markers]
