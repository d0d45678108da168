"""Connections and streams as rows: the columns, their types and meanings, and how rows become tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dissector.frames.schema import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Row = dict[str, Any]

GAP_LIST_TYPE = pa.list_(pa.struct([("offset", pa.int64()), ("length", pa.int64())]))
SIDES = ("client", "server")  #: by direction


def _each_way(name: str, kind: pa.DataType, doc: str) -> tuple[Column, ...]:
    return tuple(Column(f"{side}_{name}", kind, doc.replace("SIDE", f"the {side}")) for side in SIDES)


CONNECTION_COLUMNS: tuple[Column, ...] = (
    Column("number", pa.int64(), "number of the connection as dissect lists and follows it; null without frames"),
    Column("connection", pa.string(), "stable id of the connection, as in the rows of frames"),
    Column("client", pa.string(), "address of the side that opened the connection (or was seen first)"),
    Column("client_port", pa.int32(), "its port"),
    Column("server", pa.string(), "address of the other side"),
    Column("server_port", pa.int32(), "its port"),
    Column("handshake", pa.bool_(), "whether a SYN was captured; without one, client is the side that was seen first"),
    Column("name", pa.string(), "name of the connection: the key of its first open; in the draft the stream's name"),
    Column("producer", pa.string(), "which side produces: client or server; null where nothing tells"),
    Column("consumer", pa.string(), "which side consumes"),
    Column("dialect", pa.string(), "draft, upr-proto, upr, dcp or memcached"),
    Column("era", pa.string(), "releases that can have sent what was seen: 3.0+, 5.0 to 6.0, before 3.0, ..."),
    Column("contradictions", pa.list_(pa.string()), "what speaks against dialect or era"),
    Column("bucket", pa.string(), "bucket that was selected last; a refused selection does not count"),
    Column("agent", pa.string(), "what the client calls itself: the key of its last HELLO"),
    Column("collections", pa.bool_(), "whether collections were negotiated: document keys start with a collection id"),
    Column("start", pa.string(), "time of the first packet, UTC"),
    Column("start_ns", pa.int64(), "the same in nanoseconds since the epoch"),
    Column("duration_ns", pa.int64(), "time from the first packet to the last"),
    *_each_way("frames", pa.int64(), "frames that SIDE sent"),
    *_each_way("bytes", pa.int64(), "bytes of TCP payload that SIDE sent and that were captured, each once"),
    *_each_way("gaps", pa.int64(), "gaps in what SIDE sent"),
    *_each_way("bytes_lost", pa.int64(), "bytes in these gaps"),
    *_each_way("bytes_repeated", pa.int64(), "bytes that SIDE sent again"),
    *_each_way("bytes_conflicting", pa.int64(), "of them, bytes that differed from the first copy while that was held"),
    *_each_way("bytes_skipped", pa.int64(), "bytes of SIDE that could not be read as frames; null of another protocol"),
    Column(
        "ended",
        pa.string(),
        "closed (both sides sent FIN), reset, half-closed, reused (the ports were, without an end), or open",
    ),
    Column("defective_frames", pa.int64(), "frames that have a defect"),
    Column("worst_defect", pa.string(), "worst severity among them: error, warning or note"),
    Column("defect_ids", pa.list_(pa.string()), "ids of the defects"),
)

HASH_COLUMNS: tuple[Column, ...] = (
    *_each_way("sha256", pa.string(), "SHA-256 of the captured bytes that SIDE sent, each once and in order"),
    *_each_way("hashed_bytes", pa.int64(), "how many bytes that are; gaps contribute nothing"),
    *_each_way("gap_list", GAP_LIST_TYPE, "offset and length of each gap in what SIDE sent"),
)

STREAM_COLUMNS: tuple[Column, ...] = (
    Column("number", pa.int64(), "number of the connection as dissect lists and follows it"),
    Column("connection", pa.string(), "stable id of the connection"),
    Column("name", pa.string(), "name of the connection"),
    Column("vbucket", pa.int32(), "vbucket id; null where an answer was captured, but neither request nor data"),
    Column("stream_id", pa.int32(), "stream id, where the stream has one"),
    Column("opaque", pa.int64(), "opaque of the stream, read big-endian"),
    Column("producer", pa.string(), "which side sends the stream: client or server"),
    Column("request_captured", pa.bool_(), "whether the stream request is in the capture"),
    Column("request_frame", pa.int64(), "number of the request's frame"),
    Column("status", pa.string(), "how the request was answered, by name; null where no answer was captured"),
    Column("status_code", pa.int32(), "the same as a number; the draft has none"),
    Column("rollback_seqno", pa.int64(), "seqno to go back to, where the answer was a rollback"),
    Column("start_seqno", pa.int64(), "requested start"),
    Column("end_seqno", pa.int64(), "requested end; 2^63-1: no end; then it is left out of JSON and CSV"),
    Column("open_ended", pa.bool_(), 'whether the requested end is "no end"'),
    Column("stream_flags", pa.int64(), "requested flags"),
    Column("vbucket_uuid", pa.int64(), "requested branch of the history", unsigned=True),
    Column("first_seqno", pa.int64(), "by_seqno of the first data message"),
    Column("last_seqno", pa.int64(), "by_seqno of the last one"),
    Column("snapshots", pa.int64(), "snapshot markers"),
    Column(
        "items",
        pa.int64(),
        "data messages: mutations, deletions, expirations, system events, prepares, commits, aborts, advanced seqnos",
    ),
    Column("bytes", pa.int64(), "frame bytes of all the stream's messages; request and answer do not count"),
    Column(
        "ended",
        pa.string(),
        "reason of the stream end; else close_stream (closed without one), replaced (by a further stream of the "
        "vbucket), refused, unanswered or open",
    ),
    Column("end_reason", pa.int64(), "reason of the stream end as a number"),
    Column("start", pa.string(), "time of the request, or of the first message, UTC"),
    Column("start_ns", pa.int64(), "the same in nanoseconds since the epoch"),
    Column("duration_ns", pa.int64(), "time from there to the stream's last message"),
)


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    return pa.schema([column.field for column in columns])


def table_of(rows: Sequence[Row], columns: Sequence[Column]) -> pa.Table:
    """Lay rows out as columns; what a row does not have is null."""
    schema = schema_of(columns)
    arrays = [pa.array([row.get(column.name) for row in rows], column.type) for column in columns]
    return pa.Table.from_arrays(arrays, schema=schema)


def joined(table: pa.Table) -> pa.Table:
    """Write lists as text, for formats that have none: texts joined by ``; ``, gaps as ``offset+length``."""
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = [None if value is None else _joined(value) for value in table.column(index).to_pylist()]
            table = table.set_column(index, pa.field(field.name, pa.string()), pa.array(texts, pa.string()))
    return table


def _joined(value: list[Any]) -> str:
    if value and isinstance(value[0], dict):
        return " ".join(f"{entry['offset']}+{entry['length']}" for entry in value)
    return "; ".join(value)
