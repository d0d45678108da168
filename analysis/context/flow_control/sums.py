"""Sums of messages and acks as the producer knew them: exact, or within bounds once something was lost.

Bytes that are acked beyond what was sent are dropped, as servers do. With S the bytes sent before each ack arrived and
C the plain sum of the acks, the acked bytes are ``C + min(0, running minimum of (S - C))``: no loop over messages is
needed. Bounds need one, as they are pushed from both sides: acks give no more back than there is, and messages are sent
while there is room. Knows numbers; must not know tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.clock import SECOND_NS
from analysis.context.flow_control.rows import ACKED, CODE, LOST, START

if TYPE_CHECKING:
    from dissector.array_types import Longs, Mask


READ_DELAY_NS = SECOND_NS  #: a server may read an ack this much later than it arrived


class FlowSums(NamedTuple):
    """Sums over some messages, and over the acks that the producer received meanwhile."""

    before: Longs  #: outstanding before each message
    at: Longs  #: what would be outstanding at each ack, had none of these acks come
    acked: Longs  #: bytes acked up to each ack
    end: int  #: outstanding after the last message
    excess: int  #: bytes acked beyond what was outstanding
    most: Longs | None = None  #: the most that may be outstanding before each message; None: what is, is known
    most_before_acks: Longs | None = None  #: and before each ack

    @property
    def before_acks(self) -> Longs:
        """Return what was outstanding before each ack."""
        found = self.at.copy()
        found[1:] -= self.acked[:-1]
        return found

    @property
    def after_acks(self) -> Longs:
        """Return what was outstanding after each ack."""
        return self.at - self.acked


def flow_sums(start: int, size: Longs, known: Longs | None, first: Longs, given: Longs) -> FlowSums:
    """Add up messages and acks, from ``start`` bytes outstanding.

    ``known``: how many of the acks the producer knew before each message; ``first``: the first message after each ack.
    """
    sums = np.cumsum(size)
    before = sums - size + start
    end = start + int(sums[-1])
    if known is None:
        return FlowSums(before, first, first, end, 0)
    at = before[first]
    acked = acked_bytes(at, given)
    total = int(acked[-1])
    return FlowSums(before - np.concatenate(([0], acked))[known], at, acked, end - total, int(given.sum()) - total)


def acked_bytes(most: Longs, given: Longs) -> Longs:
    """Return the cumulative acked bytes at each ack, capped at ``most`` (the bytes sent by then)."""
    plain = np.cumsum(given)
    found: Longs = plain + np.minimum(0, np.minimum.accumulate(most - plain))
    return found


class Level(NamedTuple):
    """What is outstanding, and what an ack of too much allows beyond the window."""

    least: int
    most: int
    until_ns: int  #: until then such an ack may be unread; -1: there was none
    allowance: int  #: bytes sent since that ack


class Steps(NamedTuple):
    """Messages, with what comes before each: acks, lost bytes, doubts. All by message but the acks."""

    known: Longs  #: acks that the producer knew before it
    lost: Longs  #: bytes that may have counted since the message before
    forgotten: Mask  #: anything may have been given back
    unsure: Longs  #: bytes of acks that may have been known as well
    least: Longs  #: bytes that count at least
    most: Longs  #: bytes that count at most
    size: Longs
    full: Longs
    time_ns: Longs  #: never going back
    acks: Longs  #: bytes of each ack
    vague: Mask  #: which acks may give back anything


def bounded_sums(level: Level, steps: Steps) -> tuple[FlowSums, Longs, Level]:
    """Add up messages and acks within bounds; return the sums, what is full at each message, and the level after it.

    A message is judged by the level before it. Then it shows that there was room: less than the window was outstanding.
    An ack is surely one of too much only if it is larger than the most. Nothing is outstanding when the server reads
    such an ack, which may be a bit later than it arrived: what was sent meanwhile is allowed beyond the window.
    """
    least, most, until_ns, allowance = level
    acks, vague = steps.acks.tolist(), steps.vague.tolist()
    before: list[int] = []
    before_most: list[int] = []
    full: list[int] = []
    at_acks: list[tuple[int, int, int]] = []  # the least before and after each, and the most before it
    number = 0
    for until, lost, forgotten, unsure, low, high, size, limit, time_ns in zip(
        *(each.tolist() for each in steps[:9]), strict=True
    ):
        while number < until:
            top = most + lost
            if acks[number] > top:
                until_ns, allowance = time_ns + READ_DELAY_NS, 0
            after = 0 if vague[number] else max(least - acks[number], 0)
            at_acks.append((least, after, top))
            least, most = after, max(most - acks[number], 0)
            number += 1
        least = 0 if forgotten else least
        most = max(most + lost, least)
        before.append(max(least - unsure, 0))
        before_most.append(most)
        full.append(limit + allowance)
        most = max(min(most, limit + allowance + unsure - 1), least) + high
        least += low
        most = max(most, least)
        if time_ns <= until_ns:
            allowance += size
    columns = np.array(at_acks, np.int64).reshape(-1, 3)
    acked = np.cumsum(columns[:, 0] - columns[:, 1])
    at = columns[:, 1] + acked
    sums = FlowSums(np.array(before), at, acked, least, 0, np.array(before_most), columns[:, 2].copy())
    return sums, np.array(full), Level(least, most, until_ns, allowance)


def captured_until(acks: Longs) -> Longs:
    """Return, by number of acks, how many there are up to the last one that was captured itself."""
    places = np.where(acks[CODE] & LOST, 0, np.arange(1, acks.shape[1] + 1))
    return np.concatenate(([0], np.maximum.accumulate(places)))


def known_for_sure(messages: Longs, acks: Longs, known: Longs) -> Longs:
    """Return how many acks the producer knew before each message, of those that do not acknowledge the message itself.

    A packet that was sent again, of which the capture lacks the first copy, tells what was known at that time.
    """
    arrived = np.maximum.accumulate(np.where(acks[CODE] & LOST, -1, acks[ACKED]))
    possible = np.searchsorted(arrived, messages[START], side="right")
    return known if (possible >= known).all() else np.minimum(known, possible)
