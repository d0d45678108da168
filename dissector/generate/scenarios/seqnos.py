"""Seqnos, revisions and CAS values that look wrong and are not, and streams that end where no request told them to.

Each scenario is about exceptions of the seqno rules (SEQ); the reasons stand beside it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bucket import Bucket
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import FROM_DISK, FRUIT
from dissector.generate.scenarios.replication import marker
from dissector.generate.scenarios.setup import modern, plain, replica
from dissector.generate.scenarios.special import transfer
from dissector.generate.session import CHECKPOINT, DISK, DISK_ONLY, MEMORY, REASON_CLOSED, SECOND, TO_LATEST
from dissector.generate.stream import JSON
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size


def _to_latest(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "up-to-date")
    for vbucket in range(2):
        # The server's high seqno takes the place of the end.
        stream = session.stream(vbucket, flags=TO_LATEST)
        stream.follow(18, DISK)
        stream.follow(26, MEMORY | CHECKPOINT)
        stream.end()
    session.idle(6)
    return [session.conversation]


def _disk_only(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "backup")
    for vbucket in range(3):
        # The last persisted seqno takes the place of the end, whatever is in memory.
        stream = session.stream(vbucket, flags=DISK_ONLY)
        stream.follow(18, DISK, holes=0.2)
        stream.end()
    session.idle(6)
    return [session.conversation]


def _waits_for_end(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "waiting")
    stream = session.stream(0, 0, 1000)
    stream.follow(18, DISK)
    # The vbucket is not that far yet: the stream stays open until it is.
    session.idle(90)
    stream.follow(25, MEMORY | CHECKPOINT)
    session.idle(45)
    return [session.conversation]


def _cache_transfer_only(chance: random.Random, _size: Size) -> list[Conversation]:
    return [transfer(chance, "warm-up", only=True).conversation]


def _with_meta(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "xdcr-target", collections=False)
    stream = session.stream(0)
    clock = session.bucket.vbucket(0).version(1, 0, b"own-1")[1]
    stream.marker(0, 12, FROM_DISK)
    for seqno in range(1, 13):
        stream.mutation(seqno, b"key-%d" % (seqno % 12), datatype=JSON)
    # Another cluster won the conflict: its revisions and CAS values come with the documents, higher or lower.
    stream.marker(13, 24, MEMORY | CHECKPOINT)
    for seqno in range(13, 25):
        away = (-1 if seqno % 3 else 1) * chance.randrange(1, 90) * 0x10_0000
        rev = 90 if seqno % 2 else 1
        stream.mutation(seqno, b"key-%d" % (seqno % 12), datatype=JSON, rev_seqno=rev, cas=clock + away)
    session.idle(6)
    return [session.conversation]


def _old_cas(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "before-clocks")
    stream = session.stream(0)
    # Before 4.0 a CAS was time since the start of the machine: it goes back with a restart, and may be 0.
    for turn, (first, last) in enumerate(((1, 12), (13, 24))):
        stream.marker(0 if not turn else first, last, MEMORY | CHECKPOINT)
        for seqno in range(first, last + 1):
            cas = 0 if seqno == 5 else (9_000_000 if turn else 70_000_000) + seqno * 1_000
            stream.mutation(seqno, b"key-%d" % (seqno % 12), b"value", cas=cas)
    session.idle(6)
    return [session.conversation]


def _purged_tombstone(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "phoenix")
    stream = session.stream(0)
    stream.marker(0, 8, DISK)
    for seqno in range(1, 9):
        stream.mutation(seqno, b"key-%d" % seqno)
    stream.marker(9, 12, MEMORY | CHECKPOINT)
    for seqno in range(9, 13):
        stream.deletion(seqno, b"key-%d" % (seqno - 8))
    session.idle(21)
    # Their tombstones were purged: made anew, the documents start at revision 1 again.
    stream.marker(13, 16, MEMORY | CHECKPOINT)
    for seqno in range(13, 17):
        stream.mutation(seqno, b"key-%d" % (seqno - 12), rev_seqno=1)
    session.idle(6)
    return [session.conversation]


def _disk_prepares(chance: random.Random, _size: Size) -> list[Conversation]:
    session = replica(chance, "n1", collections=False)
    stream = session.stream(0)
    marker(stream, 0, 20, FROM_DISK, visible=20, completed=9)
    for seqno in (1, 2, 3):
        stream.mutation(seqno, b"key-%d" % seqno)
    # On disk a commit is the mutation that it made, with the prepare's CAS and revision.
    stream.prepare(4, b"both")
    rev, cas = session.bucket.vbucket(0).version(4, 0, b"both")
    stream.mutation(5, b"both", rev_seqno=rev, cas=cas)
    # Of a key that was prepared twice only the later prepare is left; the earlier one's commit is left none the less.
    stream.mutation(7, b"again")
    # And of an aborted write only the abort.
    stream.complete("abort", 9, 8, b"given-up")
    stream.prepare(12, b"again")
    stream.mutation(20, b"key-20")
    stream.acknowledge(20)
    # The prepare was replaced by a later one of the same snapshot: the commit names a seqno that was never sent.
    marker(stream, 21, 24, MEMORY | CHECKPOINT, visible=24)
    stream.complete("commit", 21, 14, b"again")
    stream.prepare(22, b"both")
    stream.complete("commit", 23, 22, b"both")
    stream.mutation(24, b"key-24")
    stream.acknowledge(22)
    session.idle(6)
    return [session.conversation]


def _duplicate_prepare(chance: random.Random, _size: Size) -> list[Conversation]:
    session = replica(chance, "n1", collections=False)
    stream = session.stream(0)
    marker(stream, 0, 12, MEMORY | CHECKPOINT, visible=11)
    for seqno in range(1, 12):
        stream.mutation(seqno, b"key-%d" % seqno)
    stream.prepare(12, b"twice")
    stream.acknowledge(12)
    # Its abort, at 15, was replaced by the next prepare before the backfill read the disk.
    marker(stream, 13, 25, FROM_DISK, visible=25, completed=12)
    for seqno in range(16, 20):
        stream.mutation(seqno, b"key-%d" % seqno)
    stream.prepare(21, b"twice")
    stream.mutation(25, b"key-25")
    stream.acknowledge(25)
    marker(stream, 26, 26, MEMORY | CHECKPOINT, visible=26)
    stream.complete("commit", 26, 21, b"twice")
    # On this vbucket the prepare was sent before the stream began.
    uuid = session.bucket.vbucket(1).uuid
    resumed = session.stream(1, 30, uuid=uuid, snapshot=(30, 30))
    marker(resumed, 30, 32, MEMORY | CHECKPOINT, visible=32)
    resumed.complete("commit", 31, 29, b"earlier")
    resumed.mutation(32, b"key-32")
    session.idle(6)
    return [session.conversation]


def _acknowledged_again(chance: random.Random, _size: Size) -> list[Conversation]:
    bucket = Bucket()
    first = replica(chance, "n1", bucket=bucket, collections=False)
    stream = first.stream(0)
    marker(stream, 0, 12, MEMORY | CHECKPOINT, visible=9)
    for seqno in range(1, 10):
        stream.mutation(seqno, b"key-%d" % seqno)
    for seqno in range(10, 13):
        stream.prepare(seqno, b"durable-%d" % seqno)
    stream.acknowledge(12)
    # The connection is lost. On the next one the replica begins by saying again what it has.
    second = replica(chance, "n1", number=1, bucket=bucket, collections=False)
    second.conversation.begin_ns = 20 * SECOND
    again = second.stream(0, 12, uuid=bucket.vbucket(0).uuid, snapshot=(12, 12))
    again.acknowledge(12)
    marker(again, 12, 16, MEMORY | CHECKPOINT, visible=15)
    for seqno in range(10, 13):
        again.complete("commit", seqno + 3, seqno, b"durable-%d" % seqno)
    again.prepare(16, b"durable-16")
    again.acknowledge(16)
    second.idle(6)
    return [first.conversation, second.conversation]


def _filter_advance(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "sparse", era=Release(8))
    stream = session.stream(0, value=b'{"collections":["8"]}')
    stream.marker(0, 90_000, FROM_DISK)
    # A long backfill in which little passes tells now and then how far it is.
    for seqno in (12, 20_000, 41_007, 60_000, 77_777):
        if seqno % 10_000:
            stream.mutation(seqno, b"key-%d" % seqno, collection=FRUIT, datatype=JSON)
        else:
            stream.advance(seqno)
    stream.advance(90_000)
    stream.marker(90_001, 90_004, MEMORY | CHECKPOINT)
    for seqno in (90_002, 90_004):
        stream.mutation(seqno, b"key-%d" % seqno, collection=FRUIT, datatype=JSON)
    session.idle(6)
    stream.close()
    stream.end(REASON_CLOSED)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "to-latest",
        "streams that end at the high seqno",
        _to_latest,
        "dcp",
        "3.0 and later",
        (("SEQ-03", "with to-latest the stream ends at the vbucket's high seqno, whatever end was requested"),),
    ),
    Scenario(
        "disk-only",
        "streams that end with what is on disk",
        _disk_only,
        "dcp",
        "3.0 and later",
        (("SEQ-03", "with disk-only the stream ends at the last persisted seqno, whatever end was requested"),),
    ),
    Scenario(
        "waits-for-end",
        "a stream whose end is still to come",
        _waits_for_end,
        "dcp",
        "3.0 and later",
        (
            ("SEQ-03", "the vbucket has not reached the requested end: the stream stays open"),
            ("FLC-03", "the producer is silent because it has nothing to send: its window is not full"),
        ),
    ),
    Scenario(
        "cache-transfer-only",
        "a replica is given what is in memory, and nothing else",
        _cache_transfer_only,
        "dcp",
        "after 8.0",
        (
            ("SEQ-03", "a stream of cache transfer alone has its end at its start"),
            ("SNP-01", "cache transfer needs no marker"),
            ("SNP-02", "the records of a cache transfer lie in no snapshot"),
        ),
    ),
    Scenario(
        "with-meta",
        "documents that came from another cluster",
        _with_meta,
        "dcp",
        "4.0 and later",
        (
            ("SEQ-04", "writes with metadata bring their own revision"),
            ("SEQ-05", "writes with metadata bring the CAS of another cluster"),
        ),
    ),
    Scenario(
        "old-cas",
        "CAS values before they were clocks",
        _old_cas,
        "dcp",
        "3.0 to 3.1",
        (
            ("FRM-07", "a CAS must be other than 0 since 4.5 only"),
            ("SEQ-05", "a CAS is a hybrid clock since 4.0 only"),
            ("SEQ-06", "a CAS is a hybrid clock since 4.0 only"),
        ),
    ),
    Scenario(
        "purged-tombstone",
        "documents that are made anew when their tombstones are gone",
        _purged_tombstone,
        "dcp",
        "3.0 and later",
        (("SEQ-04", "revisions start again when the tombstone was purged"),),
    ),
    Scenario(
        "disk-prepares",
        "durable writes as a disk snapshot has them",
        _disk_prepares,
        "dcp",
        "6.5 and later",
        (
            ("SEQ-04", "a prepare and what it became share the revision"),
            ("SEQ-05", "a prepare and what it became share the CAS"),
            ("SEQ-08", "in a disk snapshot aborts come without their prepare, and a replaced prepare is not sent"),
            ("SEQ-09", "a disk snapshot has mutations in the place of commits: they complete their prepares"),
            ("SEQ-10", "a replica acknowledges the end of a disk snapshot"),
            ("SNP-05", "a prepare and the mutation that it became are in different name spaces"),
        ),
    ),
    Scenario(
        "duplicate-prepare",
        "a prepare that replaces one from before the stream",
        _duplicate_prepare,
        "dcp",
        "6.5 and later",
        (
            ("SEQ-08", "the prepare was sent before the stream began"),
            ("SEQ-09", "behind a disk snapshot an old prepare may look open (duplicate-prepare window)"),
            ("SEQ-10", "a replica acknowledges the end of a disk snapshot"),
        ),
    ),
    Scenario(
        "acknowledged-again",
        "a replica that says again what it has",
        _acknowledged_again,
        "dcp",
        "6.5 and later",
        (
            ("SEQ-08", "the prepares were sent on the connection before"),
            ("SEQ-10", "a replica acknowledges again when it has reconnected"),
        ),
    ),
    Scenario(
        "filter-advance",
        "a long filtered backfill that tells how far it is",
        _filter_advance,
        "dcp",
        "8.0 and later",
        (
            ("SEQ-11", "inside a filtered backfill advances may come now and then (MB-71913)"),
            ("SEQ-12", "items that do not pass the filter are not sent"),
        ),
    ),
)
