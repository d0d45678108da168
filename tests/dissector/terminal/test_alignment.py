"""Cells of tables: every line of a column takes the same room, whatever its characters are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.terminal.alignment import column_widths, cut, display_width, filled, pad, table_line

#: e with a combining accent is one place, 漢 is two, an ellipsis one.
TEXT = st.text("ab é\u0301漢字→…", max_size=12)


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("abc", 3), ("e\u0301", 1), ("漢字", 4), ("\uff41", 2), ("→…", 2)]
)
def test_width_of_text(text: str, width: int) -> None:
    assert display_width(text) == width


@given(TEXT, st.integers(0, 30))
def test_padded_text_is_as_wide_as_asked_for(text: str, more: int) -> None:
    width = display_width(text) + more
    left, right = pad(text, width), pad(text, width, right=True)
    assert display_width(left) == display_width(right) == width
    assert (left[: len(text)], right[len(right) - len(text) :]) == (text, text)


@given(TEXT, st.integers(1, 12))
def test_cut_text_fits(text: str, width: int) -> None:
    short = cut(text, width)
    assert display_width(short) <= width
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]) and display_width(text) > width)


@given(TEXT, st.integers(1, 12))
def test_cut_text_uses_the_room_and_the_ellipsis_that_there_is(text: str, width: int) -> None:
    short = cut(text, width, "...")
    assert display_width(short) <= width
    if short != text and width > 4:
        assert short.endswith("...")
        assert display_width(short) >= width - 1  # a wide character may leave one place


@given(
    st.lists(TEXT.filter(lambda text: text.isascii() and text.strip()), max_size=6),
    st.integers(2, 9),
    st.integers(9, 14),
)
def test_filled_lines_have_room_and_lose_nothing(parts: list[str], first: int, rest: int) -> None:
    lines = filled(parts, first, rest)
    assert "".join(lines).replace(" ", "") == "".join(parts).replace(" ", "")
    assert all(display_width(line) <= (rest if at else first) for at, line in enumerate(lines))
    assert lines


def test_parts_stay_whole_if_they_can() -> None:
    assert filled(["ab", "cd", "efg", "1234567890ab"], 6, 10) == ["ab  cd", "efg", "1234567890", "ab"]
    assert filled(["123456", "ab"], 4, 10) == ["", "123456  ab"]
    assert filled([], 4, 10) == [""]


def test_a_line_is_aligned_and_has_no_spaces_after_it() -> None:
    rows = [("rule", "n", "what"), ("漢", "1,000", "")]
    widths = column_widths(rows)
    assert widths == [4, 5, 4]
    assert [table_line(row, widths, (False, True, False)) for row in rows] == ["rule      n  what", "漢    1,000"]
