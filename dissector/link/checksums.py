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

_FIXED_WORDS = 5  # 32-bit words of an IPv4 header without options


def ip_header_is_bad(header: bytes) -> bool:
    """Tell whether an IPv4 header fails its own checksum; a zero checksum was never computed."""
    return header[10:12] != b"\0\0" and _sum(header) != 0


def tcp_segment_is_bad(key: bytes, segment: bytes) -> bool:
    """Tell whether a whole TCP segment fails its checksum, given its flow key; zero counts as not computed.

    The pseudo header's addresses come from the key: the zeros that fill up an IPv4 address add nothing to a sum, and
    neither does the length of IPv6's length field.
    """
    if segment[16:18] == b"\0\0":
        return False
    pseudo_header = key[1:33] + PROTOCOL_TCP.to_bytes(4, "big") + len(segment).to_bytes(4, "big")
    return _sum(pseudo_header + segment) != 0


def _sum(data: bytes) -> int:
    import dpkt  # noqa: PLC0415 - takes as long to load as 20,000 packets to decode, and columns do not need it

    return int(dpkt.in_cksum(data))


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
