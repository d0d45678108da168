"""Damage to a capture of a seeded violation: packets that were lost elsewhere, and recordings that begin late.

Never in the neighbourhood of what is guilty: what is asked is whether the checker still sees what the capture shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.power.packing import Packet

NEAR = 12  #: packets around the guilty ones that stay
Damaged = list[Packet] | None
Damage = Callable[[list[Packet], set[int], set[int], int], Damaged]


def _guilty_at(packets: list[Packet], guilty: set[int]) -> list[int]:
    return [at for at, each in enumerate(packets) if each.message in guilty]


def _loss(packets: list[Packet], guilty: set[int], evidence: set[int], seed: int) -> Damaged:
    """One to five packets are lost, each at least twelve packets away from what is guilty, and none with evidence."""
    places = _guilty_at(packets, guilty)
    free = [
        at
        for at, each in enumerate(packets)
        if each.payload
        and each.message not in evidence
        and all(abs(at - place) > NEAR for place in places)
        and not each.flags & 0x02
    ]
    if not free:
        return None
    chance = random.Random(seed)  # noqa: S311 - no secret
    lost = set(chance.sample(free, min(chance.randint(1, 5), len(free))))
    return [each for at, each in enumerate(packets) if at not in lost]


def _twelfth(packets: list[Packet], guilty: set[int], evidence: set[int], seed: int) -> Damaged:
    """The connection's twelfth packet is lost, unless it is evidence or what is guilty is near."""
    del seed
    if (
        len(packets) < 14
        or packets[11].message in evidence
        or any(abs(at - 11) <= NEAR for at in _guilty_at(packets, guilty))
    ):
        return None
    return packets[:11] + packets[12:]


def _start(share: float) -> Damage:
    def start(packets: list[Packet], guilty: set[int], evidence: set[int], seed: int) -> Damaged:
        """The recording begins within the connection, before what is guilty, if not before all evidence."""
        del evidence, seed
        begin = int(len(packets) * share)
        places = _guilty_at(packets, guilty)
        return packets[begin:] if places and min(places) >= begin + NEAR else None

    return start


DAMAGES: dict[str, Damage] = {
    "loss": _loss,
    "twelfth": _twelfth,
    "start15": _start(0.15),
    "start50": _start(0.50),
    "start85": _start(0.85),
}
