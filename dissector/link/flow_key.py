"""The exact key of one direction of a TCP connection, as 37 bytes.

Byte 0 is the IP version, then 16 bytes source address, 16 bytes destination address, 2 bytes each of source and
destination port, all in network order. An IPv4 address stands in the first 4 of its 16 bytes, the rest is zero; the
version keeps the two families apart. The key is the identity itself, not a hash of it, so two flows never collide.

VLAN tags, MPLS labels and tunnel ids are not part of the key. The same connection seen before and after a router or on
both sides of a tunnel is one flow whose segments come twice; two tenants that use the same private addresses in
different VLANs at the same ports would be mixed, which a capture of one cluster does not contain.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dissector.array_types import Bytes

KEY_BYTES = 37
_PORTS = struct.Struct(">HH")


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of a connection in readable form."""

    source: str
    source_port: int
    destination: str
    destination_port: int


def flow_key(source: bytes, destination: bytes, source_port: int, destination_port: int) -> bytes:
    """Return the key for two addresses of 4 or of 16 bytes."""
    version = b"\x04" if len(source) == 4 else b"\x06"
    ports = _PORTS.pack(source_port, destination_port)
    return version + source.ljust(16, b"\0") + destination.ljust(16, b"\0") + ports


def flow_keys(rows: Bytes) -> list[bytes]:
    """Return the keys for many rows of source address, destination address and ports, as headers have them."""
    count, width = rows.shape
    size = (width - 4) // 2
    table = np.zeros((count, KEY_BYTES), np.uint8)
    table[:, 0] = 4 if size == 4 else 6
    table[:, 1 : 1 + size] = rows[:, :size]
    table[:, 17 : 17 + size] = rows[:, size : 2 * size]
    table[:, 33:] = rows[:, 2 * size :]
    joined = table.tobytes()
    return [joined[start : start + KEY_BYTES] for start in range(0, len(joined), KEY_BYTES)]


def reverse_key(key: bytes) -> bytes:
    """Return the key of the other direction."""
    return key[:1] + key[17:33] + key[1:17] + key[35:37] + key[33:35]


def flow_of(key: bytes) -> Flow:
    """Return the addresses and ports that a key stands for."""
    source_port, destination_port = _PORTS.unpack(key[33:])
    if key[0] == 4:
        return Flow(str(IPv4Address(key[1:5])), source_port, str(IPv4Address(key[17:21])), destination_port)
    return Flow(str(IPv6Address(key[1:17])), source_port, str(IPv6Address(key[17:33])), destination_port)
