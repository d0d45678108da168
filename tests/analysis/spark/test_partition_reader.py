"""A capture in partitions: whichever way, together they have the rows of the single-process reader."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from analysis.spark.partition_reader import PartitionReader
from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions
from dissector.tcp.limits import Limits
from tests.support.split_archives import archives, write


def read_partitions(paths: Sequence[str], options: ReadOptions, partitions: int) -> list[pa.Table]:
    """Read captures once for every partition."""
    inputs = [Input.of(path) for path in paths]
    return [
        pa.Table.from_batches(PartitionReader(inputs, options, each, partitions), SCHEMA) for each in range(partitions)
    ]


@given(archives(), st.integers(2, 5), st.sampled_from([1 << 10, 1 << 14, 1 << 20]), st.booleans())
def test_partitions_make_up_the_whole(files: list[bytes], partitions: int, chunk: int, crowded: bool) -> None:
    """Rows are the same in every column; with tight limits, those that all connections share are reached."""
    limits = Limits(connections=2, out_of_order_total=900, partial_total=900) if crowded else Limits()
    options = ReadOptions(values=True, chunk_bytes=chunk, limits=limits)
    with tempfile.TemporaryDirectory() as folder:
        paths = write(files, Path(folder))
        expected = pa.Table.from_batches(FrameReader([Input.of(path) for path in paths], options), SCHEMA)
        parts = read_partitions(paths, options, partitions)
    assert pa.concat_tables(parts).sort_by("frame").to_pylist() == expected.to_pylist()
    for part in parts:
        numbers = part.column("frame").to_pylist()
        assert numbers == sorted(numbers)
    seen = [name for part in parts for name in set(part.column("connection").to_pylist())]
    assert len(seen) == len(set(seen)), "a connection is in one partition"


def test_columns_that_are_left_out(repo_root: Path) -> None:
    """A reader of a few columns gets them, with frame numbers or without."""
    path = str(repo_root / "captures" / "09_feed_real_consumer.pcap")
    for wanted in ({"name", "connection"}, {"frame", "name"}):
        options = ReadOptions(columns=frozenset(wanted))
        expected = pa.Table.from_batches(FrameReader([Input.of(path)], options)).to_pylist()
        found = [
            row
            for partition in range(3)
            for batch in PartitionReader([Input.of(path)], options, partition, 3)
            for row in batch.to_pylist()
        ]
        assert len(found) == len(expected) > 100
        assert sorted(map(str, found)) == sorted(map(str, expected))
