"""Bugs by which snapshots or seqnos went back: behind the last snapshot, or before what was asked for.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.modern import FROM_DISK, FRUIT
from dissector.generate.scenarios.replication import marker
from dissector.generate.scenarios.setup import modern, replica
from dissector.generate.session import CHECKPOINT, MEMORY, SECOND
from dissector.generate.stream import JSON
from dissector.spec import enums
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

_ACTIVE_ONLY = enums.STREAM_FLAGS.bit("active_vbucket_only")


def _backwards(chance: random.Random) -> Story:
    session = replica(chance, "n1", collections=False)
    stream = session.stream(117)
    marker(stream, 0, 16, FROM_DISK, visible=16)
    stream.items(1, 16)
    stream.acknowledge(16)
    before = stream.marker(17, 24, MEMORY | CHECKPOINT, max_visible_seqno=24, high_completed_seqno=0)
    stream.items(17, 24)
    # The next checkpoint is sent from an item on that came already.
    guilty = stream.marker(21, 29, MEMORY | CHECKPOINT, max_visible_seqno=29, high_completed_seqno=0)
    again = stream.items(21, 29)
    session.idle(6)
    story = Story([session.conversation])
    story.shows("SNP-04", "a snapshot starts at 21, and the last one ended at 24", guilty, before)
    return story.shows("SEQ-01", "seqno 21 comes after 24 in the same stream", again[0])


def _inside_the_last(chance: random.Random) -> Story:
    session = modern(chance, "replication:n3->n1:default", collections=False, era=Release(7, 1))
    stream = session.stream(118, flags=_ACTIVE_ONLY)
    stream.follow(12, FROM_DISK)
    before = stream.marker(13, 20, MEMORY | CHECKPOINT)
    stream.items(13, 20)
    # The items go on; only the start of the range reaches back.
    guilty = stream.marker(18, 25, MEMORY | CHECKPOINT)
    stream.items(21, 25)
    session.idle(6)
    because = "a snapshot starts at 18, and the last one ended at 20"
    return Story([session.conversation]).shows("SNP-04", because, guilty, before)


def _at_the_last_end(chance: random.Random) -> Story:
    session = modern(chance, "replication:n2->n0:beer", collections=False, era=Release(5))
    stream = session.stream(631, flags=_ACTIVE_ONLY)
    before = stream.marker(0, 15, FROM_DISK)
    stream.items(1, 15)
    # The change from disk to memory: the first memory snapshot starts at the last seqno from disk.
    guilty = stream.marker(15, 21, MEMORY | CHECKPOINT)
    stream.items(16, 21)
    session.idle(6)
    because = "a snapshot starts at 15, and the last one ended there"
    return Story([session.conversation]).shows("SNP-04", because, guilty, before)


def _back_to_disk(chance: random.Random) -> Story:
    session = modern(chance, "fts", era=Release(7, 2), controls=(("change_streams", "true"),))
    stream = session.stream(200)
    stream.marker(0, 14, FROM_DISK)
    for seqno in range(2, 15):
        stream.mutation(seqno, b"pear-%d" % seqno, collection=FRUIT, datatype=JSON)
    before = stream.marker(15, 22, MEMORY | CHECKPOINT)
    for seqno in range(15, 23):
        stream.mutation(seqno, b"pear-%d" % seqno, collection=FRUIT, datatype=JSON)
    # It went on from disk, with a range that begins before what memory had sent.
    guilty = stream.marker(11, 27, FROM_DISK)
    for seqno in range(23, 28):
        stream.mutation(seqno, b"pear-%d" % seqno, collection=FRUIT, datatype=JSON)
    session.idle(6)
    because = "a snapshot starts at 11, and the last one ended at 22"
    return Story([session.conversation]).shows("SNP-04", because, guilty, before)


def _before_the_request(chance: random.Random) -> Story:
    session = modern(chance, "resuming", collections=False, era=Release(7, 2))
    vbucket = session.bucket.vbucket(59)
    # The client has everything up to 30, and resumes inside a snapshot that starts at 21.
    stream = session.request(59, 30, uuid=vbucket.uuid, snapshot=(21, 40))
    stream.accept()
    session.pending_ns = SECOND // 50
    guilty = stream.marker(12, 40, FROM_DISK)
    items = stream.items(31, 40)
    second = session.request(60, 18, uuid=session.bucket.vbucket(60).uuid, snapshot=(18, 18))
    second.accept()
    lower = second.marker(10, 22, MEMORY | CHECKPOINT)
    old = second.items(18, 22)[0]
    session.idle(6)
    story = Story([session.conversation])
    story.shows("SNP-07", "the first snapshot starts at 12, and the request says 21", guilty, items[0], lower)
    return story.shows("SEQ-02", "the first item of vbucket 60 has seqno 18, and was asked for from 18 on", old)


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-50543",
        "snapshots and seqnos of a stream went back, and poisoned replicas",
        "A producer sent the marker of a new checkpoint with a start below what it had sent already, and items along "
        "with it. A replica that takes that in has a history that its active never had. Since then the producer keeps "
        "what it sends monotonic. In the capture 21 to 29 follows 17 to 24, and seqnos 21 to 24 come twice.",
        ("SNP-04", "SEQ-01"),
        tell=_backwards,
        era="6.5 to 7.1",
    ),
    Bug(
        "MB-51105",
        "a snapshot started inside the one before it",
        "Named with MB-50543 among the bugs by which the starts of snapshots went back. The items go on in order; only "
        "the range reaches back, into the snapshot that was complete. In the capture 18 to 25 follows 13 to 20.",
        ("SNP-04",),
        tell=_inside_the_last,
        era="6.5 to 7.1",
    ),
    Bug(
        "MB-24631",
        "a snapshot started at the end of the one before it",
        "Named with MB-50543 among the bugs by which the starts of snapshots went back. In the capture the first "
        "memory snapshot, 15 to 21, starts at the seqno with which the disk snapshot has ended.",
        ("SNP-04",),
        tell=_at_the_last_end,
        era="5.0",
    ),
    Bug(
        "MB-57767",
        "a disk snapshot started before what memory had sent",
        "Named with MB-50543 among the bugs by which the starts of snapshots went back. In the capture the stream goes "
        "over to disk again, and that snapshot, 11 to 27, starts before the one from memory, 15 to 22.",
        ("SNP-04",),
        tell=_back_to_disk,
        era="7.2",
    ),
    Bug(
        "MB-59759",
        "the first marker of a stream reached back before the requested snapshot",
        "A client that resumes tells the snapshot in which it stopped, and the first marker must start there. It "
        "started lower: cut off again, the client would ask for a range that no snapshot ever had, and be rolled back. "
        "In the capture vbucket 59 is asked for from snapshot start 21 on, and the marker says 12; that of vbucket 60 "
        "reaches back too, and brings an item that the client has.",
        ("SNP-07", "SEQ-02"),
        tell=_before_the_request,
        era="7.2",
    ),
)
