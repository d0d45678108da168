"""Agreement with tshark, an independent reader of the same packets, about every kind of packet that is read."""

from __future__ import annotations

import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from dissector.link.flow_key import flow_of
from tests.dissector.link.test_packets import KINDS, Packet, both, make_block
from tests.support.hostile import pcapng_block

if TYPE_CHECKING:
    from pathlib import Path

#: Kinds that tshark does not look into.
NOT_ASKED = {
    "mpls pseudowire",  # unless it is told the label
    "nflog, big-endian",  # in a file that is little-endian
    "erspan iii of ip",  # names it, and shows bytes
}
FIELDS = ("ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw")


def pcapng(packets: list[tuple[int, bytes]]) -> bytes:
    """Write a capture with an interface for each link type."""
    linktypes = sorted({linktype for linktype, _ in packets})
    out = pcapng_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += b"".join(pcapng_block(1, struct.pack("<HHI", linktype, 0, 0)) for linktype in linktypes)
    for linktype, data in packets:
        head = struct.pack("<5I", linktypes.index(linktype), 0, 0, len(data), len(data))
        out += pcapng_block(6, head + data + bytes(-len(data) % 4))
    return out


def tshark_segments(capture: Path) -> list[list[str]]:
    """Return addresses, ports, numbers and payload of the innermost segment of each packet."""
    command = ["tshark", "-r", str(capture), "-T", "fields", "-E", "occurrence=l", "-d", "udp.port==8472,vxlan"]
    command += [argument for field in (*FIELDS, "tcp.payload") for argument in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.tool("tshark")
def test_tshark_finds_the_same_segment_in_every_kind_of_packet(tmp_path: Path) -> None:
    kinds = {name: kind for name, kind in KINDS.items() if name not in NOT_ASKED}
    capture = tmp_path / "kinds.pcapng"
    capture.write_bytes(pcapng(list(kinds.values())))
    theirs = dict(zip(kinds, tshark_segments(capture), strict=True))
    for name, (linktype, data) in kinds.items():
        (segments,), _ = both([make_block([Packet(linktype, data)])])
        flow = flow_of(segments.keys[0])
        addresses, place = [flow.source, flow.destination], 2 if name.startswith("6") else 0
        numbers = (flow.source_port, flow.destination_port, int(segments.seq[0]), int(segments.ack[0]))
        assert theirs[name][place : place + 2] == addresses, name
        assert theirs[name][4:] == [*map(str, numbers), segments.payload(0).hex()], name
