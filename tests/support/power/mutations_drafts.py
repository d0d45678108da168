"""Violations in the draft's words: brackets around snapshots anywhere; those and others in the first stream."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.power.drafts import (
    BEGIN,
    DELETION,
    MUTATION,
    REQUEST,
    RESPONSE,
    SNAPSHOT_END,
    SNAPSHOT_START,
    STREAM,
)
from tests.support.power.kinds import Edit, Selector, kind
from tests.support.power.messages import Message
from tests.support.power.talks import Talk

UNUSED = b"\xd1\xd2\xd3\xd4"


def _said(opcode: int, *subtypes: int) -> Selector:
    return lambda talk: [each for each in talk.messages if each.opcode == opcode and each.datatype in subtypes]


def _first_stream(*rules: str, where: Selector) -> Callable[[Edit], Edit]:
    """Enter an edit for the first stream of a connection, which was asked for before anything showed the dialect.

    Who looks for a header of the draft after a loss finds none, so all that came before has to be there.
    """

    def enter(edit: Edit) -> Edit:
        def in_first_stream(talk: Talk, message: Message) -> Message | list[Message] | None:
            guilty = edit(talk, message)
            last = guilty[-1] if isinstance(guilty, list) else guilty
            if last is not None:
                talk.needs(*talk.messages[: talk.index(last)])
            return guilty

        def first(talk: Talk) -> list[Message]:
            asked = talk.messages[0]
            return [each for each in where(talk) if asked.opcode == REQUEST and each.opaque == asked.opaque]

        in_first_stream.__name__ = edit.__name__.replace("draft_", "draft_first_stream_")
        in_first_stream.__doc__ = f"{edit.__doc__} In the first stream."
        kind(*rules, where=first)(in_first_stream)
        return edit

    return enter


def _of_stream(talk: Talk, message: Message, *subtypes: int) -> list[Message]:
    """The stream messages of a message's stream."""
    return [each for each in _said(STREAM, *subtypes)(talk) if each.opaque == message.opaque]


def _item_before(talk: Talk, message: Message) -> Message | None:
    items = _of_stream(talk, message, MUTATION, DELETION)
    at = next(at for at, each in enumerate(items) if each is message)
    return items[at - 1] if at else None


# --- SNP-14 --------------------------------------------------------------------------------------------------------


@kind("SNP-14", where=_said(STREAM, SNAPSHOT_START))
@_first_stream("SNP-14", where=_said(STREAM, SNAPSHOT_START))
def draft_snapshot_starts_twice(talk: Talk, message: Message) -> Message:
    """A snapshot starts, and starts again."""
    return talk.put_behind(message, talk.new(message))


@kind("SNP-14", where=_said(STREAM, SNAPSHOT_END))
@_first_stream("SNP-14", where=_said(STREAM, SNAPSHOT_END))
def draft_snapshot_ends_twice(talk: Talk, message: Message) -> Message:
    """A snapshot ends, and ends again."""
    return talk.put_behind(message, talk.new(message))


@kind("SNP-14", where=_said(STREAM, SNAPSHOT_END))
@_first_stream("SNP-14", where=_said(STREAM, SNAPSHOT_END))
def draft_snapshot_never_ends(talk: Talk, message: Message) -> Message | None:
    """A snapshot starts before the last one has ended."""
    after = talk.behind(message, message.side)
    talk.remove(message)
    return after[0] if after and after[0].datatype == SNAPSHOT_START and after[0].opcode == STREAM else None


@kind("SNP-14", where=_said(STREAM, MUTATION, DELETION))
@_first_stream("SNP-14", where=_said(STREAM, MUTATION, DELETION))
def draft_item_outside(talk: Talk, message: Message) -> Message | None:
    """The last item of a snapshot comes behind its end."""
    after = talk.behind(message, message.side)
    if (
        not after
        or after[0].datatype != SNAPSHOT_END
        or talk.messages[talk.index(message) - 1].datatype == SNAPSHOT_START
    ):
        return None
    end = after[0]
    talk.remove(end)
    talk.put_before(message, talk.new(end))
    return message


# --- other rules that know the draft -------------------------------------------------------------------------------


@_first_stream("SNP-01", "SNP-14", where=_said(STREAM, SNAPSHOT_START))
def draft_item_before_any_snapshot(talk: Talk, message: Message) -> Message | None:
    """The first snapshot of a stream does not start: its first item comes out of nowhere."""
    if _of_stream(talk, message, SNAPSHOT_START)[0] is not message:
        return None
    first = _of_stream(talk, message, MUTATION, DELETION)[0]
    talk.remove(message)
    return first


@_first_stream("SNP-05", where=_said(STREAM, MUTATION, DELETION))
def draft_key_twice(talk: Talk, message: Message) -> Message | None:
    """An item has the key of the one before, in the same snapshot."""
    before = talk.messages[talk.index(message) - 1]
    if before.opcode != STREAM or before.datatype not in (MUTATION, DELETION) or before.opaque != message.opaque:
        return None
    message.key = before.key
    return message


@_first_stream("SEQ-01", where=_said(STREAM, MUTATION, DELETION))
def draft_seqno_again(talk: Talk, message: Message) -> Message | None:
    """An item has the seqno of the one before."""
    before = _item_before(talk, message)
    if before is None:
        return None
    message.put(0, before.at(0))
    return message


@_first_stream("SEQ-02", where=_said(STREAM, MUTATION, DELETION))
def draft_first_item_not_behind_start(talk: Talk, message: Message) -> Message | None:
    """The request starts at the seqno of the first item."""
    if _item_before(talk, message) is not None:
        return None
    request = next(each for each in _said(REQUEST, 1)(talk) if each.opaque == message.opaque)
    request.put(0, message.at(0))
    request.put(24, message.at(0))
    return message


@_first_stream("OPQ-01", where=_said(RESPONSE, 1))
def draft_answer_twice(talk: Talk, message: Message) -> Message:
    """A request is answered twice."""
    begin = next(each for each in _said(BEGIN, 0)(talk) if each.opaque == message.opaque)
    return talk.put_behind(begin, talk.new(message))


@_first_stream("OPQ-07", where=_said(RESPONSE, 1))
def draft_vbucket_asked_for_twice(talk: Talk, message: Message) -> list[Message]:
    """A vbucket is asked for again under another number while its stream goes on, and granted."""
    request = next(each for each in _said(REQUEST, 1)(talk) if each.opaque == message.opaque)
    begin = next(each for each in _said(BEGIN, 0)(talk) if each.opaque == message.opaque)
    again = talk.put_behind(begin, talk.new(request, opaque=UNUSED))
    granted = talk.put_behind(again, talk.new(message, opaque=UNUSED))
    return [again, granted]
