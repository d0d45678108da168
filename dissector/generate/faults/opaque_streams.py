"""Faults of a stream's life: whose messages are whose, and how a stream begins and ends (OPQ-04, 06 to 10, 12).

Streams that a fault adds stay silent, so that the rules about snapshots and seqnos have nothing to say of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults.edits import answer, fresh_opaque, fresh_vbucket, put, put_after, take_out, untouched
from dissector.generate.faults.stream_finder import DOCUMENTS, Instance, instances, pick, seqno, unshared
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import (
    ACK,
    NO_END,
    REASON_CLOSED,
    REASON_OK,
    REASON_STATE,
    SECOND,
    SUCCESS,
    TAKEOVER,
    pack_log,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dissector.generate.conversation import Conversation, Emission
    from dissector.generate.scenario import Script

_END_ON_CLOSE = b"send_stream_end_on_client_close_stream"
_LINGER = 10 * SECOND  #: how long a conversation goes on after a message that does not come


def _other_opaque(variant: str, choose: Callable[[Instance], list[Emission]]) -> Callable[[Script], Broken]:
    """Return a fault that gives a message of a stream an opaque that no stream has."""

    def apply(script: Script) -> Broken:
        options = [(each, (instance, each)) for instance in instances(script) for each in choose(instance)]
        instance, guilty = pick(script, options)
        right = guilty.frame.opaque
        guilty.frame.opaque = fresh_opaque(script, instance.conversation)
        because = f"opaque {guilty.frame.opaque.hex()} for vbucket {instance.vbucket}, whose stream has {right.hex()}"
        return Broken("OPQ-04", variant, instance.conversation, (guilty, instance.request, instance.answer), because)

    return apply


def _documents(instance: Instance) -> list[Emission]:
    return [each for each in instance.items if untouched(each, *DOCUMENTS)]


def _markers(instance: Instance) -> list[Emission]:
    # The answer to a marker has the marker's opaque: where one is due, both would be wrong.
    markers = [each.marker for each in instance.snapshots]
    return [
        each
        for each in markers
        if untouched(each, "snapshot_marker") and not each.frame.fields.get("snapshot_type", 0) & ACK
    ]


def _ends(instance: Instance) -> list[Emission]:
    end = instance.finish
    return [end] if end is not None and _unanswered(instance.conversation, end) else []


def _unanswered(conversation: Conversation, end: Emission) -> bool:
    """Tell whether stream ends go unanswered here; some are answered, and the answer would be left alone (OPQ-01)."""
    answered = {each.frame.opaque for each in conversation if untouched(each, "stream_end", response=True)}
    return untouched(end, "stream_end") and end.frame.opaque not in answered


def _stale(script: Script) -> Broken:
    options = []
    for former, later in _successive(script):
        if former.request.frame.opaque != later.request.frame.opaque:
            options += [(each, (former, later, each)) for each in _documents(later)]
    former, later, guilty = pick(script, options)
    guilty.frame.opaque = former.request.frame.opaque
    because = (
        f"opaque {guilty.frame.opaque.hex()} of the former stream of vbucket {later.vbucket}; "
        f"since the last response it is {later.request.frame.opaque.hex()}"
    )
    return Broken("OPQ-04", "stale", later.conversation, (guilty, former.request, later.request, later.answer), because)


def _other_vbucket(script: Script) -> Broken:
    once = unshared(script)
    options = []
    for instance in instances(script):
        for snapshot in instance.snapshots:
            # Not the last one, which completes its snapshot (SNP-06).
            fits = [each for each in snapshot.items[:-1] if untouched(each, *DOCUMENTS) and id(each) in once]
            options += [(each, (instance, each)) for each in fits if snapshot.ranged]
    instance, guilty = pick(script, options)
    guilty.frame.vbucket = fresh_vbucket(script)
    because = (
        f"opaque {guilty.frame.opaque.hex()} with vbucket {guilty.frame.vbucket}; "
        f"it was given for vbucket {instance.vbucket}"
    )
    return Broken("OPQ-04", "vbucket", instance.conversation, (guilty, instance.request, instance.answer), because)


def _ended(found: list[Instance]) -> Iterator[tuple[Instance, Emission]]:
    """Go through the streams that the producer ends by itself, takeovers left out."""
    for instance in found:
        takeover = instance.asked.get("stream_flags", 0) & TAKEOVER
        end = instance.finish
        if end is not None and _unanswered(instance.conversation, end) and instance.close is None and not takeover:
            yield instance, end


def _end_twice(script: Script) -> Broken:
    instance, end = pick(script, [(end, (instance, end)) for instance, end in _ended(instances(script))])
    guilty = put_after(instance.conversation, end, end.side, end.frame.copy())
    because = f"2 stream ends for vbucket {instance.vbucket} and no new stream between"
    return Broken("OPQ-06", "end", instance.conversation, (guilty, end, instance.answer), because)


def _item_behind_end(script: Script) -> Broken:
    options = [
        (instance.items[-1], (instance, end))
        for instance, end in _ended(instances(script))
        if instance.items and untouched(instance.items[-1], *DOCUMENTS)
    ]
    instance, old = pick(script, options)
    conversation, guilty = instance.conversation, instance.items[-1]
    take_out(conversation, old)
    # With the reason OK the snapshot would have to be complete (SNP-06); a state that changes ends it anywhere.
    frame = old.frame.copy(fields={"end_reason": old.frame.fields["end_reason"] or REASON_STATE})
    end = put(conversation, conversation.place(guilty), old.side, frame)
    because = f"seqno {seqno(guilty)} of vbucket {instance.vbucket} comes behind the stream end"
    return Broken("OPQ-06", "item", conversation, (guilty, end, instance.answer), because)


def _second_stream(script: Script) -> Broken:
    def fits(instance: Instance) -> bool:
        last = instance.snapshots[-1] if instance.snapshots else None
        live = instance.finish is None and instance.close is None
        # Nothing comes after it that would belong to the new stream, and it stands at the end of a snapshot.
        return live and last is not None and last.whole and instance.asked.get("end_seqno") == NO_END

    options = [
        (each, (instance, each))
        for instance in _latest(instances(script))
        if fits(instance)
        for each in _after(instance.conversation, instance.items[-1], itself=True)
    ]
    instance, anchor = pick(script, options)
    asked, guilty = _ask_again(instance, anchor, fresh_opaque(script, instance.conversation))
    because = (
        f"success for vbucket {instance.vbucket} with opaque {asked.frame.opaque.hex()} while the stream with "
        f"opaque {instance.request.frame.opaque.hex()} is live"
    )
    return Broken("OPQ-07", "", instance.conversation, (guilty, asked, instance.request, instance.answer), because)


def _shared_opaque(script: Script) -> Broken:
    options = [
        (item, (instance, item))
        for instance in instances(script)
        if "snap_start_seqno" in instance.asked
        for item in instance.items
    ]
    instance, anchor = pick(script, options)
    conversation, vbucket = instance.conversation, fresh_vbucket(script)
    # Everything from the beginning: all fields but the end are 0.
    frame = instance.request.frame.copy(vbucket=vbucket, fields={"end_seqno": NO_END, "snap_start_seqno": 0})
    asked = put_after(conversation, anchor, 1 - anchor.side, frame)
    log = pack_log([(script.chance.randrange(1, 1 << 48), 0)])
    granted = answer(conversation, asked, instance.answer.frame.copy(value=log))
    because = f"the live streams of vbuckets {instance.vbucket} and {vbucket} both have {asked.frame.opaque.hex()}"
    return Broken("OPQ-08", "", conversation, (asked, granted, instance.request, instance.answer), because)


def _closed(found: list[Instance], *, told: bool) -> Iterator[tuple[Instance, Emission, Emission]]:
    """Go through the streams that were closed, with request and good answer; ``told``: a stream end was agreed on."""
    for instance in found:
        close = instance.close
        if close is None or _ends_on_close(instance.conversation) is not told:
            continue
        for each in _after(instance.conversation, close):
            if untouched(each, "close_stream", response=True) and each.frame.opaque == close.frame.opaque:
                if each.frame.status == SUCCESS and each.side == instance.producer:
                    yield instance, close, each
                break


def _ends_on_close(conversation: Conversation) -> bool:
    asked = {
        each.frame.opaque for each in conversation if each.frame.name == "control" and each.frame.key == _END_ON_CLOSE
    }
    return any(
        each.frame.name == "control" and each.frame.response and not each.frame.status and each.frame.opaque in asked
        for each in conversation
    )


def _no_end(script: Script) -> Broken:
    options = [
        (closed, (instance, close, closed, instance.finish))
        for instance, close, closed in _closed(instances(script), told=True)
        if instance.finish is not None
    ]
    instance, close, closed, end = pick(script, options)
    take_out(instance.conversation, end)
    more = _linger(script, instance, closed)
    because = f"vbucket {instance.vbucket} was closed with success, and no stream end follows though it was agreed on"
    return Broken("OPQ-09", "no-end", instance.conversation, (closed, close, *more), because)


def _other_reason(script: Script) -> Broken:
    options = [
        (instance.finish, (instance, close, closed, instance.finish))
        for instance, close, closed in _closed(instances(script), told=True)
        if instance.finish is not None and instance.finish.frame.fields["end_reason"] == REASON_CLOSED
    ]
    instance, close, closed, guilty = pick(script, options)
    guilty.frame.fields["end_reason"] = REASON_STATE
    because = f"vbucket {instance.vbucket} was closed, and its stream ends with reason {REASON_STATE} instead of 1"
    return Broken("OPQ-09", "reason", instance.conversation, (guilty, closed, close), because)


def _end_uncalled(script: Script) -> Broken:
    options = [
        (closed, (instance, close, closed))
        for instance, close, closed in _closed(instances(script), told=False)
        if instance.finish is None
    ]
    instance, close, closed = pick(script, options)
    frame = instance.request.frame.copy(name="stream_end", fields={"end_reason": REASON_CLOSED}, value=b"")
    guilty = put_after(instance.conversation, closed, closed.side, frame)
    because = f"a stream end behind the close of vbucket {instance.vbucket}, which was not agreed on"
    return Broken("OPQ-09", "uncalled", instance.conversation, (guilty, closed, close), because)


def _data_behind_close(script: Script) -> Broken:
    options = [
        (instance.items[-1], (instance, close, closed))
        for instance, close, closed in _closed(instances(script), told=False)
        if instance.items and untouched(instance.items[-1], *DOCUMENTS)
    ]
    instance, close, closed = pick(script, options)
    conversation, old = instance.conversation, instance.items[-1]
    take_out(conversation, old)
    guilty = put_after(conversation, closed, old.side, old.frame)
    because = f"seqno {seqno(guilty)} of vbucket {instance.vbucket} comes behind the response to its close"
    return Broken("OPQ-09", "data", conversation, (guilty, closed, close), because)


def _no_end_reached(script: Script) -> Broken:
    options = []
    # A new stream of the vbucket would be a second live one (OPQ-07).
    for instance, end in _ended(_latest(instances(script))):
        reached = end.frame.fields.get("end_reason") == REASON_OK and instance.asked["end_seqno"] != NO_END
        if reached and instance.items:
            options.append((instance.items[-1], (instance, end)))
    instance, end = pick(script, options)
    take_out(instance.conversation, end)
    last = instance.items[-1]
    more = _linger(script, instance, last)
    because = f"seqno {seqno(last)} reaches end seqno {instance.asked['end_seqno']}, and no stream end follows"
    return Broken("OPQ-10", "", instance.conversation, (last, instance.request, *more), because)


def _opaque_again(script: Script) -> Broken:
    found = _latest(instances(script))
    ended = [*_ended(found), *((instance, closed) for instance, _, closed in _closed(found, told=False))]
    options = [
        (each, (instance, each))
        for instance, end in ended
        if instance.items and instance.snapshots[-1].ranged
        for each in _after(instance.conversation, end, itself=True)
    ]
    instance, anchor = pick(script, options)
    asked, granted = _ask_again(instance, anchor, instance.request.frame.opaque)
    because = f"both streams of vbucket {instance.vbucket}, one after the other, have {asked.frame.opaque.hex()}"
    return Broken("OPQ-12", "", instance.conversation, (asked, granted, instance.request, instance.answer), because)


def _ask_again(instance: Instance, anchor: Emission, opaque: bytes) -> tuple[Emission, Emission]:
    """Ask for the vbucket from where the stream has come to, and grant it; nothing else follows."""
    conversation, snapshot = instance.conversation, instance.snapshots[-1]
    last = seqno(instance.items[-1])
    low, high = (last, last) if snapshot.whole else (snapshot.start, snapshot.end)
    uuid = int.from_bytes(instance.answer.frame.value[:8], "big")
    fields = {"start_seqno": last, "end_seqno": NO_END, "vbucket_uuid": uuid}
    fields |= {"snap_start_seqno": low, "snap_end_seqno": high}
    frame = instance.request.frame.copy(fields=fields, opaque=opaque)
    asked = put_after(conversation, anchor, 1 - instance.producer, frame)
    return asked, answer(conversation, asked, instance.answer.frame.copy(opaque=opaque))


def _linger(script: Script, instance: Instance, last: Emission) -> tuple[Emission, ...]:
    """Let the conversation go on long enough that a missing message is missed; return what was added for that."""
    conversation = instance.conversation
    if sum(each.pause_ns for each in _after(conversation, last)) >= _LINGER:
        return ()
    opaque = fresh_opaque(script, conversation)
    side = 1 - instance.producer
    frame = instance.request.frame.copy(name="get_failover_log", opaque=opaque, fields={}, value=b"", framing=None)
    asked = put(conversation, len(conversation.emissions), side, frame, pause_ns=_LINGER)
    told = frame.copy(response=True, vbucket=0, value=instance.answer.frame.value)
    return asked, put(conversation, len(conversation.emissions), instance.producer, told)


def _after(conversation: Conversation, emission: Emission, *, itself: bool = False) -> list[Emission]:
    return conversation.emissions[conversation.place(emission) + (not itself) :]


def _place(instance: Instance) -> tuple[int, int, int | None]:
    return id(instance.conversation), instance.vbucket, instance.request.frame.stream_id


def _latest(found: list[Instance]) -> list[Instance]:
    """Return the streams that no other of the same vbucket (and stream id) follows on their connection."""
    return list({_place(each): each for each in found}.values())


def _successive(script: Script) -> Iterator[tuple[Instance, Instance]]:
    """Go through streams of one vbucket that follow each other on a connection."""
    former: dict[tuple[int, int, int | None], Instance] = {}
    for each in instances(script):
        if _place(each) in former:
            yield former[_place(each)], each
        former[_place(each)] = each


FAULTS: tuple[Fault, ...] = (
    Fault("OPQ-04", "an item with an opaque of no stream", "basic", _other_opaque("item", _documents), "item"),
    Fault("OPQ-04", "a marker with an opaque of no stream", "basic", _other_opaque("marker", _markers), "marker"),
    Fault("OPQ-04", "a stream end with an opaque of no stream", "basic", _other_opaque("end", _ends), "end"),
    Fault("OPQ-04", "an item with the opaque of the former stream", "close-resume", _stale, "stale"),
    Fault("OPQ-04", "an item with another vbucket", "basic", _other_vbucket, "vbucket"),
    Fault("OPQ-06", "a second stream end", "basic", _end_twice, "end"),
    Fault("OPQ-06", "an item behind the stream end", "basic", _item_behind_end, "item"),
    Fault("OPQ-07", "a second stream of a vbucket that has one", "basic", _second_stream),
    Fault("OPQ-08", "a stream with the opaque of another", "basic", _shared_opaque),
    Fault("OPQ-09", "a close without the stream end that was agreed on", "modern", _no_end, "no-end"),
    Fault("OPQ-09", "a close with a stream end for another reason", "modern", _other_reason, "reason"),
    Fault("OPQ-09", "a close with a stream end that was not agreed on", "close-resume", _end_uncalled, "uncalled"),
    Fault("OPQ-09", "an item behind the response to a close", "close-resume", _data_behind_close, "data"),
    Fault("OPQ-10", "a stream that reaches its end without a stream end", "basic", _no_end_reached),
    Fault("OPQ-12", "a new stream with the opaque of the former one", "basic", _opaque_again),
)
