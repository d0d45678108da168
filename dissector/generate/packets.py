"""Segments as packets: Ethernet, VLAN or Linux cooked headers, IPv4 or IPv6, TCP, all with the right checksums.

Knows these headers, and packs them out of columns for thousands of segments at once: a packet costs less than a
microsecond. Must not know what the segments carry, or which file the packets go to.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from operator import add
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.generate.segments import SYN

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    import numpy.typing as npt

    from dissector.array_types import Longs
    from dissector.generate.segments import MadeSegment

    Heads = npt.NDArray[np.void]

IPV4, IPV6 = 4, 6
_ETHERTYPES = {IPV4: 0x0800, IPV6: 0x86DD}
_TCP_PROTOCOL = 6
_HOPS = 64
_VLAN = 100
_INCOMING, _OUTGOING = 0, 4  #: as Linux says of a cooked packet
#: A segment of at most 1,460 bytes, selective acknowledgement, windows times 128: twelve bytes.
_SYN_OPTIONS = bytes.fromhex("020405b4 01010402 01030307")
_MACS = ((0x0200, 0, 1), (0x0200, 0, 2))  #: locally administered, of the client and of the server

_LINK_FIELDS = {
    "ethernet": [("destination_mac", ">u2", 3), ("source_mac", ">u2", 3), ("ethertype", ">u2")],
    "vlan": [
        ("destination_mac", ">u2", 3),
        ("source_mac", ">u2", 3),
        ("tag", ">u2"),
        ("vlan", ">u2"),
        ("ethertype", ">u2"),
    ],
    "sll2": [
        ("ethertype", ">u2"),
        ("unused", ">u2"),
        ("interface", ">u4"),
        ("hardware", ">u2"),
        ("kind", "u1"),
        ("address_length", "u1"),
        ("address", ">u2", 4),
    ],
}
LINKS = tuple(_LINK_FIELDS)
LINKTYPES = {"ethernet": 1, "vlan": 1, "sll2": 276}
_IP_FIELDS = {
    IPV4: [
        ("version", ">u2"),
        ("total_length", ">u2"),
        ("identification", ">u2"),
        ("fragment", ">u2"),
        ("hops", "u1"),
        ("protocol", "u1"),
        ("ip_checksum", ">u2"),
        ("source", "u1", 4),
        ("destination", "u1", 4),
    ],
    IPV6: [
        ("version", ">u4"),
        ("total_length", ">u2"),  # of what follows this header
        ("protocol", "u1"),
        ("hops", "u1"),
        ("source", "u1", 16),
        ("destination", "u1", 16),
    ],
}
_TCP_FIELDS = [
    ("source_port", ">u2"),
    ("destination_port", ">u2"),
    ("seq", ">u4"),
    ("ack", ">u4"),
    ("data_offset", "u1"),
    ("flags", "u1"),
    ("window", ">u2"),
    ("tcp_checksum", ">u2"),
    ("urgent", ">u2"),
]
_TCP_BYTES = 20
_IP_BYTES = {IPV4: 20, IPV6: 40}


@dataclass(frozen=True, slots=True)
class Ends:
    """Addresses, ports and initial sequence numbers of a connection, the client's first."""

    addresses: tuple[bytes, bytes]
    ports: tuple[int, int]
    isns: tuple[int, int]

    @property
    def version(self) -> int:
        """Return the version of IP."""
        return IPV4 if len(self.addresses[0]) == 4 else IPV6


def ends_of(
    addresses: tuple[str, str], ports: tuple[int, int], chance: random.Random, *, version: int | None, wrap: int | None
) -> Ends:
    """Find sequence numbers by chance; with ``wrap`` the server's go round after so many bytes."""
    client, server = chance.getrandbits(32), chance.getrandbits(32)
    if wrap is not None:
        server = (-1 - wrap) % 2**32
    first, second = (_packed(address, version) for address in addresses)
    return Ends((first, second), ports, (client, server))


def _packed(address: str, version: int | None) -> bytes:
    packed = ip_address(address).packed
    if version == IPV6 and len(packed) == 4:
        return bytes.fromhex("fd00") + bytes(10) + packed
    if version == IPV4 and len(packed) == 16:
        return bytes((10, *packed[-3:]))
    return packed


class Packed(NamedTuple):
    """Packets, and where they were recorded."""

    packets: list[bytes]
    interfaces: Longs
    head_bytes: Longs  #: in front of the TCP payload


class Packer:
    """Makes packets of segments. With two links, each side's packets are recorded on one of its own."""

    def __init__(self, ends: Sequence[Ends], links: Sequence[str]) -> None:
        self._links = links
        self._packets = 0
        flows = [(each, side) for each in ends for side in (0, 1)]
        self._interfaces = np.array([side % len(links) for _, side in flows], np.int64)
        self._versions = np.array([each.version for each, _ in flows], np.int64)
        self._first_seq = np.array([each.isns[side] for each, side in flows], np.int64)
        self._row = np.zeros(len(flows), np.int64)  #: place of a flow's template among those of its form
        self._templates: dict[tuple[int, int], Heads] = {}
        for interface, link in enumerate(links):
            for version in (IPV4, IPV6):
                mine = np.flatnonzero((self._interfaces == interface) & (self._versions == version))
                if len(mine):
                    self._row[mine] = np.arange(len(mine))
                    chosen = [flows[index] for index in mine.tolist()]
                    self._templates[interface, version] = _template(link, version, interface, chosen)

    def pack(self, segments: Sequence[MadeSegment]) -> Packed:
        """Make packets."""
        flow, offset, acked, flags, data, _ = zip(*segments, strict=True)
        flows, flag = np.array(flow, np.int64), np.array(flags, np.int64)
        payloads: list[bytes] = list(data)
        for place in np.flatnonzero(flag & SYN).tolist():
            payloads[place] = _SYN_OPTIONS + payloads[place]
        lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
        seq = self._first_seq[flows] + 1 + np.array(offset, np.int64)
        # Only the first SYN acknowledges nothing.
        ack = np.where(flag & 0x10, self._first_seq[flows ^ 1] + 1 + np.array(acked, np.int64), 0)
        sums = _sums(payloads)
        packets = [b""] * len(payloads)
        head_bytes = np.zeros(len(payloads), np.int64)
        for (interface, version), template in self._templates.items():
            mine = np.flatnonzero((self._interfaces[flows] == interface) & (self._versions[flows] == version))
            if not len(mine):
                continue
            heads = template[self._row[flows[mine]]]
            heads["seq"], heads["ack"], heads["flags"] = seq[mine] % 2**32, ack[mine] % 2**32, flag[mine]
            options = np.where(flag[mine] & SYN, len(_SYN_OPTIONS), 0)
            heads["data_offset"] = (_TCP_BYTES + options) // 4 << 4
            _complete(heads, version, lengths[mine], sums[mine], self._packets + mine)
            size = heads.dtype.itemsize
            head_bytes[mine] = size + options
            raw = heads.tobytes()
            rows = [raw[start : start + size] for start in range(0, len(raw), size)]
            if len(mine) == len(packets):  # all are of one form, as in every large capture
                packets = list(map(add, rows, payloads))
            else:
                for row, place in zip(rows, mine.tolist(), strict=True):
                    packets[place] = row + payloads[place]
        self._packets += len(packets)
        return Packed(packets, self._interfaces[flows], head_bytes)


def _template(link: str, version: int, interface: int, flows: Sequence[tuple[Ends, int]]) -> Heads:
    """Return the headers of flows, with everything that never changes."""
    heads = np.zeros(len(flows), np.dtype([*_LINK_FIELDS[link], *_IP_FIELDS[version], *_TCP_FIELDS]))
    heads["ethertype"], heads["hops"], heads["protocol"] = _ETHERTYPES[version], _HOPS, _TCP_PROTOCOL
    heads["version"] = 0x4500 if version == IPV4 else IPV6 << 28
    heads["window"] = 0xFFFF
    if version == IPV4:
        heads["fragment"] = 0x4000
    if link == "vlan":
        heads["tag"], heads["vlan"] = 0x8100, _VLAN
    if link == "sll2":
        heads["interface"], heads["hardware"], heads["address_length"] = interface + 1, 1, 6
    for row, (ends, side) in enumerate(flows):
        heads["source"][row] = np.frombuffer(ends.addresses[side], np.uint8)
        heads["destination"][row] = np.frombuffer(ends.addresses[1 - side], np.uint8)
        heads["source_port"][row], heads["destination_port"][row] = ends.ports[side], ends.ports[1 - side]
        if link == "sll2":
            heads["kind"][row] = _INCOMING if side else _OUTGOING
            heads["address"][row] = (*_MACS[side], 0)
        else:
            heads["source_mac"][row], heads["destination_mac"][row] = _MACS[side], _MACS[1 - side]
    return heads


def _complete(heads: Heads, version: int, lengths: Longs, sums: Longs, number: Longs) -> None:
    """Fill in lengths and checksums."""
    total = lengths + _TCP_BYTES
    rows = heads.view(np.uint8).reshape(len(heads), heads.dtype.itemsize)
    ip = heads.dtype.itemsize - _TCP_BYTES - _IP_BYTES[version]
    heads["total_length"] = total + (_IP_BYTES[IPV4] if version == IPV4 else 0)
    if version == IPV4:
        heads["identification"] = number & 0xFFFF
        heads["ip_checksum"] = _folded(_words(rows[:, ip : ip + _IP_BYTES[IPV4]])) ^ 0xFFFF
    # The addresses stand directly in front of the TCP header: with length and protocol they are its pseudo header.
    addresses = ip + (12 if version == IPV4 else 8)
    heads["tcp_checksum"] = _folded(_words(rows[:, addresses:]) + total + _TCP_PROTOCOL + sums) ^ 0xFFFF


def _words(rows: npt.NDArray[np.uint8]) -> Longs:
    """Add up the 16-bit words of each row."""
    total: Longs = np.ascontiguousarray(rows).view(">u2").sum(axis=1, dtype=np.int64)
    return total


def _folded(total: Longs) -> Longs:
    """Make sums of 16-bit words ones'-complement sums."""
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _sums(payloads: Sequence[bytes]) -> Longs:
    """Return the ones'-complement sum of each payload."""
    padded = [data + bytes(-len(data) % 4 or (0 if data else 4)) for data in payloads]
    sizes = np.fromiter(map(len, padded), np.int64, len(padded)) // 4
    # Adding 32 bits at a time, and in the machine's order, gives the same sum with its two bytes swapped.
    words = np.frombuffer(b"".join(padded), "<u4")
    total = np.add.reduceat(words, np.cumsum(sizes) - sizes, dtype=np.int64)
    total = _folded((total & 0xFFFFFFFF) + (total >> 32))
    return (total >> 8) | (total & 0xFF) << 8
