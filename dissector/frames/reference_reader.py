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
from dissector.frames.look_ahead import FRAME_OVERHEAD, LOOK_AHEAD_BYTES
from dissector.frames.row import PlainFrame, row_of
from dissector.frames.schema import SCHEMA
from dissector.link.reference import ReferenceDecoder
from dissector.spec.model import Dialect
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
        self._frames: list[PlainFrame] = []
        self._place = 0
        self._waiting: list[PlainFrame] = []  #: frames that may be the draft's: a later one tells

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
        self._place += len(frame.data) + FRAME_OVERHEAD
        detector, from_start = connection.detector, connection.directions[side].from_start
        forms, may_be_draft = detector.draft_forms, detector.may_be_draft
        detector.feed(side, frame.data)
        plain = PlainFrame(
            *(self.report.frames, connection, side, frame, from_start),
            *(detector.dialect, detector.collections, self._place),
        )
        self._frames.append(plain)
        if detector.draft_forms > forms and self._patience is None:
            self._waiting.append(plain)
        elif may_be_draft and detector.dialect is Dialect.DRAFT:
            self._read_as_draft(connection)

    def _read_as_draft(self, connection: Connection) -> None:
        """Read the first frame of a connection that waits for this, and all behind it, as the draft's."""
        near = [each for each in self._waiting if each.connection is connection and self._is_near(each)]
        for each in self._frames:
            if near and each.connection is connection and each.number >= near[0].number:
                each.dialect = Dialect.DRAFT

    def _is_near(self, plain: PlainFrame) -> bool:
        return plain.place >= self._place - LOOK_AHEAD_BYTES

    def _waits(self, plain: PlainFrame) -> bool:
        """Tell whether a frame still may be the draft's."""
        connection = plain.connection
        is_open = self._connections.recent.get(connection.index) is connection
        return is_open and connection.detector.may_be_draft and self._is_near(plain)

    def _rest(self) -> Iterator[pa.RecordBatch]:
        return self._batches(1)

    def _batches(self, least: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows up to the first frame that waits, if there are at least so many."""
        self._waiting = [each for each in self._waiting if self._waits(each)]
        ready = self._frames.index(self._waiting[0]) if self._waiting else len(self._frames)
        if ready >= least:
            rows = [row_of(each, self._captures, self.options) for each in self._frames[:ready]]
            del self._frames[:ready]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
