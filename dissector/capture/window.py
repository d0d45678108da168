"""The part of a byte stream that is in memory: a chunk, with the unfinished record of the last one in front.

Knows buffers and positions; records are up to the caller. Every refill makes a new buffer, so that blocks handed out
stay valid, and a buffer only grows as fast as bytes arrive: a length field alone never allocates memory.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dissector.capture.chunk_sizes import FIRST_CHUNK_BYTES, MIN_CHUNK_BYTES
from dissector.capture.packet_block import SLACK_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

    from dissector.array_types import Bytes, Longs


_DISCARD_BYTES = 1 << 20
#: A live stream that brings nothing for so long is in a pause: what is there is given out. Longer than a program needs
#: to fill a pipe that was emptied, and shorter than anybody notices.
_PAUSE_S = 0.01
_LONGEST_S = 0.1  #: so long a stream without pauses may keep what is there


class ByteStream(Protocol):
    """A source of bytes for a window."""

    @property
    def live(self) -> bool:
        """Whether bytes come while they are read."""

    @property
    def stopped(self) -> bool:
        """Whether the end is where the user stopped reading; what is cut off there is not damaged."""

    def ready(self, seconds: float) -> bool:
        """Wait a while for bytes; tell whether a read gives some, or the end, without further waiting."""

    def readinto(self, target: memoryview, /) -> int:
        """Put at least one byte into the target, or return 0 at the end."""
        ...


class Window:
    """Bytes ``start`` to ``end`` of ``buffer``; byte 0 of the buffer is byte ``base`` of the stream."""

    def __init__(self, stream: ByteStream, chunk_bytes: int) -> None:
        if chunk_bytes < MIN_CHUNK_BYTES:
            raise ValueError(f"chunk_bytes is {chunk_bytes}, but at least {MIN_CHUNK_BYTES} are needed")
        self._stream = stream
        self._most_bytes = chunk_bytes
        self._chunk_bytes = min(chunk_bytes, FIRST_CHUNK_BYTES)
        self._to_discard = 0
        self.buffer: Bytes = np.zeros(SLACK_BYTES, np.uint8)
        # struct reads a memoryview twice as fast as an array: asking an array for its buffer costs more than the read.
        self.view = self.buffer.data
        self.start = 0
        self.end = 0
        self.base = 0
        self.eof = False
        self.stopped = False
        """The user ended the reading here: nothing more comes, and what is unfinished is not to be judged."""
        self.missing = 0
        """Bytes that ``discard`` was to pass over when the stream ended."""

    @property
    def position(self) -> int:
        """Byte of the stream at ``start``: everything before it is consumed."""
        return self.base + self.start

    def head(self, count: int) -> bytes:
        """Copy the first unconsumed bytes, fewer where fewer are in memory."""
        return bytes(self.view[self.start : min(self.end, self.start + count)])

    def discard(self, count: int) -> None:
        """Consume bytes; the next refill throws away those that are not in memory yet."""
        here = min(count, self.end - self.start)
        self.start += here
        self._to_discard += count - here

    def refill(self, need: int) -> None:
        """Read on into a new buffer until ``need`` unconsumed bytes are there, or the stream has ended.

        There may be more, up to a chunk: all that comes without a pause.
        """
        carry = self.end - self.start
        position = self.position + self._discard()
        goal = max(carry + self._chunk_bytes, need)
        if need > self._chunk_bytes:
            goal += need // 4  # room, or the next large record would copy all this again for its last byte
        size = min(goal, max(carry + self._chunk_bytes, 2 * carry))
        buffer = self._allocate(size, self.buffer[self.start : self.end])
        end = self._fill(buffer, carry, size, need)
        while end == size and end < need:
            size = min(goal, 2 * size)
            buffer = self._allocate(size, buffer[:end])
            end = self._fill(buffer, end, size, need)
        if end == size:  # a live stream that brings little at a time goes on with small buffers
            self._chunk_bytes = min(2 * self._chunk_bytes, self._most_bytes)
        buffer[end : end + SLACK_BYTES] = 0
        self.buffer, self.view = buffer, buffer.data
        self.start, self.end, self.base = 0, end, position

    @staticmethod
    def _allocate(size: int, carried: Bytes) -> Bytes:
        buffer = np.empty(size + SLACK_BYTES, np.uint8)
        buffer[: len(carried)] = carried
        return buffer

    def _fill(self, buffer: Bytes, end: int, size: int, need: int) -> int:
        view = buffer.data
        patience: float | None = None
        while end < size and not self._at_end():
            if self._stream.live and end >= need:
                patience = patience or time.monotonic() + _LONGEST_S
                if not self._stream.ready(_PAUSE_S) or time.monotonic() > patience:
                    break
            end += self._read(view[end:size])
        return end

    def _discard(self) -> int:
        """Throw away what ``discard`` left over, and return how much of it there was."""
        left = self._to_discard
        scratch = memoryview(bytearray(min(left, _DISCARD_BYTES)))
        while left and not self._at_end():
            left -= self._read(scratch[: min(left, _DISCARD_BYTES)])
        self.missing = 0 if self.stopped else left
        done, self._to_discard = self._to_discard - left, 0
        return done

    def _at_end(self) -> bool:
        return self.eof or self.stopped

    def _read(self, target: memoryview) -> int:
        count = self._stream.readinto(target)
        if not count:
            self.stopped = self._stream.stopped
            self.eof = not self.stopped
        return count


def gather(buffer: Bytes, offsets: Longs, layout: np.dtype[Any]) -> npt.NDArray[Any]:
    """Read one structure at each offset."""
    # Opaque items that overlap: numpy copies each at once, several times as fast as rows of single bytes.
    size = layout.itemsize
    items: npt.NDArray[Any] = np.ndarray((len(buffer) - size + 1,), np.dtype((np.void, size)), buffer, 0, (1,))
    return items[offsets].view(layout)


def at_every_byte(buffer: Bytes, first: int, count: int, number: str) -> npt.NDArray[Any]:
    """Read a number at each of ``count`` consecutive bytes, without copying: for searches that trust no alignment."""
    return np.ndarray((count,), np.dtype(number), buffer, first, (1,))
