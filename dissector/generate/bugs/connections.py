"""Bugs of connections: set-up, what was agreed upon, and whether both sides are still there.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.conversation import CLIENT
from dissector.generate.scenarios.modern import FROM_DISK
from dissector.generate.scenarios.replication import marker
from dissector.generate.scenarios.setup import (
    JSON_VALUES,
    RELEASE_3,
    SELECT_BUCKET,
    SNAPPY,
    XATTR,
    XERROR,
    modern,
    new_conversation,
    plain,
    replica,
)
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, SECOND, Session
from dissector.spec import enums
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Emission

_EINVAL = enums.STATUSES.number("invalid_arguments")
#: Of the consumer of a server after 8.0.
_CONSUMER_CONTROLS = (
    (b"connection_buffer_size", b"20480"),
    (b"enable_noop", b"true"),
    (b"set_noop_interval", b"1"),
    (b"v7_dcp_status_codes", b"true"),
    (b"flatbuffers_system_events", b"true"),
    (b"change_streams", b"true"),
)


def _opened_twice(chance: random.Random) -> Story:
    session = plain(chance, "replication:twice", era=RELEASE_3)
    first = session.conversation.emissions[0]
    session.stream(0).follow(6, DISK)
    guilty = session.open(b"replication:twice")
    session.stream(1).follow(5, DISK)
    session.idle(6)
    because = "the connection is opened a second time, with success"
    return Story([session.conversation]).shows("CON-02", because, guilty, first)


def _advanced_to_a_replica(chance: random.Random) -> Story:
    session = replica(chance, "n7", collections=False)
    stream = session.stream(90)
    marker(stream, 0, 8, FROM_DISK, visible=8)
    stream.items(1, 7)
    # A replica gets every item: nothing is filtered that a seqno would have to be advanced for.
    guilty = stream.advance(8)
    stream.acknowledge(8)
    session.idle(6)
    because = "a seqno advanced is sent to a replica that takes part in sync writes"
    return Story([session.conversation]).shows("CON-05", because, guilty)


def _other_interval(chance: random.Random) -> Story:
    session = plain(chance, "replication:5.5", noop=False, era=Release(5))
    session.control("enable_noop", "true")
    # An older producer knows whole seconds only; asked again, it says yes, and goes on at its own interval.
    session.control("set_noop_interval", "0.100000", status=_EINVAL)
    asked = session.control("set_noop_interval", "1")
    session.heed("set_noop_interval", "60")
    session.stream(4).follow(8, DISK)
    session.idle(130)
    guilty = next(each for each in session.conversation if each.frame.name == "noop")
    because = "no-ops come each 60 seconds, where an interval of 1 second was agreed upon"
    return Story([session.conversation]).shows("NOP-03", because, guilty, asked)


def _request_too_early(chance: random.Random) -> Story:
    name = b"replication:n0->n8:default"
    session = Session(
        new_conversation(name=name.decode(), server="10.0.0.3"), chance, era=Release(8, 1), producer=CLIENT
    )
    session.hello((XATTR, XERROR, SELECT_BUCKET, SNAPPY, JSON_VALUES, enums.COLLECTIONS_FEATURE))
    session.select_bucket()
    session.open(name, 0)
    added = session.frame("add_stream", vbucket=91, opaque=bytes.fromhex("000000a1"), fields={"stream_flags": 0})
    session.send(session.producer, added)
    session.next_opaque = 2
    *first, last = [
        session.frame("control", key=key, value=value, opaque=session.opaque()) for key, value in _CONSUMER_CONTROLS
    ]
    for frame in first:
        session.ask(session.consumer, frame)
    # The last control is on its way, and the stream request goes out behind it.
    asked = session.send(session.consumer, last)
    stream = session.request(91, opaque=(1).to_bytes(4, "little"), value=b'{"uid":"0"}')
    guilty = session.conversation.emissions[-1]
    session.send(session.producer, session.frame("control", response=True, opaque=last.opaque))
    stream.accept()
    done = session.frame("add_stream", response=True, opaque=added.opaque, fields={"stream_opaque": 1})
    session.send(session.consumer, done)
    stream.follow(6, FROM_DISK)
    session.ack()
    because = f"the stream request is sent while the control {last.key.decode()} is not answered"
    return Story([session.conversation]).shows("CON-09", because, guilty, asked)


def _noop(session: Session, seconds: float) -> tuple[Emission, bytes]:
    """Send a no-op after so much time; nothing is answered."""
    opaque = session.next_noop.to_bytes(4, "little")
    session.next_noop += 1
    session.pending_ns = int(seconds * SECOND)
    sent = session.send(session.producer, session.frame("noop", opaque=opaque))
    session.last_noop_ns = session.clock_ns
    return sent, opaque


def _answer_noop(session: Session, opaque: bytes) -> Emission:
    return session.send(session.consumer, session.frame("noop", response=True, opaque=opaque))


def _other_opaque(chance: random.Random) -> Story:
    session = plain(chance, "busy", era=RELEASE_3)
    session.stream(10).follow(8, DISK)
    session.idle(21)  # the first no-op is answered as it should be
    session.pending_ns = 0
    asked, opaque = _noop(session, 20)
    guilty = _answer_noop(session, opaque[::-1])
    # The producer closes the connection.
    because = f"the no-op with opaque {opaque.hex()} is answered with {opaque[::-1].hex()}"
    story = Story([session.conversation]).shows("NOP-01", because, guilty, asked)
    return story.shows("OPQ-01", because, guilty, asked)


def _no_answer(chance: random.Random) -> Story:
    session = plain(chance, "deaf", era=RELEASE_3)
    session.stream(11).follow(8, DISK)
    session.idle(6)
    session.pending_ns = 0
    guilty, _ = _noop(session, 20)
    later, second = _noop(session, 20)
    _answer_noop(session, second)
    session.idle(6)
    because = "a no-op is never answered, and the next one is"
    return Story([session.conversation]).shows("NOP-01", because, guilty, later)


def _no_noops(chance: random.Random) -> Story:
    session = plain(chance, "steady", era=RELEASE_3)
    stream = session.stream(12)
    stream.follow(6, DISK)
    session.idle(21)
    session.noop_interval_ns = 0
    for last in (9, 12, 15):
        session.idle(19)
        stream.follow(last, MEMORY | CHECKPOINT)
    guilty, opaque = _noop(session, 18)
    _answer_noop(session, opaque)
    session.idle(6)
    because = "no no-op comes for more than 70 seconds, where the interval is 20"
    return Story([session.conversation]).shows("NOP-03", because, guilty)


def _silence(chance: random.Random, vbucket: int, seconds: int, *, resumed: bool) -> Story:
    """Tell of a connection with no-ops on which nothing is said for longer than the idle timeout."""
    session = modern(chance, f"replication:silent:{vbucket}", collections=False, era=Release(7))
    stream = session.stream(vbucket)
    stream.follow(7, FROM_DISK)
    session.idle(21)
    session.noop_interval_ns, session.pending_ns = 0, seconds * SECOND
    guilty = stream.follow(11, MEMORY | CHECKPOINT)[0] if resumed else session.failover_log(vbucket)
    because = f"nothing is said for {seconds} seconds, and the connection is still open"
    return Story([session.conversation]).shows("NOP-06", because, guilty)


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-17042",
        "duplicate producers and consumers were allowed",
        "A connection is opened once, and a name has one connection at a time. Servers took a second open, and "
        "several connections of one name; 4.5 refused the newcomer, other releases end the older one. In the capture "
        "one connection is opened twice, with success.",
        ("CON-02",),
        across=("CON-08",),
        tell=_opened_twice,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-40095",
        "a seqno was advanced on a stream to a replica",
        "Seqno advanced stands for items that a client does not get. A replica that takes part in sync writes gets "
        "everything, and none may come. In the capture seqno 8 is advanced to on such a stream, without collections.",
        ("CON-05",),
        tell=_advanced_to_a_replica,
        era="7.0",
    ),
    Bug(
        "MB-29441",
        "a wrong no-op interval was agreed upon with an older producer",
        "Later consumers ask for intervals with fractions of a second. An older producer knows whole seconds and "
        "refuses, and the consumer asks again. So both sides went by different intervals, and a consumer that misses "
        "no-ops ends the connection. In the capture 0.1 is refused, 1 is accepted, and no-ops come each 60 seconds.",
        ("NOP-03",),
        silent=(("CON-07", "that a refused interval is used after all is not visible: no message depends on it"),),
        tell=_other_interval,
        era="5.0 to 5.5",
    ),
    Bug(
        "MB-69524",
        "a consumer asked for streams before all its controls were answered",
        "What the producer agrees to decides how it sends. In the capture the stream request goes out while the last "
        "control still waits for its answer; it is the relay's leg to the consumer.",
        ("CON-09",),
        tell=_request_too_early,
        era="after 8.0",
    ),
    Bug(
        "MB-11361",
        "a no-op was not answered as it has to be",
        "The answer to a no-op has its opaque, and comes before the next no-op; producers of 3.0 end the connection "
        "otherwise. How it came about is not on record. In the capture the second no-op is answered with another "
        "opaque, its own byte-reversed.",
        ("NOP-01", "OPQ-01"),
        tell=_other_opaque,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-11778",
        "a no-op was not answered, named together with MB-11361",
        "The same rule as MB-11361. In the capture a no-op is never answered, and the next one is.",
        ("NOP-01",),
        tell=_no_answer,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-12271",
        "no-ops did not come in time",
        "A consumer that gets no no-op for twice the interval takes the producer for dead and ends the connection. In "
        "the capture items come, and no no-op for more than 70 seconds, where 20 were agreed upon.",
        ("NOP-03",),
        tell=_no_noops,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-44803",
        "a dead peer was not noticed",
        "Known for connections whose peer is dead; what was changed is what servers write down about it. In the "
        "capture nothing is said for 400 seconds, no no-op either, and then the client speaks again.",
        ("NOP-06",),
        tell=lambda chance: _silence(chance, 700, 400, resumed=False),
        era="5.0 and later",
    ),
    Bug(
        "MB-55260",
        "a dead peer was not noticed, named together with MB-44803",
        "Known for connections whose peer is dead, as MB-44803 is. In the capture nothing is said for 420 seconds, and "
        "then the stream goes on.",
        ("NOP-06",),
        tell=lambda chance: _silence(chance, 701, 420, resumed=True),
        era="5.0 and later",
    ),
)
