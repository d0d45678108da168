"""SEQ: sequence numbers."""

from __future__ import annotations

from analysis.rules.model import LOST_SINCE_BEGIN, LOST_SINCE_PREVIOUS, Check, Excuse, Rule, Severity
from analysis.rules.terms import col

_FROM_LATEST = 0x20  #: stream flag: the server puts its own start in
_SEQNO_LIMIT = 1 << 48

RULES: tuple[Rule, ...] = (
    Rule(
        "SEQ-01",
        Severity.ERROR,
        "seqnos of a stream increase",
        "The by-seqnos of all items of a stream instance, seqno advanced included, are strictly increasing.",
        (
            Check(
                "items",
                col.by_seqno > col.previous_seqno,
                "seqno {by_seqno} comes after {previous_seqno} in the same stream",
                when=(col.previous_seqno >= 0) & ~col.inside_oso,
                unknown=(LOST_SINCE_PREVIOUS,),
                facts=("by_seqno", "previous_seqno"),
                evidence=("last",),
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("an out-of-order snapshot has no order", "oso"),
            Excuse("a new stream after a rollback starts over", "rollback"),
        ),
        source="PassiveStream::messageReceived refuses it with ERANGE",
        bugs=("MB-50543",),
    ),
    Rule(
        "SEQ-02",
        Severity.ERROR,
        "the first seqno of a stream is behind the requested start",
        "The first item of a stream instance has a greater seqno than the start that the request asked for.",
        (
            Check(
                "items",
                col.by_seqno > col.start,
                "the stream was asked for from {start} on, and its first item has seqno {by_seqno}",
                when=col.total.equals(0) & (col.start >= 0) & ~col.flags.has(_FROM_LATEST),
                unknown=(LOST_SINCE_BEGIN,),
                facts=("by_seqno", "start"),
                evidence=("request",),
            ),
        ),
        excuses=(Excuse("with the flag from-latest the server chooses the start"),),
        source="stream request: start seqno",
        bugs=("MB-59759",),
    ),
    Rule(
        "SEQ-07",
        Severity.ERROR,
        "seqnos are neither 0 nor absurd",
        "A by-seqno is greater than 0 and less than 2^48.",
        (
            Check(
                "items",
                (col.by_seqno > 0) & (col.by_seqno < _SEQNO_LIMIT),
                "seqno {by_seqno} is no seqno",
                facts=("by_seqno",),
            ),
        ),
        source="request validators of the servers",
    ),
)
