"""Bugs in snapshots: ranges upside down, a key twice, never completed, empty, announced with wrong flags.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.modern import DAIRY, ENDS_CLOSED, FROM_DISK, FRUIT, OSO_END, OSO_START
from dissector.generate.scenarios.replication import marker
from dissector.generate.scenarios.setup import RELEASE_4, modern, plain, replica
from dissector.generate.session import CHECKPOINT, DISK, HISTORY, MAY_DUPLICATE, MEMORY
from dissector.generate.stream import JSON
from dissector.spec import enums
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Emission

_ACTIVE_ONLY = enums.STREAM_FLAGS.bit("active_vbucket_only")
_FILTER = b'{"collections":["%x"]}'
_RELEASE_7 = (("v7_dcp_status_codes", "true"), ENDS_CLOSED)  #: shows a producer that could advance seqnos


def _upside_down(chance: random.Random) -> Story:
    session = plain(chance, "replication:n0->n1:default", era=RELEASE_4)
    stream = session.stream(203)
    stream.follow(18, DISK)
    # A marker of a checkpoint that has nothing to send: it starts behind its own end.
    guilty = stream.marker(24, 18, MEMORY | CHECKPOINT)
    stream.marker(24, 27, MEMORY)
    stream.items(24, 27)
    session.idle(6)
    because = "the snapshot starts at 24 and ends at 18"
    return Story([session.conversation]).shows("SNP-03", because, guilty)


def _both_versions(chance: random.Random) -> Story:
    session = modern(chance, "ephemeral", collections=False, era=Release(5))
    stream = session.stream(9)
    # While the backfill went over the bucket in memory a document was changed: both versions are in one snapshot.
    stream.marker(0, 12, FROM_DISK)
    for seqno in range(1, 8):
        stream.mutation(seqno, b"cart-%d" % seqno)
    first = session.conversation.emissions[-4]
    for seqno, key in ((8, b"cart-8"), (9, b"cart-4")):
        stream.mutation(seqno, key, b'{"changed":%d}' % seqno)
    guilty = session.conversation.emissions[-1]
    for seqno in (10, 11, 12):
        stream.mutation(seqno, b"cart-%d" % seqno)
    session.idle(6)
    because = "cart-4 is sent at seqno 4 and again at seqno 9 of the snapshot 0 to 12"
    return Story([session.conversation]).shows("SNP-05", because, guilty, first)


def _twice_on_disk(chance: random.Random) -> Story:
    session = modern(chance, "search", era=Release(8))
    stream = session.stream(410)
    stream.marker(0, 11, FROM_DISK)
    sent = [
        stream.mutation(seqno, b"route-%d" % (seqno % 7), b'{"n":%d}' % seqno, datatype=JSON) for seqno in range(4, 12)
    ]
    session.idle(6)
    because = "route-4 is sent at seqno 4 and again at seqno 11 of the snapshot 0 to 11"
    return Story([session.conversation]).shows("SNP-05", because, sent[-1], sent[0])


def _twice_out_of_order(chance: random.Random) -> Story:
    controls = (("enable_out_of_order_snapshots", "true"), ENDS_CLOSED)
    session = modern(chance, "index-build", controls=controls, era=Release(8))
    stream = session.stream(411, value=_FILTER % FRUIT)
    stream.bracket(OSO_START)
    sent = [
        stream.mutation(seqno, b"fruit-%d" % key, b'{"n":%d}' % seqno, collection=FRUIT, datatype=JSON)
        for key, seqno in ((1, 17), (2, 4), (3, 9), (3, 21), (5, 6))
    ]
    stream.bracket(OSO_END)
    session.idle(6)
    because = "fruit-3 is sent at seqno 9 and again at seqno 21 of one out-of-order snapshot"
    return Story([session.conversation]).shows("SNP-05", because, sent[3], sent[2])


def _filtered_short(chance: random.Random) -> Story:
    session = modern(chance, "gsi", controls=_RELEASE_7, era=Release(7))
    stream = session.stream(64, value=_FILTER % DAIRY)
    short = stream.marker(0, 30, FROM_DISK)
    for seqno in (5, 12, 26):
        stream.mutation(seqno, b"milk-%d" % seqno, collection=DAIRY, datatype=JSON)
    # 27 to 30 are in other collections, and nothing says that the snapshot is complete.
    after = stream.marker(31, 34, MEMORY | CHECKPOINT)
    for seqno in (31, 34):
        stream.mutation(seqno, b"milk-%d" % seqno, collection=DAIRY, datatype=JSON)
    session.idle(6)
    because = "the snapshot 0 to 30 is left at seqno 26, without a seqno advanced"
    return Story([session.conversation]).shows("SNP-06", because, after, short)


def _never_completed(chance: random.Random) -> Story:
    session = modern(chance, "replication:n1->n0:default", collections=False, era=Release(7))
    stream = session.stream(48, flags=_ACTIVE_ONLY)
    stream.follow(10, FROM_DISK)
    short = stream.marker(11, 20, MEMORY | CHECKPOINT)
    stream.items(11, 17)
    # 18 to 20 never come.
    after = stream.marker(21, 24, MEMORY)
    stream.items(21, 24)
    session.idle(6)
    because = "the snapshot 11 to 20 is left at seqno 17"
    return Story([session.conversation]).shows("SNP-06", because, after, short)


def _filtered_to_the_end(chance: random.Random) -> Story:
    session = modern(chance, "analytics", controls=_RELEASE_7, era=Release(8))
    stream = session.stream(733, 0, 60, value=_FILTER % FRUIT)
    stream.marker(0, 40, FROM_DISK)
    for seqno in (3, 18, 40):
        stream.mutation(seqno, b"fig-%d" % seqno, collection=FRUIT, datatype=JSON)
    short = stream.marker(41, 60, MEMORY | CHECKPOINT)
    stream.mutation(52, b"fig-52", collection=FRUIT, datatype=JSON)
    end = stream.end()
    session.idle(6)
    because = "the stream ends with reason ok, and the snapshot 41 to 60 was left at seqno 52"
    return Story([session.conversation]).shows("SNP-06", because, end, short)


def _empty_before_history(chance: random.Random) -> Story:
    controls = (("flatbuffers_system_events", "true"), ("change_streams", "true"), ENDS_CLOSED)
    session = modern(chance, "changes", controls=controls, era=Release(7, 2))
    stream = session.stream(15)
    # All of the range is history: nothing is left for the marker before it, which is sent none the less.
    guilty = stream.marker(0, 24, FROM_DISK)
    following = stream.marker(1, 24, FROM_DISK | HISTORY | MAY_DUPLICATE)
    for seqno in range(1, 25):
        stream.mutation(seqno, b"busy-%d" % (seqno % 5), b'{"n":%d}' % seqno, datatype=JSON)
    session.idle(6)
    because = "nothing comes of the disk snapshot 0 to 24 before the history marker 1 to 24"
    return Story([session.conversation]).shows("SNP-12", because, guilty, following)


def _merged(chance: random.Random) -> Story:
    session = replica(chance, "n4", collections=False)
    stream = session.stream(222)
    disk = stream.snap_start
    marker(stream, disk, 14, FROM_DISK, visible=14)
    stream.items(1, 14)
    stream.acknowledge(14)
    # From disk to memory without the checkpoint flag: the replica puts both into one checkpoint.
    guilty = stream.marker(15, 19, MEMORY, max_visible_seqno=19, high_completed_seqno=0)
    stream.items(15, 19)
    session.idle(6)
    because = "a memory marker behind a disk marker does not start a checkpoint"
    return Story([session.conversation]).shows("SNP-13", because, guilty)


def _prepared_backwards(chance: random.Random, vbucket: int, told: tuple[tuple[int, int], ...]) -> Story:
    """Tell of a replica whose markers, each with its end and high prepared seqno, first tell too much of the latter."""
    session = replica(chance, "n5", collections=False)
    session.control("max_marker_version", "2.2")
    stream = session.stream(vbucket)
    markers: list[Emission] = []
    for end, prepared in told:
        numbers = {"max_visible_seqno": end, "high_completed_seqno": 0, "purge_seqno": 0}
        flags = MEMORY | CHECKPOINT if markers else FROM_DISK
        start = stream.snap_end + 1
        markers.append(stream.marker(start, end, flags, **numbers, high_prepared_seqno=prepared))
        stream.items(stream.last + 1, end)
        stream.acknowledge(end)
    session.idle(6)
    at = next(place for place, (end, prepared) in enumerate(told) if prepared > end)
    because = (
        f"the high prepared seqno is {told[at][1]} in a snapshot that ends at {told[at][0]}, then {told[at + 1][1]}"
    )
    return Story([session.conversation]).shows("SNP-09", because, markers[at], markers[at + 1])


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-16042",
        "snapshot markers whose start is behind their end were accepted",
        "A producer announced snapshots that start behind their own end, and consumers took them in: the replica then "
        "held a range that no snapshot has. Since then consumers refuse such a marker. In the capture a marker says 24 "
        "to 18; the next one, 24 to 27, is right.",
        ("SNP-03",),
        tell=_upside_down,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-24244",
        "a backfill of an ephemeral bucket sent both versions of a document in one snapshot",
        "An ephemeral bucket has no disk: a backfill reads the list of seqnos in memory, in which an old version may "
        "stand beside the new one while the backfill is at work. Both were sent in one snapshot, where a key may come "
        "once only. In the capture cart-4 comes at seqno 4 and at seqno 9.",
        ("SNP-05",),
        tell=_both_versions,
        era="5.0",
    ),
    Bug(
        "MB-71914",
        "a snapshot had a document twice",
        "Known as a break of the rule that a snapshot has each key once, without the exchange that led to it. The "
        "capture shows the plainest form: a disk snapshot with two versions of route-4.",
        ("SNP-05",),
        tell=_twice_on_disk,
        era="8.0 and later",
    ),
    Bug(
        "MB-72198",
        "a snapshot had a document twice, named together with MB-71914",
        "Known as a break of the rule that a snapshot has each key once, without the exchange that led to it. The rule "
        "holds for out-of-order snapshots as well, and the capture shows that form: fruit-3 comes twice between start "
        "and end of one.",
        ("SNP-05",),
        tell=_twice_out_of_order,
        era="8.0 and later",
    ),
    Bug(
        "MB-37402",
        "filtered streams left snapshots incomplete",
        "Where the last items of a snapshot do not pass a stream's filter, nothing told the client that the snapshot "
        "was complete: it waits for a seqno that never comes. Seqno advanced was made for that. In the capture the "
        "snapshot 0 to 30 of a filtered stream stops at 26, and the next marker comes.",
        ("SNP-06",),
        tell=_filtered_short,
        era="7.0, as before seqno advanced was there",
    ),
    Bug(
        "MB-48368",
        "a snapshot was never completed",
        "Known as a break of the rule that a snapshot is complete before the stream goes on. In the capture the "
        "snapshot 11 to 20 of an active vbucket stops at 17, and the marker of 21 to 24 follows.",
        ("SNP-06",),
        tell=_never_completed,
        era="7.0 and later",
    ),
    Bug(
        "MB-73354",
        "a filtered stream stopped short of the end of its snapshot",
        "The same as MB-37402, after seqno advanced was there: a filtered stream may stop short, and the snapshot is "
        "never completed. In the capture the stream ends with reason ok at its requested end 60, and the last thing "
        "that came of its last snapshot is seqno 52.",
        ("SNP-06",),
        tell=_filtered_to_the_end,
        era="7.0 and later",
    ),
    Bug(
        "MB-55590",
        "a disk marker without items came before the history marker",
        "A change stream first sends what is older than the history, then the history, with a marker each. Where "
        "everything is history, the first marker was sent all the same, with nothing behind it. In the capture the "
        "marker 0 to 24 is followed at once by the history marker 1 to 24.",
        ("SNP-12",),
        tell=_empty_before_history,
        era="7.2",
    ),
    Bug(
        "MB-42780",
        "a replica merged a disk and a memory snapshot into one checkpoint",
        "When a stream goes over from disk to memory, the marker must start a new checkpoint; without that flag the "
        "replica put items of both into one, where de-duplication and sync writes go wrong. In the capture the memory "
        "marker behind the disk marker lacks the flag.",
        ("SNP-13",),
        tell=_merged,
        era="6.5 and later",
    ),
    Bug(
        "MB-66577",
        "the high prepared seqno of markers went back",
        "Markers tell the high prepared seqno since version 2.2, and it went back from one marker to the next. What "
        "the rule sees is the marker that told too much: a seqno that its own snapshot does not reach. In the capture "
        "the snapshot up to 13 says 17, and the next one, up to 20, says 15.",
        ("SNP-09",),
        tell=lambda chance: _prepared_backwards(chance, 81, ((9, 9), (13, 17), (20, 15))),
        era="8.0",
    ),
    Bug(
        "MB-65742",
        "the high prepared seqno of markers went back, named together with MB-66577",
        "Known for high prepared seqnos that went back, as MB-66577 is, without the exchange that led to it. In the "
        "capture it is the first marker, from disk, that tells too much, 18 in a snapshot up to 12, and the next one "
        "that goes back to 14.",
        ("SNP-09",),
        tell=lambda chance: _prepared_backwards(chance, 82, ((12, 18), (14, 14))),
        era="8.0",
    ),
)
