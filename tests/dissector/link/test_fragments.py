"""IP fragments: any order, duplicates, overlap, cuts and floods."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from dissector.link.columnar import ColumnarDecoder
from dissector.link.drop_counts import LinkCounts, Note, Reason
from dissector.link.fragments import Datagram, Fragment, FragmentBuffer, FragmentLimits
from dissector.link.reference import ReferenceDecoder
from tests.dissector.link.test_packets import (
    PAYLOAD,
    Packet,
    both,
    ether,
    fragments4,
    fragments6,
    make_block,
    tcp,
    v4,
    v6,
)

LONG = bytes(i * 7 & 0xFF for i in range(300))
SECOND = 1_000_000_000


def pieces4(payload: bytes = LONG, size: int = 80, ident: int = 1) -> list[bytes]:
    return [bytes(ether() / piece) for piece in fragments4(v4(id=ident) / tcp(payload), size)]


def pieces6(payload: bytes = LONG, size: int = 150) -> list[bytes]:
    whole = v6() / IPv6ExtHdrFragment(id=0x12345678) / IPv6ExtHdrDestOpt(nh=6) / tcp(payload)
    return [bytes(ether() / piece) for piece in fragments6(whole, size)]


@pytest.mark.parametrize("pieces", [pieces4(size=120), pieces6()], ids=["ipv4", "ipv6"])
def test_fragments_in_any_order(pieces: list[bytes]) -> None:
    assert 3 <= len(pieces) <= 5
    for order in itertools.permutations(pieces):
        (segments,), counts = both([make_block([Packet(1, data) for data in order], first_number=5)])
        assert len(segments) == 1
        assert segments.payload(0) == LONG
        assert int(segments.number[0]) == 5 + len(pieces) - 1, "the completing fragment's number"
        assert counts.dropped == {Reason.FRAGMENT_HELD: len(pieces) - 1}
        assert counts.noted == {Note.FRAGMENT_REASSEMBLED: 1}


def test_a_datagram_goes_on_in_the_next_block() -> None:
    pieces = [Packet(1, data) for data in pieces4()]
    (one, two), _ = both([make_block(pieces[:2]), make_block(pieces[2:], first_number=3)])
    assert len(one) == 0
    assert two.payload(0) == LONG


def test_reassembled_payloads_stand_after_the_packets() -> None:
    plain = Packet(1, bytes(ether() / v4() / tcp()))
    block = make_block([plain, *(Packet(1, data) for data in pieces4()), plain])
    (segments,), _ = both([block])
    assert [segments.payload(row) for row in range(3)] == [PAYLOAD, LONG, PAYLOAD]
    assert len(segments.buffer) == len(block.buffer) + len(LONG)
    assert segments.flow.tolist() == [0, 0, 0]


def test_duplicates_add_nothing() -> None:
    pieces = pieces4()
    made = [Packet(1, data) for data in (pieces[0], pieces[0], *pieces[1:])]
    (segments,), counts = both([make_block(made)])
    assert segments.payload(0) == LONG
    assert counts.noted == {Note.FRAGMENT_REASSEMBLED: 1, Note.FRAGMENT_OVERLAP: 1}


def test_of_overlapping_fragments_the_first_copy_wins() -> None:
    segment = bytes(v4() / tcp(LONG))[20:]
    first = v4(id=3, proto=6, flags="MF") / Raw(segment[:80])
    # From byte 64 on: 16 bytes again, all different, then the rest.
    other = v4(id=3, proto=6, frag=8) / Raw(bytes(b ^ 0xFF for b in segment[64:80]) + segment[80:])
    for order, expected in (
        ((first, other), LONG),
        ((other, first), LONG[:44] + bytes(b ^ 0xFF for b in LONG[44:60]) + LONG[60:]),
    ):
        (segments,), counts = both([make_block([Packet(1, bytes(ether() / piece)) for piece in order])])
        assert segments.payload(0) == expected
        assert counts.noted[Note.FRAGMENT_OVERLAP] == 1


def test_a_cut_fragment_gives_a_cut_segment() -> None:
    pieces = pieces4(size=80)
    assert len(pieces) > 3
    made = [Packet(1, data if at != 2 else data[:-10], len(data)) for at, data in enumerate(pieces)]
    (segments,), _ = both([make_block(made)])
    assert int(segments.payload_length[0]) == len(LONG)
    known = 3 * 80 - 10 - 20  # two whole pieces and a cut one, less the TCP header
    assert segments.payload(0) == LONG[:known]


def test_tunnel_in_fragments_and_fragments_in_tunnel() -> None:
    inner = ether() / v4() / tcp(LONG)
    outer = IP(src="192.0.2.1", dst="192.0.2.2", id=9) / UDP(dport=4789) / VXLAN(vni=3) / inner
    (segments,), _ = both([make_block([Packet(101, bytes(piece)) for piece in fragments4(outer, 200)])])
    assert segments.payload(0) == LONG
    tunnelled = [
        Packet(101, bytes(IP(src="192.0.2.1", dst="192.0.2.2", proto=4) / piece))
        for piece in fragments4(v4(id=4) / tcp(LONG), 200)
    ]
    (segments,), _ = both([make_block(tunnelled)])
    assert segments.payload(0) == LONG


def test_fragments_of_fragments() -> None:
    """No host sends this, but RFC 8200 does not make it unreadable."""
    made = []
    for number, piece in enumerate(fragments6(v6() / IPv6ExtHdrFragment(id=1) / tcp(LONG), 250)):
        body = bytes(piece)[40:]
        head = v6() / IPv6ExtHdrFragment(id=100 + number, nh=44, m=1) / Raw(body[:64])
        tail = v6() / IPv6ExtHdrFragment(id=100 + number, nh=44, offset=8) / Raw(body[64:])
        made += [Packet(101, bytes(tail)), Packet(101, bytes(head))]
    (segments,), counts = both([make_block(made)])
    assert segments.payload(0) == LONG
    assert counts.noted == {Note.FRAGMENT_REASSEMBLED: len(made) // 2 + 1}


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        (v4(flags="MF", proto=6) / Raw(bytes(81)), Reason.BAD_HEADER),
        (v4(flags="MF", proto=6), Reason.BAD_HEADER),
        (v4(frag=8191, proto=6) / Raw(bytes(64)), Reason.FRAGMENT_OVERSIZE),
    ],
    ids=["not a multiple of 8", "empty", "beyond 64 KiB"],
)
def test_impossible_fragments(piece: Any, reason: Reason) -> None:
    _, counts = both([make_block([Packet(101, bytes(piece))])])
    assert counts.dropped == {reason: 1}


def test_fragments_that_contradict_the_length_are_refused() -> None:
    last = v4(id=3, proto=6, frag=10) / Raw(bytes(40))
    beyond = v4(id=3, proto=6, frag=20, flags="MF") / Raw(bytes(40))
    other_end = v4(id=3, proto=6, frag=10) / Raw(bytes(32))
    _, counts = both([make_block([Packet(101, bytes(piece)) for piece in (last, beyond, other_end)])])
    assert counts.dropped == {Reason.FRAGMENT_HELD: 1, Reason.BAD_HEADER: 2}
    _, counts = both([make_block([Packet(101, bytes(piece)) for piece in (beyond, last)])])
    assert counts.dropped == {Reason.FRAGMENT_HELD: 1, Reason.BAD_HEADER: 1}


def test_pending_fragments_are_counted_at_the_end() -> None:
    pieces = pieces4()
    _, counts = both([make_block([Packet(1, data) for data in pieces[:-1]])])
    assert counts.noted == {Note.FRAGMENT_PENDING: len(pieces) - 1}


@pytest.mark.parametrize(("late_ns", "complete"), [(30 * SECOND, True), (30 * SECOND + 1, False)])
def test_the_time_out_runs_by_packet_time(late_ns: int, complete: bool) -> None:
    pieces = pieces4()
    made = [Packet(1, data, time_ns=SECOND + (late_ns if at else 0)) for at, data in enumerate(pieces)]
    (segments,), counts = both([make_block(made)])
    assert len(segments) == complete
    assert counts.noted[Note.FRAGMENT_EVICTED] == (0 if complete else 1)


@pytest.mark.parametrize("decoder", [ReferenceDecoder(), ColumnarDecoder()], ids=["reference", "columnar"])
def test_a_flood_of_first_fragments_stays_bounded(decoder: Any) -> None:
    template = bytearray(bytes(v4(id=0, proto=6, flags="MF", chksum=0) / Raw(bytes(1400))))
    total = 100_000
    for start in range(0, total, 5000):
        made = []
        for number in range(start, start + 5000):
            template[4:6] = (number & 0xFFFF).to_bytes(2, "big")
            template[12:14] = (number >> 16).to_bytes(2, "big")
            made.append(Packet(101, bytes(template)))
        decoder.decode(make_block(made, first_number=start + 1))
    buffer: FragmentBuffer = getattr(decoder, "_reference", decoder)._fragments
    assert len(buffer) == 1024
    assert buffer.held_bytes <= 16 << 20
    assert decoder.counts.dropped == {Reason.FRAGMENT_HELD: total}
    assert decoder.counts.noted == {Note.FRAGMENT_EVICTED: total - 1024}


def test_bytes_are_bounded_too_with_what_python_adds() -> None:
    counts = LinkCounts()
    buffer = FragmentBuffer(counts, FragmentLimits(total_bytes=100_000))
    for number in range(2000):
        buffer.add(number % 7, Fragment(16 * number, 16 * number + 8, bytes(8), more=True, protocol=6), 0)
        assert buffer.held_bytes <= 100_000
    assert counts.noted[Note.FRAGMENT_EVICTED] > 1000


@given(
    st.lists(st.tuples(st.integers(0, 24), st.integers(1, 8), st.integers(0, 255), st.integers(0, 64)), max_size=14),
    st.randoms(use_true_random=False),
)
def test_the_buffer_against_a_plain_model(ranges: list[tuple[int, int, int, int]], random: Any) -> None:
    """One byte at a time: the first fragment that covers a byte on the wire decides it, known or cut off."""
    length = 32 * 8
    tail = [(at, 8, 200 + at // 8, 64) for at in range(0, 32, 8)]  # together they cover everything
    random.shuffle(tail)
    model: list[int | None] = [None] * length
    covered = [False] * length
    buffer = FragmentBuffer(LinkCounts())
    for start8, size8, fill, kept in [*ranges, *tail]:
        start, end = start8 * 8, min((start8 + size8) * 8, length)
        data = bytes([fill]) * min(kept, end - start)
        outcome = buffer.add("key", Fragment(start, end, data, end != length, 6), 0)
        for at in range(start, end):
            if not covered[at]:
                covered[at] = True
                model[at] = fill if at - start < len(data) else None
        assert isinstance(outcome, Datagram) == all(covered)
        if isinstance(outcome, Datagram):
            known = model.index(None) if None in model else length
            assert outcome.length == length
            assert list(outcome.data) == model[:known]
            break
    else:
        pytest.fail("the datagram never became whole")
