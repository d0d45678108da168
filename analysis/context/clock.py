"""The capture's clock: where it was set while the capture ran, and how much time surely passed between two frames.

A jump of more than ten minutes between two consecutive frames of a run is a step of the clock: no connection is open
and silent for so long. A clock that goes back by more than a second, and stays behind for some packets, was set as
well. Knows times and the order of packets; must not know what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.frame_refs import Ref
    from dissector.array_types import Longs


SECOND_NS = 10**9
LEAP_NS = 600 * SECOND_NS  #: producers give up a silent connection after 720 s, and idle ones end after 360 s
BACK_NS = SECOND_NS  #: frames of several taps may be in the wrong order by less than this
SKEW_NS = SECOND_NS  #: what two directions, stamped by clocks of their own, may be apart
_TAPS_NS = 2 * SKEW_NS  #: the same, where a step may be taken for either's
STRAGGLERS = 8  #: a few packets in a row may be late, as they overtake each other
_PACKETS = 40  #: bits for the number of a packet in its capture
_MOST_STEPS = 4096  #: a clock that was set more often than this measures nothing


def place(capture: Longs, packet: Longs) -> Longs:
    """Return numbers that put packets of several captures in order."""
    found: Longs = (np.asarray(capture, np.int64) << _PACKETS) | packet
    return found


def _place_of(ref: Ref) -> int:
    """Return the place of a frame's last packet."""
    return ref.capture << 40 | ref.packet_last


class CaptureClock:
    """The steps of the clock so far, by the places of packets in the captures.

    Frames come later than their packets where bytes before them were waited for, so it is the packets that tell. A leap
    counts from the first packet after it on. That the clock went back shows only once packets have stayed behind: what
    ends before that is measured as if nothing had happened. So the result does not depend on what comes later.
    """

    def __init__(self) -> None:
        self._last = -1  #: place of the last packet
        self._last_ns = self._latest_ns = -1
        self._behind = self._behind_since = 0  #: packets in a row that are late
        self._behind_earliest_ns = self._behind_latest_ns = 0
        self._leaps: list[tuple[int, int, int]] = []  #: place of the first packet after it, times before and after it
        self._backs: list[tuple[int, int, int, int]] = []  #: places of the first late packet and of the one that
        #: shows it, times before and after it
        self._columns: tuple[Longs, ...] = ()

    @property
    def stepped(self) -> bool:
        """Tell whether the clock was ever set."""
        return bool(self._leaps or self._backs)

    def fold(self, frames: ContextBatch) -> None:
        """Take the times of a batch."""
        times = frames.numbers("time_ns")
        if not len(times):
            return
        if self._last_ns < 0:
            self._last_ns = self._latest_ns = int(times[0])
        latest = np.maximum(np.maximum.accumulate(times), self._latest_ns)
        before = np.concatenate(([self._last_ns], times[:-1]))
        if not self._behind and (times - before).max() <= LEAP_NS and (latest - times).max() <= BACK_NS:
            packets = frames.numbers("packet_last")
            top = int(np.argmax(packets)) if frames.one_capture else frames.size - 1
            at = int(place(np.array(frames.capture_of(top)), packets[top]))
            if at > self._last:
                self._last, self._last_ns = at, int(times[top])
            self._latest_ns = int(latest[-1])
            return
        places = place(frames.refs()["capture"], frames.numbers("packet_last"))
        order = np.argsort(places, kind="stable")
        for at, time_ns in zip(places[order].tolist(), times[order].tolist(), strict=True):
            if at > self._last:
                self._take(at, time_ns)
        self._columns = ()

    def _take(self, at: int, time_ns: int) -> None:
        if at >> _PACKETS != self._last >> _PACKETS and self._last >= 0 and time_ns < self._latest_ns - BACK_NS:
            # Another capture, which began before this one had ended: that is no step. If it were one of a ring, all
            # that goes on from one to the other would be measured too short, never too long.
            self._last, self._last_ns, self._latest_ns, self._behind = at, time_ns, time_ns, 0
            return
        if time_ns - self._last_ns > LEAP_NS and len(self._leaps) < _MOST_STEPS:
            self._leaps.append((at, self._last_ns, time_ns))
        self._last, self._last_ns = at, time_ns
        if time_ns >= self._latest_ns - BACK_NS:
            self._latest_ns, self._behind = max(time_ns, self._latest_ns), 0
            return
        if not self._behind:
            self._behind_since, self._behind_earliest_ns, self._behind_latest_ns = at, time_ns, time_ns
        self._behind += 1
        self._behind_earliest_ns = min(self._behind_earliest_ns, time_ns)
        self._behind_latest_ns = max(self._behind_latest_ns, time_ns)
        if self._behind >= STRAGGLERS:
            if len(self._backs) < _MOST_STEPS:
                self._backs.append((self._behind_since, at, self._latest_ns, self._behind_earliest_ns))
            self._latest_ns, self._behind = self._behind_latest_ns, 0

    @overload
    def elapsed(self, begin_ns: int, end_ns: int, begin: int | None = None, end: int | None = None) -> int: ...
    @overload
    def elapsed(
        self, begin_ns: Longs, end_ns: Longs | int, begin: Longs | None = None, end: Longs | int | None = None
    ) -> Longs: ...

    def elapsed(
        self,
        begin_ns: Longs | int,
        end_ns: Longs | int,
        begin: Longs | int | None = None,
        end: Longs | int | None = None,
    ) -> Longs | int:
        """Return how much time surely passed between two frames: steps do not count.

        It is 0 where the clock went back meanwhile. With the places of the frames' last packets, ``begin`` and ``end``,
        it is exact which steps lie between; without, a step lies between if the times say so.
        """
        passed = np.maximum(np.asarray(end_ns) - np.asarray(begin_ns), 0)
        if self.stepped:
            if begin is None or end is None:
                leapt, unsure = self._between_times(np.asarray(begin_ns), np.asarray(end_ns))
            else:
                leapt, unsure = self._between(np.asarray(begin), np.asarray(end))
            passed = np.where(unsure, 0, np.maximum(passed - leapt, 0))
        return passed if passed.ndim else int(passed)

    def passed(self, begin: Ref, end: Ref) -> int:
        """Return how much time surely passed between two frames, by their places and by their times.

        Around a step packets may stand in another order than they were stamped in.
        """
        by_places = self.elapsed(begin.time_ns, end.time_ns, _place_of(begin), _place_of(end))
        return min(by_places, self.elapsed(begin.time_ns, end.time_ns)) if self.stepped else by_places

    def was_set_between(self, begin: Longs | int, end: Longs | int) -> NDArray[np.bool_]:
        """Tell whether the clock was set between two packets, by their places."""
        if not self.stepped:
            return np.zeros(np.broadcast_shapes(np.shape(begin), np.shape(end)), bool)
        leapt, unsure = self._between(np.asarray(begin), np.asarray(end))
        found: NDArray[np.bool_] = (leapt > 0) | unsure
        return found

    def _between(self, begin: Longs, end: Longs) -> tuple[Longs, NDArray[np.bool_]]:
        if not self._columns:
            leaps = np.array(self._leaps, np.int64).reshape(-1, 3)
            backs = np.array(self._backs, np.int64).reshape(-1, 4)
            total = np.concatenate(([0], np.cumsum(leaps[:, 2] - leaps[:, 1])))
            self._columns = leaps[:, 0].copy(), total, backs[:, 0].copy(), backs[:, 1].copy()
        places, total, since, shown = self._columns
        first = np.searchsorted(places, begin, side="right")
        last = np.maximum(np.searchsorted(places, end, side="right"), first)
        unsure = np.searchsorted(shown, end, side="right") > np.searchsorted(since, begin, side="right")
        return total[last] - total[first], unsure | self._lost_count(end)

    def _lost_count(self, end: Longs) -> NDArray[np.bool_]:
        """Tell what ends after the last step that is remembered of too many."""
        full = [each[-1][0] for each in (self._leaps, self._backs) if len(each) >= _MOST_STEPS]
        return end >= min(full) if full else np.zeros(end.shape, bool)

    def _between_times(self, begin: Longs, end: Longs) -> tuple[Longs, NDArray[np.bool_]]:
        low, high = np.minimum(begin, end), np.maximum(begin, end)
        leapt = np.zeros(low.shape, np.int64)
        unsure = np.full(low.shape, max(len(self._leaps), len(self._backs)) >= _MOST_STEPS)
        for _, before, after in self._leaps:
            between = (low <= before + _TAPS_NS) & (high >= after - _TAPS_NS)
            leapt = leapt + np.where(between, after - before, 0)
        for _, _, before, after in self._backs:
            unsure = unsure | ((low <= before) & (high >= after))
        return leapt, unsure
