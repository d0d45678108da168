"""Frames to files: NDJSON, CSV, Parquet, Arrow. A file appears under its name only when it is complete."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dissector.arrow import joined, nulls
from dissector.errors import UsageError
from dissector.frames.byte_text import text_column, text_of
from dissector.frames.schema import DISTINCT, SCHEMA, UNSIGNED
from dissector.frames.written_numbers import seqno_of, written, written_lists
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROW_GROUP = 1 << 16


class Writer(Protocol):
    """Takes batches, then is closed."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""

    def close(self) -> None:
        """Write the end of the output."""

    def abandon(self) -> None:
        """Write nothing more, as after an error."""


@contextlib.contextmanager
def destination(path: str | None) -> Iterator[IO[bytes]]:
    """Open the output: standard output, or a file that takes its name when everything has been written."""
    if path is None or path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    final = Path(path)
    if final.is_dir():
        raise UsageError(f"{path}: is a directory (-o wants the name of a file)")
    if final.exists() and not final.is_file():  # a device or a pipe: nothing to rename
        with final.open("wb") as stream:
            yield stream
        return
    if final.is_symlink():  # /dev/stdout may be one: what it points to is written, the link stays
        final = final.resolve()
    partial = final.with_name(f".{final.name}.{os.getpid()}.partial")
    try:
        stream = partial.open("xb")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with stream:
            yield stream
        partial.replace(final)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def open_writer(kind: str, stream: IO[bytes], schema: pa.Schema = SCHEMA, *, heading: bool = True) -> Writer:
    """Make the writer of a format for rows of this schema; without ``heading``, names of columns are not above tsv."""
    if kind == "ndjson":
        return NdjsonWriter(stream)
    if kind == "json":
        return JsonWriter(stream)
    if kind == "csv":
        return CsvWriter(stream, schema)
    if kind == "tsv":
        return TsvWriter(stream, schema, heading=heading)
    if kind == "parquet":
        return ParquetWriter(stream, schema)
    return ArrowWriter(stream, schema)


class NdjsonWriter:
    """One JSON object per frame. Columns without a value are left out."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        lines = [_json(row, separators=(",", ":")) + "\n" for row in plain_rows(batch)]
        self._stream.write("".join(lines).encode())

    def abandon(self) -> None:
        """Do nothing: everything has been written already."""

    def close(self) -> None:
        """Do nothing: the output has no end of its own."""


class JsonWriter:
    """One JSON array of objects, indented for reading."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._begun = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        for row in plain_rows(batch):
            text = _json(row, indent=2)
            self._stream.write(((",\n" if self._begun else "[\n") + text).encode())
            self._begun = True

    def abandon(self) -> None:
        """Do nothing: everything has been written already."""

    def close(self) -> None:
        """End the array."""
        self._stream.write(b"\n]\n" if self._begun else b"[]\n")


class TsvWriter:
    """Tab-separated columns for people and for cut: nothing of a capture reaches the terminal raw."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema, *, heading: bool = True) -> None:
        self._stream = stream
        if heading:
            self._stream.write(("\t".join(schema.names) + "\n").encode())

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        rows = _rows(batch, everything=True)
        lines = ["\t".join(_cell(name, value) for name, value in row.items()) + "\n" for row in rows]
        self._stream.write("".join(lines).encode("utf-8", "backslashreplace"))

    def abandon(self) -> None:
        """Do nothing: everything has been written already."""

    def close(self) -> None:
        """Do nothing: the output has no end of its own."""


def _rows(batch: pa.RecordBatch, *, everything: bool = False) -> list[dict[str, Any]]:
    """Return rows with numbers as they are written; most columns of a batch are empty and may be left out."""
    columns = {
        name: written(name, column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if everything or column.null_count < len(column)
    }
    found: list[dict[str, Any]] = pa.RecordBatch.from_pydict(columns).to_pylist()
    return found if columns else [{} for _ in range(batch.num_rows)]


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows fit for JSON: bytes and identifiers as text, columns without a value left out."""
    return [{name: _plain(name, value) for name, value in row.items() if value is not None} for row in _rows(batch)]


def _json(row: dict[str, Any], **form: Any) -> str:
    """Write a row as JSON that a terminal can be shown: json escapes C0 controls, but neither C1 nor overrides."""
    text = json.dumps(row, ensure_ascii=False, **form)
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return safe_text(_joined(name, value))
    if isinstance(value, bool):
        return "true" if value else "false"  # as in every other format
    return safe_text(str(_plain(name, value)))


def _plain(name: str, value: Any) -> Any:
    """Make a value fit for JSON."""
    if isinstance(value, bytes):
        return text_of(value)
    if name in {"failover_log", "cache_records"}:
        found = written_lists(name, value)
        return [{part: _plain(part, each) for part, each in entry.items()} for entry in found]
    return value


def record_text(record: dict[str, Any]) -> str:
    """Write a record of a cache transfer: its collection, key and seqno."""
    collection = "?" if record["collection_id"] is None else f"0x{record['collection_id']:x}"
    return f"{collection}:{record['key']}@{_or_no_end(seqno_of(record['by_seqno']))}"


def _or_no_end(seqno: int | None) -> str:
    return "no end" if seqno is None else str(seqno)


class CsvWriter:
    """Comma-separated values with a header line; lists are joined by spaces, bytes are written as in NDJSON."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow.csv as pacsv  # noqa: PLC0415 - only this writer needs it

        self._schema = pa.schema([(field.name, _csv_type(field)) for field in schema])
        self._writer = pacsv.CSVWriter(stream, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        columns = [_csv_column(field.name, column) for field, column in zip(batch.schema, batch.columns, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def abandon(self) -> None:
        """Do nothing: everything has been written already."""

    def close(self) -> None:
        """Write what is still in the buffers."""
        self._writer.close()


def _csv_type(field: pa.Field) -> pa.DataType:
    is_text = field.name in UNSIGNED or pa.types.is_timestamp(field.type)
    is_text |= pa.types.is_binary(field.type) or pa.types.is_list(field.type)
    return pa.string() if is_text else field.type


def _csv_column(name: str, column: pa.Array) -> pa.Array:
    column = written(name, column)
    if column.null_count == len(column) and (name in UNSIGNED or pa.types.is_timestamp(column.type)):
        return nulls(pa.string(), len(column))
    if pa.types.is_binary(column.type):
        return text_column(column)
    if name == "text":  # from a server or client: it may hold anything
        return text_column(column.cast(pa.binary()))
    if not pa.types.is_list(column.type):
        return column
    if column.null_count == len(column):
        return nulls(pa.string(), len(column))
    if column.type == pa.list_(pa.string()):
        return joined(column, " ")
    return pa.array([None if value is None else _joined(name, value) for value in column.to_pylist()], pa.string())


def _joined(name: str, value: list[Any]) -> str:
    if name == "failover_log":
        log = written_lists(name, value)
        return " ".join(f"{entry['vbucket_uuid']}@{_or_no_end(entry['seqno'])}" for entry in log)
    if name == "cache_records":
        return " ".join(record_text(entry) for entry in value)
    return " ".join(str(entry) for entry in value)


class ParquetWriter:
    """Parquet with zstd compression."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

        repeating = [path for field in schema if field.name not in DISTINCT for path in _leaves(field.name, field.type)]
        self._writer = pq.ParquetWriter(stream, schema, compression="zstd", use_dictionary=repeating)
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch; small batches are put together, as row groups have a cost."""
        self._pending.append(batch)
        self._rows += batch.num_rows
        if self._rows >= _ROW_GROUP:
            self._flush()

    def close(self) -> None:
        """Write the footer."""
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        """Keep pyarrow from writing a footer when the writer is garbage-collected: the file is closed by then."""
        self._writer.is_open = False

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending, self._schema))
        self._pending, self._rows = [], 0


class ArrowWriter:
    """The Arrow IPC stream format, which can be written to a pipe and read from one."""

    def __init__(self, stream: IO[bytes], schema: pa.Schema) -> None:
        self._writer = pa.ipc.new_stream(stream, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self._writer.write_batch(batch)

    def abandon(self) -> None:
        """Do nothing: everything has been written already."""

    def close(self) -> None:
        """Write the end of the stream."""
        self._writer.close()


def _leaves(path: str, kind: pa.DataType) -> list[str]:
    """Return the paths of the Parquet columns that a column of the schema becomes."""
    if pa.types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    return [path]
