"""Violations of FLC: what is given back, how much and when."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import asks, in_streams, kind
from tests.support.power.messages import Message
from tests.support.power.talks import Talk, ack_bytes, set_ack_bytes

_SOME_PACKETS = 100_000  #: bytes: more than a few lost packets can explain, or acks of a large message
_REQUEST = 24 + len(b"connection_buffer_size") + 1  #: bytes of the shortest control that asks for a window


def _acks(talk: Talk) -> list[Message]:
    """Acks of a connection with one window for all of its time."""
    return talk.acks() if talk.window() else []


def _grow(talk: Talk, ack: Message, more: int) -> None:
    """Have an ack give more back, or less; those behind it stay as they are."""
    talk.needs_window()
    talk.settle()
    set_ack_bytes(ack, ack_bytes(ack) + more)
    for each in talk.acks():
        each.kept = True


# --- FLC-01, FLC-07 and FLC-08 -------------------------------------------------------------------------------------


@kind("FLC-01", where=_acks)
def gives_back_too_much(talk: Talk, message: Message) -> Message:
    """An ack gives back more than has arrived."""
    _grow(talk, message, max(talk.open_slack[message.uid], 0) + 500)
    return message


@kind("FLC-01", where=_acks)
def gives_back_twice(talk: Talk, message: Message) -> Message | None:
    """An ack comes twice."""
    if talk.open_slack[message.uid] >= ack_bytes(message):
        return None
    talk.needs_window()
    talk.settle()
    for each in talk.acks():
        each.kept = True
    return talk.put_behind(message, talk.new(message))


@kind("FLC-01", where=_acks)
def gives_back_more_than_a_new_window(talk: Talk, message: Message) -> Message | None:
    """The window is set once more, to the same size; a later ack gives back more than fits it."""
    acks, window = talk.acks(), talk.window()
    at = acks.index(message)
    request = next(each for each in talk.asks(m.CONTROL) if each.key == b"connection_buffer_size")
    answer = talk.answer_to(request)
    if at < 2 or talk.early or answer is None:
        return None
    again = talk.put_behind(acks[at - 2], talk.new(request, opaque=b"\x7f\x66\x00\x01"))
    granted = talk.put_behind(again, talk.new(answer, opaque=again.opaque))
    # Only what the producer sends then shows how much can be outstanding.
    heard = talk.messages[talk.index(granted) : talk.place(message.heard) + 1]
    if not any(each.side == talk.producer and each.counted for each in heard):
        return None
    _grow(talk, message, max(2 * window, _SOME_PACKETS))
    talk.evidence = {again.uid, granted.uid}
    return message


@kind("FLC-07", where=_acks)
def gives_back_nothing(talk: Talk, message: Message) -> Message | None:
    """An ack of 0 bytes."""
    if talk.early:
        return None
    empty = talk.new(message, kept=True)
    set_ack_bytes(empty, 0)
    return talk.put_behind(message, empty)


@kind("FLC-08", "FLC-01", where=_acks)
def counts_noops(talk: Talk, message: Message) -> Message | None:
    """An ack gives back the no-ops since the last one, too."""
    acks = talk.acks()
    at = acks.index(message)
    begin = talk.index(acks[at - 1]) if at else 0
    noops = [each for each in talk.messages[begin : talk.index(message)] if each.opcode == m.NOOP and each.request]
    if talk.open_slack[message.uid] or not noops:
        return None
    _grow(talk, message, 24 * len(noops))
    return message


@kind("FLC-08", "FLC-01", where=_acks)
def counts_a_new_noop(talk: Talk, message: Message) -> Message | None:
    """An ack gives back a no-op that came right before it."""
    if talk.open_slack[message.uid] or talk.early:
        return None
    acks = talk.acks()
    at = acks.index(message)
    begin = talk.index(acks[at - 1]) if at else 0
    if any(each.opcode == m.NOOP for each in talk.messages[begin : talk.index(message)]):
        return None
    heard = talk.by_uid(message.heard)
    noop = talk.put_behind(heard, talk.made(heard, talk.producer, 0x80, m.NOOP, opaque=b"\x01\x02\x03\x04"))
    talk.put_before(message, talk.made(message, talk.consumer, 0x81, m.NOOP, opaque=noop.opaque)).heard = noop.uid
    message.heard = noop.uid
    _grow(talk, message, 24)
    return message


# --- FLC-02 and FLC-03 ---------------------------------------------------------------------------------------------


def _first_beyond(talk: Talk, window: int) -> list[Message]:
    """The first message that is sent though the window is full."""
    return next(([each] for each, outstanding in talk.outstanding() if outstanding >= window), [])


@kind("FLC-02", where=_acks)
def sends_without_room(talk: Talk, message: Message) -> list[Message]:
    """An ack is missing, and the producer goes on as if it had come."""
    talk.needs_window()
    if talk.early or _first_beyond(talk, talk.window()):
        return []
    for each in talk.acks():
        each.kept = True
    talk.remove(message)
    return _first_beyond(talk, talk.window())


@kind("FLC-02", where=asks(m.CONTROL))
def window_is_smaller(talk: Talk, message: Message) -> list[Message]:
    """The window that was agreed upon is smaller than what is sent."""
    talk.needs_window()
    window = talk.window()
    most = max((outstanding for _, outstanding in talk.outstanding()), default=0)
    if message.key != b"connection_buffer_size" or not window or talk.early or most < 2000:
        return []
    message.value = str(most // 2).encode()
    return _first_beyond(talk, most // 2)


def _stalled(talk: Talk) -> list[Message]:
    """Acks that came while the window was full."""
    if not talk.window() or talk.early:
        return []
    found = []
    sent = {}
    total = 0
    for each in talk.messages:
        if each.side == talk.producer and each.counted:
            total += each.size
        sent[each.uid] = total
    given = 0
    for each in talk.acks():
        if sent[each.uid] - given >= talk.window():
            found.append(each)
        given += ack_bytes(each)
    return found


@kind("FLC-03", where=_stalled)
def window_stays_full(talk: Talk, message: Message) -> list[Message]:
    """Nothing is given back for long while the window is full."""
    talk.needs_window()
    last = talk.before(message, talk.producer)
    assert last is not None
    place = talk.messages[talk.index(message) - 1]
    talk.rest(place, 95)
    counted = [each for each in talk.messages[: talk.index(message)] if each.counted and each.side == talk.producer]
    return [message, counted[-1]]


# --- FLC-04 and FLC-05 ---------------------------------------------------------------------------------------------


@kind("FLC-04", where=_acks)
def keeps_a_part(talk: Talk, message: Message) -> list[Message]:
    """A part of the window is never given back, and the producer rests in the end."""
    talk.needs_window()
    part = talk.window() * 3 // 10
    talk.settle()
    if talk.early or ack_bytes(message) <= part or message is not talk.acks()[-1]:
        return []
    _grow(talk, message, -part)
    last = [each for each in talk.messages if each.side == talk.producer and each.counted][-1]
    talk.rest(talk.messages[-1], 30)
    return [message, last]


def _short(talk: Talk, opcode: int, bytes_each: int) -> list[Message]:
    """Have a consumer give back everything it gets, but count messages of a kind short, up to a last ack; then rest."""
    if talk.early or len(talk.acks()) < 2:
        return []
    final = talk.acks()[-1]
    if any(each.counted for each in talk.behind(final, talk.producer)):
        final = talk.put_behind(talk.messages[-1], talk.new(final))
        final.heard = next(each.uid for each in reversed(talk.messages) if each.side == talk.producer)
    talk.needs_window()
    begin = wrong = 0
    for ack in talk.acks():
        until = talk.place(ack.heard) + 1
        arrived = [each for each in talk.messages[begin:until] if each.side == talk.producer and each.counted]
        short = sum(each.opcode == opcode for each in arrived)
        total = sum(each.size for each in arrived) - short * bytes_each
        if total <= 0:
            return []
        set_ack_bytes(ack, total)
        ack.kept = True
        begin, wrong = until, wrong + short
    last = [each for each in talk.messages if each.side == talk.producer and each.counted][-1]
    talk.rest(final, 30)
    return [final, last] if wrong >= 5 else []


def _last_acks(talk: Talk) -> list[Message]:
    return _acks(talk)[-1:]


@kind("FLC-05", where=_last_acks)
def counts_mutations_short(talk: Talk, _: Message) -> list[Message]:
    """A consumer counts every mutation one byte short, and the producer rests in the end."""
    return _short(talk, m.MUTATION, 1)


# --- FLC-06 and FLC-09 ---------------------------------------------------------------------------------------------


def _needs_every_request(talk: Talk, ack: Message) -> None:
    """Say that it shows only to who has seen the consumer ask for no window: all that may have been such a request."""
    until = talk.messages[: talk.index(ack)]
    talk.needs(*talk.asks(m.OPEN), *(each for each in until if each.side == talk.consumer and each.size >= _REQUEST))


@kind("FLC-06", where=in_streams(m.MUTATION, m.DELETION))
def gives_back_without_window(talk: Talk, message: Message) -> Message | None:
    """A consumer gives bytes back, and never set a window."""
    if any(each.key == b"connection_buffer_size" for each in talk.asks(m.CONTROL)):
        return None
    extras, value = (b"", (100).to_bytes(4)) if talk.early else ((100).to_bytes(4), b"")
    ack = talk.put_behind(message, talk.made(message, talk.consumer, 0x80, m.ACK, extras=extras, value=value))
    _needs_every_request(talk, ack)
    return ack


@kind("FLC-06", where=asks(m.CONTROL))
def window_was_refused(talk: Talk, message: Message) -> Message | None:
    """A consumer gives bytes back though its window was refused."""
    talk.needs_window()
    answer = talk.answer_to(message)
    if message.key != b"connection_buffer_size" or not talk.window() or not talk.acks() or answer is None:
        return None
    answer.number = 0x04
    _needs_every_request(talk, talk.acks()[0])
    return talk.acks()[0]


@kind("FLC-09", where=_acks)
def gives_back_late(talk: Talk, message: Message) -> Message | None:
    """An ack comes long after what it gives back."""
    if not ack_bytes(message):
        return None
    talk.needs_window()
    talk.rest(talk.messages[talk.index(message) - 1], 14)
    return message
