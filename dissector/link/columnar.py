"""Packets to TCP segments a block at a time: numpy for the usual packets, the reference decoder for the rest.

Usual means: Ethernet with up to two VLAN tags, Linux cooked, loopback or raw links; IPv4 with or without options,
unfragmented; IPv6 without extension headers; TCP. Plain packets of other protocols are counted here too. Every packet
that is not recognised goes to ``reference``, one by one and in order, so that both decoders agree on every packet by
construction or by test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dissector.link import assigned_numbers
from dissector.link.checksums import bad_ip_headers, tcp_segment_is_bad
from dissector.link.drop_counts import LinkCounts, Note, Reason
from dissector.link.flow_key import flow_keys
from dissector.link.gather import distinct, gather
from dissector.link.link_layers_columnar import find_network_layers
from dissector.link.segment_block import SegmentBlock, SegmentColumns, block_of, columns_of

if TYPE_CHECKING:
    from dissector.array_types import Bytes, Ints, Longs, Mask, Structs
    from dissector.capture.packet_block import PacketBlock
    from dissector.link.fragments import FragmentLimits
    from dissector.link.reference import ReferenceDecoder
    from dissector.link.segment_block import PacketSegment

_TCP_LAYOUT = np.dtype(
    {
        "names": ["ports", "destination_port", "seq", "ack", "data_offset", "flags"],
        "formats": ["V4", ">u2", ">u4", ">u4", "u1", "u1"],
        "offsets": [0, 2, 4, 8, 12, 13],
        "itemsize": 20,
    }
)
# Rows are 64 bytes wide: a copy of that size is the fastest one, and 15 words of options fit.
_IPV4_LAYOUT = np.dtype(
    {
        "names": ["version_size", "length", "fragment", "protocol", "checksum", "addresses", "words", "tcp"],
        "formats": ["u1", ">u2", ">u2", "u1", "u2", "V8", ("u4", 15), _TCP_LAYOUT],
        "offsets": [0, 2, 6, 9, 10, 12, 0, 20],
        "itemsize": 64,
    }
)
_IPV6_LAYOUT = np.dtype(
    {
        "names": ["version", "length", "protocol", "addresses", "tcp"],
        "formats": ["u1", ">u2", "u1", "V32", _TCP_LAYOUT],
        "offsets": [0, 4, 6, 8, 40],
        "itemsize": 64,
    }
)
_FRAGMENT_BITS = 0x3FFF  # more fragments, and the offset

_UNKNOWN, _TCP, _UDP, _OTHER, _ENCRYPTED = range(5)


def _transports(version: int) -> Bytes:
    """Return, by IP protocol number, what the payload is; ``_UNKNOWN``: the reference decoder has to look."""
    transports = np.full(256, _OTHER, np.uint8)
    transports[[*assigned_numbers.TUNNEL_PROTOCOLS, assigned_numbers.PROTOCOL_AH]] = _UNKNOWN
    if version == 6:
        transports[[*assigned_numbers.OPTION_HEADERS, assigned_numbers.PROTOCOL_FRAGMENT]] = _UNKNOWN
    transports[assigned_numbers.PROTOCOL_TCP] = _TCP
    transports[assigned_numbers.PROTOCOL_UDP] = _UDP
    transports[assigned_numbers.PROTOCOL_ESP] = _ENCRYPTED
    return transports


_IPV4_TRANSPORTS = _transports(4)
_IPV6_TRANSPORTS = _transports(6)
_TUNNEL_PORTS = np.array(sorted(assigned_numbers.TUNNEL_PORTS), np.uint16)


@dataclass(frozen=True, slots=True, eq=False)
class _Datagrams:
    """IP packets whose payload is in the buffer in one run; all arrays have one entry per packet."""

    index: Longs
    start: Longs
    """Where the payload begins in the buffer."""
    captured: Longs
    """Bytes of payload that were captured."""
    length: Longs
    """Bytes of payload on the wire."""
    transport: Bytes
    bad_checksum: Mask
    addresses: Structs
    tcp: Structs
    """The first bytes of payload, read as a TCP header."""

    def only(self, which: Mask) -> _Datagrams:
        """Return some of them; all of them without a copy."""
        if which.all():
            return self
        at = np.flatnonzero(which)
        return _Datagrams(
            self.index[at],
            self.start[at],
            self.captured[at],
            self.length[at],
            self.transport[at],
            self.bad_checksum[at],
            self.addresses[at],
            self.tcp[at],
        )


class ColumnarDecoder:
    """Decodes packet blocks of one capture, or one ring of captures, in order; keeps fragments between blocks."""

    def __init__(self, *, limits: FragmentLimits | None = None, verify_tcp: bool = False) -> None:
        self.counts = LinkCounts()
        """What became of the packets so far."""
        self._limits = limits
        self._verify_tcp = verify_tcp
        self._reference: ReferenceDecoder | None = None  #: made when it is first needed

    def finish(self) -> None:
        """End of the capture: count the fragments that never became a datagram."""
        if self._reference is not None:
            self._reference.finish()

    def decode(self, block: PacketBlock) -> SegmentBlock:
        """Return the TCP segments of a block."""
        network = find_network_layers(block, self.counts)
        recognised = network.recognised
        parts: list[SegmentColumns] = []
        for version, read in ((4, _ipv4), (6, _ipv6)):
            at = np.flatnonzero(network.version == version)
            if len(at):
                parts.append(self._tcp(block.buffer, read(block, at, network.start), recognised))
        done = int(np.count_nonzero(recognised))
        self.counts.packets += done
        self.counts.segments += sum(len(part.index) for part in parts)
        buffer = block.buffer
        if done < len(recognised) or not parts:
            buffer, part = self._one_by_one(block, np.flatnonzero(~recognised))
            parts.append(part)
        return block_of(block, buffer, parts)

    def _one_by_one(self, block: PacketBlock, at: Longs) -> tuple[Bytes, SegmentColumns]:
        """Decode the packets at ``at`` with the reference decoder."""
        if not len(at):
            return columns_of(block, block.buffer, [])
        if self._reference is None:
            # Most captures do without, and dpkt takes as long to load as 20,000 packets to decode.
            from dissector.link.reference import ReferenceDecoder  # noqa: PLC0415

            self._reference = ReferenceDecoder(limits=self._limits, verify_tcp=self._verify_tcp, counts=self.counts)
        reference = self._reference
        found: list[tuple[int, PacketSegment]] = []
        linktypes, originals, times = block.linktype[at], block.original[at], block.time_ns[at]
        facts = zip(at.tolist(), linktypes.tolist(), originals.tolist(), times.tolist(), strict=True)
        for index, linktype, original, time_ns in facts:
            segment = reference.segment(block.packet(index), linktype, original, time_ns)
            if segment is not None:
                found.append((index, segment))
        return columns_of(block, block.buffer, found)

    def _tcp(self, buffer: Bytes, datagrams: _Datagrams, recognised: Mask) -> SegmentColumns:
        """Read TCP headers; count packets that are certainly no TCP; mark both as recognised."""
        size = _tcp_size(datagrams)
        whole = (datagrams.captured >= 20) & (size >= 20) & (datagrams.length >= size)
        found = (datagrams.transport == _TCP) & whole
        done = found
        if not found.all():
            encrypted = datagrams.transport == _ENCRYPTED
            other = (datagrams.transport == _OTHER) | _is_plain_udp(datagrams)
            self.counts.drop(Reason.ENCRYPTED, int(np.count_nonzero(encrypted)))
            self.counts.drop(Reason.NOT_TCP, int(np.count_nonzero(other)))
            done = found | encrypted | other
        recognised[datagrams.index[done]] = True
        self.counts.note(Note.BAD_IP_CHECKSUM, int(np.count_nonzero(datagrams.bad_checksum & done)))
        return self._columns(buffer, datagrams.only(found))

    def _columns(self, buffer: Bytes, datagrams: _Datagrams) -> SegmentColumns:
        """Turn datagrams that hold TCP into segments."""
        tcp, size = datagrams.tcp, _tcp_size(datagrams)
        keys, flow = _flows(datagrams)
        if self._verify_tcp:
            self._verify(buffer, datagrams, keys, flow)
        # Options cut by the snap length: the payload begins, and ends, where the captured bytes do.
        header = np.minimum(size, datagrams.captured)
        return SegmentColumns(
            index=datagrams.index,
            keys=keys,
            flow=flow,
            seq=tcp["seq"].astype(np.uint32),
            ack=tcp["ack"].astype(np.uint32),
            flags=tcp["flags"].copy(),
            payload_offset=datagrams.start + header,
            payload_captured=datagrams.captured - header,
            payload_length=datagrams.length - size,
        )

    def _verify(self, buffer: Bytes, datagrams: _Datagrams, keys: list[bytes], flow: Ints) -> None:
        """Verify TCP checksums where every byte was captured, one segment at a time: a check asked for seldom."""
        whole = np.flatnonzero(datagrams.captured == datagrams.length)
        starts, lengths = datagrams.start[whole], datagrams.length[whole]
        for number, start, length in zip(flow[whole].tolist(), starts.tolist(), lengths.tolist(), strict=True):
            if tcp_segment_is_bad(keys[number], buffer[start : start + length].tobytes()):
                self.counts.note(Note.BAD_TCP_CHECKSUM)


def _ipv4(block: PacketBlock, at: Longs, starts: Longs) -> _Datagrams:
    """Read IPv4 headers; keep those that are sound, unfragmented, and of a protocol not left to the reference."""
    start, captured, wire = _ip_bounds(block, at, starts)
    rows = gather(block.buffer, start, _IPV4_LAYOUT)
    version_size = rows["version_size"]
    words = version_size & np.uint8(15)
    size = words.astype(np.int64) * 4
    length = rows["length"].astype(np.int64)
    length = np.where(length == 0, wire, length)  # segmentation offload: see the reference
    transport = _IPV4_TRANSPORTS[rows["protocol"]]
    sound = (version_size >> 4 == 4) & (size >= 20) & (length >= size) & (captured >= size)
    sound &= (rows["fragment"] & _FRAGMENT_BITS == 0) & (transport != _UNKNOWN)
    tcp = rows["tcp"]
    with_options = np.flatnonzero(words > 5)
    if len(with_options):
        tcp = tcp.copy()
        tcp[with_options] = gather(block.buffer, (start + size)[with_options], _TCP_LAYOUT)
    bad_checksum = bad_ip_headers(rows["words"], words if len(with_options) else None) & (rows["checksum"] != 0)
    payload, limit = start + size, np.minimum(captured, length)
    datagrams = _Datagrams(at, payload, limit - size, length - size, transport, bad_checksum, rows["addresses"], tcp)
    return datagrams.only(sound)


def _ipv6(block: PacketBlock, at: Longs, starts: Longs) -> _Datagrams:
    """Read IPv6 headers; keep those that are sound, without extensions, and of a protocol not left to the reference."""
    start, captured, wire = _ip_bounds(block, at, starts)
    rows = gather(block.buffer, start, _IPV6_LAYOUT)
    length = rows["length"].astype(np.int64)
    length = np.where(length == 0, wire - 40, length)
    transport = _IPV6_TRANSPORTS[rows["protocol"]]
    sound = (rows["version"] >> 4 == 6) & (captured >= 40) & (transport != _UNKNOWN)
    no_checksum = np.zeros(len(at), np.bool_)
    limit = np.minimum(captured - 40, length)
    datagrams = _Datagrams(at, start + 40, limit, length, transport, no_checksum, rows["addresses"], rows["tcp"])
    return datagrams.only(sound)


def _ip_bounds(block: PacketBlock, at: Longs, starts: Longs) -> tuple[Longs, Longs, Longs]:
    """Return where IP packets begin, and how many bytes from there were captured and were on the wire."""
    offset, captured, original = block.offset, block.captured, block.original
    if len(at) < len(offset):
        starts, offset, captured, original = starts[at], offset[at], captured[at], original[at]
    link = starts - offset
    return starts, captured - link, np.maximum(captured, original) - link


def _tcp_size(datagrams: _Datagrams) -> Longs:
    """Return the length of TCP headers as they state it themselves."""
    return (datagrams.tcp["data_offset"] >> 4).astype(np.int64) * 4


def _is_plain_udp(datagrams: _Datagrams) -> Mask:
    """Tell which are UDP with a port that is no tunnel's; where the port was cut off, the reference decides."""
    is_udp = (datagrams.transport == _UDP) & (datagrams.captured >= 4)
    plain: Mask = is_udp & ~np.isin(datagrams.tcp["destination_port"], _TUNNEL_PORTS)
    return plain


def _flows(datagrams: _Datagrams) -> tuple[list[bytes], Ints]:
    """Return exact flow keys: addresses and ports as they stand in the headers are compared whole, not hashed away."""
    width = datagrams.addresses.dtype.itemsize
    pairs = np.empty(len(datagrams.index), [("addresses", f"V{width}"), ("ports", "V4")])
    pairs["addresses"] = datagrams.addresses
    pairs["ports"] = datagrams.tcp["ports"]
    rows, flow = distinct(pairs)
    return flow_keys(rows), flow
