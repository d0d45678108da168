"""Bugs in the life of streams: ends that never come, items behind an end, opaques of streams that are over.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.modern import FROM_DISK
from dissector.generate.scenarios.setup import RELEASE_4, modern, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, REASON_CLOSED, REASON_OK, TAKEOVER
from dissector.spec import enums
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.session import Session, Stream

_ENOENT, _EINVAL = map(enums.STATUSES.number, ("key_not_found", "invalid_arguments"))
_DROPPING = (("supports_cursor_dropping", "true"), ("set_priority", "high"))


def _release_5(chance: random.Random, name: str, **more: object) -> Session:
    """Open a connection to a producer of 5.x, whose slow cursors are dropped."""
    return modern(chance, name, collections=False, controls=_DROPPING, era=Release(5, 5), **more)  # type: ignore[arg-type]


def _after_cursor_drop(stream: Stream, from_memory: int, end: int) -> None:
    """Stream from memory, then, when the cursor was dropped, the rest from disk up to the end."""
    stream.follow(from_memory, MEMORY | CHECKPOINT)
    stream.session.idle(8)
    stream.follow(end, FROM_DISK)


def _cursor_drop(chance: random.Random) -> Story:
    session = _release_5(chance, "view-engine")
    stream = session.stream(31, 0, 40)
    _after_cursor_drop(stream, 14, 40)
    last = session.conversation.emissions[-1]
    session.idle(75)  # the client waits for a stream end
    session.failover_log(31)
    because = "seqno 40 reaches end seqno 40, and no stream end follows for 75 seconds"
    return Story([session.conversation]).shows("OPQ-10", because, last)


def _cursor_drop_of_several(chance: random.Random) -> Story:
    session = _release_5(chance, "backup")
    hanging, *others = [session.stream(vbucket, 0, 16) for vbucket in (512, 513, 514)]
    for stream in others:
        stream.follow(16, FROM_DISK)
        stream.end()
    _after_cursor_drop(hanging, 7, 16)
    last = session.conversation.emissions[-1]
    session.idle(62)
    session.failover_log(512)
    because = "seqno 16 reaches end seqno 16 of vbucket 512, and no stream end follows, as it does for the others"
    return Story([session.conversation]).shows("OPQ-10", because, last)


def _behind_the_end(chance: random.Random) -> Story:
    session = plain(chance, "xdcr", era=RELEASE_4)
    stream = session.stream(88, 0, 20)
    stream.follow(12, DISK)
    stream.follow(20, MEMORY | CHECKPOINT)
    end = stream.end(REASON_OK)
    # Two mutations had been queued behind the stream end.
    marker = stream.marker(21, 22, MEMORY)
    items = stream.items(21, 22)
    session.idle(6)
    because = "a marker and seqnos 21 and 22 come behind the stream end of vbucket 88"
    story = Story([session.conversation]).shows("OPQ-06", because, marker, end, *items)
    return story.shows("SEQ-03", "a snapshot starts at 21, and the stream was asked for up to 20", marker)


def _spurious_answer(chance: random.Random) -> Story:
    session = plain(chance, "indexer", era=RELEASE_4)
    stream, other = session.stream(5), session.stream(6)
    stream.follow(9, DISK)
    other.follow(12, DISK)
    asked = stream.close()
    guilty = stream.answer_close(_ENOENT)
    other.follow(16, MEMORY | CHECKPOINT)
    session.idle(6)
    because = "the close of vbucket 5 is answered with success, and again with key not found"
    return Story([session.conversation]).shows("OPQ-01", because, guilty, asked)


def _stale_opaque(chance: random.Random) -> Story:
    session = modern(chance, "replication:n1->n2:default", collections=False, era=Release(6, 0))
    old = session.stream(77)
    old.follow(11, FROM_DISK)
    old.follow(15, MEMORY | CHECKPOINT)
    old.close()
    old.end(REASON_CLOSED)
    uuid = session.bucket.vbucket(77).uuid
    fresh = session.stream(77, 15, uuid=uuid, snapshot=(15, 15), flags=TAKEOVER)
    # The takeover has begun, and items come with the opaque of the stream that it took the place of.
    fresh.marker(15, 19, MEMORY | CHECKPOINT)
    right, fresh.opaque = fresh.opaque, old.opaque
    guilty = fresh.items(16, 19)[0]
    fresh.opaque = right
    session.acking = False
    refusal = old.reject("mutation", _ENOENT)
    because = f"opaque {old.opaque.hex()} for vbucket 77, whose stream has {right.hex()} since the last grant"
    story = Story([session.conversation]).shows("OPQ-04", because, guilty)
    return story.shows("OPQ-11", "the item is refused with key not found", refusal, guilty)


def _two_streams(chance: random.Random) -> Story:
    session = modern(chance, "replication:n0->n1:default", collections=False, era=Release(6, 5))
    first = session.stream(301)
    first.follow(10, FROM_DISK)
    uuid = session.bucket.vbucket(301).uuid
    second = session.request(301, 10, uuid=uuid, snapshot=(10, 10))
    guilty = second.accept()
    second.follow(13, MEMORY | CHECKPOINT)
    session.idle(6)
    because = f"vbucket 301 gets stream {second.opaque.hex()} while {first.opaque.hex()} is live"
    return Story([session.conversation]).shows("OPQ-07", because, guilty)


def _close_without_end(chance: random.Random) -> Story:
    session = modern(chance, "eventing", collections=False)
    stream, other = session.stream(12), session.stream(13)
    stream.follow(15, FROM_DISK)
    other.follow(9, FROM_DISK)
    stream.ask_close()
    guilty = stream.answer_close()
    session.idle(65)
    other.follow(12, MEMORY | CHECKPOINT)
    other.close()
    other.end(REASON_CLOSED)
    because = "vbucket 12 was closed with success, and the stream end that was agreed upon never comes"
    return Story([session.conversation]).shows("OPQ-09", because, guilty)


def _refused_item(chance: random.Random) -> Story:
    session = modern(chance, "replication:n2->n3:travel", collections=False, era=Release(6, 5))
    stream = session.stream(640)
    stream.follow(10, FROM_DISK)
    stream.marker(11, 14, MEMORY | CHECKPOINT)
    items = stream.items(11, 14)
    session.acking = False
    guilty = stream.reject("mutation", _EINVAL)
    because = "an item of vbucket 640 is refused with invalid arguments, though nothing is wrong with it"
    return Story([session.conversation]).shows("OPQ-11", because, guilty, items[0])


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-31481",
        "a stream end was skipped after the stream's cursor was dropped",
        "A slow stream loses its place in memory (its cursor is dropped) and goes on from disk. When the backfill "
        "reached the requested end, the producer forgot to send the stream end: everything is there, the client waits "
        "for the end, and hangs. In the capture vbucket 31 was asked for up to 40, goes over to disk, delivers 40, and "
        "then only no-ops come.",
        ("OPQ-10",),
        silent=(
            ("OPQ-02", "the stream request itself was answered; what is missing is no answer"),
            ("SEQ-03", "it judges stream ends that come; this one does not"),
        ),
        tell=_cursor_drop,
        era="5.0 to 6.0",
    ),
    Bug(
        "MB-31570",
        "a stream end was skipped after the stream's cursor was dropped, one more case",
        "Named together with MB-31481, and the same on the wire: the stream end does not come after a cursor was "
        "dropped, and the client hangs. In the capture three vbuckets are read up to 16; two get their stream end, the "
        "one that went over to disk does not.",
        ("OPQ-10",),
        tell=_cursor_drop_of_several,
        era="5.0 to 6.0",
    ),
    Bug(
        "MB-18625",
        "mutations were queued after the stream end",
        "The producer put mutations into a stream's queue when its stream end was there already, so that they came "
        "behind it. A consumer has forgotten the stream by then, and refuses or loses them. In the capture vbucket 88 "
        "ends at 20, and a marker with seqnos 21 and 22 follows.",
        ("OPQ-06", "SEQ-03"),
        tell=_behind_the_end,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-22241",
        "spurious answers said that a stream no longer exists",
        "Answers with key not found came that nobody had asked for, as if the stream were gone. In the capture the "
        "close of vbucket 5 is answered with success, and then once more with key not found; vbucket 6 goes on.",
        ("OPQ-01",),
        tell=_spurious_answer,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-34951",
        "items with the opaque of a former stream tore a takeover's connection down",
        "During a takeover the producer sent items under the opaque of the stream that the takeover had replaced. The "
        "consumer knows no such stream, answers with an error, and the connection is torn down: the rebalance fails. "
        "In the capture the second stream of vbucket 77 is granted, and its items have the first one's opaque.",
        ("OPQ-04", "OPQ-11"),
        tell=_stale_opaque,
        era="5.5 to 6.0",
    ),
    Bug(
        "MB-35061",
        "two consumers streamed one vbucket",
        "A vbucket was streamed twice at once, because the first stream was taken for closed. On one connection that "
        "is a second grant for a vbucket whose stream is live; the right answer is key exists. In the capture vbucket "
        "301 gets a second stream, which goes on where the first one stands; no stream end comes between.",
        ("OPQ-07",),
        silent=(("OPQ-09", "no close comes before; it would speak of what follows one"),),
        tell=_two_streams,
        era="6.0 to 6.5",
    ),
    Bug(
        "MB-45863",
        "a close was not followed by what was agreed upon",
        "Known as a break of the rule about closing: with send_stream_end_on_client_close_stream a granted close is "
        "followed by exactly one stream end. More is not on record; the capture shows the plainest form, a close of "
        "vbucket 12 whose stream end never comes, while that of vbucket 13 does.",
        ("OPQ-09",),
        tell=_close_without_end,
        era="5.5 and later",
    ),
    Bug(
        "MB-40934",
        "a consumer refused an item of a live stream",
        "Known as a break of the rule that nothing of a live stream is refused. More is not on record; the capture "
        "shows the plainest form: a replica answers an item of vbucket 640 with invalid arguments, and the connection "
        "ends.",
        ("OPQ-11",),
        tell=_refused_item,
        era="6.5 and later",
    ),
)
