"""Classic pcap: every layout, every cut, and the way back after damage."""

from __future__ import annotations

import io
import struct
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapWriter

from dissector.capture import CaptureReader
from tests.dissector.capture.test_build import (
    BASE_NS,
    SIZES,
    Packet,
    boundaries,
    noise,
    packets_of,
    pcap_file,
    pcap_header,
    pcap_record,
    read_all,
    reasons,
    some_packets,
)

if TYPE_CHECKING:
    import random

MAGICS = (0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", MAGICS)
def test_every_layout_is_read_exactly(order: str, magic: int) -> None:
    step = 1_000_000_001 if magic == 0xA1B23C4D else 1_000_001_000
    packets = packets_of(50, step_ns=step)
    outcome = read_all(pcap_file(packets, order, magic))
    assert outcome.packets == packets
    assert outcome.damage == []


def test_the_last_second_of_32_bits_is_no_negative_time() -> None:
    packet = Packet((2**32 - 1) * 10**9 + 999_999_000, b"x", 1)
    assert read_all(pcap_file([packet])).packets == [packet]


@pytest.mark.parametrize(
    ("network", "linktype"),
    [
        (1, 1),
        (113, 113),
        (0x14000001, 1),  # FCS length present (bit 26), one 16-bit word (bits 28 to 31)
        (0xF4000071, 113),
        (0xFFFF, 0xFFFF),
    ],
)
def test_the_frame_check_sequence_bits_are_no_part_of_the_link_type(network: int, linktype: int) -> None:
    packet = Packet(BASE_NS, b"abc", 3, linktype)
    assert read_all(pcap_header(network=network) + pcap_record(packet)).packets == [packet]


@pytest.mark.parametrize("snaplen", [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_nonsensical_snapshot_length_does_not_matter(snaplen: int) -> None:
    packets = packets_of(10)
    outcome = read_all(pcap_file(packets, snaplen=snaplen))
    assert outcome.packets == packets
    assert outcome.damage == []


def test_scapy_writes_what_is_read() -> None:
    out = io.BytesIO()
    out.close = lambda: None  # type: ignore[method-assign]  # scapy closes what it did not open
    packets = packets_of(30)
    with RawPcapWriter(out, linktype=113, nano=True) as writer:
        writer.write_header(None)
        for p in packets:
            writer.write_packet(
                p.data, sec=p.time_ns // 10**9, usec=p.time_ns % 10**9, caplen=len(p.data), wirelen=p.original
            )
    assert read_all(out.getvalue()).packets == [replace(p, linktype=113) for p in packets]


def test_dpkt_writes_what_is_read() -> None:
    out = io.BytesIO()
    writer = dpkt.pcap.Writer(out, linktype=101)
    packets = packets_of(30)
    for p in packets:
        writer.writepkt_time(p.data, p.time_ns / 10**9)
    expected = [Packet(p.time_ns, p.data, len(p.data), 101) for p in packets]
    assert read_all(out.getvalue()).packets == expected


def test_a_header_alone_is_a_capture_without_packets() -> None:
    outcome = read_all(pcap_header())
    assert outcome.packets == []
    assert outcome.damage == []


@given(some_packets(), st.sampled_from(["<", ">"]), st.sampled_from(MAGICS), st.integers(64, 700))
def test_any_chunk_size_gives_the_same_packets(packets: list[Packet], order: str, magic: int, size: int) -> None:
    outcome = read_all(pcap_file(packets, order, magic), size)
    assert outcome.packets == packets
    assert outcome.damage == []


@given(some_packets(least=1), st.sampled_from(MAGICS), st.sampled_from(SIZES), st.data())
def test_a_cut_anywhere_leaves_the_whole_packets(
    packets: list[Packet], magic: int, size: int, data: st.DataObject
) -> None:
    records = [pcap_record(p, magic=magic) for p in packets]
    whole = pcap_header(magic=magic) + b"".join(records)
    ends = boundaries(24, records)
    cut = data.draw(st.integers(4, len(whole)))
    outcome = read_all(whole[:cut], size)
    kept = sum(1 for end in ends[1:] if end <= cut)
    assert outcome.packets == packets[:kept]
    if cut in ends:
        assert outcome.damage == []
    else:
        (damage,) = outcome.damage
        assert damage.reason == "truncated"
        assert damage.offset == (ends[kept] if cut > 24 else 0)
        assert damage.capture == "made"


def test_packets_larger_than_the_chunk() -> None:
    packets = [Packet(BASE_NS + i * 1000, noise(i, size), size) for i, size in enumerate((10, 5000, 0, 70_000, 1))]
    data = pcap_file(packets)
    for size in SIZES:
        assert read_all(data, size).packets == packets


def test_an_absurd_length_costs_only_its_own_record() -> None:
    packets = packets_of(20)
    records = [pcap_record(p) for p in packets]
    start = boundaries(24, records)[8]
    for absurd in (0xFFFFFFFF, 0x80000000, (256 << 20) + 1):
        broken = list(records)
        broken[8] = broken[8][:8] + struct.pack("<I", absurd) + broken[8][12:]
        data = pcap_header() + b"".join(broken)
        for size in SIZES:
            outcome = read_all(data, size)
            assert outcome.packets == packets[:8] + packets[9:]
            (damage,) = outcome.damage
            assert (damage.reason, damage.offset, damage.skipped) == ("bad-record-header", start, len(records[8]))
            assert str(absurd) in damage.detail


@pytest.mark.parametrize("broken_index", [0, 18, 19])
def test_damage_at_the_first_and_the_last_records(broken_index: int) -> None:
    packets = packets_of(20)
    records = [pcap_record(p) for p in packets]
    records[broken_index] = records[broken_index][:8] + b"\xff\xff\xff\xff" + records[broken_index][12:]
    outcome = read_all(pcap_header() + b"".join(records))
    assert outcome.packets == packets[:broken_index] + packets[broken_index + 1 :]
    assert reasons(outcome) == ["bad-record-header"]


def test_a_length_beyond_the_end_is_searched_too() -> None:
    packets = packets_of(20)
    records = [pcap_record(p) for p in packets]
    records[8] = records[8][:8] + struct.pack("<I", 50_000) + records[8][12:]  # sane by itself, but the file is shorter
    data = pcap_header() + b"".join(records)
    for size in SIZES:
        outcome = read_all(data, size)
        assert outcome.packets == packets[:8] + packets[9:]
        assert reasons(outcome) == ["truncated"]
        assert "reading goes on" in outcome.damage[0].detail


def test_garbage_between_records_is_skipped_and_counted() -> None:
    packets = packets_of(20)
    records = [pcap_record(p) for p in packets]
    garbage = b"\xee" * 777
    data = pcap_header() + b"".join(records[:8]) + garbage + b"".join(records[8:])
    for size in SIZES:
        outcome = read_all(data, size)
        assert outcome.packets == packets
        assert [d.skipped for d in outcome.damage] == [777]


def test_records_a_day_away_from_the_last_are_not_believed_after_damage() -> None:
    near = packets_of(5)
    for days, believed in ((0.9, True), (-0.9, True), (1.1, False), (-1.1, False)):
        far = [replace(p, time_ns=p.time_ns + int(days * 86_400) * 10**9) for p in packets_of(5)]
        data = pcap_file(near) + b"\xee" * 40 + b"".join(pcap_record(p) for p in far)
        outcome = read_all(data)
        assert outcome.packets == near + (far if believed else [])
        assert reasons(outcome) == ["bad-record-header"]


def test_large_records_are_believed_when_another_record_or_the_end_follows() -> None:
    large = [Packet(BASE_NS + i * 1000, noise(i, size), size) for i, size in enumerate((9, 300_000, 400_000, 8))]
    for packets in (large, large[:3]):
        data = pcap_file(packets, snaplen=96)
        for size in (64, 300_000, 300_040, 1 << 22):
            outcome = read_all(data, size)
            assert outcome.packets == packets
            assert outcome.damage == []


def test_a_large_length_that_leads_nowhere_is_damage() -> None:
    first, hurt = packets_of(2)
    rest = [Packet(BASE_NS + i * 1000, noise(i, 1400), 1400) for i in range(500)]
    record = pcap_record(hurt)
    record = record[:8] + struct.pack("<II", 300_000, 300_000) + record[16:]
    data = pcap_header() + pcap_record(first) + record + b"".join(pcap_record(p) for p in rest)
    for size in (64, 4096, 1 << 20):
        outcome = read_all(data, size)
        assert outcome.packets == [first, *rest]
        assert reasons(outcome) == ["bad-record-header"]


def test_a_tail_of_zeros_is_damage_and_no_flood_of_empty_packets() -> None:
    packets = packets_of(5)
    for zeros in (16, 17, 5000):
        outcome = read_all(pcap_file(packets) + bytes(zeros), 64)
        assert outcome.packets == packets
        assert reasons(outcome) == ["bad-record-header"]
        assert outcome.damage[0].skipped == zeros


def test_zeros_are_no_chain_of_records_even_for_a_clock_that_was_never_set() -> None:
    packets = [replace(p, time_ns=p.time_ns - BASE_NS) for p in packets_of(10)]
    records = [pcap_record(p) for p in packets]
    gap = b"\xee" * 16 + bytes(300)
    outcome = read_all(pcap_header() + b"".join(records[:5]) + gap + b"".join(records[5:]))
    assert outcome.packets == packets
    assert [d.skipped for d in outcome.damage] == [len(gap)]


def test_a_large_record_that_contradicts_itself_is_not_waited_for() -> None:
    large = 100 << 20
    lie = struct.pack("<IIII", BASE_NS // 10**9, 0, large, large - 1)
    data = pcap_header() + lie + pcap_file([Packet(BASE_NS, noise(1, 1400), 1400)])[24:] * 15_000
    tracemalloc.start()
    try:
        reader = CaptureReader(io.BytesIO(data), chunk_bytes=1 << 16)
        count = sum(len(each) for each in reader)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 15_000
    assert [(d.reason, d.skipped) for d in reader.damage] == [("bad-record-header", 16)]
    assert peak < 4 << 20


def test_an_empty_packet_is_a_packet() -> None:
    packets = [Packet(BASE_NS, b"", 0), Packet(0, b"", 60), Packet(1000, b"", 0), Packet(BASE_NS, b"x", 1)]
    outcome = read_all(pcap_file(packets))
    assert outcome.packets == packets
    assert outcome.damage == []


@given(some_packets(least=1), st.randoms(use_true_random=False), st.integers(1, 12), st.sampled_from(SIZES))
def test_mutations_never_raise_and_chunks_still_make_no_difference(
    packets: list[Packet], rng: random.Random, changes: int, size: int
) -> None:
    data = bytearray(pcap_file(packets))
    for _ in range(changes):
        at = rng.randrange(4, len(data))
        data[at] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    outcome = read_all(bytes(data), size)
    assert outcome == read_all(bytes(data), 1 << 22)
    assert sum(len(p.data) + 16 for p in outcome.packets) <= len(data) - 24


@given(st.binary(max_size=2000), st.sampled_from(SIZES))
def test_arbitrary_bytes_after_a_header_never_raise(tail: bytes, size: int) -> None:
    data = pcap_header() + tail
    outcome = read_all(data, size)
    assert outcome == read_all(data)
    assert outcome.damage or sum(len(p.data) + 16 for p in outcome.packets) == len(tail)


def test_thousands_of_damaged_places_are_counted_but_not_all_listed() -> None:
    packets = packets_of(4)
    good = b"".join(pcap_record(p) for p in packets)
    outcome = read_all(pcap_header() + (good + b"\xee" * 30) * 1000)
    assert len(outcome.packets) == 4000
    assert len(outcome.damage) == 100
    assert sum(d.count for d in outcome.damage) == 1000
    assert sum(d.skipped for d in outcome.damage) == 30_000
    assert "and 900 more" in str(outcome.damage[-1])
