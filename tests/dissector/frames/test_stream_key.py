"""Keys of streams: every part comes back, from numbers and from arrays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissector.frames.stream_key import (
    connection_of,
    side_of,
    stream_id_of,
    stream_key,
    vbucket_of,
    within_connection,
)

PARTS = st.tuples(st.integers(0, 1 << 29), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 1))


@given(PARTS)
def test_parts_of_a_key(parts: tuple[int, int, int, int]) -> None:
    key = stream_key(*parts)
    assert (connection_of(key), vbucket_of(key), stream_id_of(key), side_of(key)) == parts
    assert within_connection(key) == stream_key(0, *parts[1:])


@given(st.lists(PARTS, min_size=1))
def test_arrays_are_as_numbers(rows: list[tuple[int, int, int, int]]) -> None:
    connection, vbucket, stream_id, side = np.array(rows, np.int64).T
    key = stream_key(connection, vbucket, stream_id, side)
    assert key.tolist() == [stream_key(*row) for row in rows]
    assert vbucket_of(key).tolist() == vbucket.tolist()
    assert stream_id_of(key).tolist() == stream_id.tolist()
    assert connection_of(key).tolist() == connection.tolist()
