"""The two decoders give the same segments and the same counts, whatever the bytes, and neither ever raises."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dpkt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet6 import IPv6ExtHdrFragment

from dissector.link.columnar import ColumnarDecoder
from dissector.link.drop_counts import Note, Reason
from dissector.link.flow_key import flow_key, flow_of, reverse_key
from dissector.link.gather import gather
from dissector.link.reference import ReferenceDecoder
from tests.dissector.link.test_packets import (
    FOREIGN,
    KINDS,
    PAYLOAD,
    Packet,
    both,
    ether,
    fragments4,
    fragments6,
    make_block,
    rows_of,
    tcp,
    v4,
    v6,
)

if TYPE_CHECKING:
    from pathlib import Path

    from dissector.capture.packet_block import PacketBlock
    from dissector.link.segment_block import SegmentBlock

LINKTYPES = [0, 1, 9, 12, 14, 50, 101, 104, 105, 108, 113, 127, 228, 229, 239, 258, 276]


def _pieces() -> list[tuple[int, bytes]]:
    """Fragments of both versions: mutated and cut, they exercise the buffer too."""
    four = fragments4(v4(id=7) / tcp(PAYLOAD * 4), 64)
    six = fragments6(v6() / IPv6ExtHdrFragment(id=7) / tcp(PAYLOAD * 4), 150)
    return [(1, bytes(ether() / piece)) for piece in four] + [(101, bytes(piece)) for piece in six]


CORPUS = [
    *KINDS.values(),
    *((linktype, data) for linktype, data, _ in FOREIGN.values() if len(data) < 2000),
    *_pieces(),
]


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    """A known packet, changed near its headers and cut anywhere; or any bytes on any link."""
    if draw(st.integers(0, 5)) == 0:
        data = draw(st.binary(max_size=120))
        linktype = draw(st.sampled_from(LINKTYPES))
        original = draw(st.sampled_from([-1, 0, 60, 1500, 70000]))
    else:
        linktype, whole = draw(st.sampled_from(CORPUS))
        changed = bytearray(whole)
        for _ in range(draw(st.integers(0, 3))):
            changed[draw(st.integers(0, min(len(changed), 100) - 1))] = draw(
                st.one_of(st.sampled_from([0, 4, 6, 17, 41, 47, 0x45, 0x46, 0x60, 0xFF]), st.integers(0, 255))
            )
        kept = draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))
        data = bytes(changed[:kept])
        original = draw(st.one_of(st.just(len(whole)), st.sampled_from([-1, 0, 40, 9000])))
        if draw(st.integers(0, 15)) == 0:
            linktype = draw(st.sampled_from(LINKTYPES))
    return Packet(linktype, data, original, draw(st.integers(0, 60_000_000_000)))


@given(st.lists(packets(), min_size=1, max_size=40), st.sampled_from([0, 3, 256]), st.booleans())
def test_any_packets(made: list[Packet], slack: int, verify_tcp: bool) -> None:
    both([make_block(made, slack=slack)], verify_tcp=verify_tcp)


@given(st.lists(packets(), min_size=2, max_size=30), st.data())
def test_where_blocks_end_changes_nothing(made: list[Packet], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(made) - 1))
    (whole,), counts = both([make_block(made)])
    parts, counts_of_parts = both([make_block(made[:cut]), make_block(made[cut:], first_number=cut + 1)])
    assert _said(whole) == [row for part in parts for row in _said(part)]
    assert counts_of_parts == counts


def _said(segments: SegmentBlock) -> list[tuple[Any, ...]]:
    """Rows without what depends on the block they are in: flow index and offset."""
    return [row[:3] + row[4:7] + row[8:] for row in rows_of(segments)]


@pytest.mark.parametrize("name", KINDS)
def test_every_cut_of_every_kind(name: str) -> None:
    """A cut packet gives the segment as long as its TCP header is there, and never a byte that was not captured."""
    linktype, data = KINDS[name]
    cuts = [Packet(linktype, data[:size], len(data)) for size in range(len(data) + 1)]
    (segments,), _ = both([make_block(cuts)])
    payload_start = data.index(PAYLOAD)
    header = 32 if "tcp options" in name or "all of them" in name else 20
    enough = payload_start - header + 20
    assert segments.number.tolist() == list(range(enough + 1, len(data) + 2))
    for row, number in enumerate(segments.number.tolist()):
        kept = max(number - 1 - payload_start, 0)
        assert segments.payload(row) == PAYLOAD[:kept]
        assert int(segments.payload_length[row]) == len(PAYLOAD)


USUAL = [
    name
    for name in KINDS
    if name.startswith(
        ("ethernet", "ip options", "vlan", "qinq", "old qinq", "sll", "null", "loop", "raw"), 2 * name.startswith("6 ")
    )
    and name != "vlan, mpls"
]


def _refuse(*_: object) -> None:
    raise AssertionError("a usual packet took the slow path")


@pytest.mark.parametrize("name", USUAL)
def test_usual_kinds_do_not_take_the_slow_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceDecoder, "segment", _refuse)
    decoder = ColumnarDecoder()
    assert len(decoder.decode(make_block([Packet(*KINDS[name])]))) == 1


@pytest.mark.parametrize(
    "name", ["arp", "arp in vlan", "udp", "udp in ipv6", "icmp", "esp", "esp in ipv6", "802.11", "cooked arp"]
)
def test_usual_foreign_packets_do_not_take_the_slow_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceDecoder, "segment", _refuse)
    linktype, data, reason = FOREIGN[name]
    decoder = ColumnarDecoder()
    decoder.decode(make_block([Packet(linktype, data)]))
    assert decoder.counts.dropped == {reason: 1}


def test_an_unsupported_link_type_is_named() -> None:
    _, counts = both([make_block([Packet(105, b"x"), Packet(127, b""), Packet(105, b"y")])])
    assert counts.linktypes == {105: 2, 127: 1}
    assert counts.as_dict() == {
        "packets": 3,
        "tcp-segments": 0,
        "unsupported-linktype": 3,
        "unsupported-linktype-105": 2,
        "unsupported-linktype-127": 1,
    }


def test_what_may_have_had_tcp_is_said_in_sentences() -> None:
    names = ("macsec", "esp", "gre version 1", "nine tunnels", "arp", "udp")
    made = [Packet(linktype, data) for linktype, data, _ in map(FOREIGN.__getitem__, names)]
    made += [Packet(105, b"x"), Packet(147, b"y"), Packet(105, b"z"), Packet(RAW, b"\x45")]
    _, counts = both([make_block(made)])
    assert counts.unread() == [
        "3 packets of link types that are not read: 105 (802.11), 147",
        "1 packet in tunnels that are not read",
        "2 packets encrypted (IPsec, MACsec or DTLS)",
        "1 packet with more headers inside one another than are followed",
        "1 packet cut before the end of the TCP header: a larger snap length is needed",
    ]
    assert both([make_block([Packet(*KINDS["raw"])])])[1].unread() == []


def test_counts_of_captures_add_up() -> None:
    _, one = both([make_block([Packet(105, b"x"), Packet(*KINDS["raw"])])])
    _, two = both([make_block([Packet(105, b"x"), Packet(RAW, b"\x45")])])
    one.merge(two)
    assert (one.packets, one.segments, one.linktypes[105]) == (4, 1, 2)
    assert one.dropped == {Reason.UNSUPPORTED_LINKTYPE: 2, Reason.TRUNCATED_IP: 1}


RAW = 101


@pytest.mark.parametrize(("name", "kept"), [("ethernet", 13), ("vlan", 17), ("sll", 15), ("sll2", 19), ("loop", 3)])
def test_cut_link_header(name: str, kept: int) -> None:
    linktype, data = KINDS[name]
    _, counts = both([make_block([Packet(linktype, data[:kept], len(data))])])
    assert counts.dropped == {Reason.TRUNCATED_LINK: 1}


@pytest.mark.parametrize(
    ("name", "kept", "reason"),
    [
        ("raw", 0, Reason.TRUNCATED_IP),
        ("raw", 19, Reason.TRUNCATED_IP),
        ("raw", 39, Reason.TRUNCATED_TCP),
        ("6 raw", 39, Reason.TRUNCATED_IP),
        ("6 raw", 59, Reason.TRUNCATED_TCP),
        ("ip options", 14 + 31, Reason.TRUNCATED_IP),
        ("6 hop-by-hop", 14 + 41, Reason.TRUNCATED_IP),
        ("vxlan", 14 + 20 + 7, Reason.TRUNCATED_TUNNEL),
        ("vxlan", 14 + 20 + 15, Reason.TRUNCATED_TUNNEL),
        ("gre", 14 + 20 + 3, Reason.TRUNCATED_TUNNEL),
        ("gre, checksum", 20 + 7, Reason.TRUNCATED_TUNNEL),
    ],
)
def test_cut_headers_are_told_apart(name: str, kept: int, reason: Reason) -> None:
    linktype, data = KINDS[name]
    _, counts = both([make_block([Packet(linktype, data[:kept], len(data))])])
    assert counts.dropped == {reason: 1}


def test_ethernet_padding_is_no_payload() -> None:
    bare = bytes(ether() / v4() / tcp(b""))
    (segments,), _ = both([make_block([Packet(1, bare + b"\0" * (60 - len(bare)))])])
    assert (int(segments.payload_length[0]), int(segments.payload_captured[0])) == (0, 0)


@pytest.mark.parametrize("ip", [v4(len=0), v6(plen=0)], ids=["ipv4", "ipv6"])
def test_length_zero_means_offload(ip: Any) -> None:
    """The sender's card was to cut this into segments: the packet's own length on the wire is the datagram's."""
    data = bytes(ether() / ip / tcp(PAYLOAD * 3))
    (segments,), _ = both([make_block([Packet(1, data[:100], len(data)), Packet(1, data)])])
    assert segments.payload_length.tolist() == [len(PAYLOAD) * 3] * 2
    assert segments.payload_captured[0] < segments.payload_captured[1] == len(PAYLOAD) * 3


def test_an_original_length_below_the_captured_one_is_not_believed() -> None:
    whole = [bytes(ether() / ip / tcp()) for ip in (v4(len=0), v6(plen=0), v4(), v6())]
    made = [Packet(1, data, original=original) for data in whole for original in (0, len(data) - 5)]
    (segments,), _ = both([make_block(made)])
    assert segments.payload_length.tolist() == segments.payload_captured.tolist() == [len(PAYLOAD)] * 8


def test_offload_does_not_take_the_slow_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceDecoder, "segment", _refuse)
    made = [Packet(1, bytes(ether() / ip / tcp())) for ip in (v4(len=0), v6(plen=0))]
    assert len(ColumnarDecoder().decode(make_block(made))) == 2


def test_rows_read_zero_beyond_the_buffer() -> None:
    buffer, layout = np.arange(1, 10, dtype=np.uint8), np.dtype([("four", ">u4")])
    starts = np.array([0, 5, 6, 8, 9, 20], np.int64)
    expected = [0x01020304, 0x06070809, 0x07080900, 0x09000000, 0, 0]
    assert gather(buffer, starts, layout)["four"].tolist() == expected
    assert gather(buffer[:2], starts[:1], layout)["four"].tolist() == [0x01020000]


def test_a_bad_ip_checksum_is_counted_and_the_segment_kept() -> None:
    good, zero, bad = v4(), v4(chksum=0), v4(chksum=0x1234)
    with_options = v4(options=b"\x94\x04\x00\x00", chksum=0x1234)
    made = [Packet(1, bytes(ether() / ip / tcp())) for ip in (good, zero, bad, with_options)]
    (segments,), counts = both([make_block(made)])
    assert len(segments) == 4
    assert counts.noted == {Note.BAD_IP_CHECKSUM: 2}


def test_tcp_checksums_are_verified_on_request_only() -> None:
    good, bad = bytes(ether() / v4() / tcp()), bytes(ether() / v4() / tcp(chksum=0x1234))
    six, bad_six = bytes(ether() / v6() / tcp()), bytes(ether() / v6() / tcp(PAYLOAD + b"!", chksum=0x1234))
    tunnel, bad_tunnel = bytes(ether() / v4() / v4() / tcp()), bytes(ether() / v4() / v4() / tcp(chksum=0x1234))
    made = [Packet(1, data) for data in (good, bad, six, bad_six, tunnel, bad_tunnel)]
    cut = Packet(1, bad[:-1], len(bad))
    block = make_block([*made, cut])
    assert not both([block])[1].noted
    (segments,), counts = both([block], verify_tcp=True)
    assert len(segments) == 7
    assert counts.noted == {Note.BAD_TCP_CHECKSUM: 3}


def test_flows_are_numbered_by_first_appearance_and_exactly() -> None:
    """Slow and fast packets of the same flow share a key; flows one bit apart do not."""
    slow, fast = KINDS["three tags"], KINDS["ethernet"]
    other = (1, bytes(ether() / v4() / tcp(sport=40001)))
    back = (1, bytes(ether() / v6(hlim=3) / tcp()))
    (segments,), _ = both([make_block([Packet(*kind) for kind in (back, slow, other, fast, slow, back)])])
    assert segments.flow.tolist() == [0, 1, 2, 1, 1, 0]
    assert len(segments.keys) == 3


def test_keys_turn_around() -> None:
    key = flow_key(bytes(16), b"\1" * 16, 1, 65535)
    assert reverse_key(reverse_key(key)) == key
    assert reverse_key(key) == flow_key(b"\1" * 16, bytes(16), 65535, 1)
    assert flow_of(reverse_key(key)).destination == "::"


def test_an_empty_block_is_no_trouble() -> None:
    (segments,), counts = both([make_block([])])
    assert len(segments) == 0
    assert counts.as_dict() == {"packets": 0, "tcp-segments": 0}


def _plain_dpkt(data: bytes, linktype: int) -> tuple[bytes, bytes, int, int, int, int, int, bytes] | None:
    """What dpkt's own eager decoding makes of a packet, with nothing of ours in it."""
    kind = {1: dpkt.ethernet.Ethernet, 113: dpkt.sll.SLL, 276: dpkt.sll2.SLL2}[linktype]
    ip = kind(data).data
    if not isinstance(ip, dpkt.ip.IP | dpkt.ip6.IP6) or not isinstance(ip.data, dpkt.tcp.TCP):
        return None
    segment = ip.data
    return (
        ip.src,
        ip.dst,
        segment.sport,
        segment.dport,
        segment.seq,
        segment.ack,
        segment.flags & 0xFF,
        bytes(segment.data),
    )


def _packets_of(path: Path) -> list[Packet]:
    """The packets of a capture: classic ones record by record, because dpkt hides what the wire length was."""
    with path.open("rb") as file:
        if path.suffix == ".pcapng":
            reader = dpkt.pcapng.Reader(file)
            return [Packet(reader.datalink(), data) for _, data in reader]
        magic, linktype = struct.unpack("<I16xI", file.read(24))
        assert magic in {0xA1B2C3D4, 0xA1B23C4D}, path.name
        made = []
        while record := file.read(16):
            _, _, captured, original = struct.unpack("<4I", record)
            made.append(Packet(linktype, file.read(captured), original))
        return made


@pytest.mark.shared
def test_real_captures_agree_with_plain_dpkt(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "captures").glob("*.pcap*"))
    if not paths:
        pytest.skip("no captures beside the checkout")
    for path in paths:
        made = _packets_of(path)
        expected = [
            (number, found)
            for number, packet in enumerate(made, 1)
            if (found := _plain_dpkt(packet.data, packet.linktype))
        ]
        blocks = [make_block(made[at : at + 700], first_number=at + 1) for at in range(0, len(made), 700)]
        parts, counts = both(blocks)
        assert counts.segments == len(expected), path.name
        rows = ((part, row) for part in parts for row in range(len(part)))
        for (number, found), (part, row) in zip(expected, rows, strict=True):
            source, destination, sport, dport, seq, ack, flags, payload = found
            assert int(part.number[row]) == number
            assert part.keys[part.flow[row]] == flow_key(source, destination, sport, dport)
            assert (int(part.seq[row]), int(part.ack[row]), int(part.flags[row])) == (seq, ack, flags)
            assert part.payload(row) == payload


def test_buffer_views_are_enough() -> None:
    """A reader may hand out a read-only part of a larger chunk."""
    block = make_block([Packet(*KINDS["ethernet"]), Packet(*KINDS["6 sll"])], slack=7)
    larger = np.concatenate([np.full(11, 9, np.uint8), block.buffer, np.full(5, 9, np.uint8)])
    larger.flags.writeable = False
    shifted: PacketBlock = replace(block, buffer=larger[11:-5])
    assert rows_of(both([shifted])[0][0]) == rows_of(both([block])[0][0])
