"""The result of a measurement as tables: per group, per condition and per kind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.support.power.measure import CONDITIONS, FOUND, OUTCOMES, WHOLE, Trial


def share(trials: Iterable[Trial], condition: str = WHOLE, *, shown: bool = False) -> tuple[int, int]:
    """How many were found, of how many that were tried under a condition; or of those that can be seen there."""
    tried = [each for each in trials if each.condition == condition and (each.shown or not shown)]
    return sum(each.outcome == FOUND for each in tried), len(tried)


def markdown(trials: Sequence[Trial]) -> str:
    """All tables."""
    groups = sorted({each.group for each in trials})
    lines = ["# Seeded violations", "", "## Whole captures", ""]
    lines += [_row("group", "tried", *OUTCOMES), _row(*["---"] * (len(OUTCOMES) + 2))]
    for group in (*groups, "sum"):
        of_group = [each for each in trials if group in (each.group, "sum") and each.condition == WHOLE]
        counts = Counter(each.outcome for each in of_group)
        lines.append(_row(group, len(of_group), *(counts[each] for each in OUTCOMES)))
    present = [each for each in CONDITIONS if any(trial.condition == each for trial in trials)]
    lines += ["", "## Found, of those that the whole capture shows", ""]
    lines += [_row("group", *present), _row(*["---"] * (len(present) + 1))]
    for group in (*groups, "sum"):
        of_group = [each for each in trials if group in (each.group, "sum")]
        lines.append(_row(group, *(_share(of_group, each) for each in present)))
    starts = [each for each in present if each.startswith("start")]
    if starts:
        lines += ["", "## The same, of those whose evidence lies behind the start as well", ""]
        lines += [_row("group", *starts), _row(*["---"] * (len(starts) + 1))]
        for group in (*groups, "sum"):
            of_group = [each for each in trials if group in (each.group, "sum")]
            lines.append(_row(group, *(_share(of_group, each, shown=True) for each in starts)))
    lines += ["", "## By kind", "", _row("kind", *present, "not found"), _row(*["---"] * (len(present) + 2))]
    for kind in sorted({each.kind for each in trials}):
        of_kind = [each for each in trials if each.kind == kind]
        wrong = Counter((each.condition, each.release, each.outcome) for each in of_kind if each.outcome != FOUND)
        noted = ", ".join(f"{' '.join(each)} {count}" for each, count in sorted(wrong.items()))
        lines.append(_row(kind, *(_share(of_kind, each) for each in present), noted))
    lines += ["", "## Every miss", ""]
    for each in trials:
        if each.outcome != FOUND:
            lines.append(
                f"* {each.kind} {each.release} {each.talk} at {each.site}, {each.condition}: {each.outcome} {each.note}"
                + ("" if each.shown else " (evidence not captured)")
            )
    return "\n".join(lines) + "\n"


def as_json(trials: Iterable[Trial]) -> str:
    """All trials, for programs."""
    names = ("kind", "release", "talk", "site", "condition", "outcome", "note", "shown")
    return json.dumps([{name: getattr(each, name) for name in names} for each in trials], indent=0)


def _share(trials: Iterable[Trial], condition: str, *, shown: bool = False) -> str:
    found, tried = share(trials, condition, shown=shown)
    return f"{found} of {tried}" if tried else ""


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(each) for each in cells)} |"
