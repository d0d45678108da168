"""What a live reading does not wait for: bytes that their receiver has, and connections that both ends have closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.options import ReadOptions
from dissector.tcp import patience
from tests.support.tcp_by_hand import (
    CLIENT,
    READERS,
    SERVER,
    STEP_NS,
    Conversation,
    Ends,
    ReaderClass,
    Row,
    Wire,
    drafted_item,
    drafted_request,
    drop,
    move,
    mutation,
    noop,
    pcap,
    read_rows,
    time_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from dissector.tcp.connections import Connection

EXCHANGES = 40
HOLE_PACKETS = 10  #: a hole is given up when it was acknowledged so many packets ago
FIRST = 3  #: packets of the handshake


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "NOW_NS", 2**63)  # captures made by hand are of 2023
    monkeypatch.setattr(patience, "HOLE_NS", HOLE_PACKETS * STEP_NS)
    monkeypatch.setattr(patience, "LINGER_NS", 100 * STEP_NS)
    monkeypatch.setattr(patience, "_SWEEP_NS", 10 * STEP_NS)


def exchanges() -> list[Wire]:
    """Return the packets of a conversation: the server's message and the client's come in turn."""
    made = Conversation().open()
    for number in range(EXCHANGES):
        made.send(SERVER, mutation(1, 2, number + 1, b"key%02d" % number)).send(CLIENT, noop(number))
    return made.packets


def without_numbers(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((row["direction"], row["start_offset"], row["gap"], row["by_seqno"] or 0) for row in rows)


@pytest.mark.parametrize("chunk_bytes", [64, 1000, None])
@pytest.mark.parametrize("reader", READERS)
def test_a_hole_that_was_acknowledged_is_given_up(reader: ReaderClass, chunk_bytes: int | None) -> None:
    lost = FIRST + 2 * 10  # the server's message 10
    packets = drop(exchanges(), lost)
    patient = read_rows(pcap(packets), reader, ReadOptions(chunk_bytes=chunk_bytes))
    rows = read_rows(pcap(packets), reader, ReadOptions(chunk_bytes=chunk_bytes, live=True))
    assert without_numbers(rows) == without_numbers(patient)
    # Whoever reads to the end gets what is behind the hole there; who watches gets it when it is given up: the client
    # acknowledges past it with packet lost + 3, and the first that tells after the time is HOLE_PACKETS later.
    behind = [row for row in rows if row["direction"] == SERVER and row["packet_last"] > lost]
    assert [row["by_seqno"] for row in patient[-len(behind) :]] == [row["by_seqno"] for row in behind]
    first = next(index for index, row in enumerate(rows) if row is behind[0])
    assert behind[0]["gap"] > 0
    assert max(row["packet_last"] for row in rows[:first]) <= lost + 3 + HOLE_PACKETS
    late = behind[HOLE_PACKETS:]
    assert late == sorted(late, key=lambda row: row["packet_last"])
    assert rows[-1]["packet_last"] == len(packets)


@pytest.mark.parametrize("reader", READERS)
def test_both_readers_and_all_chunks_agree(reader: ReaderClass) -> None:
    packets = drop(exchanges(), FIRST + 20, FIRST + 22, FIRST + 41, FIRST + 60)
    whole = read_rows(pcap(packets), READERS[0], ReadOptions(live=True))
    for chunk_bytes in (64, 700, 3000, None):
        assert read_rows(pcap(packets), reader, ReadOptions(chunk_bytes=chunk_bytes, live=True)) == whole


def test_a_recording_is_read_as_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = drop(exchanges(), FIRST + 20)
    now = time_of(0)
    whole, live = (read_rows(pcap(packets), FrameReader, ReadOptions(live=live)) for live in (False, True))
    assert live != whole
    monkeypatch.setattr(patience, "NOW_NS", 600 * 10**9)
    for distance, expected in ((601, whole), (599, live), (-599, live), (-601, whole)):
        monkeypatch.setattr("time.time_ns", lambda distance=distance: now + distance * 10**9)
        assert read_rows(pcap(packets), FrameReader, ReadOptions(live=True)) == expected


@pytest.mark.parametrize("reader", READERS)
def test_what_may_be_the_drafts_is_not_waited_for(reader: ReaderClass) -> None:
    made = Conversation().open().send(CLIENT, drafted_request(3, 9)).send(SERVER, noop(1))
    made.send(SERVER, drafted_item(3, 9, 1)).send(SERVER, drafted_item(3, 9, 2))
    patient, rows = (read_rows(pcap(made.packets), reader, ReadOptions(live=live)) for live in (False, True))
    assert [row["dialect"] for row in patient] == ["draft"] * 4
    assert rows[0]["dialect"] == "memcached"
    assert [row["dialect"] for row in rows[2:]] == ["draft"] * 2


def test_a_packet_that_is_only_late_is_waited_for() -> None:
    late = move(exchanges(), FIRST + 20, FIRST + 20 + HOLE_PACKETS // 2)
    rows = read_rows(pcap(late), FrameReader, ReadOptions(live=True))
    assert rows == read_rows(pcap(late), FrameReader, ReadOptions())
    assert not any(row["gap"] for row in rows)


def short_connections(count: int) -> list[Wire]:
    """Return the packets of connections that come and go, one after the other."""
    packets: list[Wire] = []
    for number in range(count):
        ends = Ends(ports=(20_000 + number, 11_210))
        made = Conversation(ends).open().send(CLIENT, noop(number)).send(CLIENT, noop(number))
        packets += made.close(CLIENT).close(SERVER).packets
    return packets


def test_connections_that_are_over_are_let_go(tmp_path: Path) -> None:
    path = tmp_path / "short.pcap"
    packets = short_connections(200)
    path.write_bytes(pcap(packets))
    over: list[Connection] = []
    options = ReadOptions(chunk_bytes=1000, live=True)
    reader = FrameReader([Input(path.name, path)], options, over=over.append)
    there, rows = [], 0
    for batch in reader:
        rows += batch.num_rows
        there.append(reader.open_connections)
    # A connection takes 7 packets, and is let go 100 packets after its last one, looked for every 10, by chunks of
    # less than 1000 bytes: 14 packets of 70 bytes and more.
    assert max(there) <= (100 + 10 + 2 * 14) / 7 + 2
    assert rows == 400
    assert [each.index for each in over] == list(range(len(over)))
    assert len(over) >= 200 - max(there)
