"""TCP Fast Open (RFC 7413): a SYN with data, which the server takes whole, in part or not at all.

Whatever of it is sent again, each byte counts once, from offset 0 on, on both paths; tshark puts together the same.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from dissector.options import ReadOptions
from tests.support.tcp_by_hand import (
    CLIENT,
    PSH,
    READERS,
    SERVER,
    SYN,
    Ends,
    ReaderClass,
    Wire,
    noop,
    pcap,
    read_run,
    response,
)

if TYPE_CHECKING:
    from pathlib import Path

SAID = noop(1).data + noop(2).data + noop(3).data
ANSWERED = response(0x5C, opaque=1).data + response(0x5C, opaque=2).data + response(0x5C, opaque=3).data
WRAPPING = Ends(isns=((1 << 32) - 9, (1 << 32) - 1))
#: Blocks of a packet or two: after the handshake the fast path takes over.
CHUNKS = (200, None)


def syn(end: int, ends: Ends | None = None) -> Wire:
    """A SYN with the first bytes of what the client says."""
    return Wire(ends or Ends(), CLIENT, 0, SAID[:end], acked=None, flags=SYN)


def taken(count: int, ends: Ends | None = None, data: bytes = b"") -> Wire:
    """The answer to it, which acknowledges so many of these bytes."""
    return Wire(ends or Ends(), SERVER, 0, data, acked=count, flags=SYN)


def said(start: int, end: int, acked: int = 0, ends: Ends | None = None) -> Wire:
    return Wire(ends or Ends(), CLIENT, start, SAID[start:end], acked, PSH if end > start else 0)


def answered(start: int, end: int, acked: int, ends: Ends | None = None) -> Wire:
    return Wire(ends or Ends(), SERVER, start, ANSWERED[start:end], acked, PSH)


@dataclass(frozen=True)
class Case:
    """Segments up to where 24 bytes have arrived, in both directions; and how many bytes came twice."""

    name: str
    packets: list[Wire]
    repeated: int = 0


CASES = [
    Case("taken whole", [syn(24), taken(24), said(24, 24)]),
    Case("refused, sent again", [syn(24), taken(0), said(0, 24)], 24),
    Case("refused, sent again in pieces", [syn(24), taken(0), said(0, 7), said(7, 24)], 24),
    Case("refused, sent again before the answer is seen", [syn(24), said(0, 24), taken(0)], 24),
    Case("taken in part", [syn(24), taken(10), said(10, 24)], 14),
    Case("taken in part, cut elsewhere", [syn(24), taken(10), said(6, 24)], 18),
    Case("part of a frame, taken", [syn(10), taken(10), said(10, 24)]),
    Case("part of a frame, refused", [syn(10), taken(0), said(0, 24)], 10),
    Case("sent again without data, refused", [syn(24), syn(0), taken(0), said(0, 24)], 24),
    Case("sent again without data, and the first one taken", [syn(24), syn(0), taken(24), said(24, 24)]),
    Case("sent again with data", [syn(24), syn(24), taken(24), said(24, 24)], 24),
    Case("sent again, the first one was not captured", [syn(0), taken(0), said(0, 24)]),
    Case("asks for a cookie, and has no data", [syn(0), taken(0), said(0, 0), said(0, 24)]),
    Case("again after all", [syn(24), taken(24), said(24, 24), syn(24)], 24),
    Case("answered twice", [syn(24), taken(24), taken(24), said(24, 24)]),
    Case("answered first", [taken(24), syn(24), said(24, 24)]),
    Case("answered first, taken in part", [taken(10), syn(24), said(10, 24)], 14),
    Case("answered first, refused", [taken(0), syn(24), said(0, 24)], 24),
    Case("across the end of numbers", [syn(24, WRAPPING), taken(10, WRAPPING), said(10, 24, ends=WRAPPING)], 14),
    Case("answered first, across", [taken(24, WRAPPING), syn(24, WRAPPING), said(24, 24, ends=WRAPPING)]),
]


def whole(case: Case) -> list[Wire]:
    """Let the conversation go on after the handshake."""
    ends = case.packets[0].ends
    after = [answered(0, 24, 24), said(24, 48, 24), answered(24, 48, 48), said(48, 72, 48), answered(48, 72, 72)]
    return case.packets + [replace(packet, ends=ends) for packet in after]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_byte_once(case: Case, reader: ReaderClass) -> None:
    for chunk_bytes in CHUNKS:
        rows, report = read_run(pcap(whole(case)), reader, ReadOptions(chunk_bytes=chunk_bytes))
        assert [(row["direction"], row["start_offset"], row["opaque"], row["from_start"]) for row in rows] == [
            (side, 24 * place, place + 1, True) for place in range(3) for side in (CLIENT, SERVER)
        ]
        # Each answer was sent when its request had arrived.
        assert [row["acked_offset"] for row in rows if row["direction"] == SERVER] == [24, 48, 72]
        assert (report.connections, report.bytes_repeated, report.bytes_lost) == (1, case.repeated, 0)


@pytest.mark.parametrize("reader", READERS)
def test_an_answer_that_carries_data_itself(reader: ReaderClass) -> None:
    packets = [syn(24), taken(24, data=ANSWERED[:24]), said(24, 48, 24), answered(24, 48, 48)]
    for order in (packets, [packets[1], packets[0], *packets[2:]]):
        rows, report = read_run(pcap(order), reader)
        assert sorted(
            (row["direction"], row["start_offset"], row["end_offset"], row["from_start"]) for row in rows
        ) == [(side, start, start + 24, True) for side in (CLIENT, SERVER) for start in (0, 24)]
        assert (report.connections, report.bytes_repeated, report.bytes_lost) == (1, 0, 0)


@pytest.mark.parametrize("reader", READERS)
def test_another_number_is_another_connection(reader: ReaderClass) -> None:
    """A client that gives up and connects again from the same port begins anew, whatever its first SYN carried."""
    again = Ends(isns=(77_000, 99_000))
    second = [syn(24, again), taken(24, again), said(24, 48, ends=again), answered(0, 24, 48, again)]
    rows, report = read_run(pcap([syn(24), *second]), reader)
    assert [(row["direction"], row["start_offset"], row["acked_offset"]) for row in rows] == [
        (CLIENT, 0, None),
        (CLIENT, 0, None),
        (CLIENT, 24, 0),
        (SERVER, 0, 48),
    ]
    assert len({row["connection"] for row in rows}) == report.connections == 2
    assert len({row["connection"] for row in rows[1:]}) == 1
    assert report.bytes_repeated == 0


@pytest.mark.tool("tshark")
def test_tshark_puts_the_same_bytes_together(tmp_path: Path) -> None:
    """All conversations in one capture, each from a port of its own. Where the answer comes first, tshark sees two."""
    cases = [case for case in CASES if not case.packets[0].side]
    packets = [
        replace(packet, ends=replace(packet.ends, ports=(20_000 + number, 9)))
        for number, case in enumerate(cases)
        for packet in whole(case)
    ]
    capture = tmp_path / "fast-open.pcap"
    capture.write_bytes(pcap(packets))
    command = ["tshark", "-r", str(capture), "-q"]
    command += [argument for number in range(len(cases)) for argument in ("-z", f"follow,tcp,raw,{number}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    streams = done.stdout.split("Follow: tcp,raw")[1:]
    assert len(streams) == len(cases)
    for stream in streams:
        head, _, body = stream.partition("Node 1: ")
        lines = [line for line in body.splitlines()[1:] if not line.startswith("=")]
        first = "".join(line for line in lines if not line.startswith("\t"))
        second = "".join(line.strip() for line in lines if line.startswith("\t"))
        client = ":9\n" not in head
        assert (first, second) == ((SAID.hex(), ANSWERED.hex()) if client else (ANSWERED.hex(), SAID.hex())), stream
