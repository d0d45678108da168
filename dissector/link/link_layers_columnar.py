"""Where the IP packets of a whole block begin: the columnar counterpart of ``link_layers``.

Knows the usual link layers, and of IP only the version in its first four bits. Packets that are certainly not IP are
counted; packets that it does not recognise are left to the reference decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dissector.link import assigned_numbers
from dissector.link.drop_counts import LinkCounts, Reason
from dissector.link.gather import gather

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dissector.array_types import Bytes, Ints, Longs, Mask, Words
    from dissector.capture.packet_block import PacketBlock

_LEFT_ALONE, _FOREIGN = 0, 255  # beside 4 and 6 in the version column
_LEFT_TO_REFERENCE = frozenset(
    {
        assigned_numbers.LINKTYPE_PPP,
        assigned_numbers.LINKTYPE_PPP_HDLC,
        assigned_numbers.LINKTYPE_C_HDLC,
        assigned_numbers.LINKTYPE_NFLOG,
        assigned_numbers.LINKTYPE_PKTAP,
    }
)


def _typed_layout(type_offset: int, size: int) -> np.dtype[np.void]:
    """Describe a header with an EtherType, and the types inside of two VLAN tags after it."""
    return np.dtype(
        {
            "names": ["type", "tagged_type", "twice_tagged_type"],
            "formats": [">u2", ">u2", ">u2"],
            "offsets": [type_offset, size + 2, size + 6],
            "itemsize": size + 8,
        }
    )


# Header size and layout by link type.
_TYPED_LINKS = {
    assigned_numbers.LINKTYPE_ETHERNET: (14, _typed_layout(12, 14)),
    assigned_numbers.LINKTYPE_LINUX_SLL: (16, _typed_layout(14, 16)),
    assigned_numbers.LINKTYPE_LINUX_SLL2: (20, _typed_layout(0, 20)),
}
_FAMILY_LAYOUT = np.dtype([("big", ">u4")])
_FIRST_BYTE_LAYOUT = np.dtype([("first", "u1")])
_VLAN = np.array(sorted(assigned_numbers.VLAN_ETHERTYPES), np.uint16)
_WRAPPING = np.array(sorted(assigned_numbers.WRAPPING_ETHERTYPES), np.uint16)


def _either_order(families: frozenset[int]) -> Words:
    """Return 32-bit address families as they read when their byte order is right, and when it is not."""
    right = np.array(sorted(families), np.uint32)
    return np.concatenate([right, right.byteswap()])


_IPV4_FAMILIES = _either_order(assigned_numbers.LOOPBACK_IPV4_FAMILIES)
_IPV6_FAMILIES = _either_order(assigned_numbers.LOOPBACK_IPV6_FAMILIES)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkLayers:
    """Where each packet's IP header begins; all arrays have one entry per packet of the block."""

    version: Bytes
    """4 or 6 where the link layer announces IP; another value where ``start`` means nothing."""
    start: Longs
    recognised: Mask
    """True where the packet was counted as something else than IP. The caller marks the others that it recognises."""


def find_network_layers(block: PacketBlock, counts: LinkCounts) -> NetworkLayers:
    """Find the IP packets of a block; count packets that are not IP, or of a link type that no decoder reads."""
    version = np.zeros(len(block.offset), np.uint8)
    start = np.zeros(len(block.offset), np.int64)
    recognised = np.zeros(len(block.offset), np.bool_)
    for linktype, at in _groups(block.linktype):
        offset, captured = block.offset[at], block.captured[at]
        if linktype in _TYPED_LINKS:
            size, layout = _TYPED_LINKS[linktype]
            version[at], start[at] = _typed(block.buffer, offset, captured, size, layout)
        elif linktype in {assigned_numbers.LINKTYPE_NULL, assigned_numbers.LINKTYPE_LOOP}:
            version[at], start[at] = _loopback(block.buffer, offset, captured), offset + 4
        elif linktype in assigned_numbers.RAW_LINKTYPES:
            version[at], start[at] = _raw(block.buffer, offset, captured), offset
        elif linktype in {assigned_numbers.LINKTYPE_IPV4, assigned_numbers.LINKTYPE_IPV6}:
            version[at], start[at] = (4 if linktype == assigned_numbers.LINKTYPE_IPV4 else 6), offset
        elif linktype not in _LEFT_TO_REFERENCE:
            recognised[at] = True
            counts.unsupported(linktype, len(offset))
    foreign = version == _FOREIGN
    recognised |= foreign
    counts.drop(Reason.NOT_IP, int(np.count_nonzero(foreign)))
    return NetworkLayers(version, start, recognised)


def _groups(linktypes: Ints) -> Iterator[tuple[int, slice | Longs]]:
    """Yield each link type with its packets: a whole slice, which copies nothing, if there is only one."""
    if not len(linktypes):
        return
    if (linktypes == linktypes[0]).all():
        yield int(linktypes[0]), slice(None)
        return
    for linktype in np.unique(linktypes).tolist():
        yield linktype, np.flatnonzero(linktypes == linktype)


def _typed(
    buffer: Bytes,
    offset: Longs,
    captured: Longs,
    size: int,
    layout: np.dtype[np.void],
) -> tuple[Bytes, Longs]:
    """Follow EtherTypes, through up to two VLAN tags."""
    rows = gather(buffer, offset, layout)
    ethertype = rows["type"].astype(np.uint16)
    version = _announced(ethertype)
    start = offset + size
    if not version.all():
        tagged = np.isin(ethertype, _VLAN)
        ethertype = np.where(tagged, rows["tagged_type"], ethertype)
        twice = tagged & np.isin(ethertype, _VLAN)
        ethertype = np.where(twice, rows["twice_tagged_type"], ethertype)
        start += 4 * tagged.astype(np.int64) + 4 * twice
        version = _announced(ethertype)
        wrapping = np.isin(ethertype, _WRAPPING) | (ethertype <= assigned_numbers.MAX_802_3_LENGTH)
        version[(version == _LEFT_ALONE) & ~wrapping] = _FOREIGN
    version[offset + captured < start] = _LEFT_ALONE
    return version, start


def _announced(ethertype: NDArray[np.uint16]) -> Bytes:
    """Return the IP version that each EtherType stands for."""
    version = np.full(len(ethertype), _LEFT_ALONE, np.uint8)
    version[ethertype == assigned_numbers.ETHERTYPE_IPV4] = 4
    version[ethertype == assigned_numbers.ETHERTYPE_IPV6] = 6
    return version


def _loopback(buffer: Bytes, offset: Longs, captured: Longs) -> Bytes:
    """Follow address families of either byte order."""
    family = gather(buffer, offset, _FAMILY_LAYOUT)["big"].astype(np.uint32)
    version = np.full(len(offset), _FOREIGN, np.uint8)
    version[np.isin(family, _IPV4_FAMILIES)] = 4
    version[np.isin(family, _IPV6_FAMILIES)] = 6
    version[captured < 4] = _LEFT_ALONE
    return version


def _raw(buffer: Bytes, offset: Longs, captured: Longs) -> Bytes:
    """Take the version from the IP header itself."""
    version: Bytes = gather(buffer, offset, _FIRST_BYTE_LAYOUT)["first"] >> np.uint8(4)
    version[(version != 4) & (version != 6)] = _FOREIGN
    version[captured < 1] = _LEFT_ALONE
    return version
