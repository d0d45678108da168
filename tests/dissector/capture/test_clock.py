"""Interface clocks against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from dissector.capture.clock import Clock

LOW, HIGH = -(2**63), 2**63 - 1


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**52), max_size=5),
    st.integers(0, 255),
    st.integers(LOW, HIGH) | st.integers(-(2**33), 2**33),
)
@example([1_700_000_000_123_456], 6, 0)
@example([2**64 - 1, 0], 9, -(2**33))
@example([2**64 - 1, 1], 28, 1)
@example([2**64 - 1, 1], 29, 1)
@example([2**64 - 1, 12345], 0x80 | 34, 0)
@example([2**64 - 1, 12345], 0x80 | 35, 0)
@example([(1 << 63) // 10**3, (1 << 63) // 10**3 + 1], 6, 0)
@example([2**63 + 5], 9, -1)
@example([2**64 - 1, 0], 9, -(2**63 // 10**9))
@example([2**64 - 1, 0], 9, -(2**63 // 10**9) - 1)
@example([0], 9, 2**63 // 10**9 + 1)
def test_times_are_exact_and_stay_in_range(ticks: list[int], resolution: int, offset: int) -> None:
    unit = Fraction(1, 2 ** (resolution & 0x7F) if resolution & 0x80 else 10 ** (resolution & 0x7F))
    expected = [min(HIGH, max(LOW, floor(tick * unit * 10**9) + offset * 10**9)) for tick in ticks]
    times = Clock(resolution, offset).nanoseconds(np.array(ticks, np.uint64))
    assert times.dtype == np.int64
    assert times.tolist() == expected
