"""No-ops that go other than usual: slow answers, odd intervals, connections that have little to say.

Each scenario is about exceptions of the rules on liveness (NOP); the reasons stand beside it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.conversation import CLIENT
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.setup import RELEASE_3, modern, new_conversation, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, SECOND, Session
from dissector.spec import enums

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size

_FROM_DISK = DISK | CHECKPOINT
_EINVAL = enums.STATUSES.number("invalid_arguments")
_OWN_NUMBERS = 0x9900_0000  #: of a client that produces: 00000099 on the wire


def _slow_noop(session: Session, seconds: float) -> None:
    """Send a no-op whose answer takes its time."""
    session.pending_ns = max(1, session.last_noop_ns + session.noop_interval_ns - session.clock_ns)
    opaque = session.next_noop.to_bytes(4, "little")
    session.next_noop += 1
    session.send(session.producer, session.frame("noop", opaque=opaque))
    session.pending_ns = int(seconds * SECOND)
    session.send(session.consumer, session.frame("noop", response=True, opaque=opaque))
    session.last_noop_ns = session.clock_ns - session.noop_interval_ns  # the next one is due at once


def _slow_answers(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "slow")
    stream = session.stream(0)
    stream.follow(12, _FROM_DISK)
    session.idle(6)
    # The client is busy with what it got for longer than the interval: a server of 7.x waits.
    for seconds in (35, 52):
        _slow_noop(session, seconds)
    stream.follow(20, MEMORY | CHECKPOINT)
    session.idle(30)
    return [session.conversation]


def _slow_side(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "far-away")
    stream = session.stream(0)
    stream.follow(12, DISK)
    session.idle(6)
    # Recorded beside the producer, whose answers come from far away: the way there and back counts as well.
    for _ in range(2):
        _slow_noop(session, 20.4)
    stream.follow(20, MEMORY | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _retried(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "fractions")
    # A fraction is refused, and whole seconds are taken: the second control counts.
    session.control("set_noop_interval", "0.100000", status=_EINVAL)
    session.control("set_noop_interval", "4")
    stream = session.stream(0)
    stream.follow(12, _FROM_DISK)
    session.idle(17)
    stream.follow(20, MEMORY | CHECKPOINT)
    session.idle(9)
    return [session.conversation]


def _idle(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "early-bird")
    # Nothing is streamed yet, so 3.x says nothing: no no-op, for as long as it takes.
    session.pending_ns = 410 * SECOND
    session.last_noop_ns = session.clock_ns + session.pending_ns
    stream = session.stream(0)
    stream.follow(12, DISK)
    for end in (18, 25, 31):
        session.idle(45)
        stream.follow(end, MEMORY | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _short_interval(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "impatient", noop=False)
    session.control("enable_noop", "true")
    session.control("set_noop_interval", "2")
    stream = session.stream(0)
    stream.follow(12, DISK)
    session.ack()
    session.acking = False
    # 3.x looks every second, and after a connection with nothing to send every five: then it is time for the next.
    for seconds in (3.2, 7.7, 7.4, 2.1):
        session.pending_ns = int(seconds * SECOND)
        session.noop()
    return [session.conversation]


def _stalled(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "stalled", window=1_024)
    session.control("set_noop_interval", "4")
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 60, DISK)
    for item in range(1, 61):
        if session.outstanding >= session.window:
            # The consumer takes its time; the window is full, and no-ops go on.
            session.idle(9)
            session.ack()
        stream.mutation(item, b"key-%d" % item, b"x" * 40)
    session.ack()
    session.idle(6)
    return [session.conversation]


def _without_noops(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "quiet", noop=False)
    stream = session.stream(0)
    stream.follow(12, DISK)
    session.idle(500)
    stream.follow(18, MEMORY | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _feeding(chance: random.Random, _size: Size) -> list[Conversation]:
    session = Session(new_conversation(name="feeder"), chance, era=RELEASE_3, producer=CLIENT, acking=True)
    session.open(b"feeder")
    added = bytes.fromhex("00000002")
    session.send(CLIENT, session.frame("add_stream", vbucket=0, opaque=added, fields={"stream_flags": 0}))
    session.control("connection_buffer_size", "20480")
    session.control("enable_noop", "true")
    session.control("set_noop_interval", "20")
    session.next_noop = _OWN_NUMBERS
    stream = session.stream(0)
    opaque = int.from_bytes(stream.opaque, "little")
    answer = session.frame("add_stream", response=True, opaque=added, fields={"stream_opaque": opaque})
    session.send(session.consumer, answer)
    stream.follow(12, DISK)
    session.idle(25)
    session.next_noop += 0x0100_0000 - 1  # counted on as the client does: 0000009a on the wire
    session.idle(25)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "slow-noop-answers",
        "a client that answers no-ops later than the interval, and a server that waits",
        _slow_answers,
        "dcp",
        "5.0 and later",
        (
            ("NOP-02", "since 5.0 an answer may take up to 360 seconds"),
            ("NOP-03", "while a no-op waits for its answer, no other is sent"),
            ("NOP-04", "the next no-op waits for the answer, however slow"),
        ),
    ),
    Scenario(
        "noop-slow-side",
        "answers from far away, recorded beside the producer",
        _slow_side,
        "dcp",
        "3.0 to 4.6",
        (("NOP-02", "recorded on the slow side, the way there and back counts as well"),),
    ),
    Scenario(
        "noop-interval-retried",
        "a no-op interval that is refused, and another one that is not",
        _retried,
        "dcp",
        "7.0 and later",
        (("NOP-02", "an interval that was refused is not in force"),),
    ),
    Scenario(
        "noop-idle",
        "a connection without a stream, on which nothing is said for minutes",
        _idle,
        "dcp",
        "3.0 to 4.6",
        (
            ("NOP-03", "3.x sends no no-ops until there is a stream"),
            ("NOP-06", "3.x sends no no-ops until there is a stream"),
        ),
    ),
    Scenario(
        "noop-short-interval",
        "a no-op interval that is shorter than the server looks after its connections",
        _short_interval,
        "dcp",
        "3.0 to 4.6",
        (("NOP-03", "3.x wakes a connection with nothing to send every few seconds only"),),
    ),
    Scenario(
        "noop-while-stalled",
        "a producer whose window is full, and whose no-ops go on",
        _stalled,
        "dcp",
        "3.0 to 4.6",
        (("NOP-03", "a producer that may send no data still sends no-ops"),),
    ),
    Scenario(
        "silent-without-noops",
        "a connection without no-ops on which nothing is said for minutes",
        _without_noops,
        "dcp",
        "3.0 and later",
        (("NOP-06", "without no-ops nobody has to say anything"),),
    ),
    Scenario(
        "feeding-client",
        "a client that plays the producer, and numbers its no-ops in its own way",
        _feeding,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-05", "the answer to add stream has the stream's opaque byte-reversed"),
            ("NOP-05", "clients that produce count as they like"),
        ),
    ),
)
