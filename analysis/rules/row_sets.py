"""Named parts of the context's tables: rules share a part, so it is cut out once per batch."""

from __future__ import annotations

from typing import NamedTuple

from analysis.context import kinds
from analysis.rules.expressions import Term, col


class TablePart(NamedTuple):
    """Some rows of a table."""

    table: str
    rows: Term
    doc: str  #: what one row is


_MARKER = col.kind.equals(kinds.MARKER)

PARTS: dict[str, TablePart] = {
    "items": TablePart("stream", col.kind.equals(kinds.DATA) & (col.by_seqno >= 0), "every message with a seqno"),
    "documents": TablePart("stream", col.document, "every message about a document"),
    "revisions": TablePart(
        "stream", col.revised & (col.version_ordinal > 0), "every version of a document that had one before"
    ),
    "sync_writes": TablePart("stream", col.sync, "every prepare, and every message that completes one"),
    "markers": TablePart("stream", _MARKER, "every snapshot marker"),
    "ranged_markers": TablePart("stream", _MARKER & (col.snap_end_seqno >= 0), "every snapshot marker with a range"),
    "ends": TablePart("stream", col.kind.equals(kinds.END), "every stream end"),
    "vbucket_states": TablePart("handovers", col.kind.equals(kinds.STATE), "every vbucket state"),
    "handover_ends": TablePart("handovers", col.kind.equals(kinds.END), "every stream end, with what was answered"),
    "brackets": TablePart(
        "stream", col.kind.equals(kinds.OSO), "every start and end of a snapshot out of sequence order"
    ),
    "draft_snapshot_ends": TablePart("stream", col.kind.equals(kinds.SNAPSHOT_END), "every snapshot end of the draft"),
}


def table_of(rows: str) -> str:
    """Return the table that rows of this name are in: a part's, or the table itself."""
    return PARTS[rows].table if rows in PARTS else rows
