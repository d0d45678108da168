"""Packets of every supported kind, made by scapy, each with the segment that must come out of it.

scapy is the independent oracle here: it builds the headers, and nothing in this file decodes them. The other link tests
take their packets and their way to make a block from here.
"""

from __future__ import annotations

import struct
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
C_HDLC, NFLOG, PKTAP = 104, 239, 258
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


SNAP = b"\xaa\xaa\x03\0\0\0"
MACS = bytes.fromhex("020000000002 020000000001")


def typed(*types_and_bytes: int | bytes) -> bytes:
    """Ethernet with EtherTypes, and what follows each."""
    return MACS + b"".join(each if isinstance(each, bytes) else struct.pack(">H", each) for each in types_and_bytes)


def in_802_3(llc: bytes) -> bytes:
    return typed(len(llc), llc)


def nflog(family: int, *attributes: tuple[int, bytes], order: str = "<") -> bytes:
    """A netfilter log: each attribute's length counts its head, but not the padding to four bytes."""
    data = bytes([family, 0, 0, 5])
    for kind, value in attributes:
        data += struct.pack(f"{order}HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
    return data


def pktap(linktype: int, data: bytes, *, kind: int = 1, size: int = 108) -> bytes:
    """Apple's header: its length, the type of the record, the link type, and much more that nobody needs here."""
    return struct.pack("<III", size, kind, linktype).ljust(size, b"\0") + data


def erspan_iii(frame: bytes, *, kind: int = 0, more: bool = False) -> bytes:
    """ERSPAN of type III: version 2 and VLAN, session, time, group, then kind of frame and whether more follows."""
    header = struct.pack(">HHIHH", 0x2005, 1, 0, 0, kind << 10 | more)
    return header + (b"\x0c" + bytes(7) if more else b"") + frame


def mirrored(gre: Any, data: bytes) -> bytes:
    return bytes(IP(**OUTER) / gre / Raw(data))


LOG_HEADER = (1, b"\x08\0\3\0")  # EtherType and hook
LOG_PREFIX = (10, b"in\0")


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
    "geneve": (
        RAW,
        bytes(IP(**OUTER) / UDP(sport=50000, dport=6081) / GENEVE(proto=0x6558, vni=7) / ether() / v4() / tcp()),
    ),
    "6 geneve, options, no ethernet": (
        RAW,
        # scapy fills in no option length by itself: 2 words
        bytes(IP(**OUTER) / UDP(sport=50000, dport=6081) / Raw(b"\x02\0\x86\xdd\0\0\7\0" + bytes(8)) / v6() / tcp()),
    ),
    "ip in ip": (ETHERNET, bytes(ether() / IP(**OUTER) / v4() / tcp())),
    "6 in ip": (ETHERNET, bytes(ether() / IP(**OUTER) / v6() / tcp())),
    "ip in ipv6": (RAW, bytes(v6() / v4() / tcp())),
    "eight tunnels": (RAW, nested(8)),
    "802.3, snap": (ETHERNET, in_802_3(SNAP + b"\x08\0" + bytes(v4() / tcp()))),
    "6 802.3, snap of 802.1h": (ETHERNET, in_802_3(b"\xaa\xaa\3\0\0\xf8\x86\xdd" + bytes(v6() / tcp()))),
    "802.3, llc of ip": (ETHERNET, in_802_3(b"\6\6\3" + bytes(v4() / tcp()))),
    "802.3, snap, vlan": (ETHERNET, in_802_3(SNAP + b"\x81\0\0\5\x08\0" + bytes(v4() / tcp()))),
    "length in vlan, snap": (ETHERNET, typed(0x8100, 5, 96, SNAP, 0x800, bytes(v4() / tcp()))),
    "length in qinq, snap": (ETHERNET, typed(0x88A8, 9, 0x8100, 5, 96, SNAP, 0x800, bytes(v4() / tcp()))),
    "large llc": (ETHERNET, typed(0x8870, SNAP, 0x800, bytes(v4() / tcp()))),
    "802.2 in sll": (SLL, bytes(CookedLinux(proto=4)) + SNAP + b"\x08\0" + bytes(v4() / tcp())),
    "vn-tag": (ETHERNET, typed(0x8926, b"\x80\1\0\2", 0x800, bytes(v4() / tcp()))),
    "6 vn-tag, vlan": (ETHERNET, typed(0x8926, b"\0\1\x80\2", 0x8100, 5, 0x86DD, bytes(v6() / tcp()))),
    "e-tag": (ETHERNET, typed(0x893F, b"\0\7\0\x64\0\0", 0x800, bytes(v4() / tcp()))),
    "6 e-tag, qinq": (
        ETHERNET,
        typed(0x893F, b"\0\7\0\x64\0\0", 0x88A8, 9, 0x8100, 5, 0x86DD, bytes(v6() / tcp())),
    ),
    "cisco metadata in vlan": (ETHERNET, typed(0x8100, 5, 0x8909, b"\1\1\0\1\0\x11", 0x800, bytes(v4() / tcp()))),
    "macsec, not encrypted": (ETHERNET, typed(0x88E5, b"\0\0\0\0\0\1", 0x800, bytes(v4() / tcp()), bytes(16))),
    "6 macsec with sci, not encrypted": (
        ETHERNET,
        typed(0x88E5, b"\x20\0\0\0\0\1" + MACS[:6] + b"\0\1", 0x86DD, bytes(v6() / tcp()), bytes(16)),
    ),
    "cisco hdlc link": (C_HDLC, b"\x0f\0\x08\0" + bytes(v4() / tcp())),
    "6 cisco hdlc link": (C_HDLC, b"\x8f\0\x86\xdd" + bytes(v6() / tcp())),
    "cisco hdlc link, mpls": (C_HDLC, b"\x0f\0\x88\x47" + bytes(MPLS(label=17, s=1) / v4() / tcp())),
    "nflog": (NFLOG, nflog(2, LOG_HEADER, LOG_PREFIX, (9, bytes(v4() / tcp())))),
    "nflog, big-endian": (NFLOG, nflog(2, LOG_HEADER, LOG_PREFIX, (9, bytes(v4() / tcp())), order=">")),
    "6 nflog, payload first": (NFLOG, nflog(10, (9, bytes(v6() / tcp())), LOG_PREFIX)),
    "6 nflog of a bridge": (NFLOG, nflog(7, (1, b"\x86\xdd\3\0"), (9, bytes(v6() / tcp())))),
    "pktap": (PKTAP, pktap(ETHERNET, bytes(ether() / v4() / tcp()))),
    "6 pktap, loopback": (PKTAP, pktap(NULL, b"\x1e\0\0\0" + bytes(v6() / tcp()), size=156)),
    "gre over udp": (RAW, bytes(IP(**OUTER) / UDP(sport=50000, dport=4754) / GRE() / v4() / tcp())),
    "6 gre over udp, key, bridged": (
        ETHERNET,
        bytes(
            ether() / v6() / UDP(sport=50000, dport=4754) / GRE(key_present=1, proto=0x6558) / ether() / v6() / tcp()
        ),
    ),
    "linux vxlan": (RAW, bytes(IP(**OUTER) / UDP(sport=50000, dport=8472) / VXLAN(vni=7) / ether() / v4() / tcp())),
    "erspan": (RAW, bytes(IP(**OUTER) / GRE(proto=0x88BE) / ether() / v4() / tcp())),
    "6 erspan ii": (
        RAW,
        bytes(IP(**OUTER) / GRE(proto=0x88BE, seqnum_present=1) / Raw(b"\x10\5" + bytes(6)) / ether() / v6() / tcp()),
    ),
    "erspan iii": (
        RAW,
        mirrored(GRE(proto=0x22EB, seqnum_present=1), erspan_iii(bytes(ether() / Dot1Q() / v4() / tcp()))),
    ),
    "erspan iii, platform": (RAW, mirrored(GRE(proto=0x22EB), erspan_iii(bytes(ether() / v4() / tcp()), more=True))),
    "erspan iii of ip": (RAW, mirrored(GRE(proto=0x22EB), erspan_iii(bytes(v4() / tcp()), kind=2))),
}

FOREIGN: dict[str, tuple[int, bytes, Reason]] = {
    "arp": (ETHERNET, bytes(ether(type=0x806) / Raw(bytes(28))), Reason.NOT_IP),
    "802.3": (ETHERNET, bytes(ether(type=40) / Raw(bytes(40))), Reason.NOT_IP),
    "802.3, spanning tree": (ETHERNET, in_802_3(b"\x42\x42\3" + bytes(43)), Reason.NOT_IP),
    "802.3, cisco discovery": (ETHERNET, in_802_3(b"\xaa\xaa\3\0\0\x0c\x20\0" + bytes(40)), Reason.NOT_IP),
    "802.3 of nothing": (ETHERNET, in_802_3(b""), Reason.NOT_IP),
    "neither length nor type": (ETHERNET, typed(1501, SNAP, 0x800, bytes(v4() / tcp())), Reason.NOT_IP),
    "sll, 802.3 of novell": (SLL, bytes(CookedLinux(proto=1)) + b"\xff\xff" + bytes(40), Reason.NOT_IP),
    "nflog, no packet": (NFLOG, nflog(2, LOG_HEADER, LOG_PREFIX), Reason.NOT_IP),
    "nflog, nothing": (NFLOG, nflog(2), Reason.NOT_IP),
    "nflog, length 0": (NFLOG, nflog(2) + bytes(400), Reason.NOT_IP),
    "nflog, length 3": (NFLOG, nflog(2) + b"\3\0\x09\0" * 20, Reason.NOT_IP),
    "nflog, length beyond": (NFLOG, nflog(2) + b"\xff\xff\x09\0" + bytes(40), Reason.NOT_IP),
    "nflog, endless attributes": (NFLOG, nflog(2, *[(2, b"")] * 400, (9, bytes(v4() / tcp()))), Reason.NOT_IP),
    "nflog, arp of a bridge": (NFLOG, nflog(7, (9, b"\0\1\x08\0" + bytes(24))), Reason.NOT_IP),
    "nflog, version 1": (NFLOG, b"\2\1\0\0" + bytes(40), Reason.BAD_HEADER),
    "pktap, no packet": (PKTAP, pktap(ETHERNET, bytes(ether() / v4() / tcp()), kind=0), Reason.NOT_IP),
    "pktap in pktap": (PKTAP, pktap(PKTAP, pktap(ETHERNET, bytes(60))), Reason.BAD_HEADER),
    "pktap, short": (PKTAP, pktap(ETHERNET, bytes(60), size=0), Reason.BAD_HEADER),
    "cisco hdlc keep-alive": (C_HDLC, b"\x8f\0\x80\x35" + bytes(14), Reason.NOT_IP),
    "macsec": (ETHERNET, typed(0x88E5, b"\x2c\0\0\0\0\1" + bytes(60)), Reason.ENCRYPTED),
    "gre over udp with dtls": (RAW, bytes(v4() / UDP(dport=4755) / Raw(bytes(40))), Reason.ENCRYPTED),
    "gre keep-alive": (RAW, bytes(v4() / GRE(proto=0)), Reason.NOT_IP),
    "erspan iii of something else": (
        RAW,
        mirrored(GRE(proto=0x22EB), erspan_iii(bytes(60), kind=1)),
        Reason.UNSUPPORTED_TUNNEL,
    ),
    "five different tags": (ETHERNET, typed(0x8926, bytes(4), 0x893F, bytes(6), *(0x8100, 5) * 3), Reason.TOO_DEEP),
    "endless llc": (ETHERNET, typed(0x8870, (SNAP + b"\x88\x70") * 4000), Reason.TOO_DEEP),
    "endless macsec": (ETHERNET, typed(0x88E5, (bytes(6) + b"\x88\xe5") * 4000), Reason.TOO_DEEP),
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
