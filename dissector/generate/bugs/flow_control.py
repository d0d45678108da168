"""Bugs in flow control: bytes given back twice, too late, never, or counted as nobody else counts them.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.modern import ENDS_CLOSED, FROM_DISK
from dissector.generate.scenarios.setup import RELEASE_3, RELEASE_4, modern, plain, replica
from dissector.generate.scenarios.windows import fill
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, REASON_CLOSED
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Emission
    from dissector.generate.session import Session, Stream

_NOOP_BYTES = 24
_PREPARE_BYTES, _END_BYTES, _MUTATION_BYTES = 2, 3, 1  #: what was once forgotten of each


def _hand_acked(session: Session) -> Session:
    """Let the story itself say when bytes are given back."""
    session.acking = False
    return session


def _items(stream: Stream, first: int, last: int, size: int = 90) -> list[Emission]:
    return [stream.mutation(seqno, b"doc-%03d" % seqno, b"x" * size) for seqno in range(first, last + 1)]


def _counted_again(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "replication:n0->n1:default", collections=False, window=9_000))
    stream = session.stream(100)
    stream.marker(0, 24, FROM_DISK)
    _items(stream, 1, 12)
    session.ack()
    sent = _items(stream, 13, 24)
    # The replica had no memory for seqno 24, tried again, and counted it both times.
    again = sent[-1].frame.flow_bytes
    guilty = session.ack(session.outstanding + again)
    session.idle(6)
    because = f"{again} bytes more are given back than had arrived: those of seqno 24 count twice"
    return Story([session.conversation]).shows("FLC-01", because, guilty, sent[-1])


def _acked_at_close(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "replication:n2->n1:default", collections=False, window=9_000))
    stream, other = session.stream(101), session.stream(102)
    stream.marker(0, 10, FROM_DISK)
    sent = _items(stream, 1, 10)
    stream.close()
    stream.end(REASON_CLOSED)
    held = sum(each.frame.flow_bytes for each in sent)
    first = session.ack(session.outstanding)
    # The bytes that the closed stream held were given back already; now they are once more.
    guilty = session.ack(held)
    other.marker(0, 4, FROM_DISK)
    _items(other, 1, 4)
    session.ack()
    session.idle(6)
    because = f"the {held} bytes of vbucket 101's items are given back when they arrive, and again after the close"
    return Story([session.conversation]).shows("FLC-01", because, guilty, first)


def _short_of(session: Session, forgotten: int) -> Emission:
    """Give everything back but so many bytes."""
    owed = session.outstanding - forgotten
    return session.ack(owed)


def _prepares_short(chance: random.Random) -> Story:
    session = _hand_acked(replica(chance, "n6", collections=False))
    stream = session.stream(33)
    first, owed = 1, 0
    for last in (4, 9, 12):
        stream.marker(stream.snap_end + 1, last, MEMORY | CHECKPOINT, max_visible_seqno=0, high_completed_seqno=0)
        sent = [stream.prepare(seqno, b"seat-%d" % seqno, b"y" * 60) for seqno in range(first, last + 1)]
        stream.acknowledge(last)
        owed += _PREPARE_BYTES * len(sent)
        guilty = _short_of(session, owed)
        first = last + 1
    session.idle(45)
    because = f"{owed} bytes are never given back: {_PREPARE_BYTES} for each of 12 prepares"
    return Story([session.conversation]).shows("FLC-05", because, guilty, sent[-1])


def _ends_short(chance: random.Random) -> Story:
    controls = (("enable_stream_id", "true"), ENDS_CLOSED)
    session = _hand_acked(modern(chance, "kafka", controls=controls, window=10_000))
    owed = 0
    for number in range(1, 6):
        value = b'{"sid":%d,"collections":["%x"]}' % (number, 7 + number)
        stream = session.stream(0, 0, 10, stream_id=number, value=value)
        stream.marker(0, 10, FROM_DISK)
        for seqno in (number, number + 5):
            stream.mutation(seqno, b"doc-%d" % seqno, b"x" * 30, collection=7 + number)
        if stream.last < stream.end_seqno:
            stream.advance(stream.end_seqno)
        end = stream.end()
        owed += _END_BYTES
        guilty = _short_of(session, owed)
    session.idle(45)
    because = f"{owed} bytes are never given back: {_END_BYTES} for each of 5 stream ends with a stream id"
    return Story([session.conversation]).shows("FLC-05", because, guilty, end)


def _mutations_short(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "replication:n0->n2:default", collections=False, window=8_000))
    stream = session.stream(55)
    owed = 0
    for first, last in ((1, 9), (10, 16), (17, 25)):
        stream.marker(stream.snap_end + 1, last, FROM_DISK if first == 1 else MEMORY | CHECKPOINT)
        sent = _items(stream, first, last)
        owed += _MUTATION_BYTES * len(sent)
        guilty = _short_of(session, owed)
    session.idle(45)
    because = f"{owed} bytes are never given back: 1 for each of 25 mutations"
    return Story([session.conversation]).shows("FLC-05", because, guilty, sent[-1])


def _live_lock(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "replication:n1->n2:default", collections=False, window=3_000))
    stream = session.stream(400)
    stream.marker(0, 60, FROM_DISK)
    fill(session, stream, 60)
    session.ack()
    fill(session, stream, 60)
    last = session.conversation.emissions[-1]
    # Nothing is given back any more; no-ops are answered, so both sides take the other for alive.
    session.idle(190)
    session.failover_log(400)
    because = "the window is full, and nothing is given back for 190 s, though no-ops are answered"
    return Story([session.conversation]).shows("FLC-03", because, last)


def _lost_at_end(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "replication:n3->n2:default", collections=False, window=4_000))
    ended, other = session.stream(410, 0, 14), session.stream(411)
    ended.marker(0, 14, FROM_DISK)
    _items(ended, 1, 14)
    # What was still in the stream's buffer when it ended is never given back.
    end = ended.end()
    lost = session.outstanding
    session.idle(40)
    other.marker(0, 30, FROM_DISK)
    fill(session, other, 30)
    session.ack(session.outstanding - lost)
    fill(session, other, 30)
    session.ack(session.outstanding - lost)
    fill(session, other, 30)
    session.ack(session.outstanding - lost)
    session.idle(30)
    because = f"{lost} bytes of the stream that ended are never given back, of a window of 4000"
    return Story([session.conversation]).shows("FLC-04", because, end)


def _leak(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "replication:n4->n2:default", collections=False, window=6_000))
    stream = session.stream(412)
    lost = 0
    for first, last, kept in ((1, 10, 500), (11, 20, 900), (21, 30, 400)):
        stream.marker(stream.snap_end + 1, last, FROM_DISK if first == 1 else MEMORY | CHECKPOINT)
        sent = _items(stream, first, last)
        lost += kept
        guilty = session.ack(session.outstanding - lost)
    session.idle(45)
    because = f"{lost} bytes of a window of 6000 are never given back, though the producer rests for 45 s"
    return Story([session.conversation]).shows("FLC-04", because, guilty, sent[-1])


def _slow(chance: random.Random, session: Session, vbucket: int, waits: tuple[int, ...]) -> Story:
    """Tell of a consumer that lets a full window wait, each time for so many seconds; the longest is the last."""
    _hand_acked(session)
    stream = session.stream(vbucket)
    stream.marker(0, 80, DISK)
    for seconds in waits:
        fill(session, stream, 80)
        last = session.conversation.emissions[-1]
        session.idle(seconds)
        late = session.ack(session.outstanding // 2 + chance.randrange(40))
    session.ack()
    stream.close()
    because = f"the window is full, and nothing is given back for {waits[-1]} s"
    return Story([session.conversation]).shows("FLC-03", because, late, last)


def _ack_of_nothing(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "replication:n0->n3:default", collections=False, window=9_000))
    stream = session.stream(9)
    stream.marker(0, 6, FROM_DISK)
    _items(stream, 1, 6)
    session.ack()
    guilty = session.ack(0)
    stream.marker(7, 9, MEMORY | CHECKPOINT)
    _items(stream, 7, 9)
    session.idle(6)
    session.ack()
    return Story([session.conversation]).shows("FLC-07", "0 bytes are given back", guilty)


def _counted_noops(chance: random.Random) -> Story:
    session = _hand_acked(modern(chance, "test-client", collections=False, window=9_000, era=Release(7)))
    stream = session.stream(1)
    stream.marker(0, 5, FROM_DISK)
    _items(stream, 1, 5)
    session.ack()
    session.idle(41)  # two no-ops
    stream.marker(6, 8, MEMORY | CHECKPOINT)
    _items(stream, 6, 8)
    guilty = session.ack(session.outstanding + 2 * _NOOP_BYTES)
    session.idle(6)
    because = f"{2 * _NOOP_BYTES} bytes more are given back than had arrived: 24 for each of 2 no-ops"
    return Story([session.conversation]).shows("FLC-08", because, guilty)


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-72321",
        "a consumer counted a message again when it tried again to process it",
        "A consumer that could not process a message at once put it back, and counted its bytes each time. So it gave "
        "back more than had arrived, and the producer's window no longer means anything. In the capture the last ack "
        "has the bytes of seqno 24 twice.",
        ("FLC-01",),
        tell=_counted_again,
        era="7.0 and later",
    ),
    Bug(
        "MB-60468",
        "bytes of a closed stream were given back twice",
        "When a stream was closed, the consumer gave back the bytes of what it still held of it, though some had been "
        "given back already; later producers end the connection over it. In the capture the bytes of vbucket 101 are "
        "given back, and again after its close.",
        ("FLC-01",),
        tell=_acked_at_close,
        era="7.0 and later",
    ),
    Bug(
        "MB-46634",
        "prepares count 2 bytes more than they have",
        "Producers count a prepare as 57 bytes, key and value, though the frame has 55: kept for compatibility. A "
        "consumer that counts the frame gives 2 bytes too little back for each, and the window shrinks. In the capture "
        "12 prepares leave 24 bytes.",
        ("FLC-05",),
        tell=_prepares_short,
        era="6.5 and later",
    ),
    Bug(
        "MB-42506",
        "stream ends with a stream id were counted without it",
        "A stream id makes every message 3 bytes longer; the count of stream ends left them out, and the sides "
        "disagreed until a producer ended the connection. In the capture a consumer gives back 3 bytes too little for "
        "each of 5 stream ends.",
        ("FLC-05",),
        silent=(("FLC-01", "by the count of today's producers, which has the 3 bytes, nothing is given back twice"),),
        tell=_ends_short,
        era="6.5 and later",
    ),
    Bug(
        "MB-50995",
        "a kind of message was counted short",
        "Known as a break of the rule that both sides count alike; which kind of message it was is not on record. The "
        "capture shows one of the kinds that were once miscounted: 1 byte is missing for each mutation.",
        ("FLC-05",),
        tell=_mutations_short,
        era="5.0 and later",
    ),
    Bug(
        "MB-63439",
        "producer and consumer waited for each other at a full window",
        "A live-lock: the window is full, the consumer gives nothing back, and both keep the connection alive with "
        "no-ops. In the capture that lasts for more than three minutes.",
        ("FLC-03",),
        tell=_live_lock,
        era="7.0 and later",
    ),
    Bug(
        "MB-56275",
        "the bytes that a stream held when it ended were never given back",
        "When a stream ended, the consumer forgot the bytes of what it had not processed yet. They stay outstanding "
        "for as long as the connection lives: each such end makes the window smaller, until nothing fits. In the "
        "capture the bytes of the stream that ends at 14 are never given back; those of the other one are.",
        ("FLC-04",),
        silent=(("FLC-03", "what is left of the window is enough to go on; a full one would stall"),),
        tell=_lost_at_end,
        era="7.0 and later",
    ),
    Bug(
        "MB-60438",
        "a part of the window was never given back",
        "Known as a break of the rule that everything is given back in the end, without the exchange that led to it. "
        "In the capture each ack leaves some bytes out, 1800 of a window of 6000 in all.",
        ("FLC-04",),
        tell=_leak,
        era="7.0 and later",
    ),
    Bug(
        "MB-18661",
        "consumers gave bytes back too slowly",
        "Acks that come late hold the producer up at a full window, and a rebalance with it. In the capture the full "
        "window waits for 20, 35 and then 75 seconds.",
        ("FLC-03",),
        tell=lambda chance: _slow(
            chance, plain(chance, "replication:4.1", window=3_000, era=RELEASE_4), 17, (20, 35, 75)
        ),
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-16159",
        "consumers gave bytes back too slowly, named together with MB-18661",
        "The same on the wire as MB-18661: acks that come late. In the capture the full window waits for 66 seconds, "
        "once.",
        ("FLC-03",),
        tell=lambda chance: _slow(chance, plain(chance, "replication:3.1", window=3_000, era=RELEASE_3), 18, (66,)),
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-59474",
        "acks of 0 bytes",
        "Some consumers send acks that give nothing back. That is legal and useless, and worth knowing where there are "
        "many. In the capture one follows an ack of everything.",
        ("FLC-07",),
        tell=_ack_of_nothing,
        era="any",
    ),
    Bug(
        "MB-46365",
        "a test client counted no-ops",
        "No-ops do not count. A client that counts them gives back 24 bytes too many for each. In the capture two "
        "no-ops pass, and the next ack is 48 bytes too large.",
        ("FLC-08",),
        tell=_counted_noops,
        era="7.0 and later",
    ),
)
