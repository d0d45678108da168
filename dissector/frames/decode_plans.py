"""How to read all frames of one kind at once: where their fields are, and when nothing is wrong with them.

A plan is for one (dialect, request or response, opcode, extras size). It recognises frames that are certainly sound;
all other frames are left to the decoder, which finds out what is wrong with them. Plans derive from the spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from dissector.frames.schema import FIELD_COLUMNS, NO_END
from dissector.spec import enums, registry
from dissector.spec.model import (
    Body,
    CasRule,
    Dialect,
    Enumeration,
    Flags,
    KeyRole,
    Layout,
    Presence,
    Role,
    UInt,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs, Mask
    from dissector.spec.model import Field, Message, Shape


HEADER_SIZE = registry.HEADER_SIZE
#: Header, extras and fixed values: the longest is the snapshot marker V2.2.
ROW_BYTES = 80
DIALECTS = tuple(Dialect)
_COLUMNS = frozenset(column.name for column in FIELD_COLUMNS)
#: Values that are not looked into here: their content is not in a column, or only as a hash.
_PLAIN_BODIES = (Body.BYTES, Body.DOCUMENT)
_DTYPES = {UInt.U8: "u1", UInt.U16: ">u2", UInt.U32: ">u4", UInt.U64: ">u8"}


@dataclass(frozen=True, slots=True)
class _FieldPlace:
    """A field's place in a row of gathered bytes."""

    field: Field
    offset: int
    column: str | None

    def read(self, rows: NDArray[np.uint8], chosen: Longs) -> Longs:
        """Return the field's numbers in the chosen rows, as their column holds them."""
        view = np.ndarray((len(rows),), _DTYPES[self.field.kind], rows, self.offset, (rows.shape[1],))
        numbers = view[chosen].astype(np.int64)
        if self.field.kind is UInt.U64 and self.field.role is not Role.IDENTIFIER:
            numbers[numbers < 0] = NO_END
        return numbers

    def sound(self, numbers: Longs) -> Mask:
        """Tell which numbers break no rule of the field."""
        names = self.field.names
        if self.field.reserved or self.field.name == "nmeta":
            return np.equal(numbers, 0)  # extended metadata is read by the decoder
        if isinstance(names, Enumeration):
            return np.isin(numbers, [member.value for member in names.members])
        if isinstance(names, Flags) and not names.lenient:
            known = sum(member.value for member in names.members)
            return np.equal(np.bitwise_and(numbers, ~known), 0)
        return np.ones(len(numbers), bool)


@dataclass(frozen=True, slots=True)
class Plan:
    """Frames of one kind."""

    message: Message
    shape: Shape
    layout: Layout
    places: tuple[_FieldPlace, ...]
    flow_surplus: int | None  #: None: takes nothing from the flow-control window

    @property
    def documents(self) -> bool:
        """Tell whether the key is a document's and may carry a collection id."""
        return self.shape.key_role is KeyRole.DOCUMENT

    def sound(self, key: Longs, value: Longs, datatype: Longs, cas: Longs, collections: Mask) -> Mask:
        """Tell which frames have the right parts; the fields are judged where they are read."""
        shape = self.shape
        good = _presence(shape.key, key)
        if any(layout.value for layout in shape.layouts):
            good &= value == self.layout.value_size
        else:
            good &= _presence(shape.value, value)
            if shape.body not in _PLAIN_BODIES:
                good &= value == 0
        if self.documents:
            good &= key <= registry.MAX_KEY - ~collections
        allowed = shape.datatypes if shape.datatypes is not None else range(8)
        if tuple(allowed) == tuple(range(8)):
            good &= datatype < 8
        else:
            good &= np.isin(datatype, list(allowed))
        if shape.cas is CasRule.ZERO:
            good &= cas == 0
        elif shape.cas is CasRule.NOT_ZERO:
            good &= cas != 0
        return good


def _presence(presence: Presence, size: Longs) -> Mask:
    if presence is Presence.MUST:
        return np.greater(size, 0)
    if presence is Presence.MUST_NOT:
        return np.equal(size, 0)
    return np.ones(len(size), bool)


@cache
def plans(dialect: Dialect, response: bool, opcode: int, extras: int) -> tuple[Plan, ...]:
    """Return the plans for frames of this kind, one per version byte if there are versions; none: ask the decoder."""
    if dialect is Dialect.DRAFT and opcode in registry.DRAFT_OPCODES:
        return ()
    message = registry.message(dialect, opcode)
    if message is None:
        return ()
    shape = message.response(enums.SUCCESS) if response else message.request
    if shape is None or shape.key_role is KeyRole.PARAMETER or shape.body in (Body.SECRET, Body.SYSTEM_EVENT):
        return ()
    if message.request is not None and message.request.body is Body.SECRET:
        return ()
    fitting = [layout for layout in shape.layouts if layout.extras_size == extras and layout.note is None]
    if any(layout.version is None for layout in fitting):
        fitting = fitting[:1] if len(fitting) == 1 else []
    surplus = message.flow.surplus if message.flow is not None and not response else None
    return tuple(Plan(message, shape, layout, _places(message, layout), surplus) for layout in fitting)


def _places(message: Message, layout: Layout) -> tuple[_FieldPlace, ...]:
    places = []
    offset = HEADER_SIZE
    for field in (*layout.extras, *layout.value):
        column = "by_seqno" if field.name == message.seqno else field.name
        places.append(_FieldPlace(field, offset, column if column in _COLUMNS else None))
        offset += field.size
    return tuple(places)
