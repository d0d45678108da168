"""The interfaces of a pcapng section: link type and clock of each, as arrays that packets index.

Knows the Interface Description Block's body, and how the options of every block are laid out. Files with thousands of
interfaces exist (one per virtual port), so adding one costs the same whatever their number.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from dissector.capture.clock import DEFAULT_RESOLUTION, Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from dissector.array_types import Ints, Longs


MAX_INTERFACES = 65_536
"""Per section; more is no capture but an attack on memory."""

_OPTION_END = 0
_OPTION_TSRESOL = 9
_OPTION_TSOFFSET = 14


class InterfaceTable:
    """The interfaces of the current section, and how many there were in earlier ones."""

    def __init__(self) -> None:
        self._linktypes = np.zeros(16, np.int32)
        self._clock_of = np.zeros(16, np.int32)
        self._clocks: list[Clock] = []
        self._clock_numbers: dict[Clock, int] = {}
        self._before = 0
        self.count = 0
        self.first_snaplen = 0
        """Snapshot length of interface 0, which Simple Packet Blocks go by; 0 means none."""

    def start_section(self) -> None:
        """Forget the interfaces: a new section numbers its own from 0."""
        self._before += self.count
        self.count = 0
        self.first_snaplen = 0
        self._clocks.clear()
        self._clock_numbers.clear()

    def add(self, body: bytes, order: str) -> bool:
        """Take up an interface from its block's body (8 bytes and options); False if there are too many already."""
        if self.count >= MAX_INTERFACES:
            return False
        linktype, snaplen = struct.unpack_from(f"{order}HxxI", body)
        clock = _clock(body, order)
        number = self._clock_numbers.setdefault(clock, len(self._clocks))
        if number == len(self._clocks):
            self._clocks.append(clock)
        if self.count == len(self._linktypes):
            self._linktypes = np.resize(self._linktypes, 2 * self.count)
            self._clock_of = np.resize(self._clock_of, 2 * self.count)
        self._linktypes[self.count] = linktype
        self._clock_of[self.count] = number
        if self.count == 0:
            self.first_snaplen = snaplen
        self.count += 1
        return True

    def linktypes(self, ids: Longs) -> Ints:
        """Return the link type of each packet's interface."""
        return self._linktypes[ids]

    def numbers(self, ids: Longs) -> Ints:
        """Return each packet's interface number, counted over all sections."""
        return (ids + self._before).astype(np.int32)

    def clock(self, number: int) -> Clock:
        """Return the clock of one of the section's interfaces."""
        return self._clocks[int(self._clock_of[number])]

    def times(self, ids: Longs, ticks: npt.NDArray[np.uint64]) -> Longs:
        """Convert each packet's ticks by its interface's clock."""
        if len(self._clocks) == 1:
            return self._clocks[0].nanoseconds(ticks)
        clock_of = self._clock_of[ids]
        times = np.empty(len(ids), np.int64)
        for number in np.unique(clock_of).tolist():
            chosen = clock_of == number
            times[chosen] = self._clocks[number].nanoseconds(ticks[chosen])
        return times


def _clock(body: bytes, order: str) -> Clock:
    resolution, offset = DEFAULT_RESOLUTION, 0
    for code, value in options_in(body, 8, order):
        if code == _OPTION_TSRESOL and len(value) == 1:
            resolution = value[0]
        elif code == _OPTION_TSOFFSET and len(value) == 8:
            offset = int.from_bytes(value, "little" if order == "<" else "big", signed=True)
    return Clock(resolution, offset)


def options_in(body: bytes, at: int, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield the options of any block's body: up to the end mark, or the first one that does not fit."""
    header = struct.Struct(f"{order}HH")
    while at + 4 <= len(body):
        code, length = header.unpack_from(body, at)
        if code == _OPTION_END or at + 4 + length > len(body):
            return
        yield code, body[at + 4 : at + 4 + length]
        at += 4 + (length + 3 & ~3)
