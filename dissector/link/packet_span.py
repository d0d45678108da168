"""A part of a packet while its layers are taken off, and single headers read from it with dpkt's layouts.

Knows where bytes begin, where the captured ones end and where they ended on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dpkt


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes of ``data`` from ``start``: captured up to ``limit``, on the wire up to ``wire`` >= ``limit``."""

    data: bytes
    start: int
    limit: int
    wire: int

    @property
    def captured(self) -> int:
        """Number of captured bytes, never negative."""
        return max(self.limit - self.start, 0)

    @property
    def length(self) -> int:
        """Number of bytes on the wire, captured or not."""
        return self.wire - self.start

    def after(self, count: int) -> Span:
        """Return what follows ``count`` bytes."""
        return Span(self.data, self.start + count, self.limit, self.wire)

    def first(self, length: int) -> Span:
        """Return the first ``length`` bytes on the wire. A header's word is taken even beyond this span's end."""
        wire = self.start + length
        return Span(self.data, self.start, min(self.limit, wire), wire)

    def peek(self, count: int, skip: int = 0) -> bytes:
        """Return up to ``count`` captured bytes after ``skip``."""
        start = self.start + skip
        return self.data[start : max(min(start + count, self.limit), start)]

    def number(self, skip: int, count: int) -> int:
        """Return a big-endian number of ``count`` bytes after ``skip``, which must have been captured."""
        return int.from_bytes(self.peek(count, skip), "big")


def header(kind: Any, span: Span) -> Any:
    """Read one fixed header of a dpkt packet class; the caller has made sure that enough bytes were captured.

    dpkt decodes what follows a header as soon as it is constructed, recursing without bound and raising whatever comes
    up on cut or hostile packets. So its classes serve as layouts here, and the walk from one to the next is ours.
    """
    made = kind.__new__(kind)
    dpkt.Packet.unpack(made, span.peek(kind.__hdr_len__))
    return made


def has_header(kind: Any, span: Span) -> bool:
    """Tell whether a dpkt packet class's fixed header was captured whole."""
    return span.captured >= int(kind.__hdr_len__)
