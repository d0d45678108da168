"""Named parts of the context's tables: rules share them, so that each is cut out once per batch."""

from __future__ import annotations

from analysis.context import kinds
from analysis.rules.expressions import Term, col

#: The tables that the context gives, and what a row of each is.
TABLES = {
    "frames": "every frame of a UPR connection",
    "messages": "every message of UPR, with its flaws",
    "unframed_bytes": "every place where bytes are no frame",
    "stream": "every message of a vbucket's stream, by stream",
    "answers": "every answer, with the request that it belongs to",
    "requests": "every request that is owed an answer, when it came or was overdue",
    "stream_starts": "every stream request that was granted",
    "stream_closes": "every stream that a producer agreed to close, when it is clear how that went on",
    "add_streams": "every add stream that succeeded",
    "completed_streams": "every stream that delivered all that was asked for",
    "confirmations": "every answer to a marker that asked for one, at its place in the stream",
    "seqno_acks": "every seqno that a replica acknowledged, at its place in the stream",
    "sent": "every message that counts for flow control, with what was outstanding before it",
    "acks": "every buffer ack, with what had been received and given back before it",
    "stalls": "every time that something came back, or the capture ended, while a producer's window was full",
    "versions": "every seqno of a vbucket's branch that was seen more than once, in all captures of an archive",
    "idle_producers": "every producer's last rest, or the first one at which much was left that was never given back",
}


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
    "states": ("stream", col.kind.equals(kinds.STATE)),
}
