"""The page about connections and streams as rows, ``docs/connections.md``: every column, its type and its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.codegen.markdown import code, escape, table
from dissector.summary.byte_hash import MAX_GAPS
from dissector.summary.rows import MAX_CONNECTIONS
from dissector.summary.schema import CONNECTION_COLUMNS, HASH_COLUMNS, STREAM_COLUMNS
from dissector.summary.streams import MAX_STREAMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.frames.schema import Column

_INTRODUCTION = f"""\
# Connections and streams as rows

<!-- Generated from dissector/summary/schema.py by `make docs`. -->

`uprscope connections CAPTURE...` writes one row per connection, with `--streams` one per vbucket stream. The table for
people shows a part of the columns, and those that hold nothing not at all; `--format json|ndjson|csv|parquet|arrow`
writes all of them.

* Numbers and missing values are written as in [rows of frames](frames.md). Names of a capture are text where they are
  printable UTF-8, else `hex:` and their hexadecimal digits. In CSV the entries of a list are joined by `; `, gaps are
  written as `offset+length`.
* Connections come in the order in which `uprscope dissect` numbers them: by their first frame. Connections without any
  frame are counted on stderr and listed, last, with `--all`.
* A stream is what a successful answer to a stream request starts, for one vbucket and stream id of one connection. The
  producer's messages belong to the latest stream whose answer precedes them in the producer's own direction. Messages
  that no captured answer precedes make a stream with `request_captured` false. A request that was refused, or never
  answered, is a row too.
* The hash of a direction is taken over the bytes that were captured, each once and in order: of bytes that were sent
  twice the first copy counts, gaps contribute nothing and are listed.
* Of a connection that speaks another protocol (`--all`) bytes, gaps and its end are counted as of any other, but its
  bytes are not looked at any more: its hash covers their beginning only, as `hashed_bytes` says.
* At most {MAX_CONNECTIONS:,} connections, {MAX_STREAMS:,} streams and {MAX_GAPS:,} gaps of a direction are listed;
  stderr says so where that is not enough.
"""


def render() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for title, columns in (
        ("Connections", CONNECTION_COLUMNS),
        ("Hashes, with `--hash`", HASH_COLUMNS),
        ("Streams, with `--streams`", STREAM_COLUMNS),
    ):
        parts.append(f"## {title}\n\n{_table(columns)}\n")
    return "\n".join(parts)


def _table(columns: Sequence[Column]) -> str:
    rows = []
    for column in columns:
        kind = f"{column.type}, unsigned" if column.unsigned else str(column.type)
        rows.append([code(column.name), escape(kind), escape(column.doc)])
    return table(["column", "type", "meaning"], rows)
