"""How far each direction of each connection has come: what was lost, how far it was captured, when it was last active.

Also tells which producers surely had room in their flow-control window. What never came is missed only if its sender
went on: it was alive, had received the request, and was free to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.lookback import filled, sorted_by
from analysis.context.losses import after_loss, without_stream

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs


#: By column, what it is before anything is known; two rows per connection.
_DIRECTIONS = {"gap": 0, "heard": -1, "time_ns": 0, "acked": -1}
#: The same, one row per connection.
_CONNECTIONS = {"sent": 0, "returned": 0, "last_return": 0}


class DirectionProgress:
    """All connections. Directions are numbered as in :class:`analysis.context.batch.ContextBatch`."""

    def __init__(self) -> None:
        self._of = {name: np.zeros(0, np.int64) for name in (*_DIRECTIONS, *_CONNECTIONS)}

    def gaps(self, frames: ContextBatch) -> Longs:
        """Return, for each row, the last row of its direction up to itself before which something was lost; 0: none."""
        code = frames.direction_id
        self._grow(int(frames.connection.max()) + 1 if frames.size else 0)
        lost = after_loss(frames) | without_stream(frames)
        carried = self._of["gap"]
        if not lost.any():
            known: Longs = carried[code]
            return known
        order, groups = sorted_by(code)
        found = groups.last_until(lost[order])
        result = np.empty(frames.size, np.int64)
        result[order] = filled(found, frames.ordinal[order], carried, code[order])
        return result

    def commit(self, frames: ContextBatch, gaps: Longs) -> None:
        """The batch is done: remember where it left the directions."""
        code = frames.direction_id
        # Of several writes to one place the last one stays, and rows are in their order.
        self._of["gap"][code] = gaps
        for name, column in (("heard", "end_offset"), ("time_ns", "time_ns"), ("acked", "acked_offset")):
            self._of[name][code] = frames.numbers(column)
        room = len(self._of["sent"])
        counted = np.maximum(frames.numbers("flow_bytes"), 0)
        self._of["sent"] += np.bincount(frames.connection, counted, room).astype(np.int64)
        returned = frames.numbers("buffer_bytes")
        acks = np.flatnonzero(returned >= 0)
        if len(acks):
            number = frames.connection[acks]
            self._of["returned"] += np.bincount(number, returned[acks], room).astype(np.int64)
            self._of["last_return"][number] = returned[acks]

    def gap(self, direction: int) -> int:
        """Return the first row after a direction's last gap before the batch; 0: it has none."""
        return self._at("gap", direction)

    def heard(self, direction: int) -> int:
        """Return where a direction's last frame before the batch ends; -1: there was none."""
        return self._at("heard", direction)

    def time_ns(self, direction: int) -> int:
        """Return when a direction's last frame came; 0: there was none."""
        return self._at("time_ns", direction)

    def acked(self, direction: int) -> int:
        """Return how much of the other direction the sender had received by then; -1: not known."""
        return self._at("acked", direction)

    def streamed(self, connection: int) -> bool:
        """Tell whether anything was streamed on a connection before the batch."""
        sent = self._of["sent"]
        return connection < len(sent) and int(sent[connection]) > 0

    def free(self, connection: int, window: int) -> bool:
        """Tell whether a producer surely had room in its window, even before the last ack."""
        if window <= 0:
            return True
        sent, returned, last = (int(self._of[name][connection]) for name in _CONNECTIONS)
        return 0 <= sent - returned + last < window

    def _at(self, name: str, direction: int) -> int:
        column = self._of[name]
        return int(column[direction]) if direction < len(column) else _DIRECTIONS[name]

    def _grow(self, connections: int) -> None:
        known = len(self._of["sent"])
        if connections > known:
            more = max(connections, 2 * known) - known
            for columns, width in ((_DIRECTIONS, 2 * more), (_CONNECTIONS, more)):
                for name, empty in columns.items():
                    self._of[name] = np.r_[self._of[name], np.full(width, empty, np.int64)]
