"""The reference path: dpkt for every packet, one object per segment, one row at a time.

Slow and plain. It is what the columnar path is compared with, row for row, and it reads everything that one reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dissector.capture import CaptureReader, order_by_time
from dissector.capture.chunk_sizes import FRAME_CHUNK_BYTES
from dissector.frames.row import Row, row_of
from dissector.frames.schema import SCHEMA
from dissector.link.reference import ReferenceDecoder
from dissector.options import ReadOptions, ReadReport
from dissector.tcp.connections import Connection, Connections, segments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dissector.capture import Input
    from dissector.tcp.framing import RawFrame

_BATCH_ROWS = 4096


class ReferenceReader:
    """Captures to record batches of frames, the plain way."""

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
        self._rows: list[Row] = []
        self._connections = self._fresh()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        decoder = ReferenceDecoder()
        for index, each in enumerate(self._inputs):
            reader = CaptureReader(each, index, self.options.chunk_bytes or FRAME_CHUNK_BYTES)
            for block in reader:
                for segment in segments_of(decoder.decode(block)):
                    self._connections.feed(segment)
                if len(self._rows) >= _BATCH_ROWS:
                    yield self._batch()
            self.report.damage += reader.damage
            if self.options.separate:
                self._end()
        decoder.finish()
        self.report.link.merge(decoder.counts)
        self._end()
        if self._rows:
            yield self._batch()

    def _fresh(self) -> Connections:
        return Connections(
            self._emit, self.options.limits, self.options.ports, ended=self._end_of, dialect=self.options.dialect
        )

    def _end_of(self, connection: Connection) -> None:
        self.report.ended(connection)
        self._ended(connection)

    def _end(self) -> None:
        self._connections.finish()
        self.report.given_up.update(self._connections.given_up)
        self._connections = self._fresh()

    def _emit(self, connection: Connection, side: int, frame: RawFrame) -> None:
        self.report.frames += 1
        self._rows.append(row_of(connection, side, frame, self.report.frames, self._captures, self.options))

    def _batch(self) -> pa.RecordBatch:
        batch = pa.RecordBatch.from_pylist(self._rows, schema=SCHEMA)
        self._rows = []
        return batch
