"""Which packets brought the bytes that a framer holds: marks by offset, for the rows of the frames they become.

A list of marks is in the order of offsets. Packets need not ascend in it: they may have come out of order.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

#: Packets of one unfinished frame that are remembered before those that say nothing new are forgotten.
_MARKS_KEPT = 8


class Mark(NamedTuple):
    """The packet that bytes from an offset on came in."""

    offset: int
    packet: int
    time_ns: int
    acked: int | None


def packets_of(marks: list[Mark], start: int, end: int) -> tuple[int, int, int, int | None]:
    """Return first and last packet of a span, the time of the last, and what the first byte's packet acknowledged.

    Marks before the span are forgotten: frames come in order, so no later one needs them.
    """
    forget_before(marks, start)
    lowest, highest = marks[0], marks[0]
    for mark in islice(marks, 1, None):
        if mark.offset >= end:
            break
        lowest = min(lowest, mark, key=_packet)
        highest = max(highest, mark, key=_packet)
    return lowest.packet, highest.packet, highest.time_ns, marks[0].acked


def forget_before(marks: list[Mark], start: int) -> None:
    """Forget the marks before that of the packet with this byte."""
    index = 0
    while index + 1 < len(marks) and marks[index + 1].offset <= start:
        index += 1
    del marks[:index]


def compacted(marks: list[Mark]) -> list[Mark]:
    """Return the marks of one unfinished frame without those that its row will not name, if they are many."""
    if len(marks) <= _MARKS_KEPT:
        return marks
    return sorted({marks[0], min(marks, key=_packet), max(marks, key=_packet)}, key=_offset)


def _packet(mark: Mark) -> int:
    return mark.packet


def _offset(mark: Mark) -> int:
    return mark.offset
