"""The product's path: captures to record batches of frames, a chunk at a time, in bounded memory.

Same interface and same rows as :mod:`dissector.frames.reference_reader`, for any chunk size.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from dissector.frames.base_reader import BaseReader, ignore_end
from dissector.frames.batch_builder import batch_of
from dissector.link.columnar import ColumnarDecoder
from dissector.tcp.fast_path import SequentialPath, run_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.link.segment_block import SegmentBlock
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection
    from dissector.tcp.frame_table import FrameTable
    from dissector.tcp.framing import RawFrame


class FrameReader(BaseReader["tuple[pa.RecordBatch, FrameTable]"]):
    """Captures to record batches of frames."""

    def __init__(
        self,
        inputs: Sequence[Input],
        options: ReadOptions | None = None,
        *,
        ended: Callable[[Connection], None] = ignore_end,
    ) -> None:
        """Prepare to read; ``ended`` is called with every connection when nothing more will come of it."""
        super().__init__(inputs, options, ended=ended)
        self._sequential = SequentialPath()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        # No loop: its variables would keep a batch and its bytes in memory while the next ones are made.
        return map(itemgetter(0), self.tables())

    def tables(self) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        """Yield each batch of rows together with the bytes of its frames."""
        return self._read()

    def _decoder(self) -> ColumnarDecoder:
        return ColumnarDecoder()

    def _emit(self) -> Callable[[Connection, int, RawFrame], None]:
        return self._sequential.emit

    def _feed(self, segments: SegmentBlock) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        return self._batches(run_block(self._connections, self._sequential, segments))

    def _rest(self) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        return self._batches(self._sequential.table())

    def _batches(self, table: FrameTable) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        if len(table):
            first = self.report.frames + 1
            self.report.frames += len(table)
            yield batch_of(table, first, self._captures, self.options), table
