"""Violations of SNP-09 to SNP-13: markers of sync replication, confirmations, brackets, empty snapshots."""

from __future__ import annotations

from itertools import pairwise

from tests.support.power import messages as m
from tests.support.power.kinds import Selector, answers, in_streams, kind, later_markers, needs_request, stream_of
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

SINCE_65 = {0x10, 0x11, 0x12}  #: features of HELLO that no server before 6.5 agrees to


def _put(message: Message, offset: int, number: int) -> None:
    """Write one of a long marker's numbers."""
    message.value = message.value[:offset] + number.to_bytes(8) + message.value[offset + 8 :]


def _long(size: int) -> Selector:
    def select(talk: Talk) -> list[Message]:
        markers = in_streams(m.MARKER)(talk)
        return [each for each in markers if len(each.extras) == 1 and len(each.value) >= size]

    return select


# --- SNP-09 --------------------------------------------------------------------------------------------------------


@kind("SNP-09", where=_long(36))
def visible_beyond_end(_: Talk, message: Message) -> Message:
    """The max visible seqno lies behind the snapshot's end."""
    _put(message, 20, message.last + 5)
    return message


@kind("SNP-09", where=_long(52))
def purged_beyond_end(_: Talk, message: Message) -> Message:
    """The purge seqno lies behind the snapshot's end."""
    _put(message, 36, message.last + 5)
    return message


@kind("SNP-09", where=_long(52))
def prepared_beyond_end(_: Talk, message: Message) -> Message:
    """The high prepared seqno lies behind the snapshot's end."""
    _put(message, 44, message.last + 5)
    return message


@kind("SNP-09", where=_long(36))
def disk_marker_without_completed(talk: Talk, message: Message) -> Message | None:
    """A disk marker of the short form on a connection of sync replication."""
    talk.needs(*(each for each in talk.asks(m.CONTROL) if each.key in (b"enable_sync_writes", b"consumer_name")))
    agreed = talk.agreed(b"enable_sync_writes") and talk.agreed(b"consumer_name")
    if not message.flags & m.DISK or not agreed:
        return None
    message.extras, message.value = message.value[:20], b""
    return message


@kind("SNP-09", where=_long(36))
def completed_goes_back(talk: Talk, message: Message) -> Message | None:
    """The high completed seqno of a disk marker is lower than that of an earlier one."""
    markers = stream_of(talk, message).markers
    before = [each for each in markers[: markers.index(message)] if each.flags & m.DISK and len(each.value) >= 36]
    if not before:
        return None
    message.flags = message.flags & ~m.MEMORY | m.DISK
    talk.needs(before[-1])
    _put(before[-1], 28, max(before[-1].last, 9))
    _put(message, 28, max(before[-1].last, 9) - 3)
    return message


# --- SNP-10 --------------------------------------------------------------------------------------------------------


@kind("SNP-10", where=answers(m.MARKER))
def confirmed_too_early(talk: Talk, message: Message) -> list[Message] | None:
    """A snapshot is confirmed before its last item was received."""
    if talk.early:
        return None
    opaque = message.opaque
    markers = [each for each in talk.asks(m.MARKER) if each.opaque == opaque and each.ranged]
    before = [each for each in markers if each.flags & m.ACKNOWLEDGE and talk.index(each) < talk.index(message)]
    if not before:
        return None
    items = next(items for each, items in stream_of(talk, before[-1]).snapshots() if each is before[-1])
    if len(items) < 3 or talk.index(items[-1]) > talk.index(message):
        return None
    talk.remove(message)
    message.heard = items[0].uid
    message.time = items[0].time
    talk.messages.insert(talk.index(items[0]) + 1, message)
    mine = talk.index(message)
    if any(
        each.side == message.side and talk.index(items[0]) < talk.place(each.heard) for each in talk.messages[:mine]
    ):
        return None
    return [message, before[-1]]


@kind("SNP-10", "OPQ-02", where=answers(m.MARKER))
def never_confirmed(talk: Talk, message: Message) -> list[Message] | None:
    """A snapshot that asked for it is never confirmed."""
    if talk.early:
        return None
    stream = next((each for each in talk.streams() if each.request.opaque == message.opaque), None)
    if stream is None or stream.end is None or stream.end.at(0, 4):
        return None
    asking = [each for each in stream.markers if each.flags & m.ACKNOWLEDGE]
    if not asking or asking[-1] is not stream.markers[-1] or message is not talk.answer_to(asking[-1]):
        return None
    talk.remove(message)
    return [stream.end, asking[-1]]


@kind("SNP-10", "OPQ-01", where=answers(m.MARKER))
def confirmed_twice(talk: Talk, message: Message) -> Message | None:
    """A snapshot is confirmed twice."""
    talk.needs_beginning()
    return None if talk.early else talk.put_behind(message, talk.new(message))


# --- SNP-11 --------------------------------------------------------------------------------------------------------


@kind("SNP-11", where=in_streams(m.OSO))
def bracket_twice(talk: Talk, message: Message) -> Message:
    """An out-of-order snapshot starts, or ends, twice."""
    return talk.put_behind(message, talk.new(message))


@kind("SNP-11", where=in_streams(m.OSO))
def bracket_never_ends(talk: Talk, message: Message) -> list[Message] | None:
    """The end of an out-of-order snapshot is missing: what comes next is inside."""
    messages = stream_of(talk, message).messages
    after = messages[messages.index(message) + 1 :]
    if message.at(0, 4) != 2:
        return None
    talk.remove(message)
    guilty = [each for each in after if each.opcode in (m.MARKER, m.OSO)]
    guilty += [each for each in after if each.opcode == m.STREAM_END and each.at(0, 4) in (0, 2, 4, 6, 7)]
    return guilty[:1]


@kind("SNP-11", where=in_streams(m.MUTATION))
def marker_within_bracket(talk: Talk, message: Message) -> Message | None:
    """A marker comes inside an out-of-order snapshot."""
    stream = stream_of(talk, message)
    before = [each for each in stream.messages[: stream.messages.index(message)] if each.opcode == m.OSO]
    if not before or before[-1].at(0, 4) != 1:
        return None
    extras = (0).to_bytes(8) + (message.seqno + 1000).to_bytes(8) + m.DISK.to_bytes(4)
    marker = talk.made(message, talk.producer, message.magic, m.MARKER, number=message.number, extras=extras)
    marker.framing = message.framing
    return talk.put_behind(message, marker)


# --- SNP-12 and SNP-13 ---------------------------------------------------------------------------------------------


@kind("SNP-12", where=later_markers)
def snapshot_without_items(talk: Talk, message: Message) -> list[Message] | None:
    """All items of a snapshot are missing."""
    needs_request(talk, message)
    stream = stream_of(talk, message)
    marker, items = next(before for before, (here, _) in pairwise(stream.snapshots()) if here is message)
    if len(items) > 60 or stream.filtered or marker.last <= stream.request.at(8):
        return None
    for each in items:
        talk.remove(each)
    return [message, marker]


@kind("SNP-12", where=later_markers)
def marker_twice(talk: Talk, message: Message) -> list[Message] | None:
    """A snapshot of nothing comes before the next."""
    needs_request(talk, message)
    stream = stream_of(talk, message)
    if message.first >= message.last or stream.filtered:
        return None
    items = next(items for each, items in stream.snapshots() if each is message)
    if not items or items[0].seqno <= message.first:
        return None
    empty = talk.new(message)
    empty.last = empty.first
    talk.put_before(message, empty)
    message.first += 1
    return [message, empty]


@kind("SNP-13", where=later_markers)
def no_checkpoint(talk: Talk, message: Message) -> Message | None:
    """Going over between disk and memory, a marker starts no checkpoint."""
    markers = stream_of(talk, message).markers
    before = markers[markers.index(message) - 1]
    talk.needs(before)
    if not talk.hello & SINCE_65 or (before.flags ^ message.flags) & 3 != 3 or not message.flags & m.CHECKPOINT:
        return None
    message.flags &= ~m.CHECKPOINT
    return message


@kind("SNP-13", where=later_markers)
def back_to_disk_without_checkpoint(talk: Talk, message: Message) -> Message | None:
    """A memory snapshot becomes one of disk, and starts no checkpoint."""
    talk.needs_beginning()
    markers = stream_of(talk, message).markers
    before = markers[markers.index(message) - 1]
    talk.needs(before)
    if (
        not talk.hello & SINCE_65
        or before.flags & 3 != m.MEMORY
        or message.flags & 3 != m.MEMORY
        or len(message.extras) == 1
    ):
        return None
    message.flags = m.DISK
    return message
