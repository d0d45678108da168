"""Captures to rows, end to end: whatever the network did, rows are what was sent and can still be known.

Every reader of ``support.READERS`` has to pass; what is expected comes from the generator of the conversations.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from dissector.frames.key_hash import hash_key
from dissector.frames.reference_reader import ReferenceReader
from dissector.frames.schema import COLUMNS
from dissector.options import ReadOptions
from tests.support import tcp_by_hand
from tests.support.tcp_by_hand import (
    CLIENT,
    READERS,
    SERVER,
    Conversation,
    Ends,
    ReaderClass,
    Row,
    Sent,
    Wire,
    mutation,
    noop,
)

readers = pytest.mark.parametrize("reader_class", READERS)
V6 = ("2001:db8::1", "2001:db8::2")
CHUNKS = (1 << 16, 4096, 300, 64)


def open_producer(name: bytes) -> tcp_by_hand.Message:
    return tcp_by_hand.request(0x50, struct.pack(">II", 0, 1), name, open_flags=1, name="open")


def control(key: bytes, value: bytes) -> tcp_by_hand.Message:
    return tcp_by_hand.request(0x5E, b"", key, value, text=value.decode(), name="control")


def stream_request(vbucket: int, opaque: int) -> tcp_by_hand.Message:
    """A request for everything of a vbucket, without an end."""
    uuid = 0xFEDC_BA98_7654_3210
    numbers: Row = {"start_seqno": 0, "end_seqno": 2**64 - 1, "vbucket_uuid": uuid, "snap_start_seqno": 0}
    extras = struct.pack(">II5Q", 0, 0, *numbers.values(), 0)
    numbers |= {"end_seqno": 2**63 - 1, "vbucket_uuid": uuid - 2**64}  # signed: "no end", and an identifier's bits
    return tcp_by_hand.request(
        0x53, extras, vbucket=vbucket, opaque=opaque, stream_flags=0, snap_end_seqno=0, **numbers
    )


def deletion(vbucket: int, opaque: int, seqno: int, key: bytes) -> tcp_by_hand.Message:
    extras = struct.pack(">QQH", seqno, 1, 0)
    columns: Row = {"by_seqno": seqno, "rev_seqno": 1, "nmeta": 0}
    return tcp_by_hand.counted(0x58, extras, key, vbucket=vbucket, opaque=opaque, name="deletion", **columns)


def stream_end(vbucket: int, opaque: int) -> tcp_by_hand.Message:
    return tcp_by_hand.counted(0x55, bytes(4), vbucket=vbucket, opaque=opaque, end_reason=0, name="stream_end")


def buffer_ack(count: int) -> tcp_by_hand.Message:
    return tcp_by_hand.request(0x5D, count.to_bytes(4, "big"), buffer_bytes=count)


def conversation(ends: Ends | None = None, *, value: int = 300, mss: int = 1448, items: int = 3) -> Conversation:
    """A client opens two streams, gets snapshots, acknowledges and hears no-ops."""
    talk = Conversation(ends or Ends()).open()
    talk.send(CLIENT, open_producer(b"client"), control(b"connection_buffer_size", b"10000"), mss=mss)
    talk.send(SERVER, tcp_by_hand.response(0x50), tcp_by_hand.response(0x5E, opaque=0), mss=mss)
    talk.send(CLIENT, stream_request(3, 0x30), stream_request(1023, 0x31), mss=mss)
    for vbucket, opaque in ((3, 0x30), (1023, 0x31)):
        pushed = [mutation(vbucket, opaque, seqno, b"key-%d" % seqno, b"." * value) for seqno in range(1, items)]
        pushed.append(deletion(vbucket, opaque, items, b"key-1"))
        talk.send(
            SERVER,
            tcp_by_hand.stream_answer(opaque, 2**63 - opaque),
            tcp_by_hand.marker(vbucket, opaque, 0, items),
            *pushed,
            mss=mss,
        )
        talk.send(CLIENT, buffer_ack(500 + vbucket), mss=mss)
        talk.send(SERVER, noop(0x1000), stream_end(vbucket, opaque), mss=mss)
        talk.send(CLIENT, tcp_by_hand.response(0x5C, opaque=0x1000), mss=mss)
    return talk.close(CLIENT).close(SERVER)


# ---------------------------------------------------------------------------------------------------------- judgement


def place_of(row: Row) -> tuple[str, int, str, int, int]:
    return row["src"], row["sport"], row["dst"], row["dport"], row["start_offset"]


def place(frame: Sent) -> tuple[str, int, str, int, int]:
    side, other = frame.side, 1 - frame.side
    ends = frame.ends
    return ends.addresses[side], ends.ports[side], ends.addresses[other], ends.ports[other], frame.start


def carriers(frame: Sent, packets: Sequence[Wire]) -> tuple[int, int, int | None]:
    """Return first and last packet (from 1) that brought a frame's bytes, and what that of the first byte acked."""
    owners: dict[int, int] = {}
    for number, packet in enumerate(packets, 1):
        if (packet.ends, packet.side) == (frame.ends, frame.side):
            for offset in range(packet.offset, packet.offset + len(packet.data)):
                owners.setdefault(offset, number)
    used = [owners[offset] for offset in range(frame.start, frame.end)]
    return min(used), max(used), packets[used[0] - 1].acked


def check(rows: list[Row], sent: Sequence[Sent], packets: Sequence[Wire]) -> int:
    """Compare rows with what was sent and captured; return how many frames were whole."""
    assert sorted(row["frame"] for row in rows) == list(range(1, len(rows) + 1))
    by_place = {place_of(row): row for row in rows}
    assert len(by_place) == len(rows)  # nothing twice
    assert by_place.keys() <= {place(frame) for frame in sent}  # nothing invented
    whole = 0
    for frame in sent:
        row = by_place.get(place(frame))
        own = [packet for packet in packets if packet.ends == frame.ends]
        if tcp_by_hand.seen(frame, tcp_by_hand.first_copies(own, frame.side)) is None:
            assert row is None or row["missing"] > 0
            continue
        whole += 1
        assert row is not None
        assert (row["missing"], row["end_offset"]) == (0, frame.end)
        assert row["direction"] == frame.side
        assert {name: row[name] for name in frame.message.expected} == dict(frame.message.expected)
        first, last, acked = carriers(frame, packets)
        assert (row["packet_first"], row["packet_last"], row["time_ns"]) == (first, last, tcp_by_hand.time_of(last - 1))
        assert row["acked_offset"] == acked
        assert row["from_start"] is True
    return whole


@readers
@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("mss", [1448, 100, 23, 7])
def test_a_conversation(reader_class: ReaderClass, mss: int, chunk_bytes: int) -> None:
    talk = conversation(mss=mss)
    rows, report = tcp_by_hand.read_run(
        tcp_by_hand.pcap(talk.packets), reader_class, ReadOptions(chunk_bytes=chunk_bytes)
    )
    assert check(rows, talk.sent, talk.packets) == len(talk.sent) == len(rows)
    assert report.losses() == []
    assert (report.connections, report.frames, report.bytes_repeated) == (1, len(rows), 0)
    assert (report.link.packets, report.link.segments) == (len(talk.packets), len(talk.packets))
    assert not report.link.noted  # the generator's checksums are right
    assert all(set(row) == {column.name for column in COLUMNS} for row in rows)


@readers
@pytest.mark.parametrize(
    "ends",
    [
        Ends(isns=(2**32 - 1, 2**32 - 2)),
        Ends(isns=(2**32 - 150, 2**32 - 700)),
        Ends(addresses=V6),
        Ends(ports=(11_210, 50_000)),
        Ends(ports=(50_000, 12_001)),
    ],
    ids=["wrap at once", "wrap later", "IPv6", "client's port", "any port"],
)
def test_ends(reader_class: ReaderClass, ends: Ends) -> None:
    talk = conversation(ends, mss=64)
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(talk.packets), reader_class)
    assert check(rows, talk.sent, talk.packets) == len(talk.sent) == len(rows)


@readers
def test_many_connections_at_once(reader_class: ReaderClass) -> None:
    talks = [conversation(Ends(ports=(40_000 + n, 11_210), isns=(n, 2**32 - n)), mss=200) for n in range(5)]
    longest = max(len(talk.packets) for talk in talks)
    packets = [talk.packets[n] for n in range(longest) for talk in talks if n < len(talk.packets)]
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), reader_class, ReadOptions(chunk_bytes=4096))
    sent = [frame for talk in talks for frame in talk.sent]
    assert check(rows, sent, packets) == len(sent) == len(rows)
    assert len({row["connection"] for row in rows}) == 5


# ------------------------------------------------------------------------------------------------------------- faults

FIRST = 3  # the handshake stays in front: without it offsets count from whatever is seen first
Fault = tuple[str, int, int, int]


def damaged(talk: Conversation, faults: Sequence[Fault]) -> list[Wire]:
    """Apply faults one after the other; their numbers say where, modulo what there is."""
    packets = list(talk.packets)
    for kind, one, two, three in faults:
        if len(packets) <= FIRST + 2:
            break
        index, to = (FIRST + number % (len(packets) - FIRST) for number in (one, two))
        stream = bytes(talk.streams[packets[index].side])
        if kind == "drop":
            packets = tcp_by_hand.drop(packets, index)
        elif kind == "move":
            packets = tcp_by_hand.move(packets, index, to)
        elif kind == "duplicate":
            packets = tcp_by_hand.duplicate(packets, index, to)
        elif packets[index].data:
            packets = tcp_by_hand.widen(packets, index, stream, two % 150, three % 150)
    return packets


def fault_lists(*kinds: str) -> st.SearchStrategy[list[Fault]]:
    number = st.integers(0, 10_000)
    return st.lists(st.tuples(st.sampled_from(kinds), number, number, number), max_size=8)


@readers
@given(fault_lists("move", "duplicate", "widen"), st.sampled_from([60, 150, 1448]), st.sampled_from(CHUNKS))
def test_nothing_lost(reader_class: ReaderClass, faults: list[Fault], mss: int, chunk_bytes: int) -> None:
    """Reordered, repeated, overlapping: every frame is there, and said to come from where it came from."""
    talk = conversation(mss=mss, value=120)
    packets = damaged(talk, faults)
    rows, report = tcp_by_hand.read_run(tcp_by_hand.pcap(packets), reader_class, ReadOptions(chunk_bytes=chunk_bytes))
    assert check(rows, talk.sent, packets) == len(talk.sent) == len(rows)
    size = sum(len(packet.data) for packet in packets)
    assert report.bytes_repeated == size - len(talk.streams[0]) - len(talk.streams[1])
    assert (report.bytes_lost, report.bytes_conflicting) == (0, 0)


@readers
@given(
    fault_lists("drop", "drop", "move", "duplicate", "widen"), st.sampled_from([60, 150, 1448]), st.sampled_from(CHUNKS)
)
def test_packets_lost(reader_class: ReaderClass, faults: list[Fault], mss: int, chunk_bytes: int) -> None:
    """Whole frames are all there, the others are not or say what is missing, nothing is made up."""
    talk = conversation(mss=mss, value=120)
    packets = damaged(talk, faults)
    rows, report = tcp_by_hand.read_run(tcp_by_hand.pcap(packets), reader_class, ReadOptions(chunk_bytes=chunk_bytes))
    check(rows, talk.sent, packets)
    if rows:
        copies = [tcp_by_hand.first_copies(packets, side) for side in (CLIENT, SERVER)]
        assert report.bytes_lost == sum(max(each, default=-1) + 1 - len(each) for each in copies)


@readers
@pytest.mark.parametrize("payload", [24, 30, 60, 200])
def test_snap_length(reader_class: ReaderClass, payload: int) -> None:
    """A frame whose header starts a packet is there, with what was captured of it; whole frames are all there."""
    talk = Conversation().open()
    for seqno in range(10):
        talk.send(SERVER, mutation(5, 6, seqno, b"key", b"v" * (20 * seqno))).send(CLIENT, noop(seqno))
    packets = tcp_by_hand.snap(talk.packets, payload)
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), reader_class)
    assert [row["missing"] for row in rows if row["direction"] == SERVER] == [
        max(len(frame.message.data) - payload, 0) for frame in talk.sent if frame.side == SERVER
    ]
    assert check(rows, talk.sent, packets) == sum(len(frame.message.data) <= payload for frame in talk.sent)


@readers
def test_the_first_copy_wins(reader_class: ReaderClass) -> None:
    """A segment with other bytes than the first: too late it changes nothing, too early it is what counts."""
    talk = Conversation().open().send(SERVER, *(mutation(5, 6, n, b"key", b"v" * 100) for n in range(6)), mss=158)
    stream = bytes(talk.streams[SERVER])
    late = [*talk.packets, *tcp_by_hand.widen(talk.packets, 5, stream, 30, 0, flip=0xFF)[5:6]]
    values = [
        row["value"] for row in tcp_by_hand.read_rows(tcp_by_hand.pcap(late), reader_class, ReadOptions(values=True))
    ]
    assert values == [b"v" * 100] * 6
    early = tcp_by_hand.widen(talk.packets, 5, stream, 0, 0)
    early = [*early[:4], *tcp_by_hand.widen(talk.packets, 5, stream, 30, 0, flip=0xFF)[5:6], *early[4:]]
    rows, report = tcp_by_hand.read_run(tcp_by_hand.pcap(early), reader_class, ReadOptions(values=True))
    flipped = b"v" * 70 + bytes(ord("v") ^ 0xFF for _ in range(30))
    assert [row["value"] for row in rows] == [b"v" * 100, flipped, *[b"v" * 100] * 4]
    assert report.bytes_conflicting == 30
    assert report.bytes_repeated == 30 + 158


@readers
@pytest.mark.parametrize("start", [4, 5, 8, 11])
def test_a_start_in_the_middle(reader_class: ReaderClass, start: int) -> None:
    talk = Conversation().open().send(SERVER, *(mutation(5, 6, n, b"key", b"v" * n) for n in range(60)), mss=500)
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(talk.packets[start:]), reader_class)
    base = talk.packets[start].offset
    wanted = [frame for frame in talk.sent if frame.start >= base]
    assert [(row["start_offset"], row["by_seqno"]) for row in rows] == [
        (frame.start - base, frame.message.expected["by_seqno"]) for frame in wanted
    ]
    assert (rows[0]["skipped"], rows[0]["gap"]) == (wanted[0].start - base, 0)


# Packets that are lost (0 is the SYN, 1 its answer, 3 the client's first data), and the directions whose first byte is
# known all the same.
BEGINNINGS: dict[str, tuple[tuple[int, ...], set[int]]] = {
    "whole": ((), {CLIENT, SERVER}),
    "SYN lost": ((0,), {CLIENT, SERVER}),  # the answer acknowledges it
    "its answer lost": ((1,), {CLIENT}),
    "both lost": ((0, 1), set()),
    "handshake lost": ((0, 1, 2), set()),
    "first data lost": ((3,), {CLIENT, SERVER}),
    "SYN and first data lost": ((0, 3), {CLIENT, SERVER}),
    "its answer and first data lost": ((1, 3), {CLIENT}),
}


def client_first(count: int = 30) -> Conversation:
    """A client that sends first, and a server that answers each time."""
    talk = Conversation().open()
    for opaque in range(count):
        talk.send(CLIENT, noop(opaque)).send(SERVER, mutation(5, 6, opaque, b"key", b"v" * 50))
    return talk


@readers
@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("name", BEGINNINGS)
def test_whether_the_first_byte_is_known(reader_class: ReaderClass, name: str, chunk_bytes: int) -> None:
    lost, known = BEGINNINGS[name]
    packets = tcp_by_hand.drop(client_first().packets, *lost)
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), reader_class, ReadOptions(chunk_bytes=chunk_bytes))
    assert len(rows) >= 59
    assert {row["direction"] for row in rows if row["from_start"]} == known
    assert {row["direction"] for row in rows if not row["from_start"]} == {CLIENT, SERVER} - known


@readers
@pytest.mark.parametrize("chunk_bytes", CHUNKS)
@pytest.mark.parametrize("late", [20, 21, 40])
@pytest.mark.parametrize("packet", [0, 1])
def test_a_first_byte_that_becomes_known_late(
    reader_class: ReaderClass, packet: int, late: int, chunk_bytes: int
) -> None:
    """A SYN, or the answer to one, that comes after data tells of the rows from then on."""
    packets = client_first().packets
    alone = [packets[packet], *packets[2:]]  # the other one of the two is lost
    moved = tcp_by_hand.move(alone, 0, late)
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(moved), reader_class, ReadOptions(chunk_bytes=chunk_bytes))
    assert len(rows) == 60
    shown = {CLIENT, SERVER} if packet else {CLIENT}
    for row in rows:
        assert row["from_start"] == (row["direction"] in shown and row["packet_last"] > late + 1)


@readers
def test_a_first_byte_of_which_a_late_answer_tells_nothing(reader_class: ReaderClass) -> None:
    """The first data were lost too: the first byte that was seen is not the first that was sent."""
    packets = tcp_by_hand.drop(client_first().packets, 0, 3)  # without the SYN and the first request
    moved = tcp_by_hand.move(packets, 0, 20)  # its answer comes late
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap(moved), reader_class)
    assert {row["from_start"] for row in rows if row["direction"] == CLIENT} == {False}
    assert {row["from_start"] for row in rows if row["direction"] == SERVER} == {False, True}


# -------------------------------------------------------------------------------------------------- files and options


def without_places(rows: list[Row]) -> list[Row]:
    dropped = ("capture", "capture_first", "packet_first", "packet_last")
    return [{name: value for name, value in row.items() if name not in dropped} for row in rows]


@readers
@pytest.mark.parametrize("chunk_bytes", CHUNKS)
def test_rotated_files_are_one_capture(reader_class: ReaderClass, chunk_bytes: int) -> None:
    """Cut anywhere, in frames too, and given in any order: rows are those of one file, but for the packet numbers."""
    packets = conversation(mss=90).packets
    options = ReadOptions(chunk_bytes=chunk_bytes)
    one = tcp_by_hand.read_rows(tcp_by_hand.pcap(packets), reader_class, options)
    third = len(packets) // 3
    files = [tcp_by_hand.pcap(packets[at : at + third], at) for at in range(0, len(packets), third)]
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        rows = tcp_by_hand.read_rows([files[index] for index in order if index < len(files)], reader_class, options)
        assert without_places(rows) == without_places(one)
        names = {index: f"{position}.pcap" for position, index in enumerate(order)}
        for row, whole in zip(rows, one, strict=True):
            for file, packet in (("capture", "packet_last"), ("capture_first", "packet_first")):
                index, number = divmod(whole[packet] - 1, third)
                assert (row[file], row[packet]) == (names[index], number + 1)


@readers
def test_separate_files_do_not_continue_each_other(reader_class: ReaderClass) -> None:
    talk = Conversation().open().send(SERVER, *(mutation(5, 6, n, b"key", b"v" * 50) for n in range(20)), mss=250)
    half = len(talk.packets) // 2
    files = [tcp_by_hand.pcap(talk.packets[:half]), tcp_by_hand.pcap(talk.packets[half:], half)]
    together = tcp_by_hand.read_rows(files, reader_class)
    assert [row["missing"] for row in together] == [0] * 20
    apart, report = tcp_by_hand.read_run(files, reader_class, ReadOptions(separate=True))
    single = [row for file in files for row in tcp_by_hand.read_rows(file, reader_class)]
    assert [place_of(row) for row in apart] == [place_of(row) for row in single]
    assert (len({row["connection"] for row in apart}), report.connections) == (2, 2)
    split = talk.packets[half].offset
    size = len(talk.sent[0].message.data)
    assert [row["missing"] for row in apart] == [0] * (split // size) + [size - split % size] + [0] * (
        19 - split // size
    )


@readers
def test_values_only_when_asked_for(reader_class: ReaderClass) -> None:
    value = b'{"name": "x"}'
    talk = Conversation().open().send(SERVER, mutation(5, 6, 1, b"key", value), tcp_by_hand.marker(5, 6, 1, 2))
    document, other = tcp_by_hand.read_rows(tcp_by_hand.pcap(talk.packets), reader_class)
    assert document["key_hash"] == hash_key(b"key")
    assert document["value_hash"] % 2**64 == xxhash.xxh3_64_intdigest(value)
    assert (document["value"], document["value_length"]) == (None, len(value))
    assert (other["key_hash"], other["value_hash"], other["value_length"]) == (None, None, 0)
    document, other = tcp_by_hand.read_rows(tcp_by_hand.pcap(talk.packets), reader_class, ReadOptions(values=True))
    assert (document["value"], other["value"]) == (value, None)


@readers
@pytest.mark.parametrize("opcode", [0x21, 0x22])
def test_secrets_stay_out_unless_asked_for(reader_class: ReaderClass, opcode: int) -> None:
    secret = b"\0user\0correct horse"
    talk = (
        Conversation()
        .open()
        .send(CLIENT, tcp_by_hand.request(opcode, b"", b"PLAIN", secret))
        .send(SERVER, tcp_by_hand.response(opcode))
    )
    for options in (ReadOptions(), ReadOptions(values=True)):
        row, _ = tcp_by_hand.read_rows(tcp_by_hand.pcap(talk.packets), reader_class, options)
        assert (row["key"], row["value_length"]) == ("PLAIN", len(secret))
        assert (row["value"], row["text"], row["value_hash"]) == (None, None, None)
        assert "horse" not in repr(row)
    row, _ = tcp_by_hand.read_rows(
        tcp_by_hand.pcap(talk.packets), reader_class, ReadOptions(values=True, withhold_secrets=False)
    )
    assert row["value"] == secret


@readers
def test_ports_used_again(reader_class: ReaderClass) -> None:
    first, second = conversation(), conversation(Ends(isns=(9, 99)))
    first.close(CLIENT, tcp_by_hand.RST)
    rows = tcp_by_hand.read_rows(tcp_by_hand.pcap([*first.packets, *second.packets]), reader_class)
    ids = [row["connection"] for row in rows]
    assert len(rows) == len(first.sent) + len(second.sent)
    assert ids == [ids[0]] * len(first.sent) + [ids[-1]] * len(second.sent)
    assert ids[0] != ids[-1]


@readers
def test_only_the_columns_that_are_asked_for(reader_class: ReaderClass) -> None:
    if reader_class is ReferenceReader:
        pytest.skip("the reference path makes all columns")
    capture = tcp_by_hand.pcap(conversation().packets)
    wanted = ("name", "by_seqno", "key", "key_bytes", "src")
    rows = tcp_by_hand.read_rows(capture, reader_class, ReadOptions(columns=frozenset(wanted)))
    every = tcp_by_hand.read_rows(capture, reader_class)
    assert [set(row) for row in rows] == [set(wanted)] * len(every)
    assert rows == [{name: row[name] for name in row if name in wanted} for row in every]


@readers
def test_keys_of_documents_may_be_left_out(reader_class: ReaderClass) -> None:
    talk = conversation()
    talk.send(CLIENT, tcp_by_hand.request(0x5E, key=b"connection_buffer_size", value=b"1024"))
    capture = tcp_by_hand.pcap(talk.packets)
    every = tcp_by_hand.read_rows(capture, reader_class)
    rows = tcp_by_hand.read_rows(capture, reader_class, ReadOptions(document_keys=False))
    none = {"key": None, "key_bytes": None}
    assert [{**row, **none} for row in rows] == [{**row, **none} for row in every]
    told = [row["key"] for row in rows if row["name"] not in ("mutation", "deletion")]
    assert told == [row["key"] for row in every if row["name"] not in ("mutation", "deletion")]
    assert "connection_buffer_size" in told
    if reader_class is not ReferenceReader:
        assert {row[name] for name in none for row in rows if row["name"] == "mutation"} == {None}
