"""From the start of a packet to its IP header, one packet at a time.

Knows link layers and what lies between them and IP: VLAN tags, MPLS labels, PPPoE, PPP; of IP itself only the version
in its first four bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpkt.ethernet import Ethernet, MPLSlabel, VLANtag8021Q
from dpkt.loopback import Loopback
from dpkt.pppoe import PPPoE
from dpkt.sll import SLL
from dpkt.sll2 import SLL2

from dissector.link import assigned_numbers
from dissector.link.drop_counts import Reason
from dissector.link.packet_span import has_header, header

if TYPE_CHECKING:
    from dissector.link.packet_span import Span

_CISCO_HDLC_ADDRESSES = frozenset({0x0F, 0x8F})


@dataclass(frozen=True, slots=True)
class NetworkLayer:
    """Where an IP packet begins, which version is announced, and how many headers of its kind are around it."""

    version: int
    span: Span
    depth: int


def from_linktype(linktype: int, span: Span) -> NetworkLayer | Reason:
    """Find the IP packet in a whole captured packet."""
    if linktype == assigned_numbers.LINKTYPE_ETHERNET:
        return from_ethernet(span, 0)
    if linktype == assigned_numbers.LINKTYPE_LINUX_SLL:
        return from_cooked(SLL, span)
    if linktype == assigned_numbers.LINKTYPE_LINUX_SLL2:
        return from_cooked(SLL2, span)
    if linktype in {assigned_numbers.LINKTYPE_NULL, assigned_numbers.LINKTYPE_LOOP}:
        return from_loopback(span)
    if linktype in assigned_numbers.RAW_LINKTYPES:
        return from_first_nibble(span, 0)
    if linktype == assigned_numbers.LINKTYPE_IPV4:
        return NetworkLayer(4, span, 0)
    if linktype == assigned_numbers.LINKTYPE_IPV6:
        return NetworkLayer(6, span, 0)
    if linktype in {assigned_numbers.LINKTYPE_PPP, assigned_numbers.LINKTYPE_PPP_HDLC}:
        return from_framed_ppp(linktype, span)
    return Reason.UNSUPPORTED_LINKTYPE


def from_ethernet(span: Span, depth: int) -> NetworkLayer | Reason:
    """Take off an Ethernet header. Lengths instead of types (802.3 with LLC) do not carry IP in practice."""
    if depth > assigned_numbers.MAX_DEPTH:
        return Reason.TOO_DEEP
    if not has_header(Ethernet, span):
        return Reason.TRUNCATED_LINK
    return from_ethertype(header(Ethernet, span).type, span.after(14), depth)


def from_ethertype(ethertype: int, span: Span, depth: int) -> NetworkLayer | Reason:
    """Follow an EtherType, through VLAN tags if there are any."""
    tags = 0
    while ethertype in assigned_numbers.VLAN_ETHERTYPES:
        tags += 1
        if tags > assigned_numbers.MAX_VLAN_TAGS:
            return Reason.TOO_DEEP
        if not has_header(VLANtag8021Q, span):
            return Reason.TRUNCATED_LINK
        ethertype, span = header(VLANtag8021Q, span).type, span.after(4)
    if ethertype == assigned_numbers.ETHERTYPE_IPV4:
        return NetworkLayer(4, span, depth)
    if ethertype == assigned_numbers.ETHERTYPE_IPV6:
        return NetworkLayer(6, span, depth)
    if ethertype in assigned_numbers.MPLS_ETHERTYPES:
        return from_mpls(span, depth)
    if ethertype == assigned_numbers.ETHERTYPE_PPPOE_SESSION:
        return from_pppoe(span, depth)
    if ethertype == assigned_numbers.ETHERTYPE_BRIDGED_ETHERNET:
        return from_ethernet(span, depth + 1)
    return Reason.NOT_IP


def from_mpls(span: Span, depth: int) -> NetworkLayer | Reason:
    """Take off a label stack. Nothing says what it carries: guess from the first bytes, as every dissector does."""
    for _ in range(assigned_numbers.MAX_MPLS_LABELS):
        if not has_header(MPLSlabel, span):
            return Reason.TRUNCATED_LINK
        bottom, span = header(MPLSlabel, span).s, span.after(4)
        if bottom:
            break
    else:
        return Reason.TOO_DEEP
    inner = from_first_nibble(span, depth)
    if inner is not Reason.NOT_IP:
        return inner
    # A pseudowire; two zero bytes are its control word (RFC 4448 4.6) rather than an Ethernet address.
    return from_ethernet(span.after(4) if span.peek(2) == b"\0\0" else span, depth + 1)


def from_first_nibble(span: Span, depth: int) -> NetworkLayer | Reason:
    """Recognise IP by its version alone."""
    if not span.captured:
        return Reason.TRUNCATED_IP
    version = span.number(0, 1) >> 4
    return NetworkLayer(version, span, depth) if version in {4, 6} else Reason.NOT_IP


def from_cooked(kind: type[SLL] | type[SLL2], span: Span) -> NetworkLayer | Reason:
    """Take off the pseudo header of a capture on Linux's "any" device."""
    if not has_header(kind, span):
        return Reason.TRUNCATED_LINK
    return from_ethertype(header(kind, span).ethtype, span.after(kind.__hdr_len__), 0)


def from_loopback(span: Span) -> NetworkLayer | Reason:
    """Take off an address family, in the byte order of the capturing host; LOOP's is big-endian, NULL's unknown."""
    if not has_header(Loopback, span):
        return Reason.TRUNCATED_LINK
    family = header(Loopback, span).family
    swapped = int.from_bytes(family.to_bytes(4, "little"), "big")
    for candidate in (family, swapped):
        if candidate in assigned_numbers.LOOPBACK_IPV4_FAMILIES:
            return NetworkLayer(4, span.after(4), 0)
        if candidate in assigned_numbers.LOOPBACK_IPV6_FAMILIES:
            return NetworkLayer(6, span.after(4), 0)
    return Reason.NOT_IP


def from_pppoe(span: Span, depth: int) -> NetworkLayer | Reason:
    """Take off a PPPoE session header; discovery has its own EtherType."""
    if not has_header(PPPoE, span):
        return Reason.TRUNCATED_LINK
    if header(PPPoE, span).code != 0:
        return Reason.NOT_IP
    return from_ppp(span.after(6), depth)


def from_framed_ppp(linktype: int, span: Span) -> NetworkLayer | Reason:
    """Take off HDLC-like framing where it is there: PPP's address and control, or Cisco's with an EtherType."""
    if span.peek(2) == b"\xff\x03":
        return from_ppp(span.after(2), 0)
    if (
        linktype == assigned_numbers.LINKTYPE_PPP_HDLC
        and span.captured >= 4
        and span.number(0, 1) in _CISCO_HDLC_ADDRESSES
    ):
        return from_ethertype(span.number(2, 2), span.after(4), 0)
    return from_ppp(span, 0)


def from_ppp(span: Span, depth: int) -> NetworkLayer | Reason:
    """Follow a PPP protocol number, of one byte when compressed: its last byte is the odd one (RFC 1661 2)."""
    size = 1 if span.captured and span.number(0, 1) & 1 else 2
    if span.captured < size:
        return Reason.TRUNCATED_LINK
    protocol, span = span.number(0, size), span.after(size)
    if protocol == assigned_numbers.PPP_IPV4:
        return NetworkLayer(4, span, depth)
    if protocol == assigned_numbers.PPP_IPV6:
        return NetworkLayer(6, span, depth)
    return Reason.NOT_IP
