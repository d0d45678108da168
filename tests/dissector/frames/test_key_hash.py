"""The hash of keys: one by one and all at once are the same, and it tells keys apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissector.frames.key_hash import hash_key, hash_keys


def test_known_value() -> None:
    """By hand for one byte: (1 * seed ^ 0x61) * first, folded by 29, times second, folded by 32."""
    mask = (1 << 64) - 1
    state = ((0x9E3779B97F4A7C15 ^ 0x61) * 0xBF58476D1CE4E5B9) & mask
    state ^= state >> 29
    state = (state * 0x94D049BB133111EB) & mask
    state ^= state >> 32
    assert hash_key(b"a") % (1 << 64) == state


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_all_at_once_is_one_by_one(keys: list[bytes]) -> None:
    data = np.frombuffer(b"".join(keys) + b"what follows", np.uint8)
    length = np.array([len(key) for key in keys], np.int64)
    start = np.cumsum(length) - length
    assert hash_keys(data, start, length).tolist() == [hash_key(key) for key in keys]


def test_keys_that_look_alike_differ() -> None:
    keys = [b"", b"\0", b"\0\0", b"a", b"a\0", b"\0a", b"12345678", b"12345678\0", b"123456789"]
    keys += [b"doc::%d::%d" % (vbucket, seqno) for vbucket in range(100) for seqno in range(1000)]
    assert len({hash_key(key) for key in keys}) == len(keys)
