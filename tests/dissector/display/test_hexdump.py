"""Dumps: the digits are the bytes, the characters are safe, and secrets are in neither."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.display.hexdump import hexdump


def parts(line: str) -> tuple[int, list[str], str]:
    """Split a line by its columns: offset, digits of each byte, characters."""
    assert line[6:8] == line[31:33] == line[56:58] == "  "
    return int(line[:6], 16), (line[8:31] + " " + line[33:56]).split(), line[58:]


@given(st.binary(max_size=200), st.integers(0, 3).map(lambda lines: 16 * lines))
def test_digits_and_characters_are_the_bytes(data: bytes, start: int) -> None:
    lines = [parts(line) for line in hexdump(data, start=start)]
    assert bytes.fromhex("".join(digit for _, digits, _ in lines for digit in digits)) == data
    assert [offset for offset, _, _ in lines] == list(range(start, start + len(data), 16))
    assert all(len(digits) == 16 for _, digits, _ in lines[:-1])
    characters = "".join(text for _, _, text in lines)
    assert len(characters) == len(data)
    for byte, shown in zip(data, characters, strict=True):
        assert shown == (chr(byte) if 0x20 <= byte <= 0x7E else ".")


@given(st.binary(min_size=1, max_size=80), st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=4))
def test_hidden_bytes_are_nowhere(data: bytes, hidden: list[tuple[int, int]]) -> None:
    secret = {offset for low, high in hidden for offset in range(low, high)}
    lines = [parts(line) for line in hexdump(data, hidden=hidden)]
    digits = [digit for _, row, _ in lines for digit in row]
    characters = "".join(text for _, _, text in lines)
    for offset, byte in enumerate(data):
        if offset in secret:
            assert (digits[offset], characters[offset]) == ("..", ".")
        else:
            assert digits[offset] == f"{byte:02x}"


def test_what_a_line_looks_like() -> None:
    assert list(hexdump(b"key\x00\x1b[31m\xff~ 0123456", hidden=[(4, 6)], start=0x20)) == [
        "000020  6b 65 79 00 .. .. 33 31  6d ff 7e 20 30 31 32 33  key...31m.~ 0123",
        "000030  34 35 36                                          456",
    ]


@pytest.mark.parametrize("hidden", [(), [(0, 100)]])
def test_nothing_has_no_lines(hidden: list[tuple[int, int]]) -> None:
    assert list(hexdump(b"", hidden=hidden)) == []
