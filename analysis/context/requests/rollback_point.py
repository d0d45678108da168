"""Where a producer has to send a client back to, by its failover log: the rule of ``FailoverTable::needsRollback``.

The producer also knows its high seqno, of which a capture shows only that it was at least so much, and what it purged,
of which a capture shows nothing. So there may be more than one right answer, and 0 is always one.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from dissector.frames.schema import NO_END

Log = tuple[tuple[int, int], ...]  #: uuid and seqno of each entry, the newest first


class RollbackVerdict(IntEnum):
    """What a log asks for: column ``verdict``."""

    OPEN = 0  #: the log is not known
    NONE = 1  #: no rollback
    UNKNOWN_BRANCH = 2  #: a rollback to 0: the log does not have the uuid
    OLD_BRANCH = 3  #: a rollback to a seqno that the log tells
    NEWEST_BRANCH = 4  #: if the high seqno is lower than what the client has, a rollback to that or to the snapshot


class StreamRange(NamedTuple):
    """What a stream request asks for."""

    start: int
    uuid: int
    snap_start: int
    snap_end: int

    @property
    def sound(self) -> bool:
        """Tell whether the start lies inside the snapshot."""
        return 0 <= self.snap_start <= self.start <= self.snap_end < NO_END

    def adjusted(self) -> tuple[int, int]:
        """Return the snapshot that matters: one that is complete, or not begun, is the start alone."""
        if self.start in (self.snap_start, self.snap_end):
            return self.start, self.start
        return self.snap_start, self.snap_end


class RollbackPoint(NamedTuple):
    """The right answers, apart from 0, which is always one."""

    verdict: RollbackVerdict
    due: int = -1  #: -1: there is no rollback, or more than one right one
    branch_end: int = -1  #: -1: the branch is the newest
    least: int = -1  #: on the newest branch: every seqno from here on
    below: int = -1  #: up to here, this one not included

    def fits(self, seqno: int) -> bool:
        """Tell whether a rollback to a seqno is right, 0 for want of purged tombstones aside."""
        return seqno == self.due >= 0 or self.least <= seqno < self.below


def rollback_point(asked: StreamRange, log: Log, least_high: int) -> RollbackPoint:
    """Return where a request for more than nothing has to be sent back to; ``least_high``: the least high seqno."""
    place = next((at for at, (uuid, _) in enumerate(log) if uuid == asked.uuid), -1)
    if place < 0:
        return RollbackPoint(RollbackVerdict.UNKNOWN_BRANCH, 0)
    first, last = asked.adjusted()
    if place > 0:
        end = log[place - 1][1]
        if last <= end:
            return RollbackPoint(RollbackVerdict.NONE, -1, end)
        return RollbackPoint(RollbackVerdict.OLD_BRANCH, min(end, first), end)
    if last <= least_high:
        return RollbackPoint(RollbackVerdict.NONE)
    # A high seqno below the snapshot is the answer itself; one inside of it sends the client back to its start.
    return RollbackPoint(RollbackVerdict.NEWEST_BRANCH, first if first < last else -1, -1, least_high, first)


def in_order(log: Log) -> bool:
    """Tell whether a log can be believed: newest entry first, no uuid twice, and none that is 0."""
    falling = all(newer[1] >= older[1] for newer, older in pairwise(log))
    uuids = {uuid for uuid, _ in log}
    return bool(log) and falling and len(uuids) == len(log) and 0 not in uuids
