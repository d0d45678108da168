"""Flow control as the consumer knew it: the bytes that had arrived and were not acked yet at each ack.

Which messages had arrived is exact: those whose last byte the ack's TCP segment acknowledges. Knows sums, times and
no-ops; must not know how rows are gathered, nor which of them break a rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from analysis.context.clock import SECOND_NS
from analysis.context.flow_control.buffer_size import NO_WINDOW, UNKNOWN_WINDOW
from analysis.context.flow_control.doubts import EVERYTHING, UNBOUNDED
from analysis.context.flow_control.rows import (
    ACKED,
    CODE,
    DRIFT,
    DRIFT_SHIFT,
    DRIFTS,
    END,
    LOST,
    MALFORMED,
    NONE,
    ORDINAL,
    SIZE,
    START,
    TIME,
    UPR,
    VAGUE,
    WIDTH,
    places_of,
)
from analysis.context.flow_control.sums import acked_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.clock import CaptureClock
    from analysis.context.flow_control.buffer_size import BufferSizes
    from analysis.context.flow_control.doubts import Doubts
    from analysis.context.flow_control.lost_bytes import LostBytes
    from analysis.context.flow_control.rows import RowBuffer
    from dissector.array_types import Longs


LATE_NS = 10 * SECOND_NS  #: an ack that comes later than this is late (FLC-09)
_ENOUGH = 3  #: messages of a kind that a miscount must show in (FLC-05)
_FEW_PLACES = 4
_DRIFT_BYTES = np.array([each for _, each in DRIFTS], np.int64)[:, None]


def _unexplained() -> tuple[Longs, Longs, Longs]:
    return np.full(len(DRIFTS), -1, np.int64), np.zeros(len(DRIFTS), np.int64), np.zeros(len(DRIFTS), np.int64)


class UnackedMessages:
    """Counted messages that have not been acked yet, with running sums."""

    def __init__(self) -> None:
        self.rows: Longs = NONE
        self.sums: Longs = np.zeros(1, np.int64)  #: before each message, and after the last one
        self.drift_counts: Longs = np.zeros(
            (len(DRIFTS), 1), np.int64
        )  #: of earlier messages, how many are of each miscounted kind

    def append(self, rows: Longs) -> None:
        """Add messages."""
        self.rows = np.concatenate((self.rows, rows), axis=1) if self.rows.shape[1] else rows
        self.sums = np.concatenate((self.sums, self.sums[-1] + np.cumsum(rows[SIZE])))

    def drift_counts_before(self, places: Longs) -> Longs:
        """Return how many messages of each kind that is easily miscounted come before some places."""
        drift = self.rows[CODE] >> DRIFT_SHIFT & DRIFT
        if len(places) <= _FEW_PLACES:
            some = [np.bincount(drift[:place], minlength=DRIFT + 1)[1 : len(DRIFTS) + 1] for place in places.tolist()]
            return np.stack(some, axis=1) + self.drift_counts
        found = np.zeros((len(DRIFTS), self.rows.shape[1] + 1), np.int64)
        for line in range(len(DRIFTS)):
            np.cumsum(drift == line + 1, out=found[line, 1:])
        return found[:, places] + self.drift_counts

    def merge(self, offset: int, stop: int) -> int:
        """Merge the messages after an offset and before a place into one; return what that place is then."""
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
        """Drop the first messages."""
        if count:
            drift = self.rows[CODE, :count] >> DRIFT_SHIFT & DRIFT
            self.drift_counts = self.drift_counts + np.bincount(drift, minlength=DRIFT + 1)[1 : len(DRIFTS) + 1, None]
        # A view would keep the whole array in memory.
        self.rows = self.rows[:, count:].copy()
        self.sums = self.sums[count:].copy()


@dataclass(slots=True, eq=False)
class ConsumerFlow:
    """The consumer of one connection."""

    connection: int
    acks: RowBuffer
    unacked: UnackedMessages
    clock: CaptureClock
    window: int = NO_WINDOW
    changes: int = 0
    acked: int = 0  #: bytes acked, never more than had arrived
    acked_lenient: int = 0  #: bytes acked, counted in the consumer's favour (FLC-04)
    acked_offset: int = -1  #: what it has acknowledged of the producer's bytes
    last_ack: Longs = field(default_factory=lambda: NONE)
    _noops: Longs = field(default_factory=lambda: np.empty(0, np.int64))  #: ends of those that it has not received yet
    _noops_before: int = 0
    #: Messages of each miscounted kind up to a point, and what was left unacked there: the window's begin, or the last
    #: point at which something was lost.
    _drifts_before: tuple[Longs, int] = field(default_factory=lambda: (np.zeros((len(DRIFTS), 1), np.int64), 0))
    _changed_at: int = -1  #: offset at which the window came
    _arrived: int = 0  #: bytes that had arrived at the last ack under a window
    _extra: int = 0  #: lost bytes that may have counted until then
    _more: int = 0  #: what may be due after that ack beyond what surely is
    #: By kind: how many messages there were at the last ack, whether a miscount of them explained what that ack left,
    #: and whether it did so at the last ack before which their number was another.
    _explained: tuple[Longs, Longs, Longs] = field(default_factory=_unexplained)
    _roots: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("over", "late", "zero", "unwanted"), 0))

    @property
    def uncertain(self) -> bool:
        """Tell whether more may be due than surely is."""
        return self._more > 0

    @property
    def noops_kept(self) -> int:
        """Return how many no-ops are kept in memory."""
        return len(self._noops)

    def add_noops(self, ends: Longs) -> None:
        """Add no-ops of the producer, by the offsets of their ends."""
        self._noops = np.concatenate((self._noops, ends))

    def begin_unknown(self) -> None:
        """The connection's beginning was not captured."""
        self.window = UNKNOWN_WINDOW

    def change_window(self, offset: int, size: int) -> None:
        """Go on with a window of another size, from this offset of the producer's bytes on."""
        self.changes += 1
        if self.window <= 0 or size <= 0:
            # Consumers never ack to old servers what was sent without a window (FLC-04, FLC-09).
            place = np.searchsorted(self.unacked.rows[END], [offset], side="right")
            arrived = int(self.unacked.sums[place[0]])
            self.acked_lenient = max(self.acked_lenient, arrived)
            self._drifts_before = self.unacked.drift_counts_before(place), 0
            if self.window == UNKNOWN_WINDOW:
                self.acked, self._arrived = max(self.acked, arrived), max(self._arrived, arrived)
                self._more = UNBOUNDED
        self.window, self._changed_at = size, offset

    def add_up(self, acks: Longs, buffer_sizes: BufferSizes, lost: LostBytes, unknown: Doubts) -> None:
        """Add up acks under one window; ``lost`` are bytes of the producer."""
        unacked, given, spent = self.unacked, acks[SIZE], acks[SIZE]
        acked_offsets = np.maximum.accumulate(acks[ACKED])
        np.maximum(acked_offsets, self.acked_offset, out=acked_offsets)
        self.acked_offset = int(acked_offsets[-1])
        place = np.searchsorted(unacked.rows[END], acked_offsets, side="right")
        arrived = unacked.sums[place]
        vague = acks[CODE] & VAGUE > 0 if acks[CODE].max() >= VAGUE else None
        if vague is not None:
            spent = np.where(vague, EVERYTHING, given)
        least = most = latency = np.zeros(len(given), np.int64)
        oldest = np.zeros((WIDTH, 1), np.int64)
        if self.window > 0:
            back = self.acked + acked_bytes(arrived - self.acked, spent)
            least = most = arrived - np.concatenate(([self.acked], back[:-1]))
            disturbed = None
            if self._more or vague is not None or self._lost_more(lost, acked_offsets):
                most, disturbed = self._most_due(acks, place, arrived, least, lost)
                disturbed |= (spent > least) & (most > least)
            given_back = back
            if self.acked_lenient != self.acked:
                given_back = self.acked_lenient + acked_bytes(arrived - self.acked_lenient, spent)
            latency, oldest = self._latency(acks, given_back)
            self._test_drifts(arrived - given_back, place, disturbed)
            self.acked, self.acked_lenient = int(back[-1]), int(given_back[-1])
            self._arrived = int(arrived[-1])
        elif self.window == UNKNOWN_WINDOW:
            most = np.full(len(given), UNBOUNDED, np.int64)
        if vague is not None:
            shown = acks[CODE] & LOST == 0
            if not shown.any():
                return
            acks, given, acked_offsets = acks[:, shown], given[shown], acked_offsets[shown]
            least, most, latency = least[shown], most[shown], latency[shown]
            oldest = oldest[:, shown] if oldest.shape[1] > 1 else oldest
            unknown = unknown.some(shown)
        self._add_rows(acks, acked_offsets, least, most, latency, oldest, buffer_sizes, unknown)
        self.last_ack = acks[:, -1:].copy()

    def _add_rows(
        self,
        acks: Longs,
        acked_offsets: Longs,
        least: Longs,
        most: Longs,
        latency: Longs,
        oldest: Longs,
        buffer_sizes: BufferSizes,
        unknown: Doubts,
    ) -> None:
        given = acks[SIZE]
        noops = np.searchsorted(self._noops, acked_offsets, side="right") + self._noops_before
        excess = np.maximum(given - most, 0) if self.window > 0 else np.zeros(len(given), np.int64)
        stepped: NDArray[np.bool_] | int = 0
        if self.clock.stepped:
            there = np.broadcast_to(oldest[ORDINAL] > 0, len(given))
            stepped = there & self.clock.was_set_between(places_of(oldest), places_of(acks))
        malformed = acks[CODE] & MALFORMED > 0
        requested = buffer_sizes.was_requested(acks[END], acked_offsets)
        lost_requests = buffer_sizes.request_may_be_lost(acks[END])
        over = excess > 0
        self.acks.add(
            self.connection,
            {"guilty": acks, "oldest": oldest},
            bytes=given,
            due=most,
            due_least=least,
            excess=excess,
            window=self.window,
            wanted=requested,
            malformed=malformed,
            noops=noops,
            noops_since=noops - np.concatenate(([self._noops_before], noops[:-1])),
            latency_ns=latency,
            latency_s=latency // SECOND_NS,
            stepped=stepped,
            over_root=self._first_of_kind("over", acks, over & unknown.sure) if over.any() else 0,
            late_root=self._first_of_run("late", acks, latency > LATE_NS, (latency > 0) & (latency <= LATE_NS)),
            zero_root=0 if given.all() else self._first_of_kind("zero", acks, (given == 0) & ~malformed),
            unwanted_root=0 if requested.all() else self._first_of_kind("unwanted", acks, ~requested & unknown.sure),
            request_unknown=0 if requested.all() else unknown.of_requests(requested, lost_requests),
            unknown=unknown.of(least, most),
        )
        self._noops = self._noops[int(noops[-1]) - self._noops_before :]
        self._noops_before = int(noops[-1])

    def _most_due(
        self, acks: Longs, place: Longs, arrived: Longs, least: Longs, lost: LostBytes
    ) -> tuple[Longs, NDArray[np.bool_]]:
        """Return the most that may have been due at each ack, and at which acks the sums are disturbed.

        Lost messages count as much as they may have; lost acks give nothing back. Where nothing else bounds it, the
        window does: before the last message that had arrived, less than that was outstanding (FLC-02). That is not
        taken for granted elsewhere, as the consumer would be blamed for what its producer sends too much.
        """
        rows = self.unacked.rows
        extra = lost.most_until(np.maximum(acks[ACKED], -1)) if lost else np.zeros(len(place), np.int64)
        extra = np.maximum(np.maximum.accumulate(extra), self._extra)
        more = np.diff(arrived + extra, prepend=self._arrived + self._extra)
        disturbed = (acks[CODE] & VAGUE > 0) | (np.diff(extra, prepend=self._extra) > 0)
        bound = np.full(len(place), 2 * UNBOUNDED, np.int64)
        last = place - 1
        new = (last >= 0) & (np.diff(place, prepend=-1) > 0)
        new[new] = (rows[END, last[new]] > self._changed_at) & (rows[CODE, last[new]] & UPR == 0)
        # An ack that was sent again tells what had arrived by then: messages that were sent after it bound nothing.
        new[new] = rows[ACKED, last[new]] < acks[END, new]
        if new.any():
            at = last[new]
            since = extra[new] - (lost.most_until(rows[START, at]) if lost else 0)
            bound[new] = self.window - 1 + rows[SIZE, at] + since
        level = self._arrived - self.acked + self._more
        found = []
        for add, top, low, ack in zip(more.tolist(), bound.tolist(), least.tolist(), acks[SIZE].tolist(), strict=True):
            level += add
            if level >= UNBOUNDED // 2:
                level = max(min(level, top), low)
            found.append(level)
            level = max(level - ack, 0)
        self._extra = int(extra[-1])
        end = max(int(least[-1]) - (EVERYTHING if acks[CODE, -1] & VAGUE else int(acks[SIZE, -1])), 0)
        self._more = max(level - end, 0)
        return np.array(found, np.int64), disturbed

    def _lost_more(self, lost: LostBytes, acked_offsets: Longs) -> bool:
        """Tell whether something was lost of what had arrived since the last ack."""
        return bool(lost) and int(lost.most_until(acked_offsets[-1:])[0]) > self._extra

    def most_left(self, arrived: int, lost: LostBytes, offset: int) -> int:
        """Return the most that may be left unacked, of what had arrived up to an offset of the producer's bytes."""
        extra = int(lost.most_until(np.array([offset]))[0]) if lost else 0
        return max(arrived - self.acked, 0) + self._more + max(extra - self._extra, 0)

    def _latency(self, acks: Longs, back: Longs) -> tuple[Longs, Longs]:
        """Return the oldest message that each ack covers to its end, and how long ago it had arrived."""
        unacked = self.unacked
        before = np.concatenate(([self.acked_lenient], back[:-1]))
        place = np.searchsorted(unacked.sums[1:], before, side="right")
        there = place < unacked.rows.shape[1]
        place = np.minimum(place, max(unacked.rows.shape[1] - 1, 0))
        if not there.any():
            return np.zeros(len(back), np.int64), np.zeros((WIDTH, 1), np.int64)
        there &= unacked.sums[place + 1] <= back
        oldest = unacked.rows[:, place]
        oldest[:, ~there] = 0
        passed = self.clock.elapsed(oldest[TIME], acks[TIME], places_of(oldest), places_of(acks))
        latency: Longs = np.where(there, passed, 0)
        return latency, oldest

    def _test_drifts(self, left: Longs, place: Longs, disturbed: NDArray[np.bool_] | None) -> None:
        """Note whether a constant error per message of a kind explains what the last acks left unacked (FLC-05).

        Where something was lost, only what was left since then tells: there it begins again.
        """
        if disturbed is not None and disturbed.any():
            begin = int(np.flatnonzero(disturbed)[-1])
            self._drifts_before = self.unacked.drift_counts_before(place[begin : begin + 1]), int(left[begin])
            self._explained = _unexplained()
            left, place = left[begin + 1 :], place[begin + 1 :]
            if not len(left):
                return
        count, fitted, before = self._explained
        counts_before, left_before = self._drifts_before
        left = left - left_before
        if not left.any():
            if count[0] != -1 or fitted.any() or before.any():
                self._explained = _unexplained()
            return
        found = np.where(left > 0, self.unacked.drift_counts_before(place) - counts_before, -1)
        fits = ((found * _DRIFT_BYTES == left) & (left > 0)).astype(np.int64)
        found = np.concatenate((count[:, None], found), axis=1)
        fits = np.concatenate((fitted[:, None], fits), axis=1)
        other = found != found[:, -1:]
        at = found.shape[1] - 1 - np.argmax(other[:, ::-1], axis=1)
        lines = np.arange(len(DRIFTS))
        before = np.where(other.any(axis=1), fits[lines, at], before)
        self._explained = (found[:, -1].copy(), fits[:, -1].copy(), before)

    def explaining_drift(self, left: int, place: int, *, exact: bool) -> tuple[int, int]:
        """Return the kind of message whose miscount explains what is left unacked, and how many of it there were."""
        _, fitted, before = self._explained
        counts_before, left_before = self._drifts_before
        found = (self.unacked.drift_counts_before(np.array([place])) - counts_before)[:, 0]
        left -= left_before
        fits = (found * _DRIFT_BYTES[:, 0] == left) & (left > 0) & (found >= _ENOUGH) & (fitted > 0)
        # The last messages may by chance have just as many bytes: then nothing was left at earlier acks.
        if not exact or self.acked_lenient in self.unacked.sums:
            fits &= before > 0
        which = np.flatnonzero(fits)
        return (int(which[0]) + 1, int(found[which[0]])) if len(which) else (0, 0)

    def _first_of_kind(self, name: str, acks: Longs, mask: NDArray[np.bool_]) -> int:
        """Return the ordinal of the connection's first ack of a kind."""
        if not self._roots[name] and mask.any():
            self._roots[name] = int(acks[ORDINAL, np.argmax(mask)])
        return self._roots[name]

    def _first_of_run(self, name: str, acks: Longs, mask: NDArray[np.bool_], ends: NDArray[np.bool_]) -> Longs | int:
        """Return the ordinal of the first ack of each run; acks that are neither in a run nor end one do not matter."""
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
