"""Interface clocks: ticks of any resolution to integer nanoseconds.

Knows if_tsresol and if_tsoffset of pcapng. Exact by integer arithmetic, rounding towards the past; a time that does
not fit 64 bits (only damage makes such times) becomes the nearest one that does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from dissector.array_types import Longs


NANOSECONDS = 1_000_000_000
DEFAULT_RESOLUTION = 6
_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)
_UINT64_MAX = (1 << 64) - 1
# Up to here a fraction of 2^-n seconds times 10^9 still fits 64 bits (10^9 < 2^30).
_BINARY_EXACT_BITS = 34


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of one interface."""

    resolution: int = DEFAULT_RESOLUTION
    """The if_tsresol byte: 10^-n seconds, or 2^-n with the top bit set."""
    offset_seconds: int = 0
    """Added to every time: if_tsoffset."""

    def nanoseconds(self, ticks: npt.NDArray[np.uint64]) -> Longs:
        """Convert ticks since the epoch."""
        if not len(ticks):
            return np.empty(0, np.int64)
        # The largest tick decides for all: conversion is monotonic, and no result is less than the offset. If both fit,
        # the unsigned products below fit too, and adding a negative offset brings those beyond 2^63 back into range.
        offset = self.offset_seconds * NANOSECONDS
        if self._exact(int(ticks.max())) > _INT64_MAX or offset < _INT64_MIN:
            return self._one_by_one(ticks)
        power = self.resolution & 0x7F
        if self.resolution & 0x80:
            if power > _BINARY_EXACT_BITS:
                return self._one_by_one(ticks)
            shift = np.uint64(power)
            fraction = (ticks & np.uint64((1 << power) - 1)) * np.uint64(NANOSECONDS)
            time = (ticks >> shift) * np.uint64(NANOSECONDS) + (fraction >> shift)
        elif power <= 9:
            time = ticks * np.uint64(10 ** (9 - power))
        elif power <= 28:
            time = ticks // np.uint64(10 ** (power - 9))
        else:  # 64 bits of ticks are less than one nanosecond
            time = np.zeros_like(ticks)
        return time.astype(np.int64) + np.int64(offset)

    def ticks(self, time_ns: int) -> int:
        """Return the ticks that stand for a time: read again, they give the nearest time that is not later.

        A time before the clock's first tick or after its last becomes that tick.
        """
        since = time_ns - self.offset_seconds * NANOSECONDS
        ticks = -(-since * self._per_second // NANOSECONDS)
        if self._exact(ticks) > time_ns:  # the clock is coarser than nanoseconds
            ticks -= 1
        return max(0, min(_UINT64_MAX, ticks))

    @property
    def _per_second(self) -> int:
        power = self.resolution & 0x7F
        return 1 << power if self.resolution & 0x80 else 10**power

    def _exact(self, ticks: int) -> int:
        return ticks * NANOSECONDS // self._per_second + self.offset_seconds * NANOSECONDS

    def _one_by_one(self, ticks: npt.NDArray[np.uint64]) -> Longs:
        times = [max(_INT64_MIN, min(_INT64_MAX, self._exact(tick))) for tick in ticks.tolist()]
        return np.array(times, np.int64)
