"""A set of packets: by direction from where to where, whole connections, everything, a range of time.

Knows ordinals of packets and names of connections; must not know why a packet is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dissector.array_types import Longs, Mask

Side = tuple[str, int]  #: a connection's id and one of its directions
NO_LAST = 1 << 62  #: after every packet


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Ranges of packets, in order and apart from each other."""

    first: Longs
    last: Longs

    @classmethod
    def joined(cls, parts: Iterable[Spans]) -> Spans:
        """Put ranges in order, and join those that touch."""
        parts = list(parts)
        first = np.concatenate([np.empty(0, np.int64), *(each.first for each in parts)])
        last = np.concatenate([np.empty(0, np.int64), *(each.last for each in parts)])
        order = np.argsort(first, kind="stable")
        first, reach = first[order], np.maximum.accumulate(last[order])
        fresh = np.r_[True, first[1:] > reach[:-1] + 1][: len(first)]
        ends = np.flatnonzero(np.r_[fresh[1:], True][: len(first)])
        return cls(first[fresh], reach[ends])

    def hold(self, ordinals: Longs) -> Mask:
        """Tell which packets are in one of the ranges."""
        place = np.searchsorted(self.first, ordinals, "right") - 1
        found: Mask = (place >= 0) & (ordinals <= self.last[np.maximum(place, 0)]) if len(self.first) else place >= 0
        return found


@dataclass(frozen=True, slots=True, eq=False)
class PacketChoice:
    """The packets that are to be copied. Of every connection with ranges its first packets are, too."""

    what: str  #: in words
    spans: Mapping[Side, Spans] = field(default_factory=dict)
    connections: frozenset[str] | None = frozenset()  #: all packets of these; None: of all connections
    others: bool = False  #: packets without a TCP segment, too
    times: tuple[int, int] | None = None  #: of whole connections and others: these nanoseconds only
    comments: Mapping[int, str] = field(default_factory=dict)  #: by ordinal

    @property
    def end(self) -> int:
        """Return the last packet that can be chosen."""
        if self.connections is None or self.connections:
            return NO_LAST
        return max((int(each.last[-1]) for each in self.spans.values() if len(each.last)), default=-1)

    def beside(self, other: PacketChoice) -> PacketChoice:
        """Return this choice and another one together."""
        both = [each for each in (self.connections, other.connections) if each is not None]
        sides = {*self.spans, *other.spans}
        nothing = Spans(np.empty(0, np.int64), np.empty(0, np.int64))
        return PacketChoice(
            self.what,
            {side: Spans.joined([self.spans.get(side, nothing), other.spans.get(side, nothing)]) for side in sides},
            frozenset[str]().union(*both) if len(both) == 2 else None,
            self.others or other.others,
            self.times if other.times is None else other.times,
            {**other.comments, **self.comments},
        )
