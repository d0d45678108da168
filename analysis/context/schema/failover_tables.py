"""Tables about failover logs: what servers sent of them, what clients asked for, and what the answers should be."""

from __future__ import annotations

from analysis.context.schema import vocabularies as words
from analysis.context.schema.message_tables import DIALECT, FACTS
from analysis.context.schema.model import Column, Reference, View, table, truth

_EITHER = View.EITHER
_UNKNOWN = Column("unknown", "why the row can't be decided", words=words.UNKNOWN)
_REQUEST = Reference("request", "the stream request")
_ASKED = (
    Column("start", "start seqno of the request", _EITHER),
    Column("end", "end seqno of the request", _EITHER, words.END_SEQNO),
    Column("ask_snap_start", "snapshot start of the request", _EITHER),
    Column("ask_snap_end", "snapshot end of the request", _EITHER),
    Column("flags", "flags of the request", _EITHER, words.STREAM_FLAGS),
    Column("vbucket_uuid", "uuid of the branch that the client is on; 0: none", _EITHER),
)

FAILOVER_LOGS = table(
    "failover_logs",
    "every successful answer to a stream request or to a get failover log",
    (
        Column("opcode", "what was asked", _EITHER, words.OPCODE),
        Column("value_length", "bytes of the log", _EITHER),
        truth("readable", "all of it was captured, and its length makes up whole entries"),
        Column("entries", "entries of the log", _EITHER),
        Column("disordered_entry", "the first entry with a higher seqno than the one before it, from 1; 0: none"),
        Column("entry_seqno", "the seqno of that entry", _EITHER),
        Column("newer_seqno", "the seqno of the entry before it", _EITHER),
        Column("repeated_entry", "the first entry whose uuid an entry before it has, from 1; 0: none"),
        Column("first_entry", "that entry before it, from 1"),
        Column("zero_entry", "the first entry whose uuid is 0, from 1; 0: none"),
        *DIALECT,
    ),
)
STREAM_REQUESTS = table(
    "stream_requests",
    "every stream request",
    (
        *_ASKED,
        truth("whole", "all that it asks for was captured"),
        truth("told_back", "its sender had received a rollback for the stream, and had not asked again since"),
        Column("told_seqno", "the seqno of that rollback", _EITHER),
        *FACTS,
        *DIALECT,
        _UNKNOWN,
    ),
    (Reference("rollback", "the answer with that rollback"),),
)
STREAM_ANSWERS = table(
    "stream_answers",
    "every answer to a stream request, with what it asked for",
    (
        *_ASKED,
        truth("whole", "all that it asks for was captured"),
        Column("status", "status of the answer", _EITHER, words.STATUS),
        Column("rollback_seqno", "where a rollback goes; -1: it is none, or was cut off", _EITHER),
        Column("least_high", "the vbucket's high seqno was this or more", View.PRODUCER),
        truth("log_known", "it grants the request, and its failover log is in order"),
        truth("in_log", "the request's uuid is in that log"),
        Column("branch_end", "where that branch ends: seqno of the next newer entry; -1: it is the newest", _EITHER),
        Column("rollback_due", "by that log, the seqno of a rollback that the request needed; -1: none", _EITHER),
        Column("in_a_row", "rollbacks in a row for the stream, of which no request has a smaller start"),
        truth("counted", "none of these can have been lost"),
        *FACTS,
        *DIALECT,
        _UNKNOWN,
    ),
    (_REQUEST,),
)
ROLLBACKS = table(
    "rollbacks",
    "every rollback, when the next failover log of the vbucket shows by which log it was made",
    (
        *_ASKED,
        Column("rollback_seqno", "where the rollback goes", _EITHER),
        truth("log_known", "the logs before and after it are the same, and in order"),
        Column("verdict", "what that log asks for", words=words.ROLLBACK_VERDICT),
        Column("rollback_due", "the seqno that it must go to; -1: none, or there is more than one", _EITHER),
        Column("branch_end", "where the branch of the request's uuid ends; -1: it is the newest", _EITHER),
        Column("least_high", "the vbucket's high seqno was this or more", View.PRODUCER),
        truth("fits", "the rollback goes to a seqno that the log asks for"),
        *FACTS,
        *DIALECT,
        _UNKNOWN,
    ),
    (
        _REQUEST,
        Reference("log_before", "the answer with the log before"),
        Reference("log_after", "the answer with the log after"),
    ),
)
FULL_ROLLBACKS = table(
    "full_rollbacks",
    "every rollback to 0 of a client whose branch the log in force has; rows stand for connections, not for vbuckets",
    (
        Column("rolled_back_vbucket", "the vbucket", _EITHER),
        Column("start", "start seqno of the request", _EITHER),
        truth("enough", "the log alone asks for 0"),
        *DIALECT,
    ),
    (
        _REQUEST,
        Reference("log_before", "the answer with the log before"),
        Reference("log_after", "the answer with the log after"),
    ),
)
TABLES = (FAILOVER_LOGS, STREAM_REQUESTS, STREAM_ANSWERS, ROLLBACKS, FULL_ROLLBACKS)
