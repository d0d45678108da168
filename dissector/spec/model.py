"""The vocabulary in which the protocol is written down: enumerations, fields, layouts, shapes, messages.

Everything here is a frozen value. A mistake in a declaration (two fields of one name, a flag that is no single
bit, a message nobody can send) raises :class:`SpecError` when the table is imported, never when a frame is read.

This module knows how the protocol is *described*; it holds none of the protocol's numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class SpecError(ValueError):
    """A declaration that contradicts itself. Raised at import only."""


def _unique(where: str, values: Sequence[object]) -> None:
    if len(set(values)) != len(values):
        raise SpecError(f"{where}: declared twice: {values}")


class Dialect(StrEnum):
    """The forms the protocol has had on the wire, and the protocol it lives in."""

    DRAFT = "draft"  #: August 2013: opcodes 0x01 to 0x05 with subtypes, responses used as pushes
    PROTO = "upr-proto"  #: autumn 2013, in the source tree only: a numbering between draft and upr, never detected
    UPR = "upr"  #: 2013-09 to 2014-05: opcodes 0x50 and up, before the marker had a range
    DCP = "dcp"  #: as shipped since server 3.0
    MEMCACHED = "memcached"  #: the host protocol: a connection without a sign of UPR


class Release(NamedTuple):
    """A server release; later ones compare greater."""

    major: int
    minor: int = 0
    patch: int = 0

    def __str__(self) -> str:
        """Write ``3.0``, ``3.0.2`` or ``after 8.0``."""
        if self.major >= _UNRELEASED:
            return "after 8.0"
        return f"{self.major}.{self.minor}.{self.patch}" if self.patch else f"{self.major}.{self.minor}"


_UNRELEASED = 99
UNRELEASED = Release(_UNRELEASED)  #: on the development branch, in no release yet


class Presence(StrEnum):
    """Whether a part of a message has to be there."""

    MUST = "must"
    MUST_NOT = "must not"
    MAY = "may"


class Party(StrEnum):
    """Who sends or receives a message."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    AGENT = "external agent"  #: ebucketmigrator, the ns_server proxy, any client that sets streams up
    CLIENT = "client"
    SERVER = "server"
    PARTIES = "either party"


class Reply(StrEnum):
    """What the receiver of a request owes its sender."""

    ALWAYS = "always"
    NEVER = "on error only"
    WHEN_ASKED = "when the flags ask for it"
    NONE = "never"  #: the message is itself an answer or a push


class CasRule(StrEnum):
    """What the CAS field of a message may hold."""

    ANY = "any"
    ZERO = "zero"
    NOT_ZERO = "not zero"


class KeyRole(StrEnum):
    """What the key of a message names."""

    DOCUMENT = "document key"  #: carries a collection id in front when collections are negotiated
    NAME = "name"
    PARAMETER = "parameter"


class Body(StrEnum):
    """How the value of a message is to be read."""

    BYTES = "bytes"
    DOCUMENT = "document"  #: by datatype: snappy, xattrs, JSON; followed by the extended metadata
    FAILOVER_LOG = "failover log"
    TEXT = "text"
    JSON = "JSON"
    FEATURES = "feature list"
    VBUCKET_SEQNOS = "vbucket seqnos"
    CACHE_TRANSFER = "cache transfer records"
    SYSTEM_EVENT = "system event"
    SECRET = "secret"  # noqa: S105 - a kind of value, not one; never shown unless asked for


class Role(StrEnum):
    """What a number means, so that every output shows it alike."""

    NUMBER = "number"
    SEQNO = "seqno"
    IDENTIFIER = "identifier"  #: a bit pattern: shown in hexadecimal
    SECONDS = "seconds"
    OPAQUE = "opaque"


class Kind(IntEnum):
    """An unsigned big-endian integer; the value is its size in bytes."""

    U8 = 1
    U16 = 2
    U32 = 4
    U64 = 8


@dataclass(frozen=True, slots=True)
class Name:
    """One member of an enumeration, or one bit of a set of flags."""

    value: int
    name: str
    doc: str = ""
    since: Release | None = None
    until: Release | None = None


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Numbers with names."""

    name: str
    doc: str
    members: tuple[Name, ...]

    def __post_init__(self) -> None:
        _unique(self.name, [member.value for member in self.members])

    def member(self, value: int) -> Name | None:
        """Return the member of this value, if it has one."""
        return next((member for member in self.members if member.value == value), None)


@dataclass(frozen=True, slots=True)
class Flags:
    """Bits with names."""

    name: str
    doc: str
    members: tuple[Name, ...]
    lenient: bool = False  #: receivers take bits that they do not know, so they are no defect

    def __post_init__(self) -> None:
        _unique(self.name, [member.value for member in self.members])
        for bit in self.members:
            if bit.value <= 0 or bit.value & (bit.value - 1):
                raise SpecError(f"{self.name}: {bit.name} is not a single bit")

    def names(self, value: int) -> tuple[str, ...]:
        """Return the names of the bits that are set, lowest first."""
        return tuple(bit.name for bit in sorted(self.members, key=lambda bit: bit.value) if value & bit.value)

    def bit(self, name: str) -> int:
        """Return the bit of this name."""
        return next(bit.value for bit in self.members if bit.name == name)

    def unknown(self, value: int) -> int:
        """Return the bits of a value that have no name here."""
        return value & ~sum(bit.value for bit in self.members)


@dataclass(frozen=True, slots=True)
class Field:
    """A number at a fixed place in extras, value or record."""

    name: str
    kind: Kind
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
        _unique(self.name, [field.name for field in (*self.extras, *self.value)])
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
class Shape:
    """What a request, response or push may be made of."""

    layouts: tuple[Layout, ...] = (HEADER_ONLY,)  #: the first one is what an encoder writes; empty: not described
    key: Presence = Presence.MUST_NOT
    value: Presence = Presence.MUST_NOT
    body: Body = Body.BYTES
    key_role: KeyRole = KeyRole.NAME
    datatypes: tuple[int, ...] | None = None  #: None: anything that is a datatype at all
    cas: CasRule = CasRule.ANY

    def __post_init__(self) -> None:
        _unique("layouts", [(layout.extras_size, layout.version, layout.value_size) for layout in self.layouts])

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
    reply: Reply = Reply.ALWAYS
    flow: FlowSize | None = None  #: None: not counted
    seqno: str | None = None  #: the field that is this message's by_seqno
    errors: tuple[int, ...] = ()  #: statuses that a refusal has been seen or documented with
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
        _unique(where, [status for status, _ in self.responses])
        if self.seqno is not None and not any(
            self.seqno == field.name for shape in self.shapes() for layout in shape.layouts for field in layout.extras
        ):
            raise SpecError(f"{where}: {self.seqno} is no field of it")

    def shapes(self) -> tuple[Shape, ...]:
        """Return every shape that the message can have."""
        first = tuple(shape for shape in (self.request, self.push) if shape is not None)
        return first + tuple(shape for _, shape in self.responses)

    def response(self, status: int) -> Shape | None:
        """Return the shape of an answer with this status, if there is a rule for it."""
        return next((shape for code, shape in self.responses if code == status), None)


class Direction(Enum):
    """What a magic byte says about a frame."""

    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True)
class Magic:
    """A first byte."""

    value: int
    name: str
    direction: Direction
    flexible: bool  #: framing extras follow the header, and the key length has one byte
    server_push: bool
    doc: str
    since: Release | None = None


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """An object in the framing extras of a flexible frame."""

    id: int
    name: str
    direction: Direction
    sizes: tuple[int, ...] | None  #: allowed sizes in bytes; None: any
    fields: tuple[Field, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class ControlKey:
    """A parameter of the control command."""

    name: str
    values: str  #: what a value looks like, for people
    pattern: str  #: the same as a regular expression for the whole value
    doc: str
    since: Release | None = None
    until: Release | None = None


@dataclass(frozen=True, slots=True)
class SystemEvent:
    """A system event: its key and, by version, the fields of its value."""

    id: int
    name: str
    key: Presence
    versions: tuple[tuple[int, tuple[Field, ...] | None], ...]  #: None: FlatBuffers, shown as bytes
    doc: str
    since: Release | None = None


class Severity(StrEnum):
    """How bad a defect is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class DefectSpec:
    """Something that can be wrong with one frame. The id is stable: outputs and tests name it."""

    id: str
    severity: Severity
    title: str
    doc: str
    erratum: str | None = None
    rule: str | None = None  #: the framing rule that it breaks


@dataclass(frozen=True, slots=True)
class Erratum:
    """Where the protocol's own documents contradict themselves or the servers."""

    id: str
    where: str
    contradiction: str
    action: str
