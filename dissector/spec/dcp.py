"""The dialect ``dcp``: what servers have spoken since 3.0. Here: connections, streams, flow control, takeover.

What a stream carries is in :mod:`dissector.spec.dcp_data` and :mod:`dissector.spec.dcp_sync`.
"""

from __future__ import annotations

from dissector.spec import dcp_data, dcp_sync, enums, fields, json_keys
from dissector.spec.model import (
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
    Release,
    Reply,
    Role,
    Shape,
    UInt,
)
from dissector.spec.refusals import ANOTHER_ROLE

_MUST, _MAY = Presence.MUST, Presence.MAY
_SUCCESS = enums.SUCCESS
_EMPTY = ((_SUCCESS, Shape(datatypes=(0,))),)

STREAM_REQUEST_48 = (
    Field("stream_flags", UInt.U32, "kind of the stream", enums.STREAM_FLAGS),
    fields.RESERVED,
    fields.START_SEQNO,
    fields.END_SEQNO,
    fields.VBUCKET_UUID,
    fields.SNAP_START_SEQNO,
    fields.SNAP_END_SEQNO,
)

#: E-01: the documents' examples put the seqno into the extras, servers into the value.
ROLLBACK_SHAPE = Shape(
    layouts=(
        Layout("rollback", value=(fields.ROLLBACK_SEQNO,)),
        Layout("rollback in extras", extras=(fields.ROLLBACK_SEQNO,), note="rollback-in-extras"),
    ),
    value=_MAY,
)
FAILOVER_LOG_SHAPE = Shape(value=_MUST, body=Body.FAILOVER_LOG)

_CONNECTION_MESSAGES: tuple[Message, ...] = (
    Message(
        Dialect.DCP,
        0x50,
        "open",
        "DCP_OPEN",
        Party.CLIENT,
        Party.SERVER,
        "Names the connection and gives the receiver its role; the flag producer is about the receiver, not the "
        "sender. The key is the connection's name, by the documents of at most 200 bytes, though 7.0 takes longer "
        "ones. A second connection of the same name makes the server drop the first one (4.5 refused the newcomer "
        "instead, MB-17042).",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "open",
                    extras=(
                        fields.RESERVED,
                        Field("open_flags", UInt.U32, "role and features", enums.OPEN_FLAGS),
                    ),
                ),
            ),
            key=_MUST,
            value=_MAY,
            body=Body.JSON,
            datatypes=(0, 1),
            json_keys=json_keys.OPEN,
        ),
        responses=_EMPTY,
        refusals=(
            Refusal(0x04, "malformed, flags that are unknown or exclude each other, or (7.0) a second open"),
            Refusal(0x24, "no log-in, or no privilege to stream"),
            Refusal(None, "the connection has been opened before (before 7.0), or something went wrong inside"),
        ),
        since=Release(3),
        errata=("E-34", "E-42"),
    ),
    Message(
        Dialect.DCP,
        0x51,
        "add_stream",
        "DCP_ADD_STREAM",
        Party.AGENT,
        Party.CONSUMER,
        "Tells a consumer to ask its producer for a vbucket. The answer waits until the stream request is settled, "
        "so it often comes behind the first changes. Its extras hold the stream's opaque in network order, "
        "byte-reversed against the opaque of the stream's own messages on a little-endian server. A refusal has "
        "them too, with the opaque 0, when the producer was asked, and none when it was not.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout(
                    "add stream",
                    extras=(
                        Field(
                            "stream_flags",
                            UInt.U32,
                            "kind of the stream: the consumer's stream request repeats it",
                            enums.STREAM_FLAGS,
                        ),
                    ),
                ),
            ),
            datatypes=(0,),
        ),
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
        reply_doc="once the producer has answered the stream request",
        refusals=(
            Refusal(0x02, "the consumer has a stream for the vbucket already"),
            Refusal(0x04, "malformed"),
            Refusal(0x07, "the vbucket is not there, or is active"),
            Refusal(None, ANOTHER_ROLE),
        ),
        since=Release(3),
        errata=("E-26", "E-27"),
    ),
    Message(
        Dialect.DCP,
        0x52,
        "close_stream",
        "DCP_CLOSE_STREAM",
        Party.AGENT,
        Party.PARTIES,
        "Ends a stream early. Agents send it to either side, and a consumer to its producer; with several streams of "
        "a vbucket the stream id in the framing extras says which. A stream end with reason closed follows only "
        "where the control send_stream_end_on_client_close_stream was accepted, else nothing more comes.",
        "kv_engine",
        request=Shape(datatypes=(0,)),
        responses=_EMPTY,
        refusals=(
            Refusal(0x01, "there is no such stream"),
            Refusal(0x04, "malformed"),
            Refusal(0x8D, "a stream id without enable_stream_id, or none with it"),
        ),
        since=Release(3),
        errata=("E-33",),
    ),
    Message(
        Dialect.DCP,
        0x53,
        "stream_request",
        "DCP_STREAM_REQ",
        Party.CONSUMER,
        Party.PRODUCER,
        "Asks for a vbucket's changes from a seqno on. Its opaque is the opaque of every message of the stream. "
        "Success brings the failover log, at least one entry and the newest first; rollback brings the seqno to go "
        "back to. The answer precedes the stream's messages, and comes even while the flow-control window is full. "
        "A value needs HELLO collections (7.0; a preview in 6.5).",
        "kv_engine",
        request=Shape(
            layouts=(Layout("stream request", extras=STREAM_REQUEST_48),),
            value=_MAY,
            body=Body.JSON,
            datatypes=(0, 1),
            json_keys=json_keys.STREAM_REQUEST,
        ),
        responses=((_SUCCESS, FAILOVER_LOG_SHAPE), (enums.ROLLBACK, ROLLBACK_SHAPE)),
        refusals=(
            Refusal(0x02, "the vbucket has a stream on this connection already"),
            Refusal(0x04, "malformed, or a value that is not what it should be"),
            Refusal(0x07, "the vbucket is not there, or not in a state that the flags allow"),
            Refusal(
                0x22,
                "start above end, start outside its own snapshot, or start above the high seqno where no rollback "
                "settles it",
            ),
            Refusal(0x23, "the consumer's history is not the producer's: go back to the seqno in the body"),
            Refusal(0x24, "no privilege for what is asked"),
            Refusal(0x82, "no memory left"),
            Refusal(0x83, "xattrs or a JSON value without no-ops enabled, or a filter together with sync writes"),
            Refusal(0x86, "the vbucket cannot be streamed now"),
            Refusal(0x88, "a collection of the filter does not exist"),
            Refusal(0x8C, "the scope of the filter does not exist"),
            Refusal(0x8D, "a stream id without enable_stream_id, or none with it"),
            Refusal(None, ANOTHER_ROLE),
        ),
        since=Release(3),
        errata=("E-01", "E-02", "E-03", "E-06", "E-28", "E-29", "E-38", "E-43"),
    ),
    Message(
        Dialect.DCP,
        0x54,
        "get_failover_log",
        "DCP_GET_FAILOVER_LOG",
        Party.CONSUMER,
        Party.PRODUCER,
        "Asks for the branches of a vbucket's history. At least one comes, the newest first, with seqnos that never "
        "rise.",
        "kv_engine",
        request=Shape(datatypes=(0,)),
        responses=((_SUCCESS, FAILOVER_LOG_SHAPE),),
        refusals=(
            Refusal(0x04, "malformed"),
            Refusal(0x07, "the vbucket is not there"),
            Refusal(0x82, "no memory left"),
            Refusal(None, ANOTHER_ROLE),
        ),
        since=Release(3),
        errata=("E-30",),
    ),
    Message(
        Dialect.DCP,
        0x5B,
        "set_vbucket_state",
        "DCP_SET_VBUCKET_STATE",
        Party.PRODUCER,
        Party.CONSUMER,
        "Takeover: the consumer's vbucket is to become pending, later active. The producer does not go on without "
        "the answer. Which number means pending depends on the sender's release.",
        "kv_engine",
        request=Shape(
            layouts=(
                Layout("state", extras=(Field("vbucket_state", UInt.U8, "the state to take", enums.VBUCKET_STATES),)),
            ),
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply_doc="the producer waits for it",
        flow=FlowSize(0, "the whole frame: 25 bytes"),
        refusals=(
            Refusal(0x01, "the consumer has no stream for the vbucket"),
            Refusal(0x04, "malformed, or no such state"),
            Refusal(None, "anything else that is wrong with it"),
        ),
        since=Release(3),
        errata=("E-10", "E-11"),
    ),
    Message(
        Dialect.DCP,
        0x5C,
        "noop",
        "DCP_NOOP",
        Party.PRODUCER,
        Party.CONSUMER,
        "Are you there? Sent whenever the interval has passed since the last one and no answer is pending, whatever "
        "else was sent. Server-made opaques count up from 1,000,001 (3.0) or 10,000,001, little-endian. Needs the "
        "control enable_noop; 3.x and 4.x send it only once there is a stream, 7.0 before that too.",
        "kv_engine",
        request=Shape(datatypes=(0,)),
        responses=_EMPTY,
        reply_doc="with the opaque of the request",
        since=Release(3),
        errata=("E-19", "E-38", "E-39"),
    ),
    Message(
        Dialect.DCP,
        0x5D,
        "buffer_ack",
        "DCP_BUFFER_ACK",
        Party.CONSUMER,
        Party.PRODUCER,
        "Gives back flow-control bytes. Servers ignore its opaque and vbucket; a count of 0 is legal (MB-59474). "
        "Server consumers send one when they have freed more than a fifth of the window, or after 5 seconds.",
        "kv_engine",
        request=Shape(
            layouts=(Layout("buffer ack", extras=(fields.BUFFER_BYTES,)),),
            datatypes=(0,),
        ),
        responses=_EMPTY,
        reply=Reply.NEVER,
        refusals=(
            Refusal(0x01, "by the documents only: there is no such buffer"),
            Refusal(0x04, "malformed; the answer carries a text"),
        ),
        since=Release(3),
        errata=("E-22", "E-23", "E-24", "E-38"),
    ),
    Message(
        Dialect.DCP,
        0x5E,
        "control",
        "DCP_CONTROL",
        Party.CONSUMER,
        Party.PRODUCER,
        "Sets a parameter of the connection: the key names it, the value is text. Servers 3.0 to 4.6 compare keys by "
        "their first letters only, and 7.0 still takes a truncated one.",
        "kv_engine",
        request=Shape(key=_MUST, value=_MUST, body=Body.TEXT, key_role=KeyRole.PARAMETER, datatypes=(0,)),
        responses=_EMPTY,
        refusals=(
            Refusal(0x04, "an unknown key, or a value that it does not take"),
            Refusal(0x83, "a feature that is switched off, excluded by another, or lacks its HELLO feature"),
            Refusal(None, ANOTHER_ROLE),
        ),
        since=Release(3),
        errata=("E-20", "E-21", "E-25", "E-38", "E-44"),
    ),
)

MESSAGES: tuple[Message, ...] = tuple(
    sorted((*_CONNECTION_MESSAGES, *dcp_data.MESSAGES, *dcp_sync.MESSAGES), key=lambda known: known.opcode)
)
