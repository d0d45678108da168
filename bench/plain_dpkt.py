"""The script that one would write first: dpkt for every packet, a dictionary of streams, struct for every header.

    python bench/plain_dpkt.py capture.pcap [--tally]

It uses nothing of uprscope. It believes its input: no gap, no limit, no resynchronisation, memcached on one port.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import dpkt
from truth import MUTATION, SERVER_PORT, Tally, client

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = struct.Struct(">BBHBBHI4sQ")
_MUTATION_EXTRAS = struct.Struct(">QQIIIHB")

Flow = tuple[bytes, int, bytes, int]


class Frame(NamedTuple):
    """What is decoded of a frame: as much as the columns that the other contenders write."""

    opcode: int
    vbucket: int
    opaque: bytes
    by_seqno: int
    key: bytes


@dataclass(slots=True)
class Stream:
    """One direction of a connection."""

    next_seq: int | None = None
    buffer: bytearray = field(default_factory=bytearray)
    early: dict[int, bytes] = field(default_factory=dict)  #: segments behind a hole

    def feed(self, seq: int, data: bytes) -> None:
        """Take a segment, wherever it belongs."""
        if self.next_seq is None:
            self.next_seq = seq
        ahead = (seq - self.next_seq) & 0xFFFFFFFF
        if 0 < ahead < 1 << 31:
            self.early[seq] = data
            return
        self._append(data[-ahead & 0xFFFFFFFF :])  # without what a retransmission repeats
        while (waiting := self.early.pop(self.next_seq, None)) is not None:
            self._append(waiting)

    def _append(self, data: bytes) -> None:
        self.buffer += data
        self.next_seq = ((self.next_seq or 0) + len(data)) & 0xFFFFFFFF

    def frames(self) -> Iterator[Frame]:
        """Take the whole frames out of the buffer."""
        start, buffer = 0, self.buffer
        while len(buffer) - start >= _HEADER.size:
            _, opcode, key_length, extras_length, _, vbucket, body_length, opaque, _ = _HEADER.unpack_from(
                buffer, start
            )
            extras = start + _HEADER.size
            end = extras + body_length
            if len(buffer) < end:
                break
            by_seqno = 0
            if opcode == MUTATION and extras_length == _MUTATION_EXTRAS.size:
                by_seqno = _MUTATION_EXTRAS.unpack_from(buffer, extras)[0]
            key = extras + extras_length
            yield Frame(opcode, vbucket, opaque, by_seqno, bytes(buffer[key : key + key_length]))
            start = end
        del buffer[:start]


def frames(path: Path) -> Iterator[tuple[Flow, Frame]]:
    """Go through the frames of a capture."""
    streams: dict[Flow, Stream] = {}
    with path.open("rb") as capture:
        for _, packet in dpkt.pcap.Reader(capture):
            ip = dpkt.ethernet.Ethernet(packet).data
            if not isinstance(ip, dpkt.ip.IP) or not isinstance(ip.data, dpkt.tcp.TCP):
                continue
            tcp = ip.data
            if SERVER_PORT not in (tcp.sport, tcp.dport):
                continue
            flow = (ip.src, tcp.sport, ip.dst, tcp.dport)
            stream = streams.setdefault(flow, Stream())
            if tcp.flags & dpkt.tcp.TH_SYN:
                stream.next_seq = (tcp.seq + 1) & 0xFFFFFFFF
            elif tcp.data:
                stream.feed(tcp.seq, tcp.data)
                for frame in stream.frames():
                    yield flow, frame


def tallied(path: Path) -> Tally:
    """Add everything up that can be compared."""
    tally = Tally()
    flows: Counter[Flow] = Counter()
    for flow, frame in frames(path):
        tally.by_opcode[frame.opcode] += 1
        flows[flow] += 1
        if frame.opcode == MUTATION:
            tally.add([frame.key], [frame.by_seqno], [frame.vbucket])
    for (src, sport, dst, dport), count in flows.items():
        tally.by_connection[client(socket.inet_ntoa(src), sport, socket.inet_ntoa(dst), dport)] += count
    return tally


def main() -> None:
    """Read a capture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", type=Path)
    parser.add_argument("--tally", action="store_true", help="add everything up, to be compared with the truth")
    args = parser.parse_args()
    if args.tally:
        print(json.dumps(tallied(args.capture).truth()))
        return
    count = seqno_sum = 0
    for _, frame in frames(args.capture):
        count += 1
        seqno_sum += frame.by_seqno
    print(json.dumps({"frames": count, "seqno_sum": seqno_sum}))


if __name__ == "__main__":
    main()
