"""Faults in the order and the range of seqnos (SEQ-01 to 03, 07, 11 and 12), and all others about seqnos.

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dissector.generate.faults import edits, seqno_durability, seqno_versions, stream_finder
from dissector.generate.faults.edits import split, with_room
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import ACK, DISK_ONLY, TAKEOVER, TO_LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.conversation import Emission
    from dissector.generate.faults.stream_finder import Instance, Snapshot
    from dissector.generate.frame import Frame
    from dissector.generate.scenario import Script

_LIMIT = 1 << 48  #: seqnos are below
_MUCH_LATER = 1000  #: an end that a stream is far from
_BEYOND = 5  #: how far after the marker's end a seqno advanced is
_UUID_BYTES = 8
_DENSE, _DENSE_SPAN = 0.5, 20  #: what a stream was like before its snapshots grew thin
_THIN, _THIN_SPAN = 0.05, 400  #: half of what is suspicious, four times as wide as needed


def _backwards(script: Script) -> Broken:
    """Send two neighbours of a snapshot the wrong way round (SEQ-01)."""

    def pairs() -> Iterator[tuple[Emission, tuple[Instance, Emission, Emission]]]:
        for each in stream_finder.snapshots(script):
            if each.out_of_order:
                continue
            # Neither the first one, which has rules of its own, nor the last, which completes the snapshot.
            inner = each.items[1:-1]
            for older, newer in pairwise(inner):
                # Early consumers answer each message by its name, so the two have to be of one kind.
                if older.frame.name == newer.frame.name and older.frame.name in stream_finder.DOCUMENTS:
                    yield newer, (each.instance, older, newer)

    instance, older, newer = stream_finder.pick(script, pairs())
    older.frame, newer.frame = newer.frame, older.frame
    because = f"seqno {stream_finder.seqno(newer)} comes behind seqno {stream_finder.seqno(older)}"
    return Broken("SEQ-01", "backwards", instance.conversation, (newer, older), because)


def _repeated(script: Script) -> Broken:
    """Send a system event twice (SEQ-01): it has no key that must be unique, and says the same both times."""
    found, event = stream_finder.pick(
        script,
        (
            (event, (each, event))
            for each in with_room(script)
            for event in each.items
            if event.frame.name == "system_event"
        ),
    )
    instance = found.instance
    again = edits.put_after(instance.conversation, event, instance.producer, event.frame.copy())
    because = f"seqno {stream_finder.seqno(event)} comes twice"
    return Broken("SEQ-01", "repeated", instance.conversation, (again, event), because)


def _not_after_start(script: Script) -> Broken:
    """Let a client say that it has the first item already, and get it all the same (SEQ-02)."""
    found = stream_finder.pick(
        script,
        (
            (each.items[0], each)
            for each in stream_finder.ranges(script)
            if each.former is None and each.instance.alone and not each.instance.asked["start_seqno"]
            if not each.instance.asked["stream_flags"] & (TAKEOVER | DISK_ONLY | TO_LATEST)
            if not each.instance.filtered and stream_finder.seqno(each.items[0]) < each.instance.asked["end_seqno"]
        ),
    )
    instance, first = found.instance, stream_finder.seqno(found.items[0])
    # It names the branch that the answer has for this, and a snapshot that its seqno completes (FOL-04 to FOL-06).
    uuid = int.from_bytes(instance.answer.frame.value[:_UUID_BYTES], "big")
    instance.asked.update(start_seqno=first, snap_end_seqno=first, vbucket_uuid=uuid)
    because = f"the request starts behind seqno {first}, and the first seqno is {first}"
    return Broken("SEQ-02", "", instance.conversation, (found.items[0], instance.request), because)


def _not_after_start_draft(script: Script) -> Broken:
    """The same in the draft (SEQ-02): its request says no more than where to start."""
    found = stream_finder.pick(
        script,
        (
            (each.items[0], each)
            for each in stream_finder.snapshots(script)
            if each.marker.frame.name == "snapshot_start" and each.former is None and each.items
        ),
    )
    instance, first = found.instance, stream_finder.seqno(found.items[0])
    instance.asked.update(start_seqno=first, high_seqno=first)
    because = f"the request starts behind seqno {first}, and the first seqno is {first}"
    return Broken("SEQ-02", "draft", instance.conversation, (found.items[0], instance.request), because)


def _finite(script: Script) -> Iterator[Instance]:
    """Go through the streams that end because their end is reached."""
    for each in stream_finder.instances(script):
        flags = each.asked.get("stream_flags", 0)
        if each.completed and each.items and not flags & (TAKEOVER | DISK_ONLY | TO_LATEST):
            yield each


def _over_early(script: Script) -> Broken:
    """End a stream far from the end that was asked for (SEQ-03)."""
    instance, finish = stream_finder.pick(
        script, ((end, (each, end)) for each in _finite(script) if (end := each.finish) is not None)
    )
    last = stream_finder.seqno(instance.items[-1])
    instance.asked["end_seqno"] = last + _MUCH_LATER
    because = f"the stream ends without trouble at seqno {last}, and the request wants {last + _MUCH_LATER}"
    return Broken("SEQ-03", "early", instance.conversation, (finish, instance.items[-1], instance.request), because)


def _beyond_end(script: Script) -> Broken:
    """Announce one more snapshot after the end that was asked for (SEQ-03)."""
    found = stream_finder.pick(
        script,
        (
            (last.items[-1], last)
            for each in _finite(script)
            if each.alone and (last := each.snapshots[-1]).whole
            if len(last.items) > 1 and not last.historical and not last.flags & ACK
        ),
    )
    instance = found.instance
    marker = split(found, len(found.items) - 1)
    end = found.end  # of the first part
    instance.asked["end_seqno"] = end
    start = marker.frame.fields["snap_start_seqno"]
    because = f"a snapshot starts at {start}, and the request wants nothing behind {end}"
    return Broken("SEQ-03", "beyond", instance.conversation, (marker, instance.request, found.marker), because)


def _zero(script: Script) -> Broken:
    """Give the first item of a fresh stream the seqno 0 (SEQ-07); so it cannot be after the start (SEQ-02)."""
    unshared = stream_finder.unshared(script)
    found = stream_finder.pick(
        script,
        (
            (each.items[0], each)
            for each in stream_finder.ranges(script)
            if each.former is None and not each.start and len(each.items) > 1
            if each.items[0].frame.name in stream_finder.DOCUMENTS and id(each.items[0]) in unshared
        ),
    )
    found.items[0].frame.seqno = 0
    return Broken("SEQ-07", "zero", found.instance.conversation, (found.items[0],), "the seqno is 0")


def _huge(script: Script) -> Broken:
    """Give the last item of a stream a seqno of 49 bits (SEQ-07)."""
    found = stream_finder.pick(script, ((each.items[-1], each) for each in _loose_ends(script)))
    wrong = _LIMIT + found.end
    _move_end(found, wrong)
    because = f"the seqno {wrong} is not below 2^48"
    return Broken("SEQ-07", "huge", found.instance.conversation, (found.items[-1], found.marker), because)


def _thin(script: Script) -> Broken:
    """Let hardly anything come of the last snapshot of a stream that was dense before (SEQ-12)."""
    found = stream_finder.pick(
        script,
        (
            (each.marker, each)
            for each in _loose_ends(script)
            if each.in_memory and any(_dense(other) for other in each.instance.snapshots if other is not each)
        ),
    )
    count = len(found.items)
    span = max(_THIN_SPAN, int(count / _THIN))
    _move_end(found, found.start + span - 1)
    because = f"{count} of the {span} seqnos from {found.start} to {found.end} came, and more than half before"
    return Broken("SEQ-12", "", found.instance.conversation, (found.marker, found.items[-1]), because)


def _dense(snapshot: Snapshot) -> bool:
    span = snapshot.end - snapshot.start + 1
    return snapshot.ranged and span >= _DENSE_SPAN and len(snapshot.items) >= _DENSE * span


def _loose_ends(script: Script) -> Iterator[Snapshot]:
    """Go through last snapshots whose end may lie elsewhere: no stream goes on from there."""
    reported = any(each.frame.name == "get_all_vb_seqnos" for _, each in script.all())
    for each in stream_finder.ranges(script):
        free = each.instance.alone and each.following is None and not reported and not each.instance.acknowledged
        if free and each.whole and not each.flags & ACK and each.items[-1].frame.name in stream_finder.DOCUMENTS:
            yield each


def _move_end(snapshot: Snapshot, end: int) -> None:
    """Move the last item of a snapshot, and the end with it."""
    snapshot.items[-1].frame.seqno = end
    snapshot.marker.frame.fields["snap_end_seqno"] = end


def _advanced_again(script: Script) -> Broken:
    """Advance to the seqno that the last item of a snapshot had (SEQ-11); it comes twice then (SEQ-01)."""
    found = stream_finder.pick(script, ((each.items[-1], each) for each in _ordinary(script) if each.whole))
    advance = _advance(found, found.end)
    because = f"seqno {found.end} is advanced to, and was there already"
    return Broken("SEQ-11", "again", found.instance.conversation, (advance, found.items[-1]), because)


def _advanced_beyond(script: Script) -> Broken:
    """Advance after the end of a snapshot (SEQ-11), where nothing follows that would be out of order."""
    found = stream_finder.pick(
        script,
        (
            (each.items[-1], each)
            for each in _ordinary(script)
            if each.following is None and each.instance.alone and not each.instance.completed and each.whole
        ),
    )
    wrong = found.end + _BEYOND
    advance = _advance(found, wrong)
    because = f"seqno {wrong} is advanced to in a snapshot that ends at {found.end}"
    return Broken("SEQ-11", "beyond", found.instance.conversation, (advance, found.marker), because)


def _advanced_early(script: Script) -> Broken:
    """Advance in the middle of a snapshot (SEQ-11); filtered backfills may, memory snapshots may not."""
    unshared = stream_finder.unshared(script)
    instance, item, following = stream_finder.pick(
        script,
        (
            (item, (each.instance, item, following))
            for each in _ordinary(script)
            if each.in_memory and not each.instance.filtered
            for item, following in zip(each.items[1:], each.items[2:], strict=False)
            if item.frame.name in stream_finder.DOCUMENTS and id(item) in unshared
        ),
    )
    seqno = stream_finder.seqno(item)
    item.frame = _advanced(item, seqno)
    because = (
        f"seqno {stream_finder.seqno(following)} comes in the snapshot that seqno {seqno} was advanced to the end of"
    )
    return Broken("SEQ-11", "early", instance.conversation, (item, following), because)


def _ordinary(script: Script) -> Iterator[Snapshot]:
    """Go through the snapshots of servers that advance seqnos: they know HELLO, and no sync replication is on."""
    knowing = stream_finder.recent(script)
    for each in with_room(script):
        fits = not each.historical and not each.flags & ACK and "max_visible_seqno" not in each.marker.frame.fields
        # Two seqnos advanced in one snapshot would be one fault more.
        if fits and id(each.instance.conversation) in knowing and each.items[-1].frame.name in stream_finder.DOCUMENTS:
            yield each


def _advance(snapshot: Snapshot, seqno: int) -> Emission:
    last, instance = snapshot.items[-1], snapshot.instance
    return edits.put_after(instance.conversation, last, instance.producer, _advanced(last, seqno))


def _advanced(like: Emission, seqno: int) -> Frame:
    nothing = {"key": b"", "value": b"", "cas": 0, "datatype": 0, "layout": None}
    return like.frame.copy(name="seqno_advanced", fields={"by_seqno": seqno}, **nothing)


FAULTS: tuple[Fault, ...] = (
    Fault("SEQ-01", "send two items the wrong way round", "basic", _backwards, "backwards"),
    Fault("SEQ-01", "send a system event twice", "collections", _repeated, "repeated"),
    Fault("SEQ-02", "send what the request says is there already", "basic", _not_after_start),
    Fault(
        "SEQ-02", "send in the draft what the request says is there already", "draft", _not_after_start_draft, "draft"
    ),
    Fault("SEQ-03", "end a stream long before its end", "basic", _over_early, "early"),
    Fault("SEQ-03", "announce a snapshot behind the end of the stream", "basic", _beyond_end, "beyond"),
    Fault("SEQ-07", "send seqno 0", "basic", _zero, "zero", ("SEQ-02",)),
    Fault("SEQ-07", "send a seqno of 49 bits", "basic", _huge, "huge"),
    Fault("SEQ-11", "advance to a seqno that was there", "modern", _advanced_again, "again", ("SEQ-01",)),
    Fault("SEQ-11", "advance behind the end of a snapshot", "modern", _advanced_beyond, "beyond", ("SNP-02",)),
    Fault("SEQ-11", "advance in the middle of a snapshot", "modern", _advanced_early, "early"),
    Fault("SEQ-12", "let hardly anything come of a snapshot", "history", _thin),
    *seqno_versions.VERSION_FAULTS,
    *seqno_durability.DURABILITY_FAULTS,
)
