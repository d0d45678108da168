"""A pcapng file of packets that were captured elsewhere: as they were, with comments. Must not know what is in them."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from dissector.capture import PacketBlock

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_COMMENT, _APPLICATION, _RESOLUTION = 1, 4, 9
_LONGEST = 2000  #: bytes of a comment


class PcapngWriter:
    """A pcapng file with an interface per link type, and time stamps in nanoseconds."""

    def __init__(self, stream: IO[bytes], comment: str = "") -> None:
        self._stream = stream
        self._interfaces: dict[int, int] = {}
        self.packets = 0
        head = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
        self._block(_SECTION, head + _options((_COMMENT, comment.encode()), (_APPLICATION, b"uprscope slice")))

    def write(self, block: PacketBlock, at: int, comment: str = "") -> None:
        """Copy one packet."""
        linktype = int(block.linktype[at])
        interface = self._interfaces.get(linktype)
        if interface is None:
            interface = self._interfaces[linktype] = len(self._interfaces)
            self._block(_INTERFACE, struct.pack("<HHI", linktype, 0, 0) + _options((_RESOLUTION, b"\x09")))
        data, time_ns = block.packet(at), int(block.time_ns[at]) % (1 << 64)
        head = struct.pack("<IIIII", interface, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), int(block.original[at]))
        self._block(_PACKET, head + data + bytes(-len(data) % 4) + _options((_COMMENT, comment.encode())))
        self.packets += 1

    def _block(self, kind: int, body: bytes) -> None:
        size = struct.pack("<I", 12 + len(body))
        self._stream.write(struct.pack("<I", kind) + size + body + size)


def _options(*options: tuple[int, bytes]) -> bytes:
    """Write options; those without a value are left out."""
    given = [(code, value[:_LONGEST]) for code, value in options if value]
    if not given:
        return b""
    packed = (struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in given)
    return b"".join(packed) + bytes(4)
