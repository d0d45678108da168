"""The internet checksum, for one TCP segment and for columns of IPv4 headers.

A wrong checksum is noted, never a reason to drop a packet: sending hosts leave checksums to the network card, and a
capture on such a host sees the packet before the card has filled them in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dissector.link.assigned_numbers import PROTOCOL_TCP

if TYPE_CHECKING:
    from dissector.array_types import Bytes, Mask, Words

_CHECKSUM_AT = 16  # bytes into a TCP header
_FIXED_WORDS = 5  # 32-bit words of an IPv4 header without options


def ip_header_is_bad(header: bytes) -> bool:
    """Tell whether an IPv4 header fails its own checksum; a zero checksum was never computed."""
    return header[10:12] != b"\0\0" and _sum(header) != 0


def ip_checksum(header: bytes) -> bytes:
    """Return the checksum that an IPv4 header is to have."""
    return _sum(header[:10] + b"\0\0" + header[12:]).to_bytes(2, "big")


def tcp_segment_is_bad(key: bytes, segment: bytes) -> bool:
    """Tell whether a whole TCP segment fails its checksum, given its flow key; zero counts as not computed."""
    if segment[_CHECKSUM_AT : _CHECKSUM_AT + 2] == b"\0\0":
        return False
    return _sum(_pseudo_header(key, len(segment)) + segment) != 0


def with_payload(
    packet: bytes, key: bytes, start: int, payload: bytes, *, whole: bool, renamed: bytes | None = None
) -> bytes:
    """Return a packet with another payload of the same length, which begins at ``start``, in its TCP segment.

    A checksum that was right is right again, for the flow key ``renamed`` if that is given; one that was wrong, or that
    can't be told because the segment is not ``whole``, stays as it is.
    """
    end = start + len(payload)
    changed = bytearray(packet)
    changed[start:end] = payload
    header = tcp_header_before(packet, key, start)
    if whole and header is not None and not tcp_segment_is_bad(key, packet[header:end]):
        at = header + _CHECKSUM_AT
        if packet[at : at + 2] != b"\0\0":
            changed[at : at + 2] = b"\0\0"
            # A sum of zero is written as its other form, which is not taken for a checksum that was never computed.
            number = _sum(_pseudo_header(renamed or key, end - header) + changed[header:end]) or 0xFFFF
            changed[at : at + 2] = number.to_bytes(2, "big")
    return bytes(changed)


def tcp_header_before(packet: bytes, key: bytes, payload: int) -> int | None:
    """Return where the TCP header before a payload begins: where its own length and the ports say so."""
    for size in range(20, min(payload, 60) + 1, 4):
        start = payload - size
        if packet[start + 12] >> 4 == size // 4 and packet[start : start + 4] == key[33:37]:
            return start
    return None


def _pseudo_header(key: bytes, length: int) -> bytes:
    """Return what a checksum covers besides the segment.

    The addresses come from the key: the zeros that fill up an IPv4 address add nothing to a sum, and neither does the
    length of IPv6's length field.
    """
    return key[1:33] + PROTOCOL_TCP.to_bytes(4, "big") + length.to_bytes(4, "big")


def _sum(data: bytes | bytearray) -> int:
    """Return the ones' complement of the sum of all 16-bit words: a number's remainder is the sum of its digits."""
    number = int.from_bytes(data, "big") << 8 * (len(data) % 2)
    return 0xFFFF - (number % 0xFFFF or 0xFFFF) if number else 0xFFFF


def bad_ip_headers(words: Words, header_words: Bytes | None) -> Mask:
    """Tell which IPv4 headers fail: ``words`` has one row per header, its bytes read as they lie in memory.

    ``header_words`` is each header's length in words, None when all have no options. The sum is the same in either
    byte order (RFC 1071 2.B), so nothing is swapped.
    """
    total = words[:, 0].astype(np.uint64)
    for column in range(1, _FIXED_WORDS):
        total += words[:, column]
    if header_words is not None:
        for column in range(_FIXED_WORDS, int(header_words.max(initial=_FIXED_WORDS))):
            total += np.where(header_words > column, words[:, column], np.uint32(0))
    # At most 15 words: 36 bits fold to 33, then to 17, 17 with at most one carry, 16.
    total = (total & 0xFFFFFFFF) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    bad: Mask = total != 0xFFFF
    return bad
