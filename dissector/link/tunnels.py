"""From the payload of an outer IP packet to the packet inside: UDP's tunnels, GRE, and the mirrors that use it.

Knows the tunnels' own headers; link layers inside are those of ``link_layers``, and IP is the reference decoder's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpkt.gre import GRE
from dpkt.udp import UDP

from dissector.link import assigned_numbers
from dissector.link.drop_counts import Reason
from dissector.link.link_layers import NetworkLayer, from_ethernet, from_ethertype, from_first_nibble
from dissector.link.packet_span import has_header, header

if TYPE_CHECKING:
    from dissector.link.packet_span import Span

_GRE_CHECKSUM, _GRE_ROUTING, _GRE_KEY, _GRE_SEQUENCE, _GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007
_VXLAN_HAS_ID = 0x08
# Of ERSPAN III's last 16 bits: what kind of frame was mirrored, and whether 8 more bytes precede it.
_ERSPAN_KIND, _ERSPAN_ETHERNET, _ERSPAN_IP, _ERSPAN_MORE = 0x7C00, 0, 2 << 10, 0x0001


def from_udp(span: Span, depth: int) -> NetworkLayer | Reason:
    """Look into UDP's tunnels, known by their destination port."""
    if not has_header(UDP, span):
        cut_tunnel = span.captured >= 4 and span.number(2, 2) in assigned_numbers.TUNNEL_PORTS
        return Reason.TRUNCATED_TUNNEL if cut_tunnel else Reason.NOT_TCP
    port, span = header(UDP, span).dport, span.after(8)
    if port not in assigned_numbers.TUNNEL_PORTS:
        return Reason.NOT_TCP
    if port == assigned_numbers.PORT_GRE:
        return from_gre(span, depth)
    if port == assigned_numbers.PORT_GRE_DTLS:
        return Reason.ENCRYPTED
    if span.captured < 8:
        return Reason.TRUNCATED_TUNNEL
    first = span.number(0, 1)
    if port in assigned_numbers.VXLAN_PORTS:
        # RFC 7348 5: without the I flag there is no valid network id, so this is something else on that port.
        return from_ethernet(span.after(8), depth) if first & _VXLAN_HAS_ID else Reason.NOT_TCP
    if first >> 6:
        return Reason.UNSUPPORTED_TUNNEL
    return from_ethertype(span.number(2, 2), span.after(8 + (first & 0x3F) * 4), depth)  # RFC 8926 3.4


def from_gre(span: Span, depth: int) -> NetworkLayer | Reason:
    """Take off a GRE header (RFC 2784, 2890). dpkt's optional fields mix in those of version 1, hence our own."""
    if not has_header(GRE, span):
        return Reason.TRUNCATED_TUNNEL
    gre = header(GRE, span)
    if gre.flags & (_GRE_VERSION | _GRE_ROUTING):
        return Reason.UNSUPPORTED_TUNNEL
    size = 4 + 4 * sum(bool(gre.flags & flag) for flag in (_GRE_CHECKSUM, _GRE_KEY, _GRE_SEQUENCE))
    if span.captured < size:
        return Reason.TRUNCATED_TUNNEL
    inner = span.after(size)
    if gre.p == assigned_numbers.ETHERTYPE_ERSPAN:
        # Type I has no header of its own, and neither has its GRE a sequence number, which tells it from type II.
        return _mirrored(inner, 8 if gre.flags & _GRE_SEQUENCE else 0, depth)
    if gre.p == assigned_numbers.ETHERTYPE_ERSPAN_III:
        return _erspan_iii(inner, depth)
    return from_ethertype(gre.p, inner, depth)


def _erspan_iii(span: Span, depth: int) -> NetworkLayer | Reason:
    """Take off ERSPAN's header of type III, which says what was mirrored."""
    if span.captured < 12:
        return Reason.TRUNCATED_TUNNEL
    about = span.number(10, 2)
    size = 20 if about & _ERSPAN_MORE else 12
    if about & _ERSPAN_KIND == _ERSPAN_IP:
        return from_first_nibble(span.after(size), depth)
    return _mirrored(span, size, depth) if about & _ERSPAN_KIND == _ERSPAN_ETHERNET else Reason.UNSUPPORTED_TUNNEL


def _mirrored(span: Span, size: int, depth: int) -> NetworkLayer | Reason:
    return Reason.TRUNCATED_TUNNEL if span.captured < size else from_ethernet(span.after(size), depth)
