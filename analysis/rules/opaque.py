"""OPQ-01, 02, 03, 05, 11: requests and answers, and the opaques that pair them."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.codes import Pairing
from analysis.rules.conditions import UNDECIDED
from analysis.rules.defect_checks import OPCODES
from analysis.rules.expressions import NEVER, col
from analysis.rules.model import Check, Excuse, Rule, Severity
from dissector.spec import enums

_WORDS = {"opcode": OPCODES}
#: Messages that get no answer, except a refusal.
_SILENT = (
    *(kinds.MUTATION, kinds.DELETION, kinds.EXPIRATION, kinds.SYSTEM_EVENT, kinds.BUFFER_ACK),
    *(kinds.PREPARE, kinds.SEQNO_ACKNOWLEDGED, kinds.COMMIT, kinds.ABORT, kinds.SEQNO_ADVANCED),
    *(kinds.OSO_SNAPSHOT, kinds.CACHE_TRANSFER, kinds.CACHE_TRANSFER_END),
)
_REFUSALS = tuple(
    enums.STATUSES.number(name)
    for name in (
        *("key_not_found", "key_exists", "invalid_arguments"),
        *("dcp_stream_not_found", "opaque_no_match", "out_of_range"),
    )
)
_PATIENCE_NS = 60 * 10**9

RULES: tuple[Rule, ...] = (
    Rule(
        "OPQ-01",
        Severity.ERROR,
        "every answer belongs to a request of its own",
        "An answer has the opcode and opaque of an earlier request of the other side (in the draft opaque and vbucket) "
        "that was not answered yet.",
        (
            Check(
                "answers",
                col.pairing.one_of((Pairing.ANSWERED, Pairing.TO_DATA)),
                "a response to {opcode} with opaque {opaque:#010x}, which no request of the other side had",
                when=col.pairing.differs(Pairing.REPEATED),
                unknown=UNDECIDED,
                facts=("opcode", "opaque", "status"),
                name="unasked",
                words=_WORDS,
            ),
            Check(
                "answers",
                NEVER,
                "a second response to {opcode} with opaque {opaque:#010x}, for one request",
                when=col.pairing.equals(Pairing.REPEATED),
                unknown=UNDECIDED,
                facts=("opcode", "opaque", "status"),
                evidence=("request",),
                name="repeated",
                words=_WORDS,
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("answers to markers and states have the stream's opaque", "takeover"),
            Excuse("several refusals of items go with one stream's opaque", "error-replies"),
            Excuse("a relay's two legs are connections of their own", "relay"),
        ),
        source="stream request: the opaque is copied to the response",
        bugs=("MB-22241",),
        limits="answers to data and markers: which message they belong to is not on the wire",
    ),
    Rule(
        "OPQ-02",
        Severity.ERROR,
        "every question is answered",
        "Open, add stream, close stream, stream request, failover log, vbucket state, no-op, control, and a marker "
        "that asks for it, get an answer within 60 seconds; add stream and stream request may take longer.",
        (
            Check(
                "requests",
                col.answered.true() & (col.patient.true() | (col.latency_ns <= _PATIENCE_NS)),
                "{opcode} with opaque {opaque:#010x} was not answered within {seconds} seconds, though the other "
                "side went on",
                when=col.answered.true() | ~col.patient.true(),
                unknown=UNDECIDED,
                facts=("opcode", "opaque", "seconds", "answered"),
                evidence=("answer",),
                words=_WORDS,
            ),
        ),
        excuses=(
            Excuse("the connection was closed meanwhile", "closed-meanwhile"),
            Excuse("add stream waits for a rollback", "relay-rollback"),
            Excuse("a stream request waits for memory", "slow-answers"),
        ),
        source="messages that have a response",
        bugs=("MB-29541", "MB-31481"),
        limits="add streams and stream requests that are never answered, and what the end of the capture cuts off",
    ),
    Rule(
        "OPQ-03",
        Severity.WARNING,
        "what needs no answer gets none",
        "Mutations and all other data, and buffer acks, are not answered with success.",
        (
            Check(
                "answers",
                col.status.differs(enums.SUCCESS),
                "a response to {opcode} with success and opaque {opaque:#010x}; such messages are not answered",
                when=col.data.true() & col.opcode.one_of(_SILENT) & ~col.is_upr.true(),
                unknown=UNDECIDED,
                facts=("opcode", "opaque"),
                root="opcode",
                words=_WORDS,
            ),
        ),
        excuses=(
            Excuse("an answer to a stream end is tolerated", "answered-end"),
            Excuse("builds of May 2014 answer everything", "early-upr"),
        ),
        source="documents: the receiver should not send a reply",
    ),
    Rule(
        "OPQ-05",
        Severity.ERROR,
        "an add stream leads to a stream request, and names it",
        "For an add stream that succeeds the consumer has sent a stream request for the vbucket with at least the same "
        "flags, and the answer names that request's opaque: as it is or byte-reversed, the same on all the connection.",
        (
            Check(
                "add_streams",
                col.found.true(),
                "an add stream answered with success, and no stream request for vbucket {vbucket} before it",
                unknown=UNDECIDED,
                facts=("vbucket", "reply_opaque"),
                exported_as={"reply_opaque": "told"},
                evidence=("request",),
                name="no request",
            ),
            Check(
                "add_streams",
                col.matches.true(),
                "the answer names opaque {reply_opaque:#010x}, the stream request has {stream_opaque:#010x}",
                when=col.found.true(),
                unknown=UNDECIDED,
                facts=("reply_opaque", "stream_opaque"),
                exported_as={"reply_opaque": "told"},
                evidence=("request", "stream_request"),
                name="opaque",
            ),
            Check(
                "add_streams",
                ~col.changed.true(),
                "the answer names the stream's opaque in the other byte order than those around it",
                when=col.found.true(),
                unknown=UNDECIDED,
                facts=("stream_opaque",),
                evidence=("other",),
                guilty="byte_order_change",
                name="byte order",
            ),
            Check(
                "add_streams",
                (col.asked_flags - (col.asked_flags & col.sent_flags)).equals(0),
                "the add stream has flags {asked_flags:#x}, its stream request {sent_flags:#x}",
                when=col.found.true(),
                unknown=UNDECIDED,
                facts=("asked_flags", "sent_flags"),
                evidence=("request",),
                guilty="stream_request",
                name="flags",
            ),
        ),
        excuses=(
            Excuse("a failed add stream names nothing", "relay-refused"),
            Excuse("after a rollback there are several stream requests", "relay-rollback"),
            Excuse("the answer may come behind the first items", "consumer-leg"),
        ),
        source="add stream: the response has the stream's opaque",
        limits="that the opaque is no other live stream's: real servers share them (see OPQ-08)",
    ),
    Rule(
        "OPQ-11",
        Severity.WARNING,
        "nothing that was sent is refused",
        "Neither side refuses a message of a stream, unless the stream is being closed or handed over.",
        (
            Check(
                "answers",
                ~col.status.one_of(_REFUSALS),
                "{opcode} of vbucket {vbucket} was refused with status {status:#04x}",
                when=col.data.true() & ~col.is_upr.true() & ~col.closing_or_takeover.true(),
                unknown=UNDECIDED,
                facts=("opcode", "status", "vbucket", "opaque"),
                root="status",
                words=_WORDS,
            ),
        ),
        excuses=(
            Excuse("the refused items were in flight when the stream was closed", "relay-close-in-flight"),
            Excuse("the same, where the consumer closed it", "error-replies"),
            Excuse("builds of May 2014 answer everything", "early-upr"),
        ),
        source="consumers refuse what belongs to no stream or to no snapshot",
        bugs=("MB-36971", "MB-40934"),
        limits="which of several messages with that opaque was refused, and refusals of opaques that no stream has",
    ),
)
