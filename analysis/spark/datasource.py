"""The Spark data source ``upr``: ``spark.read.format("upr").load("captures/*.pcap")`` gives frames as rows.

Knows how Spark asks for partitions and batches. Every file is a run of its own, unless ``joined`` makes one run of all
files. The tasks of a data source can't shuffle: a run larger than ``splitBytes`` is read by several tasks, each from
the beginning to the end, and each makes rows of the connections in its partition only. The rows are the same,
``frame`` too. :mod:`analysis.spark.split` reads every byte about twice instead, with as many tasks as there are
splits. Spark doesn't tell a data source which columns a query needs, and handing a column to Spark costs more than
decoding it, so the option ``columns`` selects columns.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from analysis.spark.capture_order import captures_in_order
from analysis.spark.map_in_arrow import spark_schema
from analysis.spark.partition_reader import PartitionReader
from analysis.spark.read_options import Mode, SourceOptions, parse_bool
from analysis.spark.storage import file_sizes, find_files
from dissector.errors import InputError, UsageError
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from analysis.spark.storage import Location

NAME = "upr"
#: Every partition reads all of the captures: more of them only means more reading.
MAX_PARTITIONS = 16
#: A smaller run is one partition. Larger than the default of ``read_options``: every partition reads the whole run,
#: which pays only where there are fewer files than cores.
SPLIT_BYTES = 1 << 30
_LOG = logging.getLogger("uprscope")


@dataclass
class CapturePartition(InputPartition):
    """What one task reads: captures, in the order of their first packets, and which partition of their connections."""

    addresses: tuple[Location, ...]
    index: int
    count: int

    def __init__(self, addresses: Sequence[Location], index: int = 0, count: int = 1) -> None:
        self.addresses = tuple(addresses)
        self.index = index
        self.count = count


class UprDataSource(DataSource):
    """Frames of captures, as rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Return the frame schema in Spark's types, or the chosen columns of it."""
        chosen = _chosen_columns(self.options)
        return spark_schema(pa.schema([field for field in SCHEMA if chosen is None or field.name in chosen]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        if schema != self.schema():
            raise UsageError(
                "the data source upr has a schema of its own: .option('columns', ...) chooses, not .schema(...)"
            )
        return UprReader(dict(self.options))


class UprReader(DataSourceReader):
    """Lists the partitions of captures, and reads one in a task."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self._paths = _paths(given)
        self._reading = SourceOptions.of({"splitbytes": str(SPLIT_BYTES), **given}, ("joined", "columns"))
        self._options = replace(self._reading.options, columns=_chosen_columns(given))
        self._joined = parse_bool("joined", given.get("joined", "false"))

    def partitions(self) -> Sequence[CapturePartition]:
        """Return the partitions of every capture, or of all captures together."""
        if not self._joined:
            runs = [[address] for address in find_files(self._paths)]
        else:
            found, skipped = captures_in_order(self._paths, self._reading.mode)
            for each in skipped:
                _LOG.warning("%s", each.reason)
            runs = [[address for address, _ in found]]
        size = iter(file_sizes([address for run in runs for address in run]))
        return [part for run in runs for part in self._partitions_of(run, sum(next(size) for _ in run))]

    def _partitions_of(self, run: Sequence[Location], size: int) -> list[CapturePartition]:
        count = min(max(-(-size // self._reading.split_bytes), 1), MAX_PARTITIONS)
        return [CapturePartition(run, index, count) for index in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the captures of a partition."""
        if not isinstance(partition, CapturePartition):
            raise TypeError(f"a partition of another data source: {partition!r}")
        inputs = [address.input() for address in partition.addresses]
        if partition.count == 1:
            reader = FrameReader(inputs, self._options)
        else:
            reader = PartitionReader(inputs, self._options, partition.index, partition.count)
        try:
            yield from reader
        except InputError as error:
            if self._reading.mode is Mode.FAILFAST:
                raise
            self._warn(partition, error)
        for damage in reader.report.damage:
            self._warn(partition, damage)

    @staticmethod
    def _warn(partition: CapturePartition, what: object) -> None:
        """Log what is wrong with a file once, not in every partition that reads it."""
        if partition.index == 0:
            _LOG.warning("%s", what)


def _chosen_columns(options: Mapping[str, str]) -> frozenset[str] | None:
    """Return the columns that were asked for; None: all."""
    given = {name.lower(): value for name, value in options.items()}
    return frozenset(columns_of(given["columns"], "option columns")) if "columns" in given else None


def _paths(options: dict[str, str]) -> list[str]:
    """Return the arguments of ``load``: Spark hands one path on as text, several as a JSON list."""
    if "paths" in options:
        return [str(path) for path in json.loads(options["paths"])]
    if not options.get("path"):
        raise UsageError('nothing to read: spark.read.format("upr").load(path)')
    return [options["path"]]
