"""The Parquet files that one attempt at a ring writes; frames go to files by day.

Knows folders and file names. File names begin with ``_``, which readers ignore, until :func:`publish` renames them for
the attempt that counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from dissector.frames.writers import ParquetWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from analysis.archive.schema import ArchiveTable

HIDDEN = "_"
#: Rows of a file. Spark reads a file with several tasks, so this only keeps files at a handy size.
_MAX_ROWS = 8_000_000
#: Days that are written to at once; frames are nearly in order of time.
_MAX_OPEN = 4
_DAY_NS = 86_400_000_000_000


class PartFiles:
    """The files of one attempt."""

    def __init__(self, folder: Path, ring: str, attempt: str) -> None:
        self._folder = folder
        self._ring = ring
        self._attempt = attempt
        self._names: list[str] = []
        self._open: dict[int, _PartFile] = {}  #: by day, the last used one at the end

    def write(self, table: ArchiveTable, rows: pa.Table) -> None:
        """Write the rows of a small table; no file for no rows."""
        if rows.num_rows:
            part = self._part(table, f"ring={self._ring}")
            for batch in rows.to_batches():
                part.write(batch)
            part.close()

    def write_frames(self, table: ArchiveTable, batch: pa.RecordBatch) -> None:
        """Write frames to the files of their days."""
        days = batch.column("time_ns").to_numpy() // _DAY_NS
        if len(days) and days[0] == days[-1] and (days == days[0]).all():
            self._day(table, int(days[0])).write(batch)
            return
        for day in np.unique(days).tolist():
            self._day(table, day).write(batch.filter(days == day))

    def close(self) -> list[str]:
        """Complete all files; return their names, relative to the folder."""
        for part in self._open.values():
            part.close()
        self._open.clear()
        return self._names

    def abandon(self) -> None:
        """Delete all files."""
        for part in self._open.values():
            part.abandon()
        self._open.clear()
        for name in self._names:
            (self._folder / name).unlink(missing_ok=True)

    def _day(self, table: ArchiveTable, day: int) -> _PartFile:
        part = self._open.pop(day, None)
        if part is not None and part.rows >= _MAX_ROWS:
            part.close()
            part = None
        if part is None:
            if len(self._open) >= _MAX_OPEN:
                self._open.pop(next(iter(self._open))).close()
            part = self._part(table, f"day={np.datetime64(day, 'D')}/ring={self._ring}")
        self._open[day] = part
        return part

    def _part(self, table: ArchiveTable, folder: str) -> _PartFile:
        name = f"{table.name}/{folder}/{HIDDEN}{self._ring}-{self._attempt}-{len(self._names)}.parquet"
        self._names.append(name)
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return _PartFile(path.open("xb"), table.schema)


class _PartFile:
    """One file."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema) -> None:
        self.rows = 0
        self._stream = stream
        self._writer = ParquetWriter(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._writer.write(batch)

    def close(self) -> None:
        self._writer.close()
        self._stream.close()

    def abandon(self) -> None:
        self._writer.abandon()
        self._stream.close()


def publish(folder: Path, name: str) -> str:
    """Give a hidden file its final name, unless it has it already; return it, relative to the folder."""
    path = Path(name)
    final = path.with_name(path.name.removeprefix(HIDDEN))
    if (folder / path).exists():
        (folder / path).replace(folder / final)
    return final.as_posix()
