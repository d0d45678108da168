"""The last version of each key, in bounded memory: for rules about keys that come again.

A table with one place per hash. A key that hashes to a taken place takes it over. What is overwritten that way can only
hide a finding: a row that finds another key in its place is told so, and can't claim that nothing came before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.lookback import sorted_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs, Mask


PLACES = 1 << 20
#: What is kept of a key's last message.
FIELDS = ("ordinal", "frame", "snapshot", "seqno", "rev", "cas", "opcode")
COLUMN = {name: column for column, name in enumerate(FIELDS)}  #: where each is in what a lookup gives
_ODD = np.uint64(0x9E3779B97F4A7C15)  #: 2^64 divided by the golden ratio: spreads serial numbers over all bits
_SHIFT = np.uint64(32)


class KeyVersions:
    """One table for all streams: the instance is part of what is hashed."""

    def __init__(self, places: int = PLACES) -> None:
        self._mask = np.uint64(places - 1)
        self._tag = np.zeros(places, np.int64)  #: the hash of the key whose place it is
        self._kept = np.zeros((places, len(FIELDS)), np.int64)
        self._owner = np.zeros(places, np.int32)  #: the last row of each place in the batch that is being looked up

    def exchange(self, space: Longs, key_hash: Longs, fresh: dict[str, Longs]) -> tuple[Longs, Mask]:
        """Look up the version before each row's, and store each row's own.

        ``space`` keeps the same key apart in different instances and name spaces. Rows are in their order, and the
        result is the same however they are cut into batches. Returns a row of :data:`FIELDS` for each, all -1 where
        nothing was found, and whether that is because another key was in its place.
        """
        size = len(space)
        tag = _mixed(space, key_hash).view(np.int64)
        own = np.empty((size, len(FIELDS)), np.int64)
        for name, column in COLUMN.items():
            own[:, column] = fresh[name]
        places = (tag.view(np.uint64) & self._mask).astype(np.int64)
        held = self._tag[places]
        found = np.full((size, len(FIELDS)), -1, np.int64)
        known = np.flatnonzero(held == tag)
        found[known] = self._kept.take(places[known], axis=0)
        strange: Mask = (held != tag) & (held != 0)
        # Most rows have their place to themselves; of several writes to one place the last one stays.
        number = np.arange(size, dtype=np.int32)
        self._owner[places] = number
        shared = np.flatnonzero(self._owner[places] != number)
        if len(shared):
            self._owner[places[shared]] = -1
            shared = np.flatnonzero(self._owner[places] < 0)
            order, groups = sorted_by(places[shared])
            follows = np.ones(len(shared), bool)
            follows[groups.starts] = False
            later, earlier = shared[order[follows]], shared[order[np.flatnonzero(follows) - 1]]
            same = tag[later] == tag[earlier]
            found[later] = np.where(same[:, None], own[earlier], -1)
            strange[later] = ~same
        self._tag[places] = tag
        self._kept[places] = own
        return found, strange

    def restore(self, space: int, key_hash: int, version: Longs) -> None:
        """Put an earlier version of a key back: the one after it did not happen."""
        tag = _mixed(np.array([space], np.int64), np.array([key_hash], np.int64)).view(np.int64)
        place = int(tag.view(np.uint64)[0] & self._mask)
        self._tag[place], self._kept[place] = tag[0], version


def _mixed(space: Longs, key_hash: Longs) -> NDArray[np.uint64]:
    """Return a hash of both that is never 0."""
    mixed = (space.view(np.uint64) * _ODD) ^ key_hash.view(np.uint64)
    mixed ^= mixed >> _SHIFT
    mixed *= _ODD
    mixed ^= mixed >> _SHIFT
    never_zero: NDArray[np.uint64] = np.maximum(mixed, np.uint64(1))
    return never_zero
