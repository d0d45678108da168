"""The capture's clock: steps are left out, in whatever batches they come."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from analysis.context.batch import ContextBatch
from analysis.context.clock import STRAGGLERS, CaptureClock

S = 10**9


class Frames:
    """What the clock reads of a batch."""

    def __init__(self, seconds: list[float], packets: list[int], capture: int = 0) -> None:
        self._columns = {
            "time_ns": np.array([int(each * S) for each in seconds], np.int64),
            "packet_last": np.array(packets, np.int64),
        }
        self._capture = capture

    size = property(lambda self: len(self._columns["time_ns"]))
    one_capture = True

    def capture_of(self, _: int) -> int:
        return self._capture

    def numbers(self, name: str) -> Any:
        return self._columns[name]

    def refs(self) -> Any:
        return {"capture": np.full(len(self._columns["time_ns"]), self._capture)}


def clock_of(seconds: list[float], packets: list[int] | None = None, *, cut: int = 0) -> CaptureClock:
    clock = CaptureClock()
    packets = packets or list(range(1, len(seconds) + 1))
    for begin in range(0, len(seconds), cut or len(seconds)):
        end = begin + (cut or len(seconds))
        clock.fold(cast(ContextBatch, Frames(seconds[begin:end], packets[begin:end])))
    return clock


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_leap_does_not_count(cut: int) -> None:
    clock = clock_of([0, 5, 3_605, 3_610, 3_620], cut=cut)
    assert clock.stepped
    assert clock.elapsed(0, 3_620 * S, 1, 5) == 20 * S, "5 s before, and 15 s after the leap of 3,600 s"
    assert clock.elapsed(3_605 * S, 3_620 * S, 3, 5) == 15 * S, "it lies before"
    assert clock.elapsed(0, 5 * S, 1, 2) == 5 * S, "it comes later"
    assert clock.elapsed(0, 3_620 * S) == 20 * S, "its times tell as well"
    assert clock.elapsed(np.array([0, 3_605 * S]), 3_620 * S, np.array([1, 3]), 5).tolist() == [20 * S, 15 * S]


def test_ten_minutes_of_silence_are_time() -> None:
    clock = clock_of([0, 600, 1_199])
    assert not clock.stepped
    assert clock.elapsed(0, 1_199 * S, 1, 3) == 1_199 * S


@pytest.mark.parametrize("cut", [0, 1, 4])
def test_a_clock_that_goes_back_measures_nothing(cut: int) -> None:
    clock = clock_of([100, 101, *(40 + each for each in range(STRAGGLERS + 2))], cut=cut)
    last = STRAGGLERS + 4
    assert clock.elapsed(100 * S, 49 * S, 1, last) == 0
    assert clock.elapsed(20 * S, 49 * S, 1, last) == 0, "it goes back meanwhile, however long that seems"
    assert clock.elapsed(40 * S, 49 * S, 3, last) == 9 * S, "both are after it"
    assert clock.elapsed(20 * S, 39 * S) == 19 * S, "by their times they are before it"
    assert clock.elapsed(20 * S, 49 * S) == 0, "by their times they may be before or after it"


def test_packets_that_overtake_each_other_are_no_step() -> None:
    assert not clock_of([0, 10, 4, 4.1, 10.5, 11]).stepped


def test_frames_that_waited_for_lost_bytes_are_no_step() -> None:
    # Packets 2 to 21 were complete when the loss before them was given up: after packet 40, 2 s later.
    times = [0.1 * each for each in range(1, 41)]
    order = [1, *range(22, 41), *range(2, 22)]
    assert not clock_of([times[each - 1] for each in order], order).stepped


def test_too_many_steps_are_not_remembered() -> None:
    clock = clock_of([each * 1_000 for each in range(5_000)])
    assert clock.elapsed(4_900 * 1_000 * S, 4_901 * 1_000 * S, 4_901, 4_902) == 0
    assert clock.elapsed(0, 1_000 * S, 1, 2) == 0
    assert clock.elapsed(0, 1, 1, 1) == 1
