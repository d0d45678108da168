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
    Column("unsure", "of what can be agreed upon, that of which it is not known", View.EITHER, words.AGREED),
    Column("since", "the oldest release that sends what the producer has sent", View.CAPTURE, words.SINCE),
)
#: Which of the older protocols the connection speaks.
DIALECT = (
    truth("is_upr", "the dialect is upr: builds of May 2014"),
    truth("draft", "the dialect is the draft of August 2013"),
)
#: What a message is, for sentences that name it and what it should be like.
FORMS = (
    Column("form", "dialect, request or answer, and opcode in one number"),
    Column("expected", "the same, for what messages of this form have"),
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


SEARCHED = truth("searched", "the frame was searched for after a loss or after bytes that are no frame; it may be none")
DOUBTFUL = truth("doubtful", "something of the connection was lost up to here, or its sender had received more")
MESSAGES = table(
    "messages",
    "every message of UPR, with its defects",
    (
        *(frame_column(name) for name in ("datatype", "extras_length", "key_length", "value_length")),
        *(frame_column(name) for name in ("framing_length", "body_length", "nmeta", "missing", "subtype")),
        *(frame_column(name) for name in ("event", "event_version", "marker_version", "open_flags", "reserved")),
        truth("response", _DOCS["response"], View.EITHER),
        frame_column("magic", words.MAGIC),
        frame_column("opcode", words.OPCODE),
        frame_column("status", words.STATUS),
        frame_column("stream_flags", words.STREAM_FLAGS),
        frame_column("snapshot_type", words.MARKER_FLAGS),
        frame_column("cas", words.CAS),
        *FACTS,
        *DIALECT,
        *FORMS,
        truth("has_reserved", "the message has a reserved field that was captured"),
        Column("odd_number_field", "the first field whose number has no meaning", words=words.NUMBER_FIELD),
        Column("odd_number_value", "what it holds"),
        Column("odd_flags_field", "the first field with flags that have no name", words=words.FLAG_FIELD),
        Column("odd_flags_value", "what it holds"),
        *_defects(),
        SEARCHED,
        truth("dialect_unknown", "messages leave it open which dialect is spoken, or the message was read in another"),
        DOUBTFUL,
    ),
)
UNFRAMED_BYTES = TableSchema(
    "unframed_bytes",
    "every place where bytes are no frame",
    (
        *PLACE,
        frame_column("skipped", words.BYTES),
        truth("lost", "bytes are missing here, or it is not certain where the frame before ends"),
    ),
    (
        Reference("guilty", "the frame before if fewer bytes than a header were passed over, else the frame after"),
        Reference("behind", "the frame after the bytes"),
        Reference("before", "the frame before the bytes"),
    ),
)
DIALECT_FORMS = TableSchema(
    "dialect_forms",
    "every message in a form that upr or dcp alone has, when it is settled which of them is spoken",
    (
        *PLACE,
        frame_column("opcode", words.OPCODE),
        frame_column("extras_length"),
        truth("response", _DOCS["response"], View.EITHER),
        Column("shape_of", "the dialect that has messages like this", words=words.SETTLED),
        Column("settled", "the dialect that is spoken", words=words.SETTLED),
        *FORMS,
        Column("root", "opcode and extras length: equal ones are one finding"),
    ),
    (Reference("guilty", "the message"),),
)
TABLES = (MESSAGES, DIALECT_FORMS, UNFRAMED_BYTES)
