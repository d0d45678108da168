"""The same conversation over a longer way, recorded anywhere on it, with other habits of acknowledging.

What a side had received when it sent something is known from the acknowledgements in the recording. Everything is sent
again in this order: not before what it may be an answer to has arrived, and as long after that as in the recording.
Every packet then acknowledges what has arrived at its sender by then, as TCP does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from random import Random

from tests.support.soundness.packets import ACK, FIN, RST, SYN, Packet, Packets, by_connection, first_copies

_RTTS_NS = (0, 20_000, 10**6, 5 * 10**6, 3 * 10**7, 10**8, 2 * 10**8)
_PLACES = (0.0, 0.02, 0.5, 0.98, 1.0)  #: of the recorder: at the client, at the server, between
_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Habit:
    """When a side acknowledges what it does not answer."""

    every: int  #: so many packets with data at the latest
    wait_ns: int  #: so long after the first of them at the latest


HABITS = {
    "at once": Habit(1, 0),
    "every second": Habit(2, 40_000_000),
    "delayed": Habit(1000, 40_000_000),
    "late": Habit(1000, 200_000_000),
    "stretched": Habit(40, 500_000_000),
    "never": Habit(_NEVER, _NEVER),
}


def rtt(packets: Sequence[Packet], chance: Random) -> Packets:
    """The sides are far from each other, the recorder is anywhere between them."""
    way = chance.choice((chance.choice(_RTTS_NS), chance.randrange(2 * 10**8))) // 2
    place = chance.choice((*_PLACES, chance.random()))
    return retime(packets, way, place, (HABITS["every second"], HABITS["every second"]))


def acknowledge(packets: Sequence[Packet], chance: Random) -> Packets:
    """The sides acknowledge in other ways."""
    habits = sorted(HABITS)
    chosen = (HABITS[chance.choice(habits)], HABITS[chance.choice(habits)])
    way = chance.choice((25_000, 10**6, 2 * 10**7))
    return retime(packets, way, chance.choice(_PLACES), chosen)


def retime(packets: Sequence[Packet], way_ns: int, place: float, habits: tuple[Habit, Habit]) -> Packets:
    """Have every connection again, with this time for one way and the recorder at this place: 0 client, 1 server."""
    made: Packets = []
    for each in by_connection(packets).values():
        made += _Talk(each, way_ns, habits).recorded(place)
    made.sort(key=lambda packet: packet.time_ns)
    return made


@dataclass(slots=True)
class _Side:
    """What one side sends, in its order, and when it now does."""

    sends: list[Packet]
    thinks: list[int] = field(default_factory=list)  #: time between what it waited for and sending
    times: list[int] = field(default_factory=list)  #: when it now sends, as far as that is known
    ends: list[int] = field(default_factory=list)  #: offset behind everything sent so far
    acked: list[int] = field(default_factory=list)  #: what each send acknowledges now
    turns: list[int] = field(default_factory=list)  #: how many sends of both sides came before


class _Talk:
    """One connection on its new way."""

    def __init__(self, packets: Sequence[Packet], way_ns: int, habits: tuple[Habit, Habit]) -> None:
        self.way, self.habits = way_ns, habits
        new = [each for each in first_copies(packets) if not each.is_bare]
        self.begin = min((each.time_ns for each in packets), default=0)
        self.sides = tuple(_Side(sorted((each for each in new if each.side == side), key=_order)) for side in (0, 1))
        for side in (0, 1):
            self._think(side)
        self._run()

    def _think(self, side: int) -> None:
        mine, other = self.sides[side], self.sides[1 - side]
        came, highest = [], -(1 << 62)
        for each in other.sends:
            highest = max(highest, each.space_end)
            came.append(highest)
        before = self.begin
        for each in mine.sends:
            index = bisect_left(came, each.acked) if each.acked is not None else 0
            asked = other.sends[index].time_ns if each.acked is not None and index < len(came) else self.begin
            if each.acked is None:
                asked = self.begin
            mine.thinks.append(max(each.time_ns - max(before, asked), 0))
            before = max(before, each.time_ns)

    def _run(self) -> None:
        while True:
            ready = [(when, side) for side in (0, 1) if (when := self._next(side)) is not None]
            if not ready:
                left = [
                    (each.sends[len(each.times)].time_ns, side)
                    for side, each in enumerate(self.sides)
                    if self._left(side)
                ]
                if not left:
                    return
                ready = [(self._last(min(left)[1]), min(left)[1])]  # what it waited for was not recorded
            when, side = min(ready)
            self._send(side, when)

    def _left(self, side: int) -> bool:
        return len(self.sides[side].times) < len(self.sides[side].sends)

    def _last(self, side: int) -> int:
        times = self.sides[side].times
        return times[-1] if times else self.begin

    def _next(self, side: int) -> int | None:
        """Return when a side sends again; None: it is done, or waits for something that was not sent yet."""
        mine, other = self.sides[side], self.sides[1 - side]
        if not self._left(side):
            return None
        index = len(mine.times)
        packet, arrived = mine.sends[index], self.begin
        if packet.acked is not None and packet.acked > (other.sends[0].offset if other.sends else _NEVER):
            place = bisect_left(other.ends, packet.acked)
            if place == len(other.ends):
                if len(other.times) < len(other.sends):
                    return None
            else:
                arrived = other.times[place] + self.way
        return max(self._last(side), arrived) + mine.thinks[index]

    def _send(self, side: int, when: int) -> None:
        mine = self.sides[side]
        packet = mine.sends[len(mine.times)]
        mine.acked.append(max(packet.acked if packet.acked is not None else -_NEVER, self._received(side, when)))
        mine.turns.append(sum(len(each.times) for each in self.sides))
        mine.times.append(when)
        mine.ends.append(max(packet.space_end, mine.ends[-1] if mine.ends else packet.space_end))

    def _received(self, side: int, when: int) -> int:
        other = self.sides[1 - side]
        arrived = bisect_right(other.times, when - self.way)
        return other.ends[arrived - 1] if arrived else -_NEVER

    def recorded(self, place: float) -> Packets:
        """Return all packets as a recorder at this place saw them: of those of one moment the cause comes first."""
        out: list[tuple[tuple[int, int, bool, int], Packet]] = []
        for side in (0, 1):
            delay = round(self.way * (place if side == 0 else 1 - place))
            mine = self.sides[side]
            for packet, when, acked, turn in zip(mine.sends, mine.times, mine.acked, mine.turns, strict=True):
                known = None if packet.acked is None else acked
                passes = replace(packet, acked=known, time_ns=when + delay)
                out.append(((when + delay, when, False, turn), passes))
            out += [
                ((bare.time_ns + delay, bare.time_ns, True, 0), bare.moved(bare.time_ns + delay))
                for bare in self._bare(side)
            ]
        out.sort(key=itemgetter(0))
        return [packet for _, packet in out]

    def _bare(self, side: int) -> Packets:
        """Return the acknowledgements that a side sends besides, at the times when it sends them."""
        mine, other, habit = self.sides[side], self.sides[1 - side], self.habits[side]
        if not mine.sends and not other.sends:
            return []
        out: Packets = []
        model = mine.sends[0] if mine.sends else other.sends[0]
        said, count, due = -_NEVER, 0, _NEVER
        events = sorted(
            [(when, 0, index) for index, when in enumerate(mine.times)]
            + [(when + self.way, 1, index) for index, when in enumerate(other.times)]
        )
        for when, kind, index in events:
            if due < when and count:
                out.append(self._ack(model, side, due))
                said, count, due = self._received(side, due), 0, _NEVER
            if kind == 0:
                if mine.sends[index].acked is not None:
                    said, count, due = mine.acked[index], 0, _NEVER
            elif other.ends[index] > said and not other.sends[index].flags & RST:
                if other.sends[index].flags & SYN and side == 1:
                    continue  # answered by its own SYN
                count, due = count + 1, min(due, when + habit.wait_ns)
                if count >= habit.every or other.sends[index].flags & (SYN | FIN):
                    out.append(self._ack(model, side, when))
                    said, count, due = self._received(side, when), 0, _NEVER
        return out

    def _ack(self, model: Packet, side: int, when: int) -> Packet:
        mine = self.sides[side]
        sent = bisect_right(mine.times, when)
        begin = mine.sends[0].offset if mine.sends else 0
        offset = mine.ends[sent - 1] if sent else begin
        return replace(
            model,
            side=side,
            offset=offset,
            length=0,
            data=b"",
            acked=self._received(side, when),
            flags=ACK,
            time_ns=when,
        )


def _order(packet: Packet) -> tuple[int, int]:
    """Packets of a side by their bytes; what carries none follows them."""
    return packet.offset, packet.space_end
