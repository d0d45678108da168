"""Captures as one Spark data frame: the rows of the single-process reader, made by many tasks.

Knows which step of the scheme (see the package) runs in which Spark job, and how rows are repartitioned between the
jobs; the modules of the steps know nothing of Spark. A row never depends on how files were cut or rotated.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from analysis.spark.map_in_arrow import map_in_arrow, spark_schema
from analysis.spark.read_options import SourceOptions
from analysis.spark.split.conversations import ORDERED_SCHEMA
from analysis.spark.split.decode_split import SplitRecords, fallback_rows, frames_of_split, split_records
from analysis.spark.split.frame_numbers import FrameNumbers, number_frames, numbered_frames
from analysis.spark.split.plan import Plan, make_plan, walk_range
from analysis.spark.split.prescan import prescan
from analysis.spark.split.records import CHECKPOINTS, NOTES, NOTES_ORDER, RecordKind
from analysis.spark.split.segment_rows import SEGMENTS, SEGMENTS_ORDER
from analysis.spark.split.shuffled import PartitionDecoder
from analysis.spark.split.stitch import Stitcher
from dissector.capture.split import RangeScan
from dissector.frames.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from analysis.spark.split.plan import ByteRange

    Batches = Iterator[pa.RecordBatch]

_LOG = logging.getLogger("uprscope")
_WALKED = pa.schema(
    [
        ("range", pa.int64()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("packets", pa.int64()),
        ("sure", pa.bool_()),
    ]
)
#: Frames are numbered by blocks of 2 ** 16 packets; a capture has room for 2 ** 40.
_PACKET_BITS = 16


def read_frames(
    spark: SparkSession,
    paths: str | Sequence[str],
    reading: SourceOptions | None = None,
    *,
    partitions: int | None = None,
    numbered: bool = False,
) -> DataFrame:
    """Return the frames of captures, read together: connections go on from file to file.

    ``frame`` counts the frames of one conversation; with ``numbered``, those of the run. ``partitions`` is how many
    tasks stitch conversations, by default Spark's number of shuffle partitions. A run of several splits is prescanned
    by this call, and the small table of checkpoints stays in Spark's cache.
    """
    reading = reading or SourceOptions()
    plan = plan_archive(spark, paths, reading)
    for each in plan.skipped:
        _LOG.warning("%s", each.reason)
    return frames_of(spark, plan, reading, partitions=partitions, numbered=numbered)


def plan_archive(spark: SparkSession, paths: str | Sequence[str], reading: SourceOptions) -> Plan:
    """Plan a reading; Spark's tasks walk over the byte ranges of large files."""

    def walk(byte_ranges: Sequence[ByteRange]) -> list[RangeScan]:
        return _walk(spark, byte_ranges)

    return make_plan([paths] if isinstance(paths, str) else list(paths), reading, walk)


def frames_of(
    spark: SparkSession, plan: Plan, reading: SourceOptions, *, partitions: int | None = None, numbered: bool = False
) -> DataFrame:
    """Return the frames of a plan."""
    if len(plan.splits) < 2:
        whole = map_in_arrow(
            _tasks(spark, len(plan.splits)), _whole_decoder(plan, reading), spark_schema(ORDERED_SCHEMA)
        )
        return _number_by_sorting(whole) if numbered else whole
    count = partitions or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    checkpoints = checkpoints_of(spark, plan, reading, count).persist()
    apart = checkpoints.where(checkpoints["kind"].isin(int(RecordKind.FALLBACK), int(RecordKind.FRAGMENT)))
    conversations = apart.select("conversation").distinct().count()  # fragments count as one: their key is empty
    if numbered and not conversations:
        numbers = _frame_numbers(checkpoints, plan)
        return map_in_arrow(
            _by_split(checkpoints, plan), _numbering_decoder(plan, reading, numbers), spark_schema(SCHEMA)
        )
    schema = spark_schema(ORDERED_SCHEMA)
    decoded = map_in_arrow(_by_split(checkpoints, plan), _split_decoder(plan, reading), schema)
    if not conversations:
        return decoded
    _LOG.info("%d connections can't be stitched: their segments are shuffled", conversations)
    segments = map_in_arrow(_by_split(apart, plan), _fallback_reader(plan, count), spark_schema(SEGMENTS))
    shuffled = segments.repartition(count, "partition").sortWithinPartitions(*SEGMENTS_ORDER)
    both = decoded.union(map_in_arrow(shuffled, _partition_decoder(plan, count, reading), schema))
    return _number_by_sorting(both) if numbered else both


def checkpoints_of(spark: SparkSession, plan: Plan, reading: SourceOptions, partitions: int) -> DataFrame:
    """Prescan and stitch; return the checkpoints of every split (``CHECKPOINTS``), at least one row each."""
    notes = map_in_arrow(_tasks(spark, len(plan.splits)), _prescanner(plan, reading, partitions), spark_schema(NOTES))
    shuffled = notes.repartition(partitions, "partition").sortWithinPartitions(*NOTES_ORDER)
    return map_in_arrow(shuffled, _stitcher(partitions, reading), spark_schema(CHECKPOINTS))


def _frame_numbers(checkpoints: DataFrame, plan: Plan) -> FrameNumbers:
    """Return the numbers of each split's frames in the run, from the counts of stitching."""
    kind = checkpoints["kind"]
    rows = (
        checkpoints.where(kind.isin(int(RecordKind.FRAME_COUNT), int(RecordKind.END_COUNT)))
        .select("split", "kind", "body")
        .collect()
    )
    return number_frames(len(plan.splits), [(row["split"], row["kind"], bytes(row["body"])) for row in rows])


def _number_by_sorting(frames: DataFrame) -> DataFrame:
    """Number frames without counts, in the order in which they were complete; reads ``frames`` twice."""
    from pyspark.sql import Window, functions  # noqa: PLC0415 - an optional dependency

    packet_block = functions.shiftright("released", _PACKET_BITS).alias("packet_block")
    # One row per 65536 packets: few enough for one task.
    earlier = Window.orderBy("packet_block").rowsBetween(Window.unboundedPreceding, -1)
    counts = frames.groupBy(packet_block).count()
    so_far = functions.coalesce(functions.sum("count").over(earlier), functions.lit(0))
    before = counts.select("packet_block", so_far.alias("before"))
    within = Window.partitionBy("packet_block").orderBy("released", "frame")
    ranked = frames.withColumn("packet_block", packet_block).withColumn("within", functions.row_number().over(within))
    number = (functions.col("before") + functions.col("within")).cast("long")
    return ranked.join(functions.broadcast(before), "packet_block").withColumn("frame", number).select(*SCHEMA.names)


def _tasks(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers below ``count``, each in a task of its own."""
    return spark.range(0, count, 1, numPartitions=max(count, 1))


def _by_split(checkpoints: DataFrame, plan: Plan) -> DataFrame:
    """Give every split a task of its own, as far as this version of Spark can."""
    count = len(plan.splits)
    if hasattr(checkpoints, "repartitionById"):
        shuffled = checkpoints.repartitionById(count, checkpoints["split"].cast("int"))
    else:
        shuffled = checkpoints.repartition(count, "split")
    return shuffled.sortWithinPartitions("split")


def _whole_decoder(plan: Plan, reading: SourceOptions) -> Callable[[Batches], Batches]:
    def decode(tasks: Batches) -> Batches:
        for batch in tasks:
            for index in batch.column(0).to_pylist():
                records = SplitRecords(index, whole_run=True)
                yield from frames_of_split(plan.splits[index], records, plan.captures, reading.options)

    return decode


def _prescanner(plan: Plan, reading: SourceOptions, partitions: int) -> Callable[[Batches], Batches]:
    def look(tasks: Batches) -> Batches:
        for batch in tasks:
            for index in batch.column(0).to_pylist():
                yield from prescan(index, plan.splits[index], reading.options, partitions)

    return look


def _stitcher(partitions: int, reading: SourceOptions) -> Callable[[Batches], Batches]:
    def stitch(rows: Batches) -> Batches:
        yield from Stitcher(partitions, reading.options).stitch(rows)

    return stitch


def _split_decoder(plan: Plan, reading: SourceOptions) -> Callable[[Batches], Batches]:
    def decode(rows: Batches) -> Batches:
        for records in split_records(rows):
            yield from frames_of_split(plan.splits[records.number], records, plan.captures, reading.options)

    return decode


def _numbering_decoder(plan: Plan, reading: SourceOptions, numbers: FrameNumbers) -> Callable[[Batches], Batches]:
    def decode(rows: Batches) -> Batches:
        for records in split_records(rows):
            yield from numbered_frames(plan.splits[records.number], records, numbers, plan.captures, reading.options)

    return decode


def _fallback_reader(plan: Plan, partitions: int) -> Callable[[Batches], Batches]:
    def read(rows: Batches) -> Batches:
        for records in split_records(rows):
            yield from fallback_rows(plan.splits[records.number], records, partitions)

    return read


def _partition_decoder(plan: Plan, partitions: int, reading: SourceOptions) -> Callable[[Batches], Batches]:
    def decode(rows: Batches) -> Batches:
        yield from PartitionDecoder(plan.captures, partitions, reading.options).decode(rows)

    return decode


def _walk(spark: SparkSession, byte_ranges: Sequence[ByteRange]) -> list[RangeScan]:
    """Walk over byte ranges, each in a task of its own."""
    if not byte_ranges:
        return []
    wanted = list(byte_ranges)

    def walk(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in tasks:
            for index in batch.column(0).to_pylist():
                found = walk_range(wanted[index])
                row = (index, found.first, found.last, found.packets, found.sure)
                yield pa.RecordBatch.from_pylist([dict(zip(_WALKED.names, row, strict=True))], schema=_WALKED)

    rows = map_in_arrow(_tasks(spark, len(wanted)), walk, spark_schema(_WALKED)).collect()
    by_range = {row["range"]: row for row in rows}
    found = [by_range[index] for index in range(len(wanted))]
    return [RangeScan(row["first"], row["last"], row["packets"], row["sure"]) for row in found]
