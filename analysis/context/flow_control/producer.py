"""Flow control as the producer knew it: what was outstanding before each message, when the window was full, rests.

An ack is known to a message exactly if TCP had acknowledged its last byte by then. What is given back beyond what was
sent is forgotten, as servers do. With S what was sent before each ack arrived and C the plain sum of the acks, what
was given back is ``C + min(0, running minimum of (S - C))``: no loop over messages is needed.

Knows sums and times; must not know how rows are gathered, nor which of them break a rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.codes import UnknownReason
from analysis.context.flow_control.buffer_size import NO_WINDOW
from analysis.context.flow_control.rows import ACKED, CODE, EARLY, END, NONE, ORDINAL, SIZE, TIME, WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.flow_control.buffer_size import SizeChange
    from analysis.context.flow_control.rows import RowBuffer

    Longs = NDArray[np.int64]

SECOND_NS = 10**9
QUIET_NS = 10 * SECOND_NS  #: a producer that sends nothing for so long is at rest (FLC-04)
SHARE = 5  #: consumers may keep less than this part of the window to themselves
_NOBODY = np.zeros((WIDTH, 1), np.int64)
_SLUGGISH_NS = SECOND_NS  #: a server may read what has arrived this much later


class FlowSums(NamedTuple):
    """Sums over some messages and the acks that became known meanwhile."""

    before: Longs  #: outstanding before each message
    at: Longs  #: outstanding had none of these acks come, when each of them became known
    back: Longs  #: given back by them, up to each
    end: int  #: outstanding behind the last message
    lost: int  #: what they gave back beyond what was outstanding

    @property
    def before_acks(self) -> Longs:
        """Return what was outstanding when each ack came."""
        found = self.at.copy()
        found[1:] -= self.back[:-1]
        return found

    @property
    def after_acks(self) -> Longs:
        """Return what was outstanding behind each ack."""
        return self.at - self.back


def flow_sums(start: int, size: Longs, known: Longs | None, first: Longs, given: Longs) -> FlowSums:
    """Add up: ``known`` acks before each message, each of them ``first`` known to the message of that place."""
    sums = np.cumsum(size)
    before = sums - size + start
    end = start + int(sums[-1])
    if known is None:
        return FlowSums(before, first, first, end, 0)
    at = before[first]
    back = acked_bytes(at, given)
    total = int(back[-1])
    return FlowSums(before - np.concatenate(([0], back))[known], at, back, end - total, int(given.sum()) - total)


def acked_bytes(most: Longs, given: Longs) -> Longs:
    """Return what was given back up to each ack, never more than ``most`` up to there."""
    plain = np.cumsum(given)
    found: Longs = plain + np.minimum(0, np.minimum.accumulate(most - plain))
    return found


@dataclass(slots=True, eq=False)
class IdlePoint:
    """A producer at rest, and the least that was outstanding ever since."""

    low: int
    window: int
    quiet_ns: int
    guilty: Longs


@dataclass(slots=True, eq=False)
class ProducerFlow:
    """The producer of one connection."""

    connection: int
    sent: RowBuffer
    stalls: RowBuffer
    window: int = NO_WINDOW
    changes: int = 0  #: of the window that were passed
    changed_at: int = -1  #: offset of the last one
    unacked: int = 0  #: outstanding if everything counts
    least: int = 0  #: outstanding in the way of counting that accuses least
    top: int = -1  #: what has been acknowledged of the consumer's bytes
    last: Longs = field(default_factory=lambda: NONE)  #: the last counted message
    last_ack: Longs = field(default_factory=lambda: NONE)
    rest: IdlePoint | None = None
    _largest: int = 0
    _freed_ns: int = 0  #: when something was last given back, or the window changed
    _changed_ns: int = 0
    _latest_ns: int = 0  #: of all messages
    _sluggish_until_ns: int = -1
    _sluggish_bytes: int = 0
    _overdrawn: int = 0  #: ordinal of the first message in a row that was sent at a full window

    def change(self, change: SizeChange) -> None:
        """The window has another size from here on."""
        self.changes += 1
        if self.window <= 0 or change.size <= 0:
            # Old servers begin to count with the window, and forget everything when it is switched off; newer ones
            # count what was sent before and meanwhile as well. Nobody is accused of what only one way shows.
            self.least, self._sluggish_until_ns, self._sluggish_bytes = 0, -1, 0
        self.window, self.rest, self._overdrawn = change.size, None, 0
        self.changed_at, self._changed_ns = change.offset, change.time_ns
        self._freed_ns = max(self._freed_ns, change.time_ns)

    def settle(self, frames: Longs, acks: Longs, doubt: Longs | int) -> int:
        """Take messages under one window, and the acks that are not known yet; return how many of these are now."""
        acked = np.maximum.accumulate(frames[ACKED])
        if acked[0] < self.top:
            np.maximum(acked, self.top, out=acked)
        self.top = int(acked[-1])
        ends, size = acks[END], frames[SIZE]
        known, count = None, 0
        if len(ends) and ends[0] <= self.top:
            known = np.searchsorted(ends, acked, side="right")
            count = int(known[-1])
        given = acks[SIZE, :count]
        first = np.searchsorted(acked, ends[:count], side="left")
        if self.window == NO_WINDOW:
            self.unacked += int(size.sum())  # acks are ignored where there is no window
        else:
            same = self.unacked == self.least
            everything = flow_sums(self.unacked, size, known, first, given)
            self.unacked = everything.end
        if self.window > 0:
            counted = size
            if (frames[CODE, -1] | frames[CODE, 0]) & EARLY:
                counted = self._counted_early(frames, known)
                same = False
            least = everything if same else flow_sums(self.least, counted, known, first, given)
            self._rows(frames, acks, known, first, least, everything, size, doubt)
            self.least = least.end
        self.last = frames[:, -1:].copy()
        self._latest_ns = max(self._latest_ns, int(frames[TIME].max()))
        if count:
            self.last_ack = acks[:, count - 1 : count].copy()
        return count

    def _counted_early(self, frames: Longs, known: Longs | None) -> Longs:
        """Early servers hold back what would not fit, and do not count it when they send it after an ack."""
        size: Longs = frames[SIZE]
        if known is None:
            return size
        held_back = np.diff(known, prepend=0) > 0
        counted: Longs = np.where(held_back & (frames[CODE] & EARLY > 0), 0, size)
        return counted

    def _rows(
        self,
        frames: Longs,
        acks: Longs,
        known: Longs | None,
        first: Longs,
        least: FlowSums,
        everything: FlowSums,
        size: Longs,
        doubt: Longs | int,
    ) -> None:
        full: Longs | int = self.window
        if (frames[CODE, -1] | frames[CODE, 0]) & EARLY:
            # FLC-02: of the early dialect one message more is seen than fits.
            largest = np.maximum(np.maximum.accumulate(size), self._largest)
            self._largest = int(largest[-1])
            full = full + np.where(frames[CODE] & EARLY, largest, 0)
        if self._sluggish_until_ns >= 0 or least.lost:
            full = full + self._sluggish(frames, acks, known, first, least, size)
        root: Longs | int = 0
        overdrawn = least.before >= full
        if overdrawn.any() or self._overdrawn:
            place = np.arange(len(size))
            fine = np.maximum.accumulate(np.where(overdrawn, -1, place))
            begin = frames[ORDINAL, np.minimum(fine + 1, len(size) - 1)]
            root = np.where(overdrawn, np.where((fine < 0) & (self._overdrawn > 0), self._overdrawn, begin), 0)
            self._overdrawn = int(root[-1])
        self.sent.add(
            self.connection,
            {
                "guilty": frames,
                "ack": self._acks_before(frames, acks, known) if isinstance(root, np.ndarray) else _NOBODY,
            },
            window=self.window,
            full=full,
            outstanding=least.before,
            unacked=everything.before,
            root=root,
            unknown=doubt,
        )
        if known is not None:
            self.full(frames, acks[:, : len(first)], first, least, doubt)
            if self.rest is not None:
                self.lower(int(least.after_acks.min()))
        if self.rest is None:
            self._find_rest(frames, acks, known, least, doubt)

    def _acks_before(self, frames: Longs, acks: Longs, known: Longs | None) -> Longs:
        """Return the last ack that each message knew of."""
        found = np.zeros_like(frames)
        number = np.zeros(frames.shape[1], np.int64) if known is None else known
        if self.last_ack.shape[1]:
            found[:, number == 0] = self.last_ack
        some = number > 0
        found[:, some] = acks[:, number[some] - 1]
        return found

    def _sluggish(
        self, frames: Longs, acks: Longs, known: Longs | None, first: Longs, least: FlowSums, size: Longs
    ) -> Longs:
        """Return how much more may be outstanding since more was given back than there was.

        Then nothing is outstanding when the server reads the ack, and that may be a bit later than it arrived.
        """
        sums = np.concatenate(([0], np.cumsum(size)))
        times = np.maximum(np.maximum.accumulate(frames[TIME]), self._latest_ns)
        lost = np.flatnonzero(acks[SIZE, : len(first)] > least.before_acks)
        begin = np.concatenate(([0], first[lost]))
        until = np.concatenate(([self._sluggish_until_ns], times[first[lost]] + _SLUGGISH_NS))
        origin = np.concatenate(([-self._sluggish_bytes], sums[first[lost]]))
        stop = np.maximum(np.searchsorted(times, until, side="right"), begin)
        which = np.zeros(len(size), np.int64) if known is None else np.searchsorted(lost, known, side="left")
        found: Longs = sums[np.minimum(np.arange(len(size)), stop[which])] - origin[which]
        final = int(which[-1])
        self._sluggish_bytes = int(sums[min(len(size), int(stop[final]))] - origin[final])
        self._sluggish_until_ns = int(until[final])
        return found

    def full(self, frames: Longs, acks: Longs, first: Longs, least: FlowSums, doubt: Longs | int) -> None:
        """Note the acks that came when the window was full, and for how long it had been (FLC-03)."""
        before = least.before_acks
        some = np.flatnonzero(acks[SIZE] > 0)
        if not len(some):
            return
        times = acks[TIME, some]
        since = np.maximum.accumulate(np.concatenate(([self._freed_ns], times[:-1])))
        self._freed_ns = max(self._freed_ns, int(times.max()))
        late = np.flatnonzero(before[some] >= self.window)
        if not len(late):
            return
        chosen = some[late]
        place = first[chosen] - 1
        last = np.empty((len(frames), len(chosen)), np.int64)
        inside = place >= 0
        last[:, inside] = frames[:, place[inside]]
        last[:, ~inside] = self.last
        waited = np.maximum(times[late] - np.maximum(since[late], last[TIME]), 0)
        self.stalls.add(
            self.connection,
            {"guilty": acks[:, chosen], "last": last},
            outstanding=before[chosen],
            window=self.window,
            waited_ns=waited,
            waited_s=waited // SECOND_NS,
            root=last[ORDINAL],
            unknown=doubt if isinstance(doubt, int) else doubt[np.minimum(first[chosen], len(doubt) - 1)],
        )

    def still_full(self, end_ns: int, doubt: int) -> None:
        """The capture is over: note that the window is full, and nothing was given back up to here (FLC-03)."""
        if self.least >= self.window:
            waited = max(end_ns - max(self._freed_ns, int(self.last[TIME, 0])), 0)
            self.stalls.add(
                self.connection,
                {"guilty": self.last, "last": self.last},
                outstanding=self.least,
                window=self.window,
                waited_ns=waited,
                waited_s=waited // SECOND_NS,
                root=int(self.last[ORDINAL, 0]),
                unknown=doubt,
            )

    def lower(self, low: int) -> None:
        """So little was outstanding: what was left at a rest has been given back as far as that."""
        if self.rest is not None:
            self.rest.low = min(self.rest.low, low)
            if self.rest.low * SHARE < self.rest.window:
                self.rest = None

    def _find_rest(self, frames: Longs, acks: Longs, known: Longs | None, least: FlowSums, doubt: Longs | int) -> None:
        """Find the first rest at which much was outstanding that nobody has given back yet (FLC-04)."""
        times = frames[TIME]
        before = np.concatenate((self.last[TIME] if self.last.shape[1] else times[:1], times[:-1]))
        quiet = times - np.maximum(before, self._changed_ns)
        for place in np.flatnonzero(quiet > QUIET_NS).tolist():
            low = level = int(least.before[place])
            number = 0 if known is None else int(known[place])
            if known is not None and number < len(least.at):
                low = min(low, int(least.after_acks[number:].min()))
            sure = doubt == UnknownReason.KNOWN if isinstance(doubt, int) else doubt[place] == UnknownReason.KNOWN
            if sure and level < self.window and low * SHARE >= self.window:
                guilty = acks[:, number - 1 : number] if number else self.last_ack
                if not guilty.shape[1]:
                    guilty = frames[:, place - 1 : place] if place else self.last
                self.rest = IdlePoint(low, self.window, int(quiet[place]), guilty.copy())
                return
