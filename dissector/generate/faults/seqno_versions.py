"""Faults in revisions and CAS, which grow with the seqnos of a document (SEQ-04 to SEQ-06).

Each function changes a script so that one rule is broken, and says by which messages; must not know how they are found.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dissector.generate.faults import stream_finder
from dissector.generate.scenario import Broken, Fault
from dissector.generate.session import SECOND
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dissector.generate.conversation import Emission
    from dissector.generate.faults.stream_finder import Instance
    from dissector.generate.scenario import Script

_ALL_ONES = (1 << 64) - 1
_CLOCK = ~0xFFFF  #: the bits of a CAS that are a clock
_CAPTURE_BEGIN = 1_700_000_000 * SECOND
_DAY = 24 * 3600 * SECOND
_DAYS_AHEAD = 30
_REVISED_BEFORE = 4  #: a revision that there is room below of


def _versions(script: Script, conversations: Collection[int]) -> tuple[Instance, Emission, Emission]:
    """Make two versions of one document: give an item the key of one in an earlier snapshot of its stream.

    Neither document may be anywhere else: its other versions would be in the wrong order too.
    """
    histories, unshared = stream_finder.histories(script), stream_finder.unshared(script)

    def usable(each: Emission) -> bool:
        once = len(histories.get((each.frame.vbucket, each.frame.key), ())) == 1
        return each.frame.name == "mutation" and once and id(each) in unshared

    def pairs() -> Iterator[tuple[Emission, tuple[Instance, Emission, Emission]]]:
        for instance in stream_finder.instances(script):
            if id(instance.conversation) not in conversations:
                continue
            # Only after ordinary snapshots: in others the order of arrival says nothing.
            parts = [each for each in instance.snapshots if not each.out_of_order]
            for before, following in pairwise(parts):
                older = next((each for each in before.items if usable(each)), None)
                for newer in following.items if older is not None else ():
                    if usable(newer) and older is not None:
                        yield newer, (instance, older, newer)

    instance, older, newer = stream_finder.pick(script, pairs())
    newer.frame.key = older.frame.key
    newer.frame.fields["rev_seqno"] = older.frame.fields["rev_seqno"] + 1
    return instance, older, newer


def _revised(script: Script, variant: str) -> Broken:
    """Let a newer version have a revision that is not higher (SEQ-04); the draft says nothing of revisions."""
    conversations = {id(conversation) for conversation, each in script.all() if each.frame.dialect is not Dialect.DRAFT}
    instance, older, newer = _versions(script, conversations)
    if variant == "backwards":
        older.frame.fields["rev_seqno"] = _REVISED_BEFORE
    before = older.frame.fields["rev_seqno"]
    newer.frame.fields["rev_seqno"] = before if variant == "equal" else before - 1
    because = (
        f"{_named(newer)} has revision {newer.frame.fields['rev_seqno']} at seqno {stream_finder.seqno(newer)}"
        f" and {before} at seqno {stream_finder.seqno(older)}"
    )
    return Broken("SEQ-04", variant, instance.conversation, (newer, older), because)


def _revision_backwards(script: Script) -> Broken:
    return _revised(script, "backwards")


def _revision_equal(script: Script) -> Broken:
    return _revised(script, "equal")


def _cas(script: Script, variant: str) -> Broken:
    """Let a newer version have a CAS that is not higher (SEQ-05)."""
    instance, older, newer = _versions(script, stream_finder.recent(script))
    newer.frame.cas = older.frame.cas - (SECOND & _CLOCK) if variant == "backwards" else older.frame.cas
    because = (
        f"{_named(newer)} has CAS {newer.frame.cas:#x} at seqno {stream_finder.seqno(newer)}"
        f" and {older.frame.cas:#x} at seqno {stream_finder.seqno(older)}"
    )
    return Broken("SEQ-05", variant, instance.conversation, (newer, older), because)


def _cas_backwards(script: Script) -> Broken:
    return _cas(script, "backwards")


def _cas_equal(script: Script) -> Broken:
    return _cas(script, "equal")


def _odd_cas(script: Script, variant: str, cas: int, why: str) -> Broken:
    """Give the only version of a document a CAS that no clock has (SEQ-06)."""
    histories, unshared, recent = (
        stream_finder.histories(script),
        stream_finder.unshared(script),
        stream_finder.recent(script),
    )
    instance, item = stream_finder.pick(
        script,
        (
            (item, (each, item))
            for each in stream_finder.instances(script)
            if id(each.conversation) in recent  # before, a CAS was just a number
            for item in each.items
            if item.frame.name == "mutation" and id(item) in unshared
            if len(histories[item.frame.vbucket, item.frame.key]) == 1
        ),
    )
    item.frame.cas = cas
    return Broken("SEQ-06", variant, instance.conversation, (item,), f"the CAS {cas:#x} of {_named(item)} {why}")


def _no_cas(script: Script) -> Broken:
    return _odd_cas(script, "zero", 0, "is none")


def _full_cas(script: Script) -> Broken:
    return _odd_cas(script, "all-ones", _ALL_ONES, "is the highest there is")


def _cas_ahead(script: Script) -> Broken:
    ahead = (_CAPTURE_BEGIN + _DAYS_AHEAD * _DAY) & _CLOCK
    return _odd_cas(script, "ahead", ahead, f"is {_DAYS_AHEAD} days ahead of the capture")


def _named(item: Emission) -> str:
    return repr(item.frame.key.decode(errors="replace"))


VERSION_FAULTS: tuple[Fault, ...] = (
    Fault("SEQ-04", "lower the revision of a document", "modern", _revision_backwards, "backwards"),
    Fault("SEQ-04", "change a document without a new revision", "modern", _revision_equal, "equal"),
    Fault("SEQ-05", "lower the CAS of a document", "modern", _cas_backwards, "backwards"),
    Fault("SEQ-05", "change a document without a new CAS", "modern", _cas_equal, "equal"),
    Fault("SEQ-06", "send a mutation without a CAS", "modern", _no_cas, "zero", ("FRM-07",)),
    Fault("SEQ-06", "send the highest CAS there is", "modern", _full_cas, "all-ones"),
    Fault("SEQ-06", "send a CAS from the future", "modern", _cas_ahead, "ahead"),
)
