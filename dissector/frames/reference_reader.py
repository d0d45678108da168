"""The reference path: dpkt for every packet, one object per segment, one row at a time. Read this module first.

It shows the whole project's way from captures to rows in a few steps, each in a module of its own:

    capture.CaptureReader      files to blocks of packets
    link.reference             a packet to a TCP segment, with dpkt
    tcp.connections            segments to connections, and the bytes of each direction in order
    tcp.framing                these bytes to frames
    frames.row                 a frame to a row of the schema
    RecordBatch.from_pylist    rows to a batch

Slow and plain: the columnar path (:mod:`dissector.frames.reader`) is compared with it, row for row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dissector.frames.base_reader import BaseReader, ignore_end
from dissector.frames.row import Row, row_of
from dissector.frames.schema import SCHEMA
from dissector.link.reference import ReferenceDecoder
from dissector.tcp.connections import Connection, segments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dissector.capture import Input
    from dissector.link.segment_block import SegmentBlock
    from dissector.options import ReadOptions
    from dissector.tcp.framing import RawFrame

_BATCH_ROWS = 4096


class ReferenceReader(BaseReader[pa.RecordBatch]):
    """Captures to record batches of frames, the plain way."""

    def __init__(
        self,
        inputs: Sequence[Input],
        options: ReadOptions | None = None,
        *,
        ended: Callable[[Connection], None] = ignore_end,
    ) -> None:
        """Prepare to read; ``ended`` is called with every connection when nothing more will come of it."""
        super().__init__(inputs, options, ended=ended)
        self._rows: list[Row] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._read()  # feeds each block of each capture, and ends the connections

    def _decoder(self) -> ReferenceDecoder:
        return ReferenceDecoder()

    def _feed(self, segments: SegmentBlock) -> Iterator[pa.RecordBatch]:
        for segment in segments_of(segments):
            self._connections.feed(segment)  # calls _add for every frame that the segment completes
        return self._batches(_BATCH_ROWS)

    def _emit(self) -> Callable[[Connection, int, RawFrame], None]:
        return self._add

    def _add(self, connection: Connection, side: int, frame: RawFrame) -> None:
        self.report.frames += 1
        self._rows.append(row_of(connection, side, frame, self.report.frames, self._captures, self.options))

    def _rest(self) -> Iterator[pa.RecordBatch]:
        return self._batches(1)

    def _batches(self, least: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, if there are at least so many."""
        if len(self._rows) >= least:
            rows, self._rows = self._rows, []
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
