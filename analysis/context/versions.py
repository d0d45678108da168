"""The last version of each key, in bounded memory: for rules about keys that come again.

A table with one place per hash. Whatever hashes to a place that is taken takes it over; what is lost that way can only
hide a finding, never make one, and a snapshot that lost keys says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from analysis.context.groups import filled, sorted_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]

PLACES = 1 << 20
_ODD = np.uint64(0x9E3779B97F4A7C15)  #: 2^64 divided by the golden ratio: spreads serial numbers over all bits
_SHIFT = np.uint64(32)


class Version(NamedTuple):
    """What is kept of a key's last message, and what a lookup gives; arrays of one entry per row."""

    ordinal: Longs  #: 0: none known
    frame: Longs
    snapshot: Longs  #: ordinal of the marker it came under
    seqno: Longs
    rev: Longs
    cas: Longs
    opcode: Longs


class Versions:
    """One table for all streams: the instance is part of what is hashed."""

    def __init__(self, places: int = PLACES) -> None:
        self._mask = np.uint64(places - 1)
        self._tag = np.zeros(places, np.uint64)
        self._kept = Version(*(np.zeros(places, np.int64) for _ in Version._fields))

    def exchange(self, space: Longs, key_hash: Longs, fresh: Version) -> tuple[Version, Longs]:
        """Look up the version before each row's, and keep each row's own.

        ``space`` tells apart what must not meet: instances and name spaces. Rows are in their order, and the answer is
        the same however they are cut into batches. Also returns the snapshots (ordinals of markers) that lost a key.
        """
        if not len(space):
            return fresh, np.empty(0, np.int64)
        tag = _mixed(space, key_hash)
        place = (tag & self._mask).astype(np.int64)
        order, groups = sorted_by(place)
        place, tag = place[order], tag[order]
        ordered = Version(*(column[order] for column in fresh))
        # Who had the place before: the row before in this batch, or what the table has.
        before = groups.last_before(np.ones(len(tag), bool))
        holder = np.where(before >= 0, tag[before], self._tag[place])
        mine = holder == tag
        held = (filled(before, new, column[place]) for new, column in zip(ordered, self._kept, strict=True))
        found = Version(*held)
        lost = found.snapshot[~mine & (holder != 0)]
        result = Version(*(np.empty(len(tag), np.int64) for _ in Version._fields))
        for column, values in zip(result, found, strict=True):
            column[order] = np.where(mine, values, 0)
        last = groups.ends
        self._tag[place[last]] = tag[last]
        for column, values in zip(self._kept, ordered, strict=True):
            column[place[last]] = values[last]
        return result, np.unique(lost)


def _mixed(space: Longs, key_hash: Longs) -> NDArray[np.uint64]:
    """Return a hash of both that is never 0."""
    mixed = (space.view(np.uint64) * _ODD) ^ key_hash.view(np.uint64)
    mixed ^= mixed >> _SHIFT
    mixed *= _ODD
    mixed ^= mixed >> _SHIFT
    never_zero: NDArray[np.uint64] = np.maximum(mixed, np.uint64(1))
    return never_zero
