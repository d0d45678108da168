"""A ring's frames from its Parquet files, in the order of their run, in batches of a good size for the checker.

Knows that every file is in order and that files of neighbouring days may overlap. Holds one batch of each file that is
being read; a file is opened when its first frame is next.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Batches = Iterator[pa.RecordBatch]

#: Below this size a checker's cost for a batch hardly depends on the size.
BATCH_ROWS = 32_768
_BATCH_BYTES = 32 << 20


def frames_in_order(paths: Sequence[Path], columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
    """Read some columns of files, ``frame`` among them."""
    yield from merge_small_batches(_merge_by_frame(paths, columns, rows), rows)


def merge_small_batches(batches: Iterable[pa.RecordBatch], rows: int = BATCH_ROWS) -> Batches:
    """Concatenate small batches, up to a number of rows and of bytes; large ones are left as they are."""
    pending: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        if pending and (count + batch.num_rows > rows or size + batch.nbytes > _BATCH_BYTES):
            yield pa.concat_batches(pending)
            pending, count, size = [], 0, 0
        pending.append(batch)
        count += batch.num_rows
        size += batch.nbytes
    if pending:
        yield pa.concat_batches(pending)


def _merge_by_frame(paths: Sequence[Path], columns: Sequence[str], rows: int) -> Batches:
    """Yield the rows of all files by number: from the file with the lowest next one, up to the next file's."""
    waiting = sorted(((_first_frame(path), path) for path in paths), reverse=True)
    reading: list[tuple[int, int, _PartSource]] = []
    while waiting or reading:
        while waiting and (not reading or waiting[-1][0] <= reading[0][0]):
            _, path = waiting.pop()
            _push(reading, _PartSource(path, columns, rows), len(waiting))
        if not reading:
            continue
        _, number, source = heapq.heappop(reading)
        turns = [entry[0] for entry in reading[:1]] + [entry[0] for entry in waiting[-1:]]
        yield source.take(min(turns, default=None))
        _push(reading, source, number)


def _push(reading: list[tuple[int, int, _PartSource]], source: _PartSource, number: int) -> None:
    if source.next_frame is not None:
        heapq.heappush(reading, (source.next_frame, number, source))


class _PartSource:
    """One file, and how far it has been read."""

    def __init__(self, path: Path, columns: Sequence[str], rows: int) -> None:
        self._path = path
        # A task has one core; pyarrow would take all of them.
        self._batches = pq.ParquetFile(path).iter_batches(rows, columns=list(columns), use_threads=False)
        self._batch: pa.RecordBatch | None = None
        self._frames: NDArray[np.int64] = np.zeros(0, np.int64)  #: numbers of its frames
        self._last = -1
        self._advance()

    @property
    def next_frame(self) -> int | None:
        """Return the number of the next frame; None: the file is read."""
        return None if self._batch is None else int(self._frames[0])

    def take(self, until: int | None) -> pa.RecordBatch:
        """Return the rows in memory with numbers below ``until``, at least one row."""
        if self._batch is None:
            raise ValueError(f"{self._path}: has no more frames")
        batch = self._batch
        count = batch.num_rows if until is None else max(1, int(np.searchsorted(self._frames, until)))
        if count == batch.num_rows:
            self._advance()
        else:
            self._batch, self._frames = batch.slice(count), self._frames[count:]
        return batch.slice(0, count)

    def _advance(self) -> None:
        self._batch = next((batch for batch in self._batches if batch.num_rows), None)
        if self._batch is None:
            return
        self._frames = self._batch.column("frame").to_numpy()
        if self._frames[0] <= self._last or (np.diff(self._frames) <= 0).any():
            raise ValueError(f"{self._path}: frames are not in the order of their numbers")
        self._last = int(self._frames[-1])


def _first_frame(path: Path) -> int:
    """Return the number of a file's first frame, from its footer if it has statistics."""
    with pq.ParquetFile(path) as file:
        if not file.metadata.num_rows:
            return 0
        group = file.metadata.row_group(0)
        columns = (group.column(number) for number in range(group.num_columns))
        frame = next(column for column in columns if column.path_in_schema == "frame")
        if frame.is_stats_set and frame.statistics.has_min_max:
            return int(frame.statistics.min)
        return int(next(file.iter_batches(1, columns=["frame"])).column(0)[0].as_py())
