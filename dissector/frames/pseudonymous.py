"""Frames whose user data is replaced before they become rows. Knows tables of frames; what is replaced it does not.

Most frames of a capture hold nothing but numbers, or are sound and carry a document: their headers tell, and they need
no decoder. All others go through it; both ways give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from dissector.codec import leb128
from dissector.codec.values import document_defects
from dissector.frames.decode_plans import DIALECTS, HEADER_SIZE, plans
from dissector.pseudonyms.documents import JSON, document_of
from dissector.pseudonyms.frames import replaced
from dissector.spec import enums
from dissector.spec.model import Body, MessageType

if TYPE_CHECKING:
    from dissector.frames.look_ahead import NumberedFrames
    from dissector.pseudonyms import Pseudonyms
    from dissector.spec.model import Dialect

_RESPONSES = {
    magic.value: magic.direction is MessageType.RESPONSE
    for magic in enums.MAGICS
    if not magic.flexible and not magic.server_push
}


@dataclass(frozen=True, slots=True)
class _DocumentPlan:
    """Where the parts of a frame with a document are."""

    key: int
    metadata: slice  #: what says how long the extended metadata behind the value are


def pseudonymous(frames: NumberedFrames, pseudonyms: Pseudonyms) -> NumberedFrames:
    """Return the same frames over other bytes."""
    table = frames.table
    stream = bytearray(len(table.stream))
    whole = (table.available == table.length).tolist()
    facts = zip(table.position.tolist(), table.available.tolist(), frames.dialect.tolist(), strict=True)
    collections = frames.collections.tolist()
    for index, (start, size, dialect) in enumerate(facts):
        data = bytes(table.stream[start : start + size])
        made = None
        if whole[index]:
            made = _sound(pseudonyms, DIALECTS[dialect], data, collections=collections[index])
        if made is None:
            made = replaced(pseudonyms, DIALECTS[dialect], data, collections=collections[index])
        stream[start : start + size] = made
    return replace(frames, table=replace(table, stream=memoryview(bytes(stream))))


def _sound(pseudonyms: Pseudonyms, dialect: Dialect, data: bytes, *, collections: bool) -> bytes | None:
    """Return what stands in for a whole frame; None: ask the decoder."""
    response = _RESPONSES.get(data[0])
    if response is None:
        return None
    if len(data) == HEADER_SIZE:
        return data
    if response and data[6:8] != b"\0\0":
        return None
    if data[2:4] == b"\0\0" and _is_numbers(dialect, response, data):
        return data
    plan = _document_plan(dialect, response, data[1], data[4])
    end = HEADER_SIZE + data[4] + int.from_bytes(data[2:4], "big")
    if plan is None or end > len(data) or any(data[plan.metadata]):
        return None
    key, value, datatype = data[plan.key : end], data[end:], data[5]
    prefix = 0
    if collections and key:
        prefix = leb128.read(key)[1]
        if not prefix:
            return None
    if value and datatype and document_defects(value, datatype):
        return None
    made = document_of(pseudonyms, value, datatype, json=bool(datatype & JSON)) if value else value
    if datatype & ~JSON and value and document_defects(made, datatype):
        return None
    return b"".join((data[: plan.key], key[:prefix], pseudonyms.of(key[prefix:]), made))


def _is_numbers(dialect: Dialect, response: bool, data: bytes) -> bool:
    """Tell whether a frame without a key has nothing but fields with numbers in its body."""
    for plan in plans(dialect, response, data[1], data[4]):
        layout = plan.layout
        if len(data) == HEADER_SIZE + layout.extras_size + layout.value_size:
            return layout.version is None or data[HEADER_SIZE + layout.extras_size - 1] == layout.version
    return False


@cache
def _document_plan(dialect: Dialect, response: bool, opcode: int, extras: int) -> _DocumentPlan | None:
    """Return where key and document are, in frames whose extras have this size."""
    found = plans(dialect, response, opcode, extras)
    if not found or any(
        plan.layout.value or not plan.documents or plan.shape.body is not Body.DOCUMENT for plan in found
    ):
        return None
    metadata = {
        (place.offset, place.offset + place.field.size)
        for plan in found
        for place in plan.places
        if place.field.name == "nmeta"
    }
    if len(metadata) > 1:
        return None
    return _DocumentPlan(HEADER_SIZE + extras, slice(*metadata.pop()) if metadata else slice(0))
