"""Until when connections were there: their FIN or reset, or else the end of the capture.

Knows connections that are over, and times of frames; must not know what for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dissector.tcp.connections import Connection


class ConnectionEnd(NamedTuple):
    """What packets tell of a connection once it is over; numbers are by direction."""

    last_ns: int
    closed: bool  #: by a FIN or a reset; otherwise the capture ends first
    gaps: tuple[int, int]
    lost: tuple[int, int]  #: bytes that are not in the capture
    there: tuple[int, int]  #: bytes that are


class ConnectionEnds:
    """The ends of all connections that have frames. Rows of frames do not tell them: there the last frame counts."""

    def __init__(self) -> None:
        self.by_id: dict[str, ConnectionEnd] = {}
        self.last_ns = 0  #: of all frames, and of the packets of connections that have frames

    def end(self, connection: Connection) -> None:
        """Take a connection that is over."""
        if not any(framer.frames for framer in connection.framers):
            return
        (client, server), last_ns = connection.directions, connection.last_ns
        self.by_id[connection.id] = ConnectionEnd(
            last_ns,
            connection.reset or client.finished or server.finished,
            (client.gaps, server.gaps),
            (client.bytes_lost, server.bytes_lost),
            (client.bytes_delivered, server.bytes_delivered),
        )
        self.see(last_ns)

    def see(self, time_ns: int) -> None:
        """Take the time of a frame."""
        self.last_ns = max(self.last_ns, time_ns)

    def end_ns(self, name: str) -> int:
        """Return until when the connection with this id was there."""
        end = self.by_id.get(name)
        return end.last_ns if end is not None and end.closed else self.last_ns
