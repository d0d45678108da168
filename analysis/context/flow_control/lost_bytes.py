"""Bytes of one direction of which it is not known what they were: lost ones, and messages that have no name.

Tells how many bytes may have counted in them up to an offset. Must not know which side sends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.spec.registry import HEADER_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs


SHORTEST_ACK = HEADER_SIZE + 4  #: bytes of a buffer ack
SHORTEST_PREPARE = HEADER_SIZE + 31  #: bytes of a prepare without key and value; it counts two bytes more than it has
MOST_PENDING = 4096  #: losses that are remembered one by one


class Loss(NamedTuple):
    """Lost bytes of a direction, or a message that has no name: a newer server may count it."""

    begin: int
    end: int  #: offset of the frame after them
    acked: int  #: what that frame acknowledges of the other direction; -1: nothing
    time_ns: int  #: of that frame
    place: int  #: of that frame's last packet in the captures
    unnamed: bool = False


def most_counted(size: Longs) -> Longs:
    """Return how many bytes may count in so many unknown ones."""
    found: Longs = size + 2 * (size // SHORTEST_PREPARE)
    return found


class LostBytes:
    """The unknown bytes of one direction, in order."""

    def __init__(self) -> None:
        self._begin = np.empty(0, np.int64)
        self._end = np.empty(0, np.int64)
        self._most = np.zeros(1, np.int64)  #: may have counted before each, and after the last one

    def __bool__(self) -> bool:
        return bool(len(self._begin) or self._most[0])

    @property
    def pending(self) -> int:
        """Return how many are remembered one by one."""
        return len(self._begin)

    def add(self, begin: int, end: int) -> None:
        """Add unknown bytes after all others."""
        most = self._most[-1] + most_counted(np.array([max(end - begin, 0)]))
        self._begin, self._end = np.append(self._begin, begin), np.append(self._end, end)
        self._most = np.concatenate((self._most, most))

    def most_until(self, offsets: Longs) -> Longs:
        """Return how many of the unknown bytes before some offsets may have counted."""
        number = np.searchsorted(self._begin, offsets, side="left")
        if not len(self._begin):
            return np.full(len(offsets), int(self._most[0]), np.int64)
        last = np.maximum(number - 1, 0)
        part = np.clip(offsets - self._begin[last], 0, self._end[last] - self._begin[last])
        found: Longs = np.where(number > 0, self._most[last] + most_counted(part), self._most[0])
        return found

    def inside(self, offsets: Longs, shortest: int) -> NDArray[np.bool_]:
        """Tell which offsets lie so far inside of lost bytes that a message may have come before, and not all."""
        number = np.searchsorted(self._begin + shortest, offsets, side="right")
        last = np.maximum(number - 1, 0)
        if not len(self._begin):
            return np.zeros(len(offsets), bool)
        found: NDArray[np.bool_] = (number > 0) & (offsets < self._end[last])
        return found

    def drop_until(self, offset: int) -> None:
        """Forget where the bytes before an offset were; how many there were stays known."""
        count = int(np.searchsorted(self._end, offset, side="right"))
        if count:
            self._begin, self._end = self._begin[count:].copy(), self._end[count:].copy()
            self._most = self._most[count:].copy()
