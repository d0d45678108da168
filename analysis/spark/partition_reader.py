"""The frames of one partition of a capture's connections, for captures that several tasks of the data source read.

Knows how connections are partitioned. Tasks of a data source can't hand data to each other, so every task reads the
capture from beginning to end and finds all frames, but makes rows only of its partition. Making rows is most of the
cost. As every task sees all packets, frame numbers, IP fragments and limits that connections share are those of a
single reading.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from analysis.spark.partitioning import conversation_key, partition_of
from dissector.frames.batch_builder import batch_of
from dissector.frames.look_ahead import NumberedFrames
from dissector.frames.reader import FrameReader
from dissector.tcp.frame_table import FrameTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from dissector.capture import Input
    from dissector.options import ReadOptions

#: Attributes of a table with one entry per frame.
_ARRAYS = tuple(field.name for field in fields(FrameTable) if field.name not in ("stream", "connections", "rank"))


class PartitionReader(FrameReader):
    """Captures to record batches of the frames of one partition."""

    def __init__(self, inputs: Sequence[Input], options: ReadOptions, partition: int, partitions: int) -> None:
        super().__init__(inputs, options)
        self._partition = partition
        self._partitions = partitions

    def _batches(self, table: FrameTable) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        mine = np.array([self._is_mine(connection.key) for connection in table.connections], np.bool_)
        chosen = np.flatnonzero(mine[table.connection])
        whole = self._numbered(table)
        part = NumberedFrames(_select_frames(table, chosen), whole.numbers[chosen], whole.places[chosen])
        for frames in self._look_ahead.take([part]):
            yield batch_of(frames, self._captures, self.options), frames.table

    def _is_mine(self, key: bytes) -> bool:
        return partition_of(conversation_key(key)[0], self._partitions) == self._partition


def _select_frames(table: FrameTable, chosen: NDArray[np.int64]) -> FrameTable:
    """Return some frames of a table."""
    part = replace(table, **{name: getattr(table, name)[chosen] for name in _ARRAYS})
    rank = np.empty(len(chosen), np.int64)
    rank[np.argsort(table.rank[chosen])] = np.arange(len(chosen))
    return replace(part, rank=rank)
