"""The tables of an archive: their columns, and how they are laid out in folders.

Knows names and schemas. A ring is a group of captures whose connections may go on from one file to the next, by
default a directory; ``ring`` is a partition of every table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from analysis.check.export import COLUMNS as FINDING_COLUMNS
from dissector.frames.schema import COLUMNS as FRAME_COLUMNS
from dissector.frames.schema import Column
from dissector.summary.schema import CONNECTION_COLUMNS, STREAM_COLUMNS, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable

ACROSS = "across"  #: in place of a ring: rows about several rings

_REASONS = pa.list_(pa.struct([("reason", pa.string()), ("count", pa.int64())]))

SUMMARY_COLUMNS: tuple[Column, ...] = (
    Column("rule", pa.string(), "id of the rule (uprscope explain rules)"),
    Column("severity", pa.string(), "error, warning or info"),
    Column("title", pa.string(), "what must hold"),
    Column("verdict", pa.string(), "violated, unknown, holds, or unchecked where there was nothing to check"),
    Column("checked", pa.int64(), "cases that were looked at"),
    Column("held", pa.int64(), "of them, as they must be"),
    Column("violated", pa.int64(), "of them, violated"),
    Column("undecided", pa.int64(), "of them, undecidable"),
    Column("unknown", _REASONS, "why they are undecidable, and how many for each reason"),
    Column("findings", pa.int64(), "findings in the table of findings: violations of one root are one finding"),
    Column("unlisted", pa.int64(), "violations beyond the number of findings that are kept"),
)

QUARANTINE_COLUMNS: tuple[Column, ...] = (
    Column("capture", pa.string(), "the file"),
    Column("outcome", pa.string(), "left out: nothing of it is in the archive; damaged: what was readable is"),
    Column("reason", pa.string(), "what is wrong with it"),
)

#: A chunk of the seqnos of one branch of a vbucket: the first columns of the tables of rules across connections.
_CHUNK_COLUMNS = (
    Column("bucket", pa.string(), "bucket; empty: not known"),
    Column("vbucket", pa.int32(), "vbucket"),
    Column("branch", pa.int64(), "UUID of the branch of history (failover log); null: not known"),
    Column("chunk", pa.int64(), "seqno divided by 4,096"),
)

SPAN_COLUMNS: tuple[Column, ...] = (
    *_CHUNK_COLUMNS,
    Column("first_seqno", pa.int64(), "lowest seqno that the ring shows there"),
    Column("last_seqno", pa.int64(), "highest seqno that the ring shows there"),
)

COMPARED_COLUMNS: tuple[Column, ...] = (
    *_CHUNK_COLUMNS,
    Column("first_seqno", pa.int64(), "lowest seqno"),
    Column("last_seqno", pa.int64(), "highest seqno"),
    Column("checked", pa.int64(), "seqnos that were shown more than once"),
    Column("undecided", pa.int64(), "seqnos whose branch is not known"),
    Column("violated", pa.int64(), "seqnos that were not always shown alike"),
    Column("first_violated", pa.int64(), "lowest of them"),
    Column("last_violated", pa.int64(), "highest of them"),
)


@dataclass(frozen=True, slots=True)
class ArchiveTable:
    """One table: a folder of Parquet files."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ("ring",)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns in the files; partitions are in the names of folders."""
        return schema_of(self.columns)


FRAMES = ArchiveTable("frames", "one row per frame", FRAME_COLUMNS, ("day", "ring"))
CONNECTIONS = ArchiveTable("connections", "one row per connection", CONNECTION_COLUMNS)
STREAMS = ArchiveTable("streams", "one row per stream request or stream", STREAM_COLUMNS)
FINDINGS = ArchiveTable("findings", "one row per violation, with the frames that prove it", FINDING_COLUMNS)
SUMMARY = ArchiveTable(
    "summary", "one row per ring and rule: how often it was checked and how that went", SUMMARY_COLUMNS
)
QUARANTINE = ArchiveTable("quarantine", "one row per file that could not be read, or not in full", QUARANTINE_COLUMNS)
SPANS = ArchiveTable(
    "spans", "one row per ring, branch of a vbucket and chunk: which seqnos the ring shows", SPAN_COLUMNS
)
COMPARED = ArchiveTable(
    "compared", "one row per interval of seqnos of a branch of a vbucket: how XCN-01 fared", COMPARED_COLUMNS
)

TABLES: tuple[ArchiveTable, ...] = (FRAMES, CONNECTIONS, STREAMS, FINDINGS, SUMMARY, QUARANTINE, SPANS, COMPARED)
BY_NAME = {table.name: table for table in TABLES}
PARTITION_DOCS = {
    "day": "day of the frame in UTC, as in 2026-11-16",
    "ring": f"id of the group of captures (uprscope explain archive); {ACROSS}: several of them",
}


def partition_fields(table: ArchiveTable) -> Iterable[pa.Field]:
    """Return the columns that are in the names of folders."""
    return [pa.field(name, pa.date32() if name == "day" else pa.string()) for name in table.partitions]


def whole_schema(table: ArchiveTable) -> pa.Schema:
    """Return the columns that a reader sees."""
    return pa.schema([*table.schema, *partition_fields(table)])
