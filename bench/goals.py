"""The stated goals, and whether the costs of a run meet them. A goal is a ratio within one run, never a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from measure import Cost

MILLION, LARGE, SMALL = 1_000_000, 5_000_000, 100_000
FEW, MANY = 8, 1000

_OWN = (("rows", "frames to Arrow"), ("csv", "CSV"))
_MEMORY = (*_OWN, ("all", "all columns to Arrow"))


@dataclass(frozen=True, slots=True)
class Case:
    """A capture, by what matters of it."""

    frames: int
    connections: int

    def __str__(self) -> str:
        return f"{self.frames:,} frames, {self.connections:,} connections"


Costs = dict[tuple[Case, str], "Cost"]  #: of a contender, by its name, on a capture
Measure = tuple[str, bool]  #: what was measured, in words, and whether that will do

_BASE = Case(MILLION, FEW)
_LARGE = Case(LARGE, FEW)
_SMALL = Case(SMALL, FEW)
_MANY = Case(MILLION, MANY)


@dataclass(frozen=True, slots=True)
class Goal:
    """A claim, and how it is judged. What was not measured makes a :class:`KeyError`."""

    title: str
    judge: Callable[[Mapping[tuple[Case, str], Cost]], Measure]


def _faster(case: Case, name: str, factor: float) -> Callable[[Mapping[tuple[Case, str], Cost]], Measure]:
    def judge(costs: Mapping[tuple[Case, str], Cost]) -> Measure:
        ratio = costs[case, "tshark"].cpu_s / costs[case, name].cpu_s
        return f"{ratio:.1f}x", ratio >= factor

    return judge


def _within(name: str, limit_mb: float) -> Callable[[Mapping[tuple[Case, str], Cost]], Measure]:
    def judge(costs: Mapping[tuple[Case, str], Cost]) -> Measure:
        peaks = [costs[case, name].peak_rss_mb for case in (_BASE, _LARGE)]
        return " and ".join(f"{peak:.0f} MB" for peak in peaks), max(peaks) <= limit_mb

    return judge


def _constant(name: str, tolerance: float) -> Callable[[Mapping[tuple[Case, str], Cost]], Measure]:
    def judge(costs: Mapping[tuple[Case, str], Cost]) -> Measure:
        base, large = (costs[case, name].peak_rss_mb for case in (_BASE, _LARGE))
        return f"{large / base - 1:+.0%}", abs(large - base) <= tolerance * base

    return judge


def _unhindered(name: str, part: float) -> Callable[[Mapping[tuple[Case, str], Cost]], Measure]:
    def judge(costs: Mapping[tuple[Case, str], Cost]) -> Measure:
        ratio = costs[_BASE, name].cpu_s / costs[_MANY, name].cpu_s
        return f"{ratio:.2f} of the speed", ratio >= part

    return judge


GOALS: tuple[Goal, ...] = (
    Goal("frames to Arrow at least 12x tshark at 1,000,000 frames", _faster(_BASE, "rows", 12)),
    Goal("frames to Arrow at least 16x tshark at 5,000,000 frames", _faster(_LARGE, "rows", 16)),
    Goal("CSV at least 9x tshark at 1,000,000 frames", _faster(_BASE, "csv", 9)),
    *(
        Goal(f"{title}: at most 256 MB at 1,000,000 and 5,000,000 frames", _within(name, 256))
        for name, title in _MEMORY
    ),
    *(Goal(f"{title}: equal memory at both within 10 %", _constant(name, 0.1)) for name, title in _MEMORY),
    Goal("frames to Arrow: 1,000 connections at least half as fast as 8", _unhindered("rows", 0.5)),
    *(
        Goal(f"{title} at least 3x tshark at 100,000 frames, start-up included", _faster(_SMALL, name, 3))
        for name, title in _OWN
    ),
)


def verdicts(costs: Costs, goals: tuple[Goal, ...] = GOALS) -> list[tuple[str, str, str]]:
    """Return title, what was measured, and the mark of every goal."""
    lines = []
    for goal in goals:
        try:
            measured, good = goal.judge(costs)
        except KeyError as missing:
            case, name = missing.args[0]
            lines.append((goal.title, f"needs {name} at {case}", "not measured"))
        else:
            lines.append((goal.title, measured, "pass" if good else "FAIL"))
    return lines
