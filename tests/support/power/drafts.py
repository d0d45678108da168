"""The draft of August 2013, which no recorded server spoke: streams of a recording, said in its words.

What a stream delivered, and when, is that of the recording; requests, brackets and layouts are the draft's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.support.power import messages as m
from tests.support.power.messages import Message
from tests.support.power.streams import Stream
from tests.support.power.talks import Talk

REQUEST, RESPONSE, BEGIN, STREAM, END = 1, 2, 3, 4, 5
SNAPSHOT_START, SNAPSHOT_END, MUTATION, DELETION = 1, 2, 3, 4


def drafts_of(talks: Iterable[Talk]) -> Iterator[Talk]:
    """Conversations in the draft's words, of those with items in several snapshots."""
    for talk in talks:
        streams = [each for each in talk.streams() if len(each.markers) > 1 and not each.out_of_order]
        if streams and not talk.early:
            yield _draft(talk, streams[:3])


def _draft(talk: Talk, streams: list[Stream]) -> Talk:
    made: list[Message] = []
    for number, stream in enumerate(streams):
        made += _told(stream, talk.producer, (number + 1).to_bytes(4))
    for uid, each in enumerate(made):
        each.uid = uid
        before = [other.uid for other in made[:uid] if other.side != each.side]
        each.heard = before[-1] if before else -1
        each.time = made[0].time + uid * 0.001
    draft = Talk(f"{talk.name} as a draft", made)
    draft.producer = talk.producer
    return draft


def _told(stream: Stream, producer: int, opaque: bytes) -> Iterator[Message]:
    def said(
        like: Message, opcode: int, subtype: int, extras: bytes = b"", key: bytes = b"", **more: object
    ) -> Message:
        twin = like.copied()
        twin.side, twin.magic, twin.opcode, twin.datatype = producer, 0x81, opcode, subtype
        twin.number, twin.opaque, twin.framing, twin.extras, twin.key = stream.vbucket, opaque, b"", extras, key
        twin.value, twin.cas = b"", 0
        for name, value in more.items():
            setattr(twin, name, value)
        return twin

    asked = stream.request
    wanted = asked.extras[8:32] + asked.at(8).to_bytes(8)
    yield said(asked, REQUEST, 1, wanted, b"group", side=1 - producer, magic=0x80)
    yield said(stream.answer, RESPONSE, 1)
    yield said(stream.answer, BEGIN, 0)
    for marker, items in stream.snapshots():
        documents = [each for each in items if each.opcode in (m.MUTATION, m.DELETION)]
        if not documents:
            continue
        yield said(marker, STREAM, SNAPSHOT_START)
        for each in documents:
            extras = each.extras[:28] if each.opcode == m.MUTATION else each.extras[:16] + bytes(12)
            kind = MUTATION if each.opcode == m.MUTATION else DELETION
            value = each.value if each.opcode == m.MUTATION else b""
            yield said(each, STREAM, kind, extras, each.key, cas=each.cas, value=value)
        yield said(marker, STREAM, SNAPSHOT_END)
    yield said(stream.answer, END, 1)
