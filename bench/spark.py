"""The benchmark of the Spark jobs: what each step costs over one process that does the same, and what a core brings.

    python bench/spark.py                          400,000 frames in 8 files
    python bench/spark.py --frames 5000000         the size that the goals are about
    python bench/spark.py --frames 40000           minutes: does it work at all?

Results are checked before times are reported. CPU time is that of the driver, its JVM and all Python workers, in a
session that is warm; starting is reported separately, and left out of the single process's time too. Figures are ratios
within one run. Exit status 1 if a result is wrong, never because of time. Imports nothing heavy; see ``measure``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import document
from contenders import MAIN, FailedError
from decode import directory, say, use_byte_code
from goals import LARGE, Case, Costs, Goal, Measure, verdicts
from measure import Cost, run
from truth import Truth, load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILES, CONNECTIONS = 8, 4
_HERE = Path(__file__).parent
_SMALL_FRAMES = 2000
#: Frames of each of two captures that go through every step first, at most a file's: the JVM compiles what is called
#: often, and that is part of starting.
_WARM_FRAMES = 400_000


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the Spark jobs, and the single process that it is compared with."""

    name: str
    title: str
    single: str
    most: float | None = None  #: the goal: at most this many times its CPU

    @property
    def fraction(self) -> float:
        """Return the part of the captures that the step reads."""
        return 1 / FILES if self.name.startswith("growth") else 1.0


SINGLE = {
    "decode": "decode to Arrow, no sink",
    "dissect": "uprscope dissect to Parquet",
    "fields": f"uprscope dissect of {len(MAIN)} columns to Parquet",
    "check": "check_frames over the archive's Parquet",
}
STEPS = (
    Step("source, no sink", "data source, rows made and dropped", "decode", 3),
    Step("source, Parquet", "data source to Parquet", "dissect", 3),
    Step("source, fields", f"data source, {len(MAIN)} columns to Parquet", "fields", 3),
    Step("ingest", "archive: ingest", "dissect", 3),
    Step("check", "archive: check", "check", 8),
    Step("check, shuffled", "the same, by connection through a shuffle", "check", 8),
    Step("across", "archive: XCN-01", "check"),
    Step("growth, ingest", "one file more: ingest", "dissect"),
    Step("growth, check", "one file more: check", "check"),
    Step("growth, across", "one file more: XCN-01", "check"),
)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=400_000, metavar="N", help="default: 400,000, in 8 files")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2], metavar="N", help="default: 1 2")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="default: 1; the least time counts")
    parser.add_argument("--memory", default="1g", help="of the driver (default: 1g)")
    parser.add_argument("--partitions", type=int, default=8, metavar="N", help="of shuffles (default: 8)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the captures there, and use those that are there"
    )
    args = parser.parse_args()
    if args.rounds < 1 or args.frames < FILES * _SMALL_FRAMES:
        parser.error(f"there must be at least one round, and {FILES * _SMALL_FRAMES:,} frames")
    return args


def capture(path: Path, frames: int, seed: int) -> tuple[Path, Truth]:
    """Make a capture in a process of its own, or find it there; in a folder of its own, as a ring."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ("--frames", frames, "--connections", CONNECTIONS, "--seed", seed)
    subprocess.run(
        [sys.executable, str(_HERE / "traffic.py"), str(path), *map(str, words)], check=True, stdout=sys.stderr
    )
    truth = load(path)
    if truth is None:
        raise FailedError(f"{path} could not be made")
    return path, truth


@dataclass(frozen=True, slots=True)
class Material:
    """The captures of a run: files in pairs, each pair two recordings of one history, and one file more."""

    sources: list[Path]
    truths: list[Truth]
    more: Path
    more_truth: Truth
    small: list[Path]
    warm: list[Path]
    broken: Path

    @classmethod
    def made(cls, where: Path, scratch: Path, frames: int) -> Material:
        """Make them, or find them there."""
        each, place = frames // FILES, where / f"spark-{frames}"
        made = [capture(place / f"node{at}" / "capture.pcap", each, 1 + at // 2) for at in range(FILES)]
        more = capture(place / "more" / "capture.pcap", each, 1 + FILES)

        def pair(size: int) -> list[Path]:
            return [capture(where / f"spark-pair-{size}-{at}" / "capture.pcap", size, 1)[0] for at in range(2)]

        broken = scratch / "broken" / "capture.pcapng"
        broken.parent.mkdir()
        generate = ("generate", "--break", "SEQ-01", "-o", str(broken))
        run([sys.executable, "-m", "uprscope", *generate], keep_output=False)
        small, warm = pair(_SMALL_FRAMES), pair(min(_WARM_FRAMES, each))
        return cls([path for path, _ in made], [truth for _, truth in made], *more, small, warm, broken)

    @property
    def size(self) -> int:
        """Return how many bytes the files have, without the one that comes later."""
        return sum(truth["bytes"] for truth in self.truths)


def session(material: Material, args: argparse.Namespace, cores: int, folder: Path) -> dict[str, Any]:
    """Run all steps; return the measurements, if the results are right.

    Each job has a process of its own, as users' jobs have: code that a JVM has compiled for one job slows down another.
    """
    words = {
        "sources": [str(path) for path in material.sources],
        "more": str(material.more),
        "small": [str(path) for path in material.small],
        "warm": [str(path) for path in material.warm],
        "broken": str(material.broken),
        "columns": ",".join(sorted(MAIN)),
        "cores": cores,
        **{key: getattr(args, key) for key in ("rounds", "memory", "partitions")},
    }
    measured: dict[str, dict[str, Any]] = {"costs": {}, "found": {}}
    for job in ("read", "archive"):
        command = [
            sys.executable,
            str(_HERE / "spark_steps.py"),
            json.dumps(words | {"job": job, "folder": str(folder / job)}),
        ]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
        if done.returncode:
            raise FailedError(f"the steps ended with {done.returncode}")
        output = json.loads(done.stdout.splitlines()[-1])
        for part in measured:
            measured[part] |= output[part]
    if wrong := judged(measured["found"], material.truths, material.more_truth):
        raise FailedError("; ".join(wrong))
    return measured


def judged(found: Mapping[str, Any], truths: list[Truth], more: Truth) -> list[str]:
    """Compare Spark's results with the captures: they come in pairs, so XCN-01 compares every mutation."""
    mutations = sum(truth["mutations"] for truth in truths)
    counted = [sum(truth["frames"] for truth in truths), mutations, sum(truth["seqno_sum"] for truth in truths)]
    grown = mutations + more["mutations"]
    expected = {
        "rows of the data source": (found["source"], counted),
        "rows of some columns of it": (found["fields"], counted),
        "rows of the archive": (found["archive"], counted),
        "SEQ-07 held, violated": (found["rules"]["SEQ-07"][:2], [mutations, 0]),
        "SEQ-07 through the shuffle": (found["shuffled"]["SEQ-07"], mutations),
        "XCN-01 held, violated": (found["rules"]["XCN-01"][:2], [mutations // 2, 0]),
        "findings": (sum(row[2] for row in found["rules"].values()), 0),
        "SEQ-07 with one file more": (found["grown"]["SEQ-07"][:2], [grown, 0]),
        "XCN-01 with one file more": (found["grown"]["XCN-01"][:2], [mutations // 2, 0]),
        "SEQ-01 violated in a broken capture": (found["small"]["grown"]["SEQ-01"][1] > 0, True),
    }
    return [f"{name}: {value}, expected {want}" for name, (value, want) in expected.items() if value != want]


def singles(material: Material, runs: Path, scratch: Path, rounds: int) -> dict[str, Cost]:
    """Measure the single processes, less the time that they take for tiny captures."""
    output = scratch / "single.parquet"

    def decode(paths: list[Path], _: Path) -> list[str]:
        return [sys.executable, str(_HERE / "single.py"), "decode", *map(str, paths)]

    def dissect(paths: list[Path], _: Path) -> list[str]:
        words = ("--separate", "--format", "parquet", "-o", str(output))
        return [sys.executable, "-m", "uprscope", "dissect", *map(str, paths), *words]

    def fields(paths: list[Path], archive: Path) -> list[str]:
        return [*dissect(paths, archive), "--fields", ",".join(sorted(MAIN))]

    def check(_: list[Path], archive: Path) -> list[str]:
        return [sys.executable, str(_HERE / "single.py"), "check", str(archive)]

    frames, mutations = (sum(truth[name] for truth in material.truths) for name in ("frames", "mutations"))
    expected: dict[str, dict[str, int]] = {
        "decode": {"frames": frames},
        "dissect": {"frames": frames},
        "fields": {"frames": frames},
        "check": {"frames": frames, "findings": 0, "held": mutations},
    }
    costs = {}
    for name, command in (("decode", decode), ("dissect", dissect), ("fields", fields), ("check", check)):
        start, _ = _least(command(material.small, runs / "archive" / "small" / "archive"), rounds + 1)
        whole, found = _least(command(material.sources, runs / "archive" / "round0" / "archive"), rounds)
        if name in ("dissect", "fields"):  # which print nothing themselves
            _, found = _least([sys.executable, str(_HERE / "single.py"), "count", str(output)], 1)
        if json.loads(found) != expected[name]:
            raise FailedError(f"{SINGLE[name]}: {found.decode().strip()}, expected {expected[name]}")
        costs[name] = Cost(whole.cpu_s - start.cpu_s, whole.wall_s - start.wall_s, whole.peak_rss_mb)
        say(f"  {SINGLE[name]}: {whole.cpu_s:.2f} s CPU, of which {start.cpu_s:.2f} to start")
    return costs


def _least(command: list[str], rounds: int) -> tuple[Cost, bytes]:
    """Run a command several times; return the least cost, and its last output."""
    runs = []
    for _ in range(rounds):
        done = run(command, keep_output=True)
        if done.status:
            raise FailedError(f"exit status {done.status}: {done.complaint}")
        runs.append(done)
    cost = runs[0].cost
    for done in runs[1:]:
        cost = done.cost.best(cost)
    return cost, runs[-1].output


def ratios(costs: Mapping[str, Mapping[str, float]], single: Mapping[str, Cost]) -> dict[str, float]:
    """Return the CPU time of steps as multiples of the single processes'; of one file more, of its part of them."""
    return {step.name: costs[step.name]["cpu_s"] / (single[step.single].cpu_s * step.fraction) for step in STEPS}


def table(cores: int, measured: dict[str, Any], single: Mapping[str, Cost], size: int) -> list[str]:
    """Return the steps of one session as a Markdown table."""
    costs = measured["costs"]
    times = ratios(costs, single)
    start = costs["session"]
    warm = sum(cost["cpu_s"] for name, cost in costs.items() if name.startswith(("small", "warm-up")))
    lines = [
        f"### {cores} core{'s' if cores > 1 else ''}",
        "",
        f"Starting Spark: {start['cpu_s']:.1f} s CPU, {start['wall_s']:.1f} s wall; warming up: {warm:.1f} s CPU.",
        "",
        "| step | CPU s | of one process | x | wall s | shuffled / captured | largest worker, MB |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for step in STEPS:
        cost = costs[step.name]
        shuffled = cost.get("shuffled", 0.0) / (size * step.fraction)
        lines.append(
            f"| {step.title} | {cost['cpu_s']:.1f} | {step.single} | {times[step.name]:.2f} | {cost['wall_s']:.1f} "
            f"| {shuffled:.3f} | {cost['rss_mb']:.0f} |"
        )
    return [*lines, ""]


def _single(name: str) -> str:
    """Return the name of a single process among the costs: steps have similar names."""
    return f"one process, {name}"


def goals(case: Case) -> tuple[Goal, ...]:
    """Return the goals; they are stated for one size."""

    def within(step: Step, most: float) -> Callable[[Mapping[tuple[Case, str], Cost]], Measure]:
        def judge(costs: Mapping[tuple[Case, str], Cost]) -> Measure:
            ratio = costs[case, step.name].cpu_s / costs[case, _single(step.single)].cpu_s
            return f"{ratio:.2f}x", ratio <= most

        return judge

    return tuple(
        Goal(
            f"{step.title}: CPU at most {step.most:g}x that of {SINGLE[step.single]}, at {case.frames:,} frames",
            within(step, step.most),
        )
        for step in STEPS
        if step.most is not None
    )


def main() -> int:
    """Run the benchmark."""
    args = arguments()
    case = Case(args.frames, FILES * CONNECTIONS)
    with directory(args.keep) as where, tempfile.TemporaryDirectory(prefix="uprscope-bench-") as name:
        scratch = Path(name)
        use_byte_code(scratch / "byte-code")
        try:
            material = Material.made(where, scratch, args.frames)
            sessions: dict[int, dict[str, Any]] = {}
            for cores in args.cores:
                say(f"{case}, {cores} cores:")
                sessions[cores] = session(material, args, cores, scratch / f"cores{cores}")
            single = singles(material, scratch / f"cores{args.cores[0]}", scratch, args.rounds)
        except (FailedError, OSError, ValueError, KeyError) as error:
            say(f"error: {case}: {type(error).__name__}: {error}")
            return 1
    first, size = sessions[args.cores[0]], material.size
    parquet = first["found"]["parquet"] / size
    lines = [f"## {case}, {size / 1e6:,.0f} MB in {FILES} files; frames as Parquet: {parquet:.3f} of that", ""]
    lines += ["| one process | CPU s, less its start | MB/s | peak RSS MB |", "|---|---:|---:|---:|"]
    for key, cost in single.items():
        speed = size / 1e6 / cost.cpu_s
        lines.append(f"| {key}: {SINGLE[key]} | {cost.cpu_s:.2f} | {speed:.0f} | {cost.peak_rss_mb:.0f} |")
    lines.append("")
    for cores, measured in sessions.items():
        lines += table(cores, measured, single, size)
    lines += scaling({cores: measured["costs"] for cores, measured in sessions.items()})
    costs: Costs = {(case, _single(key)): cost for key, cost in single.items()}
    for step in STEPS:
        cost = first["costs"][step.name]
        costs[case, step.name] = Cost(cost["cpu_s"], cost["wall_s"], cost["rss_mb"])
    lines += ["| goal | measured | |", "|---|---|---|"]
    lines += ["| {} | {} | {} |".format(*each) for each in verdicts(costs, goals(Case(LARGE, case.connections)))]
    titles = {step.name: (step.title, step.fraction) for step in STEPS}
    lines += ["", *document(titles, single, ratios(first["costs"], single), sessions, size)]
    print("\n".join(lines))
    return 0


def scaling(costs: dict[int, dict[str, dict[str, float]]]) -> list[str]:
    """Return how much faster steps are with more cores: wall-clock, so only where nothing else runs."""
    first, *others = costs
    if not others:
        return []
    lines = ["Wall-clock against the first session; means something on an idle machine only:", ""]
    lines += [f"| step | {' | '.join(f'{cores} cores' for cores in others)} |", f"|---|{'---:|' * len(others)}"]
    for step in STEPS:
        walls = [costs[cores][step.name]["wall_s"] for cores in (first, *others)]
        gains = (f"{walls[0] / max(wall, 1e-3):.2f}x" for wall in walls[1:])
        lines.append(f"| {step.title} | {' | '.join(gains)} |")
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
