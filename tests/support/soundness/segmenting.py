"""The same bytes in other segments: as another MSS, an offloading card or a corked socket would have sent them.

A segment may only hold bytes that were sent before the other side answered any of them, and it acknowledges what its
sender had received. Packets of a capture that has lost some stay apart where the lost bytes were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.support.soundness.packets import FIN, PSH, RST, SYN, Packet, Packets, by_connection, first_copies

_SIZES = (1, 2, 3, 7, 13, 23, 24, 25, 48, 100, 300, 536, 1000, 1448, 4000, 9000, 16_000, 65_000)
_MOST_PACKETS = 8000  #: small segments of a large capture are as large as this asks for
_LONGEST_NS = 200_000_000  #: that a socket holds bytes back


def resegment(packets: Sequence[Packet], chance: Random) -> Packets:
    """All segments have another size; those are joined that acknowledge the same."""
    return _resized(packets, _size(packets, chance.choice(_SIZES)), joins_acks=False)


def resegment_randomly(packets: Sequence[Packet], chance: Random) -> Packets:
    """Segments have all sizes."""
    most = _size(packets, chance.choice(_SIZES[3:]))
    return _resized(packets, most, joins_acks=False, chance=chance)


def cork(packets: Sequence[Packet], chance: Random) -> Packets:
    """Bytes waited for more to come, and left with what was received meanwhile acknowledged."""
    return _resized(packets, _size(packets, chance.choice(_SIZES[-8:])), joins_acks=True)


def _size(packets: Sequence[Packet], size: int) -> int:
    return max(size, sum(each.length for each in packets) // _MOST_PACKETS)


def _resized(packets: Sequence[Packet], size: int, *, joins_acks: bool, chance: Random | None = None) -> Packets:
    numbered = {id(each): index for index, each in enumerate(packets)}
    out: list[tuple[int, Packet]] = []
    for each in by_connection(packets).values():
        places = [numbered[id(packet)] for packet in each]
        out += _Sizer(size, joins_acks, chance).run(first_copies_at(each, places))
    out.sort(key=lambda pair: pair[0])
    return [packet for _, packet in out]


def first_copies_at(packets: Sequence[Packet], places: Sequence[int]) -> list[tuple[int, Packet]]:
    """Return packets with new bytes only, each with its place in the capture."""
    at = dict(zip(map(id, packets), places, strict=True))
    by_time = [(at[id(packet)], packet) for packet in packets]
    kept = first_copies(packets)
    # Parts of a packet keep its time and its place; both lists are in the same order.
    out, index = [], 0
    for packet in kept:
        while not _holds(by_time[index][1], packet):
            index += 1
        out.append((by_time[index][0], packet))
    return out


def _holds(packet: Packet, piece: Packet) -> bool:
    return packet is piece or (
        packet.side == piece.side
        and packet.time_ns == piece.time_ns
        and packet.length > 0
        and packet.offset <= piece.offset
        and piece.end <= packet.end
        and packet.acked == piece.acked
    )


class _Sizer:
    """Bytes of one connection that wait for their segment, side by side."""

    def __init__(self, size: int, joins_acks: bool, chance: Random | None) -> None:
        self.size, self.joins_acks, self.chance = size, joins_acks, chance
        self.waiting: list[Packet | None] = [None, None]
        self.place = [0, 0]
        self.since = [0, 0]
        self.out: list[tuple[int, Packet]] = []

    def run(self, packets: Sequence[tuple[int, Packet]]) -> list[tuple[int, Packet]]:
        for place, packet in packets:
            self._answered(packet)
            self._take(place, packet)
        for side in (0, 1):
            self._flush(side)
        return self.out

    def _answered(self, packet: Packet) -> None:
        """What the other side has received was sent already."""
        other = self.waiting[1 - packet.side]
        if other is not None and (packet.acked or 0) > other.offset:
            self._flush(1 - packet.side)

    def _take(self, place: int, packet: Packet) -> None:
        side = packet.side
        if packet.is_bare and self.waiting[side] is not None:
            return  # the segment that waits says it
        if not self._fits(packet):
            self._flush(side)
        before = self.waiting[side]
        if not packet.length or packet.flags & (SYN | RST):
            self._flush(side)
            self.out.append((place, packet))
            return
        if before is None:
            self.waiting[side], self.since[side] = packet, packet.time_ns
        else:
            self.waiting[side] = replace(
                packet, offset=before.offset, length=before.length + packet.length, data=before.data + packet.data
            )
        self.place[side] = place
        self._cut(side)

    def _fits(self, packet: Packet) -> bool:
        before = self.waiting[packet.side]
        return (
            before is not None
            and packet.length > 0
            and before.end == packet.offset
            and len(before.data) == before.length
            and (before.acked == packet.acked or self.joins_acks)
            and before.file == packet.file
            and before.snap == packet.snap
            and 0 <= packet.time_ns - self.since[packet.side] <= _LONGEST_NS
        )

    def _cut(self, side: int) -> None:
        """Send what fills segments."""
        packet = self.waiting[side]
        while packet is not None:
            size = self.size if self.chance is None else self.chance.randint(1, self.size)
            if packet.length < size or (packet.length == size and packet.flags & FIN):
                break
            self._send(side, replace(packet, length=size, data=packet.data[:size], flags=packet.flags & ~(FIN | PSH)))
            rest = replace(packet, offset=packet.offset + size, length=packet.length - size, data=packet.data[size:])
            packet = self.waiting[side] = rest if rest.length else None

    def _flush(self, side: int) -> None:
        packet = self.waiting[side]
        if packet is not None:
            self._send(side, packet)
            self.waiting[side] = None

    def _send(self, side: int, packet: Packet) -> None:
        self.out.append((self.place[side], packet))
