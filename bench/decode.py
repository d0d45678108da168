"""The benchmark of the decoder: everybody reads the same captures, results are checked first, then CPU time counts.

    python bench/decode.py                     1,000,000 frames on 8 connections
    python bench/decode.py --all               everything that the stated goals are about
    python bench/decode.py --frames 3000 --connections 3 --rounds 1

Exit status 1 if somebody's results are wrong, never because of time. Must import nothing heavy; see ``measure``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from contenders import READER, Contender, FailedError, contenders
from goals import FEW, LARGE, MANY, MILLION, SMALL, Case, Costs, verdicts
from measure import run
from truth import Truth, differences, load

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRAFFIC = Path(__file__).with_name("traffic.py")


def say(line: str) -> None:
    """Tell people how far it is; the results go to standard output."""
    print(line, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=MILLION, metavar="N", help="default: 1,000,000")
    parser.add_argument(
        "--connections",
        type=int,
        nargs="+",
        default=[FEW],
        metavar="N",
        help="default: 8; several numbers make several captures",
    )
    parser.add_argument(
        "--large", type=int, nargs="?", const=LARGE, metavar="N", help="a large capture too: 5,000,000 frames"
    )
    parser.add_argument(
        "--small", type=int, nargs="?", const=SMALL, metavar="N", help="a small capture too: 100,000 frames"
    )
    parser.add_argument("--all", action="store_true", help="--connections 8 1000 --large --small")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default: 3; the least time counts")
    parser.add_argument("--large-rounds", type=int, default=1, metavar="N", help="the same for --large; default: 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clean", action="store_true", help="no retransmissions, no reordering")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the captures there, and use those that are there"
    )
    parser.add_argument("--skip", action="append", default=[], metavar="NAME", help="leave a contender out")
    parser.add_argument("--reader", default=READER, metavar="MODULE:CLASS", help=f"default: {READER}")
    args = parser.parse_args()
    names = {contender.name for contender in contenders(args.reader)}
    if unknown := set(args.skip) - names:
        parser.error(f"--skip {', '.join(sorted(unknown))}: choose from {', '.join(sorted(names))}")
    if args.rounds < 1 or args.large_rounds < 1:
        parser.error("there must be at least one round")
    if args.all:
        args.connections, args.large, args.small = [FEW, MANY], args.large or LARGE, args.small or SMALL
    return args


def cases(args: argparse.Namespace) -> dict[Case, int]:
    """Return the captures that are wanted, and how many rounds each is worth."""
    wanted = {Case(args.frames, connections): args.rounds for connections in args.connections}
    if args.small:
        wanted.setdefault(Case(args.small, args.connections[0]), args.rounds)
    if args.large:
        wanted.setdefault(Case(args.large, args.connections[0]), args.large_rounds)
    return wanted


def use_byte_code(where: Path) -> None:
    """Let Python programs find their byte code, as installed ones do, whatever this environment says about that.

    It is kept apart from the sources, and written by the runs that check results, which are not timed.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(where)


@contextlib.contextmanager
def directory(keep: Path | None) -> Iterator[Path]:
    """Give a place for captures: the user's, or one that goes away again."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="uprscope-bench-") as name:
        yield Path(name)


def capture_of(case: Case, where: Path, args: argparse.Namespace) -> tuple[Path, Truth]:
    """Make a capture in a process of its own, so that its memory is not this one's; or find it there."""
    clean = ["--clean"] if args.clean else []
    name = "-".join((f"dcp-{case.frames}-{case.connections}-{args.seed}", *(word.strip("-") for word in clean)))
    path = where / f"{name}.pcap"
    numbers = ("--frames", case.frames, "--connections", case.connections, "--seed", args.seed)
    command = [sys.executable, str(_TRAFFIC), str(path), *map(str, numbers), *clean]
    made = subprocess.run(command, check=False, stdout=sys.stderr)
    truth = load(path) if made.returncode == 0 else None
    if truth is None:
        say(f"error: {path} could not be made")
        sys.exit(2)
    return path, truth


def checked(contender: Contender, capture: Path, truth: Truth, scratch: Path) -> bool:
    """Tell whether a contender finds what is there."""
    try:
        wrong = differences(truth, contender.found(capture, scratch))
    except (FailedError, OSError, ValueError, KeyError) as error:
        wrong = [f"{type(error).__name__}: {error}"]
    say(f"  check {contender.name}: {'WRONG' if wrong else 'right'}")
    for line in wrong:
        say(f"    {line}")
    return not wrong


def timed(
    case: Case, taking_part: list[Contender], rounds: int, capture: Path, truth: Truth, scratch: Path, costs: Costs
) -> bool:
    """Let everybody run in turn, round after round; tell whether what they said was right."""
    right = True
    for number in range(1, rounds + 1):
        for contender in taking_part:
            done = run(contender.command(capture, scratch), keep_output=contender.speaks)
            wrong = [f"exit status {done.status}: {done.complaint}"] if done.status else []
            if contender.speaks and not wrong:
                wrong = differences(truth, json.loads(done.output))
            if wrong:
                say(f"  round {number}, {contender.name}: WRONG: {'; '.join(wrong)}")
                right = False
                continue
            key = case, contender.name
            costs[key] = done.cost.best(costs[key]) if key in costs else done.cost
            say(f"  round {number}, {contender.name}: {done.cost.cpu_s:.2f} s CPU, {done.cost.wall_s:.2f} s")
    return right


def table(case: Case, taking_part: list[Contender], truth: Truth, costs: Costs) -> list[str]:
    """Return the results on one capture as a Markdown table."""
    tshark = costs.get((case, "tshark"))
    lines = [
        f"### {case} ({truth['packets']:,} packets, {truth['bytes'] / 1e6:,.0f} MB)",
        "",
        "| contender | CPU s | wall s | x tshark | MB/s | kframes/s | peak RSS MB |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for contender in taking_part:
        cost = costs.get((case, contender.name))
        if cost is None:
            lines.append(f"| {contender.title} | wrong | | | | | |")
            continue
        cpu_s = max(cost.cpu_s, 1e-3)  # the kernel's clock may say 0
        ratio = f"{tshark.cpu_s / cpu_s:.1f}" if tshark is not None else "-"
        times = f"{cost.cpu_s:.2f} | {cost.wall_s:.2f}"
        speeds = f"{truth['bytes'] / 1e6 / cpu_s:,.0f} | {truth['frames'] / 1000 / cpu_s:,.0f}"
        lines.append(f"| {contender.title} | {times} | {ratio} | {speeds} | {cost.peak_rss_mb:.0f} |")
    return [*lines, ""]


def main() -> int:
    """Run the benchmark."""
    args = arguments()
    everybody = contenders(args.reader)
    skipped = {each.name: "as asked" for each in everybody if each.name in args.skip}
    skipped.update({each.name: each.missing for each in everybody if each.missing and each.name not in skipped})
    present = [each for each in everybody if each.name not in skipped]
    costs: Costs = {}
    right = True
    lines: list[str] = []
    with directory(args.keep) as where, tempfile.TemporaryDirectory(prefix="uprscope-bench-") as scratch_name:
        scratch = Path(scratch_name)
        use_byte_code(scratch / "byte-code")
        for case, rounds in cases(args).items():
            say(f"{case}:")
            capture, truth = capture_of(case, where, args)
            good = [each for each in present if checked(each, capture, truth, scratch)]
            right = right and len(good) == len(present)
            right = timed(case, good, rounds, capture, truth, scratch, costs) and right
            lines += table(case, present, truth, costs)
            if args.keep is None:
                capture.unlink()
    print("\n".join(lines))
    for name, reason in skipped.items():
        print(f"Skipped: {name} ({reason}).\n")
    print("| goal | measured | |\n|---|---|---|")
    for verdict in verdicts(costs):
        print("| {} | {} | {} |".format(*verdict))
    if not right:
        say("error: wrong results, see above")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
