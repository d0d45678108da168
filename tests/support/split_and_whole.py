"""Captures read in splits and at once, side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from analysis.spark.read_options import SourceOptions
from analysis.spark.split.records import RecordKind
from tests.support.split_archives import Stitched, assert_same, decoded_at_once, decoded_in_splits, write


def read_both_ways(
    files: Sequence[bytes], reading: SourceOptions, *, partitions: int = 2, batch_rows: int = 1000
) -> Stitched:
    """Read captures in splits; the rows must be those of the single-process reader."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write(files, Path(folder))
        expected = decoded_at_once(paths, reading)
        found = decoded_in_splits(paths, reading, partitions=partitions, batch_rows=batch_rows)
    assert_same(found.frames, expected)
    fragments = pa.compute.equal(found.checkpoints["kind"], int(RecordKind.FRAGMENT))
    assert (found.numbered is None) == bool(found.fallback or pa.compute.any(fragments).as_py())
    if found.numbered is not None:
        assert_same(found.numbered, expected)
    return found
