"""What recorders and networks do to packets on their way into a file. Each takes a capture and gives another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from operator import attrgetter
from random import Random

from tests.support.soundness.messages import MARKER, SET_UP, Message, messages
from tests.support.soundness.packets import FIN, RST, SYN, Packet, Packets, by_connection, part

_SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_SNAPS = (
    40,
    54,
    60,
    66,
    68,
    78,
    79,
    80,
    88,
    96,
    100,
    110,
    112,
    120,
    128,
    150,
    160,
    200,
    256,
    300,
    400,
    512,
    768,
    1024,
    1500,
)
_LATEST_NS = 200_000_000  #: that a network holds a packet back
#: A step forward of less than ten minutes looks like silence: a stalled connection has just that.
_STEPS_NS = (3600 * 10**9, -(10**9), 10**9, 86_400 * 10**9, -(10**7), -3600 * 10**9)


# ------------------------------------------------------------------------------------------------------------- losses


def setup_places(packets: Sequence[Packet], opcodes: frozenset[int] = SET_UP) -> list[int]:
    """Return the packets with a set-up message, or with a part of one."""
    spans: dict[tuple[int, int], list[Message]] = {}
    for number, each in by_connection(packets).items():
        for message in messages(each):
            if message.opcode in opcodes:
                spans.setdefault((number, message.side), []).append(message)

    def has_one(packet: Packet) -> bool:
        there = spans.get((packet.connection.number, packet.side), [])
        index = bisect_right(there, packet.offset, key=attrgetter("end"))  # the first that ends in it or behind it
        return packet.length > 0 and index < len(there) and there[index].start < packet.end

    return [index for index, packet in enumerate(packets) if has_one(packet)]


def without(packets: Sequence[Packet], lost: set[int]) -> Packets:
    """Leave packets out."""
    return [packet for index, packet in enumerate(packets) if index not in lost]


def lose_setup(packets: Sequence[Packet], chance: Random) -> Packets:
    """One packet with a set-up message was lost."""
    places = setup_places(packets)
    return without(packets, {chance.choice(places)} if places else set())


def lose_some_setup(packets: Sequence[Packet], chance: Random) -> Packets:
    """A few packets with set-up messages or markers were lost."""
    places = setup_places(packets, SET_UP | {MARKER})
    return without(packets, set(chance.sample(places, min(chance.randint(1, 4), len(places)))))


def lose(packets: Sequence[Packet], chance: Random) -> Packets:
    """A share of the packets was lost: one at least."""
    share = chance.choice(_SHARES)
    lost = {index for index in range(len(packets)) if chance.random() < share}
    return without(packets, lost or {chance.randrange(len(packets))})


def lose_one(packets: Sequence[Packet], chance: Random) -> Packets:
    """One packet with data was lost."""
    data = [index for index, packet in enumerate(packets) if packet.length]
    return without(packets, {chance.choice(data)} if data else set())


def lose_burst(packets: Sequence[Packet], chance: Random) -> Packets:
    """Packets in a row were lost, at up to three places."""
    lost: set[int] = set()
    for _ in range(chance.randint(1, 3)):
        start = chance.randrange(len(packets))
        lost |= set(range(start, start + chance.randint(2, 1 + max(len(packets) // 4, 2))))
    return without(packets, lost)


def lose_of_one_side(packets: Sequence[Packet], chance: Random) -> Packets:
    """One direction's tap was overloaded."""
    side, share = chance.randrange(2), chance.choice(_SHARES)
    return [each for each in packets if each.side != side or chance.random() >= share]


def lose_handshake(packets: Sequence[Packet], chance: Random) -> Packets:
    """One or both packets that open a connection were lost."""
    sides = chance.choice(((0,), (1,), (0, 1)))
    return [each for each in packets if not (each.flags & SYN and each.side in sides)]


def lose_bare_acks(packets: Sequence[Packet], _: Random) -> Packets:
    """Nothing but packets with data was recorded."""
    return [each for each in packets if not each.is_bare]


# --------------------------------------------------------------------------------------------------------------- cuts


def cut_start(packets: Sequence[Packet], chance: Random) -> Packets:
    """The recording began late."""
    return list(packets[chance.randrange(1, len(packets)) :]) if len(packets) > 1 else list(packets)


def cut_end(packets: Sequence[Packet], chance: Random) -> Packets:
    """The recording ended early."""
    return list(packets[: chance.randrange(1, len(packets))]) if len(packets) > 1 else list(packets)


def cut_both(packets: Sequence[Packet], chance: Random) -> Packets:
    """The recording is of some time in the middle."""
    if len(packets) < 2:
        return list(packets)
    start, end = sorted(chance.sample(range(len(packets) + 1), 2))
    return list(packets[start:end])


def cut_one_side(packets: Sequence[Packet], chance: Random) -> Packets:
    """One direction was recorded later than the other."""
    side, start = chance.randrange(2), chance.randrange(len(packets))
    return [each for index, each in enumerate(packets) if each.side != side or index >= start]


def only_client(packets: Sequence[Packet], _: Random) -> Packets:
    """Only what the client sent was recorded."""
    return [each for each in packets if each.side == 0]


def only_server(packets: Sequence[Packet], _: Random) -> Packets:
    """Only what the server sent was recorded."""
    return [each for each in packets if each.side == 1]


def snap(packets: Sequence[Packet], chance: Random) -> Packets:
    """A snap length cut every packet."""
    size = chance.choice((chance.choice(_SNAPS), chance.randint(40, 1500)))
    return [replace(each, snap=min(each.snap, size)) for each in packets]


# -------------------------------------------------------------------------------------------- order and repetition


def retimed(packets: Sequence[Packet], times: Sequence[int]) -> Packets:
    """Give packets the times of a recorder that saw them in this order."""
    return [packet.moved(time_ns) for packet, time_ns in zip(packets, sorted(times), strict=True)]


def reorder(packets: Sequence[Packet], chance: Random) -> Packets:
    """Some packets came later than those behind them, by a fifth of a second at most."""
    reach, share = chance.choice((2, 3, 8, 30)), chance.choice((0.01, 0.1, 0.4))
    places: list[float] = []
    for index, packet in enumerate(packets):
        behind = packets[index + 1 : index + 1 + (chance.randint(1, reach) if chance.random() < share else 0)]
        passed = list(takewhile(lambda each, first=packet: each.time_ns - first.time_ns < _LATEST_NS, behind))
        places.append(index + len(passed) + (0.5 if passed else 0))
    order = sorted(range(len(packets)), key=places.__getitem__)
    return retimed([packets[index] for index in order], [each.time_ns for each in packets])


def duplicate(packets: Sequence[Packet], chance: Random) -> Packets:
    """Some packets were recorded twice: at once, as a mirror port does it, or a little later."""
    share, later = chance.choice((0.02, 0.2, 1.0)), chance.choice((0, 0, 3, 20))
    keyed: list[tuple[float, Packet]] = [(index, packet) for index, packet in enumerate(packets)]
    for index, packet in enumerate(packets):
        if chance.random() < share:
            place = index + chance.randint(0, later) + 0.5
            keyed.append((place, packet))
    keyed.sort(key=lambda pair: pair[0])
    return _in_time([packet for _, packet in keyed])


def retransmit(packets: Sequence[Packet], chance: Random) -> Packets:
    """Bytes were sent again later, in other packets, with the acknowledgements of that time."""
    share = chance.choice((0.02, 0.2))
    keyed: list[tuple[float, Packet]] = [(index, packet) for index, packet in enumerate(packets)]
    for index, packet in enumerate(packets):
        if packet.length and packet.flags & RST == 0 and chance.random() < share:
            behind = min(index + chance.randint(1, 12), len(packets) - 1)
            recent = [
                each.acked
                for each in packets[: behind + 1]
                if each.connection is packet.connection and each.side == packet.side and each.acked is not None
            ]
            start = chance.randrange(packet.offset, packet.end)
            again = part(packet, start, chance.randint(start + 1, packet.end))
            again = replace(again, flags=again.flags & ~FIN, acked=max(recent, default=None))
            keyed.append((behind + 0.5, again))
    keyed.sort(key=lambda pair: pair[0])
    return _in_time([packet for _, packet in keyed])


def _in_time(packets: Sequence[Packet]) -> Packets:
    """Let no packet be older than the one before it, as far as it was so before."""
    out: Packets = []
    for packet in packets:
        out.append(packet if not out or packet.time_ns >= out[-1].time_ns else packet.moved(out[-1].time_ns))
    return out


# -------------------------------------------------------------------------------------------------- clocks and files


def skew(packets: Sequence[Packet], chance: Random) -> Packets:
    """Two clocks: one direction's packets are stamped late or early, and were merged by their times."""
    side = chance.randrange(2)
    by = chance.choice((-1, 1)) * chance.choice((1_000, 50_000, 10**6, 10**7, 2 * 10**8, 10**9))
    moved = [each.moved(each.time_ns + by) if each.side == side else each for each in packets]
    return sorted(moved, key=lambda each: each.time_ns)


def skew_in_place(packets: Sequence[Packet], chance: Random) -> Packets:
    """Two clocks: one direction's packets are stamped late or early, but stand where they were recorded."""
    side, by = chance.randrange(2), chance.choice((-1, 1)) * chance.choice((10**6, 2 * 10**8, 10**9))
    return [each.moved(each.time_ns + by) if each.side == side else each for each in packets]


def clock_step(packets: Sequence[Packet], chance: Random) -> Packets:
    """Somebody set the recorder's clock."""
    at, step = chance.randrange(len(packets)), chance.choice(_STEPS_NS)
    return [each.moved(each.time_ns + (step if index >= at else 0)) for index, each in enumerate(packets)]


def ring(packets: Sequence[Packet], chance: Random) -> Packets:
    """The recorder went on in another file, several times."""
    places = sorted(chance.randrange(len(packets) + 1) for _ in range(chance.randint(1, 6)))
    return [replace(each, file=sum(index >= place for place in places)) for index, each in enumerate(packets)]


def wrap(packets: Sequence[Packet], chance: Random) -> Packets:
    """Sequence numbers go round in the middle."""
    ends = {0: 1, 1: 1}
    for each in packets:
        ends[each.side] = max(ends[each.side], each.end)
    made = {}
    for each in packets:
        if each.connection.number not in made:
            bases = tuple((1 << 32) - chance.randint(0, ends[side]) for side in (0, 1))
            made[each.connection.number] = replace(each.connection, bases=(bases[0] % (1 << 32), bases[1] % (1 << 32)))
    return [replace(each, connection=made[each.connection.number]) for each in packets]


def lose_end(packets: Sequence[Packet], _: Random) -> Packets:
    """The packets that end the connection were not recorded."""
    return [
        replace(each, flags=each.flags & ~FIN) if each.length else each
        for each in packets
        if each.length or not each.flags & (FIN | RST)
    ]
