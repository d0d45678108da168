"""Order-local rules by ring: a task reads a ring's frames where they lie, checks them, and writes what it found.

What the command line does, in a task; nothing is sent around, so it costs little more. Its unit is the ring, therefore
it is for rings that keep no core waiting: :func:`whole_or_partitioned` tells them from those whose connections have to be
shared out
(``checking``). Files have names that readers pass over until the driver knows that the task counts. Must not know Spark
beyond tasks, nor any rule.
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

#: A ring of so many bytes of Parquet is nobody's long wait: about two million frames.
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
    """Return rings that are checked whole, largest first; and those whose connections are shared out, by how many.

    Too large for one task is what would keep one core busy for more than half the time that all of them need together.
    """
    sizes = {name: sum(path.stat().st_size for path in files) for name, files in rings.items()}
    most = max(_ONE_TASK_BYTES, sum(sizes.values()) // (2 * max(cores, 1)))
    ordered = sorted(sizes, key=lambda name: (-sizes[name], name))
    # Twice as many as it takes: connections are not equal, and shares are not either.
    partitions = {name: 2 * -(-sizes[name] // max(most, 1)) for name in ordered if sizes[name] > most}
    return [name for name in ordered if name not in partitions], partitions


def check_rings(spark: SparkSession, folder: Path, rings: Rings, names: Sequence[str]) -> None:
    """Check rings, largest first; findings and summary go below the folder."""
    if not names:
        return
    tasks = min(len(names), 4 * spark.sparkContext.defaultParallelism)
    # Whoever comes first is largest, and a task gets neighbours: deal them out like cards.
    order = [name for task in range(tasks) for name in names[task::tasks]]
    shared = spark.sparkContext.broadcast([(name, list(rings[name])) for name in order])
    numbers = spark.range(0, len(order), 1, tasks)
    done = map_in_arrow(numbers, check_task(folder, lambda: shared.value), spark_schema(_FILES)).collect()
    for row in done:
        publish(folder, row["file"])
    shared.destroy()


def check_task(folder: Path, rings: Callable[[], Sequence[tuple[str, Sequence[Path]]]]) -> Callable[[Batches], Batches]:
    """Return what a task does: numbers of rings in (a column ``id``), names of files out."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pydict({"file": check_ring(folder, *rings()[number])}, _FILES)

    return run


def check_ring(folder: Path, ring: str, files: Sequence[Path], limit: int = MAX_FINDINGS) -> list[str]:
    """Check a ring; return the names of the files that say what was found."""
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
