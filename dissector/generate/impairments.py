"""What networks and recorders do to segments: lose, repeat, reorder, resend; and captures that begin late.

Knows segments and their order; must not know messages or packets. Everything happens by chance, and the same seed
gives the same impairments. Whatever is not lost keeps its meaning: the first copy of a byte that the capture shows
acknowledges what the original did.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.generate.segments import DEFAULT_MSS, FIN, LARGEST_MSS, MadeSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FARTHEST_REORDERING = 3  #: packets of the connection that overtake one
_DUPLICATE_LATER, _RESENT_LATER = (1, 3), (2, 8)  #: packets of the connection


@dataclass(frozen=True, slots=True)
class Impairments:
    """What goes wrong on the network. Chances are per segment with data."""

    mss: tuple[int, int] = (DEFAULT_MSS, DEFAULT_MSS)  #: least and most bytes of a segment that is full
    reorder: float = 0.0
    overlap: float = 0.0
    retransmit: float = 0.0
    duplicate: float = 0.0
    loss: float = 0.0
    lose: tuple[int, ...] = ()  #: numbers of packets, as the capture would have had them
    skip_packets: int = 0
    skip_messages: int = 0  #: of every connection
    only: int | None = None  #: the side whose packets were captured

    def __post_init__(self) -> None:
        low, high = self.mss
        if not 1 <= low <= high <= LARGEST_MSS:
            raise UsageError(f"segments have 1 to {LARGEST_MSS:,} bytes, not {low:,} to {high:,}")
        for name in ("reorder", "overlap", "retransmit", "duplicate", "loss"):
            chance = getattr(self, name)
            if not 0 <= chance <= 1:
                raise UsageError(f"the chance of {name} is between 0 and 1, not {chance}")

    @property
    def lossless(self) -> bool:
        """Tell whether every byte that was sent is in the capture, snap lengths aside."""
        return not (self.loss or self.lose or self.skip_packets or self.skip_messages or self.only is not None)

    @property
    def quiet(self) -> bool:
        """Tell whether segments stay as they are."""
        return self.lossless and not (self.reorder or self.overlap or self.retransmit or self.duplicate)

    def facts(self) -> dict[str, object]:
        """Return what is not as it usually is."""
        names = [each.name for each in fields(self)]
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(_NONE, name)}


_NONE = Impairments()


def parse_mss(text: str) -> tuple[int, int]:
    """Read ``536`` or ``1-1448``."""
    found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", text)
    if found is None:
        raise UsageError(f"{text}: give the bytes of a segment as a number, or as a range such as 1-{DEFAULT_MSS}")
    return int(found[1]), int(found[2] or found[1])


@dataclass(slots=True)
class Impairer:
    """Impairs the network, list after list of segments that are in the order of time."""

    impairments: Impairments
    seed: int
    packets: int = 0  #: that the capture would have had so far, had none been lost
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(f"troubles/{self.seed}")  # noqa: S311 - no secret depends on it

    def size(self) -> Callable[[], int]:
        """Return what tells the sizes of full segments."""
        low, high = self.impairments.mss
        chance = random.Random(f"mss/{self.seed}")  # noqa: S311
        return (lambda: high) if low == high else (lambda: chance.randint(low, high))

    def disturb(self, segments: list[MadeSegment]) -> list[MadeSegment]:
        """Return what a recorder would have written of these segments."""
        wanted = self.impairments
        if wanted.quiet:
            return segments
        # What is sent again is put after the original wherever that ended up, so reordering comes first.
        if wanted.overlap:
            segments = self._overlapped(segments)
        if wanted.reorder:
            segments = self._reordered(segments)
        if wanted.retransmit:
            segments = self._repeated(segments, wanted.retransmit, _RESENT_LATER, resent=True)
        if wanted.duplicate:
            segments = self._repeated(segments, wanted.duplicate, _DUPLICATE_LATER, resent=False)
        return segments if wanted.lossless else self._lost(segments)

    def _strikes(self, chance: float) -> bool:
        return self._chance.random() < chance

    def _overlapped(self, segments: Sequence[MadeSegment]) -> list[MadeSegment]:
        """Let segments begin with bytes that were sent before."""
        last: dict[int, MadeSegment] = {}
        result = []
        for segment in segments:
            before = last.get(segment.flow)
            wider = segment
            if segment.data:
                last[segment.flow] = segment
            if (
                segment.data
                and before is not None
                and before.end == segment.offset
                # Were it to arrive first, it would acknowledge for the earlier bytes as well.
                and before.acked == segment.acked
                and self._strikes(self.impairments.overlap)
            ):
                most = min(len(before.data), LARGEST_MSS - len(segment.data))
                again = self._chance.randint(1, most) if most > 0 else 0
                data = before.data[len(before.data) - again :] + segment.data
                wider = segment._replace(offset=segment.offset - again, data=data)
            result.append(wider)
        return result

    def _reordered(self, segments: Sequence[MadeSegment]) -> list[MadeSegment]:
        """Let segments be overtaken by those after them; what has not arrived is not acknowledged."""
        result = list(segments)
        for places in _by_connection(result).values():
            at = 0
            while at < len(places):
                first = result[places[at]]
                stop = at + 1
                if first.data and self._strikes(self.impairments.reorder):
                    farthest = at + self._chance.randint(1, _FARTHEST_REORDERING)
                    while stop < len(places) and stop <= farthest and _follows(result[places[stop]], first):
                        stop += 1
                    run = [result[place] for place in places[at:stop]]
                    for place, segment in zip(places[at:stop], (*run[1:], first), strict=True):
                        result[place] = segment._replace(time_ns=segments[place].time_ns)
                at = stop
        return result

    def _repeated(
        self, segments: Sequence[MadeSegment], chance: float, later: tuple[int, int], *, resent: bool
    ) -> list[MadeSegment]:
        """Let segments come twice: as copies, or sent again with what was heard in the meantime."""
        inserted: dict[int, list[MadeSegment]] = defaultdict(list)
        for places in _by_connection(segments).values():
            # After the end of a connection a repeated segment would be a connection of its own.
            last = next((n for n, place in enumerate(places) if segments[place].flags & FIN), len(places)) - 1
            before: dict[int, MadeSegment] = {}
            for at, place in enumerate(places[: last + 1]):
                segment = segments[place]
                if not segment.data:
                    continue
                if self._strikes(chance):
                    following = min(at + self._chance.randint(*later), last)
                    again = segment
                    if resent:
                        heard = max(
                            segments[each].acked
                            for each in places[at : following + 1]
                            if segments[each].flow == segment.flow
                        )
                        again = self._resent(segment, before.get(segment.flow))._replace(acked=heard)
                    target = places[following]
                    inserted[target].append(again._replace(time_ns=segments[target].time_ns))
                before[segment.flow] = segment
        result = []
        for place, segment in enumerate(segments):
            result += [segment, *inserted.get(place, ())]
        return result

    def _resent(self, segment: MadeSegment, before: MadeSegment | None) -> MadeSegment:
        """Send a segment again: as it was, or cut otherwise together with the one before it."""
        if before is None or before.end != segment.offset or self._strikes(0.5):
            return segment
        both = before.data + segment.data
        start = self._chance.randrange(len(before.data))
        most = min(len(both), start + LARGEST_MSS)
        stop = self._chance.randint(min(len(before.data) + 1, most), most)
        return segment._replace(offset=before.offset + start, data=both[start:stop])

    def _lost(self, segments: Sequence[MadeSegment]) -> list[MadeSegment]:
        """Leave out what the recorder did not get."""
        wanted = self.impairments
        lose = sorted(wanted.lose)
        result = []
        for segment in segments:
            self.packets += 1
            index = bisect_left(lose, self.packets)
            lost = (
                (bool(segment.data) and wanted.loss > 0 and self._strikes(wanted.loss))
                or (index < len(lose) and lose[index] == self.packets)
                or self.packets <= wanted.skip_packets
                or (wanted.only is not None and segment.flow & 1 != wanted.only)
            )
            if not lost:
                result.append(segment)
        return result


def _by_connection(segments: Sequence[MadeSegment]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = defaultdict(list)
    for place, segment in enumerate(segments):
        places[segment.flow >> 1].append(place)
    return places


def _follows(segment: MadeSegment, first: MadeSegment) -> bool:
    return segment.flow == first.flow and bool(segment.data)
