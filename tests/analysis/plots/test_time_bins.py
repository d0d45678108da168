"""Bins of time: the same however numbers are cut into batches, and what a plain loop finds."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.plots import time_bins as binned
from analysis.plots.time_bins import FIRST, LAST, LEAST, MOST, NONE, SUM, TimeBins, forward_fill

ARRAYS = {"sum": SUM, "least": LEAST, "most": MOST, "first": FIRST, "last": LAST}
Entry = tuple[int, int, int]  #: lane, time, number

entries = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 1 << 40) | st.integers(0, 1 << 62), st.integers(-(1 << 40), 1 << 40)),
    min_size=1,
    max_size=60,
)


def filled(rows: list[Entry], cuts: set[int]) -> TimeBins:
    bins = TimeBins(**ARRAYS)
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    for begin, end in itertools.pairwise(edges):
        part = rows[begin:end]
        keys, times, numbers = (np.array([row[at] for row in part], np.int64) for at in range(3))
        lanes, places, kept = bins.place(keys, times)
        for name in ARRAYS:
            bins.put(name, lanes, places, numbers[kept])
    return bins


@given(entries, st.sets(st.integers(1, 60), max_size=4))
def test_like_a_plain_loop(rows: list[Entry], cuts: set[int]) -> None:
    rows = sorted(rows, key=lambda row: row[1])  # as captures are: first and last are by time
    bins = filled(rows, cuts)
    first, last = min(row[1] for row in rows), max(row[1] for row in rows)
    # As fine as there is room for: bins half as wide would not fit.
    assert (last >> bins.shift) - (first >> bins.shift) < binned.BINS
    assert bins.shift == 10 or (last >> bins.shift - 1) - (first >> bins.shift - 1) >= binned.BINS // 4
    cells = defaultdict(list)
    for lane, time, number in rows:
        cells[lane, time >> bins.shift].append(number)
    expected = {"sum": sum, "least": min, "most": max, "first": lambda each: each[0], "last": lambda each: each[-1]}
    starts = bins.starts_ns() >> bins.shift
    for name, choose in expected.items():
        for row, key in enumerate(bins.keys):
            for place, start in enumerate(starts.tolist()):
                empty = 0 if name == "sum" else NONE
                wanted = choose(cells[key, start]) if (key, start) in cells else empty
                assert bins[name][row, place] == wanted


@given(entries, st.sets(st.integers(1, 60), max_size=6))
def test_cuts_do_not_matter(rows: list[Entry], cuts: set[int]) -> None:
    rows = sorted(rows, key=lambda row: row[1])
    whole, parts = filled(rows, set()), filled(rows, cuts)
    assert (whole.keys, whole.shift, whole.low, whole.count) == (parts.keys, parts.shift, parts.low, parts.count)
    for name in ARRAYS:
        assert np.array_equal(whole[name], parts[name])


def test_many_lanes_make_bins_coarser() -> None:
    keys = np.arange(5000, dtype=np.int64)
    bins = TimeBins(items=SUM)
    for step in range(4):
        lanes, places, kept = bins.place(keys, keys * 1_000_000 + step * 10**9)
        bins.put("items", lanes, places, 1)
    assert len(kept) == len(keys)
    assert bins["items"].shape[0] == 5000
    assert bins["items"].sum() == 4 * 5000
    assert bins.arrays["items"].size <= 1 << 20


def test_what_has_no_room_is_counted() -> None:
    bins = TimeBins(items=SUM)
    keys = np.arange(binned.MAX_LANES + 100, dtype=np.int64)
    lanes, places, kept = bins.place(keys, np.zeros(len(keys), np.int64))
    bins.put("items", lanes, places, 1)
    assert (bins.left_out, len(kept), int(bins["items"].sum())) == (100, binned.MAX_LANES, binned.MAX_LANES)


@pytest.mark.parametrize("empty", [np.zeros(0, np.int64)])
def test_nothing_is_nothing(empty: np.ndarray) -> None:
    bins = TimeBins(items=SUM)
    lanes, places, _ = bins.place(empty, empty)
    bins.put("items", lanes, places, 1)
    assert (bins.count, bins["items"].shape) == (0, (0, 0))


def test_forward_fill() -> None:
    values = np.array([[NONE, 3, NONE, NONE, 5], [1, NONE, NONE, 2, NONE]])
    assert forward_fill(values).tolist() == [[NONE, 3, 3, 3, 5], [1, 1, 1, 2, 2]]
