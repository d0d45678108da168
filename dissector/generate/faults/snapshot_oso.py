"""Faults in snapshots with a beginning and an end of their own: out-of-order ones and the draft's (SNP-11, SNP-14).

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults import edits, stream_finder
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import CHECKPOINT, DISK, REASON_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.conversation import Emission
    from dissector.generate.faults.stream_finder import Instance, Snapshot
    from dissector.generate.scenario import Script


def _brackets(script: Script, name: str) -> Iterator[tuple[Snapshot, Emission]]:
    """Go through the snapshots that a message of this name opens, with what ends them."""
    for each in stream_finder.snapshots(script):
        if each.marker.frame.name == name and each.closing is not None and each.items:
            yield each, each.closing


def _started_twice(script: Script, rule: str, name: str) -> Broken:
    """Begin a snapshot inside another one."""
    found, item = stream_finder.pick(
        script,
        (
            (item, (each, item))
            for each, _ in _brackets(script, name)
            for item in each.items[1:]  # so that there is something between the two
        ),
    )
    instance = found.instance
    again = edits.put_before(instance.conversation, item, instance.producer, found.marker.frame.copy())
    because = f"another snapshot starts before seqno {stream_finder.seqno(item)}, and the last one has not ended"
    return Broken(rule, "start-twice", instance.conversation, (again, found.marker), because)


def _ended_twice(script: Script, rule: str, name: str) -> Broken:
    """End a snapshot twice."""
    found, closing = stream_finder.pick(script, ((end, (each, end)) for each, end in _brackets(script, name)))
    instance = found.instance
    again = edits.put_after(instance.conversation, closing, instance.producer, closing.frame.copy())
    because = f"the snapshot of vbucket {instance.vbucket} ends twice"
    return Broken(rule, "end-twice", instance.conversation, (again, closing), because)


def _oso_started_twice(script: Script) -> Broken:
    return _started_twice(script, "SNP-11", "oso_snapshot")


def _oso_ended_twice(script: Script) -> Broken:
    return _ended_twice(script, "SNP-11", "oso_snapshot")


def _marker_inside(script: Script) -> Broken:
    """Announce an ordinary snapshot inside an out-of-order one (SNP-11).

    It starts where the request says and holds just the last item, so that it is complete.
    """
    found = stream_finder.pick(
        script,
        ((each.items[-1], each) for each, _ in _brackets(script, "oso_snapshot") if each.former is None),
    )
    instance, last = found.instance, found.items[-1]
    start, end = instance.asked["snap_start_seqno"], stream_finder.seqno(last)
    frame = Frame(
        last.frame.dialect,
        "snapshot_marker",
        fields={"snap_start_seqno": start, "snap_end_seqno": end, "snapshot_type": DISK | CHECKPOINT},
        opaque=last.frame.opaque,
        vbucket=last.frame.vbucket,
        framing=last.frame.framing,
    )
    marker = edits.put_before(instance.conversation, last, instance.producer, frame)
    because = f"a marker {start} to {end} comes inside an out-of-order snapshot"
    return Broken("SNP-11", "marker-inside", instance.conversation, (marker, found.marker), because)


def _over_inside(script: Script) -> Broken:
    """Stop a stream inside an out-of-order snapshot (SNP-11); the vbucket's state has changed, say."""
    found, closing = stream_finder.pick(
        script,
        (
            (end, (each, end))
            for each, end in _brackets(script, "oso_snapshot")
            if each.instance.alone and each.following is not None
        ),
    )
    instance = found.instance
    for each in _after(instance, closing):
        edits.take_out(instance.conversation, each)
    closing.frame = closing.frame.copy(name="stream_end", fields={"end_reason": REASON_STATE})
    because = f"the stream of vbucket {instance.vbucket} ends inside an out-of-order snapshot"
    return Broken("SNP-11", "over-inside", instance.conversation, (closing, found.marker), because)


def _after(instance: Instance, emission: Emission) -> list[Emission]:
    """Return what is said of a stream after a message, by either side."""
    conversation, opaque = instance.conversation, instance.request.frame.opaque
    return [each for each in conversation.emissions[conversation.place(emission) + 1 :] if each.frame.opaque == opaque]


def _draft_started_twice(script: Script) -> Broken:
    return _started_twice(script, "SNP-14", "snapshot_start")


def _draft_ended_twice(script: Script) -> Broken:
    return _ended_twice(script, "SNP-14", "snapshot_start")


def _draft_item_outside(script: Script) -> Broken:
    """Send the last item of a snapshot after its end (SNP-14)."""
    found, closing = stream_finder.pick(
        script,
        ((each.items[-1], (each, end)) for each, end in _brackets(script, "snapshot_start") if len(each.items) > 1),
    )
    last = found.items[-1]
    last.frame, closing.frame = closing.frame, last.frame
    because = f"seqno {stream_finder.seqno(closing)} comes behind the end of its snapshot"
    return Broken("SNP-14", "item-outside", found.instance.conversation, (closing, last), because)


BRACKET_FAULTS: tuple[Fault, ...] = (
    Fault("SNP-11", "begin an out-of-order snapshot twice", "oso", _oso_started_twice, "start-twice"),
    Fault("SNP-11", "end an out-of-order snapshot twice", "oso", _oso_ended_twice, "end-twice"),
    Fault("SNP-11", "send a marker inside an out-of-order snapshot", "oso", _marker_inside, "marker-inside"),
    Fault("SNP-11", "end a stream inside an out-of-order snapshot", "oso", _over_inside, "over-inside"),
    Fault("SNP-14", "begin a snapshot of the draft twice", "draft", _draft_started_twice, "start-twice"),
    Fault("SNP-14", "end a snapshot of the draft twice", "draft", _draft_ended_twice, "end-twice"),
    Fault("SNP-14", "send an item of the draft outside of a snapshot", "draft", _draft_item_outside, "item-outside"),
)
