"""Tables about how a connection is set up: opens, what belongs before them, and what a consumer waits for."""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.message_tables import DOUBTFUL, SEARCHED
from analysis.context.schema.model import Column, Reference, View, table, truth

_OPAQUE = Column("opaque", "the opaque of the request", View.EITHER)
_UNKNOWN = Column("unknown", "why the row can't be decided", words=words.UNKNOWN)

OPENS = table(
    "opens",
    "every open, when it was answered or the frames end",
    (
        _OPAQUE,
        Column("status", "status of the answer; -1: none came", View.EITHER, words.STATUS),
        truth("again", "the connection was opened before"),
        truth("unprepared", "it was refused for want of a log-in or of a bucket"),
        _UNKNOWN,
    ),
    (Reference("first", "the open before"), Reference("answer", "the answer")),
)
SETUPS = table(
    "setups",
    "every HELLO, log-in and choice of a bucket",
    (
        _OPAQUE,
        Column("opcode", "what was asked", View.EITHER, words.OPCODE),
        truth("late", "its sender had sent an open before"),
    ),
    (Reference("open", "that open"),),
)
CONSUMER_REQUESTS = table(
    "consumer_requests",
    "every stream request of a consumer that was opened as one: a server's, not a client's",
    (
        _OPAQUE,
        Column("waiting", "controls of the consumer that have no answer yet"),
        Column("consumer_since", "the oldest release that asks for what the consumer has asked for", words=words.SINCE),
        _UNKNOWN,
    ),
    (Reference("control", "the first control without an answer"),),
)
_OPCODE = Column("opcode", "what the message is", View.EITHER, words.OPCODE)
_OPEN = Reference("open", "the open of the connection")
UNOPENED_REQUESTS = table(
    "unopened_requests",
    "every request before an open, on connections that were captured from their first byte on",
    (_OPCODE, Column("side", "the side that sent it"), SEARCHED, DOUBTFUL),
)
MISPLACED_REQUESTS = table(
    "misplaced_requests",
    "every request that its sender's role does not send; without an open, that only one role sends",
    (
        _OPCODE,
        truth("produces", "its sender is the producer"),
        truth("role_unknown", "which side produces is not known: the open was not captured"),
        SEARCHED,
    ),
    (_OPEN,),
)
UNAGREED_USES = table(
    "unagreed_uses",
    "every message that uses what was not agreed upon up to it",
    (
        _OPCODE,
        Column("use", "the first thing that it uses without agreement", words=words.FEATURE_USE),
        truth("maybe_agreed", "that may have been agreed upon without being captured"),
        truth("refused", "a control that would allow it was refused"),
        SEARCHED,
    ),
    (_OPEN, Reference("refusal", "the answer that refused it")),
)
TABLES = (OPENS, SETUPS, CONSUMER_REQUESTS, UNOPENED_REQUESTS, MISPLACED_REQUESTS, UNAGREED_USES)
