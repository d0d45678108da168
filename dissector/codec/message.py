"""Decoded messages: plain frozen values, the same for every dialect. No decoding here."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from dissector.spec import registry
from dissector.spec.model import Body, Dialect, Enumeration, Flags, MessageType, TableText

if TYPE_CHECKING:
    from dissector.spec.model import DefectSpec, Field, FrameInfo, Layout, Magic, Message, TableSpec

_HEADER = struct.Struct(">BBHBBHI4sQ")


class Header(NamedTuple):
    """The 24 bytes that every frame starts with, as they stand on the wire."""

    magic: int
    opcode: int
    key_word: int  #: key length; in flexible frames framing extras length and key length, a byte each
    extras_length: int
    datatype: int  #: the draft's subtype
    vbucket_or_status: int
    body_length: int
    opaque: bytes  #: four raw bytes: servers copy them through unconverted, so they are compared as bytes
    cas: int

    @classmethod
    def parse(cls, data: bytes) -> Header:
        """Read a header; the caller has made sure of 24 bytes."""
        return cls(*_HEADER.unpack_from(data))

    def pack(self) -> bytes:
        """Write the header back to bytes."""
        return _HEADER.pack(*self)

    @property
    def known_magic(self) -> Magic | None:
        """Return what the magic means, if it is one."""
        return registry.MAGICS.get(self.magic)

    @property
    def flexible(self) -> bool:
        """Tell whether framing extras may follow."""
        magic = self.known_magic
        return magic is not None and magic.flexible

    @property
    def framing_length(self) -> int:
        """Return the size of the framing extras."""
        return self.key_word >> 8 if self.flexible else 0

    @property
    def key_length(self) -> int:
        """Return the size of the key."""
        return self.key_word & 0xFF if self.flexible else self.key_word

    @property
    def frame_length(self) -> int:
        """Return the size of the whole frame."""
        return registry.HEADER_SIZE + self.body_length


@dataclass(frozen=True, slots=True)
class Defect:
    """Something wrong with a frame: a stable id, and what it is here."""

    id: str
    detail: str

    @property
    def spec(self) -> DefectSpec:
        """Return the declaration of this kind of defect."""
        return registry.DEFECT_BY_ID[self.id]

    def __str__(self) -> str:
        return f"{self.id}: {self.detail}"


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field with the number that it holds and its place in the frame."""

    spec: Field
    value: int
    offset: int

    @property
    def name(self) -> str:
        """Return the field's name."""
        return self.spec.name

    @property
    def label(self) -> str | None:
        """Return the number's name, or the names of its flags, where it has one."""
        names = self.spec.names
        if isinstance(names, Enumeration):
            member = names.member(self.value)
            return member.name if member is not None else None
        if isinstance(names, Flags):
            rest = names.unknown(self.value)
            return "|".join((*names.names(self.value), *([hex(rest)] if rest else []))) or None
        return None


@dataclass(frozen=True, slots=True)
class FrameInfoValue:
    """One object of the framing extras."""

    id: int
    spec: FrameInfo | None
    data: bytes
    fields: tuple[FieldValue, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a list in a value."""

    fields: tuple[FieldValue, ...]
    key: bytes = b""  #: as on the wire
    value: bytes = b""
    collection_id: int | None = None
    document_key: bytes = b""  #: the key without its collection id

    def __getitem__(self, name: str) -> int:
        return next(entry.value for entry in self.fields if entry.name == name)


@dataclass(frozen=True, slots=True)
class Metadata:
    """One entry of the extended metadata after a value (4.0 to 4.6)."""

    id: int
    data: bytes


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A slot of a FlatBuffers table."""

    spec: Field | TableText
    value: int | bytes
    offset: int | None = None  #: of the number or text in the frame; None: it is not there, and has its default
    reference: int | None = None  #: where in the frame the table says how far away its text is

    @property
    def name(self) -> str:
        """Return the slot's name."""
        return self.spec.name


@dataclass(frozen=True, slots=True)
class TableValue:
    """A FlatBuffers table with its places in the frame; one that was compressed has none, whatever they say."""

    spec: TableSpec
    offset: int
    vtable_offset: int
    vtable_size: int
    entries: tuple[TableEntry, ...]
    compressed: bool

    @property
    def numbers(self) -> tuple[tuple[Field, int], ...]:
        """Return the slots that hold numbers."""
        return tuple(
            (field, entry.value)
            for field, entry in zip(self.spec.slots, self.entries, strict=True)
            if isinstance(entry.value, int) and not isinstance(field, TableText)
        )


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a message, read as far as its kind allows."""

    kind: Body = Body.BYTES
    offset: int = 0
    length: int = 0  #: as the header says, even when the bytes were cut or withheld
    raw: bytes = b""  #: as on the wire, without the extended metadata; empty when withheld
    withheld: bool = False  #: a secret
    inflated: bytes | None = None  #: after snappy
    xattrs: tuple[tuple[bytes, bytes], ...] = ()
    document: bytes = b""  #: what is left after snappy and xattrs
    is_json: bool = False
    records: tuple[Record, ...] = ()
    metadata: tuple[Metadata, ...] = ()
    table: TableValue | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A frame as far as it could be read, with everything that is wrong with it."""

    dialect: Dialect
    length: int  #: bytes of input that belong to this frame
    header: Header | None = None  #: None: there were fewer than 24 bytes
    spec: Message | None = None
    layout: Layout | None = None
    direction: MessageType | None = None
    vbucket: int | None = None
    status: int | None = None
    subtype: int | None = None
    frame_infos: tuple[FrameInfoValue, ...] = ()
    extras: bytes = b""
    extras_offset: int = registry.HEADER_SIZE
    fields: tuple[FieldValue, ...] = ()  #: of extras and of fixed values
    key: bytes = b""
    key_offset: int = 0
    collection_id: int | None = None
    document_key: bytes = b""  #: the key without its collection id
    value: Value = field(default_factory=Value)
    defects: tuple[Defect, ...] = ()

    @property
    def name(self) -> str:
        """Return the message's name, or its opcode in hexadecimal."""
        if self.spec is not None:
            return self.spec.name
        return f"0x{self.header.opcode:02x}" if self.header is not None else "fragment"

    def __getitem__(self, name: str) -> int:
        for entry in self.fields:
            if entry.name == name:
                return entry.value
        for info in self.frame_infos:
            for entry in info.fields:
                if entry.name == name:
                    return entry.value
        raise KeyError(name)

    def get(self, name: str) -> int | None:
        """Return a field's number, if the frame has the field."""
        try:
            return self[name]
        except KeyError:
            return None

    @property
    def by_seqno(self) -> int | None:
        """Return the seqno that this message moves its vbucket to."""
        return self.get(self.spec.seqno) if self.spec is not None and self.spec.seqno is not None else None

    @property
    def stream_id(self) -> int | None:
        """Return the stream id of the framing extras."""
        return self.get("stream_id")

    @property
    def status_name(self) -> str | None:
        """Return the status in words."""
        return None if self.status is None else registry.status_name(self.status)

    @property
    def flow_control_bytes(self) -> int:
        """Return the bytes that this frame takes from the consumer's window."""
        if (
            self.header is None
            or self.direction is not MessageType.REQUEST
            or self.spec is None
            or self.spec.flow is None
        ):
            return 0
        return self.spec.flow.counted(self.header.frame_length)

    def defect_ids(self) -> tuple[str, ...]:
        """Return the ids of all defects, in the order they were found."""
        return tuple(defect.id for defect in self.defects)
