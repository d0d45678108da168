"""The product's path: captures to record batches of frames, a chunk at a time, in bounded memory.

Same interface and same rows as :mod:`dissector.frames.reference_reader`, for any chunk size.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from dissector.frames.base_reader import BaseReader, ignore_end
from dissector.frames.batch_builder import batch_of
from dissector.frames.look_ahead import LookAhead, NumberedFrames, places_after
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
        over: Callable[[Connection], None] | None = None,
    ) -> None:
        """Prepare to read; ``ended`` is called with every connection when nothing more will come of it.

        ``over`` is called with those that had frames, when the rows of all of these have been taken.
        """
        super().__init__(inputs, options, ended=ended, over=over)
        self._sequential = SequentialPath()
        self._look_ahead = LookAhead(self._is_open)
        self._place = 0  #: where the last frame ended, see places_after

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

    def _begin_live(self) -> None:
        self._look_ahead.live = True

    def _holds_rows(self) -> bool:
        return self._look_ahead.holds

    def _batches(self, table: FrameTable) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        for frames in self._look_ahead.take([self._numbered(table)]):
            known = self._pseudonymous(frames)
            yield batch_of(known, self._captures, self.options), known.table

    def _pseudonymous(self, frames: NumberedFrames) -> NumberedFrames:
        """Replace user data, if that was asked for."""
        if self.options.pseudonyms is None:
            return frames
        from dissector.frames.pseudonymous import pseudonymous  # noqa: PLC0415 - only on request

        return pseudonymous(frames, self.options.pseudonyms)

    def _numbered(self, table: FrameTable) -> NumberedFrames:
        """Number the frames of a table."""
        numbers = np.arange(self.report.frames + 1, self.report.frames + 1 + len(table))
        places = places_after(table, self._place)
        self.report.frames += len(table)
        self._place = int(places[-1]) if len(places) else self._place
        return NumberedFrames(table, numbers, places)

    def _is_open(self, connection: Connection) -> bool:
        return self._connections.recent.get(connection.index) is connection
