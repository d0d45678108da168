"""Rows that ``uprscope dissect`` has written before, from Parquet or Arrow files: the same batches as from a capture.

A file may come from anywhere, and everything behind relies on the schema. So each batch is checked for what the
dissector never writes; a file that has it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dissector.capture.magic import RowFormat
from dissector.errors import InputError
from dissector.frames.byte_text import is_printable
from dissector.frames.derived_columns import DERIVED, NAME_COLUMNS, ROW_SCHEMA, RUN_COLUMNS, with_sources
from dissector.frames.earlier_rows import is_earlier, read_from, updated
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions, ReadReport
from dissector.spec import registry
from dissector.spec.model import Dialect
from dissector.terminal.style import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dissector.array_types import Longs
    from dissector.capture import Input

_BATCH_ROWS = 1 << 16
_INSPECTED = b"uprscope.inspected"  #: in the metadata of files whose documents were looked into
_U8, _U16, _U32 = (1 << 8) - 1, (1 << 16) - 1, (1 << 32) - 1
_U63 = (1 << 63) - 1
#: Least and most of what can stand in a column.
_BOUNDS = {
    "frame": (1, _U63),
    "packet_first": (1, _U63),
    "packet_last": (1, _U63),
    **dict.fromkeys(("connection_number", "response_to"), (1, _U63)),
    "response_time_ns": (0, _U63),
    "direction": (0, 1),
    **dict.fromkeys(("magic", "opcode", "subtype", "datatype", "framing_length", "extras_length"), (0, _U8)),
    **dict.fromkeys(("sport", "dport", "vbucket", "status", "key_length"), (0, _U16)),
    **dict.fromkeys(("body_length", "opaque", "opaque_swapped"), (0, _U32)),
    **dict.fromkeys(
        ("start_offset", "end_offset", "acked_offset", "gap", "skipped", "missing", "flow_bytes"), (0, _U63)
    ),
}
_OF_THE_RUN = tuple(each.column.name for each in RUN_COLUMNS)
_NAMES = frozenset(each.column.name for each in NAME_COLUMNS)
_DIALECTS = pa.array([dialect.value for dialect in Dialect])
_DEFECTS = pa.array(sorted(registry.DEFECT_BY_ID))


def marked(schema: pa.Schema, *, inspected: bool) -> pa.Schema:
    """Return the schema of a file with a mark that tells whether documents were looked into."""
    return schema.with_metadata({**(schema.metadata or {}), _INSPECTED: b"yes"}) if inspected else schema


class StoredRows:
    """Reads files of rows, one after the other."""

    def __init__(self, inputs: Sequence[Input], options: ReadOptions | None = None, *, whole: bool = False) -> None:
        """Open the files; raise InputError if one is damaged, or lacks a column that the options ask for.

        ``whole``: raise it also where frames are left out, as by a filter.
        """
        self.options = options or ReadOptions()
        self.report = ReadReport()
        self.bytes_read = 0
        self._seen: set[str] = set()
        self._whole = whole
        self._last = 0  #: number of the frame before
        paths = [each.path for each in inputs if each.path is not None]
        self.bytes_total: int | None = sum(path.stat().st_size for path in paths)
        self._files = [
            _File(each, path, self.options, alone=len(paths) == 1) for each, path in zip(inputs, paths, strict=True)
        ]
        self._files.sort(key=lambda file: file.first_time)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches, in the order of the files."""
        for file in self._files:
            done = self.bytes_read
            for batch in file.batches():
                if self._whole:
                    self._confirm_whole(file, batch.column("frame").to_numpy())
                self.report.frames += batch.num_rows
                if "connection" in batch.schema.names:
                    self._seen.update(pc.unique(batch.column("connection")).to_pylist())
                self.report.connections = len(self._seen)
                self.bytes_read = done + file.bytes_read
                yield batch
            self.bytes_read = done + file.size

    @property
    def inspected(self) -> bool:
        """Tell whether documents were looked into when all of the rows were made."""
        return all(file.inspected for file in self._files)

    def tables(self) -> Iterator[tuple[pa.RecordBatch, None]]:
        """Yield each batch; rows have no bytes of frames."""
        return ((batch, None) for batch in self)

    def _confirm_whole(self, file: _File, frame: Longs) -> None:
        """Raise InputError if a number is left out; a file may begin again with 1."""
        before = np.r_[0 if frame[0] == 1 else self._last, frame[:-1]]
        wrong = np.flatnonzero(frame != before + 1)
        if len(wrong):
            number = int(before[wrong[0]]) + 1
            raise InputError(
                f"{file.name}: frame {number} is not there, nor may others be: rules need the rows of a whole capture "
                "(dissect without --filter, --follow or --vbucket)"
            )
        self._last = int(frame[-1])


def _kept(asked: frozenset[str], names: frozenset[str], *, alone: bool) -> list[str]:
    """Return the derived columns to take from a file: the others are made again.

    What a run was like is told by rows of one run alone: of several files it is found anew.
    """
    return [
        name
        for name, each in DERIVED.items()
        if name in asked and name in names and (alone if name in _OF_THE_RUN else not each.sources <= names)
    ]


class _File:
    """One file of rows."""

    def __init__(self, source: Input, path: Path, options: ReadOptions, *, alone: bool) -> None:
        self.size = path.stat().st_size
        self.bytes_read = 0
        self.inspected = False
        self.name, self._path, self._format = source.name, path, source.rows
        try:
            names, self.first_time = self._look()
        except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors or OSErrors
            raise self._damaged(error) from error
        asked = frozenset(SCHEMA.names) if options.columns is None else options.columns
        self._kept = _kept(asked, frozenset(names), alone=alone)
        asked = with_sources(asked, frozenset(self._kept))
        needed = asked & frozenset(SCHEMA.names)
        read = {each for name in needed - {"value"} for each in (read_from(name) if self._earlier else (name,))}
        missing = [name for name in SCHEMA.names if name in read and name not in names]
        if missing:
            how = "uprscope dissect -o frames.parquet writes all of them, without --fields"
            raise InputError(f"{self.name}: has no column {missing[0]} ({how})")
        self._columns = [name for name in SCHEMA.names if name in needed]
        there = read | (needed & {"value"})
        self._there = [*(name for name in SCHEMA.names if name in names and name in there), *self._kept]

    def _look(self) -> tuple[list[str], int]:
        """Return the names of the columns, and the time of the first row."""
        for batch in self._raw(["time_ns"], 1):
            if batch.num_rows and batch.schema.names:
                time_ns = batch.column("time_ns")[0].as_py()
                return self._names, time_ns if isinstance(time_ns, int) else 0
        return self._names, 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the columns that are needed, sound and of the schema's types."""
        try:
            for batch in self._raw(self._there, _BATCH_ROWS):
                if batch.num_rows:
                    yield self._sound(updated(batch) if self._earlier else batch)
        except (OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _raw(self, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        if self._format is RowFormat.PARQUET:
            import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

            with pq.ParquetFile(self._path) as file:
                self._note(file.schema_arrow)
                total, seen = max(file.metadata.num_rows, 1), 0
                wanted = [name for name in columns if name in self._names]
                for batch in file.iter_batches(rows, columns=wanted):
                    seen += batch.num_rows
                    self.bytes_read = self.size * seen // total
                    yield batch
            return
        with pa.OSFile(str(self._path)) as stream:
            if self._format is RowFormat.ARROW_STREAM:
                batches: Any = pa.ipc.open_stream(stream)
                self._note(batches.schema)
            else:
                file = pa.ipc.open_file(stream)
                self._note(file.schema)
                batches = (file.get_batch(index) for index in range(file.num_record_batches))
            wanted = [name for name in columns if name in self._names]
            for batch in batches:
                batch.validate(full=True)  # offsets of a hostile file would lead anywhere
                self.bytes_read = min(stream.tell(), self.size)
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    yield batch.select(wanted).slice(start, _BATCH_ROWS)

    def _note(self, schema: pa.Schema) -> None:
        self._names = schema.names
        self._earlier = is_earlier(schema)
        self.inspected = _INSPECTED in (schema.metadata or {})

    def _sound(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the schema's columns and types; raise InputError if a value can't be."""
        arrays = []
        fields = [ROW_SCHEMA.field(name) for name in (*self._columns, *self._kept)]
        for field in fields:
            name = field.name
            if name not in batch.schema.names:
                arrays.append(pa.nulls(batch.num_rows, field.type))
                continue
            column = batch.column(name)
            if column.type != field.type:
                column = column.cast(field.type)
            if not field.nullable and column.null_count:
                raise self._wrong(name, "has rows without a value")
            self._confirm(name, column)
            arrays.append(column)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _confirm(self, name: str, column: pa.Array) -> None:
        bounds = _BOUNDS.get(name)
        if bounds is not None and column.null_count < len(column):
            found = pc.min_max(column).as_py()
            if found["min"] < bounds[0] or found["max"] > bounds[1]:
                raise self._wrong(name, f"goes from {found['min']} to {found['max']}")
        if name in {"key", "cache_records"}:
            keys = column if name == "key" else pc.struct_field(pc.list_flatten(column), "key")
            if not is_printable(keys):
                raise self._wrong(name, "has a key that cannot be shown")
        if name in _NAMES and not is_printable(pc.list_flatten(column) if pa.types.is_list(column.type) else column):
            raise self._wrong(name, "has a name that cannot be shown")
        known = {"dialect": _DIALECTS, "defects": _DEFECTS}.get(name)
        if known is not None:
            values = pc.unique(pc.list_flatten(column) if name == "defects" else column)
            strange = values.filter(pc.invert(pc.is_in(values, known)))
            if len(strange):
                raise self._wrong(name, f"has {one_line(str(strange[0].as_py())[:40])!r}, which is unknown here")

    def _wrong(self, column: str, what: str) -> InputError:
        return InputError(f"{self.name}: these are no frames that dissect wrote: column {column} {what}")

    def _damaged(self, error: Exception) -> InputError:
        return InputError(f"{self.name}: cannot be read as {self._format}: {one_line(str(error)[:200])}")
