"""Histories of vbuckets that part: failovers, rollbacks to anywhere, clients that go back and come again.

Each scenario is about exceptions of the rules on failover logs and rollbacks (FOL); the reasons stand beside it. Must
not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.setup import modern, new_conversation, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY, PRODUCER, SECOND, Session
from dissector.spec import enums
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size

_NOTIFIER = enums.OPEN_FLAGS.bit("notifier")
_STRICT = enums.STREAM_FLAGS.bit("strict_vbucket_uuid")
_FROM_LATEST = enums.STREAM_FLAGS.bit("from_latest")
_NOBODYS_UUID = 0xDEAD_BEEF


def _failover_history(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "client")
    _back_to_older_snapshot(session, 3)
    _back_in_two_steps(session, 4)
    _ahead_of_newest(session, 5)
    _back_to_snapshot_at_zero(session, 6)
    _on_old_branch(session, 7)
    session.idle(6)
    return [session.conversation]


def _back_to_older_snapshot(session: Session, number: int) -> None:
    """Two failovers at the same seqno; the client goes back further than it has to."""
    vbucket = session.bucket.vbucket(number)
    old = vbucket.uuid
    vbucket.fork(24)
    vbucket.fork(24)
    session.failover_log(number)
    session.request(number, 31, uuid=old).roll_back(24)
    stream = session.stream(number, 20, uuid=old, snapshot=(10, 22))
    stream.follow(33, MEMORY | CHECKPOINT)
    stream.close()


def _back_in_two_steps(session: Session, number: int) -> None:
    """The client goes back to a snapshot of an older branch, which ended even earlier."""
    vbucket = session.bucket.vbucket(number)
    oldest = vbucket.uuid
    old = vbucket.fork(20)
    vbucket.fork(40)
    session.failover_log(number)
    session.request(number, 50, uuid=old, snapshot=(48, 50)).roll_back(40)
    session.request(number, 30, uuid=oldest, snapshot=(25, 35)).roll_back(20)
    stream = session.stream(number, 20, uuid=oldest)
    stream.follow(46, DISK)
    stream.close()


def _ahead_of_newest(session: Session, number: int) -> None:
    """The client has more than the producer, which lost what it had not written yet, and kept its branch."""
    uuid = session.bucket.vbucket(number).uuid
    stream = session.stream(number)
    stream.follow(15, DISK)
    stream.close()
    session.request(number, 1_000, uuid=uuid).roll_back(15)
    again = session.stream(number, 15, uuid=uuid)
    again.follow(22, MEMORY | CHECKPOINT)
    again.close()
    session.request(number, 40, uuid=uuid, snapshot=(23, 60)).roll_back(23)
    session.failover_log(number)


def _back_to_snapshot_at_zero(session: Session, number: int) -> None:
    """The client is in the middle of the first snapshot of all."""
    vbucket = session.bucket.vbucket(number)
    old = vbucket.uuid
    vbucket.fork(8)
    session.failover_log(number)
    session.request(number, 10, uuid=old, snapshot=(0, 12)).roll_back(0)
    stream = session.stream(number)
    stream.follow(14, DISK)
    stream.close()


def _on_old_branch(session: Session, number: int) -> None:
    """The client is on an old branch, and has nothing that is not on the new one, too."""
    vbucket = session.bucket.vbucket(number)
    old = vbucket.uuid
    vbucket.fork(24)
    stream = session.stream(number, 18, uuid=old, snapshot=(18, 40))
    stream.follow(28, DISK)


def _failover_meanwhile(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "client")
    vbucket = session.bucket.vbucket(7)
    old = vbucket.uuid
    stream = session.stream(7)
    stream.follow(30, DISK)
    stream.close()
    # The vbucket's history parts while the client is connected; what it had comes again, on a new branch.
    vbucket.fork(24)
    refused = session.request(7, 30, uuid=old)
    refused.roll_back(24)
    # A consumer asks again with the same opaque.
    again = session.stream(7, 24, uuid=old, opaque=refused.opaque)
    again.follow(36, MEMORY | CHECKPOINT)
    again.close()
    session.idle(6)
    return [session.conversation]


def _purged_history(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "away")
    for number in (2, 3):
        # The client was away for longer than tombstones are kept, so it starts over.
        session.bucket.vbucket(number).fork(4)
        session.failover_log(number)
        session.request(number, 500, uuid=session.bucket.vbucket(number).uuid).roll_back(0)
        stream = session.stream(number)
        stream.follow(12, DISK, holes=0.2)
    session.idle(6)
    return [session.conversation]


def _strict_uuid(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "strict", era=Release(5, 5))
    session.failover_log(0)
    session.request(0, uuid=_NOBODYS_UUID, flags=_STRICT).roll_back(0)
    stream = session.stream(0, uuid=session.bucket.vbucket(0).uuid, flags=_STRICT)
    stream.follow(12, DISK | CHECKPOINT)
    other = session.stream(1, flags=_STRICT)
    other.follow(9, DISK | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _from_latest_anywhere(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "from-now-on", era=Release(7, 6))
    # The server puts its high seqno, 500, in the place of all that the request says of the client's history.
    stream = session.stream(0, 77, uuid=_NOBODYS_UUID, snapshot=(5, 9), flags=_FROM_LATEST)
    stream.last, stream.snap_end, stream.snap_start = 500, 499, 500
    stream.follow(508, MEMORY | CHECKPOINT)
    stream.follow(511, MEMORY)
    session.idle(6)
    return [session.conversation]


def _notifier(chance: random.Random, _size: Size) -> list[Conversation]:
    session = Session(new_conversation(name="notifier"), chance, era=Release(3, 1, 5), acking=True)
    session.open(b"notifier", PRODUCER | _NOTIFIER)
    session.control("enable_noop", "true")
    session.control("set_noop_interval", "20")
    for number in (0, 1):
        # Such a stream has no items: its end tells that there is something beyond the start.
        waiting = session.stream(number, 40, 0, uuid=session.bucket.vbucket(number).uuid, snapshot=(0, 0))
        session.idle(25)
        waiting.end()
    session.idle(6)
    return [session.conversation]


def _asks_again(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "again")
    uuid = session.bucket.vbucket(2).uuid
    first = session.stream(2)
    first.follow(20, DISK)
    first.close()
    # The client had not kept all that it received; later it starts over, and goes on at last.
    second = session.stream(2, 8, uuid=uuid)
    second.follow(26, DISK)
    second.close()
    third = session.stream(2)
    third.follow(26, DISK)
    third.close()
    session.pending_ns = SECOND
    fourth = session.stream(2, 26, uuid=uuid)
    fourth.follow(31, MEMORY | CHECKPOINT)
    fourth.follow(35, MEMORY)
    session.idle(6)
    return [session.conversation]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "failover-history",
        "clients on older branches and ahead of the newest, sent back by the failover log",
        _failover_history,
        "dcp",
        "3.0 to 4.1",
        (
            ("FOL-02", "two branches begin at the same seqno"),
            ("FOL-05", "rollbacks to where a branch ended, to the high seqno, and to a snapshot's start"),
            ("FOL-07", "clients go back further than they have to, and in several steps"),
            ("FOL-11", "a rollback to a snapshot that starts at 0"),
            ("SNP-07", "the first marker reaches back to the requested snapshot start, below the start"),
        ),
    ),
    Scenario(
        "failover-meanwhile",
        "a failover while a client is between two streams",
        _failover_meanwhile,
        "dcp",
        "3.0 to 4.1",
        (
            ("FOL-08", "behind a rollback seqnos come again, on a new branch"),
            ("SEQ-01", "a new stream after a rollback starts over"),
        ),
    ),
    Scenario(
        "purged-history",
        "a client that was away for too long starts over",
        _purged_history,
        "dcp",
        "3.0 and later",
        (("FOL-05", "tombstones were purged, so the client goes back to 0 whatever the log says"),),
    ),
    Scenario(
        "strict-uuid",
        "a uuid that must match at seqno 0, too",
        _strict_uuid,
        "dcp",
        "5.1 and later",
        (("FOL-05", "a strict uuid is looked up at start 0, and the rollback goes to 0"),),
    ),
    Scenario(
        "from-latest-anywhere",
        "a stream that starts at what is newest, whatever history its client has",
        _from_latest_anywhere,
        "dcp",
        "7.6 and later",
        (
            ("FOL-04", "with from-latest the range of the request means nothing"),
            ("FOL-05", "with from-latest nobody is sent back"),
            ("FOL-06", "with from-latest the uuid of the request means nothing"),
            ("SNP-07", "with from-latest the server puts its own start in the request's place"),
            ("SEQ-02", "with from-latest the start of the request means nothing"),
        ),
    ),
    Scenario(
        "notifier",
        "a connection that only tells that there is something new",
        _notifier,
        "dcp",
        "3.0 to 6.6",
        (
            ("FOL-04", "a notifier's stream has no range: it waits for a seqno that is still to come"),
            ("FOL-05", "a notifier is not sent back from a seqno that is still to come"),
            ("FOL-06", "a notifier is on no branch"),
        ),
    ),
    Scenario(
        "asks-again",
        "a client that asks again for what it had, and from the beginning",
        _asks_again,
        "dcp",
        "3.0 to 4.1",
        (
            ("FOL-08", "the client asked for less than it had: all beyond its start comes again"),
            ("SEQ-01", "a new stream starts where the client asks it to"),
        ),
    ),
)
