"""Violations of SEQ-08 to SEQ-10: prepares, what completes them, and what replicas acknowledge."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import asks, in_streams, kind, stream_of
from tests.support.power.messages import Message
from tests.support.power.streams import Stream
from tests.support.power.talks import Talk


def _in_memory(stream: Stream, item: Message) -> bool:
    """Whether an item lies in a memory snapshot: from disk, prepares may be replaced."""
    found = stream.snapshot_of(item)
    return found is not None and found[0].flags & 3 == m.MEMORY


def _disk_end(stream: Stream, item: Message) -> int:
    """The end of the last disk snapshot before an item."""
    before = stream.messages[: stream.messages.index(item)]
    return max((each.last for each in before if each.opcode == m.MARKER and each.flags & m.DISK), default=0)


def _prepare_of(stream: Stream, completion: Message) -> Message | None:
    """The prepare that a commit or an abort names, where it came in memory in the same stream."""
    same = [each for each in stream.items if each.opcode == m.PREPARE and each.seqno == completion.at(0)]
    floor = max(_disk_end(stream, completion), stream.request.at(8))
    return same[0] if same and _in_memory(stream, same[0]) and same[0].seqno > floor else None


@kind("SEQ-08", where=in_streams(m.COMMIT, m.ABORT))
def completes_what_comes_later(_: Talk, message: Message) -> Message:
    """A commit of a prepare whose seqno is not below its own."""
    message.put(0, message.seqno + 1)
    return message


@kind("SEQ-08", where=in_streams(m.COMMIT, m.ABORT))
def completes_other_key(talk: Talk, message: Message) -> Message | None:
    """A commit of another key than its prepare's."""
    talk.needs(_prepare_of(stream_of(talk, message), message))
    if _prepare_of(stream_of(talk, message), message) is None:
        return None
    message.key += b"-other"
    return message


@kind("SEQ-08", where=in_streams(m.COMMIT, m.ABORT))
def completed_twice(talk: Talk, message: Message) -> Message | None:
    """A prepare is completed twice."""
    talk.needs(_prepare_of(stream_of(talk, message), message))
    stream = stream_of(talk, message)
    found = stream.snapshot_of(message)
    if _prepare_of(stream, message) is None or found is None or message is not found[1][-1]:
        return None
    twin = talk.new(message)
    twin.seqno += 1
    if any(marker.first <= twin.seqno for marker in stream.markers[stream.markers.index(found[0]) + 1 :]):
        return None
    found[0].last = max(found[0].last, twin.seqno)
    return talk.put_behind(message, twin)


@kind("SEQ-08", where=in_streams(m.COMMIT, m.ABORT))
def completes_wrong_prepare(talk: Talk, message: Message) -> Message | None:
    """A commit names a seqno at which another document lies."""
    talk.needs(_prepare_of(stream_of(talk, message), message))
    stream = stream_of(talk, message)
    prepare = _prepare_of(stream, message)
    floor = max(_disk_end(stream, message), stream.request.at(8))
    others = [each for each in stream.items if floor < each.seqno < message.seqno and each.key != message.key]
    if prepare is None or not others:
        return None
    message.put(0, others[-1].seqno)
    return message


@kind("SEQ-09", where=in_streams(m.PREPARE))
def prepared_twice(talk: Talk, message: Message) -> Message | None:
    """A key is prepared again before its prepare is completed."""
    stream = stream_of(talk, message)
    found = stream.snapshot_of(message)
    if found is None or not _in_memory(stream, message) or found[0].flags & m.DISK:
        return None
    floor = max(_disk_end(stream, message), stream.request.at(8))
    done = {each.at(0) for each in stream.items if each.opcode in (m.COMMIT, m.ABORT) and each.seqno < message.seqno}
    before = [each for each in stream.items if each.opcode == m.PREPARE and floor < each.seqno < message.seqno]
    before = [each for each in before if not any(each is other for other in found[1])]
    for old in reversed(before):
        ends = [each for each in stream.items if each.opcode in (m.COMMIT, m.ABORT) and each.at(0) == old.seqno]
        later = [each for each in stream.items if old.seqno < each.seqno < message.seqno and each.key == old.key]
        if old.seqno in done and [each for each in later if each not in ends]:
            continue
        talk.needs(old)
        for each in ends:  # the completion becomes a write of another key
            if each.seqno < message.seqno:
                each.key += b"-elsewhere"
        completions = [
            each for each in stream.items if each.opcode in (m.COMMIT, m.ABORT) and each.at(0) == message.seqno
        ]
        for each in (message, *completions):
            each.key = old.key
        return message
    return None


def _acknowledged(talk: Talk) -> list[Message]:
    return [each for each in asks(m.SEQNO_ACK)(talk) if _stream(talk, each) is not None]


def _stream(talk: Talk, ack: Message) -> Stream | None:
    at = talk.index(ack)
    same = [each for each in talk.streams() if each.vbucket == ack.number and talk.index(each.answer) < at]
    return same[-1] if same else None


@kind("SEQ-10", where=_acknowledged)
def acknowledged_backwards(talk: Talk, message: Message) -> Message | None:
    """A replica acknowledges less than before."""
    stream = _stream(talk, message)
    if stream is None:
        return None
    mine = [each for each in talk.asks(m.SEQNO_ACK) if _stream(talk, each) is stream or each.number == message.number]
    before = [each for each in mine if talk.index(stream.answer) < talk.index(each) < talk.index(message)]
    if not before or before[-1].at(0) < 2:
        return None
    talk.needs(before[-1])
    message.put(0, before[-1].at(0) - 1)
    return message


@kind("SEQ-10", where=_acknowledged)
def acknowledged_ahead(talk: Talk, message: Message) -> Message | None:
    """A replica acknowledges what was not sent yet."""
    stream = _stream(talk, message)
    if stream is None or not stream.items:
        return None
    message.put(0, max(each.seqno for each in stream.items) + 100)
    return message


@kind("SEQ-10", where=_acknowledged)
def acknowledged_once_more(talk: Talk, message: Message) -> Message | None:
    """A replica acknowledges a seqno again that is below its last one."""
    if message.at(0) < 3:
        return None
    twin = talk.new(message)
    twin.put(0, message.at(0) - 2)
    return talk.put_behind(message, twin)
