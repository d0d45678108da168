"""``python -m tests.support.power``: measure, and write the tables."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

if os.environ.get("UPRSCOPE_TREE"):
    sys.path.insert(0, os.environ["UPRSCOPE_TREE"])

from tests.support.power.damage import DAMAGES
from tests.support.power.kinds import KINDS
from tests.support.power.measure import CONDITIONS, FOUND, WHOLE, measure
from tests.support.power.recordings import RELEASES
from tests.support.power.tables import as_json, markdown


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.power", description=__doc__)
    parser.add_argument("--rule", action="append", help="a rule or a group: OPQ-04, OPQ; may be repeated")
    parser.add_argument("--kind", action="append", help="a kind by its name; may be repeated")
    parser.add_argument("--damage", action="append", choices=["none", *DAMAGES], help="these only (default: all)")
    parser.add_argument("--release", action="append", choices=list(RELEASES), help="these only (default: all)")
    parser.add_argument("--sites", type=int, default=1, help="places per kind and release (default: 1)")
    parser.add_argument("--seed", type=int, default=1, help="which packets are lost (default: 1)")
    parser.add_argument("--keep", type=Path, help="write the capture of every miss into this directory")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="write OUTPUT.md and OUTPUT.json instead of printing")
    parser.add_argument("-v", action="store_true", help="print every trial")
    parser.add_argument("--list", action="store_true", help="name all kinds, and measure nothing")
    options = parser.parse_args()
    rules = tuple(options.rule or ("",))
    kinds = [title for title in KINDS if title.startswith(rules)]
    if options.kind:
        kinds = [title for title in kinds if title.partition("/")[2] in options.kind or title in options.kind]
    if options.list:
        print("\n".join(f"{title}: {KINDS[title].edit.__doc__}" for title in kinds))
        return 0
    conditions = CONDITIONS
    if options.damage:
        conditions = (WHOLE, *(each for each in options.damage if each != "none"))
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    trials = measure(
        kinds,
        options.release or tuple(RELEASES),
        most=options.sites,
        conditions=conditions,
        keep=options.keep,
        processes=options.processes,
        seed=options.seed,
    )
    if options.v:
        for each in trials:
            print(each.kind, each.release, each.talk, each.site, each.condition, each.outcome, each.note)
    if options.output:
        options.output.with_suffix(".md").write_text(markdown(trials))
        options.output.with_suffix(".json").write_text(as_json(trials))
    else:
        print(markdown(trials))
    return 0 if all(each.outcome == FOUND for each in trials) else 1


if __name__ == "__main__":
    sys.exit(main())
