"""The hash of keys: 64 bits, made of eight bytes at a time, for one key or for all keys of a batch at once.

Only equality counts: two frames about the same key have the same hash. Keys can be made to collide on purpose, so equal
hashes only mean that the keys are worth comparing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs


_MASK = (1 << 64) - 1
_WORD = 8
# Odd numbers with bits all over: those of splitmix64 (Steele, Lea, Flood 2014).
_SEED, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def hash_key(key: bytes) -> int:
    """Return the hash of one key, as a signed number."""
    state = (len(key) * _SEED) & _MASK
    for at in range(0, len(key), _WORD):
        word = int.from_bytes(key[at : at + _WORD], "little")
        state = ((state ^ word) * _FIRST) & _MASK
        state ^= state >> 29
    state = (state * _SECOND) & _MASK
    state ^= state >> 32
    return state - (1 << 64) if state >> 63 else state


def hash_keys(data: NDArray[np.uint8], start: Longs, length: Longs) -> Longs:
    """Return the hashes of keys in a buffer, which has to go on for eight bytes after the last one."""
    words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))
    state = length.astype(np.uint64) * np.uint64(_SEED)
    shortest = int(length.min()) if len(length) else 0
    for at in range(0, int(length.max(initial=0)), _WORD):
        if at + _WORD <= shortest:  # of all keys, and whole
            state = _mixed(state, words[start + at])
            continue
        going_on = np.flatnonzero(length > at)
        word = words[start[going_on] + at]
        left = np.minimum(length[going_on] - at, _WORD)
        cut = np.uint64(_MASK) >> ((_WORD - left) * _WORD).astype(np.uint64)
        state[going_on] = _mixed(state[going_on], word & cut)
    state *= np.uint64(_SECOND)
    state ^= state >> np.uint64(32)
    return state.view(np.int64)


def _mixed(state: NDArray[np.uint64], word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = (state ^ word) * np.uint64(_FIRST)
    mixed ^= mixed >> np.uint64(29)
    return mixed
