"""Distributions of durations in bounded memory: exact up to a number of values, then counted in logarithmic buckets.

Knows numbers only. Count and maximum are always exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.context.lookback import sorted_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.array_types import Longs

#: Values that are kept as they are.
EXACT = 4096
_PER_OCTAVE = 64
_OCTAVES = 63
#: By how much a quantile from buckets may be too long: the width of one bucket.
BUCKET_ERROR = 2 ** (1 / _PER_OCTAVE) - 1


@dataclass(frozen=True, slots=True)
class Distribution:
    """How long something took."""

    count: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    exact: bool  #: otherwise p50 and p99 may be too long by :data:`BUCKET_ERROR`


class Durations:
    """Durations of one kind. Those below 0 count as 0: capture clocks are set back at times."""

    def __init__(self) -> None:
        self.count = 0
        self._most = 0
        self._values: list[Longs] = []
        self._buckets: Longs | None = None  #: once there are too many values

    def add(self, durations_ns: Longs) -> None:
        """Add durations."""
        if not len(durations_ns):
            return
        durations_ns = np.maximum(durations_ns, 0)
        self.count += len(durations_ns)
        self._most = max(self._most, int(durations_ns.max()))
        self._values.append(durations_ns.copy())
        if self._buckets is None and self.count > EXACT:
            self._buckets = np.zeros(_PER_OCTAVE * _OCTAVES + 1, np.int64)
        if self._buckets is not None:
            self._buckets += np.bincount(_bucket(np.concatenate(self._values)), minlength=len(self._buckets))
            self._values = []

    def distribution(self) -> Distribution | None:
        """Return what has come so far; None: nothing."""
        if not self.count:
            return None
        return Distribution(self.count, self._quantile(0.5), self._quantile(0.99), self._most, self._buckets is None)

    def _quantile(self, part: float) -> int:
        """Return the least duration that this part of all did not exceed."""
        rank = max(math.ceil(part * self.count), 1)
        if self._buckets is None:
            return int(np.sort(np.concatenate(self._values))[rank - 1])
        bucket = int(np.searchsorted(np.cumsum(self._buckets), rank))
        return min(int(2 ** (bucket / _PER_OCTAVE)), self._most)


def _bucket(durations_ns: Longs) -> Longs:
    """Return the bucket of each duration: the one whose upper edge is the first that it does not exceed."""
    found: Longs = np.ceil(np.log2(np.maximum(durations_ns, 1)) * _PER_OCTAVE).astype(np.int64)
    return np.minimum(found, _PER_OCTAVE * _OCTAVES)


def rows_by(keys: Longs) -> Iterator[tuple[int, Longs]]:
    """Yield each key, and the rows that have it."""
    order, groups = sorted_by(keys)
    starts = groups.starts
    return zip(keys[order[starts]].tolist(), np.split(order, starts[1:]) if len(starts) else (), strict=True)


class DurationsByKey:
    """Durations by an integer key: of so many keys, of the others nothing but all together."""

    def __init__(self, limit: int) -> None:
        self.by_key: dict[int, Durations] = {}
        self.all = Durations()
        self._limit = limit

    def add(self, keys: Longs, durations_ns: Longs) -> None:
        """Add durations, each with its key."""
        self.all.add(durations_ns)
        for key, rows in rows_by(keys):
            if key not in self.by_key:
                if len(self.by_key) >= self._limit:
                    continue
                self.by_key[key] = Durations()
            self.by_key[key].add(durations_ns[rows])

    def of(self, key: int) -> Distribution | None:
        """Return the distribution of a key."""
        found = self.by_key.get(key)
        return None if found is None else found.distribution()
