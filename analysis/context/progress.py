"""How far each connection has come: when either side was last heard of, what it had heard by then, and who has room.

What never came can only be missed if its sender went on: it was alive, had heard the question, and was free to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch

    Longs = NDArray[np.int64]


class DirectionProgress:
    """All connections. Directions are numbered as in :class:`analysis.context.batch.ContextBatch`."""

    def __init__(self) -> None:
        self._time = np.zeros(0, np.int64)
        self._acked = np.zeros(0, np.int64)
        self._sent = np.zeros(0, np.int64)
        self._returned = np.zeros(0, np.int64)
        self._last_return = np.zeros(0, np.int64)

    def fold(self, sight: ContextBatch) -> None:
        """Take a batch."""
        self._grow(int(sight.stream_of_bytes.max()) + 1)
        code = sight.stream_of_bytes
        # Of several writes to one place the last one stays, and rows are in their order.
        self._time[code] = sight.numbers("time_ns")
        self._acked[code] = sight.numbers("acked_offset")
        room = len(self._sent)
        counted = np.maximum(sight.numbers("flow_bytes"), 0)
        self._sent += np.bincount(sight.connection, counted, room).astype(np.int64)
        returned = sight.numbers("buffer_bytes")
        acks = np.flatnonzero(returned >= 0)
        if len(acks):
            self._returned += np.bincount(sight.connection[acks], returned[acks], room).astype(np.int64)
            self._last_return[sight.connection[acks]] = returned[acks]

    def time_ns(self, direction: int) -> int:
        """Return when a direction's last frame came; 0: there was none."""
        return int(self._time[direction]) if direction < len(self._time) else 0

    def acked(self, direction: int) -> int:
        """Return how much of the other direction its sender had heard by then."""
        return int(self._acked[direction]) if direction < len(self._acked) else -1

    def free(self, connection: int, window: int) -> bool:
        """Tell whether a producer surely had room in its window, even before the last ack."""
        if window <= 0:
            return True
        outstanding = int(self._sent[connection] - self._returned[connection] + self._last_return[connection])
        return 0 <= outstanding < window

    def _grow(self, room: int) -> None:
        room += room & 1
        if room > len(self._time):
            size = max(room, 2 * len(self._time))
            for name, width in (("_time", size), ("_acked", size)):
                self._widen(name, width)
            for name in ("_sent", "_returned", "_last_return"):
                self._widen(name, size // 2)

    def _widen(self, name: str, size: int) -> None:
        column: Longs = getattr(self, name)
        setattr(self, name, np.r_[column, np.zeros(size - len(column), np.int64)])
