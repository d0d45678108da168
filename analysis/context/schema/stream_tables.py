"""Tables of the messages of vbucket streams, each with its stream, the marker in force and what came before it.

A *stream* here is one instance: what one successful answer to a stream request starts. Where a column speaks of the
marker, the item or the version before a message, that is the last one before it in its stream; -1 (ordinals: 0) if
there is none.
"""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.message_tables import DIALECT, FACTS, frame_column
from analysis.context.schema.model import Column, Reference, TableSchema, View, table, truth

_EITHER = View.EITHER

_FIELDS = (
    *(frame_column(name) for name in ("opaque", "end_offset", "acked_offset")),
    Column("snap_start_seqno", "start of the snapshot that a marker announces", _EITHER),
    Column("snap_end_seqno", "end of the snapshot that a marker announces", _EITHER),
    *(frame_column(name) for name in ("rev_seqno", "max_visible_seqno", "high_completed_seqno")),
    *(frame_column(name) for name in ("high_prepared_seqno", "purge_seqno")),
    Column("prepared_seqno", "seqno of the prepare that is completed, or up to which a replica acknowledges", _EITHER),
    frame_column("missing"),
    frame_column("opcode", words.OPCODE),
    frame_column("status", words.STATUS),
    frame_column("snapshot_type", words.MARKER_FLAGS),
    frame_column("end_reason", words.END_REASON),
    frame_column("oso_flags", words.OSO_MARKER),
    frame_column("vbucket_state", words.VBUCKET_STATE),
    frame_column("time_ns", words.TIME_NS),
    frame_column("cas", words.CAS),
    Column("by_seqno", "the message's seqno; -1: it has none, or it could not be read", _EITHER),
    Column("kind", "what the message is to its stream", words=words.KIND),
    Column("ordinal", "the message's row"),
    *FACTS,
    *DIALECT,
)
_REQUESTED = (
    Column("serial", "number of the stream, in the order they began"),
    truth("granted", "the request and its answer were captured"),
    Column("presumed", "why the stream may have begun where nothing was captured", words=words.UNKNOWN),
    Column("start", "start seqno of the request", _EITHER),
    Column("end", "end seqno of the request", _EITHER, words.END_SEQNO),
    Column("flags", "flags of the request", _EITHER, words.STREAM_FLAGS),
    Column("ask_snap_start", "snapshot start of the request", _EITHER),
    truth("filtered", "the request names collections or a scope: items may be missing on purpose", _EITHER),
    Column(
        "instance_opaque",
        "opaque of the request; if that was not captured, of the first two messages that agree; -1: not known",
        _EITHER,
    ),
    Column("answer_offset", "where the answer begins in the producer's bytes", _EITHER),
    Column("answer_ordinal", "row of the answer"),
)
_LOSSES = (
    Column("gap", "the last row of this direction up to here before which something was lost; 0: none"),
    Column("key_gap", "the same, and rows of the stream whose key was cut off"),
    Column("producer_gap", "the same of the direction that the stream is sent in"),
    Column("consumer_gap", "the same of the other direction"),
    truth("lost_since_answer", "something was lost since the answer that began the stream"),
    truth("lost_since_marker", "something was lost since the marker"),
    truth("lost_since_previous", "something was lost since the item before"),
    truth("peer_lost", "something that the sender had received was not captured"),
    truth("has_defect", "the message has a defect, and may be misread"),
)
_SNAPSHOTS = (
    Column("marker_start", "start of the marker in force"),
    Column("marker_end", "end of the marker in force"),
    Column("marker_type", "flags of the marker in force", words=words.MARKER_FLAGS),
    Column("marker_ordinal", "row of the marker in force"),
    Column("snapshot_ordinal", "row that opened the snapshot: the marker, or the start of an out-of-order snapshot"),
    Column("opening_ordinal", "in the dialect upr: row of the first item since the marker"),
    Column("items", "items since the marker"),
    Column("completed", "the last high completed seqno that a disk marker gave"),
    Column("disk_end", "end of the last disk marker"),
    Column("dense", "snapshots before that delivered at least half of the seqnos they span"),
    truth("typed", "a marker before had a type of 2 or more, so types are bits"),
    truth("merged", "a marker started inside what the one before it had left unsent, as replicas do"),
    truth("marker_lost", "a marker of the stream may have been lost before"),
    Column("bracket_ordinal", "row of the last start or end of an out-of-order snapshot"),
    truth("inside_oso", "the message is inside an out-of-order snapshot"),
    truth("oso_since_marker", "an out-of-order snapshot began or ended since the marker"),
    truth("oso_since_previous", "an out-of-order snapshot began or ended since the item before"),
    truth("inside_draft", "the message is between a start and an end of the draft's snapshots"),
    Column("started_ordinal", "row in which the draft says that the stream starts"),
    Column("unconfirmed_markers", "markers that asked for a confirmation and have none yet"),
)
_ITEMS = (
    Column("previous_seqno", "seqno of the item before; what a consumer refuses is none"),
    Column("previous_opcode", "opcode of the item before", words=words.OPCODE),
    Column("previous_ordinal", "row of the item before"),
    Column("whole_from", "the first seqno after a marker from which on nothing was lost; 0: the first of all"),
    Column("previous_offset", "where the item before ends in the producer's bytes"),
    Column("ending_ordinal", "row of a stream end before"),
    Column("ending_opaque", "opaque of that stream end", _EITHER),
    truth("end_ignored", "that stream end has another stream's opaque, and ends nothing"),
    Column("closing_ordinal", "row of the answer to a close stream before"),
    Column("activated_ordinal", "row of a vbucket state active before"),
    Column("acked_before", "seqno that the replica acknowledged last", View.CONSUMER),
)
_DOCUMENTS = (
    truth("document", "the message is about one document"),
    truth("revised", "of these: its revision and CAS are the document's own"),
    truth("sync", "of these: a prepare, commit or abort"),
    *(
        Column(f"version_{name}", f"the key's last message before: {doc}", words=vocabulary)
        for name, doc, vocabulary in (
            ("ordinal", "its row", words.NUMBER),
            ("frame", "the number of its frame", words.NUMBER),
            ("snapshot", "the row that opened its snapshot", words.NUMBER),
            ("seqno", "its seqno", words.NUMBER),
            ("rev", "its revision", words.NUMBER),
            ("cas", "its CAS", words.CAS),
            ("opcode", "its opcode", words.OPCODE),
        )
    ),
    Column("sync_seqno", "the key's last prepare, commit or abort before: its seqno"),
    Column("sync_ordinal", "its row"),
    Column("sync_frame", "the number of its frame"),
    Column("sync_opcode", "its opcode", words=words.OPCODE),
    truth("sync_forgotten", "such a message may have been forgotten for want of room"),
    Column(
        "foreign_ordinal",
        "the stream's last document up to here whose revision or CAS another cluster must have made: its row; 0: none",
    ),
    Column("cas_ahead_s", "seconds by which the clock in the CAS is ahead of the capture's", words=words.DURATION_S),
)
_COLUMNS = (*_FIELDS, *_REQUESTED, *_LOSSES, *_SNAPSHOTS, *_ITEMS, *_DOCUMENTS)
_REFS = (
    Reference("here", "the message itself, where another frame is guilty"),
    Reference("request", "the stream request"),
    Reference("answer", "its answer"),
    Reference("marker", "the marker in force"),
    Reference("last", "the item before"),
    Reference("opening", "in the dialect upr: the first item since the marker"),
    Reference("bracket", "the last start or end of an out-of-order snapshot"),
    Reference("ending", "a stream end before"),
    Reference("closing", "the answer to a close stream before"),
    Reference("activated", "a vbucket state active before"),
    Reference("before", "the replica's last seqno acknowledged"),
)

STREAM = table("stream", "every message of a vbucket's stream, by stream", _COLUMNS, _REFS)
CONFIRMATIONS = TableSchema(
    "confirmations",
    "every answer to a marker that asked for one, at its place in the stream",
    (
        *STREAM.columns,
        Column("asked_ordinal", "row of the marker that the answer confirms"),
        Column("asked_end", "end of that marker"),
    ),
    (*STREAM.refs, Reference("asked", "the marker that the answer confirms")),
    STREAM,
)
SEQNO_ACKS = TableSchema(
    "seqno_acks",
    "every seqno that a replica acknowledged, at its place in the stream",
    STREAM.columns,
    STREAM.refs,
    STREAM,
)
RESUMED_STREAMS = TableSchema(
    "resumed_streams",
    "the markers and items with which a stream begins that goes on behind the vbucket's stream before it on the "
    "connection",
    (
        *STREAM.columns,
        Column("resumed_after", "the last seqno that the stream before had delivered"),
        truth("resumed_surely", "nothing of that stream can have come after it"),
    ),
    STREAM.refs,
    STREAM,
)
TABLES = (STREAM, CONFIRMATIONS, SEQNO_ACKS, RESUMED_STREAMS)
