"""Rules within connections, ring by ring: a task reads a ring's frames from Parquet, checks them and writes findings.

Like the command line, in a task: nothing is shuffled. A task checks a whole ring, so a large ring would keep the other
cores waiting: :func:`whole_or_partitioned` separates these, whose connections are partitioned
(``check_by_connection``). Readers ignore the files of a task until the driver publishes them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from analysis.archive import rule_summary
from analysis.archive.ordered_frames import frames_in_order
from analysis.archive.part_files import PartFiles, publish
from analysis.archive.schema import FINDINGS, FRAMES, SUMMARY
from analysis.check.checker import MAX_FINDINGS, Checker
from analysis.check.export import row_of
from analysis.context import COLUMNS
from analysis.rules import RULES
from analysis.spark.map_in_arrow import map_in_arrow, spark_schema
from dissector.summary.schema import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    Batches = Iterator[pa.RecordBatch]
    #: Files with the frames of each ring.
    Rings = Mapping[str, Sequence[Path]]

#: A ring of up to this many bytes of Parquet is always one task: about two million frames.
_ONE_TASK_BYTES = 128 << 20
_FILES = pa.schema([("file", pa.string())])


def rings_below(folder: Path) -> dict[str, list[Path]]:
    """Return the files with frames below a folder, by ring."""
    found: dict[str, list[Path]] = {}
    for path in sorted((folder / FRAMES.name).rglob("ring=*/*.parquet")):
        if not path.name.startswith(("_", ".")):
            found.setdefault(path.parent.name.removeprefix("ring="), []).append(path)
    return found


def whole_or_partitioned(rings: Rings, cores: int) -> tuple[list[str], dict[str, int]]:
    """Return the rings for one task each, largest first; and the larger rings with their number of partitions.

    A ring is too large for one task if it would keep a core busy for more than half the time that all cores need for
    all rings.
    """
    sizes = {name: sum(path.stat().st_size for path in files) for name, files in rings.items()}
    most = max(_ONE_TASK_BYTES, sum(sizes.values()) // (2 * max(cores, 1)))
    ordered = sorted(sizes, key=lambda name: (-sizes[name], name))
    # Twice as many as needed: connections differ in size, so partitions do.
    partitions = {name: 2 * -(-sizes[name] // max(most, 1)) for name in ordered if sizes[name] > most}
    return [name for name in ordered if name not in partitions], partitions


def check_rings(spark: SparkSession, folder: Path, rings: Rings, names: Sequence[str]) -> None:
    """Check rings, largest first; findings and summary go below the folder."""
    if not names:
        return
    tasks = min(len(names), 4 * spark.sparkContext.defaultParallelism)
    # Rings are sorted by size and a task gets neighbours, so interleave large and small ones.
    order = [name for task in range(tasks) for name in names[task::tasks]]
    shared = spark.sparkContext.broadcast([(name, list(rings[name])) for name in order])
    numbers = spark.range(0, len(order), 1, tasks)
    done = map_in_arrow(numbers, check_task(folder, lambda: shared.value), spark_schema(_FILES)).collect()
    for row in done:
        publish(folder, row["file"])
    shared.destroy()


def check_task(folder: Path, rings: Callable[[], Sequence[tuple[str, Sequence[Path]]]]) -> Callable[[Batches], Batches]:
    """Return the function of a task: numbers of rings in (column ``id``), names of files out."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pydict({"file": check_ring(folder, *rings()[number])}, _FILES)

    return run


def check_ring(folder: Path, ring: str, files: Sequence[Path], limit: int = MAX_FINDINGS) -> list[str]:
    """Check a ring; return the names of the files with findings and summary."""
    checker = Checker(RULES, limit=limit)
    for batch in frames_in_order(files, sorted(COLUMNS)):
        checker.fold(batch)
    checker.finish()
    parts = PartFiles(folder, ring, uuid.uuid4().hex[:12])
    parts.write(FINDINGS, table_of([row_of(finding) for finding in checker.findings], FINDINGS.columns))
    kept = Counter(finding.rule for finding in checker.findings)
    summary = [rule_summary.summary_row(tally, kept[rule]) for rule, tally in checker.tallies.items() if tally.checked]
    parts.write(SUMMARY, table_of(summary, SUMMARY.columns))
    return parts.close()
