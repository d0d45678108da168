"""Everything that can be asked about: each thing of the spec with its names and numbers. No looking up here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dissector.spec import enums, registry
from dissector.spec.dialects import DIALECT_ORDER, DIALECTS, DialectSpec
from dissector.spec.enums import StatusRange
from dissector.spec.headers import HEADERS, HeaderForm
from dissector.spec.model import (
    Body,
    ControlKey,
    DefectSpec,
    Enumeration,
    Erratum,
    Field,
    Flags,
    FrameInfo,
    JsonKey,
    Magic,
    Message,
    Name,
    SystemEvent,
)
from dissector.spec.sources import SOURCES
from dissector.spec.topics import TOPICS, Topic
from dissector.spec.value_kinds import BODIES

if TYPE_CHECKING:
    from collections.abc import Iterator


class Category(StrEnum):
    """What sort of thing something is; the most likely one to be meant comes first."""

    OPCODE = "opcode"
    MAGIC = "magic"
    STATUS = "status"
    CONTROL = "control key"
    FLAG = "flag"
    REASON = "stream-end reason"
    STATE = "vbucket state"
    DATATYPE = "datatype"
    FEATURE = "HELLO feature"
    FRAME_INFO = "frame info"
    EVENT = "system event"
    VALUE = "value"
    SUBTYPE = "draft subtype"
    JSON_KEY = "JSON key"
    ERRATUM = "erratum"
    DEFECT = "defect"
    HEADER = "header"
    DIALECT = "dialect"
    TOPIC = "topic"
    SOURCE = "source"
    FIELD = "field"


#: What a category may be called in front of a name or number; the first one is what the tool itself writes.
WORDS: dict[Category, tuple[str, ...]] = {
    Category.OPCODE: ("opcode", "opcodes", "message", "messages", "command", "commands"),
    Category.MAGIC: ("magic", "magics"),
    Category.STATUS: ("status", "statuses", "statuscode", "statuscodes", "error", "errors"),
    Category.CONTROL: ("control", "controls", "controlkey", "controlkeys"),
    Category.FLAG: ("flag", "flags"),
    Category.REASON: ("reason", "reasons", "streamendreason", "streamendreasons", "endreason"),
    Category.STATE: ("state", "states", "vbucketstate", "vbucketstates"),
    Category.DATATYPE: ("datatype", "datatypes"),
    Category.FEATURE: ("feature", "features", "hellofeature", "hellofeatures"),
    Category.FRAME_INFO: ("frame-info", "frameinfo", "frameinfos"),
    Category.EVENT: ("event", "events", "systemevents"),
    Category.VALUE: ("value", "values"),
    Category.SUBTYPE: ("subtype", "subtypes", "draftsubtype", "draftsubtypes"),
    Category.JSON_KEY: ("json-key", "jsonkey", "jsonkeys"),
    Category.ERRATUM: ("erratum", "errata"),
    Category.DEFECT: ("defect", "defects"),
    Category.HEADER: ("header", "headers"),
    Category.DIALECT: ("dialect", "dialects"),
    Category.TOPIC: ("topic", "topics"),
    Category.SOURCE: ("source", "sources"),
    Category.FIELD: ("field", "fields"),
}


class TableMember(NamedTuple):
    """One name of a table."""

    table: Enumeration | Flags
    name: Name


class Source(NamedTuple):
    """A document or source tree that facts come from."""

    key: str
    title: str


class FieldUse(NamedTuple):
    """A field's name, and every message and declaration that has it."""

    name: str
    uses: tuple[tuple[Message, Field], ...]


class JsonUse(NamedTuple):
    """A key of a message's JSON value, and the object inside the value that it is in."""

    message: Message
    key: JsonKey
    inside: str = ""


Subject = (
    Message
    | TableMember
    | StatusRange
    | Magic
    | FrameInfo
    | ControlKey
    | SystemEvent
    | Erratum
    | DefectSpec
    | HeaderForm
    | DialectSpec
    | Topic
    | JsonUse
    | Source
    | FieldUse
)


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that can be asked about. Things of one group make one answer."""

    category: Category
    name: str
    subject: Subject
    aliases: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    doc: str = ""  #: one line for lists

    @property
    def group(self) -> tuple[object, ...]:
        """Return what things of one answer have in common: the same name, and for numbered tables the same number."""
        if isinstance(self.subject, Message):
            return (self.category, self.name)
        return (self.category, self.name, self.numbers[:1], type(self.subject), self._own())

    def _own(self) -> object:
        return None if isinstance(self.subject, TableMember) else self.subject

    @property
    def label(self) -> str:
        """Return the number, or what stands in its place, for the first column of a list."""
        subject = self.subject
        if isinstance(subject, Message):
            return opcode_label(subject)
        if isinstance(subject, StatusRange):
            return f"0x{subject.low:02x}"
        if isinstance(subject, TableMember) and isinstance(subject.table, Enumeration):
            return number_label(self.category, subject.name.value)
        return number_label(self.category, self.numbers[0]) if self.numbers else ""


_DECIMAL = {
    Category.REASON,
    Category.STATE,
    Category.VALUE,
    Category.SUBTYPE,
    Category.EVENT,
    Category.FRAME_INFO,
}


def number_label(category: Category, number: int) -> str:
    """Write a number as its category does: codes and bits in hexadecimal, small enumerations in decimal."""
    return str(number) if category in _DECIMAL else f"0x{number:02x}"


def opcode_label(message: Message) -> str:
    """Write an opcode, with its subtypes in the draft."""
    subtypes = ",".join(str(subtype) for subtype in message.subtypes)
    return f"0x{message.opcode:02x}" + (f"/{subtypes}" if subtypes else "")


#: Tables that are more than a field's own list of names.
_TABLE_CATEGORIES: dict[int, Category] = {
    id(enums.DATATYPES): Category.DATATYPE,
    id(enums.STATUSES): Category.STATUS,
    id(enums.END_REASONS): Category.REASON,
    id(enums.UPR_END_REASONS): Category.REASON,
    id(enums.DRAFT_END_REASONS): Category.REASON,
    id(enums.DRAFT_REQUEST_TYPES): Category.SUBTYPE,
    id(enums.DRAFT_RESPONSE_TYPES): Category.SUBTYPE,
    id(enums.DRAFT_START_TYPES): Category.SUBTYPE,
    id(enums.DRAFT_MESSAGE_TYPES): Category.SUBTYPE,
    id(enums.VBUCKET_STATES): Category.STATE,
    id(enums.UPR_VBUCKET_STATES): Category.STATE,
    id(enums.SEQNO_STATE_FILTERS): Category.STATE,
    id(enums.FEATURES): Category.FEATURE,
}


def tables() -> tuple[Enumeration | Flags, ...]:
    """Return every table of names that the spec declares, in its order."""
    return tuple(table for table in vars(enums).values() if isinstance(table, Enumeration | Flags))


def table_category(table: Enumeration | Flags) -> Category:
    """Return what the members of a table are called."""
    usual = Category.FLAG if isinstance(table, Flags) else Category.VALUE
    return _TABLE_CATEGORIES.get(id(table), usual)


@cache
def things() -> tuple[Thing, ...]:
    """Return the whole catalogue: by category, then in the order of the spec."""
    order = list(Category)
    return tuple(sorted(_all(), key=lambda thing: (order.index(thing.category), _age(thing))))


def _age(thing: Thing) -> int:
    return table_age(thing.subject.table) if isinstance(thing.subject, TableMember) else 0


def table_age(table: Enumeration | Flags) -> int:
    """Put the tables of the early dialects after the others: most captures are of shipped servers."""
    return 1 if table.name.startswith(("upr ", "draft ")) else 0


def _all() -> Iterator[Thing]:
    messages = sorted(registry.MESSAGES, key=lambda known: DIALECT_ORDER[known.dialect])
    for known in messages:
        aliases = (known.constant, f"{known.dialect} {known.name}", f"{known.dialect} {known.constant}")
        yield Thing(Category.OPCODE, known.name, known, aliases, (known.opcode,), known.doc)
    for magic in enums.MAGICS:
        yield Thing(Category.MAGIC, magic.name, magic, (), (magic.value,), magic.doc)
    for table in tables():
        category = table_category(table)
        for name in table.members:
            doc = (
                name.doc if category in {Category.STATUS, Category.FEATURE, Category.DATATYPE} else _where(table, name)
            )
            yield Thing(category, name.name, TableMember(table, name), name.aliases, (name.value,), doc)
    for family in enums.STATUS_RANGES:
        numbers = tuple(range(family.low, family.high + 1))
        yield Thing(Category.STATUS, family.name, family, (), numbers, f"to 0x{family.high:02x}: {family.doc}")
    for key in registry.CONTROL_BY_NAME.values():
        yield Thing(Category.CONTROL, key.name, key, (), (), key.doc)
    for info in enums.FRAME_INFOS:
        yield Thing(Category.FRAME_INFO, info.name, info, (), (info.id,), f"{info.doc} ({info.direction.value})")
    for event in registry.EVENT_BY_ID.values():
        yield Thing(Category.EVENT, event.name, event, (), (event.id,), event.doc)
    for erratum in registry.ERRATUM_BY_ID.values():
        yield Thing(Category.ERRATUM, erratum.id, erratum, (erratum.id.replace("-0", ""),), (), erratum.contradiction)
    for defect in registry.DEFECT_BY_ID.values():
        yield Thing(Category.DEFECT, defect.id, defect, (defect.title,), (), defect.doc)
    for form in HEADERS:
        yield Thing(Category.HEADER, form.name, form, form.aliases, (), form.doc)
    for dialect in DIALECTS:
        yield Thing(Category.DIALECT, str(dialect.dialect), dialect, (), (), f"{dialect.period}: {dialect.doc}")
    for topic in TOPICS:
        yield Thing(Category.TOPIC, topic.name, topic, (), (), topic.doc)
    for known in messages:
        for use in _json_uses(known):
            yield Thing(Category.JSON_KEY, use.key.name, use, (), (), f"{known.name}: {use.key.doc}")
    for source, title in SOURCES.items():
        yield Thing(Category.SOURCE, source, Source(source, title), (), (), title)
    uses: dict[str, list[tuple[Message, Field]]] = {}
    for known in messages:
        for found in dict.fromkeys(fields_of(known)):
            uses.setdefault(found.name, []).append((known, found))
    for field_name, where in uses.items():
        yield Thing(Category.FIELD, field_name, FieldUse(field_name, tuple(where)), (), (), where[0][1].doc)


def _json_uses(message: Message) -> Iterator[JsonUse]:
    for shape in message.shapes():
        for key in shape.json_keys:
            yield JsonUse(message, key)
            for member in key.members:
                yield JsonUse(message, member, key.name)


def _where(table: Enumeration | Flags, name: Name) -> str:
    return f"{table.name}: {name.doc}" if name.doc else table.name


def fields_of(message: Message) -> Iterator[Field]:
    """Yield every field that a message can have, in extras, fixed values, records and values of system events."""
    for shape in message.shapes():
        for layout in shape.layouts:
            yield from layout.extras
            yield from layout.value
        yield from BODIES[shape.body].record
        if shape.body is Body.SYSTEM_EVENT:
            for event in registry.EVENT_BY_ID.values():
                yield from event.fields
