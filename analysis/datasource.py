"""The Spark data source ``upr``: ``spark.read.format("upr").load("captures/*.pcap")`` gives frames as rows.

Knows how Spark asks for partitions and batches; must not know formats or protocols. A data source can't shuffle, so
every file stands alone here, read from its beginning to its end by one task: what a connection said in the file before
is not known. With ``joined`` one task reads all files as one run. Where files are large, or connections go on from file
to file, :func:`analysis.distributed.read_frames` gives the rows of the whole run with as many tasks as there are.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from analysis.addresses import find
from analysis.arrow_map import spark_schema
from analysis.plan import begin
from analysis.reading import Mode, Reading, truth
from dissector.errors import InputError, UsageError
from dissector.frames import SCHEMA
from dissector.pipeline import FrameReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from analysis.addresses import Address

NAME = "upr"
_LOG = logging.getLogger("uprscope")


@dataclass
class Captures(InputPartition):
    """What one task reads: captures, in the order of their first packets."""

    addresses: tuple[Address, ...]

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(addresses)


class UprDataSource(DataSource):
    """Frames of captures, as rows."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` calls it."""
        return NAME

    def schema(self) -> StructType:
        """Return the frame schema in Spark's types."""
        return spark_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads."""
        if schema != self.schema():
            raise UsageError("the data source upr has a schema of its own: leave .schema(...) out")
        return UprReader(dict(self.options))


class UprReader(DataSourceReader):
    """Deals captures out to tasks, and reads them there."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self._paths = _paths(given)
        self._reading = Reading.of(given)
        self._joined = truth("joined", given.get("joined", "false"))
        if "splitbytes" in given:
            raise UsageError(
                "option splitBytes: a data source can't put connections together again; "
                "analysis.distributed.read_frames(spark, paths, Reading(split_bytes=...)) reads files in parts"
            )

    def partitions(self) -> Sequence[Captures]:
        """Return one partition per capture, or one for all."""
        if not self._joined:
            return [Captures([address]) for address in find(self._paths)]
        found, problems = begin(self._paths, self._reading.mode)
        for problem in problems:
            _LOG.warning("%s", problem.why)
        return [Captures([address for address, _ in found])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the captures of a partition."""
        if not isinstance(partition, Captures):
            raise TypeError(f"a partition of another data source: {partition!r}")
        reader = FrameReader([address.input() for address in partition.addresses], self._reading.options)
        try:
            yield from reader
        except InputError as error:
            if self._reading.mode is Mode.FAILFAST:
                raise
            _LOG.warning("%s", error)
        for damage in reader.report.damage:
            _LOG.warning("%s", damage)


def _paths(options: dict[str, str]) -> list[str]:
    """Return what ``load`` was called with: Spark hands one path on as text, several as a JSON list."""
    if "paths" in options:
        return [str(path) for path in json.loads(options["paths"])]
    if not options.get("path"):
        raise UsageError('nothing to read: spark.read.format("upr").load(path)')
    return [options["path"]]
