"""Bugs in documents and seqnos: revisions and CAS values that are wrong, seqnos advanced too early.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.modern import DAIRY, ENDS_CLOSED, FROM_DISK, FRUIT
from dissector.generate.scenarios.setup import RELEASE_4, modern, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY
from dissector.generate.stream import JSON
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Emission
    from dissector.generate.session import Stream

_ALL_ONES = (1 << 64) - 1
_COLLECTION_BEGIN = 0
#: The FlatBuffers table of an event: manifest 1 makes collection 8, fruit, in scope 8.
_COLLECTION = bytes.fromhex(
    "140000001000180004000c001000000000001400100000000100000000000000080000000800000004000000050000006672756974000000"
)
_FILTER = b'{"collections":["%x"]}'


def _poisoned_cas(chance: random.Random) -> Story:
    session = modern(chance, "xdcr-target", collections=False, era=Release(4, 5))
    stream = session.stream(23)
    stream.marker(0, 8, FROM_DISK)
    for seqno in range(1, 9):
        if seqno == 3:
            zero = stream.mutation(seqno, b"tour-3", datatype=JSON, cas=0)
        elif seqno == 6:
            ones = stream.mutation(seqno, b"tour-6", datatype=JSON, cas=_ALL_ONES)
        else:
            stream.mutation(seqno, b"tour-%d" % seqno, datatype=JSON)
    session.idle(6)
    story = Story([session.conversation])
    story.shows("SEQ-06", "the CAS of seqno 6 is 2^64 - 1, and that of seqno 3 is 0", zero, ones)
    return story.shows("FRM-07", "seqno 3 is a mutation with CAS 0", zero)


def _compressed_event(chance: random.Random) -> Story:
    controls = (("flatbuffers_system_events", "true"), ("force_value_compression", "true"), ENDS_CLOSED)
    session = modern(chance, "cdc", controls=controls, era=Release(7, 2))
    stream = session.stream(3)
    stream.marker(0, 4, FROM_DISK)
    value = bytes(cramjam.snappy.compress_raw(_COLLECTION))
    guilty = stream.event(1, _COLLECTION_BEGIN, version=2, key=b"fruit", value=value)
    for seqno in range(2, 5):
        stream.mutation(seqno, b"fig-%d" % seqno, collection=FRUIT, datatype=JSON)
    session.idle(6)
    because = "the event of seqno 1, which makes a collection, has a compressed FlatBuffers table"
    return Story([session.conversation]).shows("FRM-10", because, guilty)


def _revised(stream: Stream, seqno: int, key: bytes, revision: int) -> Emission:
    return stream.mutation(seqno, key, b'{"rev":%d}' % revision, rev_seqno=revision)


def _revision_back(chance: random.Random, vbucket: int, flags: int, steps: tuple[int, ...], era: Release) -> Story:
    """Tell of a document whose revisions are these, one in each snapshot; the last one goes back."""
    if era < Release(5):
        session = plain(chance, "replication:n0->n1:default", era=era)
    else:
        session = modern(chance, "replication:n0->n1:default", collections=False, era=era)
    stream = session.stream(vbucket)
    stream.marker(0, 6, flags)
    for seqno in range(1, 6):
        stream.mutation(seqno, b"order-%d" % seqno)
    sent = [_revised(stream, 6, b"order-6", steps[0])]
    for at, revision in enumerate(steps[1:]):
        first = 7 + 2 * at
        stream.marker(first, first + 1, MEMORY | CHECKPOINT if not at else MEMORY)
        stream.mutation(first, b"order-%d" % first)
        sent.append(_revised(stream, first + 1, b"order-6", revision))
    session.idle(6)
    because = f"order-6 has revision {steps[-1]}, and had {steps[-2]} before"
    return Story([session.conversation]).shows("SEQ-04", because, sent[-1], sent[-2])


def _advanced_early(chance: random.Random) -> Story:
    session = modern(chance, "gsi", era=Release(7, 6), controls=(("change_streams", "true"), ENDS_CLOSED))
    stream = session.stream(19, value=_FILTER % FRUIT)
    stream.marker(0, 12, FROM_DISK)
    stream.mutation(12, b"kiwi-12", collection=FRUIT, datatype=JSON)
    # The snapshot is advanced to its end; then the item comes that has this very seqno.
    stream.marker(13, 20, MEMORY | CHECKPOINT)
    stream.mutation(15, b"kiwi-15", collection=FRUIT, datatype=JSON)
    guilty = stream.advance(20)
    item = stream.mutation(20, b"kiwi-20", collection=FRUIT, datatype=JSON)
    session.idle(6)
    story = Story([session.conversation])
    story.shows("SEQ-11", "seqno advanced to 20, and the item of seqno 20 comes in the same snapshot", guilty, item)
    return story.shows("SEQ-01", "seqno 20 comes after 20 in the same stream", item, guilty)


def _advanced_too_far(chance: random.Random) -> Story:
    session = modern(chance, "fts", era=Release(7))
    stream = session.stream(20, value=_FILTER % DAIRY)
    stream.marker(0, 30, FROM_DISK)
    for seqno in (7, 21):
        stream.mutation(seqno, b"milk-%d" % seqno, collection=DAIRY, datatype=JSON)
    stream.advance(30)
    last = stream.marker(31, 36, MEMORY | CHECKPOINT)
    stream.mutation(33, b"milk-33", collection=DAIRY, datatype=JSON)
    guilty = stream.advance(36)
    # The item that the filter lets pass was still on its way.
    item = stream.mutation(36, b"milk-36", collection=DAIRY, datatype=JSON)
    session.idle(6)
    story = Story([session.conversation])
    story.shows("SEQ-11", "seqno advanced to 36, and the item of seqno 36 follows it", guilty, item, last)
    return story.shows("SEQ-01", "seqno 36 comes after 36 in the same stream", item, guilty)


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-17517",
        "invalid CAS values were replicated",
        "Documents with CAS 0, or with all bits set, were taken in and handed on. As a clock such a CAS lies beyond "
        "all times: it becomes the vbucket's largest one, which nothing later can exceed, and conflict resolution by "
        "time is wrong from then on. In the capture seqno 3 has CAS 0, and seqno 6 has 2^64 - 1.",
        ("SEQ-06", "FRM-07"),
        silent=(("SEQ-05", "no later version of these documents is sent, with which the CAS could be compared"),),
        tell=_poisoned_cas,
        era="4.5 and later",
    ),
    Bug(
        "MB-54967",
        "a system event was sent with a compressed table",
        "Since 7.2 system events may come as FlatBuffers tables, and consumers read these as they are. One was sent "
        "compressed, as it is stored. In the capture the event that makes the collection fruit has a snappy block in "
        "the place of its table.",
        ("FRM-10",),
        tell=_compressed_event,
        era="7.2",
    ),
    Bug(
        "MB-48179",
        "the revision of a document went back",
        "The revision counts the changes of a document, and conflict resolution keeps the higher one. It went back "
        "with a later change: the new version loses against the old one wherever both meet. In the capture order-6 has "
        "revision 4, 5, then 2.",
        ("SEQ-04",),
        tell=lambda chance: _revision_back(chance, 40, FROM_DISK, (4, 5, 2), Release(7)),
        era="6.6 to 7.0",
    ),
    Bug(
        "MB-48713",
        "the revision of a document went back, named together with MB-48179",
        "Known for revisions that went back, without the exchange that led to it. In the capture order-6 has revision "
        "3 on disk, and 1 in memory, as if it were new.",
        ("SEQ-04",),
        tell=lambda chance: _revision_back(chance, 41, FROM_DISK, (3, 1), Release(7)),
        era="6.6 to 7.0",
    ),
    Bug(
        "MB-23713",
        "the revision of a document went back, named together with MB-48179",
        "Known for revisions that went back, without the exchange that led to it. In the capture order-6 has revision "
        "2, 6, then 5.",
        ("SEQ-04",),
        tell=lambda chance: _revision_back(chance, 42, DISK, (2, 6, 5), RELEASE_4),
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-62847",
        "a seqno was advanced before the item with that seqno was sent",
        "A filtered stream advanced to the end of its snapshot too early: the next mutation had the very seqno that "
        "was advanced to. A consumer refuses an item that does not go on, and lacks it. In the capture seqno 20 is "
        "advanced to, and then comes as an item.",
        ("SEQ-11", "SEQ-01"),
        tell=_advanced_early,
        era="7.2 to 7.6",
    ),
    Bug(
        "MB-48010",
        "a seqno was advanced too early, and the next mutation had the same",
        "The same on the wire as the later MB-62847. In the capture the backfill is completed as it should be; in the "
        "memory snapshot behind it seqno 36 is advanced to, and then comes as an item.",
        ("SEQ-11", "SEQ-01"),
        tell=_advanced_too_far,
        era="7.0",
    ),
)
