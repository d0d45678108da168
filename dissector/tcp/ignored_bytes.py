"""How many bytes a direction of another protocol sends: each counted once, none of them kept.

Takes over from the reassembly of a direction when its connection is ignored, and counts as that does: bytes that were
captured, that came again, that were lost. Knows sequence numbers and no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.tcp.reassembly import WRAP, unwrap

if TYPE_CHECKING:
    from dissector.tcp.reassembly import HalfConnection

#: Holes of a direction that may still fill; of more, the first is given up. Segments are seldom late by more.
MOST_HOLES = 8


@dataclass(slots=True)
class IgnoredBytes:
    """How far an ignored direction has come."""

    next: int  #: sequence number after the last byte, which does not wrap here
    holes: list[tuple[int, int]] = field(default_factory=list)  #: from where to where bytes have not come yet


def ignored_bytes(direction: HalfConnection, seq: int) -> IgnoredBytes:
    """Return how far a direction has come; ``seq`` is where it begins if nothing was known of it."""
    if direction.ignored is None:
        # What is held is delivered when the connection ends, with the holes before it.
        known = direction.held[-1].end if direction.held else direction.next
        direction.ignored = IgnoredBytes(seq if direction.base is None else (direction.base + known) % WRAP)
    return direction.ignored


def count_segment(direction: HalfConnection, seq: int, length: int, captured: int) -> None:
    """Count a segment with data."""
    state = ignored_bytes(direction, seq)
    start = state.next + unwrap(seq, state.next % WRAP)
    end = start + length
    new: list[tuple[int, int]] = []
    if start < state.next and state.holes:
        new += _fill(state, start, end)
    if end > state.next:
        if start > state.next:
            state.holes.append((state.next, start))
            if len(state.holes) > MOST_HOLES:
                _lose(direction, state.holes.pop(0))
        new.append((max(start, state.next), end))
        state.next = end
    direction.bytes_repeated += length
    for low, high in new:
        cut = max(low, min(high, start + captured))
        direction.bytes_repeated -= high - low
        direction.bytes_delivered += cut - low
        if cut < high:
            _lose(direction, (cut, high))


def count_in_order(direction: HalfConnection, count: int) -> None:
    """Count so many bytes that come next, all of them captured."""
    if direction.ignored is not None:
        direction.ignored.next += count
        direction.bytes_delivered += count


def give_up_holes(direction: HalfConnection) -> None:
    """The connection is over: what has not come is lost."""
    if direction.ignored is not None:
        for hole in direction.ignored.holes:
            _lose(direction, hole)
        direction.ignored.holes.clear()


def _lose(direction: HalfConnection, hole: tuple[int, int]) -> None:
    direction.gaps += 1
    direction.bytes_lost += hole[1] - hole[0]


def _fill(state: IgnoredBytes, start: int, end: int) -> list[tuple[int, int]]:
    """Take a segment's part of the holes; return what that is."""
    filled, left = [], []
    for low, high in state.holes:
        first, last = max(low, start), min(high, end)
        if first >= last:
            left.append((low, high))
            continue
        filled.append((first, last))
        left += [(one, other) for one, other in ((low, first), (last, high)) if one < other]
    state.holes = left
    return filled
