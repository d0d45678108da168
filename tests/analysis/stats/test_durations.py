"""Quantiles against sorted lists: exact while there are few, within the width of a bucket after that."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.stats.durations import BUCKET_ERROR, EXACT, Durations, DurationsByKey


def nearest_rank(values: list[int], part: float) -> int:
    return sorted(values)[max(math.ceil(part * len(values)), 1) - 1]


def gathered(values: list[int], size: int) -> Durations:
    """Add values in batches of a size."""
    found = Durations()
    for at in range(0, len(values), size):
        found.add(np.array(values[at : at + size], np.int64))
    return found


@pytest.mark.parametrize("values", [[7], [3, 1], list(range(1, 101)), [5] * 9 + [1_000_000]])
def test_few_values_are_exact(values: list[int]) -> None:
    found = gathered(values, 3).distribution()
    assert found is not None
    assert (found.count, found.max_ns, found.exact) == (len(values), max(values), True)
    assert (found.p50_ns, found.p99_ns) == (nearest_rank(values, 0.5), nearest_rank(values, 0.99))


@pytest.mark.parametrize("size", [1000, EXACT + 1, 50_000])
def test_many_values_are_told_within_a_bucket(size: int) -> None:
    values = (10 ** np.random.default_rng(7).uniform(0, 12, 20_000)).astype(np.int64).tolist()
    found = gathered(values, size).distribution()
    assert found is not None
    assert (found.count, found.max_ns, found.exact) == (20_000, max(values), False)
    for part, told in ((0.5, found.p50_ns), (0.99, found.p99_ns)):
        truth = nearest_rank(values, part)
        assert truth <= told + 1
        assert told <= truth * (1 + BUCKET_ERROR)


def test_a_quantile_is_never_beyond_the_longest() -> None:
    found = gathered([1001] * (EXACT + 1), 100).distribution()
    assert found is not None
    assert (found.p50_ns, found.p99_ns, found.max_ns) == (1001, 1001, 1001)


def test_nothing_has_no_distribution_and_time_does_not_run_backwards() -> None:
    found = Durations()
    found.add(np.zeros(0, np.int64))
    assert found.distribution() is None
    found.add(np.array([-5, 3]))
    told = found.distribution()
    assert told is not None
    assert (told.p50_ns, told.max_ns) == (0, 3)


def test_keys_beyond_the_limit_count_in_all_only() -> None:
    found = DurationsByKey(2)
    found.add(np.array([4, 9, 4, 7]), np.array([10, 20, 30, 40]))
    assert sorted(found.by_key) == [4, 7]
    assert found.of(9) is None
    four, everything = found.of(4), found.all.distribution()
    assert four is not None
    assert everything is not None
    assert (four.count, four.max_ns, everything.count, everything.max_ns) == (2, 30, 4, 40)
