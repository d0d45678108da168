"""The JSON Schema of a row, ``docs/frames.schema.json``: what each line of NDJSON is, column by column."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from dissector.frames.derived_columns import ROW_COLUMNS
from dissector.frames.schema import NO_END, UNSIGNED, Column
from dissector.frames.value_names import known_names

Schema = dict[str, Any]

_IDENTIFIER: Schema = {"type": "string", "pattern": "^0x[0-9a-f]{16}$"}
#: What becomes of seqnos inside of lists: there a "no end" is null, as the entry cannot leave it out.
_INNER_SEQNOS = frozenset(("seqno", "by_seqno"))
_INNER_IDENTIFIERS = frozenset(("vbucket_uuid", "cas"))
_TITLE = "A frame, as a line of uprscope dissect --format ndjson"
_ABOUT = (
    "One message of UPR, DCP or memcached. Without --fields a row has all columns that have a value: what a message "
    'does not have is left out, as is a seqno that says "no end" (open_ended is true then). Bytes are text where they '
    "are printable UTF-8, else hex: and hexadecimal digits."
)


def render() -> str:
    """Return the file."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": _TITLE,
        "description": _ABOUT,
        "type": "object",
        "properties": {column.name: _property(column) for column in ROW_COLUMNS},
        "required": [column.name for column in ROW_COLUMNS if column.always],
        "additionalProperties": False,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _property(column: Column) -> Schema:
    found = dict(_IDENTIFIER) if column.name in UNSIGNED else _type(column.type)
    if column.seqno:
        found["maximum"] = NO_END - 1
    names = known_names(column.name)
    if names:
        (found["items"] if found["type"] == "array" else found)["examples"] = names
    return {"description": column.doc, **found}


def _type(kind: pa.DataType) -> Schema:
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer", "minimum": 0}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _type(kind.value_type)}
    if pa.types.is_struct(kind):
        return {
            "type": "object",
            "properties": {field.name: _inner(field) for field in kind},
            "required": [field.name for field in kind],
            "additionalProperties": False,
        }
    return {"type": "string"}


def _inner(field: pa.Field) -> Schema:
    """Describe a member of an entry of a list, which may be null."""
    found = dict(_IDENTIFIER) if field.name in _INNER_IDENTIFIERS else _type(field.type)
    if field.name in _INNER_SEQNOS or field.name == "collection_id":
        found["type"] = [found["type"], "null"]
    return found
