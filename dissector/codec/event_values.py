"""Values of system events: fixed fields, or a FlatBuffers table.

Which it is, the event and its version say. The readers are total, as those of :mod:`dissector.codec.values` are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dissector.codec.flatbuffers import read_table
from dissector.codec.message import FieldValue, TableValue
from dissector.codec.values import inflate, read_fields, silent
from dissector.spec import registry
from dissector.spec.model import Presence, TableSpec, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.codec.values import DefectSink


class EventValue(NamedTuple):
    """What the value of a system event holds."""

    fields: tuple[FieldValue, ...] = ()
    table: TableValue | None = None


def read_event(
    extras: Sequence[FieldValue], key: int, raw: bytes, offset: int, report: DefectSink, *, whole: bool, limit: int
) -> EventValue:
    """Read the value of a system event, which its extras name; report a key or a value that the event cannot have.

    ``key`` is the length that the header says: of a frame that was cut the key itself may not be there. ``limit`` is
    how long a compressed table may become.
    """
    numbers = {entry.name: entry.value for entry in extras}
    if "event" not in numbers or "event_version" not in numbers:
        return EventValue()
    event = registry.EVENT_BY_ID.get(numbers["event"])
    if event is None:
        return EventValue()  # reported with the field
    if event.key is Presence.MUST and not key:
        report("key-missing", f"{event.name} has a name")
    if event.key is Presence.MUST_NOT and key:
        report("key-unexpected", f"{event.name} has {key} bytes")
    versions = dict(event.versions)
    version = numbers["event_version"]
    if version not in versions:
        report("event-version-unknown", f"{event.name} version {version}")
        return EventValue()
    declared = versions[version]
    if declared is None:
        return EventValue()
    if isinstance(declared, TableSpec):
        table = _table(declared, raw, offset, report, limit) if whole else None
        return EventValue(_fields(table), table) if table is not None else EventValue()
    if whole and len(raw) != size_of(declared):
        report("value-length", f"{len(raw)} bytes, {event.name} version {version} has {size_of(declared)}")
    return EventValue(read_fields(declared, raw, offset))


def _table(spec: TableSpec, raw: bytes, offset: int, report: DefectSink, limit: int) -> TableValue | None:
    """Read a table, compressed ones too: servers have sent what they store (MB-54967)."""
    found: list[str] = []
    table = read_table(spec, raw, offset, lambda _, detail: found.append(detail))
    if table is not None:
        return table
    plain = inflate(raw, silent, limit) if raw else None
    table = read_table(spec, plain, offset, silent) if plain is not None else None
    if plain is None or table is None:
        report("event-table-invalid", found[0])
        return None
    report("event-table-compressed", f"{len(raw)} bytes are a snappy block of {len(plain)}")
    return replace(table, compressed=True)


def _fields(table: TableValue) -> tuple[FieldValue, ...]:
    """Return the numbers of a table that say something."""
    known = {field.name: number for field, number in table.numbers}
    mute = {name for name, flag in table.spec.depends if not known[flag]}
    return tuple(FieldValue(field, number, table.offset) for field, number in table.numbers if field.name not in mute)
