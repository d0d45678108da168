"""Packets of every supported kind, made by scapy, each with the segment that must come out of it.

scapy is the independent oracle here: it builds the headers, and nothing in this file decodes them. The other link tests
take their packets and their way to make a block from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    PadN,
    fragment6,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import GRE, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from dissector.capture.packet_block import PacketBlock
from dissector.link.columnar import ColumnarDecoder
from dissector.link.drop_counts import LinkCounts, Reason
from dissector.link.flow_key import flow_key, flow_of
from dissector.link.reference import ReferenceDecoder
from dissector.link.segment_block import ACK, PSH, SegmentBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

PAYLOAD = bytes(range(100, 148))
SOURCE, DESTINATION = "10.1.2.3", "10.4.5.6"
SOURCE6, DESTINATION6 = "2001:db8::1", "2001:db8:ffff::2"


@dataclass(frozen=True)
class Packet:
    """A packet as a capture file holds it: possibly cut, with its length on the wire."""

    linktype: int
    data: bytes
    original: int = -1
    time_ns: int = 0

    @property
    def wire(self) -> int:
        return len(self.data) if self.original < 0 else self.original


def make_block(packets: Sequence[Packet], *, first_number: int = 1, slack: int = 0, capture: int = 0) -> PacketBlock:
    """Lay packets out as a reader does, 16 bytes of record header between them, and no slack unless asked for."""
    buffer = bytearray()
    offsets = []
    for packet in packets:
        buffer += b"\xa5" * 16
        offsets.append(len(buffer))
        buffer += packet.data
    end = len(buffer)
    buffer += b"\x5a" * slack
    return PacketBlock(
        capture=capture,
        buffer=np.frombuffer(bytes(buffer), np.uint8),
        offset=np.array(offsets, np.int64),
        captured=np.array([len(packet.data) for packet in packets], np.int64),
        original=np.array([packet.wire for packet in packets], np.int64),
        time_ns=np.array([packet.time_ns for packet in packets], np.int64),
        linktype=np.array([packet.linktype for packet in packets], np.int32),
        interface=np.zeros(len(packets), np.int32),
        first_number=first_number,
        end_position=end,
    )


Row = tuple[Any, ...]


def rows_of(segments: SegmentBlock) -> list[Row]:
    """Everything a segment block says, row by row; equal lists mean equal blocks."""
    return [
        (
            int(segments.number[i]),
            int(segments.time_ns[i]),
            segments.keys[segments.flow[i]],
            int(segments.flow[i]),
            int(segments.seq[i]),
            int(segments.ack[i]),
            int(segments.flags[i]),
            int(segments.payload_offset[i]),
            int(segments.payload_captured[i]),
            int(segments.payload_length[i]),
            segments.payload(i),
        )
        for i in range(len(segments))
    ]


def both(
    blocks: Sequence[PacketBlock], *, verify_tcp: bool = False, finish: bool = True
) -> tuple[list[SegmentBlock], LinkCounts]:
    """Decode with both decoders, hold them equal, return what they agree on."""
    reference, columnar = ReferenceDecoder(verify_tcp=verify_tcp), ColumnarDecoder(verify_tcp=verify_tcp)
    result = []
    for block in blocks:
        slow, fast = reference.decode(block), columnar.decode(block)
        assert rows_of(fast) == rows_of(slow)
        assert fast.keys == slow.keys
        assert len(set(fast.keys)) == len(fast.keys)
        assert fast.capture == slow.capture == block.capture
        for column in SegmentBlock.__dataclass_fields__:
            if isinstance(getattr(slow, column), np.ndarray):
                assert getattr(fast, column).dtype == getattr(slow, column).dtype, column
        assert np.array_equal(fast.buffer, slow.buffer)
        result.append(fast)
    if finish:
        reference.finish()
        columnar.finish()
    assert columnar.counts == reference.counts
    counts = columnar.counts
    assert counts.packets == sum(len(block.offset) for block in blocks)
    assert counts.segments == sum(len(segments) for segments in result)
    assert counts.packets == counts.segments + counts.dropped.total()
    return result, counts


def tcp(payload: bytes = PAYLOAD, **fields: Any) -> Any:
    usual: dict[str, Any] = {"sport": 40000, "dport": 11210, "seq": 0xFFFFFFF0, "ack": 0x80000001, "flags": "PA"}
    return TCP(**(usual | fields)) / Raw(payload)


def v4(**fields: Any) -> Any:
    return IP(src=SOURCE, dst=DESTINATION, **fields)


def v6(**fields: Any) -> Any:
    return IPv6(src=SOURCE6, dst=DESTINATION6, **fields)


def ether(**fields: Any) -> Any:
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", **fields)


ETHERNET, SLL, SLL2, NULL, LOOP, RAW, PPP_LINK, HDLC_LINK = 1, 113, 276, 0, 108, 101, 9, 50
OUTER: dict[str, Any] = {"src": "192.0.2.1", "dst": "192.0.2.2"}
TCP_OPTIONS = [("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]


def fragments4(packet: Any, size: int) -> list[Any]:
    return list(fragment(packet, size))  # type: ignore[no-untyped-call]


def fragments6(packet: Any, size: int) -> list[Any]:
    return list(fragment6(packet, size))  # type: ignore[no-untyped-call]


def _ah(following: int) -> Any:
    return AH(nh=following, payloadlen=4, spi=7, seq=1, icv=bytes(12))


def nested(levels: int) -> bytes:
    """An IPv4/TCP packet inside of so many further IPv4 headers."""
    packet = bytes(v4() / tcp())
    for _ in range(levels):
        packet = bytes(IP(**OUTER, proto=4) / Raw(packet))
    return packet


# Names that start with "6" carry IPv6 inside.
KINDS: dict[str, tuple[int, bytes]] = {
    "ethernet": (ETHERNET, bytes(ether() / v4() / tcp())),
    "6 ethernet": (ETHERNET, bytes(ether() / v6() / tcp())),
    "ethernet, tcp options": (ETHERNET, bytes(ether() / v4() / tcp(options=TCP_OPTIONS))),
    "6 ethernet, tcp options": (ETHERNET, bytes(ether() / v6() / tcp(options=TCP_OPTIONS))),
    "ip options": (ETHERNET, bytes(ether() / v4(options=b"\x94\x04\x00\x00" + b"\x01" * 8) / tcp())),
    "ip options, all of them": (ETHERNET, bytes(ether() / v4(options=b"\x01" * 40) / tcp(options=TCP_OPTIONS))),
    "vlan": (ETHERNET, bytes(ether() / Dot1Q(vlan=5) / v4() / tcp())),
    "6 vlan": (ETHERNET, bytes(ether() / Dot1Q(vlan=5) / v6() / tcp())),
    "qinq": (ETHERNET, bytes(ether() / Dot1AD(vlan=9) / Dot1Q(vlan=5) / v4() / tcp())),
    "old qinq": (ETHERNET, bytes(ether(type=0x9100) / Dot1Q(vlan=9) / Dot1Q(vlan=5) / v4() / tcp())),
    "three tags": (ETHERNET, bytes(ether() / Dot1Q() / Dot1Q() / Dot1Q() / v4() / tcp())),
    "four tags": (ETHERNET, bytes(ether() / Dot1AD() / Dot1Q() / Dot1Q() / Dot1Q() / v4() / tcp())),
    "mpls": (ETHERNET, bytes(ether() / MPLS(label=16, s=0) / MPLS(label=17, s=1) / v4() / tcp())),
    "6 mpls multicast type": (ETHERNET, bytes(ether(type=0x8848) / MPLS(label=17, s=1) / v6() / tcp())),
    "mpls pseudowire": (ETHERNET, bytes(ether() / MPLS(s=1)) + bytes(4) + bytes(ether() / v4() / tcp())),
    "vlan, mpls": (ETHERNET, bytes(ether() / Dot1Q() / MPLS(label=17, s=1) / v4() / tcp())),
    "pppoe": (ETHERNET, bytes(ether() / PPPoE(sessionid=3) / PPP() / v4() / tcp())),
    "6 pppoe": (ETHERNET, bytes(ether() / PPPoE(sessionid=3) / PPP() / v6() / tcp())),
    "ppp": (PPP_LINK, b"\0\x21" + bytes(v4() / tcp())),
    "ppp, compressed protocol": (PPP_LINK, b"\x21" + bytes(v4() / tcp())),
    "ppp, framed": (PPP_LINK, bytes(HDLC() / PPP() / v4() / tcp())),
    "6 ppp hdlc": (HDLC_LINK, bytes(HDLC() / PPP() / v6() / tcp())),
    "cisco hdlc": (HDLC_LINK, b"\x0f\x00\x08\x00" + bytes(v4() / tcp())),
    "sll": (SLL, bytes(CookedLinux(proto=0x800) / v4() / tcp())),
    "6 sll": (SLL, bytes(CookedLinux(proto=0x86DD) / v6() / tcp())),
    "sll vlan": (SLL, bytes(CookedLinux(proto=0x8100) / Dot1Q() / v4() / tcp())),
    "sll2": (SLL2, bytes(CookedLinuxV2(proto=0x800) / v4() / tcp())),
    "6 sll2": (SLL2, bytes(CookedLinuxV2(proto=0x86DD) / v6() / tcp())),
    "6 sll2 qinq": (SLL2, bytes(CookedLinuxV2(proto=0x88A8) / Dot1AD() / Dot1Q() / v6() / tcp())),
    "null, little-endian": (NULL, b"\2\0\0\0" + bytes(v4() / tcp())),
    "null, big-endian": (NULL, b"\0\0\0\2" + bytes(v4() / tcp())),
    "6 null, bsd": (NULL, b"\0\0\0\x18" + bytes(v6() / tcp())),
    "6 null, freebsd": (NULL, b"\x1c\0\0\0" + bytes(v6() / tcp())),
    "6 null, macos": (NULL, b"\x1e\0\0\0" + bytes(v6() / tcp())),
    "loop": (LOOP, b"\0\0\0\2" + bytes(v4() / tcp())),
    "6 loop": (LOOP, b"\0\0\0\x18" + bytes(v6() / tcp())),
    "raw": (RAW, bytes(v4() / tcp())),
    "6 raw": (RAW, bytes(v6() / tcp())),
    "raw, 12": (12, bytes(v4() / tcp())),
    "6 raw, 14": (14, bytes(v6() / tcp())),
    "raw ipv4": (228, bytes(v4() / tcp())),
    "6 raw ipv6": (229, bytes(v6() / tcp())),
    "6 hop-by-hop": (ETHERNET, bytes(ether() / v6() / IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(4))]) / tcp())),
    "6 all extensions": (
        RAW,
        bytes(
            v6()
            / IPv6ExtHdrHopByHop()
            / IPv6ExtHdrDestOpt()
            / IPv6ExtHdrRouting(addresses=[DESTINATION6, SOURCE6])
            / IPv6ExtHdrFragment(id=5)
            / _ah(60)
            / IPv6ExtHdrDestOpt(nh=6, options=[PadN(optdata=bytes(12))])
            / tcp()
        ),
    ),
    "6 atomic fragment": (RAW, bytes(v6() / IPv6ExtHdrFragment(id=5) / tcp())),
    "ah": (RAW, bytes(v4(proto=51) / _ah(6) / tcp())),
    "gre": (ETHERNET, bytes(ether() / IP(**OUTER) / GRE() / v4() / tcp())),
    "6 gre, key and sequence": (
        RAW,
        bytes(IP(**OUTER) / GRE(key_present=1, key=9, seqnum_present=1, sequence_number=3) / v6() / tcp()),
    ),
    "gre, checksum": (RAW, bytes(IP(**OUTER) / GRE(chksum_present=1) / v4() / tcp())),
    "gre, everything, in ipv6": (
        RAW,
        bytes(v6(nh=47) / GRE(chksum_present=1, key_present=1, seqnum_present=1) / v4() / tcp()),
    ),
    "gre, bridged": (RAW, bytes(IP(**OUTER) / GRE(proto=0x6558) / ether() / Dot1Q() / v4() / tcp())),
    "vxlan": (
        ETHERNET,
        bytes(ether() / IP(**OUTER) / UDP(sport=5, dport=4789) / VXLAN(vni=7) / ether() / v4() / tcp()),
    ),
    "6 vxlan in ipv6": (
        RAW,
        bytes(v6() / UDP(sport=5, dport=4789) / VXLAN(vni=7) / ether() / Dot1Q() / v6() / tcp()),
    ),
    "geneve": (RAW, bytes(IP(**OUTER) / UDP(dport=6081) / GENEVE(proto=0x6558, vni=7) / ether() / v4() / tcp())),
    "6 geneve, options, no ethernet": (
        RAW,
        # scapy fills in no option length by itself: 2 words
        bytes(IP(**OUTER) / UDP(dport=6081) / Raw(b"\x02\0\x86\xdd\0\0\7\0" + bytes(8)) / v6() / tcp()),
    ),
    "ip in ip": (ETHERNET, bytes(ether() / IP(**OUTER) / v4() / tcp())),
    "6 in ip": (ETHERNET, bytes(ether() / IP(**OUTER) / v6() / tcp())),
    "ip in ipv6": (RAW, bytes(v6() / v4() / tcp())),
    "eight tunnels": (RAW, nested(8)),
}

FOREIGN: dict[str, tuple[int, bytes, Reason]] = {
    "arp": (ETHERNET, bytes(ether(type=0x806) / Raw(bytes(28))), Reason.NOT_IP),
    "802.3": (ETHERNET, bytes(ether(type=40) / Raw(bytes(40))), Reason.NOT_IP),
    "arp in vlan": (ETHERNET, bytes(ether() / Dot1Q(type=0x806) / Raw(bytes(28))), Reason.NOT_IP),
    "cooked arp": (SLL, bytes(CookedLinux(proto=0x806) / Raw(bytes(28))), Reason.NOT_IP),
    "loopback, appletalk": (NULL, b"\x10\0\0\0" + bytes(40), Reason.NOT_IP),
    "raw, version 5": (RAW, b"\x55" + bytes(60), Reason.NOT_IP),
    "ppp, lcp": (PPP_LINK, b"\xff\x03\xc0\x21" + bytes(20), Reason.NOT_IP),
    "pppoe, no session data": (ETHERNET, bytes(ether() / PPPoE(code=9) / Raw(bytes(20))), Reason.NOT_IP),
    "udp": (ETHERNET, bytes(ether() / v4() / UDP(sport=53, dport=53) / Raw(PAYLOAD)), Reason.NOT_TCP),
    "udp in ipv6": (ETHERNET, bytes(ether() / v6() / UDP(sport=53, dport=53) / Raw(PAYLOAD)), Reason.NOT_TCP),
    "udp from a tunnel port": (ETHERNET, bytes(ether() / v4() / UDP(sport=4789, dport=53)), Reason.NOT_TCP),
    "udp without its header": (RAW, bytes(v4(proto=17) / Raw(b"abc")), Reason.NOT_TCP),
    "vxlan without id": (RAW, bytes(v4() / UDP(dport=4789) / VXLAN(flags=0) / ether() / v4() / tcp()), Reason.NOT_TCP),
    "icmp": (ETHERNET, bytes(ether() / v4(proto=1) / Raw(bytes(8))), Reason.NOT_TCP),
    "icmp, fragmented": (ETHERNET, bytes(ether() / v4(proto=1, flags="MF") / Raw(bytes(8))), Reason.NOT_TCP),
    "no next header": (RAW, bytes(v6(nh=59)), Reason.NOT_TCP),
    "arp in gre": (RAW, bytes(v4() / GRE(proto=0x806) / Raw(bytes(28))), Reason.NOT_IP),
    "esp": (ETHERNET, bytes(ether() / v4(proto=50) / Raw(bytes(40))), Reason.ENCRYPTED),
    "esp in ipv6": (ETHERNET, bytes(ether() / v6(nh=50) / Raw(bytes(40))), Reason.ENCRYPTED),
    "esp fragment": (ETHERNET, bytes(ether() / v4(proto=50, frag=4) / Raw(bytes(40))), Reason.ENCRYPTED),
    "802.11": (105, bytes(100), Reason.UNSUPPORTED_LINKTYPE),
    "gre version 1": (RAW, bytes(v4(proto=47) / Raw(b"\x30\x01\x88\x0b" + bytes(20))), Reason.UNSUPPORTED_TUNNEL),
    "gre with routes": (RAW, bytes(v4(proto=47) / Raw(b"\x40\0\x08\0" + bytes(20))), Reason.UNSUPPORTED_TUNNEL),
    "geneve version 1": (RAW, bytes(v4() / UDP(dport=6081) / Raw(b"\x40" + bytes(20))), Reason.UNSUPPORTED_TUNNEL),
    "five tags": (ETHERNET, bytes(ether(type=0x8100) / Raw(bytes.fromhex("00018100") * 5)), Reason.TOO_DEEP),
    "nine tunnels": (RAW, nested(9), Reason.TOO_DEEP),
    "a thousand tunnels": (RAW, nested(1000), Reason.TOO_DEEP),
    "endless labels": (ETHERNET, bytes(ether(type=0x8847) / Raw(bytes(400))), Reason.TOO_DEEP),
    "endless options": (RAW, bytes(v6(nh=60) / Raw((b"\x3c\0" + bytes(6)) * 40)), Reason.TOO_DEEP),
    "short header": (RAW, bytes(v4(ihl=4) / tcp()), Reason.BAD_HEADER),
    "length below header": (RAW, bytes(v4(len=19) / tcp()), Reason.BAD_HEADER),
    "version 6 as 4": (ETHERNET, bytes(ether(type=0x800) / v6() / tcp()), Reason.BAD_HEADER),
    "length below options": (RAW, bytes(v4(options=b"\1" * 8, len=24) / UDP()), Reason.BAD_HEADER),
    "version 5": (ETHERNET, bytes(ether() / v4(version=5) / tcp()), Reason.BAD_HEADER),
    "version 7 as 6": (ETHERNET, bytes(ether() / v6(version=7) / tcp()), Reason.BAD_HEADER),
    "version 4 as 6": (ETHERNET, bytes(ether(type=0x86DD) / v4() / tcp()), Reason.BAD_HEADER),
    "tcp offset 4": (RAW, bytes(v4() / tcp(dataofs=4)), Reason.BAD_HEADER),
    "tcp offset beyond ip": (RAW, bytes(v4() / tcp(b"", dataofs=15)), Reason.BAD_HEADER),
    "tcp of 10 bytes": (RAW, bytes(v4(proto=6) / Raw(bytes(10))), Reason.BAD_HEADER),
    "extension beyond ip": (RAW, bytes(v6(nh=0) / Raw(b"\x11\xff" + bytes(30))), Reason.BAD_HEADER),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_kind_gives_its_segment(name: str) -> None:
    linktype, data = KINDS[name]
    ethernet_padding = b"\0" * 6 if linktype == ETHERNET else b""
    (segments,), counts = both([make_block([Packet(linktype, data + ethernet_padding, time_ns=77)], first_number=9)])
    assert len(segments) == 1, counts
    assert segments.payload(0) == PAYLOAD
    assert int(segments.payload_length[0]) == len(PAYLOAD)
    flow = flow_of(segments.keys[0])
    addresses = (SOURCE6, DESTINATION6) if name.startswith("6") else (SOURCE, DESTINATION)
    assert (flow.source, flow.destination) == addresses
    assert (flow.source_port, flow.destination_port) == (40000, 11210)
    assert (int(segments.seq[0]), int(segments.ack[0])) == (0xFFFFFFF0, 0x80000001)
    assert int(segments.flags[0]) == PSH | ACK
    assert (int(segments.number[0]), int(segments.time_ns[0])) == (9, 77)
    assert not counts.noted


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_packet_is_counted_under_its_reason(name: str) -> None:
    linktype, data, reason = FOREIGN[name]
    (segments,), counts = both([make_block([Packet(linktype, data)])])
    assert len(segments) == 0
    assert dict(counts.dropped) == {reason: 1}


def test_the_key_helper_is_what_the_decoders_use() -> None:
    (segments,), _ = both([make_block([Packet(*KINDS["raw"]), Packet(*KINDS["6 raw"])])])
    four = flow_key(bytes([10, 1, 2, 3]), bytes([10, 4, 5, 6]), 40000, 11210)
    assert segments.keys[0] == four
    assert len(four) == 37
    assert segments.keys[1][0] == 6
