"""The dialects before ``upr``: the draft of August 2013, and the numbering that followed it for some weeks.

In the draft byte 5 is a subtype, bytes 6 and 7 are the vbucket in responses too, bytes 12 to 15 are the request id
that every message of a stream repeats, and the producer pushes data with the response magic. Its opcodes collide
with SET, ADD, REPLACE, DELETE and INCREMENT.
"""

from __future__ import annotations

from dissector.spec import enums, fields
from dissector.spec.model import (
    Body,
    Dialect,
    Enumeration,
    Field,
    KeyRole,
    Layout,
    Message,
    Party,
    Presence,
    Reply,
    Shape,
    UInt,
)

_MUST, _MAY = Presence.MUST, Presence.MAY
_PADDING = Field("padding", UInt.U64, "counted by the header, named by nobody (E-12)", reserved=True)
#: How many bytes too many the drawn extras lengths count.
OVERSTATED = _PADDING.size

_STREAM_REQUEST_32 = (
    fields.START_SEQNO,
    fields.END_SEQNO,
    fields.VBUCKET_UUID,
    fields.HIGH_SEQNO,
)
#: E-12: the drawn lengths are 8 more than the fields they list; both mean the same fields.
_STREAM_REQUEST = (
    Layout("32 bytes", extras=_STREAM_REQUEST_32),
    Layout("40 bytes as drawn", extras=(*_STREAM_REQUEST_32, _PADDING), note="extras-overstated"),
)
_ITEM = (
    Layout("28 bytes", extras=fields.MUTATION_28),
    Layout("36 bytes as drawn", extras=(*fields.MUTATION_28, _PADDING), note="extras-overstated"),
)


def _request(name: str, subtype: int, doc: str, shape: Shape) -> Message:
    return Message(
        Dialect.DRAFT,
        0x01,
        name,
        "UPR Request",
        Party.CONSUMER,
        Party.PRODUCER,
        doc,
        "draft",
        request=shape,
        subtypes=(subtype,),
        subtype_names=enums.DRAFT_REQUEST_TYPES,
        errata=("E-12", "E-16") if shape.layouts == _STREAM_REQUEST else (),
    )


#: The draft's name of an opcode, and what its subtypes mean.
_PUSHES: dict[int, tuple[str, Enumeration]] = {
    0x02: ("UPR Response", enums.DRAFT_RESPONSE_TYPES),
    0x03: ("UPR Stream Start", enums.DRAFT_START_TYPES),
    0x04: ("UPR Stream Message", enums.DRAFT_MESSAGE_TYPES),
    0x05: ("UPR Stream End", enums.DRAFT_END_REASONS),
}


def _push(
    opcode: int,
    name: str,
    subtypes: tuple[int, ...],
    doc: str,
    shape: Shape | None = None,
    *,
    seqno: str | None = None,
    errata: tuple[str, ...] = (),
) -> Message:
    constant, subtype_names = _PUSHES[opcode]
    return Message(
        Dialect.DRAFT,
        opcode,
        name,
        constant,
        Party.PRODUCER,
        Party.CONSUMER,
        doc,
        "draft",
        push=shape or Shape(),
        subtypes=subtypes,
        subtype_names=subtype_names,
        reply=Reply.NONE,
        seqno=seqno,
        errata=errata,
    )


MESSAGES: tuple[Message, ...] = (
    _request(
        "stream_request",
        1,
        "Asks for a vbucket's changes; the key is the group id, the stream's name. Its request id is that of every "
        "message of the stream.",
        Shape(layouts=_STREAM_REQUEST, key=_MUST),
    ),
    _request("get_failover_log", 2, "Asks for the branches of a vbucket's history.", Shape()),
    _push(0x02, "stream_ok", (1,), "The stream will start: a stream start follows.", errata=("E-18",)),
    _push(
        0x02,
        "stream_not_my_vbucket",
        (2,),
        "The producer does not have the vbucket. The failover log response has the same number (E-13).",
        errata=("E-13", "E-18"),
    ),
    _push(
        0x02,
        "stream_rollback",
        (3,),
        "The consumer has to go back to the seqno in the body.",
        Shape(layouts=(Layout("rollback", value=(fields.ROLLBACK_SEQNO,)),), value=_MAY),
        errata=("E-14", "E-15", "E-18"),
    ),
    _push(0x03, "stream_start", (0,), "The first message of a stream; also called stream begin.", errata=("E-17",)),
    _push(0x04, "snapshot_start", (1,), "Changes with unique keys follow."),
    _push(0x04, "snapshot_end", (2,), "The snapshot is complete."),
    _push(
        0x04,
        "mutation",
        (3,),
        "A document was created or changed.",
        Shape(layouts=_ITEM, key=_MUST, value=_MAY, key_role=KeyRole.DOCUMENT),
        seqno="by_seqno",
        errata=("E-12",),
    ),
    _push(
        0x04,
        "deletion",
        (4,),
        "A document was deleted.",
        Shape(layouts=_ITEM, key=_MUST, key_role=KeyRole.DOCUMENT),
        seqno="by_seqno",
        errata=("E-12",),
    ),
    _push(
        0x04,
        "expiration",
        (5,),
        "A document has expired.",
        Shape(layouts=_ITEM, key=_MUST, key_role=KeyRole.DOCUMENT),
        seqno="by_seqno",
        errata=("E-12",),
    ),
    _push(0x04, "flush", (6,), "The bucket was emptied.", errata=("E-17",)),
    _push(
        0x05,
        "stream_end",
        (1, 2),
        "The last message of a stream; the subtype says why it ended. Also called stream close.",
        errata=("E-09", "E-17"),
    ),
)

#: What 02/2 is when it has a body, or when the request that it answers was a failover log request (E-13).
FAILOVER_LOG = Message(
    Dialect.DRAFT,
    0x02,
    "failover_log",
    "UPR Response",
    Party.PRODUCER,
    Party.CONSUMER,
    "The branches of a vbucket's history: zero or more pairs.",
    "draft",
    push=Shape(value=_MAY, body=Body.FAILOVER_LOG),
    subtypes=(2,),
    subtype_names=enums.DRAFT_RESPONSE_TYPES,
    reply=Reply.NONE,
    errata=("E-13", "E-14", "E-17", "E-18"),
)


def _proto(opcode: int, name: str, doc: str, shape: Shape, *, seqno: str | None = None) -> Message:
    to_producer = opcode in (0x50, 0x51)
    return Message(
        Dialect.PROTO,
        opcode,
        name,
        f"UPR_{name.upper()}",
        Party.CONSUMER if to_producer else Party.PRODUCER,
        Party.PRODUCER if to_producer else Party.CONSUMER,
        doc,
        "upr-proto",
        request=shape,
        responses=((enums.SUCCESS, Shape(layouts=(), key=_MAY, value=_MAY)),),
        reply=Reply.ALWAYS if to_producer else Reply.NEVER,
        seqno=seqno,
    )


_UNDESCRIBED = Shape(layouts=(), key=_MAY, value=_MAY)

#: Recognised on request only. Where the source tree's history gives no size, nothing is checked.
PROTO_MESSAGES: tuple[Message, ...] = (
    _proto(0x50, "stream_request", "Asks for a vbucket's changes.", _UNDESCRIBED),
    _proto(0x51, "get_failover_log", "Asks for the branches of a vbucket's history.", _UNDESCRIBED),
    _proto(0x52, "stream_start", "The first message of a stream.", _UNDESCRIBED),
    _proto(0x53, "stream_end", "The last message of a stream.", _UNDESCRIBED),
    _proto(0x54, "snapshot_start", "Changes with unique keys follow.", _UNDESCRIBED),
    _proto(0x55, "snapshot_end", "The snapshot is complete.", _UNDESCRIBED),
    _proto(
        0x56,
        "mutation",
        "A document was created or changed.",
        Shape(
            layouts=(Layout("28 bytes", extras=fields.MUTATION_28),), key=_MUST, value=_MAY, key_role=KeyRole.DOCUMENT
        ),
        seqno="by_seqno",
    ),
    _proto(
        0x57,
        "deletion",
        "A document was deleted.",
        Shape(
            layouts=(Layout("16 bytes", extras=fields.DELETION_16),), key=_MUST, value=_MAY, key_role=KeyRole.DOCUMENT
        ),
        seqno="by_seqno",
    ),
    _proto(
        0x58,
        "expiration",
        "A document has expired.",
        Shape(
            layouts=(Layout("16 bytes", extras=fields.DELETION_16),), key=_MUST, value=_MAY, key_role=KeyRole.DOCUMENT
        ),
        seqno="by_seqno",
    ),
    _proto(0x59, "flush", "The bucket was emptied.", _UNDESCRIBED),
    _proto(0x5A, "set_vbucket_state", "The consumer's vbucket is to change its state.", _UNDESCRIBED),
)
