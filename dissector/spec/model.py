"""The vocabulary in which the protocol is written down: fields, layouts, shapes, messages.

Everything here is a frozen value. A mistake in a declaration (two fields of one name, a flag that is no single
bit, a message without a sender) raises :class:`SpecError` when the table is imported, never when a frame is read.

This module knows how the protocol is *described*; it holds none of the protocol's numbers. The words that it uses are
those of :mod:`dissector.spec.vocabulary`, and can be had from here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dissector.spec.vocabulary import (
    UNRELEASED,
    Body,
    CasRule,
    Dialect,
    Enumeration,
    Flags,
    JsonType,
    KeyRole,
    MessageType,
    Name,
    Party,
    Presence,
    Release,
    Reply,
    Role,
    Severity,
    SpecError,
    UInt,
    check_unique,
)

__all__ = [
    "HEADER_ONLY",
    "UNRELEASED",
    "Body",
    "CasRule",
    "ControlKey",
    "DefectSpec",
    "Dialect",
    "Enumeration",
    "Erratum",
    "Field",
    "Flags",
    "FlowSize",
    "FrameInfo",
    "JsonKey",
    "JsonType",
    "KeyRole",
    "Layout",
    "Magic",
    "Message",
    "MessageType",
    "Name",
    "Party",
    "Presence",
    "Refusal",
    "Release",
    "Reply",
    "Role",
    "Severity",
    "Shape",
    "SpecError",
    "SystemEvent",
    "TableSpec",
    "TableText",
    "UInt",
    "size_of",
]


@dataclass(frozen=True, slots=True)
class Field:
    """A number at a fixed place in extras, value or record."""

    name: str
    kind: UInt
    doc: str
    names: Enumeration | Flags | None = None
    role: Role = Role.NUMBER
    reserved: bool = False  #: must be zero
    raw: bool = False  #: copied through without byte order conversion: a bit pattern, not a number

    @property
    def size(self) -> int:
        """Return the field's size in bytes."""
        return int(self.kind)


def size_of(fields: tuple[Field, ...]) -> int:
    """Return the number of bytes that fields take up together."""
    return sum(field.size for field in fields)


@dataclass(frozen=True, slots=True)
class Layout:
    """One form of a message's body; the extras length chooses it, and the version byte where there is one."""

    name: str
    extras: tuple[Field, ...] = ()
    value: tuple[Field, ...] = ()  #: fixed fields that make up the whole value
    version: int | None = None  #: what the last extras byte must be
    note: str | None = None  #: the defect to report when this form is met: it is accepted, not right
    since: Release | None = None
    until: Release | None = None
    doc: str = ""

    def __post_init__(self) -> None:
        check_unique(self.name, [field.name for field in (*self.extras, *self.value)])
        if self.version is not None and (not self.extras or not self.extras[-1].name.endswith("version")):
            raise SpecError(f"layout {self.name}: a version needs a version byte at the end of the extras")

    @property
    def extras_size(self) -> int:
        """Return the extras length that this layout has."""
        return size_of(self.extras)

    @property
    def value_size(self) -> int:
        """Return the size of the value's fixed fields."""
        return size_of(self.value)


HEADER_ONLY = Layout("no extras")


@dataclass(frozen=True, slots=True)
class JsonKey:
    """A member of the JSON object that a message's value can be. Receivers ignore keys that they do not know."""

    name: str
    type: JsonType
    format: str  #: what the member looks like, for people
    doc: str
    since: Release | None = None
    members: tuple[JsonKey, ...] = ()  #: of an object
    most: int | None = None  #: the largest number that its receiver can keep

    def __post_init__(self) -> None:
        check_unique(self.name, [member.name for member in self.members])
        if self.most is not None and self.type is not JsonType.INTEGER:
            raise SpecError(f"{self.name}: only numbers have a largest one")
        if bool(self.members) != (self.type is JsonType.OBJECT):
            raise SpecError(f"{self.name}: objects have members, and nothing else has")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a request, response or push may be made of."""

    layouts: tuple[Layout, ...] = (HEADER_ONLY,)  #: the first one is what an encoder writes; empty: not described
    key: Presence = Presence.MUST_NOT
    value: Presence = Presence.MUST_NOT
    body: Body = Body.BYTES
    key_role: KeyRole = KeyRole.NAME
    datatypes: tuple[int, ...] | None = None  #: None: anything that is a datatype at all
    cas: CasRule = CasRule.ANY
    json_keys: tuple[JsonKey, ...] = ()  #: of a JSON value

    def __post_init__(self) -> None:
        if self.json_keys and self.body is not Body.JSON:
            raise SpecError(f"JSON keys in a value that is {self.body}")
        check_unique("JSON keys", [key.name for key in self.json_keys])
        check_unique("layouts", [(layout.extras_size, layout.version, layout.value_size) for layout in self.layouts])

    @property
    def extras(self) -> Presence:
        """Return whether extras have to be there, which the layouts decide; forms that are only put up with do not."""
        sizes = {layout.extras_size > 0 for layout in self.layouts if layout.note is None}
        if len(sizes) != 1:
            return Presence.MAY
        return Presence.MUST if sizes.pop() else Presence.MUST_NOT


@dataclass(frozen=True, slots=True)
class FlowSize:
    """How many bytes a message takes from the consumer's flow-control window."""

    surplus: int = 0  #: counted on top of the frame's own length
    doc: str = "the whole frame"

    def counted(self, frame_length: int) -> int:
        """Return the bytes that both sides count for a frame of this length."""
        return frame_length + self.surplus


class Refusal(NamedTuple):
    """How a receiver says no to a message, and when."""

    status: int | None  #: None: it drops the connection
    doc: str


@dataclass(frozen=True, slots=True)
class Message:
    """A command of one dialect: its request, its answers, and what is known of it."""

    dialect: Dialect
    opcode: int
    name: str  #: unique within its dialect
    constant: str  #: what the servers' source calls it
    sender: Party
    receiver: Party
    doc: str
    source: str  #: a key of :data:`dissector.spec.sources.SOURCES`
    request: Shape | None = None
    responses: tuple[tuple[int, Shape], ...] = ()  #: by status; any other status may carry an error text or nothing
    push: Shape | None = None  #: the draft sends data with the response magic
    subtypes: tuple[int, ...] = ()  #: draft only: values of byte 5
    subtype_names: Enumeration | None = None  #: what these values mean
    reply: Reply = Reply.ALWAYS
    reply_doc: str = ""  #: what the word leaves out
    flow: FlowSize | None = None  #: None: not counted
    seqno: str | None = None  #: the field that is this message's by_seqno
    refusals: tuple[Refusal, ...] = ()  #: seen or documented
    server_push: bool = False  #: magic 0x82/0x83: sent by the server outside UPR
    since: Release | None = None
    until: Release | None = None
    errata: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"{self.dialect}/{self.name}"
        if not 0 <= self.opcode <= 0xFF:
            raise SpecError(f"{where}: opcode out of range")
        if self.request is None and not self.responses and self.push is None:
            raise SpecError(f"{where}: no shape at all")
        if self.subtypes and self.dialect is not Dialect.DRAFT:
            raise SpecError(f"{where}: only the draft has subtypes")
        for subtype in self.subtypes:
            if self.subtype_names is None or self.subtype_names.member(subtype) is None:
                raise SpecError(f"{where}: subtype {subtype} has no meaning")
        check_unique(where, [status for status, _ in self.responses])
        check_unique(where, self.errors)
        if self.seqno is not None and not any(
            self.seqno == field.name for shape in self.shapes() for layout in shape.layouts for field in layout.extras
        ):
            raise SpecError(f"{where}: {self.seqno} is no field of it")

    @property
    def errors(self) -> tuple[int, ...]:
        """Return the statuses that a refusal has been seen or documented with."""
        return tuple(refusal.status for refusal in self.refusals if refusal.status is not None)

    @property
    def disconnects(self) -> tuple[str, ...]:
        """Return what makes the receiver drop the connection."""
        return tuple(refusal.doc for refusal in self.refusals if refusal.status is None)

    def shapes(self) -> tuple[Shape, ...]:
        """Return every shape that the message can have."""
        first = tuple(shape for shape in (self.request, self.push) if shape is not None)
        return first + tuple(shape for _, shape in self.responses)

    def response(self, status: int) -> Shape | None:
        """Return the shape of an answer with this status, if there is a rule for it."""
        return next((shape for code, shape in self.responses if code == status), None)


class Magic(NamedTuple):
    """A first byte."""

    value: int
    name: str
    direction: MessageType
    flexible: bool  #: framing extras follow the header, and the key length has one byte
    server_push: bool
    doc: str
    since: Release | None = None


class FrameInfo(NamedTuple):
    """An object in the framing extras of a flexible frame."""

    id: int
    name: str
    direction: MessageType
    sizes: tuple[int, ...] | None  #: allowed sizes in bytes; None: any
    fields: tuple[Field, ...]
    doc: str


class ControlKey(NamedTuple):
    """A parameter of the control command."""

    name: str
    values: str  #: what a value looks like, for people
    pattern: str  #: the same as a regular expression for the whole value
    doc: str
    since: Release | None = None
    until: Release | None = None


class TableText(NamedTuple):
    """A text in a FlatBuffers table."""

    name: str
    doc: str


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A FlatBuffers table: what its slots hold, in the order of their numbers; later releases add slots at the end."""

    name: str  #: what the servers' schema calls it
    slots: tuple[Field | TableText, ...]
    depends: tuple[tuple[str, str], ...] = ()  #: a slot that says nothing unless another one is set, and that one

    def __post_init__(self) -> None:
        names = [slot.name for slot in self.slots]
        check_unique(self.name, names)
        if not {name for pair in self.depends for name in pair} <= set(names):
            raise SpecError(f"table {self.name}: a slot depends on one that is not there")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the slots that hold numbers."""
        return tuple(slot for slot in self.slots if isinstance(slot, Field))


class SystemEvent(NamedTuple):
    """A system event: its key and, by version, the fields of its value, fixed or in a table."""

    id: int
    name: str
    key: Presence
    versions: tuple[tuple[int, tuple[Field, ...] | TableSpec | None], ...]  #: None: not described, shown as bytes
    doc: str
    since: Release | None = None
    until: Release | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return all numbers that the event can tell, in any version; of two with one name the first."""
        found: dict[str, Field] = {}
        for _, form in self.versions:
            for field in form.fields if isinstance(form, TableSpec) else form or ():
                found.setdefault(field.name, field)
        return tuple(found.values())


class DefectSpec(NamedTuple):
    """Something that can be wrong with one frame. The id is stable: outputs and tests name it."""

    id: str
    severity: Severity
    title: str
    doc: str
    erratum: str | None = None
    rule: str | None = None  #: the framing rule that it breaks


class Erratum(NamedTuple):
    """Where the protocol's own documents contradict themselves or the servers."""

    id: str
    where: str
    contradiction: str
    action: str
