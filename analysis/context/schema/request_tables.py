"""Tables about requests and answers, and about how streams begin, are closed and end."""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.message_tables import DIALECT
from analysis.context.schema.model import Column, Reference, View, table, truth

_OPCODE = Column("opcode", "what was asked", View.EITHER, words.OPCODE)
_OPAQUE = Column("opaque", "the opaque of both", View.EITHER)
_UNKNOWN = Column("unknown", "why the row can't be decided", words=words.UNKNOWN)
_LATENCY = Column("latency_ns", "time from the request to the answer", words=words.DURATION_NS)
_REQUEST = Reference("request", "the request")

ANSWERS = table(
    "answers",
    "every answer, with the request that it belongs to",
    (
        _OPCODE,
        _OPAQUE,
        Column("status", "status of the answer", View.EITHER, words.STATUS),
        Column("pairing", "what the answer belongs to", words=words.PAIRING),
        *DIALECT,
        truth("data", "it answers a message of a stream, or something else that is owed no answer"),
        truth("to_stream", "a stream has its opaque"),
        truth(
            "closing_or_takeover",
            "the stream of its opaque is over, is being closed or is handed over; or no stream has this opaque",
        ),
        truth("dialect_shown", "the connection's dialect is known by a message that only one has"),
        truth("repeated", "a request with this opcode and opaque was answered before"),
        truth("not_open", "it answers what only a connection that was opened can ask for, and none was granted yet"),
        _LATENCY,
        _UNKNOWN,
    ),
    (_REQUEST,),
)
REQUESTS = table(
    "requests",
    "every request that is owed an answer, when it came or was overdue",
    (
        _OPCODE,
        _OPAQUE,
        truth("answered", "it was answered"),
        truth("patient", "its answer may take long: add stream and stream request"),
        truth("overtaken", "a request that came after it was answered"),
        Column("latency_ns", "time to the answer, or to the other side's last frame", words=words.DURATION_NS),
        Column("seconds", "the same in seconds", words=words.DURATION_S),
        _UNKNOWN,
    ),
    (Reference("answer", "the answer"),),
)
STREAM_STARTS = table(
    "stream_starts",
    "every stream request that was granted",
    (
        Column("opaque", "opaque of the request", View.EITHER),
        truth("draft", "the dialect is the draft of August 2013"),
        truth("live", "the vbucket (with stream ids: the id) had a live stream"),
        Column("previous_opaque", "opaque of the vbucket's stream before; -1: none", View.EITHER),
        truth("reused", "it is the same"),
        truth("shared", "a live stream of another vbucket has the opaque"),
        Column("other_vbucket", "the vbucket of that stream; -1: none", View.EITHER),
        truth("handed_over", "the stream, or the one that shares its opaque, is a takeover"),
        _UNKNOWN,
    ),
    (
        _REQUEST,
        Reference("previous", "the answer that began the vbucket's stream before"),
        Reference("sharer", "the request of the live stream that has the same opaque"),
    ),
)
STREAM_CLOSES = table(
    "stream_closes",
    "every stream that a producer agreed to close, when it is clear how that went on",
    (
        truth("announced", "a stream end after the close was agreed upon"),
        truth("ended", "a stream end came"),
        Column("reason", "its reason", View.EITHER, words.END_REASON),
        _UNKNOWN,
    ),
    (
        Reference("request", "the close stream"),
        Reference("answer", "its answer"),
        Reference("ending", "the stream end"),
    ),
)
ADD_STREAMS = table(
    "add_streams",
    "every add stream that succeeded",
    (
        Column("opaque", "opaque of the add stream", View.EITHER),
        Column("asked_flags", "flags of the add stream", View.EITHER, words.STREAM_FLAGS),
        truth("found", "the consumer had sent a stream request for the vbucket"),
        Column("sent_flags", "flags of that stream request", View.EITHER, words.STREAM_FLAGS),
        Column("stream_opaque", "its opaque; -1: there is none", View.EITHER),
        Column("reply_opaque", "the opaque that the answer names", View.EITHER),
        Column("reply_opaque_swapped", "the same, with its bytes in the other order", View.EITHER),
        truth("matches", "either of these is the stream request's"),
        truth("changed", "the byte order is another one than in the connection's answers before"),
        _UNKNOWN,
    ),
    (
        Reference("request", "the add stream"),
        Reference("stream_request", "the stream request that carries it out"),
        Reference("byte_order_change", "the answer whose opaque is not byte-reversed, while others' are"),
        Reference("other", "an answer in the other byte order"),
    ),
)
COMPLETED_STREAMS = table(
    "completed_streams",
    "every stream that delivered all that was asked for",
    (
        Column("end_seqno", "the end that the request asked for", View.EITHER),
        Column("seconds", "time for which the producer went on", words=words.DURATION_S),
        _UNKNOWN,
    ),
    (_REQUEST,),
)
TABLES = (ANSWERS, REQUESTS, STREAM_STARTS, STREAM_CLOSES, ADD_STREAMS, COMPLETED_STREAMS)
