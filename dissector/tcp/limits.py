"""Limits of memory. Every limit is an option, and reaching one is reported, never silent."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of reassembly and framing; the defaults keep a hostile capture well under a gigabyte."""

    out_of_order_bytes: int = 16 * MIB
    """Held after a hole in one direction before the hole is given up; more than any usual TCP window."""
    out_of_order_total: int = 64 * MIB
    """The same over all connections; the direction that holds the most gives up first."""
    connections: int = 65_536
    """Connections followed at once; the one that has been silent longest is let go."""
    frame_bytes: int = 32 * MIB
    """A header that announces a larger frame is not believed."""
    partial_total: int = 96 * MIB
    """Bytes of unfinished frames over all connections; the largest one is then kept without its value."""
    search_bytes: int = 32 * MIB
    """How far a direction is searched for its first frame before it is taken for another protocol."""


#: What a segment held out of order costs beside its bytes, so that a flood of one-byte segments is bounded too.
SEGMENT_OVERHEAD = 256
