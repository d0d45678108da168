"""Capture files written out by hand, for the other capture tests, and checked here against scapy's and dpkt's readers.

Everything is packed with ``struct`` in the open: what these functions write is what the file formats' documents say,
not what the package under test thinks.
"""

from __future__ import annotations

import hashlib
import io
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dpkt
import pytest
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader, RawPcapReader

from dissector.capture import CaptureReader, Damage, PacketBlock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BASE_S = 1_700_000_000
BASE_NS = BASE_S * 10**9
SIZES = (64, 65, 100, 333, 4096, 1 << 20)


@dataclass(frozen=True)
class Packet:
    """What goes in and must come out."""

    time_ns: int
    data: bytes
    original: int
    linktype: int = 1
    interface: int = 0


def packets_of(count: int, size: int = 40, step_ns: int = 1_000_000) -> list[Packet]:
    """Make packets that are all different."""
    return [
        Packet(BASE_NS + i * step_ns, bytes((i * 31 + j * 7) % 251 for j in range(size + i)), size + i + 5)
        for i in range(count)
    ]


def noise(seed: int, size: int) -> bytes:
    """Return bytes without any pattern, the same every time."""
    return hashlib.shake_128(seed.to_bytes(8, "big")).digest(size)


def pcap_header(order: str = "<", magic: int = 0xA1B2C3D4, snaplen: int = 65535, network: int = 1) -> bytes:
    return struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snaplen, network)


def pcap_record(packet: Packet, order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    ticks = packet.time_ns % 10**9 // (1 if magic == 0xA1B23C4D else 1000)
    header = struct.pack(f"{order}IIII", packet.time_ns // 10**9, ticks, len(packet.data), packet.original)
    patch = struct.pack(f"{order}IHBx", 7, 0x800, 4) if magic == 0xA1B2CD34 else b""
    return header + patch + packet.data


def pcap_file(packets: Iterable[Packet], order: str = "<", magic: int = 0xA1B2C3D4, snaplen: int = 65535) -> bytes:
    records = [pcap_record(packet, order, magic) for packet in packets]
    return b"".join([pcap_header(order, magic, snaplen), *records])


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    padded = body + bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", 12 + len(padded))
    return struct.pack(f"{order}I", kind) + length + padded + length


def section(order: str = "<", claimed: int = -1) -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, claimed), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def interface(linktype: int = 1, snaplen: int = 65535, options: bytes = b"", order: str = "<") -> bytes:
    end = option(0, b"", order) if options else b""
    return block(1, struct.pack(f"{order}HHI", linktype, 0, snaplen) + options + end, order)


def epb(data: bytes, ticks: int, original: int, number: int = 0, order: str = "<", options: bytes = b"") -> bytes:
    fixed = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original)
    return block(6, fixed + data + bytes(-len(data) % 4) + options, order)


def old_packet(data: bytes, ticks: int, original: int, number: int = 0, order: str = "<") -> bytes:
    fixed = struct.pack(f"{order}HHIIII", number, 0xDEAD, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original)
    return block(2, fixed + data, order)


def simple_packet(data: bytes, original: int, order: str = "<") -> bytes:
    return block(3, struct.pack(f"{order}I", original) + data, order)


def pcapng_file(packets: Iterable[Packet], order: str = "<") -> bytes:
    """One section, one interface, microseconds."""
    blocks = [epb(p.data, p.time_ns // 1000, p.original, order=order) for p in packets]
    return b"".join([section(order), interface(order=order), *blocks])


@dataclass(frozen=True)
class Outcome:
    """Everything a capture gives, without its division into blocks."""

    packets: list[Packet]
    damage: list[Damage]


def check_block(each: PacketBlock, packets_before: int) -> None:
    """Hold a block to its contract."""
    columns = (each.offset, each.captured, each.original, each.time_ns, each.linktype, each.interface)
    assert [str(c.dtype) for c in columns] == ["int64"] * 4 + ["int32"] * 2
    assert {len(c) for c in columns} == {len(each)}
    assert len(each) > 0
    assert each.first_number == packets_before + 1
    assert each.buffer.dtype == "uint8"
    assert int((each.offset + each.captured).max()) + 256 <= len(each.buffer)


def read_all(data: bytes, chunk_bytes: int = 1 << 20) -> Outcome:
    """Read a whole capture; every block is looked at only after the last one was made."""
    reader = CaptureReader(io.BytesIO(data), 3, chunk_bytes, "made")
    blocks = []
    count = 0
    position = 0
    for each in reader:
        check_block(each, count)
        assert position < each.end_position
        assert each.capture == 3
        position = each.end_position
        count += len(each)
        blocks.append(each)
        assert reader.packets == count
    packets = [
        Packet(int(b.time_ns[i]), b.packet(i), int(b.original[i]), int(b.linktype[i]), int(b.interface[i]))
        for b in blocks
        for i in range(len(b))
    ]
    return Outcome(packets, reader.damage)


def reasons(outcome: Outcome) -> list[str]:
    return [str(each.reason) for each in outcome.damage]


def boundaries(start: int, pieces: Sequence[bytes]) -> list[int]:
    """Return where each piece ends."""
    ends = [start]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    return ends


@st.composite
def some_packets(draw: st.DrawFn, least: int = 0) -> list[Packet]:
    """Draw packets whose times fit every resolution that the containers have."""
    out = []
    for data in draw(st.lists(st.binary(max_size=300), min_size=least, max_size=12)):
        time_ns = BASE_NS + draw(st.integers(0, 10**9)) * 1000
        out.append(Packet(time_ns, data, len(data) + draw(st.integers(0, 2000))))
    return out


def scapy_pcapng(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Read with scapy: time, link type, original length and bytes of each packet."""
    reader: Any = RawPcapNgReader  # its annotations know files only, and none of what it adds to a packet
    return [
        (((m.tshigh << 32) + m.tslow) * 10**9 // m.tsresol, m.linktype, m.wirelen, bytes(p))
        for p, m in reader(io.BytesIO(data))
    ]


# The builders themselves, against other people's readers.


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_scapy_and_dpkt_read_the_hand_made_pcap(order: str, magic: int) -> None:
    packets = packets_of(20)
    data = pcap_file(packets, order, magic)
    reader: Any = RawPcapReader
    scapy = [(bytes(p), m.sec, m.usec, m.wirelen) for p, m in reader(io.BytesIO(data))]
    unit = 1 if magic == 0xA1B23C4D else 1000
    assert scapy == [(p.data, p.time_ns // 10**9, p.time_ns % 10**9 // unit, p.original) for p in packets]
    assert [bytes(b) for _, b in dpkt.pcap.Reader(io.BytesIO(data))] == [p.data for p in packets]


@pytest.mark.parametrize("order", ["<", ">"])
def test_scapy_reads_the_hand_made_pcapng(order: str) -> None:
    packets = packets_of(20)
    assert scapy_pcapng(pcapng_file(packets, order)) == [(p.time_ns, 1, p.original, p.data) for p in packets]
