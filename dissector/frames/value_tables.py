"""What the protocol calls the numbers in a column: the enumerations and flags of its fields.

A field may mean other things in another dialect, so there is a table for each. Needs no pyarrow.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Enumeration, Flags, Role
from dissector.spec.model import UInt as Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dissector.spec.model import Field, Message

#: The shipped protocol first: what it says of a field holds where no dialect is given.
_DIALECTS = (Dialect.DCP, Dialect.UPR, Dialect.PROTO, Dialect.DRAFT)


def messages_of(dialects: tuple[Dialect, ...]) -> Iterator[Message]:
    """Yield the messages of dialects, one dialect after the other."""
    for dialect in dialects:
        yield from (known for known in registry.MESSAGES if known.dialect is dialect)


@functools.cache
def tables_of_fields() -> Mapping[str, tuple[tuple[Enumeration | Flags, ...], bool]]:
    """Return, by field: the tables of its values, the shipped protocol's first, and whether it can say "no end"."""
    tables: dict[str, tuple[tuple[Enumeration | Flags, ...], bool]] = {}
    for _, each in _fields():
        names, seqno = tables.get(each.name, ((), False))
        more = () if each.names is None or each.names in names else (each.names,)
        tables[each.name] = ((*names, *more), seqno or (each.kind is Size.U64 and each.role is Role.SEQNO))
    return tables


@functools.cache
def tables_by_dialect() -> Mapping[str, Mapping[Dialect, Enumeration | Flags]]:
    """Return, by column: the table of its values in each dialect that has one."""
    tables: dict[str, dict[Dialect, Enumeration | Flags]] = {"datatype": {Dialect.DCP: enums.DATATYPES}}
    for dialect, each in _fields():
        if each.names is not None:
            tables.setdefault(each.name, {}).setdefault(dialect, each.names)
    return tables


def _fields() -> Iterator[tuple[Dialect, Field]]:
    for message in messages_of(_DIALECTS):
        for shape in message.shapes():
            for layout in shape.layouts:
                yield from ((message.dialect, field) for field in (*layout.extras, *layout.value))
    for event in registry.EVENT_BY_ID.values():
        yield from ((Dialect.DCP, field) for field in event.fields)
