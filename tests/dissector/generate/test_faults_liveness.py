"""Faults about no-ops: what each does to its messages."""

from __future__ import annotations

from collections.abc import Callable

from dissector.generate.conversation import Emission
from tests.support.fault_trials import Trial

SECOND = 1_000_000_000


def noops(trial: Trial) -> list[Emission]:
    return [each for each in trial.broken.conversation if each.frame.name == "noop" and not each.frame.response]


def numbers(trial: Trial) -> list[int]:
    return [int.from_bytes(each.frame.opaque, "little") for each in noops(trial)]


def jumps(trial: Trial) -> bool:
    at = noops(trial).index(trial.guilty)
    return numbers(trial)[at] != numbers(trial)[at - 1] + 1


def unanswered(trial: Trial) -> bool:
    same = [each for each in trial.broken.conversation if each.frame.opaque == trial.guilty.frame.opaque]
    return same == [trial.guilty]


#: By rule and variant, whether the fault has done what it says.
CHECKS: dict[tuple[str, str], Callable[[Trial], bool]] = {
    ("NOP-01", "opaque"): unanswered,
    ("NOP-01", "skipped"): unanswered,
    ("NOP-02", ""): lambda trial: trial.guilty.frame.response and trial.guilty.pause_ns > 30 * SECOND,
    ("NOP-03", "late"): lambda trial: trial.guilty.pause_ns > 75 * SECOND,
    ("NOP-03", "stopped"): lambda trial: noops(trial)[-1] is trial.broken.emissions[1],
    ("NOP-04", ""): lambda trial: numbers(trial) == [*range(numbers(trial)[0], numbers(trial)[-1] + 1)],
    ("NOP-05", "next"): jumps,
    ("NOP-05", "first"): lambda trial: numbers(trial)[0] == 5,
    ("NOP-06", ""): lambda trial: trial.guilty.pause_ns > 430 * SECOND,
}
