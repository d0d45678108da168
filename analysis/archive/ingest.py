"""Rings to Parquet files, in the tasks of a Spark job: a task reads the captures of a ring, once.

A task reads a whole ring with the reader of the command line and writes frames, connections, streams and quarantine
itself; Spark gets only the names of the files. Readers ignore these names until the driver renames the files, so a
failed or duplicate attempt of a task leaves nothing that counts.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analysis.archive.part_files import PartFiles
from analysis.archive.schema import CONNECTIONS, FRAMES, QUARANTINE, STREAMS
from analysis.spark.storage import RemoteFile
from dissector.capture import CaptureReader
from dissector.capture.chunk_sizes import PEEK_CHUNK_BYTES
from dissector.frames.batch import FrameBatch
from dissector.frames.reader import FrameReader
from dissector.summary.connections import ConnectionSummaries, forget
from dissector.summary.rows import ConnectionRows, stream_rows
from dissector.summary.schema import table_of
from dissector.summary.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from analysis.archive.rings import Ring
    from dissector.capture import Input
    from dissector.options import ReadOptions, ReadReport
    from dissector.summary.connections import ConnectionSummary
    from dissector.tcp.connections import Connection

    Batches = Iterator[pa.RecordBatch]

LEFT_OUT, DAMAGED = "left out", "damaged"

#: The result of a task for one ring.
RESULT = pa.schema(
    [
        ("ring", pa.string()),
        ("frames", pa.int64()),
        ("connections", pa.int64()),
        ("left_out", pa.int64()),
        ("damaged", pa.int64()),
        ("files", pa.list_(pa.string())),
    ]
)


def ingest_task(
    folder: Path, rings: Callable[[], Sequence[Ring]], options: ReadOptions
) -> Callable[[Batches], Batches]:
    """Return the function of a task: numbers of rings in (column ``id``), results out; files go below ``folder``."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pylist([ingest(folder, rings()[number], options)], RESULT)

    return run


def ingest(folder: Path, ring: Ring, options: ReadOptions) -> dict[str, Any]:
    """Read a ring; return a row of :data:`RESULT`. A file that can't be read is left out, with its reason."""
    reasons: dict[str, str] = {}
    inputs = [capture.input() for capture in ring.captures]
    usable = [each for each in inputs if not _is_unusable(each, reasons)]
    while True:
        parts = PartFiles(folder, ring.id, uuid.uuid4().hex[:12])
        try:
            result = _read(usable, options, parts)
            break
        except Exception as error:
            # One bad file must not keep the others out of the archive.
            parts.abandon()
            if _is_unreachable(usable, error):
                raise
            unreadable = _unreadable_alone(usable, options, reasons) or _unreadable_together(usable, reasons, error)
            usable = [each for each in usable if each not in unreadable]
    report, connections = result
    rows = [{"capture": name, "outcome": LEFT_OUT, "reason": reason} for name, reason in sorted(reasons.items())]
    damage = [{"capture": each.capture, "outcome": DAMAGED, "reason": str(each)} for each in report.damage]
    parts.write(QUARANTINE, table_of([*rows, *damage], QUARANTINE.columns))
    return {
        "ring": ring.id,
        "frames": report.frames,
        "connections": connections,
        "left_out": len(reasons),
        "damaged": len({each["capture"] for each in damage}),
        "files": parts.close(),
    }


def _read(inputs: Sequence[Input], options: ReadOptions, parts: PartFiles) -> tuple[ReadReport, int]:
    found = ConnectionRows()
    streams = Streams()

    def end(connection: Connection, summary: ConnectionSummary | None) -> None:
        found.add(connection, summary)
        forget(connection, summary)

    summaries = ConnectionSummaries(end)
    chosen = dataclasses.replace(options, inspect=True, separate=False)
    reader = FrameReader(inputs, chosen, ended=summaries.end)
    for batch in reader:
        frames = FrameBatch(batch)
        streams.fold(frames, summaries.fold(frames))
        summaries.release_ended()
        parts.write_frames(FRAMES, batch)
    parts.write(CONNECTIONS, table_of(found.sorted(), CONNECTIONS.columns))
    parts.write(STREAMS, table_of(list(stream_rows(streams)), STREAMS.columns))
    return reader.report, len(found.rows)


def _is_unusable(each: Input, reasons: dict[str, str]) -> bool:
    """Tell whether a file is no capture at all, and record why."""
    try:
        CaptureReader(each, chunk_bytes=PEEK_CHUNK_BYTES).close()
    except Exception as error:
        if _is_unreachable([each], error):
            raise
        reasons[each.name] = _reason(each, error)
        return True
    return False


def _is_unreachable(inputs: Sequence[Input], error: Exception) -> bool:
    """Tell whether a remote file could not be reached: it may be fine, so the task fails instead of leaving it out."""
    remote = any(isinstance(each, RemoteFile) for each in inputs)
    why = error if isinstance(error, OSError) else error.__cause__
    return remote and isinstance(why, OSError) and not isinstance(why, FileNotFoundError)


def _unreadable_alone(inputs: Sequence[Input], options: ReadOptions, reasons: dict[str, str]) -> list[Input]:
    """Read every file alone; return those that fail alone too."""
    unreadable = []
    for each in inputs:
        try:
            for _ in FrameReader([each], options):
                pass
        except Exception as error:
            if _is_unreachable([each], error):
                raise
            reasons[each.name] = _reason(each, error)
            unreadable.append(each)
    return unreadable


def _unreadable_together(inputs: Sequence[Input], reasons: dict[str, str], error: Exception) -> list[Input]:
    """Leave out all files: each is readable alone, but not together."""
    reasons.update({each.name: _reason(each, error) for each in inputs})
    return list(inputs)


def _reason(each: Input, error: Exception) -> str:
    text = str(error).removeprefix(f"{each.name}: ")
    return text or type(error).__name__
