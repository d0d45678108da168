"""Which bytes of packets are which bytes of a stream, so that a change of a frame reaches every packet that carries it.

Payloads of segments have places: each begins where that of the segment before it in the run ended. What a byte at a
place is to become is kept in a temporary file, which is as long as all payloads and takes up only what was written to
it. Memory holds segments whose frames are still to come, and the last ones before them: a copy that comes later than
that, and what was never part of a frame, keeps the zero bytes that the file has where nothing was written.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dissector.spec import registry

if TYPE_CHECKING:
    from types import TracebackType

_REMEMBERED = 64  #: segments of a direction whose frames have come
_MOST_WAITING = 1 << 20  #: segments of all directions whose frames have not come
_MOST_RANGES = 4096  #: of a direction


class Scratch:
    """Bytes by place, in a temporary file; zero where nothing was written."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="uprscope-")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, place: int, data: bytes) -> None:
        """Keep bytes."""
        os.pwrite(self._file.fileno(), data, place)

    def read(self, place: int, count: int) -> bytes:
        """Return bytes."""
        return os.pread(self._file.fileno(), count, place).ljust(count, b"\0")


def not_a_header(magic: bytes, size: int) -> bytes:
    """Return what stands in for the beginning of a frame that is none so far: a magic, and no header behind it."""
    return magic + b"\xff" * (min(size, registry.HEADER_SIZE) - 1)


class Slot(NamedTuple):
    """A segment's payload: what it is of its stream, and its place."""

    offset: int
    end: int
    place: int


@dataclass(slots=True)
class _StreamSide:
    """One direction."""

    waiting: list[Slot] = field(default_factory=list)  #: by offset: not all of their frames have come
    done: deque[Slot] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    reached: int = 0  #: where the last frame ended
    marked: list[tuple[int, int]] = field(default_factory=list)  #: ranges that every copy has to be marked in


class StreamPlaces:
    """The places of payloads, by connection and direction."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._sides: dict[tuple[str, int], _StreamSide] = {}
        self._waiting = 0

    def add(self, connection: str, side: int, slot: Slot) -> None:
        """Take the next segment of a direction."""
        state = self._sides.get((connection, side))
        if state is None:
            state = self._sides[connection, side] = _StreamSide()
        if slot.offset < state.reached:
            self._copy_earlier(state, slot)
        insort(state.waiting, slot)
        self._waiting += 1
        if self._waiting > _MOST_WAITING:
            self._relieve()

    def replace(self, connection: str, side: int, start: int, end: int, data: bytes) -> None:
        """Take a frame: write what its bytes become; none where ``data`` ends early."""
        state = self._sides.get((connection, side))
        if state is None:
            return
        cut = bisect_left(state.waiting, Slot(end, 0, 0))
        left: list[Slot] = []
        for slot in state.waiting[:cut]:
            low, high = max(slot.offset, start), min(slot.end, start + len(data))
            if low < high:
                made = data[low - start : high - start]
                if slot.end > end == high:  # what follows may be cut off, and is a header's beginning all the same
                    made += not_a_header(data[:1], slot.end - end)
                self._scratch.write(slot.place + low - slot.offset, made)
            if slot.end > end:
                left.append(slot)
            else:
                state.done.append(slot)
        self._waiting -= cut - len(left)
        state.waiting[:cut] = left
        state.reached = max(state.reached, end)

    def mark(self, connection: str, side: int, start: int, end: int) -> None:
        """Mark a range of a stream in all of its copies, those that are still to come included."""
        state = self._sides.get((connection, side))
        if state is None:
            return
        if len(state.marked) >= _MOST_RANGES:  # rather too much than too little
            state.marked = [(state.marked[0][0], state.marked[-1][1])]
        state.marked.append((start, end))
        for slot in (*state.done, *state.waiting[: bisect_left(state.waiting, Slot(end, 0, 0))]):
            self._mark(slot, start, end)

    def forget(self, connection: str) -> None:
        """Forget a connection that is over, or of another protocol."""
        for side in (0, 1):
            state = self._sides.pop((connection, side), None)
            self._waiting -= len(state.waiting) if state is not None else 0

    def _mark(self, slot: Slot, start: int, end: int) -> None:
        low, high = max(slot.offset, start), min(slot.end, end)
        if low < high:
            self._scratch.write(slot.place + low - slot.offset, b"\xff" * (high - low))

    def _copy_earlier(self, state: _StreamSide, slot: Slot) -> None:
        """Give a repeated segment what its bytes became when they came first."""
        for start, end in state.marked:
            self._mark(slot, start, end)
        for earlier in (*state.done, *state.waiting[: bisect_left(state.waiting, Slot(slot.end, 0, 0))]):
            low, high = max(slot.offset, earlier.offset), min(slot.end, earlier.end)
            if low < high:
                data = self._scratch.read(earlier.place + low - earlier.offset, high - low)
                self._scratch.write(slot.place + low - slot.offset, data)

    def _relieve(self) -> None:
        """Let go of the older half of what waits longest: of the direction that holds most."""
        state = max(self._sides.values(), key=_waiting)
        cut = (len(state.waiting) + 1) // 2
        for slot in state.waiting[:cut]:
            if state.marked:
                self._mark(slot, slot.offset, slot.end)
        del state.waiting[:cut]
        self._waiting -= cut


def _waiting(state: _StreamSide) -> int:
    return len(state.waiting)
