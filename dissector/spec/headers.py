"""The header that every frame starts with, byte by byte, and how the framing extras after it are packed.

All integers are big-endian. The opaque is no integer: servers copy it through as four bytes of memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from dissector.spec import enums
from dissector.spec.model import Field, MessageType, Role, SpecError, UInt

HEADER_SIZE = 24


@dataclass(frozen=True, slots=True)
class HeaderForm:
    """One reading of the 24 bytes: which magics have it, and which field starts at which byte."""

    name: str
    doc: str
    magics: tuple[int, ...]
    places: tuple[tuple[int, Field], ...]  #: offset and field, without a gap
    draft: bool = False  #: the same magics mean this form in the draft only
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        end = 0
        for offset, field in self.places:
            if offset != end:
                raise SpecError(f"{self.name}: {field.name} is said to be at {offset}, the byte before it is {end - 1}")
            end += field.size
        if end != HEADER_SIZE:
            raise SpecError(f"{self.name}: {end} bytes")

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields in their order."""
        return tuple(field for _, field in self.places)

    def offset(self, name: str) -> int:
        """Return where a field starts."""
        return next(offset for offset, field in self.places if field.name == name)


_MAGIC = (0, Field("magic", UInt.U8, "kind of the frame"))
_OPCODE = (1, Field("opcode", UInt.U8, "which command; a response repeats that of its request"))
_KEY_LENGTH = (2, Field("key_length", UInt.U16, "bytes of key"))
_FRAMING = (
    (2, Field("framing_length", UInt.U8, "bytes of framing extras")),
    (3, Field("key_length", UInt.U8, "bytes of key: in one byte here")),
)
_EXTRAS_LENGTH = (4, Field("extras_length", UInt.U8, "bytes of extras"))
_DATATYPE = (5, Field("datatype", UInt.U8, "how the value is encoded", enums.DATATYPES))
_VBUCKET = (6, Field("vbucket", UInt.U16, "vbucket id; 0 where a command has none"))
_STATUS = (6, Field("status", UInt.U16, "outcome of the command", enums.STATUSES))
_BODY_LENGTH = (8, Field("body_length", UInt.U32, "bytes that follow the header, everything included"))
_OPAQUE = (
    12,
    Field(
        "opaque",
        UInt.U32,
        "chosen by the requester, repeated by the answer; in a stream, that of its stream request. Compare it as four "
        "bytes: a server's counter is little-endian on most machines",
        role=Role.OPAQUE,
        raw=True,
    ),
)
_CAS = (16, Field("cas", UInt.U64, "version of the document, or 0", role=Role.IDENTIFIER))


def _magics(direction: MessageType, *, flexible: bool) -> tuple[int, ...]:
    return tuple(magic.value for magic in enums.MAGICS if magic.flexible is flexible and magic.direction is direction)


HEADERS: tuple[HeaderForm, ...] = (
    HeaderForm(
        "request header",
        "Behind it come extras, key and value. What the body length counts and extras and key do not take is the "
        "value.",
        _magics(MessageType.REQUEST, flexible=False),
        (_MAGIC, _OPCODE, _KEY_LENGTH, _EXTRAS_LENGTH, _DATATYPE, _VBUCKET, _BODY_LENGTH, _OPAQUE, _CAS),
        aliases=("plain header",),
    ),
    HeaderForm(
        "response header",
        "As that of a request, with a status where the vbucket is there.",
        _magics(MessageType.RESPONSE, flexible=False),
        (_MAGIC, _OPCODE, _KEY_LENGTH, _EXTRAS_LENGTH, _DATATYPE, _STATUS, _BODY_LENGTH, _OPAQUE, _CAS),
        aliases=("plain header",),
    ),
    HeaderForm(
        "flexible request header",
        "The key length gives one byte to the length of the framing extras, a list of frame infos between header and "
        "extras. The body length counts them.",
        _magics(MessageType.REQUEST, flexible=True),
        (_MAGIC, _OPCODE, *_FRAMING, _EXTRAS_LENGTH, _DATATYPE, _VBUCKET, _BODY_LENGTH, _OPAQUE, _CAS),
        aliases=("flexible header",),
    ),
    HeaderForm(
        "flexible response header",
        "As that of a flexible request, with a status where the vbucket is there.",
        _magics(MessageType.RESPONSE, flexible=True),
        (_MAGIC, _OPCODE, *_FRAMING, _EXTRAS_LENGTH, _DATATYPE, _STATUS, _BODY_LENGTH, _OPAQUE, _CAS),
        aliases=("flexible header",),
    ),
    HeaderForm(
        "draft header",
        "The draft of 2013 has a subtype where the datatype is now and the vbucket in responses too, and it pushes "
        "data with the response magic. The CAS is the document's on data messages and 0 elsewhere.",
        (0x80, 0x81),
        (
            _MAGIC,
            _OPCODE,
            _KEY_LENGTH,
            _EXTRAS_LENGTH,
            (5, Field("subtype", UInt.U8, "which request, answer or stream message")),
            (6, Field("vbucket", UInt.U16, "vbucket id, in requests and responses")),
            _BODY_LENGTH,
            (
                12,
                Field("request_id", UInt.U32, "every message of a stream repeats that of its request", raw=True),
            ),
            _CAS,
        ),
        draft=True,
    ),
)


def header_form(magic: int, *, draft: bool = False) -> HeaderForm | None:
    """Return how the header of a frame with this magic is read."""
    return next((form for form in HEADERS if magic in form.magics and form.draft is draft), None)


#: An id or size of this or more has this number in its half of the first byte, and the rest in a byte of its own.
FRAME_INFO_ESCAPE = 0x0F
#: The first byte of an object: the id above, the size below.
FRAME_INFO_ID_SHIFT = 4
FRAME_INFO_PACKING = (
    "An object starts with one byte, its id in the upper four bits and its size in the lower four, and the data "
    "follow. An id or size of 15 or more has 15 there and the rest in a byte of its own, that of the id first."
)

_STREAM_ID = next(info for info in enums.FRAME_INFOS if info.name == "stream_id")
#: The stream id as it stands on the wire: this byte and the id.
STREAM_ID_TAG = _STREAM_ID.id << FRAME_INFO_ID_SHIFT | sum(field.size for field in _STREAM_ID.fields)
STREAM_ID_SIZE = 1 + sum(field.size for field in _STREAM_ID.fields)
