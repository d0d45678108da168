"""What reading a capture gives: blocks of packets as columns, and a log of the damage met on the way.

Knows the shape of both values and nothing else: no file format, no compression, no protocol. A block owns its bytes:
keeping a block keeps the chunk it was cut from, and nothing is ever written into that chunk again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.array_types import Bytes, Ints, Longs


SLACK_BYTES = 256
"""Bytes that can be read after the last packet of every buffer: headers can be gathered without a bounds check."""

MAX_PACKET_BYTES = 256 << 20
"""The largest record or block that is held in memory; a claim of more is damage."""


class DamageReason(StrEnum):
    """Why bytes of a capture could not be used; the values are stable names for scripts."""

    TRUNCATED = "truncated"
    BAD_RECORD_HEADER = "bad-record-header"
    BAD_BLOCK_LENGTH = "bad-block-length"
    BAD_SECTION_HEADER = "bad-section-header"
    MALFORMED_BLOCK = "malformed-block"
    UNKNOWN_INTERFACE = "unknown-interface"
    TOO_MANY_INTERFACES = "too-many-interfaces"
    CORRUPT_COMPRESSION = "corrupt-compression"
    TRUNCATED_COMPRESSION = "truncated-compression"
    TRAILING_DATA = "trailing-data"
    READ_ERROR = "read-error"


@dataclass(frozen=True, slots=True)
class Damage:
    """One place in a capture that could not be read as what it claims to be."""

    capture: str
    """Name of the capture, as the user gave it."""
    offset: int
    """Byte in the decompressed file where the trouble starts."""
    reason: DamageReason
    detail: str
    """One sentence for a person, with the numbers in it."""
    skipped: int = 0
    """How many bytes of the decompressed file were passed over because of it."""
    count: int = 1
    """How many places this entry stands for: frequent reasons are folded into their last entry."""

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more like it)" if self.count > 1 else ""
        return f"{self.capture}: byte {self.offset}: {self.detail}{more}"


ENTRIES_PER_REASON = 100
# One cause (a lost interface description) strikes every packet after it: one entry tells it all.
FOLDED_AT_ONCE = frozenset({DamageReason.UNKNOWN_INTERFACE, DamageReason.TOO_MANY_INTERFACES})


class DamageLog:
    """Collects the damage of one capture under the capture's name: bounded, and in file order.

    A hostile file can break a million times: each reason keeps a fixed number of entries, the last of which counts
    the rest.
    """

    def __init__(self, capture: str) -> None:
        self._capture = capture
        self._entries: dict[DamageReason, list[Damage]] = {}

    def add(self, offset: int, reason: DamageReason, detail: str, skipped: int = 0) -> None:
        """Note one damaged place."""
        entries = self._entries.setdefault(reason, [])
        limit = 1 if reason in FOLDED_AT_ONCE else ENTRIES_PER_REASON
        if len(entries) < limit:
            entries.append(Damage(self._capture, offset, reason, detail, skipped))
        else:
            last = entries[-1]
            entries[-1] = replace(last, skipped=last.skipped + skipped, count=last.count + 1)

    def entries(self) -> list[Damage]:
        """Return what was noted so far, in file order, whichever layer noticed it first."""
        return sorted((entry for entries in self._entries.values() for entry in entries), key=lambda e: e.offset)

    def __bool__(self) -> bool:
        return bool(self._entries)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Packets of one buffer, one array element each; offsets count from the buffer's start."""

    offset: Longs
    captured: Longs
    original: Longs
    time_ns: Longs
    linktype: Ints
    interface: Ints

    def __len__(self) -> int:
        return len(self.offset)

    @staticmethod
    def join(parts: Sequence[Columns]) -> Columns:
        """Concatenate parts of the same buffer."""
        if len(parts) == 1:
            return parts[0]
        return Columns(
            offset=np.concatenate([part.offset for part in parts]),
            captured=np.concatenate([part.captured for part in parts]),
            original=np.concatenate([part.original for part in parts]),
            time_ns=np.concatenate([part.time_ns for part in parts]),
            linktype=np.concatenate([part.linktype for part in parts]),
            interface=np.concatenate([part.interface for part in parts]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PacketBlock:
    """The packets of one chunk, in file order. Never empty."""

    capture: int
    """Index of the input these packets come from."""
    buffer: Bytes
    """The chunk, never reused; at least SLACK_BYTES readable bytes follow the last packet."""
    offset: Longs
    """Where each packet's first byte is in the buffer."""
    captured: Longs
    """Bytes of the packet that are there."""
    original: Longs
    """Bytes the packet had on the wire, as its record says."""
    time_ns: Longs
    """Nanoseconds since the epoch, exact."""
    linktype: Ints
    """LINKTYPE_* of the interface, without the frame check sequence bits."""
    interface: Ints
    """Number of the interface, counted over all sections of the file from 0."""
    first_number: int
    """Number of the block's first packet in its capture, from 1; the others follow without a hole."""
    end_position: int
    """Bytes of the (decompressed) file that are consumed with this block."""

    def __len__(self) -> int:
        return len(self.offset)

    def packet(self, i: int) -> bytes:
        """Copy out the captured bytes of one packet."""
        start = int(self.offset[i])
        return self.buffer[start : start + int(self.captured[i])].tobytes()
