"""How long a live reading waits: for bytes that were not captured, and for what may still come of a closed connection.

A finished capture is read to its end, so nothing is lost by waiting there, and its rows are the same by way of a pipe.
Who watches what happens now can't wait for days, and must not run out of memory meanwhile. Goes by the times of packets
once that is decided, so that what is shown does not depend on when it was looked at.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dissector.tcp.connections import Connection, Connections

SECOND_NS = 10**9
#: Bytes that their receiver has acknowledged are not sent again. Taps and queues may bring packets in another order.
HOLE_NS = SECOND_NS // 5
LINGER_NS = 60 * SECOND_NS  #: what is sent again after both ends have closed comes sooner
_SWEEP_NS = 10 * SECOND_NS
NOW_NS = 600 * SECOND_NS  #: clocks of machines may be apart


def is_now(time_ns: int) -> bool:
    """Tell whether a packet of this time is one of now: one of a recording that is only passed on is older."""
    return abs(time.time_ns() - time_ns) <= NOW_NS


class Patience:
    """Gives up holes that the receiver does not have, and ends connections that are closed."""

    def __init__(self) -> None:
        self._swept_ns = 0

    def give_up_holes(self, connections: Connections, connection: Connection, now_ns: int) -> None:
        """Give up the holes of a connection that were acknowledged a while ago: the capture missed their bytes."""
        for side, direction in enumerate(connection.directions):
            if not direction.held:
                direction.passed = None
                continue
            received = connection.directions[1 - side].acked
            if direction.passed is None:
                if received >= direction.held[0].offset:
                    direction.passed = received, now_ns
                continue
            until, since_ns = direction.passed
            if now_ns - since_ns >= HOLE_NS:
                direction.passed = None
                while direction.held and direction.held[0].offset <= until:
                    connections.give_up_hole(connection, side)

    def end_closed(self, connections: Connections, now_ns: int) -> None:
        """End what has been closed for long and has no bytes left: no frame can come of ending it."""
        if abs(now_ns - self._swept_ns) < _SWEEP_NS:
            return
        self._swept_ns = now_ns
        for connection in [*connections.recent.values()]:
            if now_ns - connection.last_ns > LINGER_NS and _is_closed(connection):
                connections.end(connection)


def _is_closed(connection: Connection) -> bool:
    """Tell whether both ends said that it is over, and everything they sent has been read."""
    directions = connection.directions
    closed = connection.reset or all(direction.finished for direction in directions)
    held = any(direction.held for direction in directions) or any(framer.cost for framer in connection.framers)
    return closed and not held
