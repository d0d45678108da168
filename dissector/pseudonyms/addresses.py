"""Addresses of hosts replaced: in flow keys, and in the headers of packets that carry them.

IPv4 addresses become others by a permutation; IPv6 addresses unique local ones, and hardware addresses locally
administered ones, by a hash. Loopback and unspecified addresses stay: they are nobody's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dissector.link import assigned_numbers
from dissector.link.checksums import ip_checksum, ip_header_is_bad

if TYPE_CHECKING:
    from dissector.pseudonyms.permutation import Pseudonyms

_REMEMBERED = 1 << 14
_LOCAL = 127  #: first byte of IPv4's loopback addresses
_MULTICAST = 224  #: first byte from which on addresses are no single host's
_UNIQUE_LOCAL = b"\xfd"
_ADMINISTERED_LOCALLY = b"\x02"
_MAC_BYTES = 6
#: Bytes before the IP header, and where hardware addresses are in them.
_FIXED_LINKS = {
    assigned_numbers.LINKTYPE_LINUX_SLL: (16, 6, 14),
    assigned_numbers.LINKTYPE_LINUX_SLL2: (20, 12, 20),
    assigned_numbers.LINKTYPE_NULL: (4, 0, 0),
    assigned_numbers.LINKTYPE_LOOP: (4, 0, 0),
    assigned_numbers.LINKTYPE_IPV4: (0, 0, 0),
    assigned_numbers.LINKTYPE_IPV6: (0, 0, 0),
    **dict.fromkeys(assigned_numbers.RAW_LINKTYPES, (0, 0, 0)),
}
_VLAN_BYTES = 4


@lru_cache(_REMEMBERED)
def flow_key_of(pseudonyms: Pseudonyms, key: bytes) -> bytes:
    """Return a flow key with other addresses."""
    size = 4 if key[0] == 4 else 16
    source, destination = (_address(pseudonyms, key[at : at + size]).ljust(16, b"\0") for at in (1, 17))
    return key[:1] + source + destination + key[33:]


def _address(pseudonyms: Pseudonyms, address: bytes) -> bytes:
    if len(address) == 16:
        nobody = not any(address[:-1]) and address[-1] <= 1
        return address if nobody else _UNIQUE_LOCAL + pseudonyms.noise(address, 15)
    if not _is_host(address):
        return address
    found = pseudonyms.shuffled(address)
    while not _is_host(found):
        found = pseudonyms.shuffled(found)
    return found


def _is_host(address: bytes) -> bool:
    return 0 < address[0] < _MULTICAST and address[0] != _LOCAL


def with_addresses(pseudonyms: Pseudonyms, packet: bytes, linktype: int, key: bytes, tcp: int) -> bytes | None:
    """Return a packet with other addresses; ``tcp`` is where its TCP header begins.

    None if something beside one IP header comes before that, which may hold addresses: tunnels, extension headers.
    """
    out = bytearray(packet)
    ip = _replace_link(pseudonyms, out, linktype)
    if ip is None or ip >= tcp:
        return None
    renamed = flow_key_of(pseudonyms, key)
    if key[0] == 4:
        found = tcp - ip == (out[ip] & 0x0F) * 4 and bytes(out[ip + 12 : ip + 20]) == key[1:5] + key[17:21]
        if not found:
            return None
        right = out[ip + 10 : ip + 12] != b"\0\0" and not ip_header_is_bad(bytes(out[ip:tcp]))
        out[ip + 12 : ip + 20] = renamed[1:5] + renamed[17:21]
        out[ip + 20 : tcp] = bytes(tcp - ip - 20)  # options may be a route
        if right:
            out[ip + 10 : ip + 12] = ip_checksum(bytes(out[ip:tcp]))
    elif tcp - ip == 40 and bytes(out[ip + 8 : tcp]) == key[1:33]:
        out[ip + 8 : tcp] = renamed[1:33]
    else:
        return None
    return bytes(out)


def _replace_link(pseudonyms: Pseudonyms, out: bytearray, linktype: int) -> int | None:
    """Replace hardware addresses; return where the IP header begins."""
    if linktype == assigned_numbers.LINKTYPE_ETHERNET:
        for at in (0, _MAC_BYTES):
            address = bytes(out[at : at + _MAC_BYTES])
            out[at : at + _MAC_BYTES] = _ADMINISTERED_LOCALLY + pseudonyms.noise(address, _MAC_BYTES - 1)
        at = 2 * _MAC_BYTES
        while int.from_bytes(out[at : at + 2], "big") in assigned_numbers.VLAN_ETHERTYPES:
            at += _VLAN_BYTES
        return at + 2
    fixed = _FIXED_LINKS.get(linktype)
    if fixed is None:
        return None
    size, first, end = fixed
    out[first:end] = bytes(end - first)
    return size
