"""Violations of SEQ: seqnos, revisions, CAS values, sync writes."""

from __future__ import annotations

from tests.support.power import messages as m
from tests.support.power.kinds import in_streams, kind, later_markers, plain, stream_of
from tests.support.power.messages import Message
from tests.support.power.streams import Stream
from tests.support.power.talks import Talk

DAY = 86_400 * 1_000_000_000


def _before(stream: Stream, item: Message) -> Message | None:
    """The item before one."""
    items = stream.items
    at = next(at for at, each in enumerate(items) if each is item)
    return items[at - 1] if at else None


# --- SEQ-01 and SEQ-02 ---------------------------------------------------------------------------------------------


@kind("SEQ-01", where=plain(*m.DATA))
def seqno_again(talk: Talk, message: Message) -> Message | None:
    """An item has the seqno of the one before."""
    talk.needs(_before(stream_of(talk, message), message))
    before = _before(stream_of(talk, message), message)
    if before is None or (message.opcode in (m.COMMIT, m.ABORT) and message.at(0) >= before.seqno):
        return None
    message.seqno = before.seqno
    return message


@kind("SEQ-01", "SNP-02", where=plain(m.MUTATION, m.DELETION, m.EXPIRATION))
def seqno_goes_back(talk: Talk, message: Message) -> Message | None:
    """An item has a seqno far below the one before."""
    talk.needs(_before(stream_of(talk, message), message))
    before = _before(stream_of(talk, message), message)
    if before is None or before.seqno < 4:
        return None
    message.seqno = before.seqno - 2
    return message


@kind("SEQ-01", where=plain(m.MUTATION, m.DELETION))
def items_swapped(talk: Talk, message: Message) -> Message | None:
    """Two items of one snapshot come in the wrong order."""
    found = stream_of(talk, message).snapshot_of(message)
    at = found[1].index(message) if found else 0
    if found is None or at == 0 or found[1][at - 1].opcode != message.opcode or found[1][at - 1].odd:
        return None
    other = found[1][at - 1]
    for name in ("extras", "key", "value", "cas", "datatype"):
        mine, theirs = getattr(message, name), getattr(other, name)
        setattr(message, name, theirs)
        setattr(other, name, mine)
    return message


@kind("SEQ-01", "SNP-05", where=plain(m.MUTATION, m.DELETION, m.EXPIRATION))
def item_sent_twice(talk: Talk, message: Message) -> Message:
    """An item comes twice."""
    return talk.put_behind(message, talk.new(message))


def _first_items(talk: Talk) -> list[Message]:
    streams = [each for each in talk.streams() if each.items and not each.out_of_order]
    return [each.items[0] for each in streams if not each.stream_flags & 0x40]


@kind("SEQ-02", where=_first_items)
def first_item_not_behind_start(talk: Talk, message: Message) -> Message | None:
    """The first item has the seqno that the request starts at."""
    talk.needs(stream_of(talk, message).request, stream_of(talk, message).answer)
    stream = stream_of(talk, message)
    if message.opcode in (m.COMMIT, m.ABORT):
        return None
    if stream.request.at(8):
        message.seqno = stream.request.at(8)
        return message
    stream.request.put(8, message.seqno)
    if len(stream.request.extras) == 48:
        stream.request.put(40, max(message.seqno, stream.request.at(40)))
    return message if stream.request.at(16) > message.seqno else None


# --- SEQ-03 --------------------------------------------------------------------------------------------------------


@kind("SEQ-03", where=in_streams(m.STREAM_END))
def ends_before_requested_end(talk: Talk, message: Message) -> Message | None:
    """A stream ends without trouble, and more was asked for."""
    talk.needs(stream_of(talk, message).request, stream_of(talk, message).answer)
    stream = stream_of(talk, message)
    if message.at(0, 4) or stream.stream_flags & 0x107 or stream.filtered or not stream.items:
        return None
    if talk.modern and not talk.agreed(b"enable_sync_writes"):
        return None  # what was left out at the end may have been prepares
    ends = [each.last for each in stream.markers if each.ranged]
    stream.request.put(16, max([stream.items[-1].seqno, *ends]) + 500)
    return message


@kind("SEQ-03", where=later_markers)
def starts_behind_requested_end(talk: Talk, message: Message) -> Message | None:
    """A snapshot starts behind the end that was asked for."""
    talk.needs(stream_of(talk, message).request, stream_of(talk, message).answer)
    stream = stream_of(talk, message)
    before = stream.markers[stream.markers.index(message) - 1]
    if stream.stream_flags & 0x147 or not before.ranged:
        return None
    stream.request.put(16, before.last)
    return message


# --- SEQ-04 to SEQ-06 ----------------------------------------------------------------------------------------------


def _revised(talk: Talk) -> list[tuple[Message, Message]]:
    """Items whose document came before in the stream, with that version."""
    found = []
    for stream in talk.streams():
        seen: dict[bytes, Message] = {}
        for each in stream.items:
            if each.opcode in (m.MUTATION, m.DELETION, m.EXPIRATION) and not stream.out_of_order:
                before = seen.get(each.key)
                if before is not None and before.opcode == m.MUTATION:
                    found.append((each, before))
                seen[each.key] = each
    return found


def _with_before(talk: Talk) -> list[Message]:
    """Items whose document came before; on connections without any, items that can be made so."""
    if talk.open_flags & 0x08:
        return []
    found = [each for each, _ in _revised(talk)]
    return found or [
        each for stream in talk.streams() for marker, items in stream.snapshots()[1:] for each in items[:1]
    ]


def _made_revision(talk: Talk, message: Message) -> Message | None:
    """The earlier version of an item's document; where there is none the item becomes one of an earlier document."""
    before = next((old for new, old in _revised(talk) if new is message), None)
    if before is not None:
        talk.needs(before)
        return before
    stream = stream_of(talk, message)
    snapshots = stream.snapshots()
    at = next((at for at, (_, items) in enumerate(snapshots) if message in items), 0)
    olds = [each for _, items in snapshots[:at] for each in items if each.opcode == m.MUTATION]
    if not at or message.opcode != m.MUTATION or not olds or talk.early or stream.out_of_order:
        return None
    talk.needs(olds[-1])
    message.key = olds[-1].key
    return olds[-1]


@kind("SEQ-04", where=_with_before)
def revision_goes_back(talk: Talk, message: Message) -> Message | None:
    """A later version of a document has a lower revision."""
    before = _made_revision(talk, message)
    if before is None or before.seqno < 8:
        return None
    before.revision = 5
    message.revision = 3
    return message


@kind("SEQ-04", where=_with_before)
def revision_again(talk: Talk, message: Message) -> Message | None:
    """A later version of a document has the same revision."""
    before = _made_revision(talk, message)
    if before is None:
        return None
    message.revision = before.revision
    return message


@kind("SEQ-05", where=_with_before)
def cas_goes_back(talk: Talk, message: Message) -> Message | None:
    """A later version of a document has a lower CAS."""
    before = _made_revision(talk, message)
    clock = before is not None and before.cas > 1_500_000_000 * 1_000_000_000
    if before is None or not clock or not (talk.modern or "11_" in talk.name):
        return None
    message.revision = before.revision + 1
    message.cas = before.cas - 0x100000
    return message


@kind("SEQ-06", "FRM-07", where=in_streams(m.DELETION, m.EXPIRATION, m.MUTATION))
def cas_of_zero(talk: Talk, message: Message) -> Message | None:
    """A document with CAS 0."""
    if not talk.modern or talk.open_flags & 0x08:
        return None
    message.cas = 0
    return message


@kind("SEQ-06", where=in_streams(m.MUTATION, m.DELETION, m.PREPARE))
def cas_of_all_ones(talk: Talk, message: Message) -> Message | None:
    """A document with a CAS of all ones."""
    message.cas = (1 << 64) - 1
    return message if talk.modern and not talk.open_flags & 0x08 else None


@kind("SEQ-06", where=in_streams(m.MUTATION, m.DELETION, m.PREPARE))
def cas_of_the_future(talk: Talk, message: Message) -> Message | None:
    """A document with a CAS that is days ahead of the capture."""
    message.cas = int(message.time) * 1_000_000_000 + 40 * DAY
    return message if talk.modern and not talk.open_flags & 0x08 else None


# --- SEQ-07 --------------------------------------------------------------------------------------------------------


@kind("SEQ-07", where=plain(m.MUTATION, m.DELETION, m.PREPARE, m.EVENT))
def seqno_of_zero(_: Talk, message: Message) -> Message:
    """An item with seqno 0."""
    message.seqno = 0
    return message


@kind("SEQ-07", where=plain(m.MUTATION, m.DELETION, m.PREPARE))
def absurd_seqno(_: Talk, message: Message) -> Message:
    """An item with a seqno that no vbucket reaches."""
    message.seqno += 1 << 50
    return message


# --- SEQ-11 and SEQ-12 ---------------------------------------------------------------------------------------------


@kind("SEQ-11", where=plain(m.ADVANCED))
def advanced_again(talk: Talk, message: Message) -> Message:
    """A seqno is advanced to twice."""
    return talk.put_behind(message, talk.new(message))


@kind("SEQ-11", "SNP-02", where=plain(m.ADVANCED))
def advanced_beyond_end(talk: Talk, message: Message) -> Message | None:
    """A seqno is advanced to that lies behind the snapshot's end."""
    found = stream_of(talk, message).snapshot_of(message)
    if found is None:
        return None
    message.seqno = found[0].last + 4
    return message


@kind("SEQ-11", where=plain(m.MUTATION, m.DELETION))
def item_behind_advanced(talk: Talk, message: Message) -> list[Message] | None:
    """An item comes behind the seqno advanced of its memory snapshot."""
    stream = stream_of(talk, message)
    found = stream.snapshot_of(message)
    if found is None or found[0].flags & 3 != m.MEMORY or 0x12 not in talk.hello or message is found[1][0]:
        return None
    before = found[1][found[1].index(message) - 1]
    if message.seqno - before.seqno < 2 or before.opcode == m.ADVANCED:
        return None
    extras = (message.seqno - 1).to_bytes(8)
    advanced = talk.made(message, talk.producer, message.magic, m.ADVANCED, number=message.number, extras=extras)
    advanced.framing = message.framing
    return [message, talk.put_before(message, advanced)]


@kind("SEQ-12", where=later_markers)
def thin_snapshot(talk: Talk, message: Message) -> list[Message] | None:
    """Of a long memory snapshot almost nothing comes, where those before it were dense."""
    stream = stream_of(talk, message)
    snapshots = stream.snapshots()
    at = stream.markers.index(message)
    marker, items = snapshots[at]
    dense = [each for each, of in snapshots[:at] if len(of) * 2 >= each.last - each.first + 1 >= 20]
    if not dense or not items or not marker.flags & m.MEMORY or stream.filtered or items[-1].seqno != marker.last:
        return None
    follows = [
        each
        for each in stream.messages[stream.messages.index(items[-1]) + 1 :]
        if each.opcode in (m.MARKER, m.STREAM_END)
    ]
    if not follows or any(each.opcode in (m.COMMIT, m.ABORT, m.PREPARE) for each in stream.items):
        return None
    gap = 3000
    talk.needs(dense[-1], marker, *(each for each in stream.messages[: stream.messages.index(marker)][-40:]))
    for each in stream.messages[stream.messages.index(items[-1]) :]:
        if each.opcode in m.DATA:
            each.seqno += gap
        elif each.opcode == m.MARKER:
            each.first, each.last = each.first + gap, each.last + gap
    marker.last += gap
    if stream.request.at(16) < 1 << 60:
        stream.request.put(16, stream.request.at(16) + gap)
    return [follows[0], marker, items[-1]]
