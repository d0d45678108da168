"""Violations of FOL: failover logs, the ranges of stream requests, and rollbacks."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import answers, kind
from tests.support.power.messages import Message
from tests.support.power.streams import Stream
from tests.support.power.talks import Talk

UNUSED = 902  #: a vbucket that no recording has
SUCCESS, OUT_OF_RANGE, ROLLBACK = 0x00, 0x22, 0x23
NO_END = (1 << 64) - 1
OLD, NEW = 0x0000_1111_2222_3333, 0x0000_4444_5555_6666
START, BRANCH_END = 40, 25
STRICT = 0x20
IN_TURN = (m.STREAM_REQUEST, m.FAILOVER_LOG, m.CLOSE_STREAM, m.CONTROL)


def entry(uuid: int, seqno: int) -> bytes:
    return uuid.to_bytes(8) + seqno.to_bytes(8)


logs = answers(m.STREAM_REQUEST, m.FAILOVER_LOG)


def behind_grants(talk: Talk) -> list[Message]:
    """Places for a stream request: behind the answers that grant one, where nothing waits that comes first."""
    if talk.early:
        return []
    grants = {each.answer.uid for each in talk.streams()}
    found: list[Message] = []
    waiting: set[tuple[int, bytes]] = set()
    for each in talk.messages:
        if each.opcode in IN_TURN and each.request and each.side == talk.consumer:
            waiting.add((each.opcode, each.opaque))
        elif each.response and each.side == talk.producer:
            waiting.discard((each.opcode, each.opaque))
        if each.uid in grants and not waiting:
            found.append(each)
    return found


def asked(
    talk: Talk,
    place: Message,
    number: int,
    *,
    start: int,
    end: int = NO_END,
    uuid: int = 0,
    snapshot: tuple[int, int] | None = None,
    flags: int = 0,
) -> Message:
    """Put a stream request behind a message, for a vbucket of its own."""
    first, last = snapshot or (start, start)
    numbers = b"".join(each.to_bytes(8) for each in (start, end, uuid, first, last))
    request = talk.made(place, talk.consumer, 0x80, m.STREAM_REQUEST, number=UNUSED)
    request.extras = flags.to_bytes(4) + bytes(4) + numbers
    request.opaque = b"\x7e\x5d\x01" + bytes([number])
    return talk.put_behind(place, request)


def told(talk: Talk, request: Message, status: int = SUCCESS, value: bytes = b"") -> Message:
    """Answer a stream request."""
    answer = talk.made(request, talk.producer, 0x81, m.STREAM_REQUEST, number=status, value=value)
    talk.needs(request)
    return talk.put_behind(request, answer)


def log_told(talk: Talk, place: Message, number: int, log: bytes) -> Message:
    """Have the consumer ask for a failover log behind a message, and get it."""
    ask = talk.made(place, talk.consumer, 0x80, m.FAILOVER_LOG, number=UNUSED, opaque=b"\x7e\x5d\x02" + bytes([number]))
    talk.put_behind(place, ask)
    answer = talk.put_behind(ask, talk.made(ask, talk.producer, 0x81, m.FAILOVER_LOG, value=log))
    talk.needs(ask, answer)
    return answer


# --- FOL-01 to 03 --------------------------------------------------------------------------------------------------


@kind("FOL-01", where=logs)
def empty_log(_: Talk, message: Message) -> Message:
    """A failover log without an entry."""
    message.value = b""
    return message


@kind("FOL-01", where=logs)
def log_cut_short(_: Talk, message: Message) -> Message:
    """A failover log whose last entry has 12 bytes."""
    message.value = message.value[:-4]
    return message


@kind("FOL-02", where=logs)
def oldest_first(_: Talk, message: Message) -> Message:
    """An older branch that begins behind the newest one."""
    newest = int.from_bytes(message.value[8:16])
    message.value += entry(OLD, newest + 7)
    return message


@kind("FOL-03", where=logs)
def uuid_twice(_: Talk, message: Message) -> Message:
    """An older branch with the uuid of the newest one."""
    message.value += message.value[:8] + bytes(8)
    return message


@kind("FOL-03", where=logs)
def uuid_zero(_: Talk, message: Message) -> Message:
    """An older branch with uuid 0."""
    message.value += entry(0, 0)
    return message


# --- FOL-04 --------------------------------------------------------------------------------------------------------


@kind("FOL-04", where=behind_grants)
def ends_before_start(talk: Talk, message: Message) -> Message:
    """A stream request that ends before it starts, and is refused."""
    talk.needs(*talk.asks(m.OPEN))
    request = asked(talk, message, 1, start=START, end=START - 1)
    told(talk, request, OUT_OF_RANGE)
    return request


@kind("FOL-04", where=behind_grants)
def starts_outside_snapshot(talk: Talk, message: Message) -> Message:
    """A stream request whose start is not in its snapshot."""
    talk.needs(*talk.asks(m.OPEN))
    request = asked(talk, message, 1, start=START, snapshot=(START + 1, START + 2))
    told(talk, request, OUT_OF_RANGE)
    return request


@kind("FOL-04", where=behind_grants)
def bad_range_granted(talk: Talk, message: Message) -> Message:
    """A stream request that makes no sense is granted."""
    talk.needs(*talk.asks(m.OPEN))
    request = asked(talk, message, 1, start=START, snapshot=(1, START - 1), uuid=OLD)
    return told(talk, request, value=entry(OLD, 0))


@kind("FOL-04", where=behind_grants)
def good_range_refused(talk: Talk, message: Message) -> Message:
    """A stream request from 0 on is out of range."""
    talk.needs(*talk.asks(m.OPEN))
    return told(talk, asked(talk, message, 1, start=0), OUT_OF_RANGE)


# --- FOL-05, 06 and 11 ---------------------------------------------------------------------------------------------

HISTORY = entry(NEW, BRANCH_END) + entry(OLD, 3)


@kind("FOL-05", where=behind_grants)
def rollback_up(talk: Talk, message: Message) -> Message:
    """A rollback to the start itself."""
    talk.needs(*talk.asks(m.OPEN))
    return told(talk, asked(talk, message, 1, start=START, uuid=OLD), ROLLBACK, START.to_bytes(8))


def _between_logs(talk: Talk, place: Message, value: int, **request: int) -> Message:
    """A rollback between two equal logs."""
    talk.needs(*talk.asks(m.OPEN))
    before = log_told(talk, place, 1, HISTORY)
    rollback = told(talk, asked(talk, before, 1, start=START, **request), ROLLBACK, value.to_bytes(8))
    log_told(talk, rollback, 2, HISTORY)
    return rollback


@kind("FOL-05", where=behind_grants)
def rollback_too_far(talk: Talk, message: Message) -> Message:
    """A rollback below the end of the client's branch."""
    return _between_logs(talk, message, BRANCH_END - 5, uuid=OLD)


@kind("FOL-05", where=behind_grants)
def rollback_not_far_enough(talk: Talk, message: Message) -> Message:
    """A rollback beyond the end of the client's branch."""
    return _between_logs(talk, message, BRANCH_END + 5, uuid=OLD)


@kind("FOL-05", where=behind_grants)
def rollback_of_unknown_branch(talk: Talk, message: Message) -> Message:
    """A rollback to somewhere for a uuid that the log does not have."""
    return _between_logs(talk, message, BRANCH_END, uuid=OLD + 1)


@kind("FOL-05", where=behind_grants)
def rollback_below_newest(talk: Talk, message: Message) -> Message:
    """A client on the newest branch is sent back before the beginning of that branch."""
    return _between_logs(talk, message, BRANCH_END - 1, uuid=NEW)


@kind("FOL-05", where=behind_grants)
def granted_on_old_branch(talk: Talk, message: Message) -> Message:
    """A client beyond the end of its branch gets a stream."""
    talk.needs(*talk.asks(m.OPEN))
    return told(talk, asked(talk, message, 1, start=START, uuid=OLD), value=HISTORY)


@kind("FOL-06", where=behind_grants)
def granted_on_unknown_branch(talk: Talk, message: Message) -> Message:
    """A client on a branch that the log does not have gets a stream."""
    talk.needs(*talk.asks(m.OPEN))
    return told(talk, asked(talk, message, 1, start=START, uuid=OLD + 1), value=HISTORY)


@kind("FOL-11", where=behind_grants)
def started_over(talk: Talk, message: Message) -> Message:
    """A client whose branch is in the log is sent back to 0."""
    return _between_logs(talk, message, 0, uuid=OLD)


# --- FOL-07 --------------------------------------------------------------------------------------------------------


@kind("FOL-07", where=behind_grants)
def does_not_go_back(talk: Talk, message: Message) -> Message:
    """A client asks for the same as before its rollback."""
    first = told(talk, asked(talk, message, 1, start=START, uuid=OLD), ROLLBACK, BRANCH_END.to_bytes(8))
    talk.needs(first)
    again = asked(talk, first, 2, start=START, uuid=OLD)
    told(talk, again, ROLLBACK, BRANCH_END.to_bytes(8))
    return again


@kind("FOL-07", where=behind_grants)
def asks_in_vain(talk: Talk, message: Message) -> Message:
    """A client with a strict uuid is sent back from 0 to 0, four times."""
    last = message
    for number in range(4):
        request = asked(talk, last, number, start=0, uuid=OLD, flags=STRICT)
        last = told(talk, request, ROLLBACK, bytes(8))
        talk.needs(last)
    return request


# --- FOL-08 --------------------------------------------------------------------------------------------------------


def _resumed(talk: Talk) -> list[Message]:
    """The answers that begin streams which go on behind the last item of the one before."""
    return [stream.answer for _, stream in _successive(talk)]


def _successive(talk: Talk) -> list[tuple[Stream, Stream]]:
    found, last = [], {}
    for stream in talk.streams():
        before = last.get((stream.vbucket, stream.messages_have_id))
        last[stream.vbucket, stream.messages_have_id] = stream
        if before is None or not before.items or before.out_of_order or stream.stream_flags or not stream.markers:
            continue
        if stream.request.at(8) >= before.items[-1].seqno and stream.markers[0].ranged:
            found.append((before, stream))
    return found


@kind("FOL-08", where=_resumed)
def comes_again(talk: Talk, message: Message) -> Message | None:
    """A stream that goes on begins with the last item of the one before."""
    before, stream = next(each for each in _successive(talk) if each[1].answer is message)
    old = before.items[-1]
    if old.opcode not in m.DOCUMENTS or old.odd:
        return None
    talk.needs(before.request, before.answer, old, stream.request, stream.answer)
    return talk.put_behind(stream.markers[0], talk.new(old, opaque=stream.request.opaque))


@kind("FOL-08", where=_resumed)
def snapshot_of_the_past(talk: Talk, message: Message) -> Message:
    """A stream that goes on begins with a snapshot that ends before it."""
    before, stream = next(each for each in _successive(talk) if each[1].answer is message)
    talk.needs(before.request, before.answer, before.items[-1], stream.request, stream.answer)
    marker = stream.markers[0]
    marker.first, marker.last = min(marker.first, before.items[-1].seqno - 1), before.items[-1].seqno - 1
    return marker
