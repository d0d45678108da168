"""Frames to files: NDJSON, CSV, Parquet, Arrow. A file appears under its name only when it is complete."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dissector.errors import UsageError
from dissector.frames import SCHEMA, UNSIGNED

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = ("text", "ndjson", "csv", "parquet", "arrow")
_HEX = "hex:"


class Writer(Protocol):
    """Takes batches, then is closed."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""

    def close(self) -> None:
        """Write what has to come last."""


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


def open_writer(kind: str, stream: IO[bytes]) -> Writer:
    """Make the writer of a format."""
    if kind == "ndjson":
        return NdjsonWriter(stream)
    if kind == "csv":
        return CsvWriter(stream)
    if kind == "parquet":
        return ParquetWriter(stream)
    return ArrowWriter(stream)


class NdjsonWriter:
    """One JSON object per frame. Columns without a value are left out."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        lines = [json.dumps(plain(row), ensure_ascii=False, separators=(",", ":")) for row in batch.to_pylist()]
        if lines:
            self._stream.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Nothing has to come last."""


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Make a row fit for JSON: bytes as text, identifiers unsigned, nothing for what is not there."""
    return {name: _plain(name, value) for name, value in row.items() if value is not None}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return text_of(value)
    if name in UNSIGNED:
        return value % 2**64
    if name == "failover_log":
        return [{**entry, "vbucket_uuid": entry["vbucket_uuid"] % 2**64} for entry in value]
    return value


def text_of(data: bytes) -> str:
    """Write bytes as text: as they are if they are printable UTF-8, else ``hex:`` and their hexadecimal digits."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _HEX + data.hex()
    return text if text.isprintable() and not text.startswith(_HEX) else _HEX + data.hex()


class CsvWriter:
    """Comma-separated values with a header line; lists are joined by spaces."""

    def __init__(self, stream: IO[bytes]) -> None:
        import csv  # noqa: PLC0415 - only this writer needs it
        import io  # noqa: PLC0415

        self._text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True, errors="backslashreplace")
        self._rows = csv.DictWriter(self._text, SCHEMA.names, lineterminator="\n")
        self._rows.writeheader()

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self._rows.writerows({name: _cell(name, value) for name, value in row.items()} for row in batch.to_pylist())

    def close(self) -> None:
        """Leave the stream to its owner."""
        self._text.flush()
        self._text.detach()


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, list):
        if name == "failover_log":
            return " ".join(f"{entry['vbucket_uuid'] % 2**64}@{entry['seqno']}" for entry in value)
        return " ".join(str(entry) for entry in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _plain(name, value)


class ParquetWriter:
    """Parquet with zstd compression."""

    def __init__(self, stream: IO[bytes]) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while to load

        self._writer = pq.ParquetWriter(stream, SCHEMA, compression="zstd")
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch; small batches are put together, as row groups have a cost."""
        self._pending.append(batch)
        self._rows += batch.num_rows
        if self._rows >= 1 << 16:
            self._flush()

    def close(self) -> None:
        """Write the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending, SCHEMA), row_group_size=1 << 20)
        self._pending, self._rows = [], 0


class ArrowWriter:
    """The Arrow IPC stream format, which can be written to a pipe and read from one."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._writer = pa.ipc.new_stream(stream, SCHEMA)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the end of the stream."""
        self._writer.close()
