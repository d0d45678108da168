"""Bytes as text: every column of bytes becomes what each of its values becomes alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.frames.byte_text import is_printable, text_column, text_of

_PIECES = st.sampled_from([b"key", b"hex:", b"h", "\u00fc".encode(), b"\xff", b"\0", b"\x7f", b" ", "\u202e".encode()])
_KEYS = st.one_of(st.none(), st.lists(_PIECES, max_size=4).map(b"".join))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"k14", "k14"),
        ("schl\u00fcssel".encode(), "schl\u00fcssel"),
        (b"\x08k", "hex:086b"),
        (b"\xff", "hex:ff"),
        (b"hex:6b", "hex:6865783a3662"),  # or it would be taken for the key k
        (b"", ""),
    ],
)
def test_text(data: bytes, text: str) -> None:
    assert text_of(data) == text


@given(st.lists(_KEYS, max_size=8), st.integers(0, 3))
def test_columns(keys: list[bytes | None], left_out: int) -> None:
    column = pa.array(keys, pa.binary()).slice(left_out)
    found = text_column(column)
    assert found.type == pa.string()
    found.validate(full=True)
    assert found.to_pylist() == [None if key is None else text_of(key) for key in keys[left_out:]]
    assert is_printable(found)


def test_what_cannot_be_shown() -> None:
    assert is_printable(pa.array(["a", None, "\u00fc", "hex:00"]))
    assert not is_printable(pa.array(["a", "\x1b"]))
    assert not is_printable(pa.array(["\u202e"]))
