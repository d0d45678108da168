"""CON-01 to 04, 09: how a connection is opened, and which side sends what."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.connection_facts import release
from analysis.context.roles import SENDERS
from analysis.rules import message_words
from analysis.rules.conditions import UNDECIDED
from analysis.rules.expressions import NEVER, col
from analysis.rules.model import SEARCHED, Check, Excuse, Fault, Rule, Severity, Unknown
from dissector.frames.batch import PLAIN
from dissector.spec import enums, registry
from dissector.spec.model import Dialect

_WORDS = {"opcode": message_words.MESSAGES}
_STATUS_WORDS = {
    -1: "not answered at all",
    **{value: f"answered with {name}" for value, name in message_words.STATUSES.items()},
}
_SETUPS = {
    kinds.HELLO: "a HELLO",
    **dict.fromkeys(kinds.BEFORE_OPEN, "a log-in"),
    registry.named(Dialect.MEMCACHED, "select_bucket").opcode: "the choice of a bucket",
}
#: By opcode, the message and who sends it.
_SENT_BY = {
    opcode: f"{name}, which only the {'producer' if SENDERS[PLAIN, 0, opcode] else 'consumer'} sends"
    for opcode, name in message_words.MESSAGES.items()
} | {kinds.ADD_STREAM: "an add stream, which is for consumers that were opened as such"}
#: From when on consumers wait for the answers to their controls.
_WAITS_SINCE = release(7)

RULES: tuple[Rule, ...] = (
    Rule(
        "CON-01",
        Severity.ERROR,
        "a connection begins with an open",
        "The first message of UPR on a connection is an open, and nothing else is granted before the open is.",
        (
            Check(
                "unopened_requests",
                NEVER,
                "{opcode} on a connection that was not opened; the first message must be an open",
                unknown=(SEARCHED, Unknown("gap", col.doubtful)),
                facts=("opcode",),
                root="side",
                name="unopened",
                words=_WORDS,
            ),
            Check(
                "answers",
                NEVER,
                "{opcode} was granted, and no open was before; it must be refused",
                when=col.not_open.true() & col.status.equals(enums.SUCCESS),
                unknown=UNDECIDED,
                facts=("opcode", "opaque"),
                evidence=("request",),
                root="not_open",
                name="granted",
                words=_WORDS,
                next_step="look at what the answer to the open before frame {frame} says, if there is one: a server "
                "that goes on without an open does not know for whom, and its other checks may be open too",
            ),
        ),
        excuses=(
            Excuse("clients may send controls before the open is answered", "pipelined-open"),
            Excuse("an open that was refused may be tried again", "open-retried"),
        ),
        source="open connection: must be the first command",
        limits="connections whose first packets were not captured",
        next_step="find out which program sent frame {frame}: servers before 5.0 disconnect it for that, later ones "
        "answer invalid_arguments (0x04)",
    ),
    Rule(
        "CON-02",
        Severity.ERROR,
        "a connection is opened once",
        "After an open that was granted no other one is sent on the connection.",
        (
            Check(
                "opens",
                ~col.again.true(),
                "a second open on the connection, {status}; a connection is opened once",
                unknown=UNDECIDED,
                facts=("status", "opaque"),
                evidence=("first", "answer"),
                words={"status": _STATUS_WORDS},
            ),
        ),
        excuses=(Excuse("an open that was refused may be tried again", "open-retried"),),
        source="DcpConnMap: one producer or consumer per connection",
        bugs=("MB-17042",),
        next_step="look at how frame {frame} was answered: servers before 5.0 disconnect, later ones answer "
        "invalid_arguments (0x04); one that grants it has two producers or consumers for one connection",
    ),
    Rule(
        "CON-03",
        Severity.ERROR,
        "each side sends what its role has",
        "The producer sends data, markers, ends, states and no-ops; the consumer sends stream requests, failover log "
        "requests, buffer acks, controls and seqnos acknowledged. An add stream goes to a consumer. The open's flag "
        "says which side is which, not the ports.",
        (
            Check(
                "misplaced_requests",
                NEVER,
                "{opcode}; the open has made its sender {produces}",
                unknown=(
                    Unknown("start", col.role_unknown),
                    SEARCHED,
                ),
                facts=("opcode",),
                spoken=("produces",),
                evidence=("open",),
                root="opcode",
                words={"opcode": _SENT_BY, "produces": {0: "the consumer", 1: "the producer"}},
            ),
        ),
        excuses=(
            Excuse("on a relay's leg to a consumer the side that opens sends the data", "consumer-leg"),
            Excuse("either side may close a stream", "relay-close-in-flight"),
        ),
        source="each command's page: sent by the producer, or by the consumer",
        limits="connections whose open was not captured",
        next_step="look at the open of the connection, flag 0x01: its sender has mixed up who produces, or has sent "
        "frame {frame} on the wrong one of its connections",
    ),
    Rule(
        "CON-04",
        Severity.WARNING,
        "HELLO, log-in and bucket come before the open",
        "What a client says HELLO for, who it is and which bucket it wants is settled before it sends the open.",
        (
            Check(
                "setups",
                ~col.late.true(),
                "{opcode} comes behind the open; it must come before",
                facts=("opcode", "opaque"),
                evidence=("open",),
                name="late",
                words={"opcode": _SETUPS},
            ),
            Check(
                "opens",
                ~col.unprepared.true(),
                "the open was {status}: its sender had not logged in, had failed to, or had no bucket; that must come "
                "before",
                unknown=(),
                facts=("status", "opaque"),
                evidence=("answer",),
                name="unprepared",
                words={"status": _STATUS_WORDS},
                next_step="`uprscope dissect {capture} --follow {connection} --limit 20` shows how the log-in before "
                "frame {frame} went, if there was one",
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("servers before 5.0 need no HELLO", "basic"),),
        source="open connection; collections: HELLO comes first",
        next_step="move what frame {frame} asks for before the open: a HELLO behind it grants features that the "
        "producer, made by the open, does not know of",
    ),
    Rule(
        "CON-09",
        Severity.INFO,
        "a consumer waits for its controls",
        "The consumer of a server requests no stream before all its controls are answered.",
        (
            Check(
                "consumer_requests",
                col.waiting.equals(0),
                "a stream request for vbucket {vbucket} while controls have no answer, {waiting} in all; the consumer "
                "must wait for them",
                when=col.consumer_since >= _WAITS_SINCE,
                unknown=UNDECIDED,
                facts=("vbucket", "waiting", "opaque"),
                evidence=("control",),
                fault=Fault.CONSUMER,
            ),
        ),
        dialects=("dcp",),
        since="7.0",
        excuses=(
            Excuse("controls may be sent all at once", "server-consumer"),
            Excuse("clients need not wait", "pipelined-open"),
        ),
        source="DcpConsumer::step",
        bugs=("MB-69524",),
        limits="the consumer's release shows only in the controls that it asks for",
        next_step="look at whether the controls that had no answer at frame {frame} were granted: the stream was "
        "begun without knowing it",
    ),
)
