"""One way to frames for everything behind: captures are read, rows that were written before are taken as they are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from dissector.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.options import ReadOptions, ReadReport
    from dissector.tcp.connections import Connection
    from dissector.tcp.frame_table import FrameTable


class BatchReader(Protocol):
    """Batches of frames, and a report that is complete after the last one."""

    report: ReadReport
    bytes_read: int
    bytes_total: int | None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches in capture order."""

    def tables(self) -> Iterator[tuple[pa.RecordBatch, FrameTable | None]]:
        """Yield each batch together with the bytes of its frames, where they are known."""


def are_rows(inputs: Sequence[Input]) -> bool:
    """Tell whether the inputs hold rows; captures and rows never come together."""
    return any(each.rows is not None for each in inputs)


def open_frames(
    inputs: Sequence[Input],
    options: ReadOptions,
    *,
    ended: Callable[[Connection], None] | None = None,
    over: Callable[[Connection], None] | None = None,
    whole: bool = False,
) -> BatchReader:
    """Return a reader of the inputs. Only captures call ``ended`` when a connection ends: rows do not tell.

    The same is true of ``over``, which is called when the rows of such a connection have been taken as well.
    ``whole``: rows must be all those of the captures, from the first one on, or InputError is raised.
    """
    if are_rows(inputs):
        if options.pseudonyms is not None:
            raise UsageError(f"{inputs[0].name}: holds frames as rows, without their bytes; --redact needs the capture")
        from dissector.frames.stored_rows import StoredRows  # noqa: PLC0415 - brings pyarrow.compute along

        return StoredRows(inputs, options, whole=whole)
    from dissector.frames.base_reader import ignore_end  # noqa: PLC0415 - brings the decoder along
    from dissector.frames.derived_columns import with_sources  # noqa: PLC0415 - brings pyarrow along
    from dissector.frames.reader import FrameReader  # noqa: PLC0415

    if options.columns is not None:
        options = dataclasses.replace(options, columns=with_sources(options.columns))
    return FrameReader(inputs, options, ended=ended or ignore_end, over=over)
