"""One row from one decoded frame, field by field: readable, and the standard that the columnar path is held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import xxhash

from dissector.codec.decoder import decode
from dissector.frames.byte_text import text_of
from dissector.frames.key_hash import hash_key
from dissector.frames.schema import (
    COLUMNS,
    FIELD_COLUMNS,
    RECORD_LIMIT,
    TEXT_LIMIT,
    cache_record,
    signed,
    signed_pattern,
)
from dissector.pseudonyms.frames import replaced
from dissector.spec.model import Body, MessageType
from dissector.tcp.connections import packet_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.codec.message import Decoded
    from dissector.options import ReadOptions
    from dissector.spec.model import Dialect
    from dissector.tcp.connections import Connection
    from dissector.tcp.framing import RawFrame

Row = dict[str, Any]
_FIELD_NAMES = frozenset(column.name for column in FIELD_COLUMNS) | {"collection_id", "stream_id"}
_EMPTY: Row = {column.name: None for column in COLUMNS}


@dataclass(slots=True, eq=False)
class PlainFrame:
    """A frame as its connection stood when it was complete: all that a row is made of."""

    number: int
    connection: Connection
    side: int
    frame: RawFrame
    from_start: bool
    dialect: Dialect
    collections: bool
    place: int  #: what has come of the run until its end, see :mod:`dissector.frames.look_ahead`


def row_of(plain: PlainFrame, captures: Sequence[str], options: ReadOptions) -> Row:
    """Decode a frame and lay it out as a row."""
    frame = plain.frame
    if options.pseudonyms is not None:
        data = replaced(options.pseudonyms, plain.dialect, frame.data, collections=plain.collections)
        frame = frame._replace(data=data)
    decoded = decode_for_row(plain.dialect, frame.data, options, collections=plain.collections)
    content = content_of(decoded, frame.data, frame.missing, options)
    return {**_EMPTY, **_place(plain, captures), **content}


def decode_for_row(dialect: Dialect, data: bytes, options: ReadOptions, *, collections: bool) -> Decoded:
    """Decode a frame for a row: documents are looked into only on request."""
    return decode(
        dialect, data, collections=collections, withhold_secrets=options.withhold_secrets, inspect=options.inspect
    )


def content_of(decoded: Decoded, data: bytes, missing: int, options: ReadOptions) -> Row:
    """Lay out everything of a decoded frame that does not depend on where it came from."""
    return {**_header(decoded), **_fields(decoded), **_content(decoded, data, missing, options)}


def _place(plain: PlainFrame, captures: Sequence[str]) -> Row:
    connection, side, frame = plain.connection, plain.side, plain.frame
    flow = connection.flow(side)
    capture_first, packet_first = packet_of(frame.packet_first)
    capture_last, packet_last = packet_of(frame.packet_last)
    return {
        "frame": plain.number,
        "capture": captures[capture_last],
        "packet_first": packet_first,
        "packet_last": packet_last,
        "capture_first": captures[capture_first],
        "time_ns": frame.time_ns,
        "connection": connection.id,
        "direction": side,
        "src": flow.source,
        "sport": flow.source_port,
        "dst": flow.destination,
        "dport": flow.destination_port,
        "start_offset": frame.start,
        "end_offset": frame.end,
        "acked_offset": frame.acked,
        "from_start": plain.from_start,
        "gap": frame.gap,
        "skipped": frame.skipped,
        "missing": frame.missing,
    }


def _header(decoded: Decoded) -> Row:
    header = decoded.header
    if header is None:
        return {}
    return {
        "dialect": decoded.dialect.value,
        "magic": header.magic,
        "opcode": header.opcode,
        "name": decoded.name,
        "response": decoded.direction is MessageType.RESPONSE,
        "vbucket": decoded.vbucket,
        "status": decoded.status,
        "subtype": decoded.subtype,
        "datatype": None if decoded.subtype is not None else header.datatype,
        "framing_length": header.framing_length,
        "extras_length": header.extras_length,
        "key_length": header.key_length,
        "value_length": decoded.value.length,
        "body_length": header.body_length,
        "opaque": int.from_bytes(header.opaque, "big"),
        "opaque_swapped": int.from_bytes(header.opaque, "little"),
        "cas": signed_pattern(header.cas),
        "flow_bytes": decoded.flow_control_bytes,
    }


def _fields(decoded: Decoded) -> Row:
    row: Row = {}
    infos = (entry for info in decoded.frame_infos for entry in info.fields)
    seqno = decoded.spec.seqno if decoded.spec is not None else None
    for entry in (*infos, *decoded.fields):
        value = signed(entry.spec, entry.value)
        if entry.name in _FIELD_NAMES:
            row[entry.name] = value
        if entry.name == seqno:
            row["by_seqno"] = value
    return row


def _content(decoded: Decoded, data: bytes, missing: int, options: ReadOptions) -> Row:
    value = decoded.value
    header = decoded.header
    key_there = header is not None and len(decoded.key) == header.key_length > 0
    value_there = not missing and not value.withheld and value.length > 0
    raw = data[value.offset : value.offset + value.length] if value_there else b""
    row: Row = {
        "key": text_of(decoded.document_key) if key_there else None,
        "key_bytes": decoded.key if key_there else None,
        "key_hash": hash_key(decoded.key) if key_there else None,
        "value_hash": signed_pattern(xxhash.xxh3_64_intdigest(raw)) if value_there else None,
        "value": raw if value_there and options.values else None,
        "defects": list(decoded.defect_ids()),
    }
    if decoded.collection_id is not None:
        row["collection_id"] = decoded.collection_id
    if value_there and value.kind in (Body.TEXT, Body.JSON):
        row["text"] = raw[:TEXT_LIMIT].decode("utf-8", "replace")
    if value.kind is Body.FAILOVER_LOG and not missing:
        row["failover_log"] = [
            {
                "vbucket_uuid": signed_pattern(entry["vbucket_uuid"]),
                "seqno": signed(entry.fields[1].spec, entry["seqno"]),
            }
            for entry in value.records
        ]
    if value.kind is Body.CACHE_TRANSFER and not missing and _wanted("cache_records", options):
        row["cache_records"] = [cache_record(record) for record in value.records[:RECORD_LIMIT]]
    if value.kind is Body.FEATURES and not missing:
        row["features"] = [entry["feature"] for entry in value.records]
    return row


def _wanted(column: str, options: ReadOptions) -> bool:
    return options.columns is None or column in options.columns
