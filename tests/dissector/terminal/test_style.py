"""Terminals: nothing from a capture reaches them raw, and colour and width follow the user's wishes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.terminal.style import Terminal, is_unicode, one_line, safe_text, text_width, wants_color


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain key_1", "plain key_1"),
        ("Zürich 東京", "Zürich 東京"),
        (b"\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        (b"\x1b]0;title\x07", r"\x1b]0;title\x07"),
        (b"a\nb\rc\td\x00\x7f", r"a\nb\rc\td\x00\x7f"),
        ("\u009b31m", r"\u009b31m"),  # C1 CSI as a character ...
        (b"\x9b31m", r"\x9b31m"),  # ... and as a byte that is no UTF-8
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2066a\u2069\u200b\u200d\ufeff", r"\u2066a\u2069\u200b\u200d\ufeff"),
        ("\u2028\u2029\u00a0", r"\u2028\u2029\u00a0"),
        ("\U000e0041", r"\U000e0041"),
        (b"\xff\xc3\x28", r"\xff\xc3("),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),  # a surrogate is no UTF-8
        ("\ud800", r"\ud800"),
        (b"\\x1b", r"\\x1b"),  # the four characters, not the escape
        (b"", ""),
    ],
)
def test_safe_text_shows(data: bytes | str, shown: str) -> None:
    assert safe_text(data) == shown


@given(st.one_of(st.binary(), st.text()))
def test_safe_text_is_printable_and_can_be_encoded(data: bytes | str) -> None:
    shown = safe_text(data)
    assert shown.isprintable()
    shown.encode()


@given(st.binary(max_size=8), st.binary(max_size=8))
def test_safe_text_tells_bytes_apart(one: bytes, other: bytes) -> None:
    assert (safe_text(one) == safe_text(other)) == (one == other)


def test_one_line_keeps_backslashes_and_loses_line_ends() -> None:
    assert one_line("C:\\x\n\x1b[0m") == r"C:\x\n\x1b[0m"


@pytest.mark.parametrize(
    ("choice", "screen", "env", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),  # https://no-color.org: only when not empty
        ("auto", False, {"CLICOLOR_FORCE": "1"}, True),
        ("auto", False, {"CLICOLOR_FORCE": "0"}, False),
        ("auto", False, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"CLICOLOR_FORCE": "1"}, False),
    ],
)
def test_colour_follows_option_environment_and_stream(
    choice: str, screen: bool, env: dict[str, str], wanted: bool
) -> None:
    assert wants_color(choice, _Screen() if screen else io.StringIO(), env) is wanted


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert wants_color("auto", stream, {}) is False


@pytest.mark.parametrize(
    ("columns", "width"), [("60", 60), ("10", 40), ("500", 100), ("x", 80), ("", 80), ("-5", 80), ("²", 80)]
)
def test_width_follows_columns_within_reason(columns: str, width: int) -> None:
    assert text_width(io.StringIO(), {"COLUMNS": columns}) == width


def test_box_characters_need_a_stream_that_takes_them() -> None:
    assert is_unicode(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert not is_unicode(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    drawn = "┌─┬┐ → │…"
    assert Terminal(unicode=True).encode(drawn) == drawn
    assert Terminal(unicode=False).encode(drawn) == "+-++ -> |..."


def test_styles_only_where_there_is_colour() -> None:
    assert Terminal(color=False).title("x") == "x"
    assert Terminal(color=True).title("x") == "\x1b[1;36mx\x1b[0m"
    assert Terminal(color=True).title("") == ""


def test_wrapping_keeps_identifiers_whole() -> None:
    lines = Terminal(width=40).wrap("a " * 20 + "send_stream_end_on_client_close_stream_and-more", "  ")
    assert lines[-1].strip() == "send_stream_end_on_client_close_stream_and-more"
    assert all(line.startswith("  ") for line in lines)
