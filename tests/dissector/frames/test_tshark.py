"""Agreement with Wireshark's own couchbase dissector, an independent reader of the same captures.

It is compared where it is right: header fields of every message, in order, per connection. It knows no state and not
the early dialects' bodies, so nothing else is taken from it.
"""

from __future__ import annotations

import collections
import subprocess
from pathlib import Path

import pytest

from dissector.frames.reader import FrameReader
from tests.support.paths import ROOT
from tests.support.tcp_by_hand import Row, read_rows

#: Whole captures in which tshark loses nothing.
CAPTURES = (
    "02b_flow_control_broken.pcap",
    "03_noop.pcap",
    "04_rollback_errors.pcap",
    "12_any_cooked.pcap",
    "13_ipv6.pcapng",
    "22_novalue_v705.pcap",
    "25_stream_id_v705.pcap",
)
PORTS = (12000, 12001, 12100, 12101)
FIELDS = ("frame.number", "tcp.stream", "couchbase.opcode", "couchbase.opaque", "couchbase.total_bodylength")


def tshark_messages(capture: Path) -> dict[int, list[tuple[int, int, int, int]]]:
    """Return (packet, opcode, opaque, body length) of every message, by TCP stream, in the order of packets."""
    command = [
        "tshark",
        "-r",
        str(capture),
        "-o",
        "tcp.reassemble_out_of_order:TRUE",
        "-T",
        "fields",
        "-Y",
        "couchbase",
    ]
    command += [argument for port in PORTS for argument in ("-d", f"tcp.port=={port},couchbase")]
    command += [argument for field in FIELDS for argument in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    streams: dict[int, list[tuple[int, int, int, int]]] = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        number, stream, opcodes, opaques, bodies = line.split("\t")
        for opcode, opaque, body in zip(opcodes.split(","), opaques.split(","), bodies.split(","), strict=True):
            # Up to 4.6 Wireshark shows the opaque little-endian.
            swapped = int.from_bytes(int(opaque, 0).to_bytes(4, "little"), "big")
            streams[int(stream)].append((int(number), int(opcode, 0), swapped, int(body, 0)))
    return streams


def our_messages(rows: list[Row]) -> list[list[tuple[int, int, int, int]]]:
    """Return the same of our rows, by connection."""
    streams: dict[str, list[tuple[int, int, int, int]]] = collections.defaultdict(list)
    for row in rows:
        streams[row["connection"]].append((row["packet_last"], row["opcode"], row["opaque"], row["body_length"]))
    # A direction that is seen from the middle on gives its first frame out late, when others have confirmed it.
    return [sorted(stream, key=lambda message: message[0]) for stream in streams.values()]


@pytest.mark.tool("tshark")
@pytest.mark.parametrize("name", CAPTURES)
def test_same_messages_in_the_same_packets(name: str) -> None:
    capture = ROOT / "captures" / name
    ours = sorted(our_messages(read_rows(capture, FrameReader)))
    theirs = sorted(tshark_messages(capture).values())
    assert ours == theirs
    assert sum(len(stream) for stream in ours) > 100
