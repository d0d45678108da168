"""Connections of other protocols: their bytes are counted to the end, as those of any other connection are."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.frames.reference_reader import ReferenceReader
from dissector.options import ReadOptions
from dissector.summary.rows import connection_row
from dissector.tcp.connections import Connection
from dissector.tcp.ignored_bytes import MOST_HOLES, count_in_order, count_segment, give_up_holes
from dissector.tcp.ports import Ports
from dissector.tcp.reassembly import HalfConnection
from tests.support.tcp_by_hand import (
    CLIENT,
    FIN,
    RST,
    SERVER,
    Conversation,
    Ends,
    Message,
    Row,
    Wire,
    drop,
    duplicate,
    move,
    pcap,
    snap,
)

WRAP = 1 << 32
ISN = WRAP - 20  # so that numbers start again in the middle

GET, PAGE = Message(b"GET / HTTP/1.1\r\n\r\n" * 4), Message(b"HTTP/1.1 200 OK\r\n" + b"<p>page</p>" * 90)


def counts(direction: HalfConnection) -> tuple[int, int, int, int]:
    return direction.bytes_delivered, direction.bytes_lost, direction.gaps, direction.bytes_repeated


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12), st.integers(0, 12)), max_size=14),
    st.integers(0, 3),
)
def test_as_reassembly_counts(segments: list[tuple[int, int, int]], before: int) -> None:
    """Any segments, overlapping and cut, after some that were put in order: the oracle is what keeps the bytes."""
    kept, ignored = HalfConnection(), HalfConnection()
    for direction in (kept, ignored):
        direction.open(ISN)
        direction.feed(0, before, b"x" * before, 1, 0, None)
    for offset, length, captured in segments:
        there = min(length, captured)
        kept.feed(offset, length, b"y" * there, 1, 0, None)
        count_segment(ignored, (ISN + 1 + offset) % WRAP, length, there)
        if ignored.ignored is not None and len(ignored.ignored.holes) == MOST_HOLES:
            break
    kept.flush()
    give_up_holes(ignored)
    assert counts(ignored) == counts(kept)


def test_bytes_in_order_at_once() -> None:
    direction = HalfConnection()
    count_segment(direction, ISN, 10, 10)
    count_in_order(direction, 90)
    count_segment(direction, (ISN + 95) % WRAP, 10, 10)
    assert counts(direction) == (105, 0, 0, 5)


def test_what_was_held_counts_when_the_connection_ends() -> None:
    direction = HalfConnection()
    direction.open(ISN)
    for offset in (0, 10):
        direction.feed(offset, 5, b"bytes", 1, 0, None)
    count_segment(direction, (ISN + 1 + 15) % WRAP, 7, 7)
    direction.flush()
    give_up_holes(direction)
    assert counts(direction) == (5 + 5 + 7, 5, 1, 0)


def test_holes_are_bounded() -> None:
    """Every second byte is missing, forever: the first hole of too many is given up, and does not fill any more."""
    direction = HalfConnection()
    for number in range(1000):
        count_segment(direction, 2 * number, 1, 1)
        assert direction.ignored is None or len(direction.ignored.holes) <= MOST_HOLES
    assert counts(direction) == (1000, 999 - MOST_HOLES, 999 - MOST_HOLES, 0)
    count_segment(direction, 1, 1, 1)
    count_segment(direction, 1997, 1, 1)
    give_up_holes(direction)
    assert counts(direction) == (1001, 998, 998, 1)


def rows_of(packets: list[Wire], chunk_bytes: int | None, ports: Ports) -> list[list[Row]]:
    """Return the connections that each reader finds."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "web.pcap")
        path.write_bytes(pcap(packets))
        for reader_class in (ReferenceReader, FrameReader):
            ended: list[Connection] = []
            options = ReadOptions(chunk_bytes=chunk_bytes, ports=ports, count_ignored=True)
            assert list(reader_class([Input(path.name, path)], options, ended=ended.append)) == []
            found.append([connection_row(connection, None) for connection in ended])
    return found


def page(turns: int = 5) -> Conversation:
    talking = Conversation(Ends(ports=(50_000, 80), isns=(1_000, WRAP - 1500))).open()
    for _ in range(turns):
        talking.send(CLIENT, GET).send(SERVER, PAGE, mss=300)
    return talking


SIZES = 5 * len(GET.data), 5 * len(PAGE.data)
CASES: dict[str, tuple[list[Wire], dict[str, object]]] = {
    "whole": (page().packets, {"ended": "open"}),
    "closed": (page().close(CLIENT).close(SERVER).packets, {"ended": "closed"}),
    "half closed": (page().close(CLIENT).packets, {"ended": "half-closed"}),
    "reset": (page().close(SERVER, RST).packets, {"ended": "reset"}),
    "reset with a message": (
        [*page().packets, Wire(page().ends, SERVER, SIZES[1], b"no more", flags=RST)],
        {"ended": "reset"},
    ),
    "sent twice": (duplicate(page().packets, 15, 19), {"server_bytes_repeated": 300}),
    "swapped": (move(page().packets, 16, 18), {}),
    "lost": (drop(page().packets, 15), {"server_bytes": SIZES[1] - 300, "server_gaps": 1, "server_bytes_lost": 300}),
    "cut": (
        snap(page().packets, 200),
        # Of each page three segments of 300 bytes have 200, and one of 107 has all.
        {"server_bytes": 5 * 707, "server_gaps": 15, "server_bytes_lost": 15 * 100},
    ),
    "fin with data": (
        [*(last := page().packets)[:-1], replace(last[-1], flags=FIN)],
        {"ended": "half-closed"},
    ),
    "no handshake": (page().packets[3:], {"handshake": False}),
}


@pytest.mark.parametrize("ports", [Ports({}), Ports({80: "none"})], ids=["recognised", "left out"])
@pytest.mark.parametrize("name", CASES)
def test_connections_of_other_protocols(name: str, ports: Ports) -> None:
    packets, expected = CASES[name]
    usual: Row = {"client_bytes": SIZES[0], "server_bytes": SIZES[1], "client_frames": 0, "server_frames": 0}
    usual |= {f"{side}_{what}": 0 for side in ("client", "server") for what in ("gaps", "bytes_lost", "bytes_repeated")}
    for chunk_bytes in (500, 2000, None):
        for (row,) in rows_of(packets, chunk_bytes, ports):
            wanted = usual | {"ended": "open"} | expected
            assert {key: row[key] for key in wanted} == wanted, chunk_bytes


@given(st.data())
def test_both_readers_count_the_same(data: st.DataObject) -> None:
    packets = page(3).packets
    for _ in range(data.draw(st.integers(0, 4))):
        fault = data.draw(st.sampled_from([move, duplicate]))
        index, to = (data.draw(st.integers(0, len(packets) - 1)) for _ in range(2))
        packets = fault(packets, index, to)
    packets = drop(packets, *data.draw(st.lists(st.integers(0, len(packets) - 1), max_size=3)))
    one, other = rows_of(packets, data.draw(st.sampled_from([300, 700, 3000])), Ports({}))
    assert one == other
