"""The fields that the Wireshark plugin registers: their filter names, types, titles and words, in a fixed order.

A declared field of the spec is ``upr.<its name>``, a flag ``upr.<field>.<flag>``, a member of a record
``upr.<record>.<its name>``. This module knows what Wireshark's field types are called, and nothing about dissection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dissector.frames.schema import CONTENT_COLUMNS, HEADER_COLUMNS
from dissector.spec import enums, events, fields, headers, registry, value_kinds
from dissector.spec.model import Enumeration, Flags, Role, UInt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.codegen.lua_tables import Tables
    from dissector.spec.model import Field

_TYPES = {UInt.U8: "uint8", UInt.U16: "uint16", UInt.U32: "uint32", UInt.U64: "uint64"}
#: Lists in values: what their members' names start with.
PREFIXES = {
    "failover log": "failover_log",
    "feature list": "",
    "vbucket seqnos": "vbucket_seqnos",
    "cache transfer records": "record",
}


class Generated(NamedTuple):
    """A field that no message declares: made from parts of the frame, or from what came before it."""

    name: str
    type: str
    title: str
    doc: str
    base: str = ""


_WORDS = {column.name: column.doc for column in (*HEADER_COLUMNS, *CONTENT_COLUMNS)}

#: Made from the frame itself.
OF_FRAME: tuple[Generated, ...] = (
    Generated("name", "string", "Message", "name of the message, as its dialect calls it"),
    Generated("dialect", "string", "Dialect", _WORDS["dialect"]),
    Generated("response", "bool", "Response", _WORDS["response"]),
    Generated("layout", "string", "Layout", "which form of the message this is"),
    Generated("opaque_swapped", "uint32", "Opaque, little-endian", _WORDS["opaque_swapped"], "DEC"),
    Generated("value_length", "uint32", "Value length", _WORDS["value_length"], "DEC"),
    Generated("flow_bytes", "uint32", "Counted bytes", _WORDS["flow_bytes"], "DEC"),
    Generated(
        "missing", "uint32", "Missing bytes", _WORDS.get("missing", "bytes of the frame that are not there"), "DEC"
    ),
    Generated("framing", "bytes", "Framing extras", "framing extras as they stand on the wire"),
    Generated("frame_info", "string", "Frame info", "name of an object of the framing extras"),
    Generated("extras", "bytes", "Extras", "extras that no layout describes"),
    Generated("key", "string", "Key", "key without its collection id, as text"),
    Generated("key_bytes", "bytes", "Key as sent", "key as on the wire, where its text does not tell all of it"),
    Generated("collection_id", "uint32", "Collection id", _WORDS["collection_id"], "HEX"),
    Generated("value", "bytes", "Value", "value as on the wire"),
    Generated("text", "string", "Text", "value of a control, a JSON value or a refusal's words"),
    Generated("withheld", "string", "Value withheld", "a log-in, key or token: not shown"),
    Generated("inflated", "bytes", "Decompressed value", "value after snappy"),
    Generated("xattr.name", "string", "Xattr", "name of an extended attribute"),
    Generated("xattr.value", "string", "Xattr value", "value of an extended attribute"),
    Generated("document", "string", "Document", "document behind snappy and xattrs, as text"),
    Generated("collection_name", "string", "Collection name", "name of the collection in the table of a system event"),
    Generated("scope_name", "string", "Scope name", "name of the scope in the table of a system event"),
    Generated("metadata.id", "uint8", "Extended metadata", "id of an entry behind the value (4.0 to 4.6)", "DEC"),
    Generated("metadata.data", "bytes", "Extended metadata bytes", "what the entry holds"),
    Generated(
        "record.collection_id", "uint32", "Record collection id", "collection of a cache transfer's record", "HEX"
    ),
    Generated("record.key", "string", "Record key", "key of a record of a cache transfer, without its collection id"),
    Generated("record.value", "bytes", "Record value", "value of a record of a cache transfer"),
    Generated("defect", "string", "Defect", "id of something that is wrong with the frame itself"),
    Generated("unsynced", "bytes", "Bytes outside any message", "bytes skipped until a header that can be believed"),
)

#: Made from what came before the frame.
OF_STATE: tuple[Generated, ...] = (
    Generated("connection_name", "string", "Connection name", "name that the open message gave the connection"),
    Generated("role", "string", "Sender", "producer or consumer: the part that the sender plays"),
    Generated("era", "string", "Era", "oldest release that can have sent what was seen on the connection"),
    Generated(
        "stream", "framenum", "Stream request in", "packet of the request that this stream goes back to", "REQUEST"
    ),
    Generated("snapshot", "framenum", "Snapshot marker in", "packet of the marker that is in force", "NONE"),
    Generated("snapshot_start", "uint64", "Snapshot start", "start of the snapshot in force", "DEC"),
    Generated("snapshot_end", "uint64", "Snapshot end", "end of the snapshot in force", "DEC"),
    Generated("previous_seqno", "uint64", "Previous seqno", "seqno of the item before this one in its stream", "DEC"),
    Generated("outstanding", "uint32", "Outstanding bytes", "flow control: bytes sent and not given back", "DEC"),
    Generated("window", "uint32", "Window", "flow control: accepted connection_buffer_size", "DEC"),
    Generated("response_in", "framenum", "Response in", "packet of the answer", "RESPONSE"),
    Generated("response_to", "framenum", "Response to", "packet of the request", "REQUEST"),
    Generated("response_time", "double", "Response time (ms)", "milliseconds from request to response"),
)

#: Made from what is wrong: one of each for every finding, of the plugin or of ``uprscope check``.
OF_FINDING: tuple[Generated, ...] = (
    Generated("rule", "string", "Rule", "rule of the catalogue that the message breaks"),
    Generated("severity", "string", "Severity", "how bad that is: error, warning or info"),
    Generated("finding", "string", "Finding", "name of the finding, as uprscope check gives it"),
    Generated(
        "evidence", "framenum", "Evidence in", "packet that proves the finding, or the one that it is about", "NONE"
    ),
)


class FieldList:
    """All fields, while they are collected."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each field."""
        found: dict[str, dict[str, Any]] = {}
        for row in (
            *self._of_headers(),
            *(_generated(each) for each in (*OF_FRAME, *OF_STATE, *OF_FINDING)),
            *self._declared(),
        ):
            known = found.setdefault(row["name"], row)
            known["type"] = max(known["type"], row["type"], key=_width)
        return list(found.values())

    def _of_headers(self) -> Iterator[dict[str, Any]]:
        for form in headers.HEADERS:
            for _, field in form.places:
                row = self._field(field, field.name)
                if field.name in {"magic", "opcode"}:
                    row |= {"base": "HEX", "names": "magic" if field.name == "magic" else None}
                yield row
                if isinstance(field.names, Flags):
                    yield from self._bits(field, field.name)

    def _declared(self) -> Iterator[dict[str, Any]]:
        for message in registry.MESSAGES:
            for shape in message.shapes():
                for layout in shape.layouts:
                    for field in (*layout.extras, *layout.value):
                        yield from self._with_bits(field, field.name)
        for info in enums.FRAME_INFOS:
            for field in info.fields:
                yield from self._with_bits(field, field.name)
        for event in events.SYSTEM_EVENTS:
            for field in event.fields:
                yield from self._with_bits(field, field.name)
        for spec in value_kinds.BODIES.values():
            prefix = PREFIXES.get(spec.body.value, "")
            for field in spec.record:
                yield from self._with_bits(field, f"{prefix}.{field.name}" if prefix else field.name)
        for field in fields.METADATA_ENTRY:
            yield self._field(field, field.name)

    def _with_bits(self, field: Field, name: str) -> Iterator[dict[str, Any]]:
        yield self._field(field, name)
        if isinstance(field.names, Flags):
            yield from self._bits(field, name)

    def _field(self, field: Field, name: str) -> dict[str, Any]:
        shown_as_number = field.role in {Role.NUMBER, Role.SEQNO, Role.SECONDS} and not isinstance(field.names, Flags)
        names = field.names.name if isinstance(field.names, Enumeration) else None
        return {
            "name": name,
            "type": _TYPES[field.kind],
            "title": title(name.rpartition(".")[2]),
            "base": "DEC" if shown_as_number and not field.raw else "HEX",
            "names": names,
            "doc": field.doc,
        }

    def _bits(self, field: Field, name: str) -> Iterator[dict[str, Any]]:
        flags = field.names
        for bit in sorted(flags.members, key=lambda each: each.value) if isinstance(flags, Flags) else ():
            yield {
                "name": f"{name}.{bit.name}",
                "type": "bool",
                "title": title(bit.name),
                "width": field.size * 8,
                "mask": bit.value,
                "doc": bit.doc,
            }


def _generated(field: Generated) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": field.type,
        "title": field.title,
        "base": field.base or None,
        "doc": field.doc,
    }


def title(name: str) -> str:
    """Return a field's name for people."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _width(kind: str) -> int:
    return int(kind.removeprefix("uint")) if kind.startswith("uint") else 0
