"""Frames as rows: the one schema that everything after the dissector reads.

Spark has no unsigned types, so numbers stand in the next larger signed one. Of 64-bit numbers, identifiers (CAS, uuids)
keep their bit pattern and are printed as unsigned; seqnos stop at 2^63-1, which stands for "no end".

The columns of single messages derive from the spec: a new field there is a new column here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from dissector.errors import UsageError
from dissector.frames.byte_text import text_of
from dissector.spec import fields, registry
from dissector.spec.model import Dialect, Field, Role, UInt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dissector.codec.message import Record

NO_END = (1 << 63) - 1
TEXT_LIMIT = 4096  #: bytes of a value that are kept as text
RECORD_LIMIT = 1 << 16  #: records of a value that are kept


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, type and meaning."""

    name: str
    type: pa.DataType
    doc: str
    unsigned: bool = False  #: a 64-bit pattern, printed as unsigned
    always: bool = False  #: never null: Spark and Parquet do less for it
    seqno: bool = False  #: NO_END in it is no number

    @property
    def field(self) -> pa.Field:
        """Return it as part of an Arrow schema."""
        return pa.field(self.name, self.type, not self.always, {"doc": self.doc})


_TYPES = {
    UInt.U8: pa.int16(),
    UInt.U16: pa.int32(),
    UInt.U32: pa.int64(),
    UInt.U64: pa.int64(),
}
#: Fields that say nothing, even if they should, and those that have a column of another name.
_HIDDEN = frozenset(
    (
        *("unused", "padding", "sequence_number", "commit_seqno", "abort_seqno"),
        *("ttl_valid", "default_max_visible_seqno"),
    )
)

#: Of a cache record: those that tell where its key and value are have no place in the column.
_RECORD_FIELDS = tuple(field for field in fields.CACHE_RECORD if field.name != "key_length")
CACHE_RECORDS_TYPE = pa.list_(
    pa.struct(
        [("collection_id", pa.int64()), ("key", pa.string()), ("key_bytes", pa.binary())]
        + [(field.name, _TYPES[field.kind]) for field in _RECORD_FIELDS]
    )
)
FAILOVER_LOG_TYPE = pa.list_(pa.struct([("vbucket_uuid", pa.int64()), ("seqno", pa.int64())]))

IDENTITY_COLUMNS: tuple[Column, ...] = (
    Column("frame", pa.int64(), "number of the frame in this run, from 1, in the order they were complete"),
    Column("capture", pa.string(), "capture file of the last packet"),
    Column(
        "packet_first", pa.int64(), "number of the packet with the first of the frame's bytes to be captured, from 1"
    ),
    Column("packet_last", pa.int64(), "number of the packet that completed it"),
    Column("capture_first", pa.string(), "capture file of the first packet"),
    Column("time_ns", pa.int64(), "time of the last packet, nanoseconds since the epoch"),
    Column(
        "connection",
        pa.string(),
        "stable id of the connection: hash of addresses, ports and time of the first packet; of connections in which "
        "these are equal each has its own",
    ),
    Column(
        "direction", pa.int16(), "0: sent by the side that opened the connection (or was seen first), 1: by the other"
    ),
    Column("src", pa.string(), "address of the sender"),
    Column("sport", pa.int32(), "port of the sender"),
    Column("dst", pa.string(), "address of the receiver"),
    Column("dport", pa.int32(), "port of the receiver"),
    Column("start_offset", pa.int64(), "offset of the frame's first byte in its direction, never wrapping"),
    Column("end_offset", pa.int64(), "offset behind the frame's last byte"),
    Column(
        "acked_offset",
        pa.int64(),
        "bytes of the other direction that the packet with the frame's first byte acknowledged: this frame was sent "
        "after another one f of the other direction had arrived exactly if acked_offset >= f.end_offset",
    ),
    Column(
        "from_start",
        pa.bool_(),
        "whether a SYN of this direction, or the answer to it, had been captured by then: offset 0 is the first byte "
        "that was sent; otherwise it is the first one that was seen",
    ),
    Column("gap", pa.int64(), "bytes lost between the frame before this one in its direction and this one"),
    Column("skipped", pa.int64(), "bytes passed over there because they were no frame"),
    Column("missing", pa.int64(), "bytes of this frame itself that are not there"),
)

HEADER_COLUMNS: tuple[Column, ...] = (
    Column(
        "dialect", pa.string(), "draft, upr-proto, upr, dcp or memcached: as the connection's frames so far show it"
    ),
    Column("magic", pa.int16(), "first byte: 128 request, 129 response, 8 and 24 the same with framing extras"),
    Column("opcode", pa.int16(), "second byte"),
    Column("name", pa.string(), "name of the message; 0x.. for an unknown opcode"),
    Column("response", pa.bool_(), "whether the magic is a response's"),
    Column("vbucket", pa.int32(), "vbucket id; requests, and every message of the draft"),
    Column("status", pa.int32(), "status of a response"),
    Column("subtype", pa.int16(), "draft: byte 5"),
    Column("datatype", pa.int16(), "1 JSON, 2 snappy, 4 xattrs"),
    Column("framing_length", pa.int16(), "size of the framing extras as the header says"),
    Column("extras_length", pa.int16(), "size of the extras"),
    Column("key_length", pa.int32(), "size of the key"),
    Column("value_length", pa.int64(), "size of the value"),
    Column("body_length", pa.int64(), "size of everything behind the header"),
    Column("opaque", pa.int64(), "the four opaque bytes, read big-endian"),
    Column("opaque_swapped", pa.int64(), "the same bytes read little-endian, as most servers count"),
    Column("cas", pa.int64(), "CAS", unsigned=True),
    Column("flow_bytes", pa.int64(), "bytes that the frame takes from the flow-control window; 0: not counted"),
    Column("stream_id", pa.int32(), "stream id of the framing extras"),
)

CONTENT_COLUMNS: tuple[Column, ...] = (
    Column(
        "key", pa.string(), "key as people write it: without its collection id, hex:... where it is no printable text"
    ),
    Column("key_bytes", pa.binary(), "key as on the wire, the collection id in front of it included"),
    Column("collection_id", pa.int64(), "collection id in front of a document key, or of a system event"),
    Column(
        "key_hash", pa.int64(), "hash of the key, for telling keys apart (dissector/frames/key_hash.py)", unsigned=True
    ),
    Column("value_hash", pa.int64(), "XXH3 hash of the value as on the wire", unsigned=True),
    Column("text", pa.string(), "the value of controls, opens, stream requests and refusals as text"),
    Column("failover_log", FAILOVER_LOG_TYPE, "failover log, newest entry first as servers send it"),
    Column(
        "cache_records",
        CACHE_RECORDS_TYPE,
        "documents of a cache transfer, each with its collection id, its key without that, and the key as on the wire",
    ),
    Column("features", pa.list_(pa.int32()), "HELLO features asked for or granted"),
    Column("value", pa.binary(), "the value as on the wire; only when asked for"),
    Column("defects", pa.list_(pa.string()), "ids of what is wrong with the frame"),
)


def _field_columns() -> tuple[Column, ...]:
    named = {column.name for column in (*IDENTITY_COLUMNS, *HEADER_COLUMNS, *CONTENT_COLUMNS)}
    columns: dict[str, Column] = {}
    for message in registry.MESSAGES:
        if message.dialect is Dialect.MEMCACHED:
            continue
        for shape in message.shapes():
            for layout in shape.layouts:
                for field in (*layout.extras, *layout.value):
                    if field.name not in named and field.name not in _HIDDEN:
                        columns.setdefault(field.name, _column(field))
    for event in registry.EVENT_BY_ID.values():
        for field in event.fields:
            if field.name not in named and field.name not in _HIDDEN:
                columns.setdefault(field.name, _column(field))
    order = {"by_seqno": 0, "rev_seqno": 1}
    return tuple(sorted(columns.values(), key=lambda column: order.get(column.name, 2)))


def _column(field: Field) -> Column:
    unsigned = field.kind is UInt.U64 and field.role is Role.IDENTIFIER
    doc = "the message's own seqno, whatever its field is called" if field.name == "by_seqno" else field.doc
    seqno = field.kind is UInt.U64 and field.role is Role.SEQNO
    return Column(field.name, _TYPES[field.kind], doc, unsigned, seqno=seqno)


FIELD_COLUMNS = _field_columns()
_SOMETIMES = frozenset(("acked_offset", "vbucket", "status", "subtype", "datatype", "stream_id"))
#: Columns that every frame has: where it is, and what is in every header.
ALWAYS = frozenset(column.name for column in (*IDENTITY_COLUMNS, *HEADER_COLUMNS)) - _SOMETIMES | {"defects"}
COLUMNS: tuple[Column, ...] = tuple(
    replace(column, always=column.name in ALWAYS)
    for column in (*IDENTITY_COLUMNS, *HEADER_COLUMNS, *FIELD_COLUMNS, *CONTENT_COLUMNS)
)
_PLACES = ("frame", "packet_first", "packet_last", "time_ns", "start_offset", "end_offset")
#: Columns whose values hardly repeat: Parquet gains nothing from listing the distinct ones first, which takes time.
DISTINCT = frozenset(
    (
        *(*_PLACES, "cas", "by_seqno", "key", "key_bytes", "key_hash", "value_hash", "value"),
        *("time", "seconds", "delta", "response_to", "response_time_ns"),
    )
)
SCHEMA = pa.schema([column.field for column in COLUMNS])
UNSIGNED = frozenset(column.name for column in COLUMNS if column.unsigned)
SEQNOS = frozenset(column.name for column in COLUMNS if column.seqno)


def columns_of(
    text: str, option: str, schema: pa.Schema = SCHEMA, aliases: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Read names of columns, as in ``time_ns,name,by_seqno``; raises UsageError that names the option."""
    names = [aliases.get(name.strip(), name.strip()) for name in text.split(",")]
    for name in names:
        if name not in schema.names:
            import difflib  # noqa: PLC0415 - only for mistyped names

            close = difflib.get_close_matches(name, [*schema.names, *aliases], 1)
            hint = f"did you mean {close[0]}?" if close else "uprscope explain columns lists them"
            raise UsageError(f"{option}: no column {name!r} ({hint})")
        if names.count(name) > 1:
            raise UsageError(f"{option}: {name} is there twice")
    return names


def signed(field: Field, value: int) -> int:
    """Return a field's number as its column holds it."""
    if field.kind is not UInt.U64 or value <= NO_END:
        return value
    return value - (1 << 64) if field.role is Role.IDENTIFIER else NO_END


def cache_record(record: Record) -> dict[str, int | str | bytes | None]:
    """Return a record of a cache transfer as the column of them holds it."""
    numbers = {entry.name: signed(entry.spec, entry.value) for entry in record.fields if entry.name != "key_length"}
    key: dict[str, int | str | bytes | None] = {"key": text_of(record.document_key), "key_bytes": record.key}
    return {"collection_id": record.collection_id, **key, **numbers}


def signed_pattern(value: int) -> int:
    """Return a 64-bit pattern as a signed number."""
    return value - (1 << 64) if value > NO_END else value
