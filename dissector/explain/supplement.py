"""What people need to read the protocol and the spec's tables leave to the decoder: headers, bodies, dialects.

Tests hold the headers against :class:`dissector.message.Header` and the records against the decoder's.
"""

from __future__ import annotations

from dataclasses import dataclass

from dissector.spec import enums, fields, registry
from dissector.spec.model import Body, Dialect, Field, Kind, Role


@dataclass(frozen=True, slots=True)
class HeaderForm:
    """One reading of the 24 bytes that every frame starts with."""

    name: str
    doc: str
    fields: tuple[Field, ...]
    magics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DialectNote:
    """What a dialect is, for people."""

    dialect: Dialect
    period: str
    doc: str


@dataclass(frozen=True, slots=True)
class BodyNote:
    """How a value of one kind is built; ``record`` repeats until the value ends."""

    body: Body
    doc: str
    record: tuple[Field, ...] = ()


_MAGIC = Field("magic", Kind.U8, "kind of the frame")
_OPCODE = Field("opcode", Kind.U8, "which command; a response repeats that of its request")
_KEY_LENGTH = Field("key_length", Kind.U16, "bytes of key")
_EXTRAS_LENGTH = Field("extras_length", Kind.U8, "bytes of extras")
_DATATYPE = Field("datatype", Kind.U8, "how the value is encoded", enums.DATATYPES)
_VBUCKET_OR_STATUS = Field("vbucket_or_status", Kind.U16, "vbucket id in a request, status in a response")
_BODY_LENGTH = Field("body_length", Kind.U32, "bytes that follow the header, everything included")
_OPAQUE = Field(
    "opaque", Kind.U32, "chosen by the requester, repeated by the answer; compare it as four bytes", raw=True
)
_CAS = Field("cas", Kind.U64, "version of the document, or 0", role=Role.IDENTIFIER)
_TAIL = (_BODY_LENGTH, _OPAQUE, _CAS)


def _magics(*, flexible: bool) -> tuple[int, ...]:
    return tuple(magic.value for magic in registry.MAGICS.values() if magic.flexible is flexible)


HEADERS: tuple[HeaderForm, ...] = (
    HeaderForm(
        "plain header",
        "Behind it come extras, key and value. What the body length counts and extras and key do not take is the "
        "value. All integers are big-endian.",
        (_MAGIC, _OPCODE, _KEY_LENGTH, _EXTRAS_LENGTH, _DATATYPE, _VBUCKET_OR_STATUS, *_TAIL),
        _magics(flexible=False),
    ),
    HeaderForm(
        "flexible header",
        "As the plain one, but the key length gives one byte to the length of the framing extras, a list of frame "
        "infos between header and extras.",
        (
            _MAGIC,
            _OPCODE,
            Field("framing_length", Kind.U8, "bytes of framing extras"),
            Field("key_length", Kind.U8, "bytes of key"),
            _EXTRAS_LENGTH,
            _DATATYPE,
            _VBUCKET_OR_STATUS,
            *_TAIL,
        ),
        _magics(flexible=True),
    ),
    HeaderForm(
        "draft header",
        "The draft of 2013 has a subtype where the datatype is now and the vbucket in responses too, and it pushes "
        "data with the response magic.",
        (
            _MAGIC,
            _OPCODE,
            _KEY_LENGTH,
            _EXTRAS_LENGTH,
            Field("subtype", Kind.U8, "which request, answer or stream message"),
            Field("vbucket", Kind.U16, "vbucket id, in requests and responses"),
            _BODY_LENGTH,
            Field("request_id", Kind.U32, "every message of a stream repeats that of its request", raw=True),
            _CAS,
        ),
        (0x80, 0x81),
    ),
)

#: How the objects of the framing extras are packed.
FRAME_INFO_ENCODING = (
    "An object starts with one byte, its id in the upper four bits and its size in the lower four, and the data "
    "follow. An id or size of 15 or more has 15 there and the rest in a byte of its own, that of the id first."
)

DIALECTS: tuple[DialectNote, ...] = (
    DialectNote(
        Dialect.DCP,
        "since 3.0 (2014)",
        "The protocol as shipped, under its later name. Opcodes 0x50 to 0x67; the snapshot marker announces a range "
        "of seqnos and precedes the changes.",
    ),
    DialectNote(
        Dialect.UPR,
        "2013-09 to 2014-05",
        "The specification of January to June 2014 and the servers built before 3.0. The same opcodes as dcp; the "
        "marker has no range and follows its changes, and the consumer answers what it receives.",
    ),
    DialectNote(
        Dialect.DRAFT,
        "August 2013",
        "The first draft: opcodes 0x01 to 0x05, which collide with SET to INCREMENT, with a subtype in the "
        "datatype's place and responses used as pushes. Believed only on positive evidence.",
    ),
    DialectNote(
        Dialect.PROTO,
        "autumn 2013",
        "A numbering between draft and upr that lived in the source tree for some weeks. Never released and never "
        "detected: it is decoded on request only.",
    ),
    DialectNote(
        Dialect.MEMCACHED,
        "always",
        "The host protocol: the commands that share a connection or a capture with UPR. A connection without a sign "
        "of UPR is this.",
    ),
)
DIALECT_ORDER: dict[Dialect, int] = {note.dialect: place for place, note in enumerate(DIALECTS)}

BODIES: dict[Body, BodyNote] = {
    note.body: note
    for note in (
        BodyNote(Body.BYTES, "Bytes that are not looked into."),
        BodyNote(
            Body.DOCUMENT,
            "The document, encoded as the datatype says: snappy around everything, then a section of xattrs, then "
            "the document itself. The last nmeta bytes are extended metadata (4.0 to 6.6).",
        ),
        BodyNote(Body.FAILOVER_LOG, "The branches of the vbucket's history.", fields.FAILOVER_ENTRY),
        BodyNote(Body.TEXT, "Text."),
        BodyNote(Body.JSON, "A JSON object, or nothing."),
        BodyNote(Body.FEATURES, "A list of features.", fields.FEATURE_ENTRY),
        BodyNote(Body.VBUCKET_SEQNOS, "A list of vbuckets.", fields.VBUCKET_SEQNO_ENTRY),
        BodyNote(Body.CACHE_TRANSFER, "Documents; key and value follow the fields of each.", fields.CACHE_RECORD),
        BodyNote(Body.SYSTEM_EVENT, "What the event and its version say."),
        BodyNote(Body.SECRET, "A log-in. It is withheld from every output unless asked for."),
    )
}

#: What the servers' source calls statuses, where that is not their name in capitals.
STATUS_CONSTANTS: dict[int, str] = {
    0x01: "KEY_ENOENT",
    0x02: "KEY_EEXISTS",
    0x03: "E2BIG",
    0x04: "EINVAL",
    0x06: "DELTA_BADVAL",
    0x20: "AUTH_ERROR",
    0x22: "ERANGE",
    0x24: "EACCESS",
    0x25: "NOT_INITIALIZED",
    0x82: "ENOMEM",
    0x84: "EINTERNAL",
    0x85: "EBUSY",
    0x86: "ETMPFAIL",
}
