"""The fields that filters can ask about, and the names that the protocol gives their values.

Fields are the columns of :mod:`dissector.frames.derived_columns` and some more names; constants come from the spec, so
a new column or a new status there is one here.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from dissector.frames.value_tables import messages_of, tables_of_fields
from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Enumeration, Flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dissector.frames.schema import Column

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
    SECONDS = "a number of seconds"
    NUMBERS = "a list of numbers"
    IDS = "a list of ids"
    NAMES = "a list of names"
    LOG = "a list of uuids and seqnos"
    RECORDS = "a list of documents"


NUMERIC = frozenset((FieldKind.INTEGER, FieldKind.UNSIGNED))
ORDERED = NUMERIC | {FieldKind.TEXT, FieldKind.BYTES, FieldKind.TIME, FieldKind.SECONDS}
STRINGS = frozenset((FieldKind.TEXT, FieldKind.BYTES, FieldKind.ADDRESS))
LISTS = frozenset((FieldKind.NUMBERS, FieldKind.IDS, FieldKind.NAMES, FieldKind.LOG, FieldKind.RECORDS))


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
    # Not before a filter is there: it brings pyarrow along.
    from dissector.frames.derived_columns import ALIASES, NAME_COLUMNS, ROW_COLUMNS  # noqa: PLC0415

    sources = {each.column.name: each.behind for each in NAME_COLUMNS}
    known = {
        column.name: _named(column, sources[column.name]) if column.name in sources else _info(column)
        for column in ROW_COLUMNS
    }
    known |= {alias: replace(known[name], name=alias) for alias, name in ALIASES.items()}
    known["addr"] = FieldInfo("addr", FieldKind.ADDRESS, ("src", "dst"))
    known["port"] = FieldInfo("port", FieldKind.INTEGER, ("sport", "dport"))
    known["time"] = FieldInfo("time", FieldKind.TIME, ("time_ns",))
    return known


def _named(column: Column, source: str) -> FieldInfo:
    """Describe a column of names by the numbers that it stands beside."""
    plain = {"status": [enums.STATUSES], "features": [enums.FEATURES], "datatype": [enums.DATATYPES]}
    tables = plain.get(source) or tables_of_fields()[source][0]
    names = dict.fromkeys(member.name for table in tables for member in table.members)
    if source == "status":
        names |= dict.fromkeys(family.name for family in enums.STATUS_RANGES)
    constants = {name.lower(): Constant(name, name) for name in names}
    kind = FieldKind.TEXT if str(column.type) == "string" else FieldKind.NAMES
    return FieldInfo(column.name, kind, (column.name,), constants)


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
    tables, seqno = tables_of_fields().get(column.name, ((), False))
    constants = _table([enums.BOOLEAN] if kind is FieldKind.BOOLEAN else tables)
    if seqno:
        constants["no_end"] = Constant("no_end", NO_END)
    return FieldInfo(column.name, kind, columns, constants, flags=any(isinstance(each, Flags) for each in tables))


_KINDS = {
    "int16": FieldKind.INTEGER,
    "int32": FieldKind.INTEGER,
    "int64": FieldKind.INTEGER,
    "double": FieldKind.SECONDS,
    "timestamp[us, tz=UTC]": FieldKind.TIME,
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


def _opcodes() -> dict[str, Constant]:
    """Collect messages by name, then by constant: NOOP is UPR's no-op, memcached's own is kv_noop.

    The drafts are left out, as are the pushes of magic 0x82: their numbers mean other messages elsewhere, so only the
    column ``name`` can tell them apart.
    """
    known = [message for message in messages_of(_NUMBERED) if not message.server_push]
    constants: dict[str, Constant] = {}
    for message in known:
        constants.setdefault(message.name, Constant(message.name, message.opcode))
    for message in known:
        constants.setdefault(message.constant.lower(), Constant(message.name, message.opcode))
    return constants


def _message_names() -> dict[str, Constant]:
    known = list(messages_of(_NAMED))
    constants = {message.name: Constant(message.name, message.name) for message in known}
    for message in known:
        if " " not in message.constant:  # the draft calls several messages the same, in prose
            constants.setdefault(message.constant.lower(), Constant(message.name, message.name))
    return constants
