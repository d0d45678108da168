"""Frames on their way to the task that checks their connection: record batches as single values, not as rows of Spark.

A row of Spark with sixty columns costs many times what checking it does; a packed is one row for thousands of frames.
Knows how frames are dealt out by connection and put in order again; must not know Spark nor rules.
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

#: What a checker reads of frames.
CHECKED_FRAMES = pa.schema([SCHEMA.field(name) for name in sorted(COLUMNS)])
#: A row stands for frames of one share of a ring's connections, in order; ``frames`` is a record batch.
PACKED_BATCHES = pa.schema(
    [("ring", pa.string()), ("partition", pa.int32()), ("first_frame", pa.int64()), ("frames", pa.binary())]
)
#: Rows that are dealt out at a time. A packed has a fixed cost, so it should hold hundreds of frames.
_PACKED_ROWS = 512
_READ_ROWS = 32_768, 131_072
#: Less than half a megabyte of frames: what is larger, Java's collector puts into regions of its own, and with a small
#: heap and some sorted runs at once there are soon none left.
_MAX_PACKED_ROWS = 1024


def packed_frames(path: Path, ring: str, partitions: int, rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Read a file of a ring's frames, so many rows at a time, and deal them out by connection."""
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
    """Make one value of frames with the columns :data:`CHECKED_FRAMES`."""
    value: bytes = pa.RecordBatch.from_arrays(batch.columns, schema=CHECKED_FRAMES).serialize().to_pybytes()
    return value


def unpack_in_order(packed: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """Unpack packed of one share, which come by their first frames; give out frames by their numbers."""
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
    """Put batches in order that begin in order; where files of neighbouring days overlap, so do they."""
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
