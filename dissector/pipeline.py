"""The product's path: captures to record batches of frames, a chunk at a time, in bounded memory.

Same interface and same rows as :mod:`dissector.reference`, for any chunk size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.capture import CaptureReader, order_by_time
from dissector.columns import batch_of
from dissector.connections import Connections
from dissector.lanes import SlowLane, run_block
from dissector.link.columnar import ColumnarDecoder
from dissector.run import Options, Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.tables import FrameTable


class FrameReader:
    """Captures to record batches of frames."""

    def __init__(self, inputs: Sequence[Input], options: Options | None = None) -> None:
        self.options = options or Options()
        self.report = Report()
        self._inputs = list(inputs) if self.options.separate else order_by_time(inputs)
        self._captures = [each.name for each in self._inputs]
        self._slow = SlowLane()
        self._connections = self._fresh()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        decoder = ColumnarDecoder()
        for index, each in enumerate(self._inputs):
            reader = CaptureReader(each, index, self.options.chunk_bytes)
            for block in reader:
                yield from self._batches(run_block(self._connections, self._slow, decoder.decode(block)))
            self.report.damage += reader.damage
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
            ended=self.report.ended,
            dialect=self.options.dialect,
        )

    def _end(self) -> Iterator[pa.RecordBatch]:
        self._connections.finish()
        self.report.given_up.update(self._connections.given_up)
        self._connections = self._fresh()
        yield from self._batches(self._slow.table())

    def _batches(self, table: FrameTable) -> Iterator[pa.RecordBatch]:
        if len(table):
            yield batch_of(table, self.report.frames + 1, self._captures, self.options)
            self.report.frames += len(table)
