"""Packed batches: record batches of frames as single values, shuffled to the tasks that check their connections.

A Spark row with sixty columns costs many times the check of it; a packed batch is one row for hundreds or thousands of
frames. Knows how frames are partitioned by connection and put in order again.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.archive.ordered_frames import merge_small_batches
from analysis.context import COLUMNS
from analysis.spark.partitioning import partition_of
from dissector.arrow import encoded
from dissector.frames.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: The columns that a checker reads.
CHECKED_FRAMES = pa.schema([SCHEMA.field(name) for name in sorted(COLUMNS)])
#: A row has frames of one partition of a ring's connections, in order; ``frames`` is a serialized record batch.
PACKED_BATCHES = pa.schema(
    [("ring", pa.string()), ("partition", pa.int32()), ("first_frame", pa.int64()), ("frames", pa.binary())]
)
#: Rows of a packed batch on average: it has a fixed cost, so it should hold hundreds of frames.
_PACKED_ROWS = 512
#: Rows that are read and partitioned at a time, at least and at most.
_READ_ROWS = 32_768, 131_072
#: Less than half a megabyte of frames: larger objects get regions of their own from Java's garbage collector, and a
#: small heap with several sorted runs has few of them.
_MAX_PACKED_ROWS = 1000


def packed_frames(path: Path, ring: str, partitions: int, rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Read a file of a ring's frames, ``rows`` at a time, and partition them by connection into packed batches."""
    rows = rows or min(max(_PACKED_ROWS * partitions, _READ_ROWS[0]), _READ_ROWS[1])
    for batch in pq.ParquetFile(path).iter_batches(rows, columns=CHECKED_FRAMES.names, use_threads=False):
        made = [
            {
                "ring": ring,
                "partition": partition,
                "first_frame": part.column("frame")[0].as_py(),
                "frames": pack_batch(part),
            }
            for partition, part in _partition_batch(batch, partitions)
        ]
        yield pa.RecordBatch.from_pylist(made, PACKED_BATCHES)


def pack_batch(batch: pa.RecordBatch) -> bytes:
    """Serialize frames with the columns :data:`CHECKED_FRAMES`."""
    value: bytes = pa.RecordBatch.from_arrays(batch.columns, schema=CHECKED_FRAMES).serialize().to_pybytes()
    return value


def unpack_in_order(packed: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """Unpack batches of one partition, sorted by their first frames; yield frames in the order of their numbers."""
    yield from merge_small_batches(_merge_by_frame(map(_unpack_batch, packed)))


def _partition_batch(batch: pa.RecordBatch, partitions: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    names, codes = encoded(batch.column("connection"))
    place = np.array([partition_of(name.encode(), partitions) for name in names.to_pylist()], np.int32)[codes]
    order = np.argsort(place, kind="stable")
    sorted_batch, place = batch.take(pa.array(order)), place[order]
    bounds = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(place)]
    for begin, end in itertools.pairwise(bounds):
        for at in range(begin, end, _MAX_PACKED_ROWS):
            yield int(place[begin]), sorted_batch.slice(at, min(end - at, _MAX_PACKED_ROWS))


def _merge_by_frame(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put batches in order that begin in order; batches of neighbouring days may overlap."""
    pending: pa.RecordBatch | None = None
    for batch in batches:
        if pending is not None:
            numbers = pending.column("frame").to_numpy()
            ready = int(np.searchsorted(numbers, batch.column("frame")[0].as_py()))
            if ready:
                yield pending.slice(0, ready)
            if ready < len(numbers):
                both = pa.concat_batches([pending.slice(ready), batch])
                batch = both.take(pa.array(np.argsort(both.column("frame").to_numpy(), kind="stable")))  # noqa: PLW2901
        pending = batch
    if pending is not None:
        yield pending


def _unpack_batch(packed: bytes) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(packed), CHECKED_FRAMES)
