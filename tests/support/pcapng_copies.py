"""A plain reader of pcapng blocks and options, one at a time, for tests of copies. Shares nothing with the product."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.dissector.capture.test_build import Packet, read_all

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
COMMENT = 1
Option = tuple[int, bytes]


@dataclass(frozen=True)
class Block:
    """A block as it stands in the file."""

    kind: int
    order: str
    raw: bytes

    @property
    def is_packet(self) -> bool:
        return self.kind in (OLD_PACKET, SIMPLE_PACKET, ENHANCED_PACKET)

    @property
    def fixed(self) -> bytes:
        """Return everything in front of the options, without the length."""
        end = 28 + self._padded if self.kind in (OLD_PACKET, ENHANCED_PACKET) else len(self.raw) - 4
        return self.raw[8:end]

    @property
    def options(self) -> list[Option]:
        """Return the options of a block that holds a packet."""
        found: list[Option] = []
        if self.kind not in (OLD_PACKET, ENHANCED_PACKET):
            return found
        at = 28 + self._padded
        while at < len(self.raw) - 4:
            code, length = struct.unpack_from(f"{self.order}HH", self.raw, at)
            if code == 0:
                break
            found.append((code, self.raw[at + 4 : at + 4 + length]))
            at += 4 + (length + 3) // 4 * 4
        return found

    @property
    def comments(self) -> list[str]:
        return [value.decode() for code, value in self.options if code == COMMENT]

    @property
    def _padded(self) -> int:
        (captured,) = struct.unpack_from(f"{self.order}I", self.raw, 20)
        return int(captured + 3) // 4 * 4


def blocks_in(data: bytes) -> Iterator[Block]:
    """Walk over a sound file."""
    at, order = 0, "<"
    while at < len(data):
        if data[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            order = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}[data[at + 8 : at + 12]]
        kind, length = struct.unpack_from(f"{order}II", data, at)
        assert length >= 12
        assert length % 4 == 0
        assert data[at + length - 4 : at + length] == data[at + 4 : at + 8]
        yield Block(kind, order, data[at : at + length])
        at += length
    assert at == len(data)


def comments_of(data: bytes) -> dict[int, list[str]]:
    """Return the comments of every packet that has any, by its number."""
    packets = (block for block in blocks_in(data) if block.is_packet)
    return {number: block.comments for number, block in enumerate(packets, 1) if block.comments}


def packets_in(source: bytes | Path, *, sound: bool = False) -> list[Packet]:
    """Read packets as the product does; interfaces are numbered anew where captures are put together."""
    outcome = read_all(source if isinstance(source, bytes) else source.read_bytes())
    assert not (sound and outcome.damage), outcome.damage
    return [replace(packet, interface=0) for packet in outcome.packets]
