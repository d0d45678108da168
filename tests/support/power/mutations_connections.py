"""Violations of CON-01 to 07 and 09: how connections are opened, who sends what, and what was agreed upon."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import answers, asks, in_streams, kind
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

UNUSED = b"\xe5\xe6\xe7\xe8"
INVALID, NO_ACCESS, NOT_SUPPORTED, NO_STREAM = 0x04, 0x24, 0x83, 0x0A
DELETE_TIMES, NO_VALUE, XATTRS, KEEP_DATATYPE, DELETED_XATTRS = 0x20, 0x08, 0x04, 0x40, 0x100
SASL_AUTH = 0x21


def _first_open(talk: Talk) -> Message | None:
    opens = talk.asks(m.OPEN)
    granted = [each for each in opens if (answer := talk.answer_to(each)) is not None and not answer.number]
    return opens[0] if len(opens) == 1 == len(granted) else None


# --- CON-01, CON-02 ------------------------------------------------------------------------------------------------


@kind("CON-01", where=asks(m.OPEN))
def control_before_open(talk: Talk, message: Message) -> list[Message]:
    """A control comes before the open, and is refused."""
    if _first_open(talk) is None:
        return []
    talk.needs_beginning()
    early = talk.made(message, message.side, 0x80, m.CONTROL, opaque=UNUSED, key=b"set_priority", value=b"low")
    early.heard = message.heard
    talk.put_before(message, early)
    talk.put_behind(early, talk.made(early, 1 - message.side, 0x81, m.CONTROL, opaque=UNUSED, number=INVALID))
    return [early]


@kind("CON-01", where=answers(m.OPEN))
def open_refused_and_streams(talk: Talk, message: Message) -> list[Message]:
    """The open is refused, and the connection goes on as if it had been granted."""
    if _first_open(talk) is None:
        return []
    granted = [each for each in talk.behind(message, message.side) if each.response and not each.number]
    wanted = (m.CONTROL, m.STREAM_REQUEST, m.FAILOVER_LOG)
    guilty = next((each for each in granted if each.opcode in wanted), None)
    if guilty is None:
        return []
    talk.needs(*talk.asks(m.OPEN), message)
    message.number = INVALID
    return [guilty]


@kind("CON-02", where=in_streams(m.MUTATION, m.MARKER))
def second_open(talk: Talk, message: Message) -> list[Message]:
    """The connection is opened again while it streams."""
    first = _first_open(talk)
    if first is None:
        return []
    talk.needs(first, talk.answer_to(first))
    again = talk.new(first, opaque=UNUSED, side=first.side)
    talk.put_behind(message, again)
    talk.put_behind(again, talk.made(again, 1 - first.side, 0x81, m.OPEN, opaque=UNUSED, number=INVALID))
    return [again]


# --- CON-03, CON-04 ------------------------------------------------------------------------------------------------


@kind("CON-03", where=in_streams(m.MUTATION, m.DELETION))
def producer_asks_for_a_stream(talk: Talk, message: Message) -> list[Message]:
    """The side that produces sends a stream request."""
    first = _first_open(talk)
    asked = talk.asks(m.STREAM_REQUEST)
    if first is None or not asked:
        return []
    talk.needs(first)
    return [talk.put_behind(message, talk.new(asked[0], side=talk.producer, opaque=UNUSED, number=1021))]


@kind("CON-03", where=in_streams(m.MUTATION, m.DELETION))
def producer_gives_bytes_back(talk: Talk, message: Message) -> list[Message]:
    """The side that produces sends a buffer ack."""
    first = _first_open(talk)
    if first is None or talk.early:
        return []
    talk.needs(first)
    ack = talk.made(message, talk.producer, 0x80, m.ACK, opaque=UNUSED, extras=(99).to_bytes(4), kept=True)
    return [talk.put_behind(message, ack)]


@kind("CON-03", where=answers(m.FAILOVER_LOG, m.CONTROL))
def consumer_sends_a_noop(talk: Talk, message: Message) -> list[Message]:
    """The side that consumes sends a no-op."""
    first = _first_open(talk)
    if first is None or message.side != talk.producer:
        return []
    talk.needs(first)
    return [talk.put_behind(message, talk.made(message, talk.consumer, 0x80, m.NOOP, opaque=UNUSED))]


@kind("CON-03", where=answers(m.FAILOVER_LOG, m.CONTROL))
def stream_added_at_a_producer(talk: Talk, message: Message) -> list[Message]:
    """A client sends an add stream to a producer."""
    first = _first_open(talk)
    if first is None or message.side != talk.producer or first.side != talk.consumer:
        return []
    talk.needs(first)
    added = talk.made(message, talk.consumer, 0x80, m.ADD_STREAM, opaque=UNUSED, extras=bytes(4), number=1021)
    return [talk.put_behind(message, added)]


@kind("CON-04", where=answers(m.OPEN))
def hello_behind_the_open(talk: Talk, message: Message) -> list[Message]:
    """A HELLO comes when the connection is open already."""
    if _first_open(talk) is None or not talk.modern:
        return []
    talk.needs(*talk.asks(m.OPEN))
    before = next(each for each in talk.messages if each.opcode == m.HELLO and each.request)
    granted = talk.answer_to(before)
    if granted is None:
        return []
    late = talk.new(before, opaque=UNUSED)
    talk.put_behind(message, late)
    talk.put_behind(late, talk.new(granted, opaque=UNUSED))
    return [late]


@kind("CON-04", where=answers(m.OPEN))
def login_behind_the_open(talk: Talk, message: Message) -> list[Message]:
    """A log-in comes when the connection is open already."""
    if _first_open(talk) is None or not talk.modern:
        return []
    talk.needs(*talk.asks(m.OPEN))
    auth = talk.made(message, 1 - message.side, 0x80, SASL_AUTH, opaque=UNUSED, key=b"PLAIN", value=b"\0a\0b")
    talk.put_behind(message, auth)
    talk.put_behind(auth, talk.made(auth, message.side, 0x81, SASL_AUTH, opaque=UNUSED))
    return [auth]


@kind("CON-04", where=asks(m.OPEN))
def open_without_login(talk: Talk, message: Message) -> list[Message]:
    """An open is refused for want of a log-in, and tried again."""
    if _first_open(talk) is None or talk.early:
        return []
    early = talk.new(message, opaque=UNUSED)
    talk.put_before(message, early)
    refusal = talk.made(early, 1 - message.side, 0x81, m.OPEN, opaque=UNUSED, number=NO_ACCESS)
    talk.put_behind(early, refusal)
    talk.needs(refusal)
    return [early]


# --- CON-05, CON-07 ------------------------------------------------------------------------------------------------


def _uses(talk: Talk, control: bytes) -> list[Message]:
    """The messages that a granted control is needed for, in their order."""
    fits = {
        b"enable_noop": lambda each: each.opcode == m.NOOP and each.request,
        b"enable_expiry_opcode": lambda each: each.opcode == m.EXPIRATION and len(each.extras) == 20,
        b"enable_stream_id": lambda each: each.stream_id > 0 and each.request and not each.odd,
        b"enable_sync_writes": lambda each: (
            each.opcode in (m.PREPARE, m.COMMIT, m.ABORT, m.SEQNO_ACK)
            or (each.opcode == m.MARKER and each.request and each.extras == b"\0")
        ),
        b"consumer_name": lambda each: (
            (each.opcode == m.SEQNO_ACK and each.request)
            or (each.opcode == m.MARKER and each.request and each.extras == b"\0")
        ),
        b"enable_out_of_order_snapshots": lambda each: each.opcode == m.OSO,
        b"flatbuffers_system_events": lambda each: each.opcode == m.EVENT and each.extras[12:13] == b"\2",
        b"max_marker_version": lambda each: each.opcode == m.MARKER and each.request and each.extras == b"\2",
    }
    return [each for each in talk.messages if fits[control](each)] if control in fits else []


def _features(talk: Talk) -> list[Message]:
    """The controls that were granted, asked for once, and that messages need."""
    asked = talk.asks(m.CONTROL)
    once = [each for each in asked if sum(other.key == each.key for other in asked) == 1]
    return [each for each in once if talk.agreed(each.key) is not None and _uses(talk, each.key)]


@kind("CON-05", where=_features)
def used_without_asking(talk: Talk, message: Message) -> list[Message]:
    """A control is left out, and what it stands for is used."""
    guilty = _uses(talk, message.key)
    talk.needs_beginning()
    answer = talk.answer_to(message)
    assert answer is not None
    talk.remove(answer)
    talk.remove(message)
    return guilty


@kind("CON-07", "CON-05", where=_features)
def used_though_refused(talk: Talk, message: Message) -> list[Message]:
    """A control is refused, and what it stands for is used."""
    guilty = _uses(talk, message.key)
    answer = talk.answer_to(message)
    assert answer is not None
    talk.needs(message, answer)
    answer.number = NOT_SUPPORTED
    return guilty


@kind("CON-05", where=in_streams(m.DELETION))
def deletion_of_the_other_form(talk: Talk, message: Message) -> list[Message]:
    """The open says nothing of delete times, and deletions have them; or the reverse."""
    first = _first_open(talk)
    if first is None or 0x12 in talk.hello or talk.early or len(message.extras) not in (18, 21):
        return []
    talk.needs(first, talk.answer_to(first))
    first.put(4, first.at(4, 4) ^ DELETE_TIMES, 4)
    wrong = 21 if talk.open_flags & DELETE_TIMES else 18
    return [each for each in talk.messages if each.opcode == m.DELETION and len(each.extras) == wrong]


@kind("CON-05", "CON-07", where=in_streams(m.MUTATION, m.DELETION))
def compressed_without_hello(talk: Talk, message: Message) -> list[Message]:
    """HELLO grants no snappy, and a value is compressed."""
    hellos = [each for each in talk.messages if each.opcode == m.HELLO]
    if not hellos or not message.datatype & 2:
        return []
    talk.needs(*talk.asks(m.OPEN), *hellos)
    for each in hellos:
        pairs = [each.value[at : at + 2] for at in range(0, len(each.value), 2)]
        each.value = b"".join(pair for pair in pairs if pair != b"\0\x0a")
    return [each for each in talk.messages if each.opcode in m.REVISED and each.datatype & 2]


@kind("CON-05", where=answers(m.CLOSE_STREAM))
def status_of_seven(talk: Talk, message: Message) -> list[Message]:
    """A close is answered with a status that nobody asked for."""
    if talk.agreed(b"v7_dcp_status_codes") is not None or talk.early:
        return []
    talk.needs_beginning()
    message.number = NO_STREAM
    return [message]


@kind("CON-05", where=in_streams(m.CACHE))
def cache_transfer_without_asking(talk: Talk, message: Message) -> list[Message]:
    """A cache transfer comes on a stream whose request does not want one."""
    stream = talk.stream_of(message)
    assert stream is not None
    talk.needs(stream.request, stream.answer)
    stream.request.put(0, stream.request.at(0, 4) & ~0x100, 4)
    return [each for each in stream.messages if each.opcode in (m.CACHE, m.CACHE_END)]


# --- CON-06 --------------------------------------------------------------------------------------------------------


@kind("CON-06", where=in_streams(m.MUTATION))
def value_though_none_is_wanted(talk: Talk, message: Message) -> list[Message]:
    """A mutation has a document on a connection that was opened without values."""
    first = _first_open(talk)
    if first is None or not talk.open_flags & (NO_VALUE | KEEP_DATATYPE) or message.value:
        return []
    talk.needs(first, talk.answer_to(first))
    message.value, message.datatype = b'{"n":1}', 1
    return [message]


@kind("CON-06", where=in_streams(m.MUTATION))
def xattrs_though_none_are_wanted(talk: Talk, message: Message) -> list[Message]:
    """A mutation has xattrs on a connection that was opened without them."""
    first = _first_open(talk)
    if first is None or talk.early or talk.open_flags & (XATTRS | NO_VALUE | KEEP_DATATYPE) or not talk.open_flags & 1:
        return []
    if message.datatype & 2:
        return []
    talk.needs(first, talk.answer_to(first))
    pair = b"_sync\0{}\0"
    section = len(pair).to_bytes(4) + pair
    message.value = len(section).to_bytes(4) + section + message.value
    message.datatype |= 4
    return [message]


# --- CON-09 --------------------------------------------------------------------------------------------------------


@kind("CON-09", where=asks(m.STREAM_REQUEST))
def stream_before_controls_are_answered(talk: Talk, message: Message) -> list[Message]:
    """The consumer of a server asks for a stream while a control waits for its answer."""
    first = _first_open(talk)
    if first is None or message.side == first.side or talk.agreed(b"v7_dcp_status_codes") is None:
        return []
    asked = [each for each in talk.asks(m.CONTROL) if talk.index(each) < talk.index(message)]
    answer = talk.answer_to(asked[-1]) if asked else None
    if answer is None:
        return []
    talk.needs(first, *asked, answer)
    talk.remove(answer)
    answer.uid = max(each.uid for each in talk.messages) + 1
    talk.put_behind(message, answer)
    return [message]
