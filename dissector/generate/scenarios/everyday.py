"""What clients of 3.0 to 4.1 do every day: stream, acknowledge, close, resume, roll back.

Each function writes conversations that recorded servers would have written; must not know rules or faults.
"""

from __future__ import annotations

from itertools import count as counting
from typing import TYPE_CHECKING

from dissector.generate.bucket import Bucket
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.setup import count, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, SECOND

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Session, Stream

_BASIC_FRAMES, _BASIC_VBUCKETS = 110, 3
_MULTIPLEX_FRAMES, _MULTIPLEX_VBUCKETS, _MULTIPLEX_CONNECTIONS = 150, 12, 3
_CONTROLLED_FRAMES = 120
_PAUSE = 21  #: seconds; longer than the no-op interval


def keep_streaming(session: Session, streams: list[Stream], frames: int, *, holes: float = 0.1) -> None:
    """Send memory snapshots on all streams in turn until so many messages are written."""
    for turn in counting():
        for stream in streams:
            if count(session) >= frames:
                return
            flags = MEMORY | CHECKPOINT if turn % 3 == 0 else MEMORY
            stream.follow(stream.last + session.chance.randrange(2, 9), flags, holes=holes)


def _basic(chance: random.Random, size: Size) -> list[Conversation]:
    session = plain(chance, "basic")
    vbuckets = range(size.vbuckets or _BASIC_VBUCKETS)
    for vbucket in vbuckets:
        session.failover_log(vbucket)
    finite = session.stream(0, 0, 12)
    finite.follow(12, DISK, holes=0.1)
    finite.end()
    streams = [session.stream(vbucket) for vbucket in vbuckets[1:]] or [
        session.stream(0, 12, uuid=session.bucket.vbucket(0).uuid)
    ]
    for stream in streams:
        stream.follow(stream.last + chance.randrange(8, 16), DISK, holes=0.1)
    wanted = size.frames or _BASIC_FRAMES
    # The later half follows a break in which only no-ops and a late ack go over the wire.
    keep_streaming(session, streams, wanted // 2)
    session.idle(_PAUSE)
    keep_streaming(session, streams, wanted - 6)
    session.idle(6)
    streams[-1].close()
    return [session.conversation]


def _multiplex(chance: random.Random, size: Size) -> list[Conversation]:
    bucket = Bucket()
    connections = size.connections or _MULTIPLEX_CONNECTIONS
    vbuckets = size.vbuckets or _MULTIPLEX_VBUCKETS
    conversations = []
    for number in range(connections):
        session = plain(
            chance,
            f"multiplex-{number}",
            number=number,
            bucket=bucket,
            window=10_240,
            begin_ns=number * SECOND // 100,
        )
        # All requests are in flight before the first answer comes.
        asked = [session.request(vbucket) for vbucket in range(number, vbuckets, connections)]
        for stream in asked:
            stream.accept()
        chance.shuffle(asked)
        interleave(session, asked, (size.frames or _MULTIPLEX_FRAMES) // connections)
        conversations.append(session.conversation)
    return conversations


def interleave(session: Session, streams: list[Stream], frames: int) -> None:
    """Send snapshots of all streams, their items shuffled like cards: each stream keeps its own order."""
    while streams and count(session) < frames:
        ends = {}
        for stream in streams:
            first = stream.last == stream.start
            end = stream.last + session.chance.randrange(2, 7)
            begin = stream.snap_start if first else stream.snap_end + 1
            stream.marker(begin, end, DISK if first else MEMORY | CHECKPOINT)
            ends[id(stream)] = end
        busy = list(streams)
        while busy:
            stream = session.chance.choice(busy)
            stream.items(stream.last + 1, stream.last + 1)
            if stream.last == ends[id(stream)]:
                busy.remove(stream)


def _flow_control(chance: random.Random, size: Size) -> list[Conversation]:
    session = plain(chance, "fc-stall", window=1_024, noop=False)
    session.acking = False
    stream = session.stream(0)
    wanted = size.frames or _CONTROLLED_FRAMES
    stall(session, stream, wanted // 2)
    session.control("connection_buffer_size", "4096")
    stall(session, stream, wanted)
    session.ack()
    session.idle(6)
    stream.close()
    return [session.conversation]


def stall(session: Session, stream: Stream, frames: int) -> None:
    """Send until the window is full, again and again; the consumer gives back all, or a part of it (FLC-02)."""
    chance = session.chance
    while count(session) < frames:
        end = stream.last + chance.randrange(4, 12)
        stream.marker(stream.snap_end + 1, end, MEMORY)
        while stream.last < end:
            # The producer stops at a full window; a part is enough to go on if it makes room.
            if session.outstanding >= session.window:
                session.pending_ns = SECOND // 10
                part = session.outstanding - session.window + chance.randrange(64, 512)
                if chance.random() < 0.5 and part < session.outstanding:
                    session.ack(part)
                else:
                    session.ack()
                continue
            stream.items(stream.last + 1, stream.last + 1)
        while session.outstanding >= session.window:
            session.pending_ns = SECOND // 10
            session.ack()


def _rollback(chance: random.Random, _size: Size) -> list[Conversation]:
    bucket = Bucket()
    before = plain(chance, "client", bucket=bucket)
    stream = before.stream(7)
    stream.follow(20, DISK)
    stream.follow(31, MEMORY)
    vbucket = bucket.vbucket(7)
    old = vbucket.uuid
    # The node fails over to a replica that had seen seqno 24: a new branch begins there.
    after = plain(chance, "client", number=1, bucket=bucket, begin_ns=30 * SECOND)
    vbucket.fork(24)
    after.failover_log(7)
    refused = after.request(7, 31, uuid=old, snapshot=(31, 31))
    refused.roll_back(24)
    # A consumer asks again with the same opaque.
    again = after.stream(7, 24, uuid=old, snapshot=(24, 24), opaque=refused.opaque)
    again.follow(36, MEMORY | CHECKPOINT)
    unknown = after.request(8, 90, uuid=0xDEAD, snapshot=(90, 90))
    unknown.roll_back(0)
    fresh = after.stream(8, opaque=unknown.opaque)
    fresh.follow(15, DISK, holes=0.1)
    fresh.follow(22, MEMORY)
    after.idle(6)
    return [before.conversation, after.conversation]


def _close_resume(chance: random.Random, _size: Size) -> list[Conversation]:
    bucket = Bucket()
    session = plain(chance, "client", bucket=bucket)
    uuid = bucket.vbucket(3).uuid
    first = session.stream(3)
    first.follow(18, DISK)
    # Closed in the middle of a snapshot, which its start and end tell when the stream goes on.
    first.marker(19, 40, MEMORY)
    first.items(19, 27)
    first.close()
    second = session.stream(3, 27, uuid=uuid, snapshot=(19, 40))
    second.marker(19, 40, DISK)
    second.items(28, 40)
    second.follow(46, MEMORY | CHECKPOINT)
    second.close()
    session.idle(6)
    # A new connection of the same name resumes where the old one had finished a snapshot.
    later = plain(chance, "client", number=1, bucket=bucket, begin_ns=60 * SECOND)
    third = later.stream(3, 46, uuid=uuid, snapshot=(46, 46))
    third.follow(55, MEMORY | CHECKPOINT)
    third.follow(61, MEMORY)
    later.idle(6)
    third.close()
    return [session.conversation, later.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "basic",
        "streams of a few vbuckets from disk and memory, with acks, no-ops and an orderly close",
        _basic,
        "dcp",
        "3.0 to 4.1",
        (
            ("SNP-13", "before 6.5 the change from disk to memory is not marked"),
            ("OPQ-09", "before 5.5 nothing follows a close"),
            ("FLC-08", "no-ops take nothing from the window"),
        ),
    ),
    Scenario("multiplex", "many vbuckets on several connections, their items mixed", _multiplex, "dcp", "3.0 to 4.1"),
    Scenario(
        "flow-control",
        "a small window that fills, partial acks, and a window that grows",
        _flow_control,
        "dcp",
        "3.0 to 4.1",
        (("FLC-02", "the last message may overshoot the window; grown, the window frees the producer without an ack"),),
    ),
    Scenario(
        "rollback",
        "a failover behind a client's back, and an unknown uuid",
        _rollback,
        "dcp",
        "3.0 to 4.1",
        (
            ("SEQ-01", "behind a rollback seqnos come again, on a new branch"),
            ("OPQ-12", "after a rollback consumers ask again with the same opaque"),
        ),
    ),
    Scenario(
        "close-resume",
        "closed in the middle of a snapshot and resumed, then on another connection",
        _close_resume,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-10", "before 5.5 a closed stream gets no stream end"),
            ("SNP-06", "the stream was closed in the middle of a snapshot"),
            ("SNP-07", "the first marker reaches back to the requested snapshot start, below the start"),
            ("FOL-08", "the first snapshot of a stream that goes on starts below its start"),
        ),
    ),
)
