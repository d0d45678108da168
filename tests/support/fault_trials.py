"""Trying faults: apply them at home with several seeds and places, and judge what they did."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from dissector.codec.decoder import decode
from dissector.generate.conversation import Conversation, Emission
from dissector.generate.scenario import Broken, Fault, FaultPlace, NoPlaceError, Script, size_all_buffer_acks
from dissector.generate.scenarios import scenario
from tests.support.plain_oracle import broken_rules

SEEDS = range(3)


def named(fault: Fault) -> str:
    """The name of a fault in the ids of tests."""
    return f"{fault.rule} {fault.variant}".strip()


@dataclass
class Trial:
    """A fault that was applied."""

    fault: Fault
    broken: Broken
    conversations: list[Conversation]
    numbers: dict[int, int]  # of each message before the fault, by id

    @property
    def guilty(self) -> Emission:
        return self.broken.emissions[0]

    @property
    def sent(self) -> list[tuple[int, int, int, bytes]]:
        return [
            (each.side, each.unheard, each.pause_ns, each.frame.encode())
            for conversation in self.conversations
            for each in conversation
        ]

    def number(self, emission: Emission) -> int:
        """Where it was before the fault; what the fault has added, where it is now."""
        now = [id(each) for conversation in self.conversations for each in conversation]
        return self.numbers.get(id(emission), now.index(id(emission)) + 1)


def defects(trial: Trial) -> list[str]:
    """What a dissector has to say of single messages."""
    found = []
    for conversation in trial.conversations:
        granted = [each.frame.value for each in conversation if each.frame.name == "hello" and each.frame.response]
        for each in conversation:
            decoded = decode(each.frame.dialect, each.frame.encode(), collections=any(map(_collections, granted)))
            # The early dialect's form of an ack is one that the dissector points out.
            found += [f"{each.frame.name}: {one}" for one in decoded.defects if one.id != "ack-count-in-value"]
    return found


def _collections(features: bytes) -> bool:
    return (0x12).to_bytes(2, "big") in [features[at : at + 2] for at in range(0, len(features), 2)]


def attempt(fault: Fault, seed: int, frame: int = 1, home: str | None = None) -> Trial:
    conversations = scenario(home or fault.scenario).conversations(seed)
    numbers = {
        id(each): number
        for number, each in enumerate((each for conversation in conversations for each in conversation), 1)
    }
    script = Script(conversations, random.Random(seed), FaultPlace(frame))  # noqa: S311
    broken = fault.apply(script)
    size_all_buffer_acks(conversations)
    return Trial(fault, broken, conversations, numbers)


@cache
def clean(home: str, seed: int) -> frozenset[str]:
    """What the oracle says of a scenario without faults: nothing where faults are at home."""
    conversations = scenario(home).conversations(seed)
    size_all_buffer_acks(conversations)
    return frozenset(broken_rules(conversations))


def judge(fault: Fault, seed: int, frame: int) -> Trial | None:
    """Apply a fault from a place on and ask the oracle what it has broken; None if there is nothing from there on."""
    try:
        trial = attempt(fault, seed, frame)
    except NoPlaceError:
        return None
    allowed = {fault.rule, *fault.implies}
    assert not clean(fault.scenario, seed), "its home is not in order"
    found = broken_rules(trial.conversations)
    assert fault.rule in found, f"{fault.rule} {fault.variant}, seed {seed}, from {frame}: not broken"
    assert found <= allowed, f"{fault.rule} {fault.variant}, seed {seed}, from {frame}: {found - allowed} too"
    assert (trial.broken.rule, trial.broken.variant) == (fault.rule, fault.variant)
    everything = [id(each) for each in trial.broken.conversation]
    assert all(id(each) in everything for each in trial.broken.emissions), "a message that is not sent proves nothing"
    assert len({id(each) for each in trial.broken.emissions}) == len(trial.broken.emissions)
    assert trial.number(trial.guilty) >= frame
    assert trial.sent
    return trial


def at_home(fault: Fault) -> list[Trial]:
    """Apply a fault at its home with all seeds and at several places; the first one always fits."""
    trials = []
    for seed in SEEDS:
        trial = judge(fault, seed, 1)
        assert trial is not None, f"{fault.rule} {fault.variant}: no place with seed {seed}"
        trials.append(trial)
        size = len(trial.numbers)
        places = {size // 2, 3 * size // 4, trial.number(trial.guilty) + 1}
        trials += [later for place in sorted(places) if (later := judge(fault, seed, place)) is not None]
    return trials
