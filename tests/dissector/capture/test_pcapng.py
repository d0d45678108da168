"""pcapng: sections, interfaces, clocks, every packet block, and blocks that lie about their length."""

from __future__ import annotations

import io
import struct
import tracemalloc
from typing import TYPE_CHECKING

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapNgWriter

from dissector.capture import CaptureReader
from tests.dissector.capture.test_build import (
    BASE_NS,
    BASE_S,
    SIZES,
    Packet,
    block,
    boundaries,
    epb,
    interface,
    noise,
    old_packet,
    option,
    packets_of,
    pcapng_file,
    read_all,
    reasons,
    section,
    simple_packet,
    some_packets,
)

if TYPE_CHECKING:
    import random
    from pathlib import Path

MICRO = BASE_NS // 1000
ORDERS = ("<", ">")
TSRESOL, TSOFFSET = 9, 14


def blocks_of(packets: list[Packet]) -> list[bytes]:
    return [epb(p.data, p.time_ns // 1000, p.original) for p in packets]


@pytest.mark.parametrize("order", ORDERS)
def test_one_section_one_interface(order: str) -> None:
    packets = packets_of(50)
    for size in SIZES:
        outcome = read_all(pcapng_file(packets, order), size)
        assert outcome.packets == packets
        assert outcome.damage == []


def test_every_interface_has_its_own_link_type_and_clock() -> None:
    def resolution(value: int) -> bytes:
        return option(TSRESOL, bytes([value]))

    data = b"".join(
        [
            section(),
            interface(1),
            interface(113, options=resolution(9)),
            interface(101, options=option(2, b"eth0") + resolution(3) + option(TSOFFSET, struct.pack("<q", -3600))),
            interface(276, options=resolution(0x80 | 20)),
            interface(0, options=resolution(12)),
            epb(b"a", BASE_S * 10**6 + 1, 1, 0),
            epb(b"b", BASE_S * 10**9 + 1, 2, 1),
            epb(b"c", BASE_S * 10**3 + 1, 3, 2),
            epb(b"d", BASE_S * 2**20 + 1, 4, 3),
            epb(b"e", BASE_S * 10**6 + 2, 5, 0),
            epb(b"f", 7 * 10**12 + 1999, 6, 4),
        ]
    )
    expected = [
        Packet(BASE_NS + 1000, b"a", 1, 1, 0),
        Packet(BASE_NS + 1, b"b", 2, 113, 1),
        Packet(BASE_NS + 10**6 - 3600 * 10**9, b"c", 3, 101, 2),
        Packet(BASE_NS + 953, b"d", 4, 276, 3),  # 10^9 / 2^20 = 953.67
        Packet(BASE_NS + 2000, b"e", 5, 1, 0),
        Packet(7 * 10**9 + 1, b"f", 6, 0, 4),
    ]
    for size in SIZES:
        assert read_all(data, size).packets == expected


def test_sections_start_their_interfaces_anew_in_either_byte_order() -> None:
    nanoseconds_and_5_s = option(TSRESOL, b"\x09", ">") + option(TSOFFSET, struct.pack(">q", 5), ">")
    data = b"".join(
        [
            section("<", claimed=4),  # a section length that lies is of no interest
            interface(1, order="<"),
            interface(113, order="<"),
            epb(b"a", MICRO, 1, 1, "<"),
            section(">"),
            interface(101, options=nanoseconds_and_5_s, order=">"),
            epb(b"b", BASE_NS, 2, 0, ">"),
            section("<"),
            interface(276, order="<"),
            epb(b"c", MICRO, 3, 0, "<"),
        ]
    )
    expected = [
        Packet(BASE_NS, b"a", 1, 113, 1),
        Packet(BASE_NS + 5 * 10**9, b"b", 2, 101, 2),
        Packet(BASE_NS, b"c", 3, 276, 3),
    ]
    for size in SIZES:
        outcome = read_all(data, size)
        assert outcome.packets == expected
        assert outcome.damage == []


@pytest.mark.parametrize("order", ORDERS)
def test_simple_and_obsolete_packet_blocks(order: str) -> None:
    data = b"".join(
        [
            section(order),
            interface(1, snaplen=5, order=order),
            interface(113, options=option(TSRESOL, b"\x09", order), order=order),
            simple_packet(b"first", 9, order),
            epb(b"timed", MICRO, 5, 0, order),
            simple_packet(b"cut", 3, order),
            simple_packet(b"12345", 60, order),  # the snapshot length cut it
            old_packet(b"old", BASE_NS + 7, 33, 1, order),
            simple_packet(b"late", 4, order),
        ]
    )
    expected = [
        Packet(0, b"first", 9),
        Packet(BASE_NS, b"timed", 5),
        Packet(BASE_NS, b"cut", 3),
        Packet(BASE_NS, b"12345", 60),
        Packet(BASE_NS + 7, b"old", 33, 113, 1),
        Packet(BASE_NS + 7, b"late", 4),
    ]
    for size in SIZES:
        outcome = read_all(data, size)
        assert outcome.packets == expected
        assert outcome.damage == []


def test_a_simple_packet_without_a_snapshot_length_ends_with_its_block() -> None:
    data = section() + interface(snaplen=0) + simple_packet(b"12345678", 60) + simple_packet(b"abc", 3)
    outcome = read_all(data)
    assert outcome.packets == [Packet(0, b"12345678", 60), Packet(0, b"abc", 3)]
    assert outcome.damage == []


def test_other_blocks_are_passed_over() -> None:
    packets = packets_of(8)
    others = [
        block(kind, bytes(range(4 * i))) for i, kind in enumerate((4, 5, 7, 9, 10, 0xBAD, 0x40000BAD, 0x80000001))
    ]
    mixed = [x for pair in zip(blocks_of(packets), others, strict=True) for x in pair]
    data = b"".join([section(), others[1], interface(), others[2], *mixed])
    for size in SIZES:
        outcome = read_all(data, size)
        assert outcome.packets == packets
        assert outcome.damage == []


def test_options_of_a_packet_block_are_no_packet_bytes() -> None:
    data = section() + interface() + epb(b"abcde", MICRO, 5, options=option(1, b"a comment") + option(0, b""))
    assert read_all(data).packets == [Packet(BASE_NS, b"abcde", 5)]


def test_broken_interface_options_leave_the_defaults() -> None:
    for options in (
        struct.pack("<HH", TSRESOL, 60_000),
        option(TSRESOL, b"\x09\x09"),
        option(TSOFFSET, b"\x01"),
        b"\x09",
        option(0, b"") + option(TSRESOL, b"\x09"),
    ):
        body = struct.pack("<HHI", 1, 0, 0) + options
        outcome = read_all(section() + block(1, body) + epb(b"x", MICRO, 1))
        assert outcome.packets == [Packet(BASE_NS, b"x", 1)]


def test_scapy_writes_what_is_read(tmp_path: Path) -> None:
    packets = packets_of(30)
    with RawPcapNgWriter(str(tmp_path / "scapy.pcapng")) as writer:
        writer.linktype = 113
        writer.write_header(None)
        for p in packets:
            writer.write_packet(p.data, sec=p.time_ns / 10**9, wirelen=p.original)
    outcome = read_all((tmp_path / "scapy.pcapng").read_bytes())
    assert [(p.data, p.original, p.linktype) for p in outcome.packets] == [(p.data, p.original, 113) for p in packets]
    assert max(abs(a.time_ns - b.time_ns) for a, b in zip(outcome.packets, packets, strict=True)) <= 1000  # floats
    assert outcome.damage == []


def test_dpkt_writes_what_is_read() -> None:
    out = io.BytesIO()
    writer = dpkt.pcapng.Writer(out, linktype=113)
    packets = packets_of(30)
    for p in packets:
        writer.writepkt(p.data, p.time_ns / 10**9)
    got = read_all(out.getvalue()).packets
    assert [(p.data, p.linktype) for p in got] == [(p.data, 113) for p in packets]
    assert max(abs(a.time_ns - b.time_ns) for a, b in zip(got, packets, strict=True)) <= 1000  # it goes through floats


def test_a_section_without_packets() -> None:
    for data in (section(), section() + interface()):
        outcome = read_all(data)
        assert outcome.packets == []
        assert outcome.damage == []


@given(some_packets(), st.sampled_from(ORDERS), st.integers(64, 700))
def test_any_chunk_size_gives_the_same_packets(packets: list[Packet], order: str, size: int) -> None:
    outcome = read_all(pcapng_file(packets, order), size)
    assert outcome.packets == packets
    assert outcome.damage == []


@given(some_packets(least=1), st.sampled_from(SIZES), st.data())
def test_a_cut_anywhere_leaves_the_whole_packets(packets: list[Packet], size: int, data: st.DataObject) -> None:
    pieces = [section(), interface(), *blocks_of(packets)]
    whole = b"".join(pieces)
    ends = boundaries(0, pieces)
    cut = data.draw(st.integers(4, len(whole)))
    outcome = read_all(whole[:cut], size)
    complete = sum(1 for end in ends[1:] if end <= cut)
    assert outcome.packets == packets[: max(0, complete - 2)]
    if cut in ends:
        assert outcome.damage == []
    else:
        (damage,) = outcome.damage
        assert (damage.reason, damage.offset) == ("truncated", ends[complete])


@given(some_packets(least=1), st.randoms(use_true_random=False), st.integers(1, 12), st.sampled_from(SIZES))
def test_mutations_never_raise_and_chunks_still_make_no_difference(
    packets: list[Packet], rng: random.Random, changes: int, size: int
) -> None:
    data = bytearray(pcapng_file(packets))
    for _ in range(changes):
        at = rng.choice((rng.randrange(4, 8), rng.randrange(12, len(data))))  # the first magic numbers must stay
        data[at] = rng.choice((0, 1, 4, 0x7F, 0xFF, rng.randrange(256)))
    assert read_all(bytes(data), size) == read_all(bytes(data), 1 << 22)


@given(st.binary(max_size=1000), st.sampled_from(SIZES))
def test_arbitrary_bytes_after_a_section_never_raise(tail: bytes, size: int) -> None:
    data = section() + interface() + tail
    assert read_all(data, size) == read_all(data, 1 << 22)


# Blocks that lie. Each stands between sound packets, which must all be read.


def bad_length(claimed: int, kind: int = 6) -> bytes:
    good = epb(noise(1, 60), MICRO, 60)
    return struct.pack("<II", kind, claimed) + good[8:]


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (bad_length(0), "bad-block-length"),
        (bad_length(4), "bad-block-length"),
        (bad_length(11), "bad-block-length"),
        (bad_length(93), "bad-block-length"),
        (bad_length(94), "bad-block-length"),
        (bad_length(0xFFFFFFFC), "bad-block-length"),
        (bad_length(0xFFFFFFFF), "bad-block-length"),
        (bad_length((256 << 20) + 4), "bad-block-length"),
        (bad_length(100 << 20), "truncated"),
        (bad_length(88), "bad-block-length"),
        (bad_length(0xFFFFFFFC, kind=0x0A0D0D0A), "bad-section-header"),
        (bad_length(0xFFFFFFFC, kind=1), "bad-block-length"),
        (bad_length(0xFFFFFFFC, kind=0x12345678), "bad-block-length"),
        (epb(noise(1, 60), MICRO, 60)[:-4] + struct.pack("<I", 96), "bad-block-length"),
        (block(5, noise(1, 60))[:-4] + bytes(4), "bad-block-length"),
        (b"\xee" * 400, "bad-block-length"),
        (bytes(400), "bad-block-length"),
    ],
)
def test_a_lying_block_is_reported_and_the_packets_after_it_are_read(lie: bytes, reason: str) -> None:
    packets = packets_of(20)
    sound = blocks_of(packets)
    before = b"".join([section(), interface(), *sound[:9]])
    data = before + lie + b"".join(sound[9:])
    for size in SIZES:
        outcome = read_all(data, size)
        assert outcome.packets == packets
        (damage,) = outcome.damage
        assert (damage.reason, damage.offset, damage.skipped) == (reason, len(before), len(lie))


def test_damage_before_a_section_of_the_other_byte_order() -> None:
    packets = packets_of(6)
    data = pcapng_file(packets[:3], "<") + b"\xee" * 41 + pcapng_file(packets[3:], ">")
    outcome = read_all(data)
    assert [p.data for p in outcome.packets] == [p.data for p in packets]
    assert reasons(outcome) == ["bad-block-length"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_damaged_first_section_header_still_tells_the_byte_order(order: str) -> None:
    packets = packets_of(6)
    data = bytearray(pcapng_file(packets, order))
    data[4:8] = bytes(4)
    outcome = read_all(bytes(data))
    assert outcome.packets == packets
    assert reasons(outcome) == ["bad-block-length"]


def test_lengths_that_make_sense_in_the_wrong_byte_order_lead_nowhere() -> None:
    # 0x180000 read from the other end is 0x1800, and in so regular a file both find "their" second length.
    data = section() + interface() + struct.pack("<II", 6, 0x180000) * (2 << 17)
    for size in (1 << 16, 1 << 22):
        outcome = read_all(data, size)
        assert outcome.packets == []
        assert [(d.reason, d.count) for d in outcome.damage] == [("unknown-interface", 1), ("truncated", 1)]


def test_packets_of_unknown_interfaces_are_counted() -> None:
    known = packets_of(5)
    sound = blocks_of(known)
    lost = [epb(b"lost", MICRO, 4, number) for number in (1, 77, 0xFFFFFFFF)]
    data = b"".join([section(), interface(), *sound[:2], *lost, *sound[2:]])
    for size in SIZES:
        outcome = read_all(data, size)
        assert outcome.packets == known
        (damage,) = outcome.damage
        assert (damage.reason, damage.count) == ("unknown-interface", 3)
        assert damage.offset == len(section() + interface() + sound[0] + sound[1])


def test_packets_before_any_interface_are_unknown() -> None:
    data = section() + epb(b"x", MICRO, 1) + simple_packet(b"y", 1) + old_packet(b"z", MICRO, 1)
    outcome = read_all(data)
    assert outcome.packets == []
    assert [(d.reason, d.count) for d in outcome.damage] == [("unknown-interface", 3)]


def test_a_packet_larger_than_its_block_is_refused() -> None:
    good = epb(b"abcd", MICRO, 4)
    lie = good[:20] + struct.pack("<I", 5) + good[24:]
    outcome = read_all(section() + interface() + lie + good)
    assert outcome.packets == [Packet(BASE_NS, b"abcd", 4)]
    assert reasons(outcome) == ["malformed-block"]


def test_blocks_too_short_for_their_kind_are_malformed() -> None:
    short = [block(6, b"1234"), block(3, b""), block(2, b"123456789"), block(1, b"")]
    outcome = read_all(b"".join([section(), interface(), *short, epb(b"x", MICRO, 1)]))
    assert outcome.packets == [Packet(BASE_NS, b"x", 1)]
    assert reasons(outcome) == ["malformed-block"] * 4


def test_thousands_of_interfaces() -> None:
    count = 5000
    blocks = [
        interface(i % 300, options=option(TSOFFSET, struct.pack("<q", i % 7))) + epb(b"p", MICRO, 1, i)
        for i in range(count)
    ]
    outcome = read_all(section() + b"".join(blocks))
    assert outcome.packets == [Packet(BASE_NS + i % 7 * 10**9, b"p", 1, i % 300, i) for i in range(count)]
    assert outcome.damage == []


def test_more_interfaces_than_make_sense() -> None:
    data = section() + interface(5) * 65_540 + epb(b"p", MICRO, 1, 65_535) + epb(b"q", MICRO, 1, 65_536)
    outcome = read_all(data)
    assert outcome.packets == [Packet(BASE_NS, b"p", 1, 5, 65_535)]
    assert [(d.reason, d.count) for d in outcome.damage] == [("too-many-interfaces", 4), ("unknown-interface", 1)]


class Mostly:
    """A stream of some bytes, very many zeros, and some bytes again, without holding the zeros."""

    name = "mostly zeros"

    def __init__(self, before: bytes, zeros: int, after: bytes) -> None:
        self.left: list[bytes | int] = [before, zeros, after]

    def readinto(self, target: memoryview, /) -> int:
        while self.left:
            part = self.left[0]
            if isinstance(part, int):
                count = min(part, len(target))
                target[:count] = bytes(count)
                self.left[0] = part - count
            else:
                count = min(len(part), len(target))
                target[:count] = part[:count]
                self.left[0] = part[count:]
            if count:
                return count
            self.left.pop(0)
        return 0


@pytest.mark.parametrize("kind", [4, 10, 0xBAD, 0x40000BAD])
def test_an_enormous_block_of_no_use_is_passed_over_without_holding_it(kind: int) -> None:
    length = 300 << 20
    before = section() + interface() + epb(b"a", MICRO, 1) + struct.pack("<II", kind, length)
    after = struct.pack("<I", length) + epb(b"b", MICRO, 1)
    tracemalloc.start()
    try:
        reader = CaptureReader(Mostly(before, length - 12, after), chunk_bytes=1 << 20)
        packets = [each.packet(i) for each in reader for i in range(len(each))]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert packets == [b"a", b"b"]
    assert reader.damage == []
    assert peak < 16 << 20


def test_an_enormous_block_that_never_ends_is_a_cut_file() -> None:
    start = section() + interface() + epb(b"a", MICRO, 1)
    data = start + struct.pack("<II", 5, 0xFFFFFFFC) + noise(1, 5000)
    for size in SIZES:
        outcome = read_all(data, size)
        assert [p.data for p in outcome.packets] == [b"a"]
        (damage,) = outcome.damage
        assert (damage.reason, damage.offset, damage.skipped) == ("truncated", len(start), 5008)
        assert str(0xFFFFFFFC - 5008) in damage.detail


def test_a_length_alone_allocates_nothing() -> None:
    data = section() + interface() + struct.pack("<II", 6, 250 << 20) + noise(1, 100)
    tracemalloc.start()
    try:
        outcome = read_all(data, 4096)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reasons(outcome) == ["truncated"]
    assert peak < 4 << 20
