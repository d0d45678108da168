"""The words of the protocol's description: dialects, releases, parties, presence, kinds of numbers, names of numbers.

Everything here is a frozen value, and none of it is a number of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class SpecError(ValueError):
    """A declaration that contradicts itself. Raised at import only."""


def check_unique(where: str, values: Sequence[object]) -> None:
    """Refuse a declaration that says something twice."""
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
    TOLERATED = "optional"  #: some peers answer success too; neither the answer nor its absence is a fault
    NONE = "never"  #: the message is itself an answer or a push


class CasRule(StrEnum):
    """What the CAS field of a message may hold."""

    ANY = "any"
    ZERO = "zero"
    NOT_ZERO = "not zero"


class JsonType(StrEnum):
    """What a member of a JSON object is."""

    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    STRINGS = "array of strings"
    OBJECT = "object"


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


class MessageType(Enum):
    """What a magic byte says about a frame."""

    REQUEST = "request"
    RESPONSE = "response"


class Severity(StrEnum):
    """How bad a defect is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class UInt(IntEnum):
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
    aliases: tuple[str, ...] = ()  #: what the servers' source calls it, where that is not the name in capitals


@dataclass(frozen=True, slots=True)
class Enumeration:
    """Numbers with names."""

    name: str
    doc: str
    members: tuple[Name, ...]

    def __post_init__(self) -> None:
        check_unique(self.name, [member.value for member in self.members])

    def member(self, value: int) -> Name | None:
        """Return the member of this value, if it has one."""
        return next((member for member in self.members if member.value == value), None)

    def number(self, name: str) -> int:
        """Return the number of this name."""
        return next(member.value for member in self.members if member.name == name)


@dataclass(frozen=True, slots=True)
class Flags:
    """Bits with names."""

    name: str
    doc: str
    members: tuple[Name, ...]
    lenient: bool = False  #: receivers take bits that they do not know, so they are no defect

    def __post_init__(self) -> None:
        check_unique(self.name, [member.value for member in self.members])
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
