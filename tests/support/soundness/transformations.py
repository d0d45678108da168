"""All transformations by name, and chains of them: ``rtt+lose+ring`` is applied from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.support.soundness import damage, retiming, segmenting
from tests.support.soundness.packets import Change, Packet, Packets

#: What changes packets and loses nothing: every frame is still there.
HARMLESS: dict[str, Change] = {
    "rtt": retiming.rtt,
    "acks": retiming.acknowledge,
    "bare-acks-lost": damage.lose_bare_acks,
    "resegment": segmenting.resegment,
    "random-segments": segmenting.resegment_randomly,
    "cork": segmenting.cork,
    "reorder": damage.reorder,
    "duplicate": damage.duplicate,
    "retransmit": damage.retransmit,
    "skew": damage.skew,
    "skew-in-place": damage.skew_in_place,
    "clock-step": damage.clock_step,
    "ring": damage.ring,
    "wrap": damage.wrap,
    "no-end": damage.lose_end,
}
#: What loses some of the bytes.
LOSSY: dict[str, Change] = {
    "setup-loss": damage.lose_setup,
    "setup-losses": damage.lose_some_setup,
    "loss": damage.lose,
    "one-lost": damage.lose_one,
    "burst": damage.lose_burst,
    "one-side-loss": damage.lose_of_one_side,
    "handshake-lost": damage.lose_handshake,
    "cut-start": damage.cut_start,
    "cut-end": damage.cut_end,
    "cut-both": damage.cut_both,
    "cut-one-side": damage.cut_one_side,
    "only-client": damage.only_client,
    "only-server": damage.only_server,
    "snap": damage.snap,
}
ALL = HARMLESS | LOSSY
#: These need whole packets in their order, so they come first; files and clocks come last.
_FIRST = ("rtt", "acks", "cork", "resegment", "random-segments")
_LAST = ("reorder", "duplicate", "skew", "skew-in-place", "clock-step", "ring")


def apply(chain: str, packets: Sequence[Packet], seed: int, name: str = "") -> Packets:
    """Apply transformations, each with chances of its own; ``name`` is the capture's, so that each has its own."""
    changed = list(packets)
    for place, step in enumerate(chain.split("+")):
        if not changed:
            break
        if step == "setup-loss" and place == 0:
            changed = every_setup(changed, seed)
            continue
        changed = ALL[step](changed, Random(f"{name}/{seed}/{place}/{step}"))  # noqa: S311 - no secret
    return changed


def every_setup(packets: Sequence[Packet], seed: int) -> Packets:
    """Lose the set-up packet of this number, so that seeds in a row lose one after another."""
    places = damage.setup_places(packets)
    return damage.without(packets, {places[seed % len(places)]} if places else set())


def combination(name: str, seed: int) -> str:
    """Draw two to five transformations for a capture, in an order that makes sense."""
    chance = Random(f"combination/{name}/{seed}")  # noqa: S311
    chosen = chance.sample(sorted(ALL), chance.randint(2, 5))
    rank = dict.fromkeys(_FIRST, 0) | dict.fromkeys(_LAST, 2)
    return "+".join(sorted(chosen, key=lambda name: (rank.get(name, 1), chosen.index(name))))
