"""Faults in synchronous writes: prepares, what completes them, what replicas acknowledge (SEQ-08 to SEQ-10).

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dissector.generate.faults import edits, stream_finder
from dissector.generate.scenario import Broken, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.conversation import Emission
    from dissector.generate.faults.stream_finder import Snapshot
    from dissector.generate.scenario import Script

_COMPLETIONS = ("commit", "abort")
_NOT_SENT_YET = 10  #: how far after everything that was sent a replica acknowledges


class _Write(NamedTuple):
    """A synchronous write in memory snapshots."""

    prepared: Snapshot
    prepare: Emission
    completed: Snapshot
    completion: Emission


def _writes(script: Script) -> Iterator[_Write]:
    """Go through the writes whose prepare and completion are shown, of documents that nothing else is about.

    From disk, prepares may be missing or repeated; other writes of the document would meet what is changed.
    """
    histories = stream_finder.histories(script)
    for instance in stream_finder.instances(script):
        prepares = {
            stream_finder.seqno(item): (each, item)
            for each in instance.snapshots
            for item in each.items
            if item.frame.name == "prepare" and each.in_memory
        }
        for each in instance.snapshots:
            for item in each.items:
                prepare = prepares.get(item.frame.fields.get("prepared_seqno", 0))
                whole = item.frame.name in _COMPLETIONS and prepare is not None and each.in_memory
                if whole and prepare is not None and len(histories[instance.vbucket, item.frame.key]) == 2:
                    yield _Write(*prepare, each, item)


def _before_prepare(script: Script) -> Broken:
    """Complete a write at the seqno it is prepared at, or so it says (SEQ-08)."""
    write = stream_finder.pick(script, ((each.completion, each) for each in _writes(script)))
    own = stream_finder.seqno(write.completion)
    write.completion.frame.fields["prepared_seqno"] = own
    because = f"the {write.completion.frame.name} at seqno {own} is of a prepare at seqno {own}"
    return _broken("SEQ-08", "own-seqno", write, because, write.completion, write.prepare)


def _other_key(script: Script) -> Broken:
    """Complete the write of another key than the one that was prepared (SEQ-08)."""
    write = stream_finder.pick(script, ((each.completion, each) for each in _writes(script)))
    frame = write.completion.frame
    frame.key += b"-other"
    seqno = stream_finder.seqno(write.prepare)
    because = f"the {frame.name} of {_named(write.completion)} is of the prepare at seqno {seqno}, of another key"
    return _broken("SEQ-08", "other-key", write, because, write.completion, write.prepare)


def _completed_twice(script: Script) -> Broken:
    """Complete a write again, where a plain mutation was (SEQ-08)."""
    unshared = stream_finder.unshared(script)

    def options() -> Iterator[tuple[Emission, tuple[_Write, Emission]]]:
        for write in _writes(script):
            parts = write.completed.instance.snapshots
            for later in parts[write.completed.at + 1 :]:
                for item in later.items if later.in_memory else ():
                    if item.frame.name == "mutation" and id(item) in unshared:
                        yield item, (write, item)

    write, item = stream_finder.pick(script, options())
    first, seqno = write.completion.frame, stream_finder.seqno(item)
    item.frame = first.copy()
    item.frame.seqno = seqno
    because = (
        f"the prepare at seqno {stream_finder.seqno(write.prepare)} is completed at seqno"
        f" {stream_finder.seqno(write.completion)} and again at seqno {seqno}"
    )
    return _broken("SEQ-08", "twice", write, because, item, write.completion, write.prepare)


def _prepared_twice(script: Script) -> Broken:
    """Prepare a document again that a prepare is outstanding of (SEQ-09).

    What completed the first becomes a plain mutation of another document, and a later write is one of this document.
    """

    def options() -> Iterator[tuple[Emission, tuple[_Write, _Write]]]:
        writes = [each for each in _writes(script) if each.completion.frame.name == "commit"]
        for first in writes:
            for second in writes:
                later = second.prepared.at > first.completed.at
                if later and second.prepared.instance is first.completed.instance:
                    yield second.prepare, (first, second)
                    break

    first, second = stream_finder.pick(script, options())
    seqno, made = stream_finder.seqno(first.completion), first.prepare.frame
    mutation = made.copy(name="mutation", key=made.key + b"-plain", fields={"by_seqno": seqno, "rev_seqno": 1})
    first.completion.frame = mutation
    second.prepare.frame.key = second.completion.frame.key = made.key
    second.prepare.frame.fields["rev_seqno"] = made.fields["rev_seqno"] + 1
    because = (
        f"{_named(second.prepare)} is prepared at seqno {stream_finder.seqno(second.prepare)},"
        f" and what was prepared at seqno {stream_finder.seqno(first.prepare)} is not completed"
    )
    return _broken("SEQ-09", "", second, because, second.prepare, first.prepare)


def _acknowledged_less(script: Script) -> Broken:
    """Acknowledge less than before (SEQ-10)."""
    instance, last = stream_finder.pick(
        script,
        (
            (each, (instance, each))
            for instance in stream_finder.instances(script)
            for each in instance.acknowledged
            if each.frame.fields["prepared_seqno"] > 1
        ),
    )
    before = last.frame.fields["prepared_seqno"]
    frame = last.frame.copy(fields={"prepared_seqno": before - 1})
    less = edits.put_after(instance.conversation, last, last.side, frame)
    because = f"seqno {before - 1} is acknowledged, and {before} was before"
    return Broken("SEQ-10", "backwards", instance.conversation, (less, last), because)


def _acknowledged_more(script: Script) -> Broken:
    """Acknowledge what has not been sent yet (SEQ-10)."""

    def options() -> Iterator[tuple[Emission, tuple[Snapshot, Emission, int]]]:
        for instance in stream_finder.instances(script):
            places = {id(each): at for at, each in enumerate(instance.conversation)}
            for at, each in enumerate(instance.acknowledged):
                sent = [part for part in instance.snapshots if places[id(part.marker)] < places[id(each)]]
                # What is acknowledged next, so that it does not go backwards then; the end of a snapshot is allowed.
                later = [other.frame.fields["prepared_seqno"] for other in instance.acknowledged[at + 1 :]]
                end = sent[-1].end if sent else 0
                wrong = later[0] if later else end + _NOT_SENT_YET
                if sent and wrong > end:
                    yield each, (sent[-1], each, wrong)

    found, ack, wrong = stream_finder.pick(script, options())
    ack.frame.fields["prepared_seqno"] = wrong
    because = f"seqno {wrong} is acknowledged, and the snapshots announced so far end at {found.end}"
    return Broken("SEQ-10", "ahead", found.instance.conversation, (ack, found.marker), because)


def _broken(rule: str, variant: str, write: _Write, because: str, *emissions: Emission) -> Broken:
    return Broken(rule, variant, write.completed.instance.conversation, emissions, because)


def _named(item: Emission) -> str:
    return repr(item.frame.key.decode(errors="replace"))


DURABILITY_FAULTS: tuple[Fault, ...] = (
    Fault("SEQ-08", "complete a write at its own seqno", "sync-writes", _before_prepare, "own-seqno"),
    Fault("SEQ-08", "complete the write of another key", "sync-writes", _other_key, "other-key"),
    Fault("SEQ-08", "complete a write twice", "sync-writes", _completed_twice, "twice"),
    Fault("SEQ-09", "prepare a document twice", "sync-writes", _prepared_twice),
    Fault("SEQ-10", "acknowledge less than before", "sync-writes", _acknowledged_less, "backwards"),
    Fault("SEQ-10", "acknowledge what was not sent yet", "sync-writes", _acknowledged_more, "ahead"),
)
