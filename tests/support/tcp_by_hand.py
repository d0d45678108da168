"""TCP conversations made by hand, the captures they give, and what is true of them.

Everything is packed with ``struct`` in the open and judged by plain dictionaries: nothing here asks the package under
test what a frame or a stream is. A test makes a :class:`Conversation`, damages its packets with the functions below,
and compares the rows that a reader of :data:`READERS` finds in :func:`pcap` with :func:`first_copies`.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.frames.reference_reader import ReferenceReader
from dissector.link.flow_key import flow_key
from dissector.options import ReadOptions, ReadReport
from dissector.tcp.connections import TcpSegment

Row = dict[str, Any]


class Reader(Protocol):
    """What reads captures: batches of frames, and a report that is complete behind the last one."""

    report: ReadReport

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


ReaderClass = Callable[[Sequence[Input], ReadOptions], Reader]
READERS: list[ReaderClass] = [ReferenceReader, FrameReader]

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
CLIENT, SERVER = 0, 1
BASE_NS = 1_700_000_000 * 10**9
STEP_NS = 1_001


# ---------------------------------------------------------------------------------------------------------- messages


@dataclass(frozen=True)
class Message:
    """A frame's bytes, and the columns that its row must have."""

    data: bytes
    expected: Mapping[str, Any] = field(default_factory=dict)


#: Recordings of a server's development state of July 2026. They are read message by message like the others; what their
#: key-only streams and their counting mean for the rules is not declared yet.
_NOT_JUDGED = "_v810m"


def is_judged(path: Path) -> bool:
    """Tell whether a recording is of a server whose traffic the rules are made for."""
    return not path.stem.endswith(_NOT_JUDGED)


def request(
    opcode: int, extras: bytes = b"", key: bytes = b"", value: bytes = b"", *, vbucket: int = 0, **expected: Any
) -> Message:
    """Pack a request (magic 0x80). ``opaque``, ``cas`` and ``datatype`` go into the header as well as into the row."""
    return _message(0x80, opcode, extras, key, value, vbucket, {"vbucket": vbucket, "status": None, **expected})


def response(opcode: int, status: int = 0, value: bytes = b"", extras: bytes = b"", **expected: Any) -> Message:
    """Pack a response (magic 0x81)."""
    return _message(0x81, opcode, extras, b"", value, status, {"status": status, "vbucket": None, **expected})


def _message(
    magic: int, opcode: int, extras: bytes, key: bytes, value: bytes, number: int, expected: dict[str, Any]
) -> Message:
    opaque, cas, datatype = (expected.setdefault(name, 0) for name in ("opaque", "cas", "datatype"))
    body = len(extras) + len(key) + len(value)
    head = struct.pack(">BBHBBHIIQ", magic, opcode, len(key), len(extras), datatype, number, body, opaque, cas)
    columns: dict[str, Any] = {
        "magic": magic,
        "opcode": opcode,
        "body_length": body,
        "extras_length": len(extras),
        "key_length": len(key),
        "value_length": len(value),
        "key_bytes": key or None,
        "flow_bytes": 0,
    }
    return Message(head + extras + key + value, {**columns, **expected})


def counted(opcode: int, extras: bytes, key: bytes = b"", value: bytes = b"", **expected: Any) -> Message:
    """Pack a request that takes its whole size from the flow-control window."""
    size = 24 + len(extras) + len(key) + len(value)
    return request(opcode, extras, key, value, flow_bytes=size, **expected)


def stream_answer(opaque: int, uuid: int = 77) -> Message:
    """A success with a failover log of one entry."""
    log = [{"vbucket_uuid": uuid, "seqno": 0}]
    return response(0x53, 0, struct.pack(">QQ", uuid, 0), opaque=opaque, failover_log=log)


def marker(vbucket: int, opaque: int, start: int, end: int) -> Message:
    """A snapshot marker, from memory."""
    extras = struct.pack(">QQI", start, end, 1)
    columns: Row = {"snap_start_seqno": start, "snap_end_seqno": end, "snapshot_type": 1}
    return counted(0x56, extras, vbucket=vbucket, opaque=opaque, name="snapshot_marker", **columns)


def mutation(vbucket: int, opaque: int, seqno: int, key: bytes, value: bytes = b"") -> Message:
    """A mutation with some numbers of its own."""
    extras = struct.pack(">QQIIIHB", seqno, seqno + 5, 0xABCD, 1_800_000_000, 7, 0, 3)
    return counted(
        0x57,
        extras,
        key,
        value,
        vbucket=vbucket,
        opaque=opaque,
        cas=seqno << 20,
        by_seqno=seqno,
        rev_seqno=seqno + 5,
        item_flags=0xABCD,
        expiration=1_800_000_000,
        lock_time=7,
        nmeta=0,
        nru=3,
        name="mutation",
    )


def noop(opaque: int) -> Message:
    """A no-op."""
    return request(0x5C, opaque=opaque, name="noop")


def drafted(
    opcode: int, subtype: int, extras: bytes = b"", key: bytes = b"", value: bytes = b"", *, vbucket: int, opaque: int
) -> Message:
    """A message of the draft of August 2013: a request (opcode 1), or a push."""
    magic, body = 0x80 if opcode == 1 else 0x81, len(extras) + len(key) + len(value)
    head = struct.pack(">BBHBBHIIQ", magic, opcode, len(key), len(extras), subtype, vbucket, body, opaque, 0)
    columns: Row = {"dialect": "draft", "opcode": opcode, "subtype": subtype, "vbucket": vbucket, "opaque": opaque}
    return Message(head + extras + key + value, {**columns, "status": None, "key_bytes": key or None})


def drafted_request(vbucket: int, opaque: int) -> Message:
    """Ask for a stream in the draft's words."""
    return drafted(1, 1, struct.pack(">4Q", 0, 2**64 - 1, 0, 0), b"group", vbucket=vbucket, opaque=opaque)


def drafted_item(vbucket: int, opaque: int, seqno: int, value: bytes = b"value") -> Message:
    """A mutation in the draft's words."""
    extras = struct.pack(">QQIII", seqno, 1, 0, 0, 0)
    return drafted(4, 3, extras, b"key%d" % seqno, value, vbucket=vbucket, opaque=opaque)


# ------------------------------------------------------------------------------------------------------ conversations


@dataclass(frozen=True)
class Ends:
    """Addresses, ports and initial sequence numbers of a connection, the client's first."""

    addresses: tuple[str, str] = ("10.0.0.1", "10.0.0.2")
    ports: tuple[int, int] = (40_000, 11_210)
    isns: tuple[int, int] = (1_000, 5_000_000)

    def key(self, side: int) -> bytes:
        """Return the flow key of one direction."""
        source, destination = (ip_address(self.addresses[each]).packed for each in (side, 1 - side))
        return flow_key(source, destination, self.ports[side], self.ports[1 - side])


@dataclass(frozen=True)
class Wire:
    """One TCP segment on the wire. Offsets count payload bytes of a direction from behind its SYN."""

    ends: Ends
    side: int
    offset: int
    data: bytes = b""
    acked: int | None = 0  #: of the other direction; None: no ACK flag
    flags: int = 0
    cut: int = 0  #: bytes that a snap length took off the end of the payload

    @property
    def seq(self) -> int:
        """Return the sequence number; a SYN stands one before offset 0."""
        return (self.ends.isns[self.side] + self.offset + (0 if self.flags & SYN else 1)) % 2**32

    @property
    def ack(self) -> int:
        """Return the acknowledgement number."""
        return 0 if self.acked is None else (self.ends.isns[1 - self.side] + 1 + self.acked) % 2**32

    @property
    def all_flags(self) -> int:
        """Return the flags, ACK among them."""
        return self.flags | (0 if self.acked is None else ACK)

    @property
    def captured(self) -> bytes:
        """Return the payload that is in the capture."""
        return self.data[: len(self.data) - self.cut]

    def segment(self, number: int, time_ns: int) -> TcpSegment:
        """Return what the link layer makes of it."""
        key = self.ends.key(self.side)
        return TcpSegment(key, self.seq, self.ack, self.all_flags, self.captured, len(self.data), number, time_ns)


@dataclass(frozen=True)
class Sent:
    """A frame that was sent, and where it stands in its direction."""

    ends: Ends
    side: int
    start: int
    message: Message

    @property
    def end(self) -> int:
        """Return the offset behind its last byte."""
        return self.start + len(self.message.data)


@dataclass
class Conversation:
    """Both directions of a connection as the two ends saw them: nothing lost, everything acknowledged at once."""

    ends: Ends = field(default_factory=Ends)
    packets: list[Wire] = field(default_factory=list)
    streams: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    sent: list[Sent] = field(default_factory=list)

    def open(self) -> Conversation:
        """Shake hands."""
        self.packets += [
            Wire(self.ends, CLIENT, 0, acked=None, flags=SYN),
            Wire(self.ends, SERVER, 0, acked=0, flags=SYN),
            Wire(self.ends, CLIENT, 0),
        ]
        return self

    def send(self, side: int, *messages: Message, mss: int = 1448) -> Conversation:
        """Send frames, packed into segments of at most ``mss`` bytes without regard to where frames end."""
        stream, acked = self.streams[side], len(self.streams[1 - side])
        begin = len(stream)
        for message in messages:
            self.sent.append(Sent(self.ends, side, len(stream), message))
            stream += message.data
        for at in range(begin, len(stream), mss):
            self.packets.append(Wire(self.ends, side, at, bytes(stream[at : at + mss]), acked, PSH))
        return self

    def close(self, side: int, flags: int = FIN) -> Conversation:
        """End a direction, or with RST the connection."""
        stream, acked = len(self.streams[side]), len(self.streams[1 - side])
        self.packets.append(Wire(self.ends, side, stream, acked=acked, flags=flags))
        return self


# ------------------------------------------------------------------------------------------------------------- faults


def drop(packets: Sequence[Wire], *indexes: int) -> list[Wire]:
    """Lose packets."""
    return [packet for index, packet in enumerate(packets) if index not in indexes]


def move(packets: Sequence[Wire], index: int, to: int) -> list[Wire]:
    """Let a packet arrive at another place."""
    rest = drop(packets, index)
    return [*rest[:to], packets[index], *rest[to:]]


def duplicate(packets: Sequence[Wire], index: int, to: int) -> list[Wire]:
    """Let a packet arrive a second time."""
    return [*packets[:to], packets[index], *packets[to:]]


def widen(packets: Sequence[Wire], index: int, stream: bytes, before: int, after: int, flip: int = 0) -> list[Wire]:
    """Make a segment overlap its neighbours: with the stream's own bytes, or with others (xor ``flip``)."""
    packet = packets[index]
    start, end = max(packet.offset - before, 0), min(packet.offset + len(packet.data) + after, len(stream))
    data = bytearray(byte ^ flip for byte in stream[start:end])
    data[packet.offset - start : packet.offset - start + len(packet.data)] = packet.data
    return [*packets[:index], replace(packet, offset=start, data=bytes(data)), *packets[index + 1 :]]


def snap(packets: Sequence[Wire], payload: int) -> list[Wire]:
    """Cut every payload to some bytes, as a snap length does."""
    return [replace(packet, cut=max(len(packet.data) - payload, 0)) for packet in packets]


# -------------------------------------------------------------------------------------------------------------- truth


def first_copies(packets: Sequence[Wire], side: int) -> dict[int, int | None]:
    """Return each offset's byte as its first packet had it; None where a snap length cut it off there."""
    copies: dict[int, int | None] = {}
    for packet in packets:
        if packet.side == side and not packet.flags & RST:
            for index, byte in enumerate(packet.data):
                known = byte if index < len(packet.data) - packet.cut else None
                copies.setdefault(packet.offset + index, known)
    return copies


def seen(frame: Sent, copies: Mapping[int, int | None]) -> bytes | None:
    """Return a frame's bytes as the capture has them, or None where one is missing."""
    found = [copies.get(offset) for offset in range(frame.start, frame.end)]
    return None if None in found else bytes(byte for byte in found if byte is not None)


# ----------------------------------------------------------------------------------------------------------- captures


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2 + len(data) % 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(packet: Wire) -> bytes:
    """Put a segment into TCP, IPv4 or IPv6, and Ethernet."""
    source, destination = (ip_address(packet.ends.addresses[each]).packed for each in (packet.side, 1 - packet.side))
    ports = struct.pack(">HH", packet.ends.ports[packet.side], packet.ends.ports[1 - packet.side])
    tcp = ports + struct.pack(">IIBBHHH", packet.seq, packet.ack, 5 << 4, packet.all_flags, 65_535, 0, 0)
    length = len(tcp) + len(packet.data)
    pseudo = source + destination + struct.pack(">II", length, 6)  # as RFC 8200 has it; for IPv4 the sum is the same
    tcp = tcp[:16] + struct.pack(">H", _checksum(pseudo + tcp + packet.data)) + tcp[18:]
    if len(source) == 4:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 1, 0x4000, 64, 6, 0) + source + destination
        ip = ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:]
    else:
        ip = struct.pack(">IHBB", 6 << 28, length, 6, 64) + source + destination
    return bytes(12) + (b"\x08\x00" if len(source) == 4 else b"\x86\xdd") + ip + tcp + packet.data


def pcap(packets: Sequence[Wire], first: int = 0) -> bytes:
    """Write a nanosecond pcap file; ``first`` is the number of packets that the files before it hold."""
    out = bytearray(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))
    for index, packet in enumerate(packets):
        data = ethernet(packet)
        seconds, nanoseconds = divmod(time_of(first + index), 10**9)
        out += struct.pack("<IIII", seconds, nanoseconds, len(data) - packet.cut, len(data))
        out += data[: len(data) - packet.cut]
    return bytes(out)


def time_of(index: int) -> int:
    """Return the time of the packet with this index, in nanoseconds."""
    return BASE_NS + index * STEP_NS


def read_run(
    source: Path | bytes | Sequence[Path | bytes], reader_class: ReaderClass, options: ReadOptions | None = None
) -> tuple[list[Row], ReadReport]:
    """Read captures, given as paths or as their bytes; return all rows and the report."""
    sources = [source] if isinstance(source, Path | bytes) else list(source)
    with tempfile.TemporaryDirectory() as folder:
        inputs = []
        for index, each in enumerate(sources):
            path = each if isinstance(each, Path) else Path(folder, f"{index}.pcap")
            if isinstance(each, bytes):
                path.write_bytes(each)
            inputs.append(Input(path.name, path))
        reader = reader_class(inputs, options or ReadOptions())
        rows = [row for batch in reader for row in batch.to_pylist()]
    return rows, reader.report


def read_rows(
    source: Path | bytes | Sequence[Path | bytes], reader_class: ReaderClass, options: ReadOptions | None = None
) -> list[Row]:
    """Read captures; return all rows."""
    return read_run(source, reader_class, options)[0]
