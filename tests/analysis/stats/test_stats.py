"""Statistics against what the client of a recording saw, and against conversations made by hand."""

from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from analysis.stats.collect import collect
from analysis.stats.document import document
from analysis.stats.statistics import Statistics
from analysis.stats.tables import tables
from analysis.stats.text import lines
from dissector.capture import expand
from dissector.options import ReadOptions
from dissector.terminal.amounts import duration
from dissector.terminal.style import Terminal
from tests.support.drawn_captures import OPAQUE, VBUCKET, ack, opening, streaming, written
from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import (
    CLIENT,
    SERVER,
    STEP_NS,
    Conversation,
    Ends,
    Message,
    marker,
    mutation,
    noop,
    pcap,
    request,
    response,
)
from uprscope import cli

FLOW = CAPTURES / "02_flow_control.pcap"
HANDSHAKE = 3  #: packets before the first message


def statistics(path: Path, connection: str | None = None, chunk_bytes: int | None = None) -> Statistics:
    options = ReadOptions(chunk_bytes=chunk_bytes)
    return collect(expand([str(path)], rows=True), options, connection=connection)[0]


def truth(path: Path) -> dict[str, Any]:
    with gzip.open(path.with_suffix(".truth.json.gz"), "rt") as file:
        found: dict[str, Any] = json.load(file)
    return found


@pytest.mark.parametrize("name", ["02_flow_control", "03_noop", "06_replication_takeover"])
def test_messages_and_bytes_are_those_that_the_client_saw(name: str) -> None:
    path = CAPTURES / f"{name}.pcap"
    seen = {each["client"]: each for each in truth(path)["connections"]}
    found = statistics(path)
    assert {each.client: each.messages for each in found.connections} == {
        client: each["message_count"] for client, each in seen.items() if each["message_count"]
    }
    for each in found.connections:
        assert each.bytes == sum(message["size"] for message in seen[each.client]["messages"]), each.client
    assert found.messages == sum(kind.messages for kind in found.opcodes)
    assert found.bytes == sum(kind.bytes for kind in found.opcodes) == sum(each.bytes for each in found.connections)


def test_opcodes_are_those_that_the_client_saw() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for connection in truth(FLOW)["connections"]:
        for what, number in connection["counts"].items():
            _, sort, name = what.split()
            counts[name.removeprefix("DCP_").lower().replace("stream_req", "stream_request"), sort == "res"] += number
    assert {(kind.name, kind.response): kind.messages for kind in statistics(FLOW).opcodes} == counts


def test_stalls_lie_between_pauses_and_acks_of_the_client() -> None:
    """The client let the window of fc-stall run full before all but its first-of-all message, and then acked."""
    acks = {each["name"]: each["counts"].get("c2s req DCP_BUFFER_ACK", 0) for each in truth(FLOW)["connections"]}
    found = {each.name: each for each in statistics(FLOW).connections}
    assert found["fc-off"].stalls.count == found["fc-noread"].stalls.count == 0
    assert found["fc-resize"].stalls.count == acks["fc-resize"] == 1
    assert 0 < found["fc-stall"].stalls.count < acks["fc-stall"]
    assert found["fc-stall"].stalls.window_bytes == 4096
    # It waited two seconds before its first ack, and one before each of the next three.
    assert 2.0e9 < found["fc-stall"].stalls.longest_ns < 2.1e9


def window(*, wait: int, give_back: int) -> list[tuple[int, Message]]:
    """Fill a window to the last byte, say ``wait`` no-ops, and give bytes back."""
    said = [(SERVER, marker(VBUCKET, OPAQUE, 0, 10)), (SERVER, mutation(VBUCKET, OPAQUE, 4, b"k", b"{}"))]
    size = sum(len(message.data) for _, message in said)
    idle = [(SERVER, noop(5 + number)) for number in range(wait)]
    return [*opening(b"by-hand", size), *streaming(), *said, *idle, (CLIENT, ack(size if give_back < 0 else give_back))]


def test_a_stall_lasts_from_the_last_message_to_the_ack(tmp_path: Path) -> None:
    wait = 6
    found = statistics(written(tmp_path / "a.pcap", *window(wait=wait, give_back=-1)))
    expected = (wait + 1) * STEP_NS // 1000 * 1000  # microseconds of the capture
    assert found.stalls.count == 1
    assert abs(found.stalls.longest_ns - expected) <= 1000
    assert found.connections[0].stalls == found.stalls
    assert found.acks is not None
    assert found.acks.count == 1
    assert abs(found.acks.max_ns - expected - STEP_NS) <= 2000  # from the marker on, one packet before


@pytest.mark.parametrize(("closed", "later"), [(True, 1), (False, 5)])
def test_a_stall_that_nothing_ends_lasts_until_its_connection_ends(tmp_path: Path, closed: bool, later: int) -> None:
    full, other = Conversation().open(), Conversation(Ends(ports=(40_001, 11_210))).open()
    for side, message in window(wait=0, give_back=-1)[:-1]:
        full.send(side, message)
    if closed:
        full.close(CLIENT)
    for side, message in opening(b"other"):
        other.send(side, message)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*full.packets, *other.packets]))
    found = statistics(path)
    waited = later * STEP_NS  # its FIN; without one the last packet of all: the handshake, an open and its answer
    assert found.stalls == found.connections[0].stalls
    assert (found.stalls.count, found.stalls.unended) == (1, 1)
    assert found.stalls.longest_ns == found.stalls.total_ns == pytest.approx(waited, abs=1000)
    assert statistics(path, "1").stalls == found.stalls
    assert any(
        f"1 stall of {duration(found.stalls.total_ns)}; 1 without an end" in line
        for line in lines(found, Terminal(width=100))
    )


def test_seqnos_without_an_item(tmp_path: Path) -> None:
    items = [(SERVER, mutation(VBUCKET, OPAQUE, seqno, b"k%d" % seqno)) for seqno in (2, 3, 7, 10)]
    path = written(tmp_path / "a.pcap", *opening(b"a"), *streaming(), (SERVER, marker(VBUCKET, OPAQUE, 0, 10)), *items)
    streams = statistics(path).streams
    assert (streams.snapshots, streams.items, streams.covered_seqnos, streams.without_item) == (1, 4, 10, 6)


def test_what_never_came(tmp_path: Path) -> None:
    """A stream without an end, one with, a rollback, a failover log that nobody sent."""
    end = request(0x55, struct.pack(">I", 0), vbucket=8, opaque=0x41)
    asked = request(0x53, struct.pack(">IIQQQQQ", 0, 0, 900, 2**64 - 1, 77, 900, 900), vbucket=9, opaque=0x42)
    said = [
        *opening(b"a"),
        *streaming(),
        *streaming(8, 0x41),
        (SERVER, end),
        (CLIENT, asked),
        (SERVER, response(0x53, 0x23, struct.pack(">Q", 250), opaque=0x42)),
        (CLIENT, request(0x54, vbucket=1, opaque=0x50)),
        (SERVER, noop(1)),
    ]
    found = statistics(written(tmp_path / "a.pcap", *said))
    streams = found.streams
    assert (streams.requests, streams.granted, streams.rollbacks, streams.farthest_rollback) == (3, 2, 1, 650)
    assert (streams.open, [each.vbucket for each in streams.some_open], dict(streams.ended)) == (
        1,
        [VBUCKET],
        {"ok": 1},
    )
    unanswered = {each.name: each.unanswered for each in found.requests if each.unanswered}
    assert unanswered == {"get_failover_log": 1, "noop": 1}


@pytest.mark.parametrize("chunk_bytes", [1 << 12, 1 << 20])
def test_batches_do_not_matter(chunk_bytes: int) -> None:
    assert statistics(FLOW, chunk_bytes=chunk_bytes) == statistics(FLOW)


def test_rows_give_the_same_as_the_capture(tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    assert cli.main(["dissect", str(FLOW), "-o", str(rows)]) == 0
    of_rows, of_capture = document(statistics(rows)), document(statistics(FLOW))
    for name in ("captures", "connections"):  # rows do not tell how a connection ended
        del of_rows[name], of_capture[name]
    assert of_rows == of_capture


def test_one_connection_keeps_its_number() -> None:
    every, one = statistics(FLOW), statistics(FLOW, connection="4")
    assert one.connections == (every.connections[3],)
    assert (one.messages, one.stalls) == (every.connections[3].messages, every.connections[3].stalls)
    assert {each.connection for each in one.streams.some_open} <= {4}


def test_rows_that_do_not_fit_are_summed_up() -> None:
    found = statistics(FLOW)
    messages = tables(found)[0]
    shown = messages.shortened(4)
    assert len(shown) == 4
    assert shown[-1]["name"] == f"… and {len(found.opcodes) - 3} more"
    assert sum(row["messages"] for row in shown) == found.messages
    assert sum(row["bytes"] for row in shown) == found.bytes
    assert sum(row["share"] for row in shown) == pytest.approx(1)


def test_the_screen_is_a_screen_and_takes_no_orders(tmp_path: Path) -> None:
    hostile = opening(b"\x1b[31mred\xe2\x80\xae") + streaming()
    text = list(lines(statistics(written(tmp_path / "a.pcap", *hostile)), Terminal(width=80)))
    assert all(line.isprintable() for line in text)
    for path in sorted(CAPTURES.glob("0*.pcap"))[:4]:
        text = list(lines(statistics(path), Terminal(width=80)))
        assert max(len(line) for line in text) <= 80, path
        assert len(text) <= 45, path
