"""The benchmark of the check: all rules over a capture, against tshark that only decodes it; and of stats beside it.

    python bench/check.py                     1,000,000 frames on 8 connections
    python bench/check.py --large             5,000,000 frames too
    python bench/check.py --frames 3000 --rounds 1

The capture breaks no rule. Before time counts, the check has to say so, to have looked at every item, and to find a
fault that the generator puts into a small capture. Exit status 1 if it does not, never because of time. Must import
nothing heavy; see ``measure``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contenders import READER, FailedError, contenders
from decode import capture_of, directory, say, use_byte_code
from goals import FEW, LARGE, MILLION, Case
from measure import Cost, run
from truth import MUTATION, differences

if TYPE_CHECKING:
    from truth import Truth


GOAL_RATIO = 8
GOAL_RSS_MB = 384


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=MILLION, metavar="N", help="default: 1,000,000")
    parser.add_argument("--connections", type=int, default=FEW, metavar="N", help="default: 8")
    parser.add_argument("--large", type=int, nargs="?", const=LARGE, metavar="N", help="5,000,000 frames too")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3; the least time counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the captures there, and use those that are there"
    )
    parser.add_argument("--skip-tshark", action="store_true", help="only the check: no ratios")
    return parser.parse_args()


def check_command(capture: Path, output: Path) -> list[str]:
    """Return the command that is timed: all rules, findings of every severity, as JSON."""
    options = ("--severity", "info", "--format", "json", "-o", str(output))
    return [sys.executable, "-m", "uprscope", "check", str(capture), *options]


def stats_command(capture: Path, output: Path) -> list[str]:
    """Return the command that reads the same frames for one screen about them."""
    return [sys.executable, "-m", "uprscope", "stats", str(capture), "--format", "json", "-o", str(output)]


def counted(document: dict[str, Any], truth: Truth) -> list[str]:
    """Hold the statistics against what is in the capture."""
    found = {(each["opcode"], each["response"]): each["messages"] for each in document["opcodes"]}
    numbers = {"frames": document["messages"], "mutations": found.get((MUTATION, False), 0)}
    return differences(truth, numbers)


def judged(document: dict[str, Any], truth: Truth) -> list[str]:
    """Hold what the check says of a clean capture against what is in it."""
    wrong = []
    tallies = {row["rule"]: row for row in document["rules"]}
    if document["frames"] != truth["frames"]:
        wrong.append(f"{document['frames']} frames, expected {truth['frames']}")
    if document["findings"]:
        wrong.append(f"{len(document['findings'])} findings, the first: {document['findings'][0]['sentence']}")
    held = {rule: tallies[rule]["held"] for rule in ("SEQ-07", "SNP-02")}
    items = truth["mutations"]
    wrong += [f"{rule} held {count} times, there are {items} items" for rule, count in held.items() if count != items]
    return wrong


def finds_faults(scratch: Path) -> list[str]:
    """Let it find a fault that the generator puts into traffic."""
    capture, output = scratch / "broken.pcapng", scratch / "broken.json"
    made = run(
        [sys.executable, "-m", "uprscope", "generate", "--break", "SEQ-01", "-o", str(capture)], keep_output=False
    )
    done = run(check_command(capture, output), keep_output=False)
    if made.status or done.status != 1:
        return [f"exit status {made.status} and {done.status} on a broken capture: {made.complaint} {done.complaint}"]
    rules = {finding["rule"] for finding in json.loads(output.read_text())["findings"]}
    return [] if "SEQ-01" in rules else [f"found {sorted(rules)} instead of SEQ-01"]


def measured(case: Case, rounds: int, capture: Path, truth: Truth, scratch: Path, *, tshark: bool) -> dict[str, Cost]:
    """Let all run in turn; results are checked every time."""
    costs: dict[str, Cost] = {}
    rival = next(each for each in contenders(READER) if each.name == "tshark")
    output = scratch / "found.json"
    ours = (("check", check_command, judged), ("stats", stats_command, counted))
    for number in range(1, rounds + 1):
        for name, command, differences_of in ours:
            done = run(command(capture, output), keep_output=False)
            wrong = [f"exit status {done.status}: {done.complaint}"] if done.status else []
            wrong = wrong or differences_of(json.loads(output.read_text()), truth)
            if wrong:
                raise FailedError(f"{name}: {'; '.join(wrong)}")
            costs[name] = done.cost.best(costs[name]) if name in costs else done.cost
            say(f"  {case}, round {number}, {name}: {done.cost.cpu_s:.2f} s CPU, {done.cost.peak_rss_mb:.0f} MB")
        if tshark and rival.missing is None:
            theirs = run(rival.command(capture, scratch), keep_output=False)
            costs["tshark"] = theirs.cost.best(costs["tshark"]) if "tshark" in costs else theirs.cost
            say(f"  {case}, round {number}, tshark: {theirs.cost.cpu_s:.2f} s CPU")
    return costs


def main() -> int:
    """Run the benchmark."""
    args = arguments()
    wanted = {Case(args.frames, args.connections): args.rounds}
    if args.large:
        wanted[Case(args.large, args.connections)] = 1
    args.clean = False
    lines = [
        "| capture | check, CPU s | tshark -T fields, CPU s | x tshark | peak RSS MB | | stats, CPU s | x check |",
        "|---|---:|---:|---:|---:|---|---:|---:|",
    ]
    with directory(args.keep) as where, tempfile.TemporaryDirectory(prefix="uprscope-bench-") as name:
        scratch = Path(name)
        use_byte_code(scratch / "byte-code")
        if wrong := finds_faults(scratch):
            say(f"error: {'; '.join(wrong)}")
            return 1
        for case, rounds in wanted.items():
            capture, truth = capture_of(case, where, args)
            try:
                costs = measured(case, rounds, capture, truth, scratch, tshark=not args.skip_tshark)
            except (FailedError, OSError, ValueError, KeyError) as error:
                say(f"error: {case}: {type(error).__name__}: {error}")
                return 1
            check, tshark = costs["check"], costs.get("tshark")
            ratio = tshark.cpu_s / check.cpu_s if tshark is not None else None
            good = check.peak_rss_mb <= GOAL_RSS_MB and (ratio is None or ratio >= GOAL_RATIO)
            theirs = f"{tshark.cpu_s:.2f} | {ratio:.1f}" if tshark is not None and ratio is not None else "- | -"
            verdict = "pass" if good else "FAIL"
            stats = f"{costs['stats'].cpu_s:.2f} | {costs['stats'].cpu_s / check.cpu_s:.2f}"
            lines.append(f"| {case} | {check.cpu_s:.2f} | {theirs} | {check.peak_rss_mb:.0f} | {verdict} | {stats} |")
    print("\n".join(lines))
    print(f"\nGoals: at least {GOAL_RATIO}x tshark's speed, at most {GOAL_RSS_MB} MB.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
