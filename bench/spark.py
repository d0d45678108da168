"""The benchmark of the archive job: what Spark costs over the command line, and what a second core brings.

    python bench/spark.py                          400,000 frames in 8 files
    python bench/spark.py --frames 5000000         the size that docs/scaling.md asks for
    python bench/spark.py --frames 40000           minutes: does it work at all?

The same captures go through ``uprscope check`` in one process, and through ``uprscope archive`` with one core and with
two. Before time counts, frames have to be the same everywhere. Figures are ratios to the command line within one run;
absolute ones depend on the machine. Exit status 1 if a result is wrong, never because of time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = 8
STEPS = {"reading": "ingest", "checking": "check", "comparing": "across"}
HERE = Path(__file__).parent


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=400_000, metavar="N", help="default: 400,000, in 8 files")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], metavar="N", help="default: 1 2")
    parser.add_argument("--memory", default="1g", help="of the driver (default: 1g)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the captures there, and use those that are there"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def captures(folder: Path, frames: int) -> Path:
    """Make the captures, each with connections of its own and in a folder of its own."""
    made = folder / f"captures-{frames}"
    for number in range(FILES):
        path = made / f"node{number}" / "capture.pcap"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            words = [str(path), "--frames", str(frames // FILES), "--connections", "4", "--seed", str(number + 1)]
            subprocess.run([sys.executable, str(HERE / "traffic.py"), *words], check=True, stdout=subprocess.DEVNULL)
    return made


def archived(source: Path, folder: Path, cores: int, memory: str) -> dict[str, Any]:
    """Run the job in a process of its own; return what it measured."""
    words = json.dumps({"source": str(source), "folder": str(folder), "cores": cores, "memory": memory})
    done = subprocess.run([sys.executable, __file__, "--one", words], check=True, stdout=subprocess.PIPE)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def one(words: dict[str, Any]) -> dict[str, Any]:
    """Be that process."""
    from analysis.archive import job, watching  # noqa: PLC0415 - the parent must stay small
    from analysis.session import spark_session  # noqa: PLC0415

    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(_context: object, title: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        seconds[STEPS[title.split(maxsplit=1)[0]]] = time.monotonic() - begin

    watching.step = step
    folder = Path(words["folder"])
    events = folder / "events"
    shutil.rmtree(folder, ignore_errors=True)
    events.mkdir(parents=True)
    begin = time.monotonic()
    conf = {
        "spark.driver.memory": words["memory"],
        "spark.sql.shuffle.partitions": "8",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    spark = spark_session(f"local[{words['cores']}]", conf)
    seconds["session"] = time.monotonic() - begin
    outcome = job.run(spark, folder / "archive", [words["source"]])
    spark.stop()
    size = sum(path.stat().st_size for path in (folder / "archive" / "frames").rglob("*.parquet"))
    return {"seconds": seconds, "frames": outcome.frames, "shuffled": shuffled(events), "parquet": size}


def shuffled(events: Path) -> int:
    """Add up the bytes that Spark's tasks wrote for others, as its event log has them."""
    total = 0
    for path in events.rglob("*"):
        if path.is_file():
            for line in path.read_text(errors="replace").splitlines():
                if '"SparkListenerTaskEnd"' in line:
                    metrics = json.loads(line).get("Task Metrics") or {}
                    total += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total


def checked(source: Path, output: Path) -> tuple[float, int]:
    """Check with the command line, a file at a time in one process each; return the CPU time and the frames."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    frames = 0
    begin = time.monotonic()
    for path in sorted(source.rglob("*.pcap")):
        words = ("check", str(path), "--severity", "info", "--format", "json", "-o", str(output))
        status = subprocess.run([sys.executable, "-m", "dissector", *words], check=False, cwd=HERE.parent).returncode
        if status not in (0, 1):
            raise SystemExit(f"uprscope check ended with {status}")
        frames += json.loads(output.read_text())["frames"]
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sys.stdout.write(f"command line: {frames:,} frames, CPU {cpu / wall:.0%} of its time\n")
    return wall, frames


def main() -> int:
    """Measure, and print."""
    args = arguments()
    if args.one:
        sys.stdout.write(json.dumps(one(json.loads(args.one))) + "\n")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch)
        source = captures(folder, args.frames)
        size = sum(path.stat().st_size for path in source.rglob("*.pcap"))
        wall, frames = checked(source, Path(scratch) / "check.json")
        sys.stdout.write(f"captures: {size:,} bytes in {FILES} files\n\n")
        sys.stdout.write("cores   ingest    check   across    total  shuffle/capture  parquet/capture\n")
        for cores in args.cores:
            run = archived(source, Path(scratch) / f"spark{cores}", cores, args.memory)
            if run["frames"] != frames:
                sys.stdout.write(f"wrong: {run['frames']} frames, expected {frames}\n")
                return 1
            parts = [run["seconds"][name] / wall for name in STEPS.values()]
            line = "  ".join(f"{part:7.2f}" for part in [*parts, sum(parts)])
            sys.stdout.write(f"{cores:5}  {line}  {run['shuffled'] / size:15.3f}  {run['parquet'] / size:15.3f}\n")
        sys.stdout.write("\nTimes are multiples of the command line's; starting Spark is not in them.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
