"""Bugs of failover logs and rollbacks: logs that are empty or out of order, and wrong places to go back to.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.setup import RELEASE_3, RELEASE_4, early, modern, plain
from dissector.generate.session import CHECKPOINT, DISK, MEMORY
from dissector.spec import enums
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.session import Session

_OUT_OF_RANGE = enums.STATUSES.number("out_of_range")
_UUID = 0xF00D_0000_0000_0000


def _empty_log(chance: random.Random) -> Story:
    session = early(chance, "upr-log")
    session.failover_log(3)
    asked = session.frame("get_failover_log", vbucket=4, opaque=session.opaque())
    request = session.ask(session.consumer, asked, answer=session.frame("get_failover_log", response=True))
    guilty = session.conversation.emissions[-1]
    session.failover_log(5)
    because = "the failover log of vbucket 4 is empty"
    story = Story([session.conversation]).shows("FOL-01", because, guilty, request)
    return story.shows("FRM-05", because, guilty)


def _empty_grant(chance: random.Random) -> Story:
    session = plain(chance, "beta", era=Release(3))
    stream = session.request(6)
    answer = session.frame("stream_request", response=True, opaque=stream.opaque)
    guilty = session.send(session.producer, answer)
    stream.follow(7, DISK)
    session.idle(6)
    because = "the stream of vbucket 6 is granted with an empty failover log"
    story = Story([session.conversation]).shows("FOL-01", because, guilty)
    return story.shows("FRM-05", because, guilty)


def _diverged_log(chance: random.Random) -> Story:
    session = plain(chance, "after-failover", era=RELEASE_4)
    # The entry at 55 is of a branch that was given up, and lies behind the newest one, which begins at 40.
    log = ((_UUID + 3, 40), (_UUID + 2, 55), (_UUID + 1, 0))
    stream = session.request(30)
    guilty = stream.accept(log)
    stream.follow(12, DISK)
    session.idle(6)
    because = "the failover log has seqno 40, then 55; from newest to oldest they must not grow"
    return Story([session.conversation]).shows("FOL-02", because, guilty)


def _same_uuid(chance: random.Random) -> Story:
    session = plain(chance, "twins", era=RELEASE_3)
    log = ((_UUID + 9, 20), (_UUID + 9, 0))
    stream = session.request(31)
    guilty = stream.accept(log)
    stream.follow(9, DISK)
    session.idle(6)
    return Story([session.conversation]).shows("FOL-03", "two entries of the failover log have one uuid", guilty)


def _out_of_range(chance: random.Random) -> Story:
    session = plain(chance, "resuming", era=RELEASE_4)
    first = session.stream(32)
    first.follow(30, DISK)
    first.close()
    # All seqnos are in order, and the vbucket has more than 20; only the branch is unknown: a rollback is due.
    again = session.request(32, 20, uuid=0xBAD, snapshot=(20, 20))
    guilty = again.refuse(_OUT_OF_RANGE)
    session.idle(6)
    because = "start 20 in snapshot 20 to 20 is in order, and is refused as out of range instead of rolled back"
    return Story([session.conversation]).shows("FOL-04", because, guilty)


def _rolled_back(
    session: Session, vbucket: int, fork: int, start: int, snapshot: tuple[int, int], wrong: int, expected: str
) -> Story:
    """Tell of a client of the old branch that is sent back to the wrong place, though the log says where it forks."""
    state = session.bucket.vbucket(vbucket)
    old = state.uuid
    state.fork(fork)
    log = session.failover_log(vbucket)
    stream = session.request(vbucket, start, uuid=old, snapshot=snapshot)
    asked = session.conversation.emissions[-1]
    guilty = stream.roll_back(wrong)
    low = min(wrong, fork)
    again = session.stream(vbucket, low, uuid=old, snapshot=(low, low))
    again.follow(fork + 6, MEMORY | CHECKPOINT)
    session.idle(6)
    because = f"start {start} in snapshot {snapshot[0]} to {snapshot[1]} is sent back to {wrong}; {expected}"
    return Story([session.conversation]).shows("FOL-05", because, guilty, asked, log)


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-10122",
        "failover logs were empty",
        "A vbucket always has at least one entry in its failover log. Logs without any were sent, and consumers of 3.0 "
        "end the connection over that. In the capture the log of vbucket 4 is empty, those around it are not.",
        ("FOL-01", "FRM-05"),
        tell=_empty_log,
        era="early 2014",
        dialect="upr",
    ),
    Bug(
        "MB-10474",
        "streams were granted with an empty failover log, named together with MB-10122",
        "The answer to a stream request carries the failover log. In the capture that of vbucket 6 has none.",
        ("FOL-01", "FRM-05"),
        tell=_empty_grant,
        era="2014",
    ),
    Bug(
        "MB-20822",
        "entries of an abandoned branch stayed in the failover log",
        "After a failover, entries with higher seqnos than the new branch's survived in the log, where seqnos never "
        "grow from newest to oldest. Clients find a branch there that no node has. In the capture the log has 40, 55, "
        "0.",
        ("FOL-02",),
        across=("XCN-02",),
        tell=_diverged_log,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-9737",
        "a failover log had a uuid twice",
        "A uuid names one branch of a vbucket's history, so a log has it once. In the capture both entries have the "
        "same.",
        ("FOL-03",),
        tell=_same_uuid,
        era="3.0",
    ),
    Bug(
        "MB-19843",
        "a stream request was refused as out of range where a rollback was due",
        "Out of range is for requests whose seqnos contradict each other, or lie behind the vbucket's last one. Others "
        "were refused so too, and a client that is told so does not know where to go on. In the capture a request with "
        "an unknown uuid and seqnos in order gets out of range. The number also stands for a wrong end of streams of "
        "what is on disk.",
        ("FOL-04",),
        across=("SEQ-14",),
        tell=_out_of_range,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-27604",
        "a client at the start of a snapshot was rolled back without need",
        "One of the changes to where a client is sent back to. A client that has nothing of its snapshot but the start "
        "needs to have common history up to there only. In the capture the branches part at 45, and a client at 30, "
        "the start of its snapshot 30 to 60, is sent back to 30.",
        ("FOL-05",),
        across=("XCN-11",),
        tell=lambda chance: _rolled_back(
            modern(chance, "connector", collections=False, era=Release(5, 5)), 70, 45, 30, (30, 60), 30, "none was due"
        ),
        era="5.0 and later",
    ),
    Bug(
        "MB-13479",
        "a client with a whole snapshot was rolled back to its start",
        "One of the changes to where a client is sent back to. A client that has all of its snapshot goes back to "
        "where the branches part, not to the snapshot's start. In the capture they part at 35, and a client at 40, the "
        "end of its snapshot 20 to 40, is sent back to 20.",
        ("FOL-05",),
        tell=lambda chance: _rolled_back(
            plain(chance, "connector", era=RELEASE_3), 71, 35, 40, (20, 40), 20, "35 is where the branches part"
        ),
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-15826",
        "a client whose snapshot is common history was rolled back",
        "One of the changes to where a client is sent back to. Where all of the client's snapshot lies before the "
        "branches part, nothing needs to be undone. In the capture they part at 50, and a client at 30 in snapshot 25 "
        "to 35 is sent back to 25.",
        ("FOL-05",),
        tell=lambda chance: _rolled_back(
            plain(chance, "connector", era=RELEASE_4), 72, 50, 30, (25, 35), 25, "none was due"
        ),
        era="3.0 to 4.1",
    ),
)
