"""The one field of a message that holds what it cannot: a number without a meaning, or flags without a name.

The dissector tells that a message has such a field; its columns tell which one it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.spec import registry
from dissector.spec.model import Dialect, Enumeration, Flags

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs

_DIALECTS = (Dialect.UPR, Dialect.DCP)


class NamedField(NamedTuple):
    """A field whose numbers or bits have names, as a dialect names them."""

    dialect: Dialect
    column: str
    names: Enumeration | Flags


def _fields(kind: type[Enumeration | Flags]) -> tuple[NamedField, ...]:
    found: dict[tuple[Dialect, str], NamedField] = {}
    for message in registry.MESSAGES:
        if message.dialect in _DIALECTS and message.request is not None:
            for layout in message.request.layouts:
                for field in (*layout.extras, *layout.value):
                    if isinstance(field.names, kind):
                        entry = NamedField(message.dialect, field.name, field.names)
                        found.setdefault((message.dialect, field.name), entry)
    later = [entry for entry in found.values() if entry.dialect is Dialect.DCP]
    for entry in later:  # messages that upr never had are read as dcp has them
        found.setdefault((Dialect.UPR, entry.column), entry._replace(dialect=Dialect.UPR))
    return tuple(found.values())


#: Numbered from 1 in the columns ``odd_number_field`` and ``odd_flags_field``.
NUMBER_FIELDS = _fields(Enumeration)
FLAG_FIELDS = _fields(Flags)
#: What the context reads for them.
COLUMNS = frozenset(field.column for field in (*NUMBER_FIELDS, *FLAG_FIELDS))


def odd_field(frames: ContextBatch, fields: tuple[NamedField, ...]) -> Longs:
    """Return for each row the number of its first field that holds what has no name; 0: none does."""
    found = np.zeros(frames.size, np.int64)
    for number, field in reversed([*enumerate(fields, 1)]):
        values = frames.numbers(field.column)
        known = [member.value for member in field.names.members]
        odd = ~np.isin(values, known) if isinstance(field.names, Enumeration) else (values & ~sum(known)) != 0
        # A field that is not there, or was not captured, is below 0.
        found[odd & (values >= 0) & ~frames.response & (frames.early == (field.dialect is Dialect.UPR))] = number
    return found


def odd_value(frames: ContextBatch, fields: tuple[NamedField, ...]) -> Longs:
    """Return what that field holds; 0 where there is none."""
    numbers = odd_field(frames, fields)
    found = np.zeros(frames.size, np.int64)
    for number in np.unique(numbers[numbers > 0]).tolist():
        rows = numbers == number
        found[rows] = frames.numbers(fields[number - 1].column)[rows]
    return found
