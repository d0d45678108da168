"""The benchmark of derived columns: what names, times and pairs cost beside the columns that they are made of.

    python bench/columns.py                   500,000 frames on 8 connections
    python bench/columns.py --frames 3000 --rounds 1

Each format is written with the columns of the dissector alone, and with all. Before time counts, what was written is
read back: both have every frame, and the derived columns say what the capture's maker knows. Exit status 1 if they do
not, never because of time. Must import nothing heavy; see ``measure``.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decode import capture_of, directory, say, use_byte_code
from goals import FEW, Case
from measure import Cost, run
from truth import differences

if TYPE_CHECKING:
    from collections.abc import Iterable

    from truth import Truth

FRAMES = 500_000
FORMATS = ("parquet", "arrow", "csv", "ndjson")
GOAL_PERCENT = 15
#: Asked of the product: this process must stay small. ``key`` is the text that is made of ``key_bytes``.
_PLAIN = """
from dissector.frames.schema import SCHEMA
print(",".join(name for name in SCHEMA.names if name not in ("key", "value")))
"""
_READ_BACK = ("frame", "connection_number", "name", "time_ns", "time", "seconds", "delta", "key", "by_seqno")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=FRAMES, metavar="N", help="default: 500,000")
    parser.add_argument("--connections", type=int, default=FEW, metavar="N", help="default: 8")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS, help="default: all")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default: 5; the least time counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the captures there, and use those that are there"
    )
    return parser.parse_args()


def command(capture: Path, kind: str, fields: str | None, output: Path) -> list[str]:
    """Return the command that is timed; ``fields``: these columns, None: all."""
    columns = ["--fields", fields] if fields is not None else []
    options = ["--format", kind, "-o", str(output)]
    return [sys.executable, "-m", "uprscope", "dissect", str(capture), *columns, *options]


def rows_of(path: Path, kind: str, scratch: Path) -> Iterable[dict[str, Any]]:
    """Read rows back: text by itself, other formats by way of the command that reads them."""
    if kind == "ndjson":
        with path.open() as lines:
            yield from map(json.loads, lines)
        return
    if kind != "csv":
        again = scratch / "again.csv"
        subprocess.run(command(path, "csv", ",".join(_READ_BACK), again), check=True, stderr=subprocess.DEVNULL)
        path = again
    with path.open(newline="") as stream:
        yield from csv.DictReader(stream)


def judged(path: Path, kind: str, truth: Truth, scratch: Path) -> list[str]:
    """Hold the derived columns of what was written against each other and the capture's truth."""
    sizes: Counter[int] = Counter()
    mutations = seqnos = 0
    elapsed = 0.0
    for row in rows_of(path, kind, scratch):
        number = int(row["frame"])
        sizes[int(row["connection_number"])] += 1
        if row["name"] == "mutation":
            mutations += 1
            seqnos += int(row["by_seqno"])
            if not row["key"]:
                return [f"frame {number} has no key"]
        elapsed += float(row["delta"])
        if abs(elapsed - float(row["seconds"])) > 1e-6:  # a sum of doubles
            return [f"frame {number}: {row['seconds']} s, and deltas up to it are {elapsed}"]
        moment = _EPOCH + timedelta(microseconds=int(row["time_ns"]) // 1000)
        if datetime.fromisoformat(row["time"]) != moment:
            return [f"frame {number}: {row['time']} instead of {moment}"]
    found = {"frames": sizes.total(), "mutations": mutations, "seqno_sum": seqnos}
    return differences(truth, {**found, "connection_sizes": sorted(sizes.values())})


def measured(
    kind: str, fields: str, rounds: int, capture: Path, truth: Truth, scratch: Path
) -> tuple[Cost, Cost] | None:
    """Let both run in turn; the results of the first round are read back. None: they were wrong."""
    costs: dict[str, Cost] = {}
    for number in range(1, rounds + 1):
        for name, columns in (("plain", fields), ("all", None)):
            output = scratch / f"rows.{kind}"
            done = run(command(capture, kind, columns, output), keep_output=False)
            wrong = [f"exit status {done.status}: {done.complaint}"] if done.status else []
            if f"{truth['frames']:,} frames" not in done.complaint:
                wrong = wrong or [f"{done.complaint!r} instead of {truth['frames']:,} frames"]
            if number == 1 and name == "all" and not wrong:
                wrong = judged(output, kind, truth, scratch)
            if wrong:
                say(f"  {kind}, {name}: WRONG: {'; '.join(wrong)}")
                return None
            costs[name] = done.cost.best(costs[name]) if name in costs else done.cost
            say(f"  round {number}, {kind}, {name}: {done.cost.cpu_s:.2f} s CPU, {done.cost.peak_rss_mb:.0f} MB")
    return costs["plain"], costs["all"]


def main() -> int:
    """Run the benchmark."""
    args = arguments()
    args.clean = False
    lines = [
        "| format | columns of messages, CPU s | all columns, CPU s | more | peak RSS MB | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    right = True
    with directory(args.keep) as where, tempfile.TemporaryDirectory(prefix="uprscope-bench-") as name:
        scratch = Path(name)
        use_byte_code(scratch / "byte-code")
        case = Case(args.frames, args.connections)
        capture, truth = capture_of(case, where, args)
        plain = run([sys.executable, "-c", _PLAIN], keep_output=True).output.decode().strip()
        for kind in args.formats:
            costs = measured(kind, plain, args.rounds, capture, truth, scratch)
            if costs is None:
                right = False
                lines.append(f"| {kind} | wrong | | | | |")
                continue
            less, more = costs
            percent = 100 * (more.cpu_s / max(less.cpu_s, 1e-3) - 1)  # the kernel's clock may say 0
            verdict = "pass" if percent <= GOAL_PERCENT else "FAIL"
            seconds = f"{less.cpu_s:.2f} | {more.cpu_s:.2f} | {percent:+.0f} %"
            lines.append(f"| {kind} | {seconds} | {more.peak_rss_mb:.0f} | {verdict} |")
    print(f"### {case}\n")
    print("\n".join(lines))
    print(f"\nGoal: derived columns add at most {GOAL_PERCENT} %.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
