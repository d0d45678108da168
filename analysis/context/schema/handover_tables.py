"""The table of vbuckets that are handed over: states and stream ends, with what their sender had been answered."""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.model import Column, Reference, TableSchema, View, truth
from analysis.context.schema.stream_tables import STREAM

_PRODUCER = View.PRODUCER

HANDOVERS = TableSchema(
    "handovers",
    "every vbucket state, and every end of a stream, with the states before it and what was answered of them",
    (
        *STREAM.columns,
        Column("states", "vbucket states before in the stream"),
        Column("previous_state", "the last of them", View.EITHER, words.VBUCKET_STATE),
        Column("state_ordinal", "its row"),
        truth("state_answered", "the answer to that state had arrived", _PRODUCER),
        Column("answer_unknown", "why that is not certain", words=words.UNKNOWN),
        Column("markers_waiting", "markers that asked for a confirmation, of which none had arrived", _PRODUCER),
        Column("marker_unknown", "why that is not certain", words=words.UNKNOWN),
    ),
    (
        *STREAM.refs,
        Reference("state", "the vbucket state before"),
        Reference("waiting", "the first marker without a confirmation"),
    ),
    STREAM,
)
TABLES = (HANDOVERS,)
