"""Rules within connections, partitioned by connection: the checker of the command line, once per partition of a ring.

For rings that are too large for one task (``check_by_ring`` has the others). Frames are shuffled by connection and
sorted in the order of their run, so a task sees a run with some connections left out; no rule of this kind compares
connections. Spark's sort spills to disk and a checker's memory is bounded, so a single giant connection is only a long
task.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analysis.archive.packed_batches import PACKED_BATCHES, packed_frames, unpack_in_order
from analysis.archive.schema import FINDINGS
from analysis.check.checker import MAX_FINDINGS, Checker
from analysis.check.export import row_of
from analysis.rules import RULE_BY_ID, RULES
from analysis.spark.map_in_arrow import map_in_arrow, spark_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from analysis.check.findings import Tally
    from analysis.rules import Rule

    Batches = Iterator[pa.RecordBatch]
    Sources = Sequence[tuple[str, Path, int]]  #: ring, file, number of partitions

_TALLY = pa.struct(
    [
        ("rule", pa.string()),
        ("checked", pa.int64()),
        ("violated", pa.int64()),
        ("unlisted", pa.int64()),
        ("unknown", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
    ]
)
_TASKS_PER_CORE = 4  #: at most
#: A row has a finding or a task's tally of a rule; the other one is null.
OUTCOMES = pa.schema([("ring", pa.string()), ("finding", pa.struct(list(FINDINGS.schema))), ("tally", _TALLY)])


def outcomes(
    spark: SparkSession,
    rings: Mapping[str, Sequence[Path]],
    partitions: Mapping[str, int],
    rules: Sequence[Rule] = RULES,
    *,
    limit: int = MAX_FINDINGS,
) -> DataFrame:
    """Check rings, given by files and numbers of partitions; return findings and tallies, see :data:`OUTCOMES`."""
    sources = [(ring, path, partitions[ring]) for ring, paths in rings.items() for path in paths]
    most = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    numbers = spark.range(0, len(sources), 1, min(len(sources), most))
    packed = map_in_arrow(numbers, pack_task(sources), spark_schema(PACKED_BATCHES))
    # With an explicit number: otherwise Spark merges partitions that look small, as packed batches compress well.
    count = min(sum(partitions[ring] for ring in rings), most)
    ordered = packed.repartition(count, "ring", "partition").sortWithinPartitions("ring", "partition", "first_frame")
    return map_in_arrow(ordered, check_task([rule.id for rule in rules], limit), spark_schema(OUTCOMES))


def pack_task(sources: Sources) -> Callable[[Batches], Batches]:
    """Return the function of the first tasks: numbers of files in (column ``id``), packed batches out."""

    def pack(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                ring, path, partitions = sources[number]
                yield from packed_frames(path, ring, partitions)

    return pack


def check_task(rules: Sequence[str], limit: int = MAX_FINDINGS) -> Callable[[Batches], Batches]:
    """Return the function of the second tasks: packed batches by ring, partition and first frame in, outcomes out."""
    names = tuple(rules)

    def check(batches: Batches) -> Batches:
        chosen = [RULE_BY_ID[name] for name in names]
        for (ring, _), group in itertools.groupby(_packed_batches(batches), key=lambda row: row[:2]):
            checker = Checker(chosen, limit=limit)
            for frames in unpack_in_order(packed for *_, packed in group):
                checker.fold(frames)
            yield _outcomes_of(ring, checker)

    return check


def _packed_batches(batches: Batches) -> Iterator[tuple[str, int, bytes]]:
    for batch in batches:
        keys = (batch.column(name).to_pylist() for name in ("ring", "partition"))
        # One value at a time: all at once would double the memory.
        yield from zip(*keys, (value.as_py() for value in batch.column("frames")), strict=True)


def _outcomes_of(ring: str, checker: Checker) -> pa.RecordBatch:
    checker.finish()
    rows: list[dict[str, Any]] = [{"ring": ring, "finding": row_of(each), "tally": None} for each in checker.findings]
    checked = (tally for tally in checker.tallies.values() if tally.checked)
    rows += [{"ring": ring, "finding": None, "tally": _tally_row(each)} for each in checked]
    return pa.RecordBatch.from_pylist(rows, OUTCOMES)


def _tally_row(tally: Tally) -> dict[str, Any]:
    unknown = [{"reason": reason, "count": count} for reason, count in sorted(tally.unknown.items())]
    return {
        "rule": tally.rule,
        "checked": tally.checked,
        "violated": tally.violated,
        "unlisted": tally.unlisted,
        "unknown": unknown,
    }


def findings_of(outcomes: DataFrame, *, limit: int = MAX_FINDINGS) -> DataFrame:
    """Return the findings among outcomes, of each rule and ring the first ones up to the limit."""
    ranked = _ranked_findings(outcomes)
    return ranked.where(ranked["rank"] <= limit).drop("rank")


def tallies_of(outcomes: DataFrame, *, limit: int = MAX_FINDINGS) -> DataFrame:
    """Return the tallies among outcomes; findings beyond the limit are a further tally, of what is unlisted."""
    tallies = outcomes.where("tally is not null").select("ring", "tally.*")
    beyond = (
        _ranked_findings(outcomes).where(f"rank > {limit}").groupBy("ring", "rule").agg({"*": "count", "echoes": "sum"})
    )
    unlisted = beyond.selectExpr(
        "ring", "rule", "0L as checked", "0L as violated", "`count(1)` + `sum(echoes)` as unlisted"
    )
    return tallies.unionByName(unlisted, allowMissingColumns=True)


def _ranked_findings(outcomes: DataFrame) -> DataFrame:
    """Return the findings among outcomes with their rank within rule and ring."""
    from pyspark.sql import Window, functions  # noqa: PLC0415 - an optional dependency

    found = outcomes.where("finding is not null").select("finding.*", "ring")
    order = Window.partitionBy("ring", "rule").orderBy("frame", "id")
    return found.withColumn("rank", functions.row_number().over(order))
