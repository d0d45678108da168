"""Conversations on the network: what was sent is what readers find, whatever the network did to it on the way."""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.errors import UsageError
from dissector.generate import to_capture
from dissector.generate.capture_files import Medium, form_of, rotated_name
from dissector.generate.conversation import CLIENT, SERVER, Conversation, size_buffer_acks
from dissector.generate.frame import Frame
from dissector.generate.impairments import Impairer, Impairments, parse_mss
from dissector.generate.segments import ACK, FIN, LARGEST_MSS, SYN, MadeSegment, deliver
from dissector.generate.session import Session
from dissector.generate.to_capture import Written
from dissector.spec.model import Dialect
from tests.support.tcp_by_hand import READERS, ReaderClass, Row, read_run

#: What names a frame: the client's port, the sender's side, where it begins and ends, and what had been heard.
Place = tuple[int, int, int, int, int]


def conversation(index: int = 0, items: int = 40, *, orderly: bool = True) -> Conversation:
    """A stream with acks, some of which had not heard everything when they were sent."""
    conversation = Conversation(client_port=40_000 + index, begin_ns=index * 700_000, orderly=orderly)
    session = Session(conversation, random.Random(index))  # noqa: S311 - no secret depends on it
    session.open(b"consumer-%d" % index)
    session.control("connection_buffer_size", "1000000")
    stream = session.stream(5 + index)
    stream.marker(0, items)
    for seqno in range(1, items + 1):
        stream.mutation(seqno, b"key-%d" % seqno, b"v" * (seqno * 37 % 300))
        if seqno % 9 == 0:
            session.ack(unheard=seqno % 4)
    session.noop()
    session.ack()
    size_buffer_acks(conversation)
    return conversation


def conversations(items: int = 40) -> list[Conversation]:
    return [conversation(index, items, orderly=index != 1) for index in range(3)]


def made(
    conversations: Sequence[Conversation],
    *,
    seed: int = 1,
    medium: Medium | None = None,
    impairments: Impairments | None = None,
) -> tuple[list[bytes], Written]:
    """Write a capture; return its files and what was written."""
    files: list[BytesIO] = []

    def opener(number: int) -> BytesIO:
        files.append(BytesIO())
        assert number == len(files)
        return files[-1]

    written = to_capture.write(conversations, opener, seed=seed, medium=medium, impairments=impairments)
    return [file.getvalue() for file in files], written


def sent(written: Written) -> list[Place]:
    return sorted(
        (40_000 + each.connection, each.emission.side, each.offset, each.end, each.heard)
        for connection in written.sent
        for each in connection
    )


def found(rows: Sequence[Row]) -> list[Place]:
    return sorted(
        (
            row["sport"] if row["dport"] == 11_210 else row["dport"],
            CLIENT if row["dport"] == 11_210 else SERVER,
            row["start_offset"],
            row["end_offset"],
            row["acked_offset"],
        )
        for row in rows
    )


MEDIA = [
    Medium(),
    Medium("pcap"),
    Medium("pcap", nanoseconds=True, ip=6),
    Medium(link="vlan"),
    Medium(link="vlan", ip=6, nanoseconds=True),
    Medium("pcap", link="sll2"),
    Medium(interfaces=2),
    Medium(interfaces=2, link="sll2", ip=6),
    Medium(rotate=7),
]
LOSSLESS = [
    Impairments(),
    Impairments(mss=(1, 1)),
    Impairments(mss=(3, 50)),
    Impairments(mss=(LARGEST_MSS, LARGEST_MSS)),
    Impairments(mss=(100, 100), reorder=0.3),
    Impairments(mss=(100, 100), overlap=0.5),
    Impairments(mss=(100, 100), retransmit=0.5),
    Impairments(duplicate=1.0),
    Impairments(mss=(20, 400), reorder=0.5, overlap=0.5, retransmit=0.5, duplicate=0.5),
]


@pytest.mark.parametrize("reader_class", READERS)
@pytest.mark.parametrize("medium", MEDIA, ids=str)
def test_every_medium_carries_what_was_sent(medium: Medium, reader_class: ReaderClass) -> None:
    files, written = made(conversations(), medium=medium)
    rows, report = read_run(files, reader_class)
    assert found(rows) == sent(written)
    assert report.losses() == []
    assert report.link.segments == len(written.packets)
    assert not report.link.dropped
    assert sum(written.files) == len(written.packets)
    assert {row["opcode"] for row in rows} == {0x50, 0x5E, 0x53, 0x56, 0x57, 0x5D, 0x5C}
    assert all(not row["defects"] for row in rows)


@pytest.mark.parametrize("reader_class", READERS)
@pytest.mark.parametrize("impairments", LOSSLESS, ids=lambda impairments: str(impairments.facts()))
def test_what_loses_nothing_changes_nothing(impairments: Impairments, reader_class: ReaderClass) -> None:
    """Offsets and what the senders had heard are those of the conversation."""
    files, written = made(conversations(40 if impairments.mss[1] > 1 else 8), impairments=impairments)
    rows, report = read_run(files, reader_class)
    assert found(rows) == sent(written)
    assert report.losses() == []
    assert report.bytes_conflicting == 0


def test_troubles_do_happen() -> None:
    """Otherwise the tests above would prove nothing."""
    plain = made(conversations(), impairments=Impairments(mss=(100, 100)))[1].packets
    rough = {
        name: made(conversations(), impairments=Impairments(mss=(100, 100), **{name: 0.3}))[1].packets
        for name in ("reorder", "overlap", "retransmit", "duplicate", "loss")
    }
    assert all(packets != plain for packets in rough.values())
    bytes_of = {name: sum(len(packet.data) for packet in packets) for name, packets in rough.items()}
    total = sum(len(packet.data) for packet in plain)
    assert bytes_of["reorder"] == total
    assert min(bytes_of[name] for name in ("overlap", "retransmit", "duplicate")) > total
    assert bytes_of["loss"] < total
    assert len(rough["reorder"]) == len(rough["overlap"]) == len(plain)
    cut_otherwise = {(packet.flow, packet.offset, packet.end) for packet in plain if packet.data}
    assert any((packet.flow, packet.offset, packet.end) not in cut_otherwise for packet in rough["retransmit"])


@given(
    seed=st.integers(0, 10_000),
    low=st.integers(1, 400),
    more=st.integers(0, 3000),
    chances=st.tuples(*[st.sampled_from([0.0, 0.1, 0.6, 1.0])] * 4),
    medium=st.sampled_from(MEDIA[:-1]),
)
def test_any_troubles(
    seed: int, low: int, more: int, chances: tuple[float, float, float, float], medium: Medium
) -> None:
    reorder, overlap, retransmit, duplicate = chances
    impairments = Impairments((low, low + more), reorder, overlap, retransmit, duplicate)
    files, written = made([conversation(0, 12), conversation(1, 7)], seed=seed, medium=medium, impairments=impairments)
    rows, report = read_run(files, READERS[1])
    assert found(rows) == sent(written)
    assert report.losses() == []
    times = [packet.time_ns for packet in written.packets]
    assert times == sorted(times)


@given(seed=st.integers(0, 10_000), loss=st.sampled_from([0.02, 0.2, 0.7]), mss=st.integers(20, 900))
def test_what_is_lost_is_missing_and_nothing_else(seed: int, loss: float, mss: int) -> None:
    files, written = made([conversation()], seed=seed, impairments=Impairments((mss, mss), loss=loss))
    rows, _ = read_run(files, READERS[1])
    there: dict[int, set[int]] = {CLIENT: set(), SERVER: set()}
    for packet in written.packets:
        there[packet.flow].update(range(packet.offset, packet.end))
    whole = {place for place in sent(written) if there[place[1]].issuperset(range(place[2], place[3]))}
    places = {place[:4] for place in sent(written)}
    assert {place[:4] for place in found(rows)} <= places
    # A frame that begins with lost bytes is acknowledged by whatever is there of it; a whole one as it was sent.
    assert set(found([row for row in rows if not row["missing"]])) <= whole
    for side in (CLIENT, SERVER):
        end = max(place[3] for place in places if place[1] == side)
        hole = next((offset for offset in range(end) if offset not in there[side]), end)
        before = {place for place in whole if place[1] == side and place[3] <= hole}
        assert before <= set(found(rows))


def test_exact_packets_are_lost() -> None:
    whole = made([conversation()])[1].packets
    lossy = made([conversation()], impairments=Impairments(lose=(9, 2, 9)))[1].packets
    assert lossy == [packet for number, packet in enumerate(whole, 1) if number not in (2, 9)]


@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("reader_class", READERS)
def test_one_side_only(side: int, reader_class: ReaderClass) -> None:
    files, written = made(conversations(), impairments=Impairments(only=side))
    assert {packet.flow & 1 for packet in written.packets} == {side}
    rows, _ = read_run(files, reader_class)
    # Nobody shows what an acknowledgement counts from.
    wanted = sorted(place[:1] + place[2:4] for place in sent(written) if place[1] == side)
    assert sorted(place[:1] + place[2:4] for place in found(rows)) == wanted


@pytest.mark.parametrize("skipped", [1, 6, 11, 30])
@pytest.mark.parametrize("reader_class", READERS)
def test_a_late_start_at_a_message(skipped: int, reader_class: ReaderClass) -> None:
    files, written = made([conversation()], impairments=Impairments(skip_messages=skipped, mss=(200, 200)))
    rows, report = read_run(files, reader_class)
    first = [min(each.offset for each in written.sent[0][skipped:] if each.emission.side == side) for side in (0, 1)]
    wanted = sorted((each.emission.side, each.offset - first[each.emission.side]) for each in written.sent[0][skipped:])
    assert sorted((place[1], place[2]) for place in found(rows)) == wanted
    assert report.bytes_skipped == 0


def test_a_late_start_at_a_packet() -> None:
    whole = made(conversations())[1].packets
    assert made(conversations(), impairments=Impairments(skip_packets=17))[1].packets == whole[17:]


def test_a_snap_length_cuts_packets_and_says_so() -> None:
    files, written = made([conversation()], medium=Medium("pcap", snaplen=100), impairments=Impairments(mss=(60, 60)))
    packets = list(dpkt.pcap.Reader(BytesIO(files[0])))
    assert max(len(data) for _, data in packets) == 100
    assert struct.unpack_from("<I", files[0], 16)[0] == 100
    # Ethernet, IP and TCP take 54 bytes.
    assert written.payloads == [min(len(packet.data), 46) for packet in written.packets]
    rows, _ = read_run(files, READERS[1])
    assert {place[:4] for place in found(rows)} <= {place[:4] for place in sent(written)}
    assert any(row["missing"] for row in rows)


# ------------------------------------------------------------------------------------------------------------ segments


def test_segments_acknowledge_what_had_been_heard() -> None:
    delivery = deliver(conversation(), 0, lambda: 150)
    highest = [0, 0]
    for segment in delivery.segments:
        assert segment.acked >= highest[segment.flow] or segment.flags & SYN
        highest[segment.flow] = max(highest[segment.flow], segment.acked)
    by_start = {(each.flow, each.offset): each.heard for each in delivery.sent}
    carriers = [
        (segment.acked, heard)
        for segment in delivery.segments
        for (flow, offset), heard in by_start.items()
        if flow == segment.flow and segment.offset <= offset < segment.end
    ]
    assert len(carriers) == len(delivery.sent)
    assert all(acked == heard for acked, heard in carriers)
    unheard = [each for each in delivery.sent if each.emission.unheard]
    assert unheard
    assert any(segment.flags == ACK and not segment.data for segment in delivery.segments[3:])


def test_nobody_acknowledges_what_was_not_sent_yet() -> None:
    totals = [0, 0]
    for segment in deliver(conversation(), 0, lambda: 99).segments:
        side = segment.flow
        assert segment.acked <= totals[1 - side]
        totals[side] = max(totals[side], segment.end + bool(segment.flags & FIN))
    assert totals[0] > 1


def test_segments_are_of_the_size_that_was_asked_for() -> None:
    sizes = [len(segment.data) for segment in deliver(conversation(), 0, lambda: 99).segments]
    assert max(sizes) == 99
    assert [len(segment.data) for segment in deliver(conversation(), 0, lambda: 1).segments if segment.data] == [
        1
    ] * sum(sizes)


def test_messages_of_one_burst_share_a_segment_and_those_with_other_acknowledgements_do_not() -> None:
    conversation = Conversation()
    for unheard in (0, 0):
        conversation.send(CLIENT, Frame(Dialect.DCP, "noop"), unheard=unheard)
    conversation.send(SERVER, Frame(Dialect.DCP, "noop", response=True))
    conversation.send(CLIENT, Frame(Dialect.DCP, "noop"), unheard=1)
    conversation.send(CLIENT, Frame(Dialect.DCP, "noop"))
    data = [
        (each.flow, each.offset, each.acked, len(each.data)) for each in deliver(conversation, 0, lambda: 1448).segments
    ]
    assert [each for each in data if each[3]] == [(0, 0, 0, 48), (1, 0, 48, 24), (0, 48, 0, 24), (0, 72, 24, 24)]


def test_open_ends_and_orderly_ones() -> None:
    ends = [deliver(conversation(orderly=orderly), 0, lambda: 1448).segments for orderly in (True, False)]
    assert [sum(bool(segment.flags & FIN) for segment in segments) for segments in ends] == [2, 0]


def test_a_repeated_segment_never_comes_behind_the_end() -> None:
    maker = Impairer(Impairments(duplicate=1.0, retransmit=1.0), 1)
    segments = maker.disturb(deliver(conversation(), 0, lambda: 1448).segments)
    first_fin = next(at for at, segment in enumerate(segments) if segment.flags & FIN)
    assert not any(segment.data for segment in segments[first_fin:])


def test_the_largest_segments_can_be_sent_again() -> None:
    full = b"x" * LARGEST_MSS
    segments = [MadeSegment(0, at * LARGEST_MSS, 0, ACK, full, at) for at in range(20)]
    maker = Impairer(Impairments(retransmit=1.0, overlap=1.0, mss=(LARGEST_MSS, LARGEST_MSS)), 3)
    assert max(len(segment.data) for segment in maker.disturb(segments)) == LARGEST_MSS


# ------------------------------------------------------------------------------------------------------------- packets


def ones_complement(data: bytes) -> int:
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.mark.parametrize("version", [4, 6])
def test_checksums(version: int) -> None:
    files, _ = made(conversations(), medium=Medium("pcap", ip=version), impairments=Impairments(mss=(1, 700)))
    checked = 0
    for _, data in dpkt.pcap.Reader(BytesIO(files[0])):
        ip = data[14:]
        head, addresses = (20, ip[12:20]) if version == 4 else (40, ip[8:40])
        if version == 4:
            assert ones_complement(ip[:20]) == 0xFFFF
        tcp = ip[head:]
        assert ones_complement(addresses + struct.pack(">II", len(tcp), 6) + tcp) == 0xFFFF
        checked += 1
    assert checked > 100


def test_one_connection_goes_round_the_sequence_numbers() -> None:
    files, _ = made(conversations(), medium=Medium("pcap"))
    numbers: dict[int, list[int]] = {}
    for _, data in dpkt.pcap.Reader(BytesIO(files[0])):
        tcp = dpkt.ethernet.Ethernet(data).data.data
        if tcp.sport == 11_210 and tcp.data:
            numbers.setdefault(tcp.dport, []).append(tcp.seq)
    assert max(numbers[40_000]) > 2**32 - 10_000
    assert min(numbers[40_000]) < 10_000
    assert len({each[0] for each in numbers.values()}) == 3


def test_the_same_seed_gives_the_same_bytes() -> None:
    rough = LOSSLESS[-1]
    first, again, other = (made(conversations(), seed=seed, impairments=rough)[0] for seed in (4, 4, 5))
    assert first == again
    assert first != other


def test_files_take_turns() -> None:
    files, written = made(conversations(), medium=Medium("pcap", rotate=10))
    counts = [len(list(dpkt.pcap.Reader(BytesIO(file)))) for file in files]
    assert counts == written.files
    assert set(counts[:-1]) == {10}
    assert rotated_name("some/out.pcapng", 3) == "some/out-00003.pcapng"


def test_a_capture_of_nothing_is_one() -> None:
    files, _ = made([])
    assert len(files) == 1
    assert read_run(files, READERS[1])[0] == []


def test_the_rate_stretches_time() -> None:
    conversations = [conversation()]
    spans = []
    for rate in (10.0, 1000.0):
        written = to_capture.write(conversations, lambda _: BytesIO(), rate=rate)
        spans.append(written.packets[-1].time_ns / 1e9)
    messages = len(conversations[0].emissions)
    assert spans == pytest.approx([messages / 10, messages / 1000], rel=0.05)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Impairments(mss=(0, 5)),
        lambda: Impairments(mss=(9, 5)),
        lambda: Impairments(mss=(1, LARGEST_MSS + 1)),
        lambda: Impairments(loss=1.5),
        lambda: Medium("pcap", interfaces=2),
        lambda: Medium(interfaces=3),
        lambda: Medium("erf"),
        lambda: form_of("out.txt"),
        lambda: parse_mss("1-x"),
    ],
)
def test_what_cannot_be(bad: object) -> None:
    with pytest.raises(UsageError):
        bad()  # type: ignore[operator]


@pytest.mark.tool("tshark")
@pytest.mark.parametrize("medium", MEDIA[:8], ids=str)
def test_tshark_finds_nothing_wrong(medium: Medium, tmp_path: Path) -> None:
    """Every message, right checksums, nothing malformed."""
    files, written = made(conversations(), medium=medium, impairments=Impairments(mss=(80, 900), retransmit=0.1))
    path = tmp_path / f"capture.{medium.form}"
    path.write_bytes(files[0])
    command = ["tshark", "-r", str(path), "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]
    command += ["-d", "tcp.port==11210,couchbase", "-T", "fields"]
    command += [word for name in ("_ws.malformed", "couchbase.opcode") for word in ("-e", name)]
    command += [word for name in ("ip.checksum.status", "tcp.checksum.status") for word in ("-e", name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == len(written.packets)
    assert {line[0] for line in lines} == {""}
    assert sum(len(line[1].split(",")) for line in lines if line[1]) == len(sent(written))
    assert {line[2] for line in lines} <= {"", "1"}
    assert {line[3] for line in lines} == {"1"}
