"""Arrow arrays over numpy's: the same as those that pyarrow makes by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.arrow import encoded, lengths, nulls, numeric, plain, same, spans, take, texts, valid


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64(), pa.bool_()], ids=str)
@pytest.mark.parametrize("stored", ["u1", ">u2", "<i8"])
def test_numbers_of_any_width_and_order(kind: pa.DataType, stored: str) -> None:
    numbers = np.array([0, 1, 127, 0, 5, 6, 7, 8, 9], stored)
    valid = np.array([True, False, True, True, False, True, True, True, False])
    plain = numeric(kind, numbers)
    plain.validate(full=True)
    assert plain.type == kind
    assert plain.to_pylist() == [bool(number) if kind == pa.bool_() else int(number) for number in numbers]
    masked = numeric(kind, numbers, valid)
    masked.validate(full=True)
    assert masked.null_count == 3
    assert masked.to_pylist() == [
        value if there else None for value, there in zip(plain.to_pylist(), valid, strict=True)
    ]


def test_numbers_between_others_are_copied() -> None:
    table = np.arange(12, dtype=np.int64).reshape(4, 3)
    assert numeric(pa.int64(), table[:, 1]).to_pylist() == [1, 4, 7, 10]


def test_take() -> None:
    values = pa.array(["a", "b", "c"])
    assert take(values, np.array([2, 0, 0])).to_pylist() == ["c", "a", "a"]
    assert take(values, np.array([2, 0, 1]), np.array([True, False, True])).to_pylist() == ["c", None, "b"]


def test_encoded_in_order_of_appearance() -> None:
    values, places = encoded(pa.array([7, 3, 7, 9]))
    assert values.to_pylist() == [7, 3, 9]
    assert places.tolist() == [0, 1, 0, 2]


@given(st.data())
def test_spans_of_bytes(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=60))
    bounds = sorted(
        data.draw(st.lists(st.integers(0, len(content)), max_size=8).filter(lambda found: len(found) % 2 == 0))
    )
    start, end = np.array(bounds[::2], np.int64), np.array(bounds[1::2], np.int64)
    places = data.draw(st.lists(st.integers(0, len(start) - 1), max_size=9)) if len(start) else []
    there = np.array(data.draw(st.lists(st.booleans(), min_size=len(places), max_size=len(places))), bool)
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    found = spans(kind, content, start, end, np.array(places, np.int64), there)
    assert found.type == kind
    expected = [
        content[start[place] : end[place]] if valid else None for place, valid in zip(places, there, strict=True)
    ]
    assert found.to_pylist() == expected


@pytest.mark.parametrize("size", [0, 1, 7, 8, 1000])
def test_one_thing_many_times(size: int) -> None:
    assert nulls(pa.list_(pa.int32()), size).to_pylist() == [None] * size
    assert same("dcp", size).to_pylist() == ["dcp"] * size
    assert same("dcp", size).type == pa.string()


@pytest.mark.parametrize("places", [[], [1], [1, 1, 1], [0, 2, 1, 1]])
def test_texts(places: list[int]) -> None:
    found = texts(["upr", "dcp", ""], np.array(places, np.int64))
    assert found.type == pa.string()
    assert found.to_pylist() == [["upr", "dcp", ""][place] for place in places]


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.bool_()], ids=str)
@given(values=st.lists(st.none() | st.integers(0, 1)), begin=st.integers(0, 20))
def test_numbers_come_back_with_another_in_place_of_null(
    kind: pa.DataType, values: list[int | None], begin: int
) -> None:
    given = pa.array(
        [None if value is None else bool(value) if kind == pa.bool_() else value for value in values], kind
    )
    part = given.slice(min(begin, len(given)))
    assert valid(part).tolist() == part.is_valid().to_pylist()
    assert plain(part, 7).tolist() == [7 if value is None else value for value in part.to_pylist()]


@given(values=st.lists(st.none() | st.lists(st.text(max_size=3), max_size=3)), begin=st.integers(0, 20))
def test_lists_and_how_long_they_are(values: list[list[str] | None], begin: int) -> None:
    given = pa.array(values, pa.list_(pa.string()))
    part = given.slice(min(begin, len(given)))
    assert lengths(part).tolist() == [len(value or ()) for value in part.to_pylist()]


@given(
    st.lists(st.sampled_from(["", "a", "aa", "b", "dcp"]), max_size=3),
    st.integers(0, 40),
    st.sampled_from(["", "a", "aa", "dcp"]),
    st.integers(0, 3),
)
def test_texts_that_repeat_are_encoded_as_any_others(odd: list[str], count: int, text: str, begin: int) -> None:
    column = pa.array([*odd, *[text] * count, *odd], pa.string()).slice(begin)
    for values in (column, column.slice(0, max(len(column) - len(odd), 0)), column.slice(min(len(odd), len(column)))):
        names, places = encoded(values)
        assert [names[place].as_py() for place in places.tolist()] == values.to_pylist()
        assert names.to_pylist() == list(dict.fromkeys(values.to_pylist()))
