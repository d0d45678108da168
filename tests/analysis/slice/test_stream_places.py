"""A change of a stream's bytes reaches every packet that carries them."""

from __future__ import annotations

import random

from analysis.slice import stream_places
from analysis.slice.stream_places import Scratch, Slot, StreamPlaces


def test_pieces_copies_and_overlaps() -> None:
    """Segments of any size, out of order, again and overlapping: each of their bytes becomes what its offset says."""
    rng = random.Random(5)  # noqa: S311 - the same every time
    stream = bytes(rng.randrange(1, 256) for _ in range(4000))
    with Scratch() as scratch:
        places = StreamPlaces(scratch)
        sent: list[Slot] = []
        frames, at, place = 0, 0, 0
        while frames < len(stream):
            for _ in range(rng.randrange(1, 5)):
                low = max(0, min(at, len(stream)) - rng.choice((0, 0, 10, 300)))
                slot = Slot(low, min(low + rng.randrange(1, 200), len(stream)), place)
                place += slot.end - slot.offset
                at = max(at, slot.end)
                places.add("c", 0, slot)
                sent.append(slot)
            end = min(frames + rng.randrange(1, 250), at)
            places.replace("c", 0, frames, end, stream[frames:end])
            frames = end
        for slot in sent:
            assert scratch.read(slot.place, slot.end - slot.offset) == stream[slot.offset : slot.end]


def test_marks_reach_later_copies() -> None:
    with Scratch() as scratch:
        places = StreamPlaces(scratch)
        places.add("c", 1, Slot(0, 10, 0))
        places.mark("c", 1, 4, 6)
        places.replace("c", 1, 0, 10, b"")
        for number in range(200):  # more than are remembered
            places.add("c", 1, Slot(10 + number, 11 + number, 10 + number))
            places.replace("c", 1, 10 + number, 11 + number, b"")
        places.add("c", 1, Slot(3, 8, 1000))
        assert scratch.read(0, 10) == b"\0" * 4 + b"\xff" * 2 + b"\0" * 4
        assert scratch.read(1000, 5) == b"\0\xff\xff\0\0"


def test_what_waits_is_bounded() -> None:
    """Beyond the limit the oldest are let go: they stay blank, and where something was marked they are marked whole."""
    limit = stream_places._MOST_WAITING
    stream_places._MOST_WAITING = 8
    try:
        with Scratch() as scratch:
            places = StreamPlaces(scratch)
            for number in range(8):
                places.add("c", 0, Slot(number, number + 1, number))
            places.mark("c", 0, 7, 8)
            places.add("c", 0, Slot(8, 9, 8))
            places.replace("c", 0, 0, 9, b"x" * 9)
            assert scratch.read(0, 9) == b"\xff" * 5 + b"x" * 4
    finally:
        stream_places._MOST_WAITING = limit
