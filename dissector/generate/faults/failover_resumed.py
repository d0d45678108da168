"""Faults of streams that go on where the one before them stopped, and bring again what it had (FOL-08)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults.edits import put_before, untouched
from dissector.generate.faults.stream_finder import DOCUMENTS, Instance, instances, pick, seqno
from dissector.generate.scenario import Broken, Fault
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.scenario import Script


def _resumed(script: Script) -> Iterator[tuple[Instance, Instance]]:
    """Go through the streams that go on behind the last seqno of the one before, with that one."""
    last: dict[tuple[int, int, int | None], Instance] = {}
    for instance in instances(script):
        frame = instance.request.frame
        place = id(instance.conversation), frame.vbucket, frame.stream_id
        before = last.get(place)
        last[place] = instance
        fits = before is not None and before.items and instance.snapshots and instance.snapshots[0].ranged
        if not fits or before is None or frame.dialect is not Dialect.DCP or not instance.snapshots[0].items:
            continue
        if instance.asked["start_seqno"] >= seqno(before.items[-1]):
            yield before, instance


def _item(script: Script) -> Broken:
    options = []
    for before, instance in _resumed(script):
        first, old = instance.snapshots[0], before.items[-1]
        inside = first.start <= seqno(old) and untouched(old, *DOCUMENTS) and old.frame.key not in first.keys
        if inside:
            options.append((first.items[0], (before, instance)))
    before, instance = pick(script, options)
    old, anchor = before.items[-1], instance.snapshots[0].items[0]
    guilty = put_before(
        instance.conversation, anchor, anchor.side, old.frame.copy(opaque=instance.request.frame.opaque)
    )
    because = f"seqno {seqno(old)} comes again, for a stream that goes on from {instance.asked['start_seqno']}"
    return Broken("FOL-08", "item", instance.conversation, (guilty, old, instance.request), because)


def _marker(script: Script) -> Broken:
    options = []
    for before, instance in _resumed(script):
        first = instance.snapshots[0]
        if first.start < seqno(before.items[-1]) and untouched(first.marker, "snapshot_marker"):
            options.append((first.marker, (before, instance)))
    before, instance = pick(script, options)
    first, last = instance.snapshots[0], seqno(before.items[-1])
    frame = first.marker.frame
    early = frame.copy(fields={**frame.fields, "snap_end_seqno": last - 1})
    frame.fields["snap_start_seqno"] = last
    guilty = put_before(instance.conversation, first.marker, first.marker.side, early)
    because = f"a snapshot that ends at {last - 1}, for a stream that goes on behind {last}"
    return Broken("FOL-08", "marker", instance.conversation, (guilty, before.items[-1], instance.request), because)


FAULTS: tuple[Fault, ...] = (
    Fault("FOL-08", "an item that comes again without a rollback", "asks-again", _item, "item", ("SEQ-02",)),
    # A snapshot that is over before the stream begins can have no items.
    Fault(
        "FOL-08",
        "a snapshot of what was there before",
        "close-resume",
        _marker,
        "marker",
        ("SNP-06", "SNP-12"),
    ),
)
