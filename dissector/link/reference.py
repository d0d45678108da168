"""Packets to TCP segments one packet at a time: the reference decoder, and the oracle of the columnar one.

Knows IP, its extension headers and fragments, and TCP's header. Every packet ends as a segment or as a counted
reason; nothing in a packet makes it raise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpkt.ah import AH
from dpkt.ip import IP
from dpkt.ip6 import IP6, IP6FragmentHeader, IP6OptsHeader
from dpkt.tcp import TCP

from dissector.link import assigned_numbers
from dissector.link.checksums import ip_header_is_bad, tcp_segment_is_bad
from dissector.link.drop_counts import LinkCounts, Note, Reason
from dissector.link.flow_key import flow_key
from dissector.link.fragments import Datagram, Fragment, FragmentBuffer
from dissector.link.link_layers import NetworkLayer, from_linktype
from dissector.link.packet_span import Span, has_header, header
from dissector.link.segment_block import PacketSegment, SegmentBlock, block_of, columns_of
from dissector.link.tunnels import from_gre, from_udp

if TYPE_CHECKING:
    from dissector.capture.packet_block import PacketBlock
    from dissector.link.fragments import FragmentLimits

# A fragment of any other protocol can't hold TCP, so it need not wait for the rest of its datagram.
_WORTH_HOLDING = (
    {
        assigned_numbers.PROTOCOL_TCP,
        assigned_numbers.PROTOCOL_UDP,
        assigned_numbers.PROTOCOL_AH,
        assigned_numbers.PROTOCOL_FRAGMENT,
    }
    | assigned_numbers.TUNNEL_PROTOCOLS
    | assigned_numbers.OPTION_HEADERS
)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """What the IP header around a payload says, as far as the payload needs it."""

    version: int
    source: bytes
    destination: bytes
    depth: int
    time_ns: int


class ReferenceDecoder:
    """Decodes packet blocks of one capture, or one ring of captures, in order; keeps fragments between blocks."""

    def __init__(
        self, *, limits: FragmentLimits | None = None, verify_tcp: bool = False, counts: LinkCounts | None = None
    ) -> None:
        """Prepare to decode; ``counts`` is where to count, if another decoder counts there too."""
        self.counts = counts if counts is not None else LinkCounts()
        self._fragments = FragmentBuffer(self.counts, limits)
        self._verify_tcp = verify_tcp

    def decode(self, block: PacketBlock) -> SegmentBlock:
        """Return the TCP segments of a block."""
        found: list[tuple[int, PacketSegment]] = []
        for index in range(len(block.offset)):
            segment = self.segment(
                block.packet(index), int(block.linktype[index]), int(block.original[index]), int(block.time_ns[index])
            )
            if segment is not None:
                found.append((index, segment))
        buffer, columns = columns_of(block, block.buffer, found)
        return block_of(block, buffer, [columns])

    def finish(self) -> None:
        """End of the capture: count the fragments that never became a datagram."""
        self._fragments.finish()

    def segment(self, packet: bytes, linktype: int, original: int, time_ns: int) -> PacketSegment | None:
        """Count one packet; return its TCP segment if it has or completes one."""
        self.counts.packets += 1
        # Some writers store an original length below the captured one; the bytes at hand were certainly there.
        whole = Span(packet, 0, len(packet), max(original, len(packet)))
        outcome = self._network(from_linktype(linktype, whole), time_ns)
        if isinstance(outcome, PacketSegment):
            self.counts.segments += 1
            return outcome
        if outcome is Reason.UNSUPPORTED_LINKTYPE:
            self.counts.unsupported(linktype)
        else:
            self.counts.drop(outcome)
        return None

    def _network(self, network: NetworkLayer | Reason, time_ns: int) -> PacketSegment | Reason:
        """Decode an IP packet of either version."""
        if not isinstance(network, NetworkLayer):
            return network
        if network.depth > assigned_numbers.MAX_DEPTH:
            return Reason.TOO_DEEP
        return self._ipv4(network, time_ns) if network.version == 4 else self._ipv6(network, time_ns)

    def _ipv4(self, network: NetworkLayer, time_ns: int) -> PacketSegment | Reason:
        span = network.span
        if not has_header(IP, span):
            return Reason.TRUNCATED_IP
        ip = header(IP, span)
        size = ip.hl * 4
        # Length 0 comes from a sender that left segmentation to its network card: the packet's end is the datagram's.
        length = ip.len or span.length
        if ip.v != 4 or size < 20 or length < size:
            return Reason.BAD_HEADER
        if span.captured < size:
            return Reason.TRUNCATED_IP
        if ip_header_is_bad(span.peek(size)):
            self.counts.note(Note.BAD_IP_CHECKSUM)
        envelope = _Envelope(4, ip.src, ip.dst, network.depth, time_ns)
        payload = span.first(length).after(size)
        if ip.mf or ip.offset:
            key = (ip.src, ip.dst, ip.id, ip.p)
            return self._fragment(envelope, key, ip.p, ip.offset * 8, more=bool(ip.mf), span=payload)
        return self._payload(envelope, ip.p, payload)

    def _ipv6(self, network: NetworkLayer, time_ns: int) -> PacketSegment | Reason:
        span = network.span
        if not has_header(IP6, span):
            return Reason.TRUNCATED_IP
        ip = header(IP6, span)
        if ip.v != 6:
            return Reason.BAD_HEADER
        # Length 0: a jumbogram (RFC 2675) or segmentation offload.
        length = 40 + ip.plen if ip.plen else span.length
        envelope = _Envelope(6, ip.src, ip.dst, network.depth, time_ns)
        return self._payload(envelope, ip.nxt, span.first(length).after(40))

    def _payload(self, envelope: _Envelope, protocol: int, span: Span) -> PacketSegment | Reason:
        """Follow an IP protocol number, through extension headers if there are any."""
        for _ in range(assigned_numbers.MAX_EXTENSION_HEADERS):
            if protocol == assigned_numbers.PROTOCOL_AH:
                kind, unit, first_units = AH, 4, 2
            elif envelope.version == 6 and protocol in assigned_numbers.OPTION_HEADERS:
                kind, unit, first_units = IP6OptsHeader, 8, 1
            elif envelope.version == 6 and protocol == assigned_numbers.PROTOCOL_FRAGMENT:
                if not has_header(IP6FragmentHeader, span):
                    return Reason.TRUNCATED_IP
                fragment = header(IP6FragmentHeader, span)
                protocol, span = fragment.nxt, span.after(8)
                if fragment.m_flag or fragment.frag_off:
                    key = (envelope.source, envelope.destination, fragment.id)
                    more, start = bool(fragment.m_flag), fragment.frag_off * 8
                    return self._fragment(envelope, key, protocol, start, more=more, span=span)
                continue  # an atomic fragment (RFC 6946) is a whole datagram
            else:
                return self._transport(envelope, protocol, span)
            if not has_header(kind, span):
                return Reason.TRUNCATED_IP
            extension = header(kind, span)
            protocol, span = extension.nxt, span.after((extension.len + first_units) * unit)
            if span.length < 0:
                return Reason.BAD_HEADER
        return Reason.TOO_DEEP

    def _fragment(
        self, envelope: _Envelope, key: tuple[object, ...], protocol: int, start: int, *, more: bool, span: Span
    ) -> PacketSegment | Reason:
        """Put a fragment with its siblings; go on with the datagram once it is whole."""
        if protocol == assigned_numbers.PROTOCOL_ESP:
            return Reason.ENCRYPTED
        if protocol not in _WORTH_HOLDING:
            return Reason.NOT_TCP
        fragment = Fragment(start, start + span.length, span.peek(span.captured), more, protocol)
        outcome = self._fragments.add(key, fragment, envelope.time_ns)
        if not isinstance(outcome, Datagram):
            return outcome
        whole = Span(outcome.data, 0, len(outcome.data), outcome.length)
        # One level deeper, so that fragments of fragments stay within the same bound as tunnels.
        inner = _Envelope(envelope.version, envelope.source, envelope.destination, envelope.depth + 1, envelope.time_ns)
        if inner.depth > assigned_numbers.MAX_DEPTH:
            return Reason.TOO_DEEP
        found = self._payload(inner, outcome.protocol, whole)
        if isinstance(found, PacketSegment) and found.datagram is None:
            return PacketSegment(
                found.key,
                found.seq,
                found.ack,
                found.flags,
                found.payload_start,
                found.payload_captured,
                found.payload_length,
                datagram=outcome.data,
            )
        return found

    def _transport(self, envelope: _Envelope, protocol: int, span: Span) -> PacketSegment | Reason:
        """Decode TCP, or whatever may have another IP packet inside."""
        if protocol == assigned_numbers.PROTOCOL_TCP:
            return self._tcp(envelope, span)
        depth = envelope.depth + 1
        if protocol == assigned_numbers.PROTOCOL_UDP:
            return self._network(from_udp(span, depth), envelope.time_ns)
        if protocol == assigned_numbers.PROTOCOL_IPV4:
            return self._network(NetworkLayer(4, span, depth), envelope.time_ns)
        if protocol == assigned_numbers.PROTOCOL_IPV6:
            return self._network(NetworkLayer(6, span, depth), envelope.time_ns)
        if protocol == assigned_numbers.PROTOCOL_GRE:
            return self._network(from_gre(span, depth), envelope.time_ns)
        return Reason.ENCRYPTED if protocol == assigned_numbers.PROTOCOL_ESP else Reason.NOT_TCP

    def _tcp(self, envelope: _Envelope, span: Span) -> PacketSegment | Reason:
        if span.length < 20:
            return Reason.BAD_HEADER
        if not has_header(TCP, span):
            return Reason.TRUNCATED_TCP
        tcp = header(TCP, span)
        size = tcp.off * 4
        if size < 20 or span.length < size:
            return Reason.BAD_HEADER
        key = flow_key(envelope.source, envelope.destination, tcp.sport, tcp.dport)
        if self._verify_tcp and span.captured == span.length and tcp_segment_is_bad(key, span.peek(span.captured)):
            self.counts.note(Note.BAD_TCP_CHECKSUM)
        payload = span.after(min(size, span.captured))
        return PacketSegment(
            key, tcp.seq, tcp.ack, tcp.flags & 0xFF, payload.start, payload.captured, span.length - size
        )
