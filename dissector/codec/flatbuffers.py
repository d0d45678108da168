"""FlatBuffers tables: reading one, and writing one.

A value starts with the place of its table. The table starts with the distance back to its vtable, a list of where in
the table each slot is; a slot that is not listed, or listed as 0, has its default. Numbers are little-endian. A text
is kept outside the table, which has the distance to it.

The reader is total: every place is checked before it is looked at, nothing is followed more than once, and what leads
outside gives no table and a reason.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from dissector.codec.message import TableEntry, TableValue
from dissector.spec.model import Field, TableSpec, TableText

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dissector.codec.values import DefectSink

_PLACE = struct.Struct("<I")
_DISTANCE = struct.Struct("<i")
_PAIR = struct.Struct("<HH")  #: the sizes that a vtable starts with
_SLOT = struct.Struct("<H")


class _TableError(Exception):
    """A place that leads outside, in words."""


def read_table(spec: TableSpec, raw: bytes, offset: int, report: DefectSink) -> TableValue | None:
    """Read a table; ``offset`` is where the bytes are in the frame. A table that leads outside is a defect."""
    try:
        return _TableReader(raw, offset).table(spec)
    except _TableError as error:
        report("event-table-invalid", f"{spec.name}: {error}")
        return None


class _TableReader:
    """The bytes of a value. Places are counted from its first byte."""

    def __init__(self, raw: bytes, offset: int) -> None:
        self._raw = raw
        self._offset = offset

    def _check(self, place: int, size: int, what: str) -> None:
        if place < 0 or place + size > len(self._raw):
            raise _TableError(f"{what} at byte {place} is outside of {len(self._raw)} bytes")

    def table(self, spec: TableSpec) -> TableValue:
        """Read the table that the value starts with."""
        self._check(0, _PLACE.size, "the table's place")
        table = _PLACE.unpack_from(self._raw)[0]
        self._check(table, _DISTANCE.size, "the table")
        vtable = table - _DISTANCE.unpack_from(self._raw, table)[0]
        self._check(vtable, _PAIR.size, "the vtable")
        vtable_size, table_size = _PAIR.unpack_from(self._raw, vtable)
        if vtable_size < _PAIR.size or vtable_size % _SLOT.size or table_size < _DISTANCE.size:
            raise _TableError(f"a vtable of {vtable_size} bytes for a table of {table_size}")
        self._check(vtable, vtable_size, "the vtable's end")
        self._check(table, table_size, "the table's end")
        entries = []
        for number, slot in enumerate(spec.slots):
            at = _PAIR.size + number * _SLOT.size
            inside = _SLOT.unpack_from(self._raw, vtable + at)[0] if at < vtable_size else 0
            entries.append(self._entry(slot, table, inside, table_size))
        return TableValue(
            spec, self._offset + table, self._offset + vtable, vtable_size, tuple(entries), compressed=False
        )

    def _entry(self, slot: Field | TableText, table: int, inside: int, table_size: int) -> TableEntry:
        text = isinstance(slot, TableText)
        if not inside:
            return TableEntry(slot, b"" if text else 0)
        size = _width(slot)
        if inside < _DISTANCE.size or inside + size > table_size:
            raise _TableError(f"{slot.name} at byte {inside} of a table of {table_size}")
        place = table + inside
        number = int.from_bytes(self._raw[place : place + size], "little")
        if not text:
            return TableEntry(slot, number, self._offset + place)
        start = place + number
        self._check(start, _PLACE.size, slot.name)
        length = _PLACE.unpack_from(self._raw, start)[0]
        self._check(start + _PLACE.size, length + 1, f"the text of {slot.name}")  # a zero byte ends it
        first = start + _PLACE.size
        if number == 0 or self._raw[first + length]:
            raise _TableError(f"{slot.name} is no text")
        return TableEntry(slot, self._raw[first : first + length], self._offset + start, self._offset + place)


def pack_table(spec: TableSpec, given: Mapping[str, int | bytes]) -> bytes:
    """Write a table as servers do: slots that have their default are left out, wide ones come first."""
    present = [slot for slot in spec.slots if given.get(slot.name)]
    inside: dict[str, int] = {}
    size = _DISTANCE.size
    for slot in sorted(present, key=_width, reverse=True):
        inside[slot.name] = size
        size += _width(slot)
    size += -size % 4
    used = max((number for number, slot in enumerate(spec.slots, 1) if slot.name in inside), default=0)
    places = [inside.get(slot.name, 0) for slot in spec.slots[:used]]
    vtable = _PAIR.pack(_PAIR.size + used * _SLOT.size, size) + b"".join(map(_SLOT.pack, places))
    # Numbers of 8 bytes stand behind the distance, so the table starts in the middle of such a place.
    table = _PLACE.size + len(vtable)
    table += -(table + _DISTANCE.size) % 8
    body = bytearray(_DISTANCE.pack(len(vtable)).ljust(size, b"\0"))
    texts = b""
    for slot in present:
        at, value = inside[slot.name], given[slot.name]
        if isinstance(value, bytes):
            _PLACE.pack_into(body, at, size - at + len(texts))
            texts += _PLACE.pack(len(value)) + value + bytes(4 - len(value) % 4)
        else:
            body[at : at + _width(slot)] = value.to_bytes(_width(slot), "little")
    return _PLACE.pack(table).ljust(table - len(vtable), b"\0") + vtable + bytes(body) + texts


def _width(slot: Field | TableText) -> int:
    """Return how many bytes of a table a slot takes; of a text that is the distance to it."""
    return slot.size if isinstance(slot, Field) else _PLACE.size
