"""From the start of a packet to its IP header, one packet at a time.

Knows link layers and what lies between them and IP: VLAN and other tags, LLC, MPLS labels, PPPoE, PPP, MACsec without
encryption; of IP itself only the version in its first four bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpkt.ethernet import Ethernet, MPLSlabel
from dpkt.loopback import Loopback
from dpkt.pppoe import PPPoE
from dpkt.sll import SLL
from dpkt.sll2 import SLL2

from dissector.link import assigned_numbers
from dissector.link.drop_counts import Reason
from dissector.link.packet_span import has_header, header

if TYPE_CHECKING:
    from dissector.link.packet_span import Span

_CISCO_HDLC_ADDRESSES = frozenset({b"\x0f", b"\x8f"})
# LLC with SNAP, and the organisations whose protocol numbers are EtherTypes: RFC 1042's, and 802.1H's for bridges.
_SNAP = frozenset({b"\xaa\xaa\x03\0\0\0", b"\xaa\xaa\x03\0\0\xf8"})
_LLC_IPV4 = b"\x06\x06\x03"
_MACSEC_HAS_SCI, _MACSEC_CHANGED = 0x20, 0x0C  # E or C: what follows is not what was sent
_NFLOG_IPV4, _NFLOG_IPV6, _NFLOG_PAYLOAD = 2, 10, 9
_PKTAP_HEADER, _PKTAP_PACKET = 12, 1  # the part that is read, and the record type


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
    if linktype == assigned_numbers.LINKTYPE_C_HDLC:
        return from_cisco_hdlc(span)
    if linktype == assigned_numbers.LINKTYPE_NFLOG:
        return from_nflog(span)
    if linktype == assigned_numbers.LINKTYPE_PKTAP:
        return from_pktap(span)
    return Reason.UNSUPPORTED_LINKTYPE


def from_ethernet(span: Span, depth: int) -> NetworkLayer | Reason:
    """Take off an Ethernet header."""
    if not has_header(Ethernet, span):
        return Reason.TRUNCATED_LINK
    return from_ethertype(header(Ethernet, span).type, span.after(14), depth)


def from_ethertype(ethertype: int, span: Span, depth: int) -> NetworkLayer | Reason:
    """Follow an EtherType, through tags if there are any; a small number is the length of what begins with LLC."""
    if depth > assigned_numbers.MAX_DEPTH:
        return Reason.TOO_DEEP
    tags = 0
    while ethertype in assigned_numbers.TAG_SIZES:
        tags += 1
        size = assigned_numbers.TAG_SIZES[ethertype]
        if tags > assigned_numbers.MAX_TAGS:
            return Reason.TOO_DEEP
        if span.captured < size:
            return Reason.TRUNCATED_LINK
        ethertype, span = span.number(size - 2, 2), span.after(size)
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
    if ethertype == assigned_numbers.ETHERTYPE_MACSEC:
        return from_macsec(span, depth + 1)
    if ethertype <= assigned_numbers.MAX_802_3_LENGTH or ethertype == assigned_numbers.ETHERTYPE_LLC:
        return from_llc(span, depth + 1)
    return Reason.NOT_IP


def from_llc(span: Span, depth: int) -> NetworkLayer | Reason:
    """Follow LLC: with SNAP to an EtherType, or to IP by its own number there (RFC 948)."""
    if span.peek(3) == _LLC_IPV4:
        return NetworkLayer(4, span.after(3), depth)
    if span.captured < 8:
        return Reason.TRUNCATED_LINK if span.captured < span.length else Reason.NOT_IP
    return from_ethertype(span.number(6, 2), span.after(8), depth) if span.peek(6) in _SNAP else Reason.NOT_IP


def from_macsec(span: Span, depth: int) -> NetworkLayer | Reason:
    """Take off a SecTAG (IEEE 802.1AE) where it protects bytes without changing them."""
    if not span.captured:
        return Reason.TRUNCATED_LINK
    control = span.number(0, 1)
    if control & _MACSEC_CHANGED:
        return Reason.ENCRYPTED
    size = 14 if control & _MACSEC_HAS_SCI else 6
    if span.captured < size + 2:
        return Reason.TRUNCATED_LINK
    return from_ethertype(span.number(size, 2), span.after(size + 2), depth)


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


def from_nflog(span: Span) -> NetworkLayer | Reason:
    """Find the packet among the attributes of a netfilter log, which are in the byte order of the capturing host."""
    if span.captured < 4:
        return Reason.TRUNCATED_LINK
    family, version = span.peek(2)
    if version:
        return Reason.BAD_HEADER
    # A capture does not say here which order that is. In the other one a length is most likely beyond the packet.
    payload = _nflog_payload(span.after(4), "little") or _nflog_payload(span.after(4), "big")
    if payload is None:
        return Reason.TRUNCATED_LINK if span.captured < span.length else Reason.NOT_IP
    if family == _NFLOG_IPV4:
        return NetworkLayer(4, payload, 0)
    if family == _NFLOG_IPV6:
        return NetworkLayer(6, payload, 0)
    return from_first_nibble(payload, 0)  # logged by a bridge, or a table of several families


def _nflog_payload(span: Span, order: Literal["little", "big"]) -> Span | None:
    """Return the value of the attribute that is the packet; each begins at a multiple of four."""
    for _ in range(assigned_numbers.MAX_NFLOG_ATTRIBUTES):
        if span.captured < 4:
            break
        size, kind = (int.from_bytes(span.peek(2, at), order) for at in (0, 2))
        if size < 4 or size > span.length:
            break
        if kind & 0x7FFF == _NFLOG_PAYLOAD:
            return span.first(size).after(4)
        span = span.after((size + 3) & ~3)
    return None


def from_pktap(span: Span) -> NetworkLayer | Reason:
    """Take off the header of a capture on Apple's "pktap" devices, which names the link layer of each packet."""
    if span.captured < _PKTAP_HEADER:
        return Reason.TRUNCATED_LINK
    size, kind, linktype = (int.from_bytes(span.peek(4, at), "little") for at in (0, 4, 8))
    if size < _PKTAP_HEADER or linktype == assigned_numbers.LINKTYPE_PKTAP:
        return Reason.BAD_HEADER
    return from_linktype(linktype, span.after(size)) if kind == _PKTAP_PACKET else Reason.NOT_IP


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
    if linktype == assigned_numbers.LINKTYPE_PPP_HDLC and span.peek(1) in _CISCO_HDLC_ADDRESSES:
        return from_cisco_hdlc(span)
    return from_ppp(span, 0)


def from_cisco_hdlc(span: Span) -> NetworkLayer | Reason:
    """Take off Cisco's address and control, which precede an EtherType."""
    if span.captured < 4:
        return Reason.TRUNCATED_LINK
    return from_ethertype(span.number(2, 2), span.after(4), 0)


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
