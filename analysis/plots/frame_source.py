"""Sources of frames: captures, or Parquet files that ``uprscope dissect`` has written.

Both give the same batches. Knows files; must not know plots.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dissector.errors import InputError, UsageError
from dissector.options import ReadOptions, ReadReport
from dissector.terminal.style import one_line

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.tcp.connections import Connection

_MAGIC = b"PAR1"
_BATCH_ROWS = 1 << 16


class BatchReader(Protocol):
    """Batches of frames, and a report that is complete after the last one."""

    report: ReadReport
    bytes_read: int
    bytes_total: int | None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches in capture order."""


@dataclass(frozen=True, slots=True)
class FrameSource:
    """Captures or Parquet files, which can be read more than once."""

    inputs: Sequence[Input]  #: captures
    parquet_files: Sequence[Path] = ()  #: of frames, if there are no captures
    options: ReadOptions = field(default_factory=ReadOptions)

    @property
    def names(self) -> list[str]:
        """Return the names of the files."""
        return [str(path) for path in self.parquet_files] or [each.name for each in self.inputs]

    def open(
        self, columns: frozenset[str] | None = None, ended: Callable[[Connection], None] | None = None
    ) -> BatchReader:
        """Return a reader of these columns (None: all). Only captures call ``ended`` when a connection ends."""
        if self.parquet_files:
            return ParquetReader(self.parquet_files, columns)
        from dissector.frames.reader import FrameReader  # noqa: PLC0415 - brings the decoder along

        options = dataclasses.replace(self.options, columns=columns)
        return FrameReader(self.inputs, options, ended=ended) if ended else FrameReader(self.inputs, options)


def source_of(names: Sequence[str], options: ReadOptions, stack: contextlib.ExitStack, *, twice: bool) -> FrameSource:
    """Find the files that names stand for; a pipe that will be read ``twice`` is copied to a file."""
    kinds = [_is_parquet(name) for name in names]
    if any(kinds):
        if not all(kinds):
            raise UsageError("captures and Parquet files of frames do not go together")
        return FrameSource([], [Path(name) for name in names], options)
    from dissector.capture import expand  # noqa: PLC0415 - brings numpy along

    inputs = expand(names)
    if twice and any(each.once for each in inputs):
        from dissector.capture.input import spooled  # noqa: PLC0415 - pipes only

        inputs = [stack.enter_context(spooled(each)) if each.once else each for each in inputs]
    return FrameSource(inputs, (), options)


def _is_parquet(name: str) -> bool:
    path = Path(name)
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(4) == _MAGIC
    except OSError:
        return False  # the capture reader says what is wrong with it


class ParquetReader:
    """Reads Parquet files of frames, one after the other."""

    def __init__(self, paths: Sequence[Path], columns: frozenset[str] | None) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

        self.report = ReadReport()
        self.bytes_read = 0
        self.bytes_total: int | None = sum(path.stat().st_size for path in paths)
        self._files: list[tuple[Any, int]] = []
        self._columns: list[str] | None = None
        for path in paths:
            try:
                file = pq.ParquetFile(path)
            except (OSError, ValueError) as error:
                raise InputError(f"{path}: cannot be read: {one_line(str(error)[:200])}") from error
            self._confirm(path, file.schema_arrow.names, columns)
            self._files.append((file, path.stat().st_size))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches, in the order of the files."""
        import pyarrow as pa  # noqa: PLC0415

        for file, size in self._files:
            done, rows = self.bytes_read, max(file.metadata.num_rows, 1)
            seen = 0
            try:
                for batch in file.iter_batches(_BATCH_ROWS, columns=self._columns):
                    seen += batch.num_rows
                    self.report.frames += batch.num_rows
                    self.bytes_read = done + size * seen // rows
                    yield batch
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"the Parquet file is damaged: {one_line(str(error)[:200])}") from error

    def _confirm(self, path: Path, names: Sequence[str], columns: frozenset[str] | None) -> None:
        """Raise UsageError if a file lacks a column that is needed."""
        from dissector.frames.schema import SCHEMA  # noqa: PLC0415

        needed = columns if columns is not None else frozenset(SCHEMA.names) - {"value"}
        missing = sorted(needed - set(names))
        if missing:
            how = "uprscope dissect --format parquet writes all of them"
            raise UsageError(f"{path}: has no column {missing[0]} ({how})")
        self._columns = [name for name in SCHEMA.names if name in (needed & set(names))]
