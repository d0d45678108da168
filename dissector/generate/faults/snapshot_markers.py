"""Faults in what markers say besides their range: types, seqnos of sync replication, confirmations (SNP-08 to SNP-13).

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.faults import edits, stream_finder
from dissector.generate.faults.edits import agree, split, with_room
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import ACK, CHECKPOINT, DISK, HISTORY, MAY_DUPLICATE, MEMORY, TAKEOVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dissector.generate.conversation import Emission
    from dissector.generate.faults.stream_finder import Snapshot
    from dissector.generate.scenario import Script

_VISIBLE, _COMPLETED = "max_visible_seqno", "high_completed_seqno"
_TOO_FAR = 7  #: how far after the end a seqno is that must not be after it


def _retyped(
    script: Script, variant: str, fits: Callable[[Snapshot], bool], flags: Callable[[int], int], why: str
) -> Broken:
    """Give a marker other flags (SNP-08)."""
    found = stream_finder.pick(script, ((each.marker, each) for each in stream_finder.ranges(script) if fits(each)))
    wrong = flags(found.flags)
    found.marker.frame.fields["snapshot_type"] = wrong
    because = f"the marker's flags are {wrong:#x}: {why}"
    return Broken("SNP-08", variant, found.instance.conversation, (found.marker,), because)


def _both(script: Script) -> Broken:
    # Between two snapshots that say checkpoint or are of its own type, so that SNP-13 has nothing to say.
    return _retyped(script, "both", _inner, lambda flags: flags | MEMORY | DISK | CHECKPOINT, "memory and disk")


def _neither(script: Script) -> Broken:
    return _retyped(script, "neither", _inner, lambda flags: flags & ~(MEMORY | DISK), "neither memory nor disk")


def _duplicates_without_history(script: Script) -> Broken:
    def fits(each: Snapshot) -> bool:
        before = each.former
        # A marker that repeats the end of the one before may do so because it has history (SNP-04).
        return bool(each.flags & MAY_DUPLICATE) and before is not None and before.end < each.start

    why = "duplicates, and no history"
    return _retyped(script, "duplicates", fits, lambda flags: flags & ~HISTORY, why)


def _unasked_history(script: Script) -> Broken:
    unasked = {
        id(conversation)
        for conversation in script.conversations
        if not any(each.frame.name == "control" and each.frame.key == b"change_streams" for each in conversation)
    }

    def fits(each: Snapshot) -> bool:
        return id(each.instance.conversation) in unasked and not each.historical

    why = "history, and nobody asked for change streams"
    return _retyped(script, "history", fits, lambda flags: flags | HISTORY, why)


def _unasked_confirmation(script: Script) -> Broken:
    """Ask for a confirmation outside a takeover, and get it (SNP-08)."""
    found = stream_finder.pick(
        script,
        (
            (each.marker, each)
            for each in stream_finder.ranges(script)
            if each.whole and not each.flags & ACK and not each.instance.asked.get("stream_flags", 0) & TAKEOVER
        ),
    )
    instance, frame = found.instance, found.marker.frame
    frame.fields["snapshot_type"] |= ACK
    confirmation = Frame(frame.dialect, frame.name, response=True, opaque=frame.opaque)
    answer = edits.answer(instance.conversation, found.items[-1], confirmation)
    because = f"the marker's flags are {found.flags:#x}: to be confirmed, and the stream is no takeover"
    return Broken("SNP-08", "confirmation", instance.conversation, (found.marker, instance.request, answer), because)


def _invisible(script: Script) -> Broken:
    """Say that a seqno after the end is visible (SNP-09)."""
    found = stream_finder.pick(
        script, ((each.marker, each) for each in stream_finder.ranges(script) if _VISIBLE in each.marker.frame.fields)
    )
    return _behind_end(found, _VISIBLE, "visible")


def _prepared(script: Script) -> Broken:
    found = _latest_form(script)
    return _behind_end(found, "high_prepared_seqno", "prepared")


def _purged(script: Script) -> Broken:
    found = _latest_form(script)
    return _behind_end(found, "purge_seqno", "purged")


def _behind_end(found: Snapshot, name: str, variant: str) -> Broken:
    wrong = found.end + _TOO_FAR
    found.marker.frame.fields[name] = wrong
    because = f"{name} is {wrong}, and the snapshot ends at {found.end}"
    return Broken("SNP-09", variant, found.instance.conversation, (found.marker,), because)


def _latest_form(script: Script) -> Snapshot:
    """Agree upon markers of the form V2.2 where V2.0 was good enough; return a disk snapshot."""
    found = stream_finder.pick(script, ((each.marker, each) for each in _from_disk(script)))
    conversation = found.instance.conversation
    if not any(each.frame.key == b"max_marker_version" for each in conversation):
        agree(script, conversation, "max_marker_version", "2.2")
        for each in conversation:
            if _COMPLETED in each.frame.fields:
                each.frame.fields |= {"purge_seqno": 0, "high_prepared_seqno": 0}
    return found


def _nothing_completed(script: Script) -> Broken:
    """Leave the high completed seqno out of a disk marker, with all that came with it (SNP-09)."""
    found = stream_finder.pick(script, ((each.marker, each) for each in _from_disk(script)))
    kept = ("snap_start_seqno", "snap_end_seqno", "snapshot_type")
    frame = found.marker.frame
    frame.fields = {name: frame.fields[name] for name in kept}
    because = "a disk marker of sync replication has no high completed seqno"
    return Broken("SNP-09", "no-completed", found.instance.conversation, (found.marker,), because)


def _completed_backwards(script: Script) -> Broken:
    """Send a disk snapshot in two parts, the second with a lower high completed seqno (SNP-09)."""
    found = stream_finder.pick(
        script,
        (
            (each.marker, each)
            for each in _from_disk(script)
            if len(each.items) > 1 and each.marker.frame.fields[_COMPLETED] > 1 and not each.flags & ACK
        ),
    )
    completed = found.marker.frame.fields[_COMPLETED]
    marker = split(found, len(found.items) - 1)
    marker.frame.fields[_COMPLETED] = completed - 1
    because = f"the high completed seqno is {completed - 1}, and was {completed} before"
    return Broken("SNP-09", "completed-backwards", found.instance.conversation, (marker, found.marker), because)


def _confirmations(script: Script) -> Iterator[tuple[Snapshot, Emission]]:
    """Go through the snapshots that are to be confirmed, with their confirmations: in the same order."""
    for instance in stream_finder.instances(script):
        asking = [each for each in instance.snapshots if each.flags & ACK]
        yield from zip(asking, instance.confirmed, strict=False)


def _unconfirmed(script: Script) -> Broken:
    """Leave the last confirmation of a stream out (SNP-10); another one would be taken for an earlier one."""
    found, answer = stream_finder.pick(
        script,
        (
            (each.marker, (each, answer))
            for each, answer in _confirmations(script)
            if answer is each.instance.confirmed[-1]
        ),
    )
    edits.take_out(found.instance.conversation, answer)
    because = f"the snapshot {found.start} to {found.end} is to be confirmed, and nobody does"
    return Broken("SNP-10", "missing", found.instance.conversation, (found.marker, found.items[-1]), because)


def _confirmed_twice(script: Script) -> Broken:
    """Confirm a snapshot twice (SNP-10)."""
    found, answer = stream_finder.pick(script, ((answer, (each, answer)) for each, answer in _confirmations(script)))
    again = edits.put_after(found.instance.conversation, answer, answer.side, answer.frame.copy())
    because = f"the snapshot {found.start} to {found.end} is confirmed twice"
    return Broken("SNP-10", "twice", found.instance.conversation, (again, answer, found.marker), because)


def _confirmed_early(script: Script) -> Broken:
    """Confirm a snapshot before its last item (SNP-10)."""
    found, answer = stream_finder.pick(
        script,
        ((each.items[-1], (each, answer)) for each, answer in _confirmations(script) if len(each.items) > 1),
    )
    conversation = found.instance.conversation
    edits.take_out(conversation, answer)
    early = edits.put_before(conversation, found.items[-1], answer.side, answer.frame)
    because = f"the snapshot {found.start} to {found.end} is confirmed before seqno {found.end} is sent"
    return Broken("SNP-10", "early", conversation, (early, found.marker, found.items[-1]), because)


def _empty(script: Script) -> Broken:
    """Send nothing of what is older than the history, but announce it (SNP-12).

    Elsewhere an empty snapshot is an incomplete one or an overlapping one, which is worse (SNP-06, SNP-04).
    """
    unshared = stream_finder.unshared(script)

    def options() -> Iterator[tuple[Emission, tuple[Snapshot, Snapshot]]]:
        for each in stream_finder.ranges(script):
            following = each.following
            usable = following is not None and following.historical and following.end == each.end
            if usable and following is not None and all(id(item) in unshared for item in each.items):
                yield each.marker, (each, following)

    found, following = stream_finder.pick(script, options())
    conversation = found.instance.conversation
    for item in found.items:
        edits.take_out(conversation, item)
    because = f"nothing comes of the snapshot {found.start} to {found.end}"
    return Broken("SNP-12", "", conversation, (found.marker, following.marker), because)


def _to_memory(script: Script) -> Broken:
    """Go over from disk to memory without a checkpoint (SNP-13)."""
    recent = stream_finder.recent(script)
    found, before = stream_finder.pick(
        script,
        (
            (each.marker, (each, before))
            for each in stream_finder.ranges(script)
            if each.in_memory and each.flags & CHECKPOINT and id(each.instance.conversation) in recent
            if (before := each.former) is not None and before.flags & (MEMORY | DISK) == DISK
        ),
    )
    found.marker.frame.fields["snapshot_type"] &= ~CHECKPOINT
    return _unmarked("to-memory", found, found.marker, before.marker)


def _to_disk(script: Script) -> Broken:
    """Send the last item of a memory snapshot from disk, without a checkpoint, and go back with one (SNP-13)."""
    recent = stream_finder.recent(script)
    found = stream_finder.pick(
        script,
        (
            (each.items[-1], each)
            for each in with_room(script)
            if each.in_memory and len(each.items) > 1 and not each.historical and not each.flags & ACK
            # A disk marker of sync replication says what was completed (SNP-09).
            if each.whole and _VISIBLE not in each.marker.frame.fields
            if id(each.instance.conversation) in recent and each.end <= each.instance.asked["end_seqno"]
        ),
    )
    following = found.following
    if following is not None and following.in_memory:
        following.marker.frame.fields["snapshot_type"] |= CHECKPOINT
    marker = split(found, len(found.items) - 1)
    marker.frame.fields["snapshot_type"] = found.flags & ~(CHECKPOINT | MEMORY) | DISK
    return _unmarked("to-disk", found, marker, found.marker)


def _unmarked(variant: str, found: Snapshot, marker: Emission, before: Emission) -> Broken:
    here, there = (each.frame.fields["snapshot_type"] for each in (marker, before))
    because = f"the marker's flags are {here:#x} behind {there:#x}: no checkpoint begins"
    return Broken("SNP-13", variant, found.instance.conversation, (marker, before), because)


def _inner(each: Snapshot) -> bool:
    """Tell whether it is a plain memory snapshot between others of memory, or the last one."""
    before, following = each.former, each.following
    plain = each.in_memory and not each.historical and not each.flags & ACK
    # Of sync replication, a disk marker would have to say what was completed (SNP-09).
    plain = plain and _VISIBLE not in each.marker.frame.fields
    return plain and before is not None and before.in_memory and (following is None or following.in_memory)


def _from_disk(script: Script) -> Iterator[Snapshot]:
    """Go through the disk snapshots of sync replication."""
    for each in with_room(script):
        if each.flags & DISK and _COMPLETED in each.marker.frame.fields:
            yield each


FLAG_FAULTS: tuple[Fault, ...] = (
    Fault("SNP-08", "say that a snapshot is both of memory and of disk", "basic", _both, "both"),
    Fault("SNP-08", "say that a snapshot is neither of memory nor of disk", "basic", _neither, "neither"),
    Fault(
        "SNP-08", "allow duplicates in a snapshot without history", "history", _duplicates_without_history, "duplicates"
    ),
    Fault("SNP-08", "send history unasked", "modern", _unasked_history, "history", ("CON-05",)),
    Fault("SNP-08", "ask for a confirmation outside a takeover", "basic", _unasked_confirmation, "confirmation"),
    Fault("SNP-09", "say that a seqno behind the end is visible", "sync-writes", _invisible, "visible"),
    Fault("SNP-09", "say that a seqno behind the end is prepared", "takeover", _prepared, "prepared"),
    Fault("SNP-09", "say that a seqno behind the end is purged", "takeover", _purged, "purged"),
    Fault("SNP-09", "leave the high completed seqno out", "sync-writes", _nothing_completed, "no-completed"),
    Fault("SNP-09", "lower the high completed seqno", "sync-writes", _completed_backwards, "completed-backwards"),
    Fault("SNP-10", "do not confirm a snapshot", "takeover", _unconfirmed, "missing", ("OPQ-02", "TKO-04")),
    Fault("SNP-10", "confirm a snapshot twice", "takeover", _confirmed_twice, "twice", ("OPQ-01",)),
    Fault("SNP-10", "confirm a snapshot before its last item", "takeover", _confirmed_early, "early"),
    Fault("SNP-12", "announce a snapshot and send nothing of it", "history", _empty),
    Fault("SNP-13", "go over from disk to memory without a checkpoint", "modern", _to_memory, "to-memory"),
    Fault("SNP-13", "go over from memory to disk without a checkpoint", "modern", _to_disk, "to-disk"),
)
