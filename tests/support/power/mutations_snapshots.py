"""Violations of SNP: markers, the items they announce, and what confirms them."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import in_streams, kind, later_markers, needs_request, plain, ranged, stream_of
from tests.support.power.messages import Message
from tests.support.power.streams import Stream
from tests.support.power.talks import Talk


def _previous(stream: Stream, marker: Message) -> Message:
    markers = stream.markers
    return markers[next(at for at, each in enumerate(markers) if each is marker) - 1]


def _items_of(stream: Stream, marker: Message) -> list[Message]:
    return next(items for each, items in stream.snapshots() if each is marker)


# --- SNP-01 --------------------------------------------------------------------------------------------------------


def _first_markers(talk: Talk) -> list[Message]:
    streams = [each for each in talk.streams() if each.markers and not each.out_of_order]
    return [each.markers[0] for each in streams if not talk.early and each.messages[0] is each.markers[0]]


@kind("SNP-01", where=_first_markers)
def no_first_marker(talk: Talk, message: Message) -> Message | None:
    """The first marker of a stream is missing."""
    talk.needs(stream_of(talk, message).request, stream_of(talk, message).answer)
    items = _items_of(stream_of(talk, message), message)
    talk.remove(message)
    return items[0] if items else None


@kind("SNP-01", where=plain(m.STREAM_END))
def no_last_early_marker(talk: Talk, message: Message) -> list[Message] | None:
    """In the early dialect no marker closes the last items."""
    stream = stream_of(talk, message)
    if not talk.early or message.at(0, 4) or not stream.markers or not stream.items:
        return None
    if stream.messages.index(stream.markers[-1]) < stream.messages.index(stream.items[-1]):
        return None
    last = stream.snapshots()[-2][1] if len(stream.markers) > 1 else stream.items
    talk.remove(stream.markers[-1])
    return [message, *last]


# --- SNP-02 --------------------------------------------------------------------------------------------------------


def _ranged_items(talk: Talk) -> list[Message]:
    found = []
    for stream in talk.streams():
        if not stream.out_of_order:
            found += [each for marker, items in stream.snapshots() if marker.ranged for each in items if not each.odd]
    return found


@kind("SNP-02", where=_ranged_items)
def item_beyond_snapshot(talk: Talk, message: Message) -> Message | None:
    """The last item of a snapshot lies behind its end."""
    talk.needs(*(stream_of(talk, message).snapshot_of(message) or [None])[:1])
    found = stream_of(talk, message).snapshot_of(message)
    if found is None or message is not found[1][-1]:
        return None
    message.seqno = found[0].last + 3
    return message


@kind("SNP-02", where=ranged)
def snapshot_ends_too_early(talk: Talk, message: Message) -> list[Message] | None:
    """A marker's end is lower than the last of its items."""
    talk.needs(message)
    items = _items_of(stream_of(talk, message), message)
    if len(items) < 2 or items[0].seqno >= items[-1].seqno - 1:
        return None
    message.last = items[-1].seqno - 1
    return [items[-1]] if message.first <= message.last else None


@kind("SNP-02", where=later_markers)
def snapshot_starts_too_late(talk: Talk, message: Message) -> Message | None:
    """A marker's start is higher than the first of its items."""
    talk.needs(message)
    items = _items_of(stream_of(talk, message), message)
    if len(items) < 2 or items[0].seqno >= message.last:
        return None
    message.first = items[0].seqno + 1
    return items[0]


# --- SNP-03 and SNP-04 ---------------------------------------------------------------------------------------------


@kind("SNP-03", where=ranged)
def ends_before_start(_: Talk, message: Message) -> Message | None:
    """A marker whose start and end are swapped."""
    if message.first == message.last:
        return None
    message.first, message.last = message.last, message.first
    return message


@kind("SNP-03", where=later_markers)
def starts_behind_end(_: Talk, message: Message) -> Message:
    """A marker that starts right behind its end."""
    message.first = message.last + 1
    return message


@kind("SNP-04", where=later_markers)
def starts_at_previous_end(talk: Talk, message: Message) -> Message:
    """A marker that starts at the end of the one before."""
    needs_request(talk, message)
    talk.needs(_previous(stream_of(talk, message), message))
    message.first = _previous(stream_of(talk, message), message).last
    return message


@kind("SNP-04", where=later_markers)
def starts_within_previous(talk: Talk, message: Message) -> Message | None:
    """A marker that starts at the start of the one before."""
    needs_request(talk, message)
    talk.needs(_previous(stream_of(talk, message), message))
    message.first = _previous(stream_of(talk, message), message).first
    return message


# --- SNP-05 --------------------------------------------------------------------------------------------------------


@kind("SNP-05", where=lambda talk: [each for each in _ranged_items(talk) if each.opcode in m.DOCUMENTS])
def key_twice(talk: Talk, message: Message) -> Message | None:
    """A snapshot has the key of an earlier item again."""
    needs_request(talk, message)
    found = stream_of(talk, message).snapshot_of(message)
    if found is None or found[0].flags & m.DUPLICATES or message.opcode not in (m.MUTATION, m.DELETION, m.EXPIRATION):
        return None
    twins = [each for each in found[1] if each.opcode == m.MUTATION and each.seqno < message.seqno and not each.odd]
    if not twins or twins[-1].key == message.key:
        return None
    talk.needs(twins[-1], found[0])
    message.key = twins[-1].key
    message.revision, message.cas = twins[-1].revision + 1, max(message.cas, twins[-1].cas + 0x10000)
    return message


@kind("SNP-05", where=in_streams(m.MUTATION, m.DELETION))
def key_twice_out_of_order(talk: Talk, message: Message) -> Message | None:
    """An out-of-order snapshot has a key twice."""
    stream = stream_of(talk, message)
    inside: list[Message] = []
    for each in stream.messages:
        if each.opcode == m.OSO:
            inside = []
            started = each.at(0, 4) == 1
        elif each is message:
            if not stream.out_of_order or not inside or not started:
                return None
            talk.needs(inside[-1])
            message.key = inside[-1].key
            return message
        elif each.opcode == m.MUTATION and not each.odd:
            inside.append(each)
    return None


@kind("SNP-05", where=plain(m.MUTATION, m.DELETION))
def key_twice_early(talk: Talk, message: Message) -> Message | None:
    """In the early dialect a key comes twice before the first marker."""
    stream = stream_of(talk, message)
    before = stream.messages[: stream.messages.index(message)]
    if not talk.early or any(each.opcode == m.MARKER for each in before) or not before or not stream.markers:
        return None
    talk.needs(before[0], stream.request, stream.answer)
    message.key = before[0].key
    return message


# --- SNP-06 --------------------------------------------------------------------------------------------------------


def _judged(talk: Talk, stream: Stream) -> bool:
    """Filtered streams stop short before 7.0; in the early dialect markers have no range."""
    return not stream.filtered and not talk.early


@kind("SNP-06", where=later_markers)
def last_item_missing(talk: Talk, message: Message) -> Message | None:
    """A snapshot's last item never comes."""
    needs_request(talk, message)
    talk.needs(_previous(stream_of(talk, message), message))
    stream = stream_of(talk, message)
    items = _items_of(stream, _previous(stream, message))
    if len(items) < 2 or not _judged(talk, stream):
        return None
    talk.remove(items[-1])
    return message


@kind("SNP-06", where=later_markers)
def end_never_reached(talk: Talk, message: Message) -> Message | None:
    """A snapshot announces more than comes, and the next one starts behind it."""
    needs_request(talk, message)
    talk.needs(_previous(stream_of(talk, message), message))
    stream = stream_of(talk, message)
    before = _previous(stream, message)
    if message.first >= message.last or not _judged(talk, stream) or not _items_of(stream, before):
        return None
    items = _items_of(stream, message)
    if not items or items[0].seqno <= message.first:
        return None
    before.last = message.first
    message.first += 1
    return message


@kind("SNP-06", where=plain(m.STREAM_END))
def stream_ends_within_snapshot(talk: Talk, message: Message) -> Message | None:
    """The stream ends without trouble before its last snapshot is complete."""
    needs_request(talk, message)
    talk.needs(*stream_of(talk, message).markers[-1:], stream_of(talk, message).request)
    stream = stream_of(talk, message)
    if not stream.markers or not stream.markers[-1].ranged or message.at(0, 4) or not _judged(talk, stream):
        return None
    items = _items_of(stream, stream.markers[-1])
    last = stream.markers[-1].last
    if len(items) < 2 or stream.request.at(16) < last or stream.stream_flags & 6 or items[-1].seqno != last:
        return None
    talk.remove(items[-1])
    return message


# --- SNP-07 --------------------------------------------------------------------------------------------------------


@kind("SNP-07", where=_first_markers)
def first_marker_reaches_back(talk: Talk, message: Message) -> Message | None:
    """The first marker starts below the snapshot that was asked for."""
    talk.needs(stream_of(talk, message).request, stream_of(talk, message).answer)
    stream = stream_of(talk, message)
    asked = stream.request.at(32)
    if not message.ranged or message.first != asked or stream.stream_flags & 0x140:
        return None
    if asked:
        message.first -= 1
        return message
    items = _items_of(stream, message)
    if not items or items[0].seqno < 3:
        return None
    for offset in (8, 32, 40):  # ask for one more than the marker starts at
        stream.request.put(offset, 1)
    return message


@kind("SNP-07", where=_first_markers)
def first_marker_within_request(talk: Talk, message: Message) -> Message | None:
    """The first marker starts inside the snapshot that was asked for."""
    talk.needs(stream_of(talk, message).request, stream_of(talk, message).answer)
    stream = stream_of(talk, message)
    start, asked = stream.request.at(8), stream.request.at(32)
    if not message.ranged or message.first != asked or start <= asked or stream.stream_flags & 0x140:
        return None
    message.first = asked + 1
    return message


# --- SNP-08 --------------------------------------------------------------------------------------------------------


@kind("SNP-08", where=ranged)
def memory_and_disk(_: Talk, message: Message) -> Message:
    """A marker that is of memory and of disk."""
    message.flags |= m.MEMORY | m.DISK
    return message


@kind("SNP-08", where=later_markers)
def neither_memory_nor_disk(_: Talk, message: Message) -> Message:
    """A marker that is neither of memory nor of disk."""
    message.flags &= ~(m.MEMORY | m.DISK)
    return message


@kind("SNP-08", where=ranged)
def duplicates_without_history(_: Talk, message: Message) -> Message | None:
    """A marker that may contain duplicates, without history."""
    if message.flags & m.HISTORY:
        return None
    message.flags |= m.DUPLICATES
    return message


@kind("SNP-08", where=ranged)
def history_that_nobody_wanted(talk: Talk, message: Message) -> Message | None:
    """A marker of history where change streams were not asked for."""
    talk.needs_beginning()
    if talk.agreed(b"change_streams"):
        return None
    message.flags |= m.HISTORY
    return message


@kind("SNP-08", where=ranged)
def confirmation_without_takeover(talk: Talk, message: Message) -> Message | None:
    """A marker that asks for a confirmation on a stream that is no takeover."""
    talk.needs(stream_of(talk, message).request, stream_of(talk, message).answer)
    if stream_of(talk, message).stream_flags & 1:
        return None
    message.flags |= m.ACKNOWLEDGE
    return message
