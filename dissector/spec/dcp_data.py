"""The dialect ``dcp``: what a stream carries: snapshots, changes, system events, its end."""

from __future__ import annotations

from dissector.spec import enums, events, fields
from dissector.spec.model import (
    Body,
    Dialect,
    Field,
    FlowSize,
    KeyRole,
    Kind,
    Layout,
    Message,
    Party,
    Presence,
    Refusal,
    Release,
    Reply,
    Shape,
)
from dissector.spec.refusals import DOCUMENT, STREAM_MESSAGE, UNKNOWN_TO_CONSUMER

_MUST, _MAY = Presence.MUST, Presence.MAY
_EMPTY = ((enums.SUCCESS, Shape(datatypes=(0,))),)
_MARKER_VERSION = Field("marker_version", Kind.U8, "form of the value")

MESSAGES: tuple[Message, ...] = (
    Message(
        Dialect.DCP,
        0x55,
        "stream_end",
        "DCP_STREAM_END",
        Party.PRODUCER,
        Party.CONSUMER,
        "The last message of a stream.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "stream end", extras=(Field("end_reason", Kind.U32, "why the stream ended", enums.END_REASONS),)
                ),
            ),
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 28 bytes; with a stream id, servers before MB-42506 left its 3 bytes out"),
        refusals=STREAM_MESSAGE,
        since=Release(3),
        errata=("E-09",),
    ),
    Message(
        Dialect.DCP,
        0x56,
        "snapshot_marker",
        "DCP_SNAPSHOT_MARKER",
        Party.PRODUCER,
        Party.CONSUMER,
        "Announces the seqno range that the following changes lie in. The first one of a stream starts where the "
        "stream request's snapshot did, each later one behind the end of the former. The form without extras is that "
        "of the early dialect, where the marker follows its items.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout("V1", extras=fields.MARKER_RANGE, since=Release(3)),
                Layout(
                    "V2.0",
                    extras=(_MARKER_VERSION,),
                    value=fields.MARKER_V2,
                    version=0,
                    since=Release(6, 5),
                    doc="connections with enable_sync_writes and consumer_name",
                ),
                Layout(
                    "V2.2",
                    extras=(_MARKER_VERSION,),
                    value=fields.MARKER_V2_2,
                    version=2,
                    since=Release(8),
                    doc="after the control max_marker_version 2.2",
                ),
                Layout(
                    "V2.1",
                    extras=(_MARKER_VERSION,),
                    value=fields.MARKER_V2_1,
                    version=1,
                    note="marker-version-withdrawn",
                    since=Release(7),
                    until=Release(7, 6),
                    doc="defined, never sent, removed in 8.0",
                ),
            ),
            value=_MAY,
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply=Reply.WHEN_ASKED,
        reply_doc="a marker with the flag acknowledge is answered when the snapshot's last change has been applied",
        flow=FlowSize(0, "the whole frame: V1 44 bytes, V2.0 61, V2.2 77"),
        refusals=STREAM_MESSAGE,
        since=Release(3),
        errata=("E-08", "E-36", "E-38"),
    ),
    Message(
        Dialect.DCP,
        0x57,
        "mutation",
        "DCP_MUTATION",
        Party.PRODUCER,
        Party.CONSUMER,
        "A document was created or changed. Its seqno is never 0.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout("mutation", extras=fields.MUTATION_31),
                Layout(
                    "collections prototype",
                    extras=fields.MUTATION_32,
                    since=Release(5),
                    until=Release(6),
                    doc="open flag 0x10",
                ),
            ),
            key=_MUST,
            value=_MAY,
            body=Body.DOCUMENT,
            key_role=KeyRole.DOCUMENT,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(
            0, "the whole frame: 55 bytes (56 in the collections prototype), key, value and extended metadata"
        ),
        seqno="by_seqno",
        refusals=DOCUMENT,
        since=Release(3),
        errata=("E-07",),
    ),
    Message(
        Dialect.DCP,
        0x58,
        "deletion",
        "DCP_DELETION",
        Party.PRODUCER,
        Party.CONSUMER,
        "A document was deleted, or has expired where the expiration message is not in use. The value can hold xattrs "
        "since 5.0.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout("V1", extras=fields.DELETION_18, since=Release(3)),
                Layout(
                    "V2",
                    extras=fields.DELETION_21,
                    since=Release(5, 5),
                    doc="every deletion once open flag 0x20 is set; a consumer with HELLO collections wants no other",
                ),
                Layout(
                    "collections prototype",
                    extras=fields.DELETION_19,
                    since=Release(5),
                    until=Release(6),
                    doc="open flag 0x10",
                ),
            ),
            key=_MUST,
            value=_MAY,
            body=Body.DOCUMENT,
            key_role=KeyRole.DOCUMENT,
            datatypes=enums.DELETION_DATATYPES,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: V1 42 bytes, V2 45, key, value and extended metadata"),
        seqno="by_seqno",
        refusals=DOCUMENT,
        since=Release(3),
        errata=("E-31", "E-35", "E-38", "E-41"),
    ),
    Message(
        Dialect.DCP,
        0x59,
        "expiration",
        "DCP_EXPIRATION",
        Party.PRODUCER,
        Party.CONSUMER,
        "A document has expired. Sent since 6.5, after the control enable_expiry_opcode and with open flag 0x20; "
        "without both, and before, expired documents come as deletions.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout("expiration", extras=fields.EXPIRATION_20, since=Release(6, 5)),
                Layout(
                    "as deletion V1",
                    extras=fields.DELETION_18,
                    since=Release(3),
                    until=Release(6),
                    doc="accepted by consumers, never sent by servers",
                ),
                Layout(
                    "collections prototype",
                    extras=fields.DELETION_19,
                    since=Release(5),
                    until=Release(6),
                    doc="open flag 0x10",
                ),
            ),
            key=_MUST,
            value=_MAY,
            body=Body.DOCUMENT,
            key_role=KeyRole.DOCUMENT,
            datatypes=enums.DELETION_DATATYPES,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 44 bytes, key and value"),
        seqno="by_seqno",
        refusals=DOCUMENT,
        since=Release(3),
        errata=("E-32", "E-38", "E-41"),
    ),
    Message(
        Dialect.DCP,
        0x5A,
        "flush",
        "DCP_FLUSH",
        Party.PRODUCER,
        Party.CONSUMER,
        "Empties the bucket. Never implemented: no producer sends it.",
        "kv_engine",
        request=Shape(datatypes=(0,)),
        responses=_EMPTY,
        reply=Reply.NEVER,
        refusals=(
            Refusal(0x83, "always: it was never implemented"),
            Refusal(None, "always, in 3.x and 4.1"),
        ),
        since=Release(3),
    ),
    Message(
        Dialect.DCP,
        0x5F,
        "system_event",
        "DCP_SYSTEM_EVENT",
        Party.PRODUCER,
        Party.CONSUMER,
        "A scope or collection was created, dropped or changed. The key is its name, where there is one, and never "
        "has a collection id in front. Of the events of one manifest change only the last carries the new uid. A "
        "prototype was in 5.0.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "system event",
                    extras=(
                        fields.BY_SEQNO,
                        Field("event", Kind.U32, "what happened", events.EVENT_NAMES),
                        Field("event_version", Kind.U8, "form of the value"),
                    ),
                ),
            ),
            key=_MAY,
            value=_MAY,
            body=Body.SYSTEM_EVENT,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 37 bytes, key and value"),
        seqno="by_seqno",
        refusals=STREAM_MESSAGE,
        since=Release(7),
        errata=("E-38",),
    ),
    Message(
        Dialect.DCP,
        0x64,
        "seqno_advanced",
        "DCP_SEQNO_ADVANCED",
        Party.PRODUCER,
        Party.CONSUMER,
        "The snapshot's last change was filtered out: go on as if this seqno, which is the snapshot's end, had "
        "arrived. It is the last message of its snapshot.",
        "kv_engine",
        request=Shape(layouts=(Layout("seqno advanced", extras=(fields.BY_SEQNO,)),), datatypes=(0,)),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 32 bytes"),
        seqno="by_seqno",
        refusals=(*STREAM_MESSAGE, UNKNOWN_TO_CONSUMER),
        since=Release(7),
        errata=("E-38",),
    ),
    Message(
        Dialect.DCP,
        0x65,
        "oso_snapshot",
        "DCP_OSO_SNAPSHOT",
        Party.PRODUCER,
        Party.CONSUMER,
        "Opens or closes a snapshot whose changes come in key order, not in seqno order. Used for streams of exactly "
        "one collection, after the control enable_out_of_order_snapshots; the first ordinary marker behind it "
        "overlaps what it brought.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "bracket", extras=(Field("oso_flags", Kind.U32, "which end of the snapshot", enums.OSO_MARKERS),)
                ),
            ),
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=FlowSize(0, "the whole frame: 28 bytes"),
        refusals=(*STREAM_MESSAGE, UNKNOWN_TO_CONSUMER),
        since=Release(7),
        errata=("E-38",),
    ),
)
