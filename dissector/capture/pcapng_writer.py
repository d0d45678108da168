"""Writing pcapng: blocks as bytes, and a writer that copies packets of other captures, with comments."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING

from dissector.capture.pcapng import INTERFACE, PACKET, SECTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.capture import PacketBlock

COMMENT, INTERFACE_NAME, APPLICATION, RESOLUTION, CHECK_SEQUENCE_BITS = 1, 2, 4, 9, 13  #: codes of options
UNSPECIFIED = -1  #: a section's length that its writer did not know
LONGEST_COMMENT = 2000  #: bytes: more than people read, and every program takes it

Option = tuple[int, bytes]


class PcapngWriter:
    """A pcapng file with an interface per link type, and time stamps in nanoseconds."""

    def __init__(self, stream: IO[bytes], comment: str = "") -> None:
        self._stream = stream
        self._interfaces: dict[int, int] = {}
        self.packets = 0
        self._stream.write(section_header(*_comment(comment), (APPLICATION, b"uprscope slice")))

    def write(self, block: PacketBlock, at: int, comment: str = "", data: bytes | None = None) -> None:
        """Copy one packet, with ``data`` in place of its bytes if that is given."""
        linktype = int(block.linktype[at])
        number = self._interfaces.get(linktype)
        if number is None:
            number = self._interfaces[linktype] = len(self._interfaces)
            self._stream.write(interface(linktype, 0, (RESOLUTION, b"\x09")))
        data = block.packet(at) if data is None else data
        ticks, original = int(block.time_ns[at]) % (1 << 64), int(block.original[at])
        self._stream.write(packet_block(number, ticks, data, original, *_comment(comment)))
        self.packets += 1

    def finish(self) -> None:
        """Do nothing: the file begins with its section."""


def _comment(text: str) -> list[Option]:
    return [(COMMENT, text.encode()[:LONGEST_COMMENT])] if text else []


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Write a block around a body whose length is a multiple of four."""
    size = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + size + body + size


def section_header(*options: Option, order: str = "<") -> bytes:
    """Write what a section begins with."""
    head = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, UNSPECIFIED)
    return block(SECTION, head + option_list(options, order), order)


def interface(linktype: int, snaplen: int, *options: Option) -> bytes:
    """Write the description of an interface."""
    return block(INTERFACE, struct.pack("<HHI", linktype, 0, snaplen) + option_list(options))


def packet_block(
    number: int, ticks: int, data: bytes | memoryview, original: int, *options: Option, order: str = "<"
) -> bytes:
    """Write an Enhanced Packet Block for a packet of an interface; ``ticks`` are of that interface's clock."""
    head = struct.pack(f"{order}5I", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original)
    return block(PACKET, b"".join((head, data, bytes(-len(data) % 4), option_list(options, order))), order)


def option_list(options: Sequence[Option], order: str = "<") -> bytes:
    """Write options and their end mark; nothing where there is none."""
    if not options:
        return b""
    header = struct.Struct(f"{order}HH")
    packed = [header.pack(code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
    return b"".join((*packed, bytes(4)))
