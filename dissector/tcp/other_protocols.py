"""What connections speak that is not memcached's binary protocol: a guess by the first bytes of each direction.

It is a hint for people, and decides nothing. Knows bytes and ports.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.tcp.connections import Connection

TLS, HTTP, TEXT, SSH, UNKNOWN, SILENT = "TLS", "HTTP", "memcached's text protocol", "SSH", "another protocol", "no data"
#: So much of a direction is looked at.
OPENING_BYTES = 16
_TLS_HEADER = 5
_TLS_TYPES = range(0x14, 0x18)  #: change cipher spec, alert, handshake, application data
_TLS_MAJOR, _TLS_MINORS = 3, range(5)
_TLS_LONGEST = (1 << 14) + 2048  #: bytes of a record
_SIGNS = (
    (HTTP, re.compile(rb"HTTP/1\.|PRI \* HTTP|(GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH|CONNECT) [/*a-z]")),
    (
        TEXT,
        re.compile(
            rb"(gets?|set|add|replace|append|prepend|cas|delete|incr|decr|touch|stats|version|flush_all)[ \r]"
            rb"|VALUE |STAT |STORED\r|NOT_STORED\r|END\r|ERROR\r|VERSION "
        ),
    ),
    (SSH, re.compile(rb"SSH-[12]\.")),
)


def protocol_of(openings: Sequence[bytes]) -> str:
    """Return what a connection speaks, by the first bytes of its directions."""
    there = [opening for opening in openings if opening]
    if not there:
        return SILENT
    return next((found for opening in there if (found := _guess(opening)) != UNKNOWN), UNKNOWN)


def _guess(opening: bytes) -> str:
    if (
        len(opening) >= _TLS_HEADER
        and opening[0] in _TLS_TYPES
        and opening[1] == _TLS_MAJOR
        and opening[2] in _TLS_MINORS
        and 0 < int.from_bytes(opening[3:_TLS_HEADER], "big") <= _TLS_LONGEST
    ):
        return TLS
    return next((name for name, sign in _SIGNS if sign.match(opening)), UNKNOWN)


_MOST_PORTS = 256  #: of a protocol, that are told apart
_SHOWN_PORTS = 4
_OTHERS = 0  #: in place of further ports
_NOT_DECRYPTED = "TLS is not decrypted: capture a port without it, such as 11210"


@dataclass(slots=True)
class OtherProtocols:
    """Connections without frames: how many speak what, by the port of the server."""

    ports: dict[str, Counter[int]] = field(default_factory=dict)

    def add(self, connection: Connection) -> None:
        """Add a connection that is over and has no frames."""
        openings = [framer.opening for framer in connection.framers]
        if connection.ignored and not any(openings):
            return  # it was to be left alone, so nothing of it was looked at
        found = self.ports.setdefault(protocol_of(openings), Counter())
        port = _server_port(connection)
        found[port if port in found or len(found) < _MOST_PORTS else _OTHERS] += 1

    def sentence(self) -> str:
        """Say what there is; empty if there is nothing."""
        order = sorted(self.ports, key=lambda name: (name in (UNKNOWN, SILENT), name != TLS, -self.ports[name].total()))
        text = "; ".join(_told(name, self.ports[name]) for name in order)
        return f"{text}. {_NOT_DECRYPTED}" if TLS in self.ports else text


def _told(name: str, ports: Counter[int]) -> str:
    listed = [str(port) for port, _ in ports.most_common(_SHOWN_PORTS) if port != _OTHERS]
    if len(ports) > len(listed):
        listed.append("…")
    plural = "s" if ports.total() > 1 else ""
    on = f"port{'s' if len(ports) > 1 else ''} {', '.join(listed)}"
    return f"{name} on {on} ({ports.total():,} connection{plural})"


def _server_port(connection: Connection) -> int:
    """Return the port of the side that was called; without a handshake, the lower one: clients have high ones."""
    flow = connection.flow(0)
    if any(direction.isn is not None for direction in connection.directions):
        return flow.destination_port
    return min(flow.source_port, flow.destination_port)
