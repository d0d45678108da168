"""Frames as lines for people: what happened, one line per message, safe to print whatever the capture holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dissector.frames.schema import COLUMNS, FIELD_COLUMNS, NO_END
from dissector.frames.writers import record_text
from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Enumeration, Field, Flags
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from dissector.frames.connection_numbers import ConnectionNumbers
    from dissector.terminal.style import Terminal

_NAME_WIDTH = 23  #: set_vbucket_state reply
_KEY_WIDTH = 48
_TEXT_WIDTH = 60
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

HEADINGS = (
    f"{'frame':>7} {'seconds':>12} {'conn':>5}   {'message':<{_NAME_WIDTH}} {'vbucket':>7} {'opaque':>8}  what it says"
)


class Listing:
    """Lines of one run; time counts from the first frame."""

    def __init__(self, terminal: Terminal, numbering: ConnectionNumbers) -> None:
        self._terminal = terminal
        self._numbering = numbering

    def heading(self) -> str:
        """Return the line above the others."""
        return self._terminal.heading(HEADINGS)

    def line(self, row: dict[str, Any]) -> str:
        """Return a frame's line."""
        number = self._numbering.numbers[row["connection"]]
        seconds = f"{(row['time_ns'] - (self._numbering.start_ns or 0)) / 1e9:.6f}"
        arrows = ("→", "←") if self._terminal.unicode else (">", "<")
        name = row["name"] + ("" if not row["response"] else " reply")
        vbucket = "" if row["vbucket"] is None else str(row["vbucket"])
        left = f"{row['frame']:>7} {seconds:>12} {number:>5} {arrows[row['direction']]} "
        middle = f"{vbucket:>7} {row['opaque']:08x}  "
        parts = _details(row)
        trouble = _trouble(row)
        if trouble:
            parts.append(self._terminal.warning(trouble))
        text = self._style(row, f"{name:<{_NAME_WIDTH}}") + f" {middle}" + "  ".join(parts)
        return (left + self._terminal.encode(text)).rstrip()

    def _style(self, row: dict[str, Any], text: str) -> str:
        if row["response"]:
            return self._terminal.dim(text) if not row["status"] else self._terminal.warning(text)
        return self._terminal.name(text)


def _details(row: dict[str, Any]) -> list[str]:
    parts = []
    if row["status"] is not None:
        parts.append(registry.status_name(row["status"]) or f"status 0x{row['status']:04x}")
    if row["stream_id"] is not None:
        parts.append(f"stream_id={row['stream_id']}")
    for column in FIELD_COLUMNS:
        value = row[column.name]
        if value is not None and (value or column.name not in _QUIET):
            parts.append(f"{column.name}={show(column.name, value)}")
    if row["collection_id"] is not None:
        parts.append(f"collection=0x{row['collection_id']:x}")
    if row["key"] is not None:
        parts.append(f"key={_short(row['key'], _KEY_WIDTH)}")
    if row["features"] is not None:
        parts.append(f"features={','.join(_feature(code) for code in row['features'])}")
    if row["failover_log"]:
        log = ", ".join(f"{entry['vbucket_uuid'] % 2**64:x}@{entry['seqno']}" for entry in row["failover_log"][:4])
        parts.append(f"failover_log=[{log}{', …' if len(row['failover_log']) > 4 else ''}]")
    if row["cache_records"]:
        records = ", ".join(record_text(record) for record in row["cache_records"][:_RECORDS])
        more = ", …" if len(row["cache_records"]) > _RECORDS else ""
        parts.append(f"cache_records=[{safe_text(records)}{more}]")
    if row["text"] is not None:
        parts.append(f"value={_short(row['text'], _TEXT_WIDTH)}")
    elif row["value_length"] and all(row[name] is None for name in _READ_VALUES):
        parts.append("1 byte" if row["value_length"] == 1 else f"{row['value_length']} bytes")
    return parts


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


def _trouble(row: dict[str, Any]) -> str:
    parts = list(row["defects"])
    parts += [f"{name}={row[name]}" for name in ("gap", "skipped", "missing") if row[name]]
    return "[" + " ".join(parts) + "]" if parts else ""
