"""The dialect ``upr``: the specification of January to June 2014, and the servers built before 3.0.

The marker has no range and *follows* its items. The documents want no answer to what a stream carries, and one to a
buffer ack; the recorded builds of May 2014 answer the buffer ack, and every mutation, deletion, marker and stream end
too.
"""

from __future__ import annotations

from dissector.spec import dcp, enums, fields
from dissector.spec.model import (
    HEADER_ONLY,
    Body,
    Dialect,
    Field,
    FlowSize,
    KeyRole,
    Layout,
    Message,
    Party,
    Presence,
    Refusal,
    Reply,
    Role,
    Shape,
    UInt,
)
from dissector.spec.refusals import ANOTHER_ROLE

_MUST, _MAY = Presence.MUST, Presence.MAY
_SUCCESS = enums.SUCCESS
_EMPTY = ((_SUCCESS, Shape()),)
_WHOLE_FRAME = FlowSize(0, "the whole frame; what was held back until an ack is sent uncounted (May 2014)")
_FLAGS = Field("stream_flags", UInt.U32, "kind of the stream", enums.UPR_STREAM_FLAGS)
_SEQUENCE_NUMBER = Field("sequence_number", UInt.U32, "unused; reserved in the shipped protocol")
_ANSWERED = "by the documents never; consumers of May 2014 answer with success"

_STREAM_REQUEST_40 = (
    Field("stream_flags", UInt.U32, "kind of the stream", enums.STREAM_FLAGS),
    fields.RESERVED,
    fields.START_SEQNO,
    fields.END_SEQNO,
    fields.VBUCKET_UUID,
    fields.HIGH_SEQNO,
)

MESSAGES: tuple[Message, ...] = (
    Message(
        Dialect.UPR,
        0x50,
        "open",
        "UPR_OPEN",
        Party.AGENT,
        Party.PARTIES,
        "Names the connection, by its key, and gives the receiver its role: set flag, producer; clear, consumer.",
        "transport-spec",
        request=Shape(
            layouts=(
                Layout(
                    "open",
                    extras=(
                        _SEQUENCE_NUMBER,
                        Field("open_flags", UInt.U32, "role of the receiver", enums.UPR_OPEN_FLAGS),
                    ),
                ),
                Layout(
                    "4 bytes",
                    extras=(_SEQUENCE_NUMBER,),
                    doc="before 2013-10-30; its field is not recorded, only its size",
                ),
            ),
            key=_MUST,
        ),
        responses=_EMPTY,
        errata=("E-34",),
    ),
    Message(
        Dialect.UPR,
        0x51,
        "add_stream",
        "UPR_ADD_STREAM",
        Party.AGENT,
        Party.CONSUMER,
        "Tells a consumer to ask its producer for a vbucket; the answer brings the opaque of the stream.",
        "transport-spec",
        request=Shape(layouts=(Layout("add stream", extras=(_FLAGS,)),)),
        responses=(
            (
                _SUCCESS,
                Shape(
                    layouts=(
                        Layout(
                            "add stream response",
                            extras=(Field("stream_opaque", UInt.U32, "opaque of the stream", role=Role.OPAQUE),),
                        ),
                    )
                ),
            ),
        ),
        errata=("E-26", "E-27"),
    ),
    Message(
        Dialect.UPR,
        0x52,
        "close_stream",
        "UPR_CLOSE_STREAM",
        Party.AGENT,
        Party.PARTIES,
        "Ends a stream early. A consumer that closed tells its producer when the next message for the vbucket arrives, "
        "and a producer may still get answers for a stream that it closed. The documents describe no answer.",
        "transport-spec",
        request=Shape(),
        responses=_EMPTY,
        refusals=(Refusal(0x01, "there is no such stream; recorded, not documented"),),
        errata=("E-33",),
    ),
    Message(
        Dialect.UPR,
        0x53,
        "stream_request",
        "UPR_STREAM_REQ",
        Party.CONSUMER,
        Party.PRODUCER,
        "Asks for a vbucket's changes from a seqno on; uuid 0 and start 0 ask for everything. Its opaque is the "
        "opaque of every message of the stream. Success brings the failover log, rollback the seqno to go back to.",
        "transport-spec",
        request=Shape(
            layouts=(
                Layout("40 bytes", extras=_STREAM_REQUEST_40, doc="before 2014-04-28: ends in the high seqno"),
                Layout("48 bytes", extras=dcp.STREAM_REQUEST_48, doc="since 2014-04-28 (MB-10640)"),
            ),
        ),
        responses=((_SUCCESS, Shape(value=_MAY, body=Body.FAILOVER_LOG)), (enums.ROLLBACK, dcp.ROLLBACK_SHAPE)),
        refusals=(
            Refusal(0x01, "the uuid is unknown: go back to 0 (the specification of January 2014 only, E-28)"),
            Refusal(0x02, "the vbucket has a stream on this connection already"),
            Refusal(0x04, "malformed; a 3.x server says so to the 40-byte form"),
            Refusal(0x07, "the producer does not have the vbucket"),
            Refusal(0x22, "start and end contradict each other"),
            Refusal(0x23, "the consumer's history is not the producer's: go back to the seqno in the body"),
            Refusal(None, "the connection has no state on the server, or is a consumer's"),
        ),
        errata=("E-01", "E-02", "E-03", "E-04", "E-05", "E-06", "E-28", "E-29"),
    ),
    Message(
        Dialect.UPR,
        0x54,
        "get_failover_log",
        "UPR_GET_FAILOVER_LOG",
        Party.CONSUMER,
        Party.PRODUCER,
        "Asks for the branches of a vbucket's history: pairs of uuid and seqno.",
        "transport-spec",
        request=Shape(),
        responses=((_SUCCESS, dcp.FAILOVER_LOG_SHAPE),),
        refusals=(Refusal(0x07, "the producer does not have the vbucket"),),
        errata=("E-30",),
    ),
    Message(
        Dialect.UPR,
        0x55,
        "stream_end",
        "UPR_STREAM_END",
        Party.PRODUCER,
        Party.CONSUMER,
        "The last message of a stream.",
        "transport-spec",
        request=Shape(
            layouts=(
                Layout(
                    "stream end",
                    extras=(Field("end_reason", UInt.U32, "why the stream ended", enums.UPR_END_REASONS),),
                ),
            ),
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply=Reply.TOLERATED,
        reply_doc=_ANSWERED,
        flow=_WHOLE_FRAME,
        errata=("E-09",),
    ),
    Message(
        Dialect.UPR,
        0x56,
        "snapshot_marker",
        "UPR_SNAPSHOT_MARKER",
        Party.PRODUCER,
        Party.CONSUMER,
        "Closes a run of changes with unique keys. It has no range and comes behind the changes, until 2014-04-28.",
        "transport-spec",
        request=Shape(
            layouts=(HEADER_ONLY, Layout("with range", extras=fields.MARKER_RANGE, doc="since 2014-04-28 (MB-10640)")),
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply=Reply.TOLERATED,
        reply_doc=_ANSWERED,
        flow=_WHOLE_FRAME,
        errata=("E-08", "E-36"),
    ),
    Message(
        Dialect.UPR,
        0x57,
        "mutation",
        "UPR_MUTATION",
        Party.PRODUCER,
        Party.CONSUMER,
        "A document was created or changed.",
        "transport-spec",
        request=Shape(
            layouts=(
                Layout("30 bytes", extras=fields.MUTATION_30, doc="2013-12-11 to 2014-01-21"),
                Layout("31 bytes", extras=fields.MUTATION_31, doc="since 2014-01-21"),
                Layout("28 bytes", extras=fields.MUTATION_28, doc="before 2013-12-11"),
            ),
            key=_MUST,
            value=_MAY,
            body=Body.DOCUMENT,
            key_role=KeyRole.DOCUMENT,
        ),
        responses=_EMPTY,
        reply=Reply.TOLERATED,
        reply_doc=_ANSWERED,
        flow=_WHOLE_FRAME,
        seqno="by_seqno",
        errata=("E-07",),
    ),
    Message(
        Dialect.UPR,
        0x58,
        "deletion",
        "UPR_DELETION",
        Party.PRODUCER,
        Party.CONSUMER,
        "A document was deleted.",
        "transport-spec",
        request=Shape(
            layouts=(
                Layout("18 bytes", extras=fields.DELETION_18),
                Layout("16 bytes", extras=fields.DELETION_16, doc="before 2013-12-11"),
            ),
            key=_MUST,
            key_role=KeyRole.DOCUMENT,
            datatypes=enums.DELETION_DATATYPES,
        ),
        responses=_EMPTY,
        reply=Reply.TOLERATED,
        reply_doc=_ANSWERED,
        flow=_WHOLE_FRAME,
        seqno="by_seqno",
        errata=("E-31", "E-35"),
    ),
    Message(
        Dialect.UPR,
        0x59,
        "expiration",
        "UPR_EXPIRATION",
        Party.PRODUCER,
        Party.CONSUMER,
        "A document has expired.",
        "transport-spec",
        request=Shape(
            layouts=(
                Layout("18 bytes", extras=fields.DELETION_18),
                Layout("16 bytes", extras=fields.DELETION_16, doc="before 2013-12-11"),
            ),
            key=_MUST,
            key_role=KeyRole.DOCUMENT,
            datatypes=enums.DELETION_DATATYPES,
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        flow=_WHOLE_FRAME,
        seqno="by_seqno",
        errata=("E-31", "E-32"),
    ),
    Message(
        Dialect.UPR,
        0x5A,
        "flush",
        "UPR_FLUSH",
        Party.PRODUCER,
        Party.CONSUMER,
        "Empties the bucket. Never implemented in any server.",
        "transport-spec",
        request=Shape(),
        responses=_EMPTY,
        reply=Reply.NEVER,
    ),
    Message(
        Dialect.UPR,
        0x5B,
        "set_vbucket_state",
        "UPR_SET_VBUCKET_STATE",
        Party.PRODUCER,
        Party.CONSUMER,
        "The consumer's vbucket is to change its state. The documents say that it is not answered, and what the answer "
        "is.",
        "set-vbucket-state",
        request=Shape(
            layouts=(
                Layout(
                    "state",
                    extras=(Field("vbucket_state", UInt.U8, "the state to take", enums.UPR_VBUCKET_STATES),),
                ),
            ),
            datatypes=(0,),
        ),
        responses=_EMPTY,
        flow=_WHOLE_FRAME,
        refusals=(
            Refusal(0x01, "the connection has no stream for the vbucket"),
            Refusal(0x04, "malformed"),
            Refusal(None, ANOTHER_ROLE),
        ),
        errata=("E-10", "E-11"),
    ),
    Message(
        Dialect.UPR,
        0x5C,
        "noop",
        "UPR_NOOP",
        Party.PRODUCER,
        Party.CONSUMER,
        "Are you there? Added on 2014-03-12.",
        "flow-control",
        request=Shape(),
        responses=_EMPTY,
        errata=("E-19",),
    ),
    Message(
        Dialect.UPR,
        0x5D,
        "buffer_ack",
        "UPR_BUFFER_ACK",
        Party.CONSUMER,
        Party.PRODUCER,
        "Gives back flow-control bytes. The count is a value here; shipped servers want it in the extras. Added on "
        "2014-03-12.",
        "flow-control",
        request=Shape(
            layouts=(
                Layout("buffer ack", extras=(fields.BUFFER_BYTES,)),
                Layout("count as value", value=(fields.BUFFER_BYTES,), note="ack-count-in-value"),
            ),
            value=_MAY,
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply=Reply.TOLERATED,
        reply_doc="by the documents always, and producers of May 2014 do; 3.0 does not (E-23)",
        refusals=(
            Refusal(0x01, "there is no such buffer"),
            Refusal(0x04, "malformed, or a stream name that is unknown (E-24)"),
        ),
        errata=("E-22", "E-23", "E-24"),
    ),
    Message(
        Dialect.UPR,
        0x5E,
        "control",
        "UPR_CONTROL",
        Party.CONSUMER,
        Party.PRODUCER,
        "Sets a parameter of the connection: connection_buffer_size or stream_buffer_size. The key names it, the value "
        "is text. Added on 2014-03-12.",
        "flow-control",
        request=Shape(key=_MUST, value=_MUST, body=Body.TEXT, key_role=KeyRole.PARAMETER, datatypes=(0,)),
        responses=_EMPTY,
        refusals=(Refusal(0x04, "an unknown key, or a value that it does not take; recorded, not documented"),),
        errata=("E-20", "E-21", "E-25"),
    ),
)
