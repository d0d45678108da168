"""Keys of streams: what goes in comes out, one at a time and as columns."""

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

PARTS = st.tuples(st.integers(0, (1 << 30) - 1), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 1))


@given(st.lists(PARTS, min_size=1, max_size=8))
def test_a_key_holds_its_parts(parts: list[tuple[int, int, int, int]]) -> None:
    keys = [stream_key(*each) for each in parts]
    assert [(connection_of(key), vbucket_of(key), stream_id_of(key), side_of(key)) for key in keys] == parts
    assert [within_connection(key) for key in keys] == [stream_key(0, *each) for _, *each in parts]
    assert sorted(keys) == [stream_key(*each) for each in sorted(parts)]

    columns = np.array(parts, np.int64).T
    column = stream_key(columns[0], columns[1], columns[2], columns[3])
    assert column.tolist() == keys
    assert vbucket_of(column).tolist() == [each[1] for each in parts]
    assert stream_id_of(column).tolist() == [each[2] for each in parts]
