"""Violations of SNP-14: the draft's brackets around snapshots."""

from __future__ import annotations

from tests.support.power.drafts import DELETION, MUTATION, SNAPSHOT_END, SNAPSHOT_START, STREAM
from tests.support.power.kinds import Selector, kind
from tests.support.power.messages import Message
from tests.support.power.talks import Talk


def _said(*subtypes: int) -> Selector:
    return lambda talk: [each for each in talk.messages if each.opcode == STREAM and each.datatype in subtypes]


@kind("SNP-14", where=_said(SNAPSHOT_START))
def draft_snapshot_starts_twice(talk: Talk, message: Message) -> Message:
    """A snapshot starts, and starts again."""
    return talk.put_behind(message, talk.new(message))


@kind("SNP-14", where=_said(SNAPSHOT_END))
def draft_snapshot_ends_twice(talk: Talk, message: Message) -> Message:
    """A snapshot ends, and ends again."""
    return talk.put_behind(message, talk.new(message))


@kind("SNP-14", where=_said(SNAPSHOT_END))
def draft_snapshot_never_ends(talk: Talk, message: Message) -> Message | None:
    """A snapshot starts before the last one has ended."""
    after = talk.behind(message, message.side)
    talk.remove(message)
    return after[0] if after and after[0].datatype == SNAPSHOT_START and after[0].opcode == STREAM else None


@kind("SNP-14", where=_said(MUTATION, DELETION))
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
