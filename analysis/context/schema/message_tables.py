"""Tables about single messages: ``messages`` with their defects, and ``unframed_bytes`` between them."""

from __future__ import annotations

from analysis.context.defects import DEFECT_COLUMNS
from analysis.context.schema import vocabularies as words
from analysis.context.schema.model import PLACE, Column, Reference, TableSchema, View, Vocabulary, table, truth
from dissector.frames.schema import COLUMNS, IDENTITY_COLUMNS

_DOCS = {column.name: column.doc for column in COLUMNS}
_IDENTITY = frozenset(column.name for column in IDENTITY_COLUMNS)


def frame_column(name: str, vocabulary: Vocabulary | None = None) -> Column:
    """Return a column of the frames, as it is."""
    view = View.CAPTURE if name in _IDENTITY else View.EITHER
    return Column(name, _DOCS[name], view, vocabulary or Vocabulary())


#: What is known of the connection at a row, with everything up to it.
FACTS = (
    Column("opened", "the row with the connection's open, counted from 1; 0: not captured"),
    Column("agreed", "what was agreed upon: control parameters, HELLO features, open flags", View.EITHER, words.AGREED),
    Column("since", "the oldest release that sends what the producer has sent", View.CAPTURE, words.SINCE),
)
#: Which of the older protocols the connection speaks.
DIALECT = (
    truth("is_upr", "the dialect is upr: builds of May 2014"),
    truth("draft", "the dialect is the draft of August 2013"),
)


def _defects() -> tuple[Column, ...]:
    found = []
    for name in DEFECT_COLUMNS:
        severity, rule = name.split("_", 1)
        rule = rule.upper().replace("_", "-")
        doc = f"the message's first defect of {rule} that is {'an error' if severity == 'error' else 'a warning'}"
        found.append(Column(name, doc, words=words.DEFECT))
        found.append(Column(f"{name}_root", "the same together with the opcode: equal ones are one finding"))
    return tuple(found)


MESSAGES = table(
    "messages",
    "every message of UPR, with its defects",
    (
        *(frame_column(name) for name in ("datatype", "extras_length", "key_length", "value_length")),
        *(frame_column(name) for name in ("framing_length", "body_length", "nmeta", "missing", "subtype")),
        *(frame_column(name) for name in ("event", "event_version", "marker_version", "vbucket_state")),
        *(frame_column(name) for name in ("open_flags", "durability_level")),
        truth("response", _DOCS["response"], View.EITHER),
        frame_column("magic", words.MAGIC),
        frame_column("opcode", words.OPCODE),
        frame_column("status", words.STATUS),
        frame_column("stream_flags", words.STREAM_FLAGS),
        frame_column("snapshot_type", words.MARKER_FLAGS),
        frame_column("end_reason", words.END_REASON),
        frame_column("oso_flags", words.OSO_MARKER),
        frame_column("cas", words.CAS),
        *FACTS,
        *DIALECT,
        *_defects(),
        truth("lost", "something of the connection was lost up to here, in either direction; told of defects only"),
        truth("peer_not_captured", "the sender had received more than was captured before; told of defects only"),
        truth("doubtful", "either of these, told of every message"),
    ),
)
UNFRAMED_BYTES = TableSchema(
    "unframed_bytes",
    "every place where bytes are no frame",
    (
        *PLACE,
        frame_column("skipped", words.BYTES),
        truth("lost", "something of the connection was lost before, or the frame before is not known"),
    ),
    (
        Reference("guilty", "the frame before if fewer bytes than a header were passed over, else the frame after"),
        Reference("behind", "the frame after the bytes"),
        Reference("before", "the frame before the bytes"),
    ),
)
TABLES = (MESSAGES, UNFRAMED_BYTES)
