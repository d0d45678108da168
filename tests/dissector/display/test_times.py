"""The time column: tshark's formats mean what they mean there. Times are worked out by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from dissector.display.times import BY_NAME, FORMATS, TimeColumn
from dissector.frames.connection_numbers import ConnectionNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator

#: 2026-11-16T02:10:00.123456789Z: 56 years, 14 of them leap years, 319 days (20,773 days) and 7,800 s after 1970.
START = (20_773 * 86_400 + 7_800) * 1_000_000_000 + 123_456_789
MICROSECOND = 1_000
TIMES = [START, START + 250 * MICROSECOND, START + 2_000_000 * MICROSECOND, START + 1_999_000 * MICROSECOND]


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Five hours behind UTC in November, wherever the tests run."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
        time.tzset()
        yield
    time.tzset()


def column(name: str, times: list[int], chosen: list[list[int]]) -> list[str]:
    """Return the column of the chosen frames; each list of them is about a batch, all of one size."""
    numbering = ConnectionNumbers()
    numbering.start_ns = times[0]
    shown = TimeColumn(BY_NAME[name], numbering)
    half = len(times) // len(chosen)
    found = []
    for at, indexes in enumerate(chosen):
        batch = pa.record_batch({"time_ns": pa.array(times[at * half : (at + 1) * half], pa.int64())})
        found += shown.texts(batch, np.array(indexes, np.int64))
    return found


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("r", ["0.000000", "0.000250", "2.000000", "1.999000"]),
        ("d", ["0.000000", "0.000250", "1.999750", "-0.001000"]),
        ("dd", ["0.000000", "0.000250", "1.999750", "-0.001000"]),
        ("e", ["1794795000.123456", "1794795000.123706", "1794795002.123456", "1794795002.122456"]),
        ("u", ["02:10:00.123456", "02:10:00.123706", "02:10:02.123456", "02:10:02.122456"]),
        ("ud", [f"2026-11-16 02:10:0{each}" for each in ("0.123456", "0.123706", "2.123456", "2.122456")]),
        ("udoy", [f"2026/320 02:10:0{each}" for each in ("0.123456", "0.123706", "2.123456", "2.122456")]),
        ("a", ["21:10:00.123456", "21:10:00.123706", "21:10:02.123456", "21:10:02.122456"]),
        ("ad", [f"2026-11-15 21:10:0{each}" for each in ("0.123456", "0.123706", "2.123456", "2.122456")]),
        ("adoy", [f"2026/319 21:10:0{each}" for each in ("0.123456", "0.123706", "2.123456", "2.122456")]),
    ],
)
def test_formats(name: str, expected: list[str]) -> None:
    assert column(name, TIMES, [[0, 1, 2, 3]]) == expected
    assert column(name, TIMES, [[0, 1], [0, 1]]) == expected
    assert column(BY_NAME[name].word, TIMES, [[0, 1], [0, 1]]) == expected
    assert all(len(each) <= BY_NAME[name].width for each in expected)


def test_a_delta_is_to_the_frame_before_or_to_the_line_before() -> None:
    """Shown are the first and the last frame of four; the second batch begins with a frame that is left out."""
    assert column("d", TIMES, [[0], [1]]) == ["0.000000", "-0.001000"]
    assert column("dd", TIMES, [[0], [1]]) == ["0.000000", "1.999000"]
    assert column("d", TIMES, [[], [0]]) == ["1.999750"]
    assert column("dd", TIMES, [[], [0]]) == ["0.000000"]


def test_times_before_1970_and_far_ahead() -> None:
    assert column("ud", [-1_000], [[0]]) == ["1969-12-31 23:59:59.999999"]
    assert column("ud", [(1 << 63) - 1], [[0]]) == ["2262-04-11 23:47:16.854775"]
    assert column("e", [-(1 << 63)], [[0]]) == ["-9223372036.854775"]


def test_names_and_headings() -> None:
    assert {"a", "ad", "adoy", "d", "dd", "e", "r", "u", "ud", "udoy"} < {each.name for each in FORMATS}
    assert len({each.heading for each in FORMATS}) == len(FORMATS)
    assert all(len(each.heading) <= each.width for each in FORMATS)
