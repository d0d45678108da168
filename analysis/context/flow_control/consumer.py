"""Flow control as the consumer knew it: what had arrived and was not given back yet at each ack.

What had arrived is exact: the messages whose last byte TCP had acknowledged when the ack was sent. Knows sums, times
and no-ops; must not know how rows are gathered, nor which of them break a rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from analysis.context.codes import UnknownReason
from analysis.context.flow_control.buffer_size import NO_WINDOW
from analysis.context.flow_control.producer import SECOND_NS, acked_bytes
from analysis.context.flow_control.rows import (
    ACKED,
    CODE,
    DRIFT,
    DRIFT_SHIFT,
    DRIFTS,
    END,
    MALFORMED,
    NONE,
    ORDINAL,
    SIZE,
    TIME,
    WIDTH,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.flow_control.buffer_size import BufferSizes
    from analysis.context.flow_control.rows import RowBuffer

    Longs = NDArray[np.int64]

LATE_NS = 10 * SECOND_NS  #: what is given back later than this took long (FLC-09)
MANY = 3  #: messages of a kind that a miscount must show at (FLC-05)
_FEW = 4
_EACH = np.array([each for _, each in DRIFTS], np.int64)[:, None]


def _no_fit() -> tuple[Longs, Longs, Longs]:
    return np.full(len(DRIFTS), -1, np.int64), np.zeros(len(DRIFTS), np.int64), np.zeros(len(DRIFTS), np.int64)


class UnackedMessages:
    """Counted messages that have not been given back yet, with running sums."""

    def __init__(self) -> None:
        self.rows: Longs = NONE
        self.sums: Longs = np.zeros(1, np.int64)  #: before each message, and behind the last one
        self.kinds: Longs = np.zeros((len(DRIFTS), 1), np.int64)  #: of the messages before those

    def enter(self, rows: Longs) -> None:
        """Take messages."""
        self.rows = np.concatenate((self.rows, rows), axis=1) if self.rows.shape[1] else rows
        self.sums = np.concatenate((self.sums, self.sums[-1] + np.cumsum(rows[SIZE])))

    def kinds_until(self, places: Longs) -> Longs:
        """Return how many messages of each easily miscounted kind there are before some places."""
        drift = self.rows[CODE] >> DRIFT_SHIFT & DRIFT
        if len(places) <= _FEW:
            some = [np.bincount(drift[:place], minlength=DRIFT + 1)[1 : len(DRIFTS) + 1] for place in places.tolist()]
            return np.stack(some, axis=1) + self.kinds
        found = np.zeros((len(DRIFTS), self.rows.shape[1] + 1), np.int64)
        for line in range(len(DRIFTS)):
            np.cumsum(drift == line + 1, out=found[line, 1:])
        return found[:, places] + self.kinds

    def merge(self, offset: int, stop: int) -> int:
        """Make one of the messages behind an offset and before a place; return what that place is then."""
        begin = int(np.searchsorted(self.rows[END], offset, side="right"))
        if stop - begin > 1:
            one = self.rows[:, stop - 1 : stop].copy()
            one[SIZE] = self.sums[stop] - self.sums[begin]
            one[CODE] &= ~(DRIFT << DRIFT_SHIFT)
            self.rows = np.concatenate((self.rows[:, :begin], one, self.rows[:, stop:]), axis=1)
            self.sums = np.concatenate((self.sums[: begin + 1], self.sums[stop:]))
            stop = begin + 1
        return stop

    def drop(self, count: int) -> None:
        """Let go of the first messages."""
        if count:
            drift = self.rows[CODE, :count] >> DRIFT_SHIFT & DRIFT
            self.kinds = self.kinds + np.bincount(drift, minlength=DRIFT + 1)[1 : len(DRIFTS) + 1, None]
        # A view would keep everything alive that came with it.
        self.rows = self.rows[:, count:].copy()
        self.sums = self.sums[count:].copy()


@dataclass(slots=True, eq=False)
class ConsumerFlow:
    """The consumer of one connection."""

    connection: int
    acks: RowBuffer
    store: UnackedMessages
    window: int = NO_WINDOW
    changes: int = 0
    returned: int = 0  #: given back, never more than had arrived
    position: int = 0  #: the same in the way of counting that accuses least of giving nothing back
    top: int = -1  #: what has been acknowledged of the producer's bytes
    last: Longs = field(default_factory=lambda: NONE)
    _noops: Longs = field(default_factory=lambda: np.empty(0, np.int64))  #: ends of those not received yet
    _noops_before: int = 0
    _floor: Longs = field(default_factory=lambda: np.zeros((len(DRIFTS), 1), np.int64))
    #: By kind: how many there were at the last ack and whether they explained what was left; and at the last ack with
    #: another number of them.
    _fit: tuple[Longs, Longs, Longs] = field(default_factory=_no_fit)
    _roots: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("over", "late", "zero", "unwanted"), 0))

    @property
    def noops_kept(self) -> int:
        """Return how many no-ops are remembered."""
        return len(self._noops)

    def noops(self, ends: Longs) -> None:
        """Take no-ops of the producer."""
        self._noops = np.concatenate((self._noops, ends))

    def change(self, offset: int, size: int) -> None:
        """The window has another size for those who have received this much."""
        self.changes += 1
        if self.window <= 0 or size <= 0:
            # What was sent without a window is never given back to old servers (FLC-04, FLC-09).
            place = np.searchsorted(self.store.rows[END], [offset], side="right")
            self.position = max(self.position, int(self.store.sums[place[0]]))
            self._floor = self.store.kinds_until(place)
        self.window = size

    def settle(self, acks: Longs, windows: BufferSizes, doubt: Longs | int) -> None:
        """Take acks under one window."""
        store, given = self.store, acks[SIZE]
        acked = np.maximum.accumulate(acks[ACKED])
        np.maximum(acked, self.top, out=acked)
        self.top = int(acked[-1])
        place = np.searchsorted(store.rows[END], acked, side="right")
        arrived = store.sums[place]
        noops = np.searchsorted(self._noops, acked, side="right") + self._noops_before
        due = latency = excess = np.zeros(len(given), np.int64)
        oldest = np.zeros((WIDTH, 1), np.int64)
        if self.window > 0:
            back = self.returned + acked_bytes(arrived - self.returned, given)
            due = arrived - np.concatenate(([self.returned], back[:-1]))
            excess = np.maximum(given - due, 0)
            given_back = back
            if self.position != self.returned:
                given_back = self.position + acked_bytes(arrived - self.position, given)
            latency, oldest = self._latency(acks, given_back)
            self._explain(arrived - given_back, place)
            self.returned, self.position = int(back[-1]), int(given_back[-1])
        malformed = acks[CODE] & MALFORMED > 0
        wanted = windows.wanted(acks[END], acked)
        sure = doubt == UnknownReason.KNOWN
        self.acks.add(
            self.connection,
            {"guilty": acks, "oldest": oldest},
            bytes=given,
            due=due,
            excess=excess,
            window=self.window,
            wanted=wanted,
            malformed=malformed,
            noops=noops,
            noops_since=noops - np.concatenate(([self._noops_before], noops[:-1])),
            latency_ns=latency,
            latency_s=latency // SECOND_NS,
            over_root=self._root("over", acks, (excess > 0) & sure) if excess.any() else 0,
            late_root=self._run("late", acks, latency > LATE_NS, (latency > 0) & (latency <= LATE_NS)),
            zero_root=0 if given.all() else self._root("zero", acks, (given == 0) & ~malformed),
            unwanted_root=0 if wanted.all() else self._root("unwanted", acks, ~wanted & sure),
            unknown=doubt,
        )
        self._noops = self._noops[int(noops[-1]) - self._noops_before :]
        self._noops_before = int(noops[-1])
        self.last = acks[:, -1:].copy()

    def _latency(self, acks: Longs, back: Longs) -> tuple[Longs, Longs]:
        """Return for how long the oldest message that each ack completes had been here, and that message."""
        store = self.store
        before = np.concatenate(([self.position], back[:-1]))
        place = np.searchsorted(store.sums[1:], before, side="right")
        there = place < store.rows.shape[1]
        place = np.minimum(place, max(store.rows.shape[1] - 1, 0))
        if not there.any():
            return np.zeros(len(back), np.int64), np.zeros((WIDTH, 1), np.int64)
        there &= store.sums[place + 1] <= back
        oldest = store.rows[:, place]
        oldest[:, ~there] = 0
        latency: Longs = np.where(there, np.maximum(acks[TIME] - oldest[TIME], 0), 0)
        return latency, oldest

    def _explain(self, left: Longs, place: Longs) -> None:
        """Remember whether a constant for each message of a kind explains what the last acks left (FLC-05)."""
        count, fits, before = self._fit
        if not left.any():
            if count[0] != -1 or fits.any() or before.any():
                self._fit = _no_fit()
            return
        found = np.where(left > 0, self.store.kinds_until(place) - self._floor, -1)
        good = ((found * _EACH == left) & (left > 0)).astype(np.int64)
        found = np.concatenate((count[:, None], found), axis=1)
        good = np.concatenate((fits[:, None], good), axis=1)
        other = found != found[:, -1:]
        at = found.shape[1] - 1 - np.argmax(other[:, ::-1], axis=1)
        lines = np.arange(len(DRIFTS))
        before = np.where(other.any(axis=1), good[lines, at], before)
        self._fit = (found[:, -1].copy(), good[:, -1].copy(), before)

    def miscount(self, left: int, place: int) -> tuple[int, int]:
        """Return the kind of message whose miscount explains what is left in the end, and how many there were."""
        _, fits, before = self._fit
        found = (self.store.kinds_until(np.array([place])) - self._floor)[:, 0]
        good = (found * _EACH[:, 0] == left) & (left > 0) & (found >= MANY) & (fits > 0)
        # By chance what is left may be just as much: then it is the last messages, and nothing is left of others.
        if self.position in self.store.sums:
            good &= before > 0
        which = np.flatnonzero(good)
        return (int(which[0]) + 1, int(found[which[0]])) if len(which) else (0, 0)

    def _root(self, name: str, acks: Longs, mask: NDArray[np.bool_]) -> int:
        """Return the ordinal of the connection's first ack of a kind."""
        if not self._roots[name] and mask.any():
            self._roots[name] = int(acks[ORDINAL, np.argmax(mask)])
        return self._roots[name]

    def _run(self, name: str, acks: Longs, mask: NDArray[np.bool_], ends: NDArray[np.bool_]) -> Longs | int:
        """Return the ordinal of the first ack of each run; what is neither goes with what is before it."""
        root = self._roots[name]
        if not root and not mask.any():
            return 0
        places = np.flatnonzero(mask | ends)
        inside = mask[places]
        first = inside & ~np.concatenate(([root > 0], inside[:-1]))[: len(places)]
        begin = np.maximum.accumulate(np.where(first, np.arange(len(places)), -1))
        found = np.where(inside, np.where(begin >= 0, acks[ORDINAL, places[begin]], root), 0) if len(places) else places
        self._roots[name] = int(found[-1]) if len(places) else root
        roots = np.zeros(len(mask), np.int64)
        roots[places] = found
        return roots
