"""The fields that filters can ask about, and the names that the protocol gives their values.

Fields are the columns of :mod:`dissector.frames.schema` and three more names; constants come from the spec, so a new
column or a new status there is one here.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Enumeration, Flags, Role
from dissector.spec.model import UInt as Size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dissector.frames.schema import Column
    from dissector.spec.model import Field as SpecField
    from dissector.spec.model import Message

NO_END = (1 << 63) - 1  #: as in :mod:`dissector.frames.schema`, which takes pyarrow along
#: Where the same name has several numbers, the shipped protocol's is meant (E-09, E-10).
_NUMBERED = (Dialect.DCP, Dialect.UPR, Dialect.MEMCACHED)
_NAMED = (Dialect.DCP, Dialect.UPR, Dialect.PROTO, Dialect.DRAFT, Dialect.MEMCACHED)


class FieldKind(Enum):
    """What a field holds, which decides what can be asked; the value is the wording of messages."""

    INTEGER = "a number"
    UNSIGNED = "a 64-bit number"
    BOOLEAN = "true or false"
    TEXT = "text"
    BYTES = "bytes"
    ADDRESS = "an address"
    TIME = "a time"
    NUMBERS = "a list of numbers"
    IDS = "a list of ids"
    LOG = "a list of uuids and seqnos"
    RECORDS = "a list of documents"


NUMERIC = frozenset((FieldKind.INTEGER, FieldKind.UNSIGNED))
ORDERED = NUMERIC | {FieldKind.TEXT, FieldKind.BYTES, FieldKind.TIME}
STRINGS = frozenset((FieldKind.TEXT, FieldKind.BYTES, FieldKind.ADDRESS))
LISTS = frozenset((FieldKind.NUMBERS, FieldKind.IDS, FieldKind.LOG, FieldKind.RECORDS))


@dataclass(frozen=True, slots=True)
class Constant:
    """A name and what it stands for."""

    name: str  #: in the protocol's own spelling; other spellings of it lead here
    value: int | str
    high: int | None = None  #: the end of a family of statuses


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """A name that filters can use."""

    name: str
    kind: FieldKind
    columns: tuple[str, ...]  #: more than one: any of them
    constants: Mapping[str, Constant] = field(default_factory=dict)  #: by name in small letters
    closed: bool = False  #: nothing but the constants can ever be in it
    flags: bool = False  #: the constants are bits


@functools.cache
def fields() -> Mapping[str, FieldInfo]:
    """Return the fields by name."""
    from dissector.frames.schema import COLUMNS  # noqa: PLC0415 - brings pyarrow along: not before a filter is there

    known = {column.name: _info(column) for column in COLUMNS}
    known["addr"] = FieldInfo("addr", FieldKind.ADDRESS, ("src", "dst"))
    known["port"] = FieldInfo("port", FieldKind.INTEGER, ("sport", "dport"))
    known["time"] = FieldInfo("time", FieldKind.TIME, ("time_ns",))
    return known


def _info(column: Column) -> FieldInfo:
    columns = (column.name,)
    match column.name:
        case "src" | "dst":
            return FieldInfo(column.name, FieldKind.ADDRESS, columns)
        case "defects":
            ids = {defect: Constant(defect, defect) for defect in registry.DEFECT_BY_ID}
            return FieldInfo(column.name, FieldKind.IDS, columns, ids, closed=True)
        case "features":
            return FieldInfo(column.name, FieldKind.NUMBERS, columns, _table([enums.FEATURES]))
        case "failover_log":
            return FieldInfo(column.name, FieldKind.LOG, columns)
        case "cache_records":
            return FieldInfo(column.name, FieldKind.RECORDS, columns)
        case "dialect":
            dialects = {dialect.value: Constant(dialect.value, dialect.value) for dialect in Dialect}
            return FieldInfo(column.name, FieldKind.TEXT, columns, dialects, closed=True)
        case "name":
            return FieldInfo(column.name, FieldKind.TEXT, columns, _message_names())
        case "opcode":
            return FieldInfo(column.name, FieldKind.INTEGER, columns, _opcodes())
        case "magic":
            magics = {magic.name: Constant(magic.name, magic.value) for magic in enums.MAGICS}
            return FieldInfo(column.name, FieldKind.INTEGER, columns, magics)
        case "status":
            families = {each.name: Constant(each.name, each.low, each.high) for each in enums.STATUS_RANGES}
            return FieldInfo(column.name, FieldKind.INTEGER, columns, {**families, **_table([enums.STATUSES])})
        case "datatype":
            return FieldInfo(column.name, FieldKind.INTEGER, columns, _table([enums.DATATYPES]), flags=True)
        case "subtype":
            kinds = [known.subtype_names for known in registry.MESSAGES if known.subtype_names is not None]
            return FieldInfo(column.name, FieldKind.INTEGER, columns, _table(kinds))
    kind = FieldKind.UNSIGNED if column.unsigned else _KINDS[str(column.type)]
    tables, seqno = _spec_tables().get(column.name, ((), False))
    constants = _table([enums.BOOLEAN] if kind is FieldKind.BOOLEAN else tables)
    if seqno:
        constants["no_end"] = Constant("no_end", NO_END)
    return FieldInfo(column.name, kind, columns, constants, flags=any(isinstance(each, Flags) for each in tables))


_KINDS = {
    "int16": FieldKind.INTEGER,
    "int32": FieldKind.INTEGER,
    "int64": FieldKind.INTEGER,
    "bool": FieldKind.BOOLEAN,
    "string": FieldKind.TEXT,
    "binary": FieldKind.BYTES,
}


def _table(tables: Iterable[Enumeration | Flags]) -> dict[str, Constant]:
    """Put tables together; a name means what the first table says, and names come before aliases."""
    constants: dict[str, Constant] = {}
    members = [member for table in tables for member in table.members]
    for member in members:
        constants.setdefault(member.name.lower(), Constant(member.name, member.value))
    for member in members:
        for alias in member.aliases:
            constants.setdefault(alias.lower(), Constant(member.name, member.value))
    return constants


def _messages(dialects: tuple[Dialect, ...]) -> Iterator[Message]:
    for dialect in dialects:
        yield from (known for known in registry.MESSAGES if known.dialect is dialect)


def _opcodes() -> dict[str, Constant]:
    """Collect messages by name, then by constant: NOOP is UPR's no-op, memcached's own is kv_noop.

    The drafts are left out, as are the pushes of magic 0x82: their numbers mean other messages elsewhere, so only the
    column ``name`` can tell them apart.
    """
    known = [message for message in _messages(_NUMBERED) if not message.server_push]
    constants: dict[str, Constant] = {}
    for message in known:
        constants.setdefault(message.name, Constant(message.name, message.opcode))
    for message in known:
        constants.setdefault(message.constant.lower(), Constant(message.name, message.opcode))
    return constants


def _message_names() -> dict[str, Constant]:
    known = list(_messages(_NAMED))
    constants = {message.name: Constant(message.name, message.name) for message in known}
    for message in known:
        if " " not in message.constant:  # the draft calls several messages the same, in prose
            constants.setdefault(message.constant.lower(), Constant(message.name, message.name))
    return constants


@functools.cache
def _spec_tables() -> Mapping[str, tuple[tuple[Enumeration | Flags, ...], bool]]:
    """Return, by field: the tables of its values, the shipped protocol's first, and whether it can say "no end"."""
    tables: dict[str, tuple[tuple[Enumeration | Flags, ...], bool]] = {}
    for each in _spec_fields():
        names, seqno = tables.get(each.name, ((), False))
        more = () if each.names is None or each.names in names else (each.names,)
        tables[each.name] = ((*names, *more), seqno or (each.kind is Size.U64 and each.role is Role.SEQNO))
    return tables


def _spec_fields() -> Iterator[SpecField]:
    for message in _messages((Dialect.DCP, Dialect.UPR, Dialect.PROTO, Dialect.DRAFT)):
        for shape in message.shapes():
            for layout in shape.layouts:
                yield from (*layout.extras, *layout.value)
    for event in registry.EVENT_BY_ID.values():
        yield from event.fields
