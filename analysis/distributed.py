"""An archive of captures as one Spark data frame: the rows of the single-process reader, made by many tasks.

Knows which work goes where; must not know how any of it is done. Ranges of large files are walked over to find where
to cut (``plan``), each part becomes segment rows (``segment_rows``), those are sorted by connection, and whole
connections are decoded (``shares``). What a row says never depends on how files were cut or rotated.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from analysis.arrow_map import map_in_arrow, spark_schema
from analysis.plan import Plan, make_plan, walk_stretch
from analysis.reading import Reading
from analysis.segment_rows import ORDER, SEGMENTS, rows_of_part
from analysis.shares import ORDERED_SCHEMA, ShareDecoder
from dissector.capture.ranges import Walked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from analysis.plan import Stretch

_LOG = logging.getLogger("uprscope")
_WALKED = pa.schema(
    [
        ("stretch", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("packets", pa.int64()),
        ("sure", pa.bool_()),
    ]
)
#: Frames are numbered by stretches of so many packets; a capture has room for 2 ** 40.
_PACKET_BITS = 16


def read_frames(
    spark: SparkSession, paths: str | Sequence[str], reading: Reading | None = None, *, shares: int | None = None
) -> DataFrame:
    """Return the frames of captures, read together: connections go on from file to file.

    ``frame`` counts the frames of one pair of addresses and ports; :func:`numbered` counts those of the run. ``shares``
    is how many tasks decode, Spark's number of shuffle partitions if not given.
    """
    reading = reading or Reading()
    plan = plan_archive(spark, paths, reading)
    for problem in plan.problems:
        _LOG.warning("%s", problem.why)
    return frames_of(spark, plan, reading, shares=shares)


def plan_archive(spark: SparkSession, paths: str | Sequence[str], reading: Reading) -> Plan:
    """Lay out a reading; the ranges of large files are walked over by Spark's tasks."""

    def walk(stretches: Sequence[Stretch]) -> list[Walked]:
        return _walk(spark, stretches)

    return make_plan([paths] if isinstance(paths, str) else list(paths), reading, walk)


def frames_of(spark: SparkSession, plan: Plan, reading: Reading, *, shares: int | None = None) -> DataFrame:
    """Return the frames of a plan."""
    count = shares or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    segments = map_in_arrow(_tasks(spark, len(plan.pieces)), _reader(plan, count), spark_schema(SEGMENTS))
    dealt = segments.repartition(count, "share").sortWithinPartitions(*ORDER)
    return map_in_arrow(dealt, _decoder(plan.captures, count, reading), spark_schema(ORDERED_SCHEMA))


def numbered(frames: DataFrame) -> DataFrame:
    """Number frames over the whole run, from 1, in the order they were complete; reads ``frames`` twice."""
    from pyspark.sql import Window, functions  # noqa: PLC0415 - an optional dependency

    stretch = functions.shiftright("released", _PACKET_BITS).alias("stretch")
    # One row per 65536 packets: few enough for one task.
    earlier = Window.orderBy("stretch").rowsBetween(Window.unboundedPreceding, -1)
    counts = frames.groupBy(stretch).count()
    so_far = functions.coalesce(functions.sum("count").over(earlier), functions.lit(0))
    before = counts.select("stretch", so_far.alias("before"))
    within = Window.partitionBy("stretch").orderBy("released", "frame")
    ranked = frames.withColumn("stretch", stretch).withColumn("within", functions.row_number().over(within))
    number = (functions.col("before") + functions.col("within")).cast("long")
    return ranked.join(functions.broadcast(before), "stretch").withColumn("frame", number).select(*ORDERED_SCHEMA.names)


def _tasks(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers below ``count``, each in a task of its own."""
    return spark.range(0, count, 1, numPartitions=max(count, 1))


def _reader(plan: Plan, shares: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    pieces = plan.pieces

    def read(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in tasks:
            for index in batch.column(0).to_pylist():
                piece = pieces[index]
                yield from rows_of_part(piece.address, piece.part, piece.capture, shares)

    return read


def _decoder(
    captures: Sequence[str], shares: int, reading: Reading
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from ShareDecoder(captures, shares, reading.options).decode(rows)

    return decode


def _walk(spark: SparkSession, stretches: Sequence[Stretch]) -> list[Walked]:
    """Walk over ranges, each in a task of its own."""
    if not stretches:
        return []
    wanted = list(stretches)

    def walk(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in tasks:
            for index in batch.column(0).to_pylist():
                found = walk_stretch(wanted[index])
                row = (index, found.first, found.last, found.packets, found.sure)
                yield pa.RecordBatch.from_pylist([dict(zip(_WALKED.names, row, strict=True))], schema=_WALKED)

    rows = map_in_arrow(_tasks(spark, len(wanted)), walk, spark_schema(_WALKED)).collect()
    by_stretch = {row["stretch"]: row for row in rows}
    found = [by_stretch[index] for index in range(len(wanted))]
    return [Walked(row["first"], row["last"], row["packets"], row["sure"]) for row in found]
