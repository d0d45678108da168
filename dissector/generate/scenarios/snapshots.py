"""Snapshots that look wrong and are not: of replicas, of filtered streams, cut short, resumed, of other releases.

Each scenario is about exceptions of the snapshot rules (SNP); the reasons stand beside it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bucket import Bucket
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import FROM_DISK, FRUIT
from dissector.generate.scenarios.replication import marker
from dissector.generate.scenarios.setup import RELEASE_3, modern, plain, replica
from dissector.generate.session import ACK, CHECKPOINT, DISK, MEMORY, SECOND, TAKEOVER
from dissector.generate.stream import JSON
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size

_FROM_LATEST = 0x40  #: stream flag
_FILTER = b'{"collections":["8"]}'


def _replica_source(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "from-a-replica", era=Release(6, 5), collections=False)
    stream = session.stream(0)
    # A replica has merged a disk snapshot of its active's with the memory snapshot after it: its own snapshots begin
    # below the end of the last one, are left unfinished, and may have a key twice.
    stream.marker(0, 20, FROM_DISK)
    for seqno in range(1, 16):
        stream.mutation(seqno, b"key-%d" % seqno)
    stream.marker(16, 30, MEMORY | CHECKPOINT)
    for seqno in range(16, 31):
        stream.mutation(seqno, b"key-%d" % (seqno % 12))
    stream.marker(27, 36, MEMORY | CHECKPOINT)
    for seqno in range(31, 37):
        stream.mutation(seqno, b"key-%d" % seqno)
    session.idle(6)
    return [session.conversation]


def _dedup(chance: random.Random, _size: Size) -> list[Conversation]:
    bucket = Bucket()
    early = plain(chance, "dedup-old", bucket=bucket)
    stream = early.stream(0)
    # Most versions were replaced by later ones: seqnos have holes, and a marker starts at the first item it has.
    stream.follow(40, DISK, holes=0.5)
    for start, end in ((44, 52), (53, 61), (70, 75)):
        stream.marker(start, end, MEMORY | CHECKPOINT)
        stream.items(start, end, holes=0.5)
    early.idle(6)
    # Since 7.1 it starts with the checkpoint, whose first versions may be gone.
    late = modern(chance, "dedup-new", number=1, bucket=bucket, era=Release(7, 1), begin_ns=SECOND, collections=False)
    other = late.stream(1)
    other.follow(30, FROM_DISK, holes=0.5)
    for end in (42, 55):
        other.marker(other.snap_end + 1, end, MEMORY | CHECKPOINT)
        other.items(other.last + 4, end, holes=0.5)
    late.idle(6)
    return [early.conversation, late.conversation]


def _filtered_without_advance(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "filtered", era=Release(6, 5))
    stream = session.stream(0, value=_FILTER)
    # Before seqno advanced: snapshots end in items that do not pass, and some have none that does.
    for start, end, passing in ((0, 30, (4, 11, 25)), (31, 44, (33, 40)), (45, 50, ()), (51, 60, (51, 60))):
        stream.marker(start, end, FROM_DISK if start == 0 else MEMORY | CHECKPOINT)
        for seqno in passing:
            stream.mutation(seqno, b"key-%d" % seqno, collection=FRUIT, datatype=JSON)
    session.idle(6)
    return [session.conversation]


def _end_inside_snapshot(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "bounded", collections=False)
    for vbucket in range(2):
        stream = session.stream(vbucket, 0, 25)
        stream.follow(20, FROM_DISK)
        # The stream stops at its end, the snapshot goes on.
        stream.marker(21, 40, MEMORY | CHECKPOINT)
        stream.items(21, 25)
        stream.end()
    session.idle(6)
    return [session.conversation]


def _past_end_seqno(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "bounded")
    for vbucket in range(2):
        stream = session.stream(vbucket, 0, 15)
        # The server finishes the snapshot that holds the end.
        stream.follow(12, DISK)
        stream.follow(22, MEMORY | CHECKPOINT)
        stream.end()
    session.idle(6)
    return [session.conversation]


def _from_latest(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "latest", era=Release(7, 6))
    stream = session.stream(0, flags=_FROM_LATEST)
    # The server puts its high seqno, 500, in the place of the requested start.
    stream.last, stream.snap_end, stream.snap_start = 500, 499, 500
    stream.follow(510, MEMORY | CHECKPOINT)
    stream.follow(516, MEMORY)
    session.idle(6)
    return [session.conversation]


def _resume_inside_snapshot(chance: random.Random, _size: Size) -> list[Conversation]:
    bucket = Bucket()
    first = plain(chance, "resuming", bucket=bucket)
    stream = first.stream(0)
    stream.follow(20, DISK)
    stream.marker(21, 60, MEMORY)
    stream.items(21, 38)
    # The connection is lost; the client goes on in the middle of the snapshot.
    again = plain(chance, "resuming", number=1, bucket=bucket, begin_ns=20 * SECOND)
    uuid = bucket.vbucket(0).uuid
    resumed = again.stream(0, 38, uuid=uuid, snapshot=(21, 60))
    resumed.marker(21, 60, DISK)
    resumed.items(39, 60)
    resumed.follow(66, MEMORY | CHECKPOINT)
    again.idle(6)
    return [first.conversation, again.conversation]


def _mid_2014(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "beta", noop=False, era=Release(3))
    stream = session.stream(0)
    # The first markers with a range said 0 for memory and 1 for disk.
    stream.follow(12, 1)
    stream.follow(19, 0)
    stream.follow(26, 0)
    session.idle(6)
    return [session.conversation]


def _marker_v22(chance: random.Random, _size: Size) -> list[Conversation]:
    session = replica(chance, "n2")
    session.control("max_marker_version", "2.2")
    stream = session.stream(0)
    # No write was ever completed: 0. The high prepared seqno of an older active may lie below the start.
    stream.marker(
        0,
        12,
        FROM_DISK,
        max_visible_seqno=12,
        high_completed_seqno=0,
        purge_seqno=0,
        high_prepared_seqno=0,
    )
    stream.items(1, 12)
    stream.acknowledge(12)
    uuid = session.bucket.vbucket(1).uuid
    resumed = session.stream(1, 40, uuid=uuid, snapshot=(40, 40))
    resumed.marker(
        40, 52, FROM_DISK, max_visible_seqno=52, high_completed_seqno=31, purge_seqno=8, high_prepared_seqno=33
    )
    resumed.items(41, 52)
    resumed.acknowledge(52)
    session.idle(6)
    return [session.conversation]


def _prepares_only(chance: random.Random, _size: Size) -> list[Conversation]:
    session = replica(chance, "n3", collections=False)
    stream = session.stream(0)
    # 6.5 leaves the high completed seqno of a disk snapshot at 0 when nothing was completed.
    marker(stream, 0, 10, FROM_DISK, visible=10)
    for seqno in range(1, 11):
        stream.mutation(seqno, b"key-%d" % seqno)
    stream.acknowledge(10)
    # Nobody sees a prepare: the max visible seqno lies below the snapshot.
    marker(stream, 11, 13, MEMORY | CHECKPOINT, visible=10)
    for seqno in range(11, 14):
        stream.prepare(seqno, b"durable-%d" % seqno)
    stream.acknowledge(13)
    marker(stream, 14, 17, MEMORY, visible=17)
    for seqno in range(11, 14):
        stream.complete("commit", seqno + 3, seqno, b"durable-%d" % seqno)
    stream.mutation(17, b"key-17")
    session.idle(6)
    return [session.conversation]


def _takeover_lost(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "replication:takeover:9", era=RELEASE_3)
    stream = session.stream(9, flags=TAKEOVER)
    stream.follow(15, DISK)
    stream.follow(22, MEMORY | CHECKPOINT | ACK)
    stream.confirm_marker()
    stream.follow(27, MEMORY | ACK)
    # The connection is lost before the second marker is confirmed.
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "replica-source",
        "a stream from a replica, whose snapshots overlap",
        _replica_source,
        "dcp",
        "3.0 to 7.0",
        (
            (
                "SNP-04",
                "a replica's disk and memory snapshots are merged, starts may precede the end: a warning at most",
            ),
            ("SNP-05", "merged snapshots of a replica may have a key twice"),
            ("SNP-06", "merged snapshots of a replica may be left unfinished"),
        ),
    ),
    Scenario(
        "dedup",
        "snapshots with holes, before 7.1 and later",
        _dedup,
        "dcp",
        "any",
        (
            ("SNP-04", "a marker may start at its first item, or at its checkpoint: above the last end either way"),
            ("SEQ-12", "versions that were replaced are not sent: seqnos need not be dense"),
        ),
    ),
    Scenario(
        "filtered-without-advance",
        "a filtered stream of servers that did not know seqno advanced",
        _filtered_without_advance,
        "dcp",
        "6.5 to 6.6",
        (
            ("SNP-06", "before MB-37402 a filtered stream may stop short of the marker's end: a warning at most"),
            ("SNP-12", "before 7.0 a filtered snapshot may have no item"),
            ("SEQ-12", "items that do not pass the filter are not sent"),
        ),
    ),
    Scenario(
        "end-inside-snapshot",
        "streams that stop at their end, in the middle of a snapshot",
        _end_inside_snapshot,
        "dcp",
        "7.0 and later",
        (("SNP-06", "the requested end lies inside the snapshot"),),
    ),
    Scenario(
        "past-end-seqno",
        "streams that go on beyond their end, to the end of the snapshot",
        _past_end_seqno,
        "dcp",
        "3.0 to 4.1",
        (
            ("SEQ-03", "the server finishes the snapshot that holds the end"),
            ("SEQ-02", "items beyond the end belong to the snapshot that holds it"),
        ),
    ),
    Scenario(
        "from-latest",
        "a stream that starts at what is newest",
        _from_latest,
        "dcp",
        "7.6 and later",
        (
            ("SNP-07", "with from-latest the server puts its own start in the request's place"),
            ("SEQ-02", "with from-latest the start of the request means nothing"),
        ),
    ),
    Scenario(
        "resume-inside-snapshot",
        "a connection is lost in the middle of a snapshot, and the next one goes on there",
        _resume_inside_snapshot,
        "dcp",
        "3.0 to 4.1",
        (
            ("SNP-06", "the connection was lost in the middle of a snapshot"),
            ("SNP-07", "the first marker reaches back to the requested snapshot start, below the start"),
        ),
    ),
    Scenario(
        "mid-2014",
        "snapshot types before they were bits",
        _mid_2014,
        "dcp",
        "mid 2014",
        (("SNP-08", "builds of mid 2014 said 0 for memory and 1 for disk"),),
    ),
    Scenario(
        "marker-v22",
        "markers of 8.0, with seqnos of an older active",
        _marker_v22,
        "dcp",
        "8.0 and later",
        (
            ("SNP-09", "in mixed clusters the high prepared seqno may lie below the snapshot"),
            ("SEQ-10", "a replica acknowledges the end of a disk snapshot that has no prepare"),
        ),
    ),
    Scenario(
        "prepares-only",
        "snapshots of prepares alone, and nothing completed before",
        _prepares_only,
        "dcp",
        "6.5 and later",
        (
            ("SNP-09", "the max visible seqno may lie below the start, and a high completed seqno of 0 is legal"),
            ("SEQ-10", "a replica acknowledges the end of a disk snapshot that has no prepare"),
        ),
    ),
    Scenario(
        "takeover-lost",
        "a takeover whose connection is lost before the last confirmation",
        _takeover_lost,
        "dcp",
        "3.0 to 4.1.0",
        (
            ("SNP-10", "the connection was lost before the marker was confirmed"),
            ("OPQ-02", "the connection was lost before the marker was confirmed"),
            ("TKO-01", "the connection was lost before the first state"),
            ("TKO-03", "the connection was lost before the first state"),
            ("TKO-04", "the connection was lost before the first state"),
        ),
    ),
)
