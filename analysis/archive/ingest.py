"""Rings to Parquet files, in the tasks of a Spark job: captures are read once, where the task runs.

A task reads a whole ring with the reader of the command line and writes frames, connections, streams and quarantine
itself; Spark only learns which files came about. They have names that readers pass over until the driver gives them
their own, so an attempt that died or was too late leaves nothing that counts. Must not know rules or manifests.
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
_PEEK_BYTES = 1 << 16

#: What a task tells of a ring.
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


def ingests(folder: Path, rings: Callable[[], Sequence[Ring]], options: ReadOptions) -> Callable[[Batches], Batches]:
    """Return what a task does: numbers of rings in (a column ``id``), results out; files go below ``folder``."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pa.RecordBatch.from_pylist([ingest(folder, rings()[number], options)], RESULT)

    return run


def ingest(folder: Path, ring: Ring, options: ReadOptions) -> dict[str, Any]:
    """Read a ring; return a row of :data:`RESULT`. A file that can't be read is left out, with its reason."""
    notes: dict[str, str] = {}
    inputs = [capture.input() for capture in ring.captures]
    usable = [each for each in inputs if not _refused(each, notes)]
    while True:
        parts = PartFiles(folder, ring.id, uuid.uuid4().hex[:12])
        try:
            result = _read(usable, options, parts)
            break
        except Exception as error:
            # Whatever a file does to the reader, the others must get through.
            parts.abandon()
            if _unreachable(usable, error):
                raise
            guilty = _guilty(usable, options, notes) or _blame(usable, notes, error)
            usable = [each for each in usable if each not in guilty]
    report, connections = result
    rows = [{"capture": name, "outcome": LEFT_OUT, "reason": reason} for name, reason in sorted(notes.items())]
    damage = [{"capture": each.capture, "outcome": DAMAGED, "reason": str(each)} for each in report.damage]
    parts.write(QUARANTINE, table_of([*rows, *damage], QUARANTINE.columns))
    return {
        "ring": ring.id,
        "frames": report.frames,
        "connections": connections,
        "left_out": len(notes),
        "damaged": len({each["capture"] for each in damage}),
        "files": parts.close(),
    }


def _read(inputs: Sequence[Input], options: ReadOptions, parts: PartFiles) -> tuple[ReadReport, int]:
    found = ConnectionRows()
    streams = Streams()

    def end(connection: Connection, member: ConnectionSummary | None) -> None:
        found.add(connection, member)
        forget(connection, member)

    roster = ConnectionSummaries(end)
    chosen = dataclasses.replace(options, inspect=True, separate=False)
    reader = FrameReader(inputs, chosen, ended=roster.end)
    for batch in reader:
        view = FrameBatch(batch)
        streams.fold(view, roster.fold(view))
        roster.release_ended()
        parts.write_frames(FRAMES, batch)
    parts.write(CONNECTIONS, table_of(found.sorted(), CONNECTIONS.columns))
    parts.write(STREAMS, table_of(list(stream_rows(streams)), STREAMS.columns))
    return reader.report, len(found.rows)


def _refused(each: Input, notes: dict[str, str]) -> bool:
    """Tell whether a file can't be used at all, and note why."""
    try:
        CaptureReader(each, chunk_bytes=_PEEK_BYTES).close()
    except Exception as error:
        if _unreachable([each], error):
            raise
        notes[each.name] = _reason(each, error)
        return True
    return False


def _unreachable(inputs: Sequence[Input], error: Exception) -> bool:
    """Tell whether it is not a file that is bad but the way to it: then nothing is known of it, and the task fails."""
    elsewhere = any(isinstance(each, RemoteFile) for each in inputs)
    why = error if isinstance(error, OSError) else error.__cause__
    return elsewhere and isinstance(why, OSError) and not isinstance(why, FileNotFoundError)


def _guilty(inputs: Sequence[Input], options: ReadOptions, notes: dict[str, str]) -> list[Input]:
    """Read every file alone; return those that can't be read that way either."""
    guilty = []
    for each in inputs:
        try:
            for _ in FrameReader([each], options):
                pass
        except Exception as error:
            if _unreachable([each], error):
                raise
            notes[each.name] = _reason(each, error)
            guilty.append(each)
    return guilty


def _blame(inputs: Sequence[Input], notes: dict[str, str], error: Exception) -> list[Input]:
    """Leave all files out: it is their being together that can't be read."""
    notes.update({each.name: _reason(each, error) for each in inputs})
    return list(inputs)


def _reason(each: Input, error: Exception) -> str:
    text = str(error).removeprefix(f"{each.name}: ")
    return text or type(error).__name__
