"""Named parts of the context's tables: rules share a part, so it is cut out once per batch."""

from __future__ import annotations

from analysis.context import kinds
from analysis.rules.expressions import Term, col

#: Part to table and rows.
PARTS: dict[str, tuple[str, Term]] = {
    "items": ("stream", col.kind.equals(kinds.DATA) & (col.by_seqno >= 0)),  #: messages with a seqno
    "documents": ("stream", col.document),  #: of these, those about a document
    "revisions": ("stream", col.revised & (col.version_ordinal > 0)),  #: of these, those that came before
    "sync_writes": ("stream", col.sync),  #: of these, prepares and what completes them
    "markers": ("stream", col.kind.equals(kinds.MARKER)),
    "ranged_markers": ("stream", col.kind.equals(kinds.MARKER) & (col.snap_end_seqno >= 0)),
    "ends": ("stream", col.kind.equals(kinds.END)),
    "brackets": ("stream", col.kind.equals(kinds.OSO)),
    "draft_snapshot_ends": ("stream", col.kind.equals(kinds.SNAPSHOT_END)),
}


def table_of(rows: str) -> str:
    """Return the table that rows of this name are in: a part's, or the table itself."""
    return PARTS[rows][0] if rows in PARTS else rows
