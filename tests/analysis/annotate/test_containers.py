"""Copies with comments, container by container: what changes is the options of packet blocks, and nothing else."""

from __future__ import annotations

import io
import struct
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.annotate.capture_copy import CopyResult, copy
from analysis.annotate.comment import PacketComment
from dissector.capture.clock import Clock
from dissector.capture.compression import RawStream
from tests.dissector.capture.test_build import (
    BASE_NS,
    block,
    epb,
    interface,
    old_packet,
    option,
    packets_of,
    pcap_file,
    pcap_header,
    pcap_record,
    pcapng_file,
    section,
    simple_packet,
)
from tests.dissector.capture.test_pcapng import Mostly
from tests.support.pcapng_copies import (
    COMMENT,
    ENHANCED_PACKET,
    INTERFACE,
    SECTION,
    SIMPLE_PACKET,
    Block,
    blocks_in,
    packets_in,
)

_PLACES = (("guilty", 3),)
OURS = str(PacketComment("SEQ-01", "error", "guilty", "noop", "it is wrong.", "SEQ-01-0123abcd", _PLACES)).encode()
ALSO_OURS = str(PacketComment("SNP-02", "info", "last", "noop", "too.", "SNP-02-0123abcd", _PLACES)).encode()
FOREIGN = b"look: SEQ-01 error guilty, noop: wrong. [uprscope SEQ-01-0123abcd; guilty 3; 00000000]"
ORDERS = ("<", ">")
FLAGS, TSRESOL, FCSLEN, TSOFFSET = 2, 9, 13, 14
MICRO = BASE_NS // 1000
END = bytes(4)


class Chosen:
    """Comments by packet number, in place of those of findings."""

    left_out = 0

    def __init__(self, comments: dict[int, list[bytes]]) -> None:
        self._comments = comments
        self.numbers = np.array(sorted(comments), np.int64)

    def of(self, packet: int) -> list[bytes]:
        return self._comments.get(packet, [])


def copied(
    *files: bytes | RawStream, comments: dict[int, list[bytes]] | None = None, chunk: int = 1 << 20
) -> tuple[bytes, CopyResult]:
    stream = io.BytesIO()
    inputs = [io.BytesIO(data) if isinstance(data, bytes) else data for data in files]
    done = copy(inputs, Chosen(comments or {}), stream, chunk)
    return stream.getvalue(), done


def copy_of(*files: bytes, comments: dict[int, list[bytes]] | None = None) -> bytes:
    return copied(*files, comments=comments)[0]


def packet_blocks(data: bytes) -> list[Block]:
    return [each for each in blocks_in(data) if each.is_packet]


def comment(text: bytes, order: str = "<") -> bytes:
    return option(COMMENT, text, order)


# ------------------------------------------------------------------------------------------------------------- pcapng


@pytest.mark.parametrize("order", ORDERS)
def test_only_the_options_of_the_chosen_packet_change(order: str) -> None:
    data = pcapng_file(packets_of(5), order)
    before = [*blocks_in(data)]
    after = [*blocks_in(copy_of(data, comments={2: [b"one", b"three"]}))]
    assert [each for each in after if each.comments != ["one", "three"]] == [*before[:3], *before[4:]]
    assert (after[3].fixed, after[3].order) == (before[3].fixed, order)
    assert after[3].options == [(COMMENT, b"one"), (COMMENT, b"three")]
    assert after[3].raw.endswith(comment(b"three", order) + END + after[3].raw[4:8])


@pytest.mark.parametrize("order", ORDERS)
def test_every_other_block_is_copied(order: str) -> None:
    """Name resolution, statistics, secrets, custom blocks of both kinds, and one of an unknown type."""
    others = [block(kind, b"\x01\x02\x03\x04" * 5, order) for kind in (4, 5, 10, 0xBAD, 0x40000BAD, 0x1234, 0x80000001)]
    described = interface(
        options=option(2, b"eth0", order) + option(13, b"\x04", order) + option(99, b"?", order), order=order
    )
    packet = epb(b"abcde", MICRO, 9, order=order)
    data = section(order) + b"".join(each + packet for each in (described, *others)) + others[0]
    result = copy_of(data, comments={3: [b"here"]})
    assert copy_of(data) == data
    assert [each.raw for each in blocks_in(result) if not each.is_packet] == [
        each.raw for each in blocks_in(data) if not each.is_packet
    ]
    assert [each.comments for each in packet_blocks(result)] == [[], [], ["here"], [], [], [], [], []]


@pytest.mark.parametrize("order", ORDERS)
def test_other_options_stay_in_their_order_and_ours_come_last(order: str) -> None:
    flags = (FLAGS, struct.pack(f"{order}I", 1))
    there = [flags, (COMMENT, FOREIGN), (2988, b"\0\0\x12\x34custom"), (COMMENT, b"\xff\xfe no utf-8"), (COMMENT, b"")]
    options = b"".join(option(code, value, order) for code, value in there)
    for end in (END, b""):
        data = section(order) + interface(order=order) + epb(b"abc", MICRO, 3, order=order, options=options + end)
        (after,) = packet_blocks(copy_of(data, comments={1: [OURS]}))
        assert after.options == [*there, (COMMENT, OURS)]
        assert copy_of(data) == data


@pytest.mark.parametrize("order", ORDERS)
def test_comments_of_our_form_are_left_out(order: str) -> None:
    flags = option(FLAGS, struct.pack(f"{order}I", 1), order)
    forged = comment(OURS, order)
    head = section(order) + interface(order=order)
    data = head + b"".join(
        epb(b"abc", MICRO, 3, order=order, options=options)
        for options in (
            forged + END,
            flags + forged + forged + END,
            comment(b"a", order) + forged + comment(b"b", order),
        )
    )
    result, done = copied(data, comments={1: [b"new"]})
    assert [each.options for each in packet_blocks(result)] == [
        [(COMMENT, b"new")],
        [(FLAGS, struct.pack(f"{order}I", 1))],
        [(COMMENT, b"a"), (COMMENT, b"b")],
    ]
    assert done.removed == 4
    assert copy_of(data).startswith(head + epb(b"abc", MICRO, 3, order=order))  # none left: no options at all


def test_annotating_again_changes_nothing() -> None:
    data = pcapng_file(packets_of(4))
    once = copy_of(data, comments={3: [OURS, OURS]})
    twice, done = copied(once, comments={3: [OURS, OURS]})
    assert twice == once
    assert done.removed == 2
    assert copy_of(once) == data


def test_the_mark_in_a_packet_is_no_comment() -> None:
    packets = [replace(packet, data=OURS + packet.data) for packet in packets_of(3)]
    data = pcapng_file(packets)
    assert copied(data) == (data, CopyResult(packets=3))


@pytest.mark.parametrize("order", ORDERS)
def test_obsolete_packet_blocks_stay_what_they_are(order: str) -> None:
    data = section(order) + interface(order=order) + old_packet(b"abcde", MICRO, 7, order=order)
    (before,) = packet_blocks(data)
    (after,) = packet_blocks(copy_of(data, comments={1: [OURS]}))
    assert (after.kind, after.fixed, after.options) == (before.kind, before.fixed, [(COMMENT, OURS)])
    assert copy_of(copy_of(data, comments={1: [OURS]})) == data


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("resolution", "time_ns"), [(9, BASE_NS + 1), (6, BASE_NS), (0x9E, BASE_NS + 1), (0, BASE_NS)])
def test_simple_packets_take_the_time_of_the_packet_before(order: str, resolution: int, time_ns: int) -> None:
    """They have none of their own; interface 0 may have any clock."""
    per_second = 2**30 if resolution & 0x80 else 10**resolution
    ticks = -(-time_ns * per_second // 10**9)
    clock = option(TSRESOL, bytes((resolution,)), order) + option(TSOFFSET, struct.pack(f"{order}q", -10), order)
    data = section(order) + interface(snaplen=4, options=clock, order=order) + interface(order=order)
    data += epb(b"abcde", ticks, 7, order=order) + simple_packet(b"wxyz", 9, order) * 3
    result = copy_of(data, comments={3: [OURS]})
    assert packets_in(result, sound=True) == packets_in(data)
    assert [packet.time_ns for packet in packets_in(result)] == [time_ns - 10**10] * 4
    assert [each.kind for each in packet_blocks(result)] == [
        ENHANCED_PACKET,
        SIMPLE_PACKET,
        ENHANCED_PACKET,
        SIMPLE_PACKET,
    ]
    assert copy_of(data) == data


def test_a_clock_that_cannot_tell_the_time_tells_the_one_before() -> None:
    assert Clock(6).ticks(1_999) == 1
    assert Clock(6, offset_seconds=1).ticks(0) == 0
    assert Clock(9).ticks(1 << 80) == (1 << 64) - 1


@given(st.integers(0, 0xFF), st.integers(-(2**33), 2**33), st.integers(0, 2**62))
def test_ticks_are_the_way_back(resolution: int, offset: int, time_ns: int) -> None:
    clock = Clock(resolution, offset)
    ticks = clock.ticks(time_ns)
    (read,) = clock.nanoseconds(np.array([ticks], np.uint64)).tolist()
    if 0 < ticks < 2**64 - 1:
        (after,) = clock.nanoseconds(np.array([ticks + 1], np.uint64)).tolist()
        assert read <= time_ns
        assert read == time_ns or after > time_ns


def test_sections_in_either_byte_order() -> None:
    data = b"".join(pcapng_file(packets_of(3), order) for order in (*ORDERS, "<"))
    result = copy_of(data, comments={2: [b"a"], 6: [b"b"], 7: [b"c"]})
    assert packets_in(result, sound=True) == packets_in(data)
    assert {number: each.comments for number, each in enumerate(packet_blocks(result), 1) if each.comments} == {
        2: ["a"],
        6: ["b"],
        7: ["c"],
    }
    assert [each.order for each in packet_blocks(result)] == ["<"] * 3 + [">"] * 3 + ["<"] * 3


@pytest.mark.parametrize("order", ORDERS)
def test_a_section_length_is_given_up_only_where_the_section_changes(order: str) -> None:
    body = interface(order=order) + epb(b"abc", MICRO, 3, order=order, options=comment(OURS, order) + END)
    part = section(order, len(body)) + body
    unspecified = section(order) + body
    assert copy_of(part * 3, comments={1: [OURS], 2: [OURS], 3: [OURS]}) == part * 3  # taken away and written again
    result = copy_of(part * 3, comments={1: [OURS], 2: [b"new"], 3: [OURS]})
    assert [each.raw for each in blocks_in(result) if each.kind == SECTION] == [
        section(order, len(body)),
        section(order),
        section(order, len(body)),
    ]
    assert copy_of(unspecified, comments={1: [OURS]}) == unspecified
    damaged = part[:-4] + b"\xff" * 4  # the last block's length
    result = copy_of(part + damaged + part, comments={1: [OURS], 2: [OURS]})
    assert [each.raw for each in blocks_in(result) if each.kind == SECTION] == [
        section(order, len(body)),
        section(order),
        section(order, len(body)),
    ]


# ------------------------------------------------------------------------------------------------ damaged and hostile


def test_what_cannot_be_read_is_left_out() -> None:
    data = section() + interface() + epb(b"a", MICRO, 1) + b"\xfe" * 100
    data += epb(b"b", MICRO, 1) + epb(b"c", MICRO, 1, number=7) + block(6, b"short") + epb(b"d", MICRO, 1) * 3
    result = copy_of(data, comments={2: [b"b"], 3: [b"d"]})
    assert [
        (packet.data, each.comments)
        for packet, each in zip(packets_in(result, sound=True), packet_blocks(result), strict=True)
    ] == [
        (b"a", []),
        (b"b", ["b"]),
        (b"d", ["d"]),
        (b"d", []),
        (b"d", []),
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_a_section_whose_header_is_damaged_gets_a_new_one(order: str) -> None:
    sound = pcapng_file(packets_of(4), order)
    for data in (
        sound[:4] + b"\xff\xff\xff\xff" + sound[8:],
        section("<" if order == ">" else ">") + sound[:4] + bytes(4) + sound[8:],
    ):
        result = copy_of(data, comments={1: [b"here"]})
        assert packets_in(result, sound=True) == packets_in(data) == packets_of(4)
        assert packet_blocks(result)[0].comments == ["here"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_section_header_that_is_too_short_is_made_whole(order: str) -> None:
    length = struct.pack(f"{order}I", 16)
    short = b"\x0a\x0d\x0d\x0a" + length + struct.pack(f"{order}I", 0x1A2B3C4D) + length
    data = short + pcapng_file(packets_of(2), order)[28:]
    result = copy_of(data)
    assert packets_in(result, sound=True) == packets_in(data) == packets_of(2)
    assert len(next(blocks_in(result)).raw) >= 28


@pytest.mark.parametrize(
    "data", [pcap_header()[:10], section()[:12], b"\x0a\x0d\x0d\x0a" + b"\xff" * 4 + b"\x4d\x3c\x2b\x1a"]
)
def test_a_capture_with_nothing_in_it_becomes_an_empty_one(data: bytes) -> None:
    (only,) = blocks_in(copy_of(data))
    assert only.kind == SECTION


def test_more_interfaces_than_make_sense() -> None:
    data = section() + interface(5) * 65_540 + epb(b"p", MICRO, 1, 65_535) + epb(b"q", MICRO, 1, 65_536)
    result = copy_of(data, comments={1: [OURS]})
    assert [packet.data for packet in packets_in(result, sound=True)] == [b"p"]
    assert sum(each.kind == INTERFACE for each in blocks_in(result)) == 65_536


def test_memory_is_bounded() -> None:
    """An enormous block is passed over, and said; a large file is copied chunk by chunk."""
    length = 300 << 20
    before = section(claimed=17) + interface() + epb(b"a", MICRO, 1) + struct.pack("<II", 0xBAD, length)
    after = struct.pack("<I", length) + epb(b"b", MICRO, 1)
    zeros = 40 << 20
    huge = Mostly(before, length - 12, after)
    many = Mostly(section() + interface() + (epb(b"x", MICRO, 1) + block(4, bytes(2000))) * 10_000, 0, b"")
    tracemalloc.start()
    try:
        result, done = copied(huge)
        peak = tracemalloc.get_traced_memory()[1]
        stream = _Nowhere()
        copy([many], Chosen({5: [OURS]}), stream)
        later = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [packet.data for packet in packets_in(result, sound=True)] == [b"a", b"b"]
    assert done.passed_over == 1
    assert result.startswith(section())
    assert max(peak, later) < zeros


class _Nowhere(io.BytesIO):
    """A file that keeps nothing."""

    def write(self, data: object, /) -> int:
        return len(memoryview(data))  # type: ignore[arg-type]


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, int]:
    """Draw a pcapng file of all kinds of blocks, and how many packets are in it."""
    pieces: list[bytes] = []
    packets = 0
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.sampled_from(ORDERS))
        clock = option(TSRESOL, bytes((draw(st.sampled_from((3, 6, 9, 0x9E))),)), order)
        pieces.append(
            section(order, draw(st.sampled_from((-1, 40)))) + interface(snaplen=0, options=clock, order=order)
        )
        for _ in range(draw(st.integers(0, 8))):
            kind = draw(st.sampled_from(("epb", "old", "simple", "other", "interface")))
            body = draw(st.binary(max_size=60))
            texts = draw(st.lists(st.sampled_from((OURS, FOREIGN, b"x", b"")), max_size=2))
            options = b"".join(comment(text, order) for text in texts) + draw(st.sampled_from((b"", END)))
            packets += kind in ("epb", "old", "simple")
            if kind == "epb":
                pieces.append(epb(body, draw(st.integers(0, 10**12)), len(body), order=order, options=options))
            elif kind == "old":
                pieces.append(old_packet(body, draw(st.integers(0, 10**12)), len(body), order=order))
            elif kind == "simple":
                pieces.append(simple_packet(body, len(body), order))
            else:
                pieces.append(block(4, body, order) if kind == "other" else interface(order=order))
    return b"".join(pieces), packets


@given(files(), st.data(), st.sampled_from((64, 100, 1000, 1 << 20)))
def test_any_file_with_any_comments(drawn: tuple[bytes, int], data: st.DataObject, chunk: int) -> None:
    original, packets = drawn
    numbers = data.draw(st.sets(st.integers(1, packets))) if packets else set()
    texts = st.lists(st.sampled_from((OURS, ALSO_OURS)), min_size=1, max_size=3)
    comments = {number: data.draw(texts) for number in numbers}
    result, done = copied(original, comments=comments, chunk=chunk)
    assert done.packets == packets
    before, after = packet_blocks(original), packet_blocks(result)
    for number, (one, other) in enumerate(zip(before, after, strict=True), 1):
        kept = [each for each in one.options if each != (COMMENT, OURS)]
        assert other.options == [*kept, *((COMMENT, text) for text in comments.get(number, []))]
        if one.kind != SIMPLE_PACKET:
            assert (other.kind, other.fixed) == (one.kind, one.fixed)
        elif number not in comments:
            assert other.raw == one.raw
    assert [each.raw for each in blocks_in(result) if not each.is_packet and each.kind != SECTION] == [
        each.raw for each in blocks_in(original) if not each.is_packet and each.kind != SECTION
    ]
    assert [packet.data for packet in packets_in(result, sound=True)] == [
        packet.data for packet in packets_in(original)
    ]
    assert copied(result, comments=comments, chunk=chunk)[0] == result


@given(files(), st.data())
def test_any_damage_is_survived(drawn: tuple[bytes, int], data: st.DataObject) -> None:
    broken = bytearray(drawn[0])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(12, len(broken) - 1))
        broken[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    packets = packets_in(bytes(broken))
    result, done = copied(bytes(broken), comments={number: [OURS] for number in range(1, len(packets), 2)})
    found = packets_in(result, sound=True)
    assert [(packet.data, packet.original, packet.linktype) for packet in found] == [
        (packet.data, packet.original, packet.linktype) for packet in packets
    ]
    assert done.packets == len(packets)


# --------------------------------------------------------------------------------------------------------------- pcap


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("magic", "resolution"), [(0xA1B2C3D4, 6), (0xA1B23C4D, 9), (0xA1B2CD34, 6)])
def test_pcap_files_become_a_section(order: str, magic: int, resolution: int) -> None:
    packets = packets_of(6, step_ns=1_234_567_000)
    data = pcap_file(packets, order, magic, snaplen=4321)
    result = copy_of(data, comments={2: [OURS], 6: [b"a", b"b"]})
    assert packets_in(result, sound=True) == packets
    first, described, *blocks = blocks_in(result)
    assert first.kind == SECTION
    assert described.raw[8:16] == struct.pack("<HHI", 1, 0, 4321)
    assert described.raw[16:-4] == option(TSRESOL, bytes((resolution,))) + END
    assert [each.kind for each in blocks] == [ENHANCED_PACKET] * 6
    assert [each.comments for each in blocks] == [[], [OURS.decode()], [], [], [], ["a", "b"]]
    assert copy_of(result) == copy_of(copy_of(data, comments={6: [b"a", b"b"]}))


@pytest.mark.parametrize(("network", "bits"), [(1 | 0x2400_0000, 32), (1 | 0x0400_0000, 0), (1 | 0x2000_0000, None)])
def test_the_frame_check_sequence_is_told(network: int, bits: int | None) -> None:
    """libpcap counts 16 bits at a time, pcapng's if_fcslen single bits."""
    data = pcap_header(network=network) + pcap_record(packets_of(1)[0])
    _, described, _ = blocks_in(copy_of(data))
    told = option(FCSLEN, bytes((bits,))) if bits is not None else b""
    assert described.raw[8:16] == struct.pack("<HHI", 1, 0, 65535)
    assert described.raw[16:-4] == option(TSRESOL, b"\x06") + told + END


def test_odd_records_are_as_they_were() -> None:
    """Empty, longer than its original, and with more microseconds than a second has."""
    header = pcap_header()
    data = header + struct.pack("<4I", 5, 1_500_000, 0, 60) + struct.pack("<4I", 5, 0, 3, 1) + b"abc"
    data += struct.pack("<4I", 0xFFFFFFFF, 999_999, 1, 1) + b"z"
    assert packets_in(copy_of(data), sound=True) == packets_in(data)
    assert len(packets_in(data)) == 3


def test_several_files_follow_one_another() -> None:
    first, second = pcap_file(packets_of(2)), pcapng_file(packets_of(3), ">")
    result = copy_of(first, second, first, comments={2: [b"a"], 3: [b"b"], 6: [b"c"]})
    assert [each.comments for each in packet_blocks(result)] == [[], ["a"], ["b"], [], [], ["c"], []]
    assert packets_in(result, sound=True) == [*packets_of(2), *packets_of(3), *packets_of(2)]
    assert second[:28] in result
