"""The packets that prove a finding, cut out of their captures, with what is needed to understand them.

Needed are the connection's handshake and its set-up messages, the request that the stream began with, and the frames
of the finding, whole. The result is a pcapng file with the packets as they were captured, each with a comment.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from analysis.context import kinds
from dissector.capture import CaptureReader
from dissector.link.columnar import ColumnarDecoder
from dissector.pipeline import FrameReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.findings import Finding
    from dissector.capture import Input, PacketBlock
    from dissector.run import Options

#: What has to be known to read the rest of a connection.
_SET_UP = (kinds.HELLO, kinds.OPEN, kinds.CONTROL, kinds.ADD_STREAM, kinds.STREAM_REQUEST)
_COLUMNS = frozenset(
    (
        *("frame", "capture", "capture_first", "packet_first", "packet_last", "connection", "opcode", "response"),
        *("vbucket", "opaque", "src", "sport", "dst", "dport", "time_ns"),
    )
)
_SYN = 0x02


@dataclass(slots=True)
class Wanted:
    """Packets to keep, by capture and number."""

    comments: dict[tuple[str, int], str] = field(default_factory=dict)  #: packets that frames begin or end in
    spans: list[tuple[tuple[str, int], tuple[str, int]]] = field(default_factory=list)  #: first and last of a frame
    ends: set[tuple[str, int, str, int]] = field(default_factory=set)  #: addresses and ports, both ways

    def add(self, row: dict[str, Any], comment: str) -> None:
        """Keep the packets of a frame."""
        first, last = (row["capture_first"], row["packet_first"]), (row["capture"], row["packet_last"])
        self.comments.setdefault(last, comment)
        self.comments.setdefault(first, comment)
        if first != last:
            self.spans.append((first, last))
        self.ends.add((row["src"], row["sport"], row["dst"], row["dport"]))
        self.ends.add((row["dst"], row["dport"], row["src"], row["sport"]))


def packets_of(inputs: Sequence[Input], options: Options, finding: Finding) -> Wanted:
    """Find out which packets a finding needs."""
    import dataclasses  # noqa: PLC0415

    wanted = Wanted()
    roles = {frame.frame: frame.role for frame in reversed(finding.frames)}
    last = max(roles)
    for batch in FrameReader(inputs, dataclasses.replace(options, columns=_COLUMNS)):
        mine = pc.equal(batch.column("connection"), finding.connection)
        for row in batch.filter(mine).to_pylist():
            role = roles.get(row["frame"])
            if role is not None:
                wanted.add(row, f"{finding.id}: {'guilty' if role == 'guilty' else role} frame {row['frame']}")
            elif row["opcode"] in _SET_UP and row["frame"] <= last and _about(row, finding):
                wanted.add(row, f"set-up: frame {row['frame']}")
        if batch.column("frame")[-1].as_py() >= last:
            break
    return wanted


def _about(row: dict[str, Any], finding: Finding) -> bool:
    """Tell whether a set-up message matters: of stream requests, those of the finding's vbucket and all answers."""
    if row["opcode"] not in (kinds.STREAM_REQUEST, kinds.ADD_STREAM) or finding.vbucket is None:
        return True
    return bool(row["response"]) or row["vbucket"] == finding.vbucket


def cut(inputs: Sequence[Input], wanted: Wanted, stream: IO[bytes]) -> int:
    """Copy the packets; return how many there were."""
    writer = PcapngWriter(stream)
    decoder = ColumnarDecoder()
    for index, each in enumerate(inputs):
        with CaptureReader(each, index) as reader:
            for block in reader:
                for at, comment in _chosen(block, each.name, wanted, decoder):
                    writer.write(block, at, comment)
    return writer.packets


def _chosen(block: PacketBlock, name: str, wanted: Wanted, decoder: ColumnarDecoder) -> Iterator[tuple[int, str]]:
    """Give out the packets of a block to keep: those that are named, and those between them of the same connection."""
    segments = decoder.decode(block)
    flows = [_flow(key) in wanted.ends for key in segments.keys]
    of_connection = np.array(flows, bool)[segments.flow] if len(segments) else np.empty(0, bool)
    chosen: dict[int, str] = {}
    for number, flags, length in zip(
        segments.number[of_connection].tolist(),
        segments.flags[of_connection].tolist(),
        segments.payload_length[of_connection].tolist(),
        strict=True,
    ):
        comment = wanted.comments.get((name, number))
        between = any(first <= (name, number) <= last for first, last in wanted.spans) and length
        if comment is not None or flags & _SYN or between:
            chosen[number - block.first_number] = comment or ("handshake" if flags & _SYN else "part of a frame")
    yield from sorted(chosen.items())


def _flow(key: bytes) -> tuple[str, int, str, int]:
    from dissector.link.flows import flow_of  # noqa: PLC0415

    flow = flow_of(key)
    return flow.source, flow.source_port, flow.destination, flow.destination_port


class PcapngWriter:
    """A pcapng file with an interface per link type, nanosecond stamps and comments."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._interfaces: dict[int, int] = {}
        self.packets = 0
        self._block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))

    def write(self, block: PacketBlock, at: int, comment: str) -> None:
        """Copy one packet."""
        linktype = int(block.linktype[at])
        interface = self._interfaces.get(linktype)
        if interface is None:
            interface = self._interfaces[linktype] = len(self._interfaces)
            resolution = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
            self._block(1, struct.pack("<HHI", linktype, 0, 0) + resolution)
        data, time_ns = block.packet(at), int(block.time_ns[at]) % (1 << 64)
        head = struct.pack("<IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), int(block.original[at]))
        note = comment.encode()
        option = struct.pack("<HH", 1, len(note)) + note + bytes(-len(note) % 4) + bytes(4)
        self._block(6, head + data + bytes(-len(data) % 4) + option)
        self.packets += 1

    def _block(self, kind: int, body: bytes) -> None:
        size = struct.pack("<I", 12 + len(body))
        self._stream.write(struct.pack("<I", kind) + size + body + size)
