"""What a message says, in parts: status, seqno and key first, then its fields, then how much of a value it has.

Safe to print whatever the capture holds. Knows rows and the spec, and no list.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dissector.frames.schema import COLUMNS, FIELD_COLUMNS, NO_END
from dissector.frames.writers import record_text
from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Enumeration, Field, Flags, Severity
from dissector.terminal.alignment import cut, display_width
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = dict[str, Any]

_KEY_WIDTH = 48
_TEXT_WIDTH = 60
_REASON_WIDTH = 160  #: the server's own words: there is nothing else to tell why
_LEAST_NAME = 8  #: characters that are left of a control's name, so that its value can be seen
#: Shown only when they are not zero: they are on every mutation and say little.
_QUIET = frozenset(
    (
        "rev_seqno",
        "item_flags",
        "expiration",
        "lock_time",
        "nmeta",
        "nru",
        "collection_length",
        "delete_time",
        "deleted",
        "reserved",
        "history",
        "metered",
        "flush_uid",
        "system_collection",
        "system_scope",
    )
)
#: Columns that stand in front of the key, in this order.
_FIRST = ("rollback_seqno", "by_seqno", "event")
_FIELDS = frozenset(column.name for column in FIELD_COLUMNS) - {*_FIRST}
#: Names that are long, where room is short.
_BRIEF = {
    "by_seqno": "seqno",
    "rev_seqno": "rev",
    "start_seqno": "start",
    "end_seqno": "end",
    "snap_start_seqno": "snap_start",
    "snap_end_seqno": "snap_end",
    "rollback_seqno": "seqno",
    "vbucket_uuid": "uuid",
    "open_flags": "flags",
    "stream_flags": "flags",
    "snapshot_type": "type",
}
#: Columns that hold all of the value they come from: its size would say nothing new.
_READ_VALUES = ("failover_log", "features", "rollback_seqno")
_RECORDS = 4  #: of a list that are shown
_HEX = frozenset(column.name for column in COLUMNS if column.unsigned) | {"scope_id", "collection_id", "item_flags"}
_NAMES = {
    field.name: field
    for message in registry.MESSAGES
    if message.dialect is Dialect.DCP
    for shape in message.shapes()
    for layout in shape.layouts
    for field in (*layout.extras, *layout.value)
}
_LOSSES = ("gap", "skipped", "missing")
#: What rows must have for it; other columns may be left out where no row has a value.
NEEDED = ("name", "response", "status", "vbucket", "opaque", "defects", "value_length")
USED = _FIELDS | {
    *NEEDED, *_FIRST, *_LOSSES, *_READ_VALUES, "stream_id", "collection_id", "event", "key", "cache_records", "text"
}  # fmt: skip


def details(row: Row, *, brief: bool = False, room: int | None = None) -> list[str]:
    """Return what a message says; ``brief``: with short names, in a ``room`` that a control's value must fit."""
    parts = []
    text: str | None = row.get("text")
    said = text is not None
    if row["status"] is not None:
        status = registry.status_name(row["status"]) or f"status 0x{row['status']:04x}"
        if row["status"] and text is not None:
            why, text = reason(text), None
            if why and why.lower().replace(" ", "_") != status:  # Not supported, says not_supported
                status = f"{status}: {_short(why, _REASON_WIDTH)}"
        parts.append(status)
    parts += [_field(name, row[name], brief=brief) for name in _FIRST if row.get(name) is not None]
    if row.get("key") is not None:
        if row["name"] == "control" and text is not None:
            parts.append(_control(_short(row["key"], _KEY_WIDTH), _short(text, _TEXT_WIDTH), room))
            text = None
        else:
            parts.append(f"key={_short(row['key'], _KEY_WIDTH)}")
    if row.get("collection_id") is not None:
        parts.append(f"collection=0x{row['collection_id']:x}")
    fields = [
        _field(name, value, brief=brief)
        for name, value in row.items()
        if value is not None and name in _FIELDS and (value or name not in _QUIET)
    ]
    if row.get("stream_id") is not None:  # what has no key is about the stream: its range, or its end, comes first
        fields.insert(0 if row.get("key") is not None else len(fields), f"stream_id={row['stream_id']}")
    parts += fields
    parts += _lists(row)
    if text is not None:
        parts.append(f"value={_short(text, _TEXT_WIDTH)}")
    elif not said and row["value_length"] and all(row.get(name) is None for name in _READ_VALUES):
        parts.append("1 byte" if row["value_length"] == 1 else f"{row['value_length']} bytes")
    return parts


def trouble(row: Row, *, tight: bool = False) -> str:
    """Return what is wrong with a frame, and what is missing before it; ``tight``: of lesser defects only how bad."""
    parts = list(row["defects"])
    if tight and parts:
        severe = [registry.DEFECT_BY_ID[name].severity for name in parts]
        parts = [name for name, each in zip(parts, severe, strict=True) if each is Severity.ERROR]
        parts += [each.value for each in Severity if each in severe and each is not Severity.ERROR]
    parts += [f"{name}={row[name]}" for name in _LOSSES if row.get(name)]
    return "[" + " ".join(parts) + "]" if parts else ""


def reason(text: str) -> str:
    """Return the reason in the text of an answer: since 5.0 it may be JSON with a context and a reference."""
    try:
        error = json.loads(text)["error"]
        parts = [str(error[name]) for name in ("context", "ref") if name in error]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
    return ", ref ".join(parts)


def _field(name: str, value: int, *, brief: bool) -> str:
    return f"{_BRIEF.get(name, name) if brief else name}={show(name, value)}"


def _control(name: str, value: str, room: int | None) -> str:
    """Show what is agreed upon; of a long name some is left out, rather than the value."""
    if room is not None and display_width(name) + 1 + display_width(value) > room:
        name = cut(name, max(room - 1 - display_width(value), _LEAST_NAME))
    return f"{name}={value}"


def _lists(row: Row) -> Iterator[str]:
    if row.get("features") is not None:
        yield f"features={','.join(_feature(code) for code in row['features'])}"
    if row.get("failover_log"):
        log = ", ".join(f"{entry['vbucket_uuid'] % 2**64:x}@{entry['seqno']}" for entry in row["failover_log"][:4])
        yield f"failover_log=[{log}{', …' if len(row['failover_log']) > 4 else ''}]"
    if row.get("cache_records"):
        records = ", ".join(record_text(record) for record in row["cache_records"][:_RECORDS])
        more = ", …" if len(row["cache_records"]) > _RECORDS else ""
        yield f"cache_records=[{safe_text(records)}{more}]"


def show(name: str, value: int) -> str:
    """Write a field's number with its name or flags, where it has any."""
    field: Field | None = _NAMES.get(name)
    names = field.names if field is not None else None
    if isinstance(names, Enumeration):
        member = names.member(value)
        return member.name if member is not None else str(value)
    if isinstance(names, Flags):
        known = names.names(value)
        rest = names.unknown(value)
        return "|".join((*known, *([hex(rest)] if rest else []))) or "0"
    if name in _HEX:
        return f"0x{value % 2**64:x}"
    return "no end" if value == NO_END else str(value)


def _feature(code: int) -> str:
    known = enums.FEATURES.member(code)
    return known.name if known is not None else hex(code)


def _short(data: bytes | str, width: int) -> str:
    text = safe_text(data)
    return text if len(text) <= width else text[: width - 1] + "…"
