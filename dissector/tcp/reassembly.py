"""One direction of a TCP connection, segment by segment: each byte once and in order, or a gap with its length.

The six ways a segment can lie against what is expected next (``|`` is the next byte in order)::

      old        old+new       next        ahead       ahead, overlaps what is held
    [----] |    [--|--]      |[----]     |   [----]     |   [--==held==--]
     drop       trim, take     take        hold           hold what is not there yet

The first copy of a byte wins. Bytes that a snap length cut off are a hole like any other, known at once to be lost.
This module knows sequence numbers; ``framing`` knows frames.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dissector.tcp.limits import SEGMENT_OVERHEAD

if TYPE_CHECKING:
    from dissector.tcp.ignored_bytes import IgnoredBytes

WRAP = 1 << 32
#: No TCP window is larger, so a segment from further back is not old: it is beyond a gap of more than 3 GiB.
OLDEST_BYTES = 1 << 30


class Chunk(NamedTuple):
    """Bytes in order."""

    offset: int
    data: bytes
    packet: int
    time_ns: int
    acked: int | None


class Gap(NamedTuple):
    """Bytes that will not come."""

    offset: int
    length: int


class Held(NamedTuple):
    """Bytes that came too early; ``data`` may be shorter than ``length`` where a snap length cut them."""

    offset: int
    length: int
    data: bytes
    packet: int
    time_ns: int
    acked: int | None

    @property
    def end(self) -> int:
        """Return the offset after the last byte."""
        return self.offset + self.length


def unwrap(number: int, near: int) -> int:
    """Return the distance of a 32-bit number from another: up to 1 GiB back, else forward."""
    forward = (number - near) % WRAP
    return forward if forward < WRAP - OLDEST_BYTES else forward - WRAP


def shifted(acked: int | None, by: int) -> int | None:
    """Return an acknowledged offset after a move of its origin; like any other it is never below 0."""
    return None if acked is None else max(acked + by, 0)


@dataclass(slots=True)
class HalfConnection:
    """What has been seen of one direction, and what is held until the bytes before it come."""

    base: int | None = None  #: sequence number of offset 0
    isn: int | None = None  #: sequence number of its SYN
    from_start: bool = False  #: a SYN or the answer to it shows that offset 0 is the first byte
    next: int = 0  #: offset of the next byte in order
    ack: int | None = None  #: last acknowledgement sent, as on the wire
    acked: int = 0  #: the same as an offset of the other direction
    finished: bool = False
    held: list[Held] = field(default_factory=list)
    held_cost: int = 0
    passed: tuple[int, int] | None = None  #: how much the receiver had when it acknowledged past a hole, and the time
    bytes_delivered: int = 0
    bytes_lost: int = 0
    gaps: int = 0
    bytes_repeated: int = 0  #: retransmitted, or beside what was already there
    ignored: IgnoredBytes | None = None  #: how far it came since its connection is ignored
    bytes_conflicting: int = 0  #: repeated with other content than the first copy, while that was still held

    def open(self, isn: int) -> int:
        """Take a SYN: offset 0 is the byte after it; return how many bytes of its data were acknowledged before."""
        first = (isn + 1) % WRAP
        acknowledged = 0 if self.base is None else (self.base - first) % WRAP
        self.isn = isn
        self.from_start = True
        self.base = first
        return acknowledged

    def opening_acknowledged(self, ack: int) -> None:
        """Take the acknowledgement of a SYN+ACK, which is that of this direction's SYN: the byte after it is known."""
        self.from_start |= self.base == ack

    def opened_by(self, isn: int, length: int) -> bool:
        """Tell whether a SYN with so many bytes belongs to what is known; if not, the ports are used again."""
        if self.isn is not None:
            return self.isn == isn
        if self.base is None:
            return True
        # Its answer may have been captured first, and acknowledges data of the SYN as well if the server takes it.
        acknowledged = (self.base - isn - 1) % WRAP
        return not acknowledged or (acknowledged <= length and not self.next and not self.held)

    def offset_of(self, seq: int) -> int:
        """Return the 64-bit offset of a sequence number; the first one seen is offset 0 where there was no SYN."""
        if self.base is None:
            self.base = seq
        return self.next + unwrap(seq, (self.base + self.next) % WRAP)

    def acknowledge(self, ack: int, other: HalfConnection) -> int:
        """Take an acknowledgement sent in this direction; return it as an offset of the other one, never below 0."""
        if self.ack is None:
            self.acked = other.offset_of(ack)
        else:
            # Acknowledgements move by less than a window: the shorter way round is the right one.
            self.acked += (ack - self.ack + (1 << 31)) % WRAP - (1 << 31)
        self.ack = ack
        return max(self.acked, 0)

    def feed(
        self, offset: int, length: int, data: bytes, packet: int, time_ns: int, acked: int | None
    ) -> list[Chunk | Gap]:
        """Take a segment; return what is now in order. ``data`` shorter than ``length`` was cut by a snap length."""
        if offset < self.next:
            repeated = min(self.next - offset, length)
            self.bytes_repeated += repeated
            offset, length, data = offset + repeated, length - repeated, data[repeated:]
        if length <= 0:
            return []
        if offset > self.next or self.held:
            self._hold(Held(offset, length, data, packet, time_ns, acked))
            return self._drain([])
        return self._deliver(Held(offset, length, data, packet, time_ns, acked), [])

    def give_up(self) -> list[Chunk | Gap]:
        """Give up the hole in front of what is held."""
        first = self.held[0]
        return self._drain([self._gap(self.next, first.offset - self.next)])

    def flush(self) -> list[Chunk | Gap]:
        """Give up every hole: nothing more will come."""
        out: list[Chunk | Gap] = []
        while self.held:
            out += self.give_up()
        return out

    def shift(self, offsets: int, acked: int) -> None:
        """Move the origin of offsets: of this direction by ``offsets``, of acknowledged offsets by ``acked``."""
        self.next += offsets
        self.passed = None
        self.acked += acked
        self.held = [
            each._replace(offset=each.offset + offsets, acked=shifted(each.acked, acked)) for each in self.held
        ]

    def _gap(self, offset: int, length: int) -> Gap:
        self.gaps += 1
        self.bytes_lost += length
        self.next = offset + length
        return Gap(offset, length)

    def _deliver(self, segment: Held, out: list[Chunk | Gap]) -> list[Chunk | Gap]:
        if segment.data:
            out.append(Chunk(segment.offset, segment.data, segment.packet, segment.time_ns, segment.acked))
            self.bytes_delivered += len(segment.data)
            self.next = segment.offset + len(segment.data)
        if len(segment.data) < segment.length:
            out.append(self._gap(self.next, segment.length - len(segment.data)))
        return out

    def _drain(self, out: list[Chunk | Gap]) -> list[Chunk | Gap]:
        count = 0
        for segment in self.held:
            if segment.offset > self.next:
                break
            self.held_cost -= len(segment.data) + SEGMENT_OVERHEAD
            self._deliver(segment, out)
            count += 1
        del self.held[:count]
        return out

    def _hold(self, segment: Held) -> None:
        """Keep what is not held yet of a segment; held segments never overlap each other."""
        index = bisect_right(self.held, segment.offset, key=_end)
        while segment.length > 0:
            if index == len(self.held) or segment.end <= self.held[index].offset:
                self._insert(index, segment)
                return
            there = self.held[index]
            if segment.offset < there.offset:
                self._insert(index, _cut(segment, segment.offset, there.offset))
                index += 1
            start, end = max(segment.offset, there.offset), min(segment.end, there.end)
            self._compare(there, segment, start, end)
            segment = _cut(segment, end, segment.end)
            index += 1

    def _insert(self, index: int, segment: Held) -> None:
        self.held.insert(index, segment)
        self.held_cost += len(segment.data) + SEGMENT_OVERHEAD

    def _compare(self, there: Held, segment: Held, start: int, end: int) -> None:
        self.bytes_repeated += end - start
        first = there.data[start - there.offset : end - there.offset]
        second = segment.data[start - segment.offset : end - segment.offset]
        if first != second:
            self.bytes_conflicting += sum(one != two for one, two in zip(first, second, strict=False))


def _end(segment: Held) -> int:
    return segment.end


def _cut(segment: Held, start: int, end: int) -> Held:
    data = segment.data[start - segment.offset : end - segment.offset]
    return segment._replace(offset=start, length=end - start, data=data)
