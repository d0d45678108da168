"""``python -m tests.support.soundness``: try the property with captures and transformations of your choice."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from fnmatch import fnmatch
from pathlib import Path

from tests.support.soundness import sources
from tests.support.soundness.damage import setup_places
from tests.support.soundness.runner import Case, Outcome, Totals, keep, run_all, signature, source
from tests.support.soundness.transformations import ALL, combination


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.soundness", description=__doc__)
    parser.add_argument("--capture", action="append", help="a capture or one connection of it, or a pattern of names")
    parser.add_argument("--scenario", action="append", help="a scenario of the generator, made with --seed")
    parser.add_argument("--transformation", action="append", help="a name, a chain like rtt+loss, or 'combination'")
    parser.add_argument("--count", type=int, default=1, help="cases for each capture and transformation")
    parser.add_argument("--every-setup", action="store_true", help="lose each packet with a set-up message in turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="write the captures of failing cases here")
    parser.add_argument("--keep-most", type=int, default=2, help="captures to keep for each kind of finding")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="list captures and transformations")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every failing case")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(("captures", *sources.names(), "", "transformations", *ALL)))
        return 0
    return _run(chosen, _cases(chosen, _captures(chosen)))


def _captures(chosen: argparse.Namespace) -> list[str]:
    found: list[str] = []
    for name in chosen.scenario or ():
        found += sources.parts(f"{name}@{chosen.seed}")
    if chosen.capture:
        there = sources.names(kinds=("recording", "clean", "broken", "bugs", "rough"))
        for pattern in chosen.capture:
            found += [each for each in there if fnmatch(each, pattern)] or [pattern]
    return found if chosen.scenario or chosen.capture else sources.names()


def _cases(chosen: argparse.Namespace, names: list[str]) -> list[Case]:
    if chosen.every_setup:
        return [
            Case(name, "setup-loss", seed) for name in names for seed in range(len(setup_places(source(name).packets)))
        ]
    chains = chosen.transformation or [*ALL]
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    if chains == ["combination"]:
        return [Case(name, combination(name, seed), seed) for name in names for seed in seeds]
    return [Case(name, chain, seed) for name in names for chain in chains for seed in seeds]


def _run(chosen: argparse.Namespace, cases: list[Case]) -> int:
    began = time.monotonic()
    totals: dict[str, Totals] = defaultdict(Totals)
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in run_all(cases, chosen.processes):
        chain = outcome.case.chain
        totals["combination" if chosen.transformation == ["combination"] else chain].add(outcome)
        new = [signature(*each) for each in outcome.difference.new]
        new += [f"INTERNAL {outcome.difference.error}"] if outcome.difference.error else []
        for kind in dict.fromkeys(new):
            kinds[kind].append(outcome)
        if chosen.verbose:
            _tell(outcome)
    for chain, total in totals.items():
        print(f"{chain:24} {total.line()}")
    print()
    for kind, outcomes in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(outcomes):5}  {kind}")
        for outcome in outcomes[: chosen.keep_most]:
            print(f"         {outcome.case.command}")
            if chosen.keep:
                print(f"         {', '.join(map(str, keep(outcome.case, chosen.keep)))}")
    spent = time.monotonic() - began
    failed = sum(total.failed for total in totals.values())
    print(f"\n{len(cases)} cases, {failed} fail, {spent:.0f} s, {60 * len(cases) / max(spent, 1):.0f} a minute")
    return int(failed > 0)


def _tell(outcome: Outcome) -> None:
    difference, where = outcome.difference, " ".join(map(str, outcome.case))
    for verdict, sentence in difference.new:
        print(f"NEW {where}: {verdict.rule} {verdict.severity} {verdict.place}: {sentence}")
    for verdict in difference.cleared:
        print(f"CLEARED {where}: {verdict}")
    if difference.error:
        print(f"INTERNAL {where}: {difference.error}")


if __name__ == "__main__":
    sys.exit(main())
