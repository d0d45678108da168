"""Frames of many captures as one table with a column ``ring``, made in this process: what Spark jobs are tested on."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dissector.capture import Input
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA
from dissector.generate.conversation import Conversation
from dissector.generate.scenario import size_all_buffer_acks
from dissector.options import ReadOptions
from tests.support.checking import captured

RING_SCHEMA = pa.schema([*SCHEMA, pa.field("ring", pa.string())])


def with_ring(batch: pa.RecordBatch, ring: str) -> pa.RecordBatch:
    """Add the column."""
    column = pa.array([ring] * batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=RING_SCHEMA)


def read(path: Path) -> list[pa.RecordBatch]:
    """Read a capture as archives do: all columns, documents looked into."""
    return list(FrameReader([Input(str(path), path)], ReadOptions(inspect=True, chunk_bytes=1 << 18)))


def write_capture(path: Path, conversations: Sequence[Conversation], port: int = 0) -> Path:
    """Write conversations as a capture; ``port`` is added to the clients', which makes other connections of them."""
    size_all_buffer_acks(conversations)
    for conversation in conversations:
        conversation.client_port += port
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(captured(conversations))
    return path


def write_table(path: Path, batches: Iterable[pa.RecordBatch]) -> Path:
    """Write frames with rings as one Parquet file."""
    with pq.ParquetWriter(path, RING_SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path


def rotated(capture: bytes, files: int) -> list[bytes]:
    """Cut a little-endian pcap into files, as a ring buffer does."""
    records, at = [], 24
    while at < len(capture):
        size = 16 + struct.unpack_from("<I", capture, at + 8)[0]
        records.append(capture[at : at + size])
        at += size
    bounds = [len(records) * number // files for number in range(files + 1)]
    return [capture[:24] + b"".join(records[bounds[n] : bounds[n + 1]]) for n in range(files)]
