"""Ranges of packets: joined, asked, and put together."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.slice.criteria import read_frames, read_times
from analysis.slice.packet_choice import NO_LAST, PacketChoice, Spans
from dissector.errors import UsageError


def spans(*ranges: tuple[int, int]) -> Spans:
    return Spans.joined([Spans(np.array([first]), np.array([last])) for first, last in ranges])


def pairs(found: Spans) -> list[tuple[int, int]]:
    return list(zip(found.first.tolist(), found.last.tolist(), strict=True))


def test_ranges_that_touch_are_joined() -> None:
    assert pairs(spans((10, 12), (1, 3), (4, 5), (11, 20), (30, 30), (14, 15))) == [(1, 5), (10, 20), (30, 30)]
    assert pairs(Spans.joined([])) == []


def test_what_is_in_a_range() -> None:
    numbers = np.arange(8)
    assert np.flatnonzero(spans((2, 3), (6, 6)).hold(numbers)).tolist() == [2, 3, 6]
    assert not Spans.joined([]).hold(numbers).any()


def test_two_choices_beside_each_other() -> None:
    one = PacketChoice("one", {("a", 0): spans((1, 2))}, comments={1: "one"})
    other = PacketChoice("other", {("a", 0): spans((3, 4)), ("b", 1): spans((9, 9))}, frozenset("c"), comments={1: "x"})
    both = one.beside(other)
    assert {side: pairs(found) for side, found in both.spans.items()} == {("a", 0): [(1, 4)], ("b", 1): [(9, 9)]}
    assert (both.what, both.connections, both.comments, both.end) == ("one", frozenset("c"), {1: "one"}, NO_LAST)
    assert one.end == 2
    assert one.beside(PacketChoice("all", connections=None)).connections is None


def test_numbers_of_frames() -> None:
    assert pairs(read_frames("10-20, 33,15-21")) == [(10, 21), (33, 33)]
    assert read_frames("40-").hold(np.array([39, 40, 10**12])).tolist() == [False, True, True]
    for text in ("", "0", "3-2", "a", "1..2", "-4", "1,,2"):
        with pytest.raises(UsageError, match="--frames"):
            read_frames(text)


def test_ranges_of_time() -> None:
    first, last = read_times("1.5..2026-11-16T02:10:00Z")
    assert first is not None
    assert last is not None
    assert first.at(7) == 1_500_000_007
    assert last.at(7) == 1_794_795_000 * 10**9  # date -d 2026-11-16T02:10:00Z +%s
    assert read_times("..3")[0] is None
    for text in ("", "..", "3", "2..1", "x..", "..-1"):
        with pytest.raises(UsageError, match="--time"):
            read_times(text)
