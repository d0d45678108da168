"""Order-local rules in Spark: the checker of the command line, once per task and ring, fed batch by batch.

Frames are brought together by connection and put into the order of their run; what a task gets of a ring is then a run
with some connections left out, and no rule of this kind looks from one connection at another. Nothing is collected:
Spark's sort spills to disk, and the checker's memory is bounded, so a single giant connection is only a long task.
Must not know where frames come from, nor any rule.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from analysis.archive.tables import FINDINGS
from analysis.arrow_map import map_in_arrow, spark_schema
from analysis.checker import MAX_FINDINGS, Checker
from analysis.context import COLUMNS
from analysis.formats import row_of
from analysis.rules import RULE_BY_ID, RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from analysis.findings import Tally
    from analysis.rules import Rule

    Batches = Iterator[pa.RecordBatch]

_TALLY = pa.struct(
    [
        ("rule", pa.string()),
        ("checked", pa.int64()),
        ("violated", pa.int64()),
        ("unlisted", pa.int64()),
        ("unknown", pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))),
    ]
)
#: A row is a finding or a task's tally of a rule; the other one is null.
OUTCOMES = pa.schema([("ring", pa.string()), ("finding", pa.struct(list(FINDINGS.schema))), ("tally", _TALLY)])


def outcomes(frames: DataFrame, rules: Sequence[Rule] = RULES, *, limit: int = MAX_FINDINGS) -> DataFrame:
    """Check frames that have a column ``ring``; return findings and tallies, see :data:`OUTCOMES`."""
    wanted = frames.select("ring", *sorted(COLUMNS))
    ordered = wanted.repartition("ring", "connection").sortWithinPartitions("ring", "frame")
    return map_in_arrow(ordered, checks([rule.id for rule in rules], limit), spark_schema(OUTCOMES))


def checks(rules: Sequence[str], limit: int = MAX_FINDINGS) -> Callable[[Batches], Batches]:
    """Return what a task does: frames sorted by ring and number in, outcomes out."""
    names = tuple(rules)

    def check(batches: Batches) -> Batches:
        chosen = [RULE_BY_ID[name] for name in names]
        ring: str | None = None
        checker: Checker | None = None
        for batch in batches:
            for name, part in parts(batch):
                if checker is None or name != ring:
                    if checker is not None:
                        yield _finished(ring, checker)
                    ring, checker = name, Checker(chosen, limit=limit)
                checker.fold(part)
        if checker is not None:
            yield _finished(ring, checker)

    return check


def parts(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Cut a batch that is sorted by ring at the rings' bounds."""
    encoded = batch.column("ring").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for begin, end in itertools.pairwise(bounds):
        if end > begin:
            yield encoded.dictionary[codes[begin]].as_py(), batch.slice(begin, end - begin)


def _finished(ring: str | None, checker: Checker) -> pa.RecordBatch:
    checker.finish()
    rows: list[dict[str, Any]] = [{"ring": ring, "finding": row_of(each), "tally": None} for each in checker.findings]
    told = (tally for tally in checker.tallies.values() if tally.checked)
    rows += [{"ring": ring, "finding": None, "tally": _tally(each)} for each in told]
    return pa.RecordBatch.from_pylist(rows, OUTCOMES)


def _tally(tally: Tally) -> dict[str, Any]:
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
    from pyspark.sql import Window, functions  # noqa: PLC0415 - an optional dependency

    found = outcomes.where("finding is not null").select("finding.*", "ring")
    order = Window.partitionBy("ring", "rule").orderBy("frame", "id")
    placed = found.withColumn("place", functions.row_number().over(order))
    return placed.where(placed["place"] <= limit).drop("place")
