"""Faults in where snapshots begin and end, and in what they hold (SNP-01 to SNP-07), and all others about snapshots.

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dissector.generate.faults import edits, snapshot_markers, snapshot_oso, stream_finder
from dissector.generate.faults.edits import with_room
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import ACK, CHECKPOINT
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dissector.generate.conversation import Emission
    from dissector.generate.faults.stream_finder import Snapshot
    from dissector.generate.scenario import Script


def _unannounced(script: Script, variant: str, fits: Callable[[Snapshot], bool]) -> Broken:
    """Let the first item of a stream come before what announces it (SNP-01)."""
    found = stream_finder.pick(
        script,
        (
            (each.marker, each)
            for each in stream_finder.snapshots(script)
            if fits(each) and each.former is None and len(each.items) > 1 and not each.flags & ACK
        ),
    )
    marker, item = found.marker, found.items[0]
    marker.frame, item.frame = item.frame, marker.frame
    seqno, vbucket = stream_finder.seqno(marker), found.instance.vbucket
    because = f"seqno {seqno} of vbucket {vbucket} comes before any snapshot is announced"
    return Broken("SNP-01", variant, found.instance.conversation, (marker, item), because)


def _item_first(script: Script) -> Broken:
    return _unannounced(script, "item-first", lambda each: each.ranged)


def _item_first_draft(script: Script) -> Broken:
    return _unannounced(script, "draft", _drafted)


def _never_closed(script: Script) -> Broken:
    """Leave out the last marker of an early stream, which closes the items before it (SNP-01)."""
    found = stream_finder.pick(
        script,
        (
            (each.items[0], each)
            for each in stream_finder.snapshots(script)
            if _early(each) and each.items and each.following is None and _over(each) is not None
        ),
    )
    conversation, finish = found.instance.conversation, _over(found)
    answer = _answer(found.marker, found)
    if answer is not None:
        edits.take_out(conversation, answer)
    edits.take_out(conversation, found.marker)
    numbers = found.seqnos
    because = f"no marker closes the seqnos {numbers[0]} to {numbers[-1]} before the stream is over"
    proof = () if finish is None else (finish,)
    return Broken("SNP-01", "never-closed", conversation, (found.items[0], *found.items[1:], *proof), because)


def _below(script: Script) -> Broken:
    """Let a marker start after its first item (SNP-02)."""
    found = stream_finder.pick(
        script,
        (
            (each.items[0], each)
            for each in stream_finder.ranges(script)
            # The first marker of a stream has to start where the request says (SNP-07).
            if each.former is not None and not each.historical and len(each.items) > 1
        ),
    )
    first, second = found.seqnos[:2]
    found.marker.frame.fields["snap_start_seqno"] = second
    because = f"seqno {first} is below the snapshot's start {second}"
    return Broken("SNP-02", "below", found.instance.conversation, (found.items[0], found.marker), because)


def _above(script: Script) -> Broken:
    """Let a marker end before its last item, in a snapshot that nothing asks to be complete (SNP-02)."""
    found = stream_finder.pick(
        script,
        (
            (each.items[-1], each)
            for each in stream_finder.ranges(script)
            # A next marker, or an end without trouble, would find that the snapshot did not stop at its end (SNP-06).
            if each.following is None and not each.instance.completed and each.instance.alone
            if each.whole and len(each.items) > 1 and not each.flags & ACK and not each.historical
            # A seqno advanced has a rule of its own (SEQ-11), and so has what replicas acknowledge (SEQ-10).
            if each.items[-1].frame.name in stream_finder.DOCUMENTS and not each.instance.acknowledged
        ),
    )
    end, last = found.seqnos[-2:]
    fields = found.marker.frame.fields
    fields["snap_end_seqno"] = end
    if fields.get("max_visible_seqno", 0) > end:
        fields["max_visible_seqno"] = end
    because = f"seqno {last} is above the snapshot's end {end}"
    return Broken("SNP-02", "above", found.instance.conversation, (found.items[-1], found.marker), because)


def _inverted(script: Script) -> Broken:
    """Announce a snapshot that starts after its end (SNP-03).

    It ends where the last one did, so that nothing is missing, and has no items, which is a fault that cannot be
    avoided: none would be inside.
    """
    found = stream_finder.pick(script, ((each.items[-1], each) for each in _pairs(script) if each.whole))
    fields = {**found.marker.frame.fields, "snap_start_seqno": found.end + 1}
    fields["snapshot_type"] &= ~(ACK | CHECKPOINT)
    instance = found.instance
    marker = edits.put_after(
        instance.conversation, found.items[-1], instance.producer, found.marker.frame.copy(fields=fields)
    )
    because = f"the snapshot starts at {found.end + 1} and ends at {found.end}"
    return Broken("SNP-03", "", instance.conversation, (marker,), because)


def _overlap(script: Script, variant: str) -> Broken:
    """Let a marker start at the end of the one before, or below it (SNP-04)."""
    recent = stream_finder.recent(script)
    found, before = stream_finder.pick(
        script,
        (
            (each.marker, (each, before))
            for each in stream_finder.ranges(script)
            if (before := each.former) is not None and before.items and not each.historical and not before.historical
            if variant == "at-end" or stream_finder.seqno(before.items[0]) < before.end
            if id(each.instance.conversation) in recent
        ),
    )
    start = before.end if variant == "at-end" else stream_finder.seqno(before.items[0])
    found.marker.frame.fields["snap_start_seqno"] = start
    because = f"the snapshot starts at {start}, and the one before it ended at {before.end}"
    return Broken("SNP-04", variant, found.instance.conversation, (found.marker, before.marker), because)


def _at_end(script: Script) -> Broken:
    return _overlap(script, "at-end")


def _reaching_back(script: Script) -> Broken:
    return _overlap(script, "reaching-back")


def _repeated_key(script: Script, variant: str, fits: Callable[[Snapshot], bool]) -> Broken:
    """Give a later item of a snapshot the key of an earlier one (SNP-05)."""
    histories, unshared = stream_finder.histories(script), stream_finder.unshared(script)

    def pairs() -> Iterator[tuple[Emission, tuple[Snapshot, Emission, Emission]]]:
        for snapshot in stream_finder.snapshots(script):
            if snapshot.historical or not fits(snapshot):
                continue
            usable = [each for each in snapshot.items if each.frame.name == "mutation" and id(each) in unshared]
            for older, newer in pairwise(usable):
                # Versions of either document elsewhere would have to be put in order again (SEQ-04, SEQ-05).
                if all(len(histories[each.frame.vbucket, each.frame.key]) == 1 for each in (older, newer)):
                    yield newer, (snapshot, older, newer)

    snapshot, older, newer = stream_finder.pick(script, pairs())
    newer.frame.key = older.frame.key
    # Revision and CAS follow the seqnos, which an out-of-order snapshot does not.
    low, high = sorted((older, newer), key=stream_finder.seqno)
    high.frame.fields["rev_seqno"] = low.frame.fields["rev_seqno"] + 1
    if high.frame.cas <= low.frame.cas:
        low.frame.cas, high.frame.cas = high.frame.cas, low.frame.cas
    key = older.frame.key.decode(errors="replace")
    because = (
        f"key {key!r} has seqno {stream_finder.seqno(older)} and seqno {stream_finder.seqno(newer)} in one snapshot"
    )
    return Broken("SNP-05", variant, snapshot.instance.conversation, (newer, older), because)


def _key_twice(script: Script) -> Broken:
    return _repeated_key(script, "", lambda each: each.ranged)


def _key_twice_out_of_order(script: Script) -> Broken:
    return _repeated_key(script, "oso", lambda each: each.out_of_order)


def _key_twice_early(script: Script) -> Broken:
    # After the first marker recorded servers send keys again before the next one.
    return _repeated_key(script, "early", lambda each: _early(each) and each.former is None)


def _key_twice_draft(script: Script) -> Broken:
    return _repeated_key(script, "draft", _drafted)


def _incomplete(script: Script, variant: str) -> Broken:
    """Leave out the last item of a snapshot that has to be complete (SNP-06)."""
    unshared = stream_finder.unshared(script)

    def options() -> Iterator[tuple[Emission, tuple[Snapshot, Emission]]]:
        for each in stream_finder.ranges(script):
            proof = _next_marker(each) if variant == "marker" else each.instance.finish
            usable = each.whole and len(each.items) > 1 and not each.historical and not each.flags & ACK
            # Streams of filters stopped short in some releases, and an end inside a snapshot may cut it.
            if not usable or each.instance.filtered or each.items[-1].frame.name not in stream_finder.DOCUMENTS:
                continue
            if variant == "end" and (
                each.following is not None
                or not each.instance.completed
                or each.end > each.instance.asked.get("end_seqno", 0)
            ):
                continue
            if proof is not None and id(each.items[-1]) in unshared:
                yield each.items[-1], (each, proof)

    found, proof = stream_finder.pick(script, options())
    edits.take_out(found.instance.conversation, found.items[-1])
    last = found.seqnos[-2]
    because = f"the snapshot ends at {found.end}, and the last seqno that came of it is {last}"
    return Broken("SNP-06", variant, found.instance.conversation, (proof, found.marker, found.items[-2]), because)


def _incomplete_before_marker(script: Script) -> Broken:
    return _incomplete(script, "marker")


def _incomplete_before_end(script: Script) -> Broken:
    return _incomplete(script, "end")


def _first_start(script: Script, variant: str) -> Broken:
    """Let the first marker of a resumed stream start elsewhere than the request says (SNP-07)."""

    def wrong(snapshot: Snapshot) -> int | None:
        asked = snapshot.instance.asked
        wanted, start = asked.get("snap_start_seqno", 0), asked.get("start_seqno", 0)
        if variant == "below":
            return wanted - 1 if wanted > 1 else None
        return start if wanted < start else None

    found = stream_finder.pick(
        script,
        (
            (each.marker, each)
            for each in stream_finder.ranges(script)
            if each.former is None and wrong(each) is not None
        ),
    )
    start = wrong(found) or 0
    instance = found.instance
    found.marker.frame.fields["snap_start_seqno"] = start
    because = (
        f"the first snapshot starts at {start}, and the request says {instance.asked['snap_start_seqno']}"
        f" with start {instance.asked['start_seqno']}"
    )
    return Broken("SNP-07", variant, instance.conversation, (found.marker, instance.request), because)


def _first_below(script: Script) -> Broken:
    return _first_start(script, "below")


def _first_above(script: Script) -> Broken:
    return _first_start(script, "above")


def _early(snapshot: Snapshot) -> bool:
    return snapshot.marker.frame.dialect is Dialect.UPR and not snapshot.ranged


def _drafted(snapshot: Snapshot) -> bool:
    return snapshot.marker.frame.name == "snapshot_start"


def _over(snapshot: Snapshot) -> Emission | None:
    """Return what says that the stream is over: a closed one may leave items after its last marker."""
    return snapshot.instance.finish


def _answer(asked: Emission, snapshot: Snapshot) -> Emission | None:
    """Return the success that an early consumer answers a marker with."""
    conversation = snapshot.instance.conversation
    following = conversation.emissions[conversation.place(asked) + 1 :]
    return next((each for each in following if each in snapshot.instance.confirmed), None)


def _next_marker(snapshot: Snapshot) -> Emission | None:
    following = snapshot.following
    return None if following is None or not following.ranged else following.marker


def _pairs(script: Script) -> Iterator[Snapshot]:
    """Go through the snapshots that another one follows, both without history."""
    for each in with_room(script):
        following = each.following
        if following is not None and following.ranged and not each.historical and not following.historical:
            yield each


FAULTS: tuple[Fault, ...] = (
    Fault("SNP-01", "send the first item of a stream before its marker", "basic", _item_first, "item-first"),
    Fault("SNP-01", "send an item of the draft before any snapshot", "draft", _item_first_draft, "draft", ("SNP-14",)),
    Fault("SNP-01", "never close the last items of an early stream", "early-upr", _never_closed, "never-closed"),
    Fault("SNP-02", "start a snapshot behind its first item", "basic", _below, "below"),
    Fault("SNP-02", "end a snapshot before its last item", "modern", _above, "above"),
    Fault("SNP-03", "announce a snapshot that starts behind its end", "basic", _inverted, implies=("SNP-12",)),
    Fault("SNP-04", "start a snapshot at the end of the one before", "modern", _at_end, "at-end"),
    Fault("SNP-04", "start a snapshot inside the one before", "modern", _reaching_back, "reaching-back"),
    Fault("SNP-05", "send a key twice in a snapshot", "modern", _key_twice),
    Fault("SNP-05", "send a key twice in an out-of-order snapshot", "oso", _key_twice_out_of_order, "oso"),
    Fault("SNP-05", "send a key twice before an early marker", "early-upr", _key_twice_early, "early"),
    Fault("SNP-05", "send a key twice in a snapshot of the draft", "draft", _key_twice_draft, "draft"),
    Fault("SNP-06", "go on before a snapshot is complete", "modern", _incomplete_before_marker, "marker"),
    Fault("SNP-06", "end a stream before its snapshot is complete", "basic", _incomplete_before_end, "end"),
    Fault("SNP-07", "start the first snapshot before the requested one", "close-resume", _first_below, "below"),
    Fault("SNP-07", "start the first snapshot inside the requested one", "close-resume", _first_above, "above"),
    *snapshot_markers.FLAG_FAULTS,
    *snapshot_oso.BRACKET_FAULTS,
)
