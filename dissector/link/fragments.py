"""The buffer of IP fragments that wait for the rest of their datagram.

Knows ranges of bytes, limits and packet time; the caller reads the IP headers. Limits hold by default, the oldest
datagram is evicted first, and evictions are counted. Of overlapping fragments the first copy wins, byte by byte.

A fragment cut by the snap length covers its whole range on the wire but holds fewer bytes. The datagram still
completes; what it yields ends at the first missing byte.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.link.drop_counts import Note, Reason

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dissector.link.drop_counts import LinkCounts

# What Python spends on a part besides its bytes: without it, a flood of tiny fragments would outgrow the limit.
FRAGMENT_OVERHEAD_BYTES = 160


@dataclass(frozen=True, slots=True)
class FragmentLimits:
    """How much may wait, and how long by the packets' own clock."""

    datagrams: int = 1024
    total_bytes: int = 16 << 20
    datagram_bytes: int = 0xFFFF
    timeout_ns: int = 30_000_000_000


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment: bytes ``start`` to ``end`` of its datagram, of which ``data`` was captured."""

    start: int
    end: int
    data: bytes
    more: bool
    protocol: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """A completed datagram: ``length`` bytes on the wire, of which the first ``len(data)`` are known."""

    protocol: int
    data: bytes
    length: int


@dataclass(slots=True)
class _Waiting:
    """A datagram with holes: parts that never overlap, in order of arrival, and the ranges that they cover.

    Ranges that touch are joined. A large fragment over thousands of small ones, sent again and again, is then compared
    with one range each time, not with thousands.
    """

    since_ns: int
    ranges: list[tuple[int, int]] = field(default_factory=list)
    parts: list[Fragment] = field(default_factory=list)
    length: int | None = None
    protocol: int | None = None
    covered: int = 0
    fragments: int = 0
    cost: int = 0

    def contradicts(self, fragment: Fragment) -> bool:
        """Tell whether a fragment disagrees with the datagram's length as known so far."""
        if self.length is not None:
            return fragment.end > self.length or (not fragment.more and fragment.end != self.length)
        return not fragment.more and bool(self.ranges) and self.ranges[-1][1] > fragment.end

    def cover(self, start: int, end: int) -> list[tuple[int, int]]:
        """Take a range as covered; return the parts of it that were not."""
        fresh: list[tuple[int, int]] = []
        cursor, low, high = start, start, end
        first = last = bisect_left(self.ranges, start, key=_range_end)
        while last < len(self.ranges) and self.ranges[last][0] <= end:
            there, until = self.ranges[last]
            if there > cursor:
                fresh.append((cursor, there))
            cursor = max(cursor, until)
            low, high = min(low, there), max(high, until)
            last += 1
        if cursor < end:
            fresh.append((cursor, end))
        self.ranges[first:last] = [(low, high)]
        return fresh

    def add(self, fragment: Fragment, fresh: list[tuple[int, int]]) -> int:
        """Keep the given ranges of a fragment; return what that costs."""
        cost = 0
        for start, end in fresh:
            data = fragment.data[start - fragment.start : end - fragment.start]
            self.parts.append(Fragment(start, end, data, fragment.more, fragment.protocol))
            self.covered += end - start
            cost += len(data) + FRAGMENT_OVERHEAD_BYTES
        self.fragments += 1
        self.cost += cost
        if not fragment.more:
            self.length = fragment.end
        if fragment.start == 0 and self.protocol is None:
            self.protocol = fragment.protocol  # RFC 8200 4.5: only the first fragment's next header counts
        return cost

    def known_prefix(self) -> bytes:
        """Return the bytes from the start up to the first that was not captured."""
        known = bytearray()
        for part in sorted(self.parts, key=_start):
            if len(known) < part.start:
                break
            known += part.data
        return bytes(known)


def _range_end(covered: tuple[int, int]) -> int:
    return covered[1]


def _start(part: Fragment) -> int:
    return part.start


class FragmentBuffer:
    """All datagrams with holes, oldest first, within limits."""

    def __init__(self, counts: LinkCounts, limits: FragmentLimits | None = None) -> None:
        self._counts = counts
        self._limits = limits or FragmentLimits()
        self._waiting: dict[Hashable, _Waiting] = {}
        self._cost = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def held_bytes(self) -> int:
        """Bytes held, with what Python spends on keeping them."""
        return self._cost

    def add(self, key: Hashable, fragment: Fragment, time_ns: int) -> Datagram | Reason:
        """Take one fragment; return its datagram if that is complete now, else what became of the fragment."""
        if fragment.end <= fragment.start or (fragment.more and (fragment.end - fragment.start) % 8):
            return Reason.BAD_HEADER  # RFC 791 3.2, RFC 8200 4.5: all but the last are multiples of 8 bytes
        if fragment.end > self._limits.datagram_bytes:
            return Reason.FRAGMENT_OVERSIZE
        self._expire(time_ns)
        waiting = self._waiting.get(key)
        if waiting is None:
            while self._waiting and len(self._waiting) >= self._limits.datagrams:
                self._evict_oldest()
            waiting = self._waiting[key] = _Waiting(time_ns)
        elif waiting.contradicts(fragment):
            return Reason.BAD_HEADER
        fresh = waiting.cover(fragment.start, fragment.end)
        if fresh != [(fragment.start, fragment.end)]:
            self._counts.note(Note.FRAGMENT_OVERLAP)
        self._cost += waiting.add(fragment, fresh)
        if waiting.covered == waiting.length and waiting.protocol is not None:
            self._forget(key)
            self._counts.note(Note.FRAGMENT_REASSEMBLED)
            return Datagram(waiting.protocol, waiting.known_prefix(), waiting.length)
        while self._cost > self._limits.total_bytes:
            self._evict_oldest()
        return Reason.FRAGMENT_HELD

    def finish(self) -> None:
        """Count what is still incomplete at the end of the capture, and let go of it."""
        self._counts.note(Note.FRAGMENT_PENDING, sum(waiting.fragments for waiting in self._waiting.values()))
        self._waiting.clear()
        self._cost = 0

    def _expire(self, now_ns: int) -> None:
        """Evict what waited too long. Insertion order stands for age; if clocks jump, the other limits still hold."""
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if now_ns - oldest.since_ns <= self._limits.timeout_ns:
                return
            self._evict_oldest()

    def _evict_oldest(self) -> None:
        key = next(iter(self._waiting))
        self._counts.note(Note.FRAGMENT_EVICTED, self._waiting[key].fragments)
        self._forget(key)

    def _forget(self, key: Hashable) -> None:
        self._cost -= self._waiting.pop(key).cost
