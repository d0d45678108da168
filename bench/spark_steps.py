"""The Spark side of ``bench/spark.py``: one process with one warm session that runs and measures the steps of a job.

Takes its task as JSON in its argument, and prints the measurements as JSON. CPU time is that of the driver, its JVM,
and all Python workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tree import Meter
from truth import MUTATION

from analysis.archive import check_by_connection, check_by_ring, job, progress, spark_tables
from analysis.archive.schema import BY_NAME
from analysis.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

STEPS = {"reading": "ingest", "checking": "check", "comparing": "across"}  #: by the first word of the job's title
SMALL, WARM_UP = "small", "warm-up"  #: before the rounds: tiny captures, and enough for the JVM to compile


class Steps:
    """Steps in one session, and what they cost."""

    def __init__(self, words: dict[str, Any], meter: Meter) -> None:
        self._meter = meter
        self._folder = Path(words["folder"])
        self._events = self._folder / "events"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._events.mkdir(parents=True)
        self._conf = {
            "spark.driver.memory": words["memory"],
            "spark.sql.shuffle.partitions": str(words["partitions"]),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": spark_tables.uri(self._events),
        }
        self._columns: str = words["columns"]
        self._master = f"local[{words['cores']}]"
        self.costs: dict[str, dict[str, float]] = {}
        self.prefix = ""
        self.spark: SparkSession

    def start(self) -> None:
        """Start Spark."""
        with self.step("session"):
            self.spark = spark_session(self._master, self._conf)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure what happens in the block; the least CPU time of several rounds counts."""
        title = self.prefix + name
        if hasattr(self, "spark"):
            self.spark.sparkContext.setJobGroup(title, title)
        self._meter.peak_mb()
        before, begin = self._meter.cpu_s(), time.monotonic()
        yield
        wall = time.monotonic() - begin
        cost = {"cpu_s": self._meter.cpu_s() - before, "wall_s": wall, "rss_mb": self._meter.peak_mb()}
        other = self.costs.get(title)
        if other is not None:
            cost = {key: (max if key == "rss_mb" else min)(value, other[key]) for key, value in cost.items()}
        self.costs[title] = cost

    @contextlib.contextmanager
    def _job_step(self, _context: object, title: str) -> Iterator[None]:
        with self.step(STEPS[title.split(maxsplit=1)[0]]):
            yield

    def read(self, sources: list[str], _more: str, number: str) -> dict[str, Any]:
        """Read captures through the data source; return the results."""
        folder = self._folder / number
        shutil.rmtree(folder, ignore_errors=True)
        rows = self.spark.read.format("upr").load(sources)
        with self.step("source, no sink"):
            rows.write.format("noop").mode("overwrite").save()
        with self.step("source, Parquet"):
            rows.write.parquet(spark_tables.uri(folder / "source"), compression="zstd")
        chosen = self.spark.read.format("upr").option("columns", self._columns).load(sources)
        with self.step("source, fields"):
            chosen.write.parquet(spark_tables.uri(folder / "fields"), compression="zstd")
        return {name: self._counted(folder / name) for name in ("source", "fields")}

    def archive(self, sources: list[str], more: str, number: str) -> dict[str, Any]:
        """Bring an archive up to date, twice; return the results."""
        spark, folder = self.spark, self._folder / number
        archive = folder / "archive"
        shutil.rmtree(folder, ignore_errors=True)
        progress.step = self._job_step
        job.run(spark, archive, sources)
        prefix = self.prefix
        found: dict[str, Any] = {"archive": self._counted(archive / "frames")}
        found["rules"] = self._rules(archive)
        found["parquet"] = sum(path.stat().st_size for path in (archive / "frames").rglob("*.parquet"))
        rings = check_by_ring.rings_below(archive)
        path = spark_tables.uri(folder / "outcomes")
        with self.step("check, shuffled"):
            check_by_connection.outcomes(spark, rings, dict.fromkeys(rings, 2)).write.parquet(path)
        shuffled = spark.read.parquet(path)
        sums = shuffled.where("tally is not null").groupBy("tally.rule").agg({"tally.checked": "sum"}).collect()
        found["shuffled"] = {row[0]: row[1] for row in sums}
        self.prefix = f"{prefix}growth, "
        grown = folder / "grown"
        shutil.copytree(archive, grown, copy_function=os.link)
        job.run(spark, grown, [more])
        self.prefix = prefix
        found["grown"] = self._rules(grown)
        return found

    def _counted(self, folder: Path) -> list[int]:
        """Return what is compared with the truth: frames, mutations, sum of seqnos."""
        rows = self.spark.read.parquet(spark_tables.uri(folder))
        mutation = f"opcode = {MUTATION} and magic = 128"
        sums = rows.selectExpr(
            "count(*)", f"count_if({mutation})", f"coalesce(sum(case when {mutation} then by_seqno end), 0)"
        )
        return [int(value) for value in sums.collect()[0]]

    def _rules(self, archive: Path) -> dict[str, list[int]]:
        """Return of each rule how often it held and was violated, and how many findings there are."""
        summary = spark_tables.read(self.spark, archive, BY_NAME["summary"])
        rows = summary.groupBy("rule").sum("held", "violated", "findings").collect()
        return {row[0]: [row[1], row[2], row[3]] for row in rows}

    def shuffled(self) -> dict[str, int]:
        """Return the shuffled bytes of each step in all its rounds, from the event log."""
        groups: dict[int, str] = {}
        totals: dict[str, int] = {}
        for path in sorted(self._events.rglob("*")):
            for line in path.read_text(errors="replace").splitlines() if path.is_file() else ():
                if '"SparkListenerJobStart"' in line:
                    event = json.loads(line)
                    name = (event.get("Properties") or {}).get("spark.jobGroup.id", "")
                    groups.update(dict.fromkeys(event["Stage IDs"], name))
                elif '"SparkListenerTaskEnd"' in line:
                    event = json.loads(line)
                    written = ((event.get("Task Metrics") or {}).get("Shuffle Write Metrics") or {}).get(
                        "Shuffle Bytes Written", 0
                    )
                    name = groups.get(event["Stage ID"], "")
                    totals[name] = totals.get(name, 0) + written
        return totals


def measured(words: dict[str, Any], run: Callable[[Steps], dict[str, Any]]) -> dict[str, Any]:
    """Start, run, stop; return costs and findings."""
    with Meter(os.getpid()).running() as meter:
        steps = Steps(words, meter)
        steps.start()
        try:
            found = run(steps)
        finally:
            steps.spark.stop()
    for name, total in steps.shuffled().items():
        if name in steps.costs:
            steps.costs[name]["shuffled"] = total / (1 if name.startswith((SMALL, WARM_UP)) else words["rounds"])
    return {"costs": steps.costs, "found": found}


def main() -> None:
    """Run the job of the argument."""
    words: dict[str, Any] = json.loads(sys.argv[1])

    def run(steps: Steps) -> dict[str, Any]:
        job = {"read": steps.read, "archive": steps.archive}[words["job"]]
        steps.prefix = f"{SMALL}, "
        small = job(words["small"], words["broken"], SMALL)
        steps.prefix = f"{WARM_UP}, "
        job(words["warm"], words["broken"], WARM_UP)
        steps.prefix = ""
        every = [job(words["sources"], words["more"], f"round{number}") for number in range(words["rounds"])]
        if any(each != every[0] for each in every):
            raise SystemExit("the rounds did not find the same")
        return {"small": small, **every[0]}

    print(json.dumps(measured(words, run)))


if __name__ == "__main__":
    main()
