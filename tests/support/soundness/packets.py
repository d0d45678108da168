"""Packets as every transformation sees them: of a connection, from a side, with bytes at an offset of its stream.

Offsets are those of the original capture and never wrap, so a packet says which original bytes it holds whatever was
done to it. The byte behind the SYN has offset 0; where there was no SYN, the first byte that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """What all packets of a connection share. Side 0 is the client, or the side that was seen first."""

    number: int
    addresses: tuple[bytes, bytes]
    ports: tuple[int, int]
    bases: tuple[int, int]  #: sequence number of each side's offset 0


@dataclass(frozen=True, slots=True)
class Packet:
    """One TCP segment, captured whole or cut."""

    connection: Connection
    side: int
    offset: int  #: of its first byte; of a SYN -1
    length: int  #: of its payload on the wire
    data: bytes  #: of its payload in the capture; shorter where the snap length cut it
    acked: int | None  #: offset of the other side's stream that it acknowledges
    flags: int
    time_ns: int
    file: int = 0  #: of the files that a capture is written to, which one
    snap: int = 1 << 18  #: bytes that are captured of it at most, headers included

    @property
    def end(self) -> int:
        """Return the offset behind its payload."""
        return self.offset + self.length

    @property
    def space_end(self) -> int:
        """Return the same with SYN and FIN, which take a sequence number each."""
        return self.end + (self.flags & SYN > 0) + (self.flags & FIN > 0)

    @property
    def is_bare(self) -> bool:
        """Tell whether it does nothing but acknowledge."""
        return not self.length and not self.flags & (SYN | FIN | RST)

    def moved(self, time_ns: int) -> Packet:
        """Return it with another time."""
        return replace(self, time_ns=time_ns)


Packets = list[Packet]
#: Changes a capture; draws whatever it needs by chance from the generator that it is given.
Change = Callable[[Sequence[Packet], Random], Packets]


def by_connection(packets: Sequence[Packet]) -> dict[int, Packets]:
    """Return the packets of each connection."""
    parts: dict[int, Packets] = {}
    for packet in packets:
        parts.setdefault(packet.connection.number, []).append(packet)
    return parts


def first_copies(packets: Sequence[Packet]) -> Packets:
    """Return packets with their new bytes only: what was sent again is left out, bare acknowledgements stay.

    A packet that came too late to be the first at its place keeps its place in the capture, as long as its bytes are
    new.
    """
    seen: dict[tuple[int, int], list[tuple[int, int]]] = {}
    out = []
    for packet in packets:
        if not packet.length:
            out.append(packet)
            continue
        spans = seen.setdefault((packet.connection.number, packet.side), [])
        out += [part for part in _unseen(packet, spans) if part.length or part.flags & (SYN | FIN | RST)]
        spans.append((packet.offset, packet.end))
        if len(spans) > 1 and spans[-2][1] >= spans[-1][0] >= spans[-2][0]:
            spans[-2:] = [(spans[-2][0], max(spans[-2][1], spans[-1][1]))]
    return out


def _unseen(packet: Packet, spans: Sequence[tuple[int, int]]) -> Packets:
    parts = [(packet.offset, packet.end)]
    for low, high in spans:
        parts = [
            piece
            for start, end in parts
            for piece in ((start, min(end, low)), (max(start, high), end))
            if piece[0] < piece[1]
        ]
        if not parts:
            break
    return [part(packet, start, end) for start, end in parts]


def part(packet: Packet, start: int, end: int) -> Packet:
    """Return a packet with some of its bytes; a FIN stays with the last of them."""
    data = packet.data[start - packet.offset : max(end - packet.offset, 0)]
    flags = packet.flags if end == packet.end else packet.flags & ~FIN
    return replace(packet, offset=start, length=end - start, data=data, flags=flags)
