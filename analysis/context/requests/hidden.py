"""What may have been said in the bytes of one direction that were not captured, and what settles that.

A loss hides requests of its sender and its answers to the other side. It is settled for requests as soon as one that
was sent after it is answered: a server carries out the requests of a connection one after the other, so all before
were answered by then. A connection whose open was not captured begins with a loss of unknown length.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from analysis.context import kinds
from dissector.spec.registry import HEADER_SIZE

_MOST = 4096  #: losses that are remembered; of more the first ones count as one
#: Requests that are carried out in the order in which they come.
_IN_ORDER = frozenset(
    (
        *(kinds.HELLO, kinds.OPEN, kinds.CONTROL, kinds.STREAM_REQUEST, kinds.CLOSE_STREAM),
        *(kinds.GET_FAILOVER_LOG,),
    )
)


def queue_of(opcode: int, opaque: int) -> tuple[int, ...]:
    """Return which requests are answered in the order in which they come: all that have the same."""
    if opcode in _IN_ORDER:
        return ()
    return (opcode,) if opcode == kinds.NOOP else (opcode, opaque)


@dataclass(slots=True, eq=False)
class HiddenBytes:
    """The losses of one direction."""

    row: int = 0  #: the first row after the last loss; 0: nothing was lost
    acked: int = -1  #: what its sender had received of the other side by then
    total: int = 0  #: bytes of all losses
    _begins: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _settled: dict[tuple[int, ...], int] = field(default_factory=dict)  #: by queue: offset of an answered request

    def add(self, begin: int, end: int, row: int, acked: int) -> None:
        """Take note of a loss; ``row`` is the frame after it, whose sender had received so much."""
        self.row, self.acked = row, max(acked, self.acked)
        self.total += max(end - begin, 0)
        self._begins.append(begin)
        self._ends.append(end)
        if len(self._begins) > _MOST:
            del self._begins[1], self._ends[0]

    def settle(self, opcode: int, opaque: int, offset: int) -> None:
        """Take note that a request of this direction, at this offset, was answered."""
        queue = queue_of(opcode, opaque)
        self._settled[queue] = max(offset, self._settled.get(queue, -1))
        if len(self._settled) > _MOST:
            del self._settled[next(iter(self._settled))]

    def settled(self, opcode: int, opaque: int) -> int:
        """Return the offset of the last request that was answered, of those that are answered in turn."""
        return self._settled.get(queue_of(opcode, opaque), -1)

    def may_hide(self, opcode: int, opaque: int, acked: int, *, begun: bool) -> bool:
        """Tell whether such a request, not answered yet, may be in what was lost and the other side had received.

        ``begun``: the beginning of the connection was captured.
        """
        settled = self.settled(opcode, opaque)
        if not begun and settled < 0:
            return True
        at = bisect_right(self._begins, acked - HEADER_SIZE) - 1
        return at >= 0 and self._ends[at] > settled

    def may_hold_answer(self, request_end: int) -> bool:
        """Tell whether the answer to a request of the other side may be in what was lost."""
        return self.acked >= request_end >= 0
