"""Captures in and out: pcap and pcapng files to packets, packets to pcap files.

Written for this purpose alone: it knows the link layers of the recordings, and writes everything as Ethernet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.support.soundness.packets import ACK, SYN, Connection, Packet, Packets

_WRAP = 1 << 32
_TCP_BYTES = 20
_TCP = 6
_Raw = tuple[int, bytes, int]  # time, bytes, link type


def read(path: Path) -> Packets:
    """Read all TCP packets of a file."""
    return read_bytes(path.read_bytes())


def read_bytes(data: bytes) -> Packets:
    """Read all TCP packets of a capture."""
    return number(list(_segments(records(data))))


def records(data: bytes) -> Iterator[_Raw]:
    """Go through the packets of a file."""
    return _pcapng(data) if data[:4] == b"\x0a\x0d\x0d\x0a" else _pcap(data)


def _pcap(data: bytes) -> Iterator[_Raw]:
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    unit = 1 if struct.unpack_from(order + "I", data)[0] == 0xA1B23C4D else 1000
    link = struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, size, _ = struct.unpack_from(order + "IIII", data, at)
        yield seconds * 10**9 + fraction * unit, data[at + 16 : at + 16 + size], link
        at += 16 + size


def _pcapng(data: bytes) -> Iterator[_Raw]:
    order, at = "<", 0
    interfaces: list[tuple[int, int]] = []  # link type, ticks per second
    while at + 12 <= len(data):
        kind = struct.unpack_from(order + "I", data, at)[0]
        if kind == 0x0A0D0D0A:
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            interfaces = []
        size = struct.unpack_from(order + "I", data, at + 4)[0]
        body = data[at + 8 : at + size - 4]
        if kind == 1:
            interfaces.append((struct.unpack_from(order + "H", body)[0], _ticks(order, body[8:])))
        elif kind == 6:
            interface, high, low, captured, _ = struct.unpack_from(order + "IIIII", body)
            link, ticks = interfaces[interface]
            yield (high << 32 | low) * 10**9 // ticks, body[20 : 20 + captured], link
        at += size


def _ticks(order: str, options: bytes) -> int:
    at = 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from(order + "HH", options, at)
        if code == 9:
            value = options[at + 4]
            return 1 << (value & 0x7F) if value & 0x80 else int(10**value)
        at += 4 + size + -size % 4
    return 10**6


def _network(data: bytes, link: int) -> bytes:
    """Return an IP packet without its link layer; empty where it is something else."""
    if link == 1:
        at = 12
        while data[at : at + 2] in (b"\x81\x00", b"\x88\xa8"):
            at += 4
        return data[at + 2 :] if data[at : at + 2] in (b"\x08\x00", b"\x86\xdd") else b""
    return data[{0: 4, 101: 0, 113: 16, 276: 20}[link] :]


def _segments(raw: Iterator[_Raw]) -> Iterator[tuple[int, bytes, bytes, bytes]]:
    """Yield time, addresses of sender and receiver, and TCP: its length in front, as a snap length may have cut it."""
    for time_ns, frame, link in raw:
        data = _network(frame, link)
        if len(data) < 20:
            continue
        if data[0] >> 4 == 4 and data[9] == _TCP:
            head, total = (data[0] & 15) * 4, struct.unpack_from(">H", data, 2)[0]
            # A length of 0 is that of a packet which the network card shall cut into pieces.
            yield time_ns, data[12:16], data[16:20], struct.pack(">I", (total or len(data)) - head) + data[head:]
        elif data[0] >> 4 == 6 and data[6] == _TCP:
            total = struct.unpack_from(">H", data, 4)[0]
            yield time_ns, data[8:24], data[24:40], struct.pack(">I", total or len(data) - 40) + data[40:]


def number(segments: Sequence[tuple[int, bytes, bytes, bytes]]) -> Packets:
    """Sort segments into connections, and give every byte its offset."""
    open_now: dict[tuple[bytes, int, bytes, int], _Numbering] = {}
    made: list[tuple[_Numbering, int, Packet]] = []
    count = 0
    for time_ns, source, target, tcp in segments:
        size = struct.unpack_from(">I", tcp)[0]
        from_port, to_port, seq, ack, room, flags = struct.unpack_from(">HHIIBB", tcp, 4)
        payload, length = tcp[4 + (room >> 4) * 4 :], size - (room >> 4) * 4
        ends, other = (source, from_port, target, to_port), (target, to_port, source, from_port)
        found = open_now.get(ends)
        if found is None or (flags & (SYN | ACK) == SYN and found.is_another(int(ends != found.ends), seq)):
            client = other if flags & (SYN | ACK) == SYN | ACK else ends
            found = open_now[ends] = open_now[other] = _Numbering(count, client)
            count += 1
        side = int(ends != found.ends)
        offset = found.place(side, seq, flags)
        acked = found.place(1 - side, ack, 0) if flags & ACK else None
        packet = Packet(_NOWHERE, side, offset, length, payload[:length], acked, flags, time_ns)
        made.append((found, side, packet))
    connections = {id(each): each.connection() for each, _, _ in made}
    return [replace(packet, connection=connections[id(each)]) for each, _, packet in made]


_NOWHERE = Connection(-1, (b"", b""), (0, 0), (0, 0))


class _Numbering:
    """Sequence numbers of a connection as offsets."""

    def __init__(self, index: int, ends: tuple[bytes, int, bytes, int]) -> None:
        self.index, self.ends = index, ends
        self.bases: dict[int, int] = {}
        self.newest = [0, 0]

    def is_another(self, side: int, isn: int) -> bool:
        """Tell whether a SYN opens another connection between the same ends."""
        return side in self.bases and self.bases[side] != (isn + 1) % _WRAP

    def place(self, side: int, seq: int, flags: int) -> int:
        """Return the offset of a sequence number, the one nearest to what came last."""
        first = (seq + 1) % _WRAP if flags & SYN else seq
        base = self.bases.setdefault(side, first)
        near = self.newest[side]
        offset = near + (seq - base - near + (1 << 31)) % _WRAP - (1 << 31)
        self.newest[side] = max(near, offset)
        return offset

    def connection(self) -> Connection:
        source, from_port, target, to_port = self.ends
        bases = (self.bases.get(0, 0), self.bases.get(1, 0))
        return Connection(self.index, (source, target), (from_port, to_port), bases)


def write(packets: Sequence[Packet]) -> bytes:
    """Write packets as a nanosecond pcap of Ethernet; checksums are left to a network card that is not there."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)]
    for packet in packets:
        head = _head(packet)
        seconds, fraction = divmod(packet.time_ns, 10**9)
        record = (head + packet.data)[: packet.snap]
        out.append(struct.pack("<IIII", seconds, fraction, len(record), len(head) + packet.length))
        out.append(record)
    return b"".join(out)


def _head(packet: Packet) -> bytes:
    link, side = packet.connection, packet.side
    source, target = link.addresses[side], link.addresses[1 - side]
    seq = (link.bases[side] + packet.offset) % _WRAP
    ack = 0 if packet.acked is None else (link.bases[1 - side] + packet.acked) % _WRAP
    ports = (link.ports[side], link.ports[1 - side])
    flags = packet.flags & ~ACK if packet.acked is None else packet.flags | ACK
    tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 5 << 4, flags, 65_535, 0, 0)
    size = _TCP_BYTES + packet.length
    if len(source) == 4:
        total = size + 20 if size + 20 < 1 << 16 else 0
        return (
            bytes(12)
            + b"\x08\x00"
            + struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0x4000, 64, 6, 0)
            + source
            + target
            + tcp
        )
    return bytes(12) + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, size, 6, 64) + source + target + tcp
