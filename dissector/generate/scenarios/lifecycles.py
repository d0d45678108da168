"""Streams that begin and end in unusual ways: late answers, shared opaques, messages in flight across a close.

Each scenario is about exceptions of the rules on opaques and on the life of a stream (OPQ); the reasons stand beside
it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.modern import FROM_DISK
from dissector.generate.scenarios.setup import modern, new_conversation, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, REASON_CLOSED, REASON_STATE, SECOND, Session

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size

_GOMEMCACHED_OPEN = bytes.fromhex("beaf0001")


def _closed_meanwhile(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "gone")
    stream = session.stream(0)
    stream.follow(14, DISK)
    # The client disconnects: two requests and a no-op stay without an answer, a snapshot and a stream without an end.
    stream.marker(15, 30, MEMORY | CHECKPOINT)
    stream.items(15, 22)
    session.request(1)
    session.request(2)
    session.send(session.producer, session.frame("noop", opaque=(10_000_001).to_bytes(4, "little")))
    return [session.conversation]


def _slow_answers(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "patient")
    quick = session.stream(0)
    quick.follow(10, DISK)
    waiting = session.request(1)
    session.idle(95)  # the server has no memory for one more backfill
    waiting.accept()
    waiting.follow(12, DISK)
    session.idle(6)
    return [session.conversation]


def _answered_end(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "polite")
    for vbucket in range(3):
        stream = session.stream(vbucket, 0, 10)
        stream.follow(10, DISK)
        stream.end()
        answer = session.frame("stream_end", response=True, opaque=stream.opaque)
        session.send(session.consumer, answer)
    session.idle(6)
    return [session.conversation]


def _reopened_in_flight(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "impatient")
    uuid = session.bucket.vbucket(0).uuid
    old = session.stream(0)
    old.follow(10, DISK)
    # Close and the next request go out at once; what the old stream had on its way arrives between them.
    session.acking = False
    old.marker(11, 16, MEMORY | CHECKPOINT)
    sent = old.items(11, 13)
    old.ask_close(unheard=len(sent) + 1)
    fresh = session.request(0, 10, uuid=uuid, snapshot=(10, 10), unheard=len(sent) + 1)
    session.in_flight = 2
    old.items(14, 15)
    session.in_flight = 1
    old.answer_close()
    session.in_flight, session.acking = 0, True
    fresh.accept()
    fresh.follow(16, MEMORY | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _close_in_flight(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "leaving")
    stream = session.stream(0)
    stream.follow(12, FROM_DISK)
    session.acking = False
    stream.marker(13, 30, MEMORY | CHECKPOINT)
    stream.items(13, 18)
    # The producer goes on until the close reaches it, and with this parameter until its stream end.
    stream.ask_close(unheard=3)
    session.in_flight = 1
    stream.items(19, 22)
    session.in_flight, session.acking = 0, True
    stream.answer_close()
    stream.items(23, 25)
    stream.end(REASON_CLOSED)
    session.idle(6)
    return [session.conversation]


def _gomemcached(chance: random.Random, _size: Size) -> list[Conversation]:
    session = Session(new_conversation(name="indexer"), chance)
    session.send(
        session.consumer,
        session.frame("open", key=b"indexer", opaque=_GOMEMCACHED_OPEN, fields={"open_flags": 1}),
    )
    session.send(session.producer, session.frame("open", response=True, opaque=_GOMEMCACHED_OPEN))
    session.control("connection_buffer_size", "8192")
    # Opaques are made of a number and the vbucket; acks come at a fifth of the window and never for the rest.
    session.acking = True
    streams = [session.stream(vbucket, opaque=(1 << 16 | vbucket).to_bytes(4, "big")) for vbucket in range(4)]
    for stream in streams:
        stream.follow(9, DISK)
    session.acking = False
    session.pending_ns = 30 * SECOND
    session.control("connection_buffer_size", "8192")
    return [session.conversation]


def _vbucket_opaques(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "simple")
    for vbucket in (1, 2, 3):
        # As good as any, as long as the vbucket stands beside it; a no-op of another number does not clash.
        stream = session.stream(vbucket, opaque=vbucket.to_bytes(4, "big"))
        stream.follow(12, DISK)
    session.idle(21)
    return [session.conversation]


def _shared_opaque(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "careless")
    opaque = bytes.fromhex("00000777")
    streams = [session.stream(vbucket, opaque=opaque) for vbucket in range(3)]
    for last in (8, 14):
        for stream in streams:
            stream.follow(last, DISK if last == 8 else MEMORY | CHECKPOINT)
    streams[0].close()
    # And again, for the next stream of the same vbucket.
    uuid = session.bucket.vbucket(0).uuid
    again = session.stream(0, 14, uuid=uuid, snapshot=(14, 14), opaque=opaque)
    again.follow(20, MEMORY | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _ends_early(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "moved")
    stream = session.stream(0)
    stream.follow(12, DISK)
    # The vbucket moves to another node in the middle of a snapshot.
    stream.marker(13, 30, MEMORY | CHECKPOINT)
    stream.items(13, 19)
    stream.end(REASON_STATE)
    other = session.stream(1, 0, 40)
    other.follow(12, DISK)
    other.end(REASON_STATE)
    session.idle(6)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "closed-meanwhile",
        "a client disconnects with requests unanswered and a snapshot unfinished",
        _closed_meanwhile,
        "dcp",
        "3.0 to 4.1",
        (
            ("NOP-01", "the connection was closed before the no-op was answered"),
            ("OPQ-02", "the connection was closed before the answers came"),
            ("OPQ-10", "the client disconnected: no stream end follows"),
            ("SNP-06", "the client disconnected in the middle of a snapshot"),
        ),
    ),
    Scenario(
        "slow-answers",
        "a stream request that waits a minute and a half for its backfill",
        _slow_answers,
        "dcp",
        "3.0 to 4.1",
        (("OPQ-02", "a stream request waits until there is memory for its backfill"),),
    ),
    Scenario(
        "answered-end",
        "a client that answers stream ends",
        _answered_end,
        "dcp",
        "3.0 and later",
        (
            ("OPQ-01", "an answer to a stream end pairs with it, by the stream's opaque"),
            ("OPQ-03", "an answer to a stream end is tolerated"),
        ),
    ),
    Scenario(
        "reopened-in-flight",
        "close and the next request at once, with items of the old stream behind them",
        _reopened_in_flight,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-04", "items of the old stream may come until the new request's success"),
            ("FOL-08", "the client asked again for what it had not received when it closed"),
            ("SEQ-01", "the client asked again for what it had not received when it closed"),
            ("SNP-06", "the stream was closed in the middle of a snapshot"),
        ),
    ),
    Scenario(
        "close-in-flight",
        "items on both sides of a close and of its answer",
        _close_in_flight,
        "dcp",
        "5.5 and later",
        (
            ("OPQ-09", "with send_stream_end_on_client_close_stream items may come until the stream end"),
            ("SNP-06", "a stream end of reason 1 may leave its snapshot unfinished"),
        ),
    ),
    Scenario(
        "gomemcached",
        "a Go client: opaques made of the vbucket, acks at a fifth of the window only",
        _gomemcached,
        "dcp",
        "any",
        (
            ("OPQ-08", "(n << 16 | vbucket) is unique for each vbucket"),
            ("FLC-04", "a consumer that acknowledges at a threshold keeps less than a fifth of the window"),
        ),
    ),
    Scenario(
        "vbucket-opaques",
        "the vbucket number as opaque",
        _vbucket_opaques,
        "dcp",
        "any",
        (("OPQ-08", "some clients use the vbucket id as opaque"),),
    ),
    Scenario(
        "shared-opaque",
        "three live streams with one opaque, and a fourth with it later",
        _shared_opaque,
        "dcp",
        "any",
        (
            ("OPQ-07", "two live streams may share an opaque: the vbucket tells them apart"),
            ("OPQ-08", "two live streams may share an opaque: the vbucket tells them apart"),
            ("OPQ-12", "the opaque of an ended stream may be used again"),
            ("OPQ-09", "before 5.5 nothing follows a close"),
            ("OPQ-10", "before 5.5 a closed stream gets no stream end"),
        ),
    ),
    Scenario(
        "ends-early",
        "a vbucket that changes its state in the middle of a snapshot",
        _ends_early,
        "dcp",
        "3.0 and later",
        (
            ("SNP-06", "a stream end of another reason than 0 may leave its snapshot unfinished"),
            ("SEQ-03", "only reason 0 promises that the end was reached"),
        ),
    ),
)
