"""Captures damaged on purpose, at four levels, and the comparison of both readers on them.

A case is made from a level and a seed alone, so that a failure is repeated by its name. Containers are damaged as
bytes; packets in the header fields of IP and TCP, or on links of other kinds; TCP in its numbers, flags and order;
frames before they are put into sound packets again. What the readers make of a case is judged by their agreement: the
plain path reads one packet and one frame at a time and knows nothing of chunks.
"""

from __future__ import annotations

import functools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dissector.capture import CaptureReader, Input
from dissector.frames.reader import FrameReader
from dissector.frames.reference_reader import ReferenceReader
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions, ReadReport
from dissector.spec.model import Dialect
from dissector.tcp.limits import Limits
from dissector.tcp.ports import Ports
from tests.support import paths
from tests.support.tcp_by_hand import CLIENT, Conversation, Ends, Message, ReaderClass, pcap

CAPTURES = sorted(paths.CAPTURES.glob("*.pcap*"))
CHUNKS = (700, 5_000, 1 << 20)
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ETHERNET, COOKED, NFLOG, PKTAP, CISCO_HDLC = 1, 276, 239, 258, 104
_IP_AT = {ETHERNET: 14, COOKED: 20}


@dataclass(frozen=True)
class Packet:
    """A captured packet, and where its headers are."""

    time_ns: int
    data: bytes
    original: int
    ip_at: int

    @property
    def version(self) -> int:
        """Return the version that the IP header states."""
        return self.data[self.ip_at] >> 4

    @property
    def tcp_at(self) -> int:
        """Return where TCP starts: the recordings have neither tunnels nor extension headers."""
        return self.ip_at + (40 if self.version == 6 else (self.data[self.ip_at] & 15) * 4)

    @property
    def payload_at(self) -> int:
        """Return where TCP's payload starts."""
        return self.tcp_at + (self.data[self.tcp_at + 12] >> 4) * 4

    @property
    def ends(self) -> bytes:
        """Return addresses and ports of its connection, the same for both directions."""
        at, size = self.ip_at, 16 if self.version == 6 else 4
        start = at + (8 if size == 16 else 12)
        source = self.data[start : start + size] + self.data[self.tcp_at : self.tcp_at + 2]
        other = self.data[start + size : start + 2 * size] + self.data[self.tcp_at + 2 : self.tcp_at + 4]
        return min(source, other) + max(source, other)

    def number(self, at: int, size: int) -> int:
        """Return a big-endian number of the TCP header."""
        return int.from_bytes(self.data[self.tcp_at + at : self.tcp_at + at + size], "big")

    def patched(self, at: int, patch: bytes) -> Packet:
        """Return it with other bytes from an offset on, never longer than it was."""
        patch = patch[: max(len(self.data) - at, 0)]
        return replace(self, data=self.data[:at] + patch + self.data[at + len(patch) :])

    def with_number(self, at: int, size: int, value: int) -> Packet:
        """Return it with another number in the TCP header."""
        return self.patched(self.tcp_at + at, (value % (1 << 8 * size)).to_bytes(size, "big"))


@dataclass(frozen=True)
class Case:
    """Captures to read, and how."""

    name: str
    captures: tuple[bytes, ...]
    options: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class Outcome:
    """What a reader made of a case."""

    rows: pa.Table
    report: dict[str, Any]


@functools.cache
def packets_of(path: Path) -> tuple[int, tuple[Packet, ...]]:
    """Return link type and packets of a recording."""
    found: list[Packet] = []
    linktype = ETHERNET
    for block in CaptureReader(Input(path.name, path)):
        linktype = int(block.linktype[0])
        for index in range(len(block)):
            original = int(block.original[index])
            found.append(Packet(int(block.time_ns[index]), block.packet(index), original, _IP_AT[linktype]))
    return linktype, tuple(found)


def write_pcap(linktype: int, packets: Sequence[Packet]) -> bytes:
    """Write a nanosecond pcap file."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, linktype)]
    for packet in packets:
        seconds, nanoseconds = divmod(packet.time_ns, 10**9)
        out += (struct.pack("<IIII", seconds, nanoseconds, len(packet.data), packet.original), packet.data)
    return b"".join(out)


def write_pcapng(linktype: int, packets: Sequence[Packet]) -> bytes:
    """Write a pcapng file with a nanosecond clock."""
    out = [
        pcapng_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        pcapng_block(1, struct.pack("<HHI", linktype, 0, 0) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)),
    ]
    for packet in packets:
        numbers = (0, packet.time_ns >> 32, packet.time_ns & 0xFFFFFFFF, len(packet.data), packet.original)
        padding = bytes(-len(packet.data) % 4)
        out.append(pcapng_block(6, struct.pack("<5I", *numbers) + packet.data + padding))
    return b"".join(out)


def pcapng_block(kind: int, body: bytes) -> bytes:
    """Write one block."""
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


# -------------------------------------------------------------------------------------------------------- comparison


def read(case: Case, reader_class: ReaderClass, chunk_bytes: int) -> Outcome:
    """Read a case to its end."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = []
        for index, data in enumerate(case.captures):
            path = Path(folder, f"{index}.pcap")
            path.write_bytes(data)
            inputs.append(Input(path.name, path))
        reader = reader_class(inputs, replace(case.options, chunk_bytes=chunk_bytes))
        rows = pa.Table.from_batches(list(reader), SCHEMA)
    return Outcome(rows, told(reader.report))


def told(report: ReadReport) -> dict[str, Any]:
    """Return everything that a report says."""
    return {
        "link": report.link.as_dict(),
        "damage": [str(damage) for damage in report.damage],
        "given_up": dict(report.given_up),
        "connections": (report.connections, report.connections_ignored),
        "frames": report.frames,
        "bytes": (report.bytes_lost, report.bytes_skipped, report.bytes_repeated, report.bytes_conflicting),
    }


def disagreement(case: Case, chunks: Sequence[int] = CHUNKS) -> str | None:
    """Read a case both ways and in several chunk sizes; tell the first difference, or None."""
    plain = read(case, ReferenceReader, chunks[-1])
    readings: list[tuple[ReaderClass, int]] = [(FrameReader, chunk) for chunk in chunks]
    for reader_class, chunk in [*readings, (ReferenceReader, chunks[0])]:
        found = read(case, reader_class, chunk)
        where = f"{case.name}, {getattr(reader_class, '__name__', reader_class)} in chunks of {chunk}"
        if found.report != plain.report:
            told_both = [(name, plain.report[name], found.report[name]) for name in plain.report]
            return f"{where}: {[entry for entry in told_both if entry[1] != entry[2]]}"
        if not found.rows.equals(plain.rows):
            return f"{where}: {_first_difference(plain.rows, found.rows)}"
    return None


def _first_difference(one: pa.Table, other: pa.Table) -> str:
    if one.num_rows != other.num_rows:
        return f"{one.num_rows} rows and {other.num_rows}"
    for first, second in zip(one.to_pylist(), other.to_pylist(), strict=True):
        if first != second:
            return f"frame {first['frame']}: " + str(
                {name: (first[name], second[name]) for name in first if first[name] != second[name]}
            )
    return "nothing in the rows, but not equal"


# ------------------------------------------------------------------------------------------------------------- cases

Mutate = Callable[[random.Random, list[Packet]], list[Packet]]


def case_of(level: str, seed: int) -> Case:
    """Make the case of a level with this number."""
    rng = random.Random(f"{level} {seed}")  # noqa: S311 - repeatable, not secret
    return Case(f"{level} {seed}", tuple(LEVELS[level](rng)), _options(rng))


def _options(rng: random.Random) -> ReadOptions:
    limits = Limits()
    if rng.random() < 0.4:
        limits = Limits(
            out_of_order_bytes=rng.choice((600, 4_000, 16 << 20)),
            out_of_order_total=rng.choice((900, 9_000, 64 << 20)),
            connections=rng.choice((1, 2, 5, 65_536)),
            frame_bytes=rng.choice((200, 3_000, 32 << 20)),
            partial_total=rng.choice((50, 2_000, 96 << 20)),
            search_bytes=rng.choice((100, 5_000, 32 << 20)),
        )
    ports = Ports.parse(["12000", "12001"]) if rng.random() < 0.3 else Ports.parse()
    dialect = rng.choice(list(Dialect)) if rng.random() < 0.1 else None
    return ReadOptions(
        limits=limits,
        ports=ports,
        dialect=dialect,
        values=rng.random() < 0.2,
        withhold_secrets=rng.random() < 0.8,
        separate=rng.random() < 0.1,
    )


def _some_packets(rng: random.Random, most: int = 160) -> tuple[int, list[Packet]]:
    """Return a stretch of a recording, one that starts at its beginning half of the time."""
    linktype, packets = packets_of(rng.choice(CAPTURES))
    count = rng.randint(10, most)
    start = 0 if rng.random() < 0.5 else rng.randrange(len(packets))
    return linktype, list(packets[start : start + count])


def _files(rng: random.Random, linktype: int, packets: Sequence[Packet]) -> list[bytes]:
    """Write packets to one file, or to a ring of them."""
    write = write_pcapng if rng.random() < 0.3 else write_pcap
    if rng.random() < 0.15 and len(packets) > 3:
        cut = rng.randrange(1, len(packets))
        return [write(linktype, packets[:cut]), write(linktype, packets[cut:])]
    return [write(linktype, packets)]


def container_level(rng: random.Random) -> list[bytes]:
    """Damage the bytes of a file behind its first few: those say what it is at all."""
    linktype, packets = _some_packets(rng)
    data = bytearray(rng.choice((write_pcap, write_pcapng))(linktype, packets))
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at = rng.randrange(12, max(len(data), 13))
        size = rng.choice((1, 2, 4, 16, 200, 3_000))
        kind = rng.randrange(7)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[at:at] = rng.randbytes(size)
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            data[at:at] = data[at : at + size]
        elif kind == 5:
            data[at : at + size] = bytes(len(data[at : at + size]))
        else:
            data[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x80", b"\xff\xff\xff\x7f"))
    return [bytes(data)]


def packet_level(rng: random.Random) -> list[bytes]:
    """Damage header fields of IP and TCP, or put the packets on other links and behind tags, and damage these."""
    linktype, packets = _some_packets(rng)
    if rng.random() < 0.25:
        linktype = rng.choice((ETHERNET, NFLOG, PKTAP, CISCO_HDLC))
        return _files(rng, linktype, [_on_link(rng, linktype, packet) for packet in packets])
    for _ in range(rng.choice((1, 3, 10, 40))):
        index = rng.randrange(len(packets))
        packets[index : index + 1] = _bent(rng, packets[index])
    return _files(rng, linktype, packets)


_TAGS = (
    "8100 0005",
    "8926 00010002",
    "893f 000700640000",
    "8909 010100010011",
    "88e5 000000000001",
    "8870 aaaa03000000",
)


def _on_link(rng: random.Random, linktype: int, packet: Packet) -> Packet:
    """Put an IP packet on a link of this type, behind some tags; once in a while cut it or change a byte there."""
    bare = packet.data[packet.ip_at :]
    typed = (b"\x86\xdd" if bare[:1] > b"\x50" else b"\x08\0") + bare
    for tag in rng.choices(_TAGS, k=rng.choice((0, 0, 0, 1, 2, 5, 9))):
        typed = bytes.fromhex(tag) + typed
    if rng.random() < 0.2:
        typed = len(typed).to_bytes(2, "big")[-2:] + b"\xaa\xaa\3\0\0\0" + typed
    data = bytes(12) + typed
    if linktype == NFLOG:
        known = struct.pack("<HH4xHH3sx", 8, 1, 7, 10, b"in") * rng.choice((0, 1, 2, 40))
        data = b"\x07\0\0\5" + known + struct.pack("<HH", 4 + len(bare), 9) + bare
    elif linktype == PKTAP:
        data = struct.pack("<III96x", 108, 1, ETHERNET) + data
    elif linktype == CISCO_HDLC:
        data = b"\x0f\0" + typed
    if rng.random() < 0.1:
        data = data[: rng.randrange(len(data))]
    elif data and rng.random() < 0.1:
        at = rng.randrange(min(len(data), 60))
        data = data[:at] + rng.choice((b"\0", b"\xff", rng.randbytes(1))) + data[at + 1 :]
    return replace(packet, data=data, original=max(packet.original + len(data) - len(packet.data), 0))


def _bent(rng: random.Random, packet: Packet) -> list[Packet]:
    if len(packet.data) < packet.ip_at + 40:
        return [packet]
    ip, tcp = packet.ip_at, min(packet.tcp_at, len(packet.data) - 14)
    kind = rng.randrange(10)
    length_at = ip + (4 if packet.version == 6 else 2)
    if kind == 0:  # the length of the datagram
        return [
            packet.patched(
                length_at, rng.choice((0, 1, 20, 39, 40, 60, 0xFFFF, rng.randrange(1 << 16))).to_bytes(2, "big")
            )
        ]
    if kind == 1:  # the length of the IPv4 header, the version
        return [packet.patched(ip, bytes([rng.randrange(256)]))]
    if kind == 2:  # TCP's data offset
        return [packet.patched(tcp + 12, bytes([rng.randrange(16) << 4]))]
    if kind == 3:  # flags
        return [packet.patched(tcp + 13, bytes([rng.randrange(256)]))]
    if kind == 4:  # any header byte
        return [packet.patched(rng.randrange(tcp + 20), bytes([rng.randrange(256)]))]
    if kind == 5:  # the snap length
        return [replace(packet, data=packet.data[: rng.randrange(len(packet.data) + 1)])]
    if kind == 6:  # the original length
        return [replace(packet, original=rng.choice((0, 1, len(packet.data) + 100, 1 << 31, (1 << 32) - 1)))]
    if kind == 7 and packet.version == 4:
        return _fragments(rng, packet)
    if kind == 8 and packet.version == 4:  # a fragment that lies
        word = rng.choice((0x2000, 0x1FFF, 0x3FFF, rng.randrange(0x4000)))
        return [packet.patched(ip + 6, word.to_bytes(2, "big"))]
    return [
        packet.patched(
            ip + (6 if packet.version == 6 else 9), bytes([rng.choice((4, 6, 17, 41, 43, 44, 47, 50, 51, 60))])
        )
    ]


def _fragments(rng: random.Random, packet: Packet) -> list[Packet]:
    """Send a datagram in fragments, perhaps not in order, perhaps not all of them."""
    size = (packet.data[packet.ip_at] & 15) * 4
    payload = packet.data[packet.ip_at + size :]
    step = 8 * rng.randint(1, 40)
    pieces = []
    for at in range(0, max(len(payload), 1), step):
        more = 0x2000 if at + step < len(payload) else 0
        data = payload[at : at + step + 8 * rng.choice((0, 0, 0, 1))]
        head = bytearray(packet.data[: packet.ip_at + size])
        head[packet.ip_at + 2 : packet.ip_at + 4] = (size + len(data)).to_bytes(2, "big")
        head[packet.ip_at + 6 : packet.ip_at + 8] = (more | at // 8).to_bytes(2, "big")
        pieces.append(replace(packet, data=bytes(head) + data, original=len(head) + len(data)))
    if rng.random() < 0.5:
        rng.shuffle(pieces)
    if rng.random() < 0.3:
        pieces.pop()
    return pieces[:40]


_JUMPS = (
    1,
    -1,
    7,
    24,
    -24,
    1448,
    1 << 20,
    (1 << 30) - 1,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    -(1 << 31),
    3 << 30,
    -1 << 30,
)


def tcp_level(rng: random.Random) -> list[bytes]:
    """Damage what TCP is about: numbers, flags, order."""
    linktype, packets = _some_packets(rng)
    packets = [packet for packet in packets if packet.tcp_at + 20 <= len(packet.data)]
    for _ in range(rng.choice((1, 2, 5, 15))):
        if packets:
            packets = _disturbed(rng, packets)
    return _files(rng, linktype, packets)


def _disturbed(rng: random.Random, packets: list[Packet]) -> list[Packet]:
    index, other = rng.randrange(len(packets)), rng.randrange(len(packets))
    packet = packets[index]
    kind = rng.randrange(16)
    if kind == 0:
        packets[index] = packet.with_number(4, 4, packet.number(4, 4) + rng.choice(_JUMPS))
    elif kind == 1:
        packets[index] = packet.with_number(8, 4, packet.number(8, 4) + rng.choice(_JUMPS))
    elif kind == 2:  # everything of a connection from here on moves
        jump, at = rng.choice(_JUMPS), rng.choice((4, 8))
        for place in range(index, len(packets)):
            if packets[place].ends == packet.ends:
                packets[place] = packets[place].with_number(at, 4, packets[place].number(at, 4) + jump)
    elif kind == 3:
        packets[index] = packet.with_number(13, 1, rng.randrange(256))
    elif kind == 4:  # a reset, or many
        reset = packet.with_number(13, 1, RST | rng.choice((0, ACK)))
        packets[index:index] = [reset] * rng.choice((1, 1, 30))
    elif kind == 5:  # the ports again
        for turn in range(rng.choice((1, 2, 20))):
            seq = packet.number(4, 4) + rng.choice((0, turn, 1 << 20, 1 << 31))
            packets.insert(index, packet.with_number(13, 1, SYN | rng.choice((0, ACK))).with_number(4, 4, seq))
    elif kind == 6:  # the same bytes' place with others
        at = packet.payload_at
        if at < len(packet.data):
            fake = packet.patched(at, rng.randbytes(len(packet.data) - at))
            packets.insert(max(index + rng.randint(-3, 3), 0), fake)
    elif kind == 7:  # overlapping its neighbours
        packets.insert(index + rng.randint(0, 3), packet.with_number(4, 4, packet.number(4, 4) + rng.randint(-40, 40)))
    elif kind == 8:
        packets[index] = packet.with_number(14, 2, 0)  # zero window
    elif kind == 9:
        packets[index], packets[other] = packets[other], packets[index]
    elif kind == 10:
        near = min(index + 1, len(packets) - 1)
        packets[index], packets[near] = packets[near], packets[index]
    elif kind == 11:
        packets.insert(other, packet)
    elif kind == 12:
        packets.insert(min(index + rng.randint(1, 3), len(packets)), packet)
    elif kind == 13:
        del packets[index : index + rng.choice((1, 1, 3))]
    elif kind == 14:  # split in two, perhaps the wrong way round
        packets[index : index + 1] = _split(rng, packet)
    else:
        stretch = packets[index : index + rng.randint(2, 12)]
        rng.shuffle(stretch)
        packets[index : index + len(stretch)] = stretch
    return packets


def _split(rng: random.Random, packet: Packet) -> list[Packet]:
    at, end = packet.payload_at, len(packet.data)
    if packet.version != 4 or end - at < 2 or packet.original != end:
        return [packet]
    cut = rng.randrange(at + 1, end)
    first = replace(packet, data=packet.data[:cut], original=cut)
    second = replace(packet, data=packet.data[:at] + packet.data[cut:], original=end - (cut - at))
    second = second.with_number(4, 4, packet.number(4, 4) + cut - at)
    both = [each.patched(each.ip_at + 2, (len(each.data) - each.ip_at).to_bytes(2, "big")) for each in (first, second)]
    return both if rng.random() < 0.5 else both[::-1]


# ------------------------------------------------------------------------------------------------------------ frames


@functools.cache
def frames_of(path: Path) -> tuple[tuple[tuple[int, bytes], ...], ...]:
    """Return the frames of each connection of a recording, as (side, bytes) in the order they were complete."""
    talks: dict[str, list[tuple[int, bytes]]] = {}
    reader = ReferenceReader([Input(path.name, path)], ReadOptions(values=True, withhold_secrets=False))
    streams = _streams(path)
    for batch in reader:
        for row in batch.to_pylist():
            if not row["missing"]:
                stream = streams.get((row["sport"], row["dport"]), b"")
                data = stream[row["start_offset"] : row["end_offset"]]
                if len(data) == row["end_offset"] - row["start_offset"] and data:
                    talks.setdefault(row["connection"], []).append((row["direction"], data))
    return tuple(tuple(frames) for frames in talks.values())


def _streams(path: Path) -> dict[tuple[int, int], bytes]:
    """Put payloads behind one another, as a recording of a loopback interface allows."""
    streams: dict[tuple[int, int], bytearray] = {}
    for packet in packets_of(path)[1]:
        if packet.original == len(packet.data):
            ports = packet.number(0, 2), packet.number(2, 2)
            streams.setdefault(ports, bytearray()).extend(packet.data[packet.payload_at :])
    return {ports: bytes(stream) for ports, stream in streams.items()}


#: Frames that recordings here do not have: tables of system events, cache transfers.
_RECENT = [paths.CAPTURES / "clean" / f"{name}.pcapng" for name in ("event-tables", "cache-transfer")]
_TALKERS = [path for path in CAPTURES if "snaplen" not in path.name] + _RECENT


def frame_level(rng: random.Random) -> list[bytes]:
    """Damage frames, then put all of them into sound packets."""
    linktype_packets: list[Any] = []
    for number in range(rng.choice((1, 1, 2, 4))):
        frames = list(rng.choice(frames_of(rng.choice(_TALKERS))))
        start = 0 if rng.random() < 0.6 else rng.randrange(len(frames))
        frames = frames[start : start + rng.randint(5, 60)]
        for _ in range(rng.choice((0, 1, 3, 10))):
            index = rng.randrange(len(frames))
            frames[index] = (frames[index][0], broken(rng, frames[index][1]))
        linktype_packets.append(_said(rng, frames, number))
    return [pcap([packet for _, packet in _interleaved(rng, linktype_packets)])]


def _said(rng: random.Random, frames: Sequence[tuple[int, bytes]], number: int) -> list[Any]:
    isns = rng.choice(((1_000, 5_000), ((1 << 32) - 300, (1 << 32) - 5_000)))
    talk = Conversation(Ends(ports=(40_000 + number, rng.choice((11_210, 12_000))), isns=isns))
    if rng.random() < 0.7:
        talk.open()
    mss = rng.choice((1, 23, 24, 100, 1448, 60_000))
    at = 0
    while at < len(frames):
        side = frames[at][0]
        run = at
        while run < len(frames) and frames[run][0] == side and run - at < 20:
            run += 1
        data = b"".join(data for _, data in frames[at:run])
        if mss < 100 and len(data) > 400:
            mss = 1448  # a packet per byte is worth its time only while there are few
        talk.send(side, Message(data), mss=mss)
        at = run
    return (talk.close(CLIENT) if rng.random() < 0.5 else talk).packets


def _interleaved(rng: random.Random, talks: Sequence[list[Any]]) -> Iterator[tuple[int, Any]]:
    places = [0] * len(talks)
    while open_ := [number for number, talk in enumerate(talks) if places[number] < len(talk)]:
        number = rng.choice(open_)
        for _ in range(rng.randint(1, 4)):
            if places[number] < len(talks[number]):
                yield number, talks[number][places[number]]
                places[number] += 1


def broken(rng: random.Random, frame: bytes) -> bytes:
    """Make a frame lie about itself."""
    data = bytearray(frame)
    if len(data) < 24:  # broken before
        return frame
    kind = rng.randrange(12)
    if kind == 0:  # the body's length
        lie = rng.choice((0, 1, 23, len(data), 1 << 20, (20 << 20) + 1, 30 << 20, (1 << 31) - 1, (1 << 32) - 1))
        data[8:12] = lie.to_bytes(4, "big")
    elif kind == 1:  # magic
        data[0] = rng.choice((0x80, 0x81, 0x08, 0x18, 0x82, 0x83, rng.randrange(256)))
    elif kind == 2:  # opcode
        data[1] = rng.randrange(256)
    elif kind == 3:  # key length, or framing extras and key length
        data[2:4] = rng.choice((0, 1, 250, 251, 0x0100, 0x0305, 0xFFFF, rng.randrange(1 << 16))).to_bytes(2, "big")
    elif kind == 4:  # extras length
        data[4] = rng.randrange(256)
    elif kind == 5:  # datatype: JSON, snappy, xattrs, or what is none
        data[5] = rng.choice((1, 2, 3, 4, 6, 7, 8, 255))
    elif kind == 6:  # vbucket or status
        data[6:8] = rng.randbytes(2)
    elif kind == 7:  # framing extras of garbage in front of the extras
        size = rng.randrange(16)
        data[0] = {0x80: 0x08, 0x81: 0x18}.get(data[0], data[0])
        data[2:4] = bytes([size, data[3]])
        data[8:12] = ((int.from_bytes(data[8:12], "big") + size) % (1 << 32)).to_bytes(4, "big")
        data[24:24] = rng.randbytes(size)
    elif kind == 8 and len(data) > 24:  # the body
        at = rng.randrange(24, len(data))
        data[at : at + 9] = rng.randbytes(len(data[at : at + 9]))
    elif kind == 9:  # cut
        del data[rng.randrange(len(data)) :]
    elif kind == 10:  # something behind it
        data += rng.choice((b"\0", b"\x80", rng.randbytes(30), bytes(24)))
    else:
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


LEVELS: dict[str, Callable[[random.Random], list[bytes]]] = {
    "container": container_level,
    "packet": packet_level,
    "tcp": tcp_level,
    "frame": frame_level,
}


# ------------------------------------------------------------------------------------------------------------- bombs

_FLOOD_HEADERS = np.dtype(
    [
        ("seconds", "<u4"),
        ("nanoseconds", "<u4"),
        ("captured", "<u4"),
        ("original", "<u4"),
        ("ethernet", "V14"),
        ("version", "u1"),
        ("tos", "u1"),
        ("length", ">u2"),
        ("id", ">u2"),
        ("fragment", ">u2"),
        ("ttl", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("destination", ">u4"),
        ("sport", ">u2"),
        ("dport", ">u2"),
        ("seq", ">u4"),
        ("ack", ">u4"),
        ("offset", "u1"),
        ("flags", "u1"),
        ("window", ">u2"),
        ("sum", ">u2"),
        ("urgent", ">u2"),
    ]
)


def flood(
    count: int,
    payload: bytes | NDArray[np.uint8] = b"",
    *,
    source: Any = 0x0A000001,
    sport: Any = 40_000,
    seq: Any = 0,
    flags: Any = ACK,
    **others: Any,
) -> bytes:
    """Write the records of many packets of one size at once; what is given as an array has a value per packet.

    ``payload`` is the same for all packets, or a row for each.
    """
    size = payload.shape[1] if isinstance(payload, np.ndarray) else len(payload)
    table = np.zeros(count, np.dtype([("head", _FLOOD_HEADERS), ("payload", "u1", (size,))]))
    head = table["head"]
    numbers = np.arange(count)
    head["seconds"] = 1_700_000_000 + numbers // 1_000_000
    head["nanoseconds"] = numbers % 1_000_000 * 1_000
    head["captured"] = head["original"] = 54 + size
    head["ethernet"] = np.frombuffer(bytes(12) + b"\x08\x00", "V14")
    head["version"], head["ttl"], head["protocol"], head["offset"] = 0x45, 64, 6, 5 << 4
    head["length"] = 40 + size
    head["source"], head["destination"] = source, 0x0A000002
    head["sport"], head["dport"] = sport, 11_210
    head["seq"] = np.asarray(seq) % (1 << 32)
    head["flags"] = flags
    for name, value in others.items():
        head[name] = value
    if size:
        table["payload"] = payload if isinstance(payload, np.ndarray) else np.frombuffer(payload, np.uint8)
    return table.tobytes()


PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, ETHERNET)

_CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000))
from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.tcp.ports import Ports
from dissector.options import ReadOptions
from pathlib import Path
def peak_bytes():
    try:  # the maximum that getrusage tells of includes that of the process before exec
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
path, ports = sys.argv[1], sys.argv[2:]
reader = FrameReader([Input("bomb", Path(path))], ReadOptions(ports=Ports.parse(ports)))
rows = missing = 0
for batch in reader:
    rows += batch.num_rows
    missing += sum(count > 0 for count in batch["missing"].to_pylist())
report = reader.report
print(json.dumps({
    "rows": rows,
    "missing": missing,
    "peak": peak_bytes(),
    "given_up": report.given_up,
    "connections": report.connections,
    "bytes_lost": report.bytes_lost,
    "bytes_skipped": report.bytes_skipped,
    "link": report.link.as_dict(),
    "damage": [str(damage) for damage in report.damage],
}))
"""
#: One thread each: what a library reserves for those it does not need would count against the limit.
_SPARING = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


def survive(capture: Path, *ports: str) -> dict[str, Any]:
    """Read a capture in a process that may take 1.5 GB of addresses; return what it says, its peak memory included."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(capture), *ports],
        capture_output=True,
        text=True,
        env={**os.environ, **_SPARING},
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    told_by_child: dict[str, Any] = json.loads(done.stdout)
    return told_by_child
