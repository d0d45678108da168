"""Flow control that looks wrong and is not: windows that change, bytes that count or do not, acks on their way.

Each scenario is about exceptions of the flow-control rules (FLC); the reasons stand beside it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import FROM_DISK
from dissector.generate.scenarios.setup import RELEASE_3, early, modern, plain, replica
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, SECOND

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Session, Stream

_SIZE = "connection_buffer_size"
_VALUE = b"x" * 100


def fill(session: Session, stream: Stream, end: int) -> None:
    """Send items until the window is full or the end is reached."""
    while stream.last < end and (not session.window or session.outstanding < session.window):
        stream.mutation(stream.last + 1, b"key-%04d" % (stream.last + 1), _VALUE)


def drain(session: Session, stream: Stream, end: int) -> None:
    """Send up to the end; whenever the window is full, everything is given back."""
    while stream.last < end:
        fill(session, stream, end)
        session.pending_ns = SECOND // 10
        session.ack()


def _late_window(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "late", window=0, collections=False)
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 60, FROM_DISK)
    fill(session, stream, 10)
    # What was sent before there was a window counts as soon as there is one.
    session.control(_SIZE, "4000")
    drain(session, stream, 60)
    session.idle(6)
    return [session.conversation]


def _late_window_3x(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "late", window=0, era=RELEASE_3)
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 60, DISK)
    fill(session, stream, 10)
    # These servers begin to count with the window: what was sent before it is never given back.
    session.control(_SIZE, "4000")
    session.outstanding = 0
    fill(session, stream, 60)
    while session.outstanding:
        session.ack(session.outstanding)
        fill(session, stream, 60)
    session.idle(6)
    return [session.conversation]


def _ack_in_flight(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "crossing", window=4_000)
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 80, DISK)
    while stream.last < 80:
        before = stream.last
        fill(session, stream, min(80, before + 14))
        if session.outstanding < session.window:
            # The ack covers what the consumer has; the producer sends on, and does not know of the ack yet.
            held = session.outstanding
            session.ack(unheard=3)
            left = session.outstanding
            session.outstanding, session.in_flight = held, 1
            fill(session, stream, min(80, stream.last + 4))
            session.outstanding, session.in_flight = session.outstanding - held + left, 0
        else:
            session.ack()
    session.ack()
    session.idle(6)
    return [session.conversation]


def _window_resize(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "resized", window=8_000)
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 90, DISK)
    fill(session, stream, 30)
    # Lowered below what is outstanding: nothing can be sent until enough was given back.
    session.control(_SIZE, "2000")
    session.pending_ns = SECOND
    session.ack(session.outstanding - 1_000)
    fill(session, stream, 90)
    # Grown, the window frees the producer without an ack.
    session.pending_ns = SECOND
    session.control(_SIZE, "9000")
    drain(session, stream, 90)
    session.idle(6)
    return [session.conversation]


def _window_off(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "on-and-off", window=2_000, collections=False)
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 90, FROM_DISK)
    fill(session, stream, 90)
    # 0 switches flow control off and forgets what was outstanding; what is sent meanwhile counts later.
    owed = session.outstanding
    session.control(_SIZE, "0")
    session.outstanding = 0
    fill(session, stream, stream.last + 20)
    session.control(_SIZE, "6000")
    fill(session, stream, 90)
    while session.outstanding:
        session.ack(session.outstanding)
        fill(session, stream, 90)
    session.conversation.notes["never given back"] = owed
    session.idle(6)
    return [session.conversation]


def _idle_window(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "quiet", window=40_000)
    session.acking = False
    stream = session.stream(0)
    stream.follow(20, DISK)
    # For two minutes there is nothing to send; the consumer has not given back what is less than its threshold.
    session.idle(125)
    stream.follow(26, MEMORY | CHECKPOINT)
    session.ack()
    session.idle(6)
    return [session.conversation]


def _odd_acks(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "odd", window=10_000)
    session.acking = False
    stream = session.stream(0)
    stream.follow(12, DISK)
    session.ack(0)
    # Acks come in batches: late, and in pieces that match no message.
    stream.follow(20, MEMORY | CHECKPOINT)
    session.pending_ns = 4 * SECOND
    session.ack(777)
    session.ack(1)
    session.ack()
    session.ack(0)
    session.idle(21)
    return [session.conversation]


def _early_upr_window(chance: random.Random, _size: Size) -> list[Conversation]:
    session = early(chance, "upr-flow", window=2_000)
    session.acking = False
    stream = session.stream(0)
    # The producer stops *before* the window would overflow, and sends what it held back uncounted after the ack.
    for _ in range(4):
        size = stream.frame("mutation", key=b"key-0000", value=_VALUE, fields={"nru": 1}).length
        while session.outstanding + size <= session.window:
            stream.mutation(stream.last + 1, b"key-%04d" % (stream.last + 1), _VALUE)
        session.pending_ns = SECOND // 2
        session.ack()
        stream.mutation(stream.last + 1, b"key-%04d" % (stream.last + 1), _VALUE)
        session.outstanding = 0
    stream.marker(0, 0)
    session.ack()
    return [session.conversation]


def _large_documents(chance: random.Random, _size: Size) -> list[Conversation]:
    session = replica(chance, "n4", collections=False)
    session.control(_SIZE, "3000")
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 20, MEMORY | CHECKPOINT, max_visible_seqno=0, high_completed_seqno=0)
    # A document may be larger than the window: it is sent as long as there is a byte left. A prepare counts 2 more.
    for seqno in range(1, 21):
        if session.outstanding >= session.window:
            session.pending_ns = SECOND // 10
            session.ack()
        stream.prepare(seqno, b"durable-%d" % seqno, b"y" * chance.choice((40, 900, 5_000)))
    stream.acknowledge(20)
    session.ack()
    session.idle(6)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "late-window",
        "a window that is set when items are on their way already",
        _late_window,
        "dcp",
        "4.5 and later",
        (("FLC-01", "since 4.5 bytes that were sent before the first window count"),),
    ),
    Scenario(
        "late-window-3x",
        "the same with older servers, which begin to count then",
        _late_window_3x,
        "dcp",
        "3.0 to 4.1",
        (
            ("FLC-01", "up to 4.1 counting begins with the window"),
            ("FLC-02", "up to 4.1 bytes that were sent before the window take nothing from it"),
            ("FLC-04", "up to 4.1 bytes that were sent before the window are not given back"),
        ),
    ),
    Scenario(
        "ack-in-flight",
        "acks that cross items on their way",
        _ack_in_flight,
        "dcp",
        "3.0 to 4.1",
        (
            ("FLC-01", "only what had arrived is given back"),
            ("FLC-02", "only acks that the producer had received make room"),
        ),
    ),
    Scenario(
        "window-resize",
        "a window that shrinks below what is outstanding, then grows",
        _window_resize,
        "dcp",
        "3.0 to 4.1",
        (("FLC-02", "the window was lowered meanwhile; grown, it frees the producer without an ack"),),
    ),
    Scenario(
        "window-off",
        "a window that is switched off and on again",
        _window_off,
        "dcp",
        "4.5 and later",
        (
            ("FLC-02", "size 0 switches flow control off; what is sent meanwhile counts once there is a size again"),
            ("FLC-04", "size 0 forgets what was outstanding: it is never given back"),
        ),
    ),
    Scenario(
        "idle-window",
        "two quiet minutes with some bytes outstanding",
        _idle_window,
        "dcp",
        "3.0 to 4.1",
        (
            ("FLC-03", "the producer is silent because it has nothing to send: its window is not full"),
            ("FLC-04", "less than a fifth of the window may stay with the consumer"),
            ("FLC-09", "what is less than the threshold is given back with what comes later"),
        ),
    ),
    Scenario(
        "odd-acks",
        "acks of no bytes, late ones, and of parts of messages",
        _odd_acks,
        "dcp",
        "any",
        (
            ("FLC-07", "an ack of 0 bytes is legal"),
            ("FLC-09", "consumers give bytes back in batches"),
        ),
    ),
    Scenario(
        "early-upr-window",
        "the early dialect's window: held back before it overflows, then sent uncounted",
        _early_upr_window,
        "upr",
        "May 2014",
        (
            ("SNP-01", "the marker comes behind the items that it closes"),
            ("SNP-02", "the marker has no range"),
            ("OPQ-03", "the consumer answers every message of a stream"),
            ("FLC-01", "the message that was held back is not counted by the producer"),
            ("FLC-02", "a client's count may exceed the window by the message that was held back"),
        ),
    ),
    Scenario(
        "large-documents",
        "prepares that are larger than the window",
        _large_documents,
        "dcp",
        "6.5 and later",
        (
            ("FLC-01", "a prepare counts two bytes more than it has"),
            ("FLC-02", "the last message may overshoot the window by its whole size"),
        ),
    ),
)
