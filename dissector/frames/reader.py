"""The product's path: captures to record batches of frames, a chunk at a time, in bounded memory.

Same interface and same rows as :mod:`dissector.frames.reference_reader`, for any chunk size.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from dissector.capture import CaptureReader, order_by_time
from dissector.capture.chunk_sizes import FRAME_CHUNK_BYTES
from dissector.frames.batch_builder import batch_of
from dissector.link.columnar import ColumnarDecoder
from dissector.options import ReadOptions, ReadReport
from dissector.tcp.connections import Connections
from dissector.tcp.fast_path import SequentialPath, run_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.tcp.connections import Connection
    from dissector.tcp.frame_table import FrameTable


class FrameReader:
    """Captures to record batches of frames."""

    def __init__(
        self,
        inputs: Sequence[Input],
        options: ReadOptions | None = None,
        *,
        ended: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        """Prepare to read; ``ended`` is told of every connection when nothing more will come of it."""
        self.options = options or ReadOptions()
        self.report = ReadReport()
        self._ended = ended
        self._inputs = list(inputs) if self.options.separate else order_by_time(inputs)
        self._captures = [each.name for each in self._inputs]
        sizes = [each.path.stat().st_size if each.path is not None and not each.once else None for each in self._inputs]
        self.bytes_total = None if None in sizes else sum(size for size in sizes if size is not None)
        self.bytes_read = 0
        self._slow = SequentialPath()
        self._connections = self._fresh()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        # No loop: its variables would keep a batch and its bytes in memory while the next ones are made.
        return map(itemgetter(0), self.tables())

    def tables(self) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        """Yield each batch of rows together with the bytes of its frames."""
        decoder = ColumnarDecoder()
        finished = 0
        for index, each in enumerate(self._inputs):
            with CaptureReader(each, index, self.options.chunk_bytes or FRAME_CHUNK_BYTES) as reader:
                for block in reader:
                    self.bytes_read = finished + reader.raw_position
                    yield from self._batches(run_block(self._connections, self._slow, decoder.decode(block)))
            self.report.damage += reader.damage
            finished = self.bytes_read
            if self.options.separate:
                yield from self._end()
        decoder.finish()
        self.report.link.merge(decoder.counts)
        yield from self._end()

    def _fresh(self) -> Connections:
        return Connections(
            self._slow.emit,
            self.options.limits,
            self.options.ports,
            ended=self._end_of,
            dialect=self.options.dialect,
        )

    def _end_of(self, connection: Connection) -> None:
        self.report.ended(connection)
        self._ended(connection)

    def _end(self) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        self._connections.finish()
        self.report.given_up.update(self._connections.given_up)
        self._connections = self._fresh()
        yield from self._batches(self._slow.table())

    def _batches(self, table: FrameTable) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        if len(table):
            first = self.report.frames + 1
            self.report.frames += len(table)
            yield batch_of(table, first, self._captures, self.options), table
