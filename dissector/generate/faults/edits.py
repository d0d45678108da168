"""Changes to a conversation that leave the rest of it consistent: inserting, removing and answering messages,
sending a snapshot in two parts, agreeing on one more parameter.

Knows that what a side has heard never shrinks (TCP acknowledges everything up to a byte), so that a message put between
others moves what those had not heard yet. Must not know rules.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from dissector.codec.message import Header
from dissector.generate.conversation import LATENCY_NS, STEP_NS, Emission
from dissector.generate.faults import stream_finder, window_sums
from dissector.generate.frame import Frame
from dissector.spec import enums, registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dissector.generate.conversation import Conversation
    from dissector.generate.faults.stream_finder import Snapshot
    from dissector.generate.scenario import Script

XATTR_FEATURE = enums.FEATURES.number("xattr")
_VBUCKETS = registry.DEFAULT_VBUCKETS
_ONE_MORE = 100  #: bytes; no message that faults add without a document is larger


def find(script: Script, wanted: Callable[[Conversation, Emission], bool]) -> tuple[Conversation, Emission]:
    """Return the first message from the place on that is wanted, with its conversation known to the question."""
    owners = {id(emission): conversation for conversation, emission in script.all()}
    return script.find(lambda emission: wanted(owners[id(emission)], emission))


def untouched(emission: Emission, *names: str, response: bool = False) -> bool:
    """Tell whether a message has one of these names, and no fault has been at its bytes.

    The draft is left out: its messages share names with later ones, and little else.
    """
    frame = emission.frame
    fits = frame.name in names and frame.response is response and frame.dialect is not Dialect.DRAFT
    return fits and frame.raw is None and not frame.header


def heard(conversation: Conversation, emission: Emission) -> int:
    """Return how many of the other side's messages had arrived when this one was sent."""
    before = conversation.emissions[: conversation.place(emission)]
    return sum(each.side != emission.side for each in before) - emission.unheard


def put(conversation: Conversation, at: int, side: int, frame: Frame, *, pause_ns: int | None = None) -> Emission:
    """Say something before the message at a place, having heard what can have been heard by then."""
    emissions = conversation.emissions
    known = sum(each.side != side for each in emissions[:at])
    later = next((each for each in emissions[at:] if each.side == side), None)
    unheard = 0 if later is None else max(0, known - heard(conversation, later))
    own = sum(each.side == side for each in emissions[:at])
    for each in emissions[at:]:
        # What had not heard the messages around it has not heard it either, until something has.
        if each.side != side:
            if not each.unheard or heard(conversation, each) > own:
                break
            each.unheard += 1
    if pause_ns is None:
        pause_ns = LATENCY_NS if at and emissions[at - 1].side != side and not unheard else STEP_NS
    fresh = Emission(side, frame, unheard, pause_ns)
    emissions.insert(at, fresh)
    return fresh


def put_before(conversation: Conversation, anchor: Emission, side: int, frame: Frame) -> Emission:
    """Say something before a message; a silence before that message stays where it was, before both."""
    fresh = put(conversation, conversation.place(anchor), side, frame)
    fresh.pause_ns, anchor.pause_ns = anchor.pause_ns, STEP_NS if anchor.side == side else LATENCY_NS
    return fresh


def put_after(conversation: Conversation, anchor: Emission, side: int, frame: Frame) -> Emission:
    """Say something after a message."""
    return put(conversation, conversation.place(anchor) + 1, side, frame)


def take_out(conversation: Conversation, emission: Emission) -> None:
    """Leave a message unsaid; the one after it keeps its time."""
    at = conversation.place(emission)
    own = sum(each.side == emission.side for each in conversation.emissions[:at])
    for each in conversation.emissions[at + 1 :]:
        if each.side != emission.side and each.unheard and heard(conversation, each) <= own:
            each.unheard -= 1
    if at + 1 < len(conversation.emissions):
        conversation.emissions[at + 1].pause_ns += emission.pause_ns
    del conversation.emissions[at]


def answer(conversation: Conversation, asked: Emission, frame: Frame) -> Emission:
    """Answer a message as soon as the other side can have heard it, after what it sent before it had."""
    at = conversation.place(asked) + 1
    side = 1 - asked.side
    needed = sum(each.side == asked.side for each in conversation.emissions[:at])
    for index in range(at, len(conversation.emissions)):
        each = conversation.emissions[index]
        if each.side == side:
            if heard(conversation, each) >= needed:
                break
            at = index + 1
    return put(conversation, at, side, frame)


def fresh_opaque(script: Script, conversation: Conversation) -> bytes:
    """Return an opaque that nothing on the connection has, not even byte-reversed."""
    taken = {opaque for each in conversation for opaque in (each.frame.opaque, each.frame.opaque[::-1])}
    while True:
        opaque = script.chance.randbytes(4)
        if opaque not in taken and opaque != opaque[::-1]:
            return opaque


def fresh_vbucket(script: Script) -> int:
    """Return the highest vbucket that no message is about."""
    taken = {each.frame.vbucket for _, each in script.all()}
    return next(number for number in range(_VBUCKETS - 1, -1, -1) if number not in taken)


def granted(conversation: Conversation) -> set[int]:
    """Return the features that HELLO granted, which comes before the open."""
    begin = takewhile(lambda each: each.frame.name != "open", conversation)
    values = [each.frame.value for each in begin if each.frame.name == "hello" and each.frame.response]
    return {int.from_bytes(value[at : at + 2], "big") for value in values for at in range(0, len(value), 2)}


def with_parts(frame: Frame, *, framing: bytes = b"", extras: bytes | None = None) -> bytes:
    """Return a frame's bytes with more framing extras, or other extras, in a header that counts them."""
    data = frame.encode()
    head = Header.parse(data)
    body = data[registry.HEADER_SIZE :]
    block, rest = body[: head.framing_length], body[head.framing_length :]
    old, rest = rest[: head.extras_length], rest[head.extras_length :]
    extras = old if extras is None else extras
    changed = head._replace(
        key_word=head.key_word + (len(framing) << 8),
        extras_length=len(extras),
        body_length=len(block) + len(framing) + len(extras) + len(rest),
    )
    return changed.pack() + block + framing + extras + rest


def extras_of(frame: Frame) -> bytes:
    """Return a frame's extras."""
    data = frame.encode()
    head = Header.parse(data)
    start = registry.HEADER_SIZE + head.framing_length
    return data[start : start + head.extras_length]


def with_room(script: Script) -> Iterator[Snapshot]:
    """Go through the ordinary snapshots of connections whose window has room for one message more (FLC-02)."""
    full = {
        id(conversation)
        for conversation in script.conversations
        for row in window_sums.balances(conversation)
        if row.window and row.emission.frame.flow_bytes and row.outstanding + _ONE_MORE >= row.window
    }
    for each in stream_finder.ranges(script):
        if id(each.instance.conversation) not in full:
            yield each


def split(snapshot: Snapshot, at: int) -> Emission:
    """Announce the items from one on as a snapshot of their own; return its marker."""
    instance, frame = snapshot.instance, snapshot.marker.frame
    end, last = stream_finder.seqno(snapshot.items[at - 1]), snapshot.end
    fields = {**frame.fields, "snap_start_seqno": end + 1, "snap_end_seqno": last}
    frame.fields["snap_end_seqno"] = end
    if frame.fields.get("max_visible_seqno", 0) > end:
        frame.fields["max_visible_seqno"] = end
    return put_before(instance.conversation, snapshot.items[at], instance.producer, frame.copy(fields=fields))


def agree(script: Script, conversation: Conversation, key: str, value: str) -> Emission:
    """Set one more parameter after the others, and have it accepted; return the request."""
    last = [each for each in conversation if each.frame.name == "control" and each.frame.response][-1]
    opaque = fresh_opaque(script, conversation)
    frame = Frame(last.frame.dialect, "control", key=key.encode(), value=value.encode(), opaque=opaque)
    asked = put_after(conversation, last, 1 - last.side, frame)
    put_after(conversation, asked, last.side, Frame(frame.dialect, "control", response=True, opaque=opaque))
    return asked
