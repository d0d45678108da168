"""OPQ-01, 02, 03, 05, 11: requests and answers, and the opaques that pair them."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.codes import Pairing
from analysis.rules import message_words
from analysis.rules.conditions import UNDECIDED
from analysis.rules.expressions import NEVER, col
from analysis.rules.model import Check, Excuse, Fault, Rule, Severity, Unknown
from dissector.spec import enums

_WORDS = {"opcode": message_words.MESSAGES}
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
                "a response to {opcode} with opaque {opaque:#010x}, which no request of the other side had; an answer "
                "has opcode and opaque of its request",
                when=col.pairing.differs(Pairing.REPEATED),
                unknown=UNDECIDED,
                facts=("opcode", "opaque", "status"),
                name="unasked",
                words=_WORDS,
            ),
            Check(
                "answers",
                NEVER,
                "a second response to {opcode} with opaque {opaque:#010x}; a request has one answer",
                when=col.pairing.equals(Pairing.REPEATED),
                unknown=UNDECIDED,
                facts=("opcode", "opaque", "status"),
                evidence=("request",),
                name="repeated",
                words=_WORDS,
                next_step="look at what the other side did after frame {frame}: if it uses opaques again, it has taken "
                "the second answer for that to a later request",
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
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'opaque == {opaque:#010x}'` shows who "
        "else has this opaque: if nobody, look for a request with its bytes reversed, or for one on another connection "
        "of the sender",
    ),
    Rule(
        "OPQ-02",
        Severity.ERROR,
        "every question is answered",
        "Open, add stream, close stream, stream request, failover log, vbucket state, no-op, control, and a marker "
        "that asks for it, get an answer within 60 seconds; add stream and stream request may take longer, but a "
        "stream request is not passed over: a server answers what it is asked in turn.",
        (
            Check(
                "requests",
                col.answered.true() & (col.patient.true() | (col.latency_ns <= _PATIENCE_NS)),
                "{opcode} with opaque {opaque:#010x} waited {seconds} seconds for its answer ({answered}); it is due "
                "within 60 seconds, and stream requests are answered in turn",
                when=col.answered.true() | ~col.patient.true() | col.overtaken.true(),
                unknown=UNDECIDED,
                facts=("opcode", "opaque", "seconds", "answered"),
                evidence=("answer",),
                words={**_WORDS, "answered": {0: "none came, though the other side went on", 1: "it came late"}},
                fault=Fault.RECEIVER,
            ),
        ),
        excuses=(
            Excuse("the connection was closed meanwhile", "closed-meanwhile"),
            Excuse("add stream waits for a rollback", "relay-rollback"),
            Excuse("a stream request waits for memory", "slow-answers"),
        ),
        source="messages that have a response",
        bugs=("MB-29541", "MB-31481"),
        limits="add streams that are never answered, stream requests after which nothing else is answered, and what "
        "the end of the capture cuts off",
        next_step="`uprscope plot {capture} latency --connection {connection} -o latency.png` shows whether this "
        "request alone had to wait or all of that time: then the node was busy, and its memcached.log has slow "
        "operations",
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
                "a response to {opcode} with success and opaque {opaque:#010x}; such a message is answered only to "
                "refuse it",
                when=col.data.true() & col.opcode.one_of(_SILENT) & ~col.is_upr.true(),
                unknown=(Unknown("dialect", ~col.dialect_shown.true()),),
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
        next_step="find out which program sent frame {frame}, and its version: it answers data as if it were "
        "requests, a header for each message, and the other side has to throw these away",
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
                "an add stream for vbucket {vbucket} is answered with success, and no stream request came before; the "
                "consumer must have sent one",
                unknown=UNDECIDED,
                facts=("vbucket", "reply_opaque"),
                exported_as={"reply_opaque": "told"},
                evidence=("request",),
                name="no request",
            ),
            Check(
                "add_streams",
                col.matches.true(),
                "the answer to the add stream names opaque {reply_opaque:#010x}; it must name that of the stream "
                "request, {stream_opaque:#010x}",
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
                "the answer names the stream's opaque {stream_opaque:#010x} in the other byte order than the answers "
                "around it; all of a connection must have the same",
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
                "the stream request has flags {sent_flags}, the add stream behind it {asked_flags}; the request must "
                "have all of these",
                when=col.found.true() & (col.asked_flags >= 0) & (col.sent_flags >= 0),
                unknown=UNDECIDED,
                facts=("asked_flags", "sent_flags"),
                evidence=("request",),
                guilty="stream_request",
                name="flags",
                words={"asked_flags": message_words.STREAM_FLAGS, "sent_flags": message_words.STREAM_FLAGS},
                next_step="compare with what was asked for: a stream that lacks takeover never hands the vbucket over, "
                "and one that lacks active_vbucket_only may come from a replica",
            ),
        ),
        excuses=(
            Excuse("a failed add stream names nothing", "relay-refused"),
            Excuse("after a rollback there are several stream requests", "relay-rollback"),
            Excuse("the answer may come behind the first items", "consumer-leg"),
        ),
        source="add stream: the response has the stream's opaque",
        limits="that the opaque is no other live stream's: real servers share them (see OPQ-08)",
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == add_stream or name == "
        "stream_request'` shows which requests the consumer makes of add streams, and with which opaques: who added "
        "the stream knows it by the one that it was told",
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
                "{opcode} of vbucket {vbucket} was refused with {status}; nothing that a live stream brings may give "
                "cause for that",
                when=col.data.true() & ~col.is_upr.true() & ~col.closing_or_takeover.true(),
                unknown=UNDECIDED,
                facts=("opcode", "status", "vbucket", "opaque"),
                root="status",
                words={**_WORDS, "status": message_words.STATUSES},
                # What is refused is wrong more often than the refusal.
                fault=Fault.RECEIVER,
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
        next_step="look for another finding about the message with opaque {opaque:#010x} before frame {frame}: SEQ-01, "
        "SNP-02, OPQ-04 and FRM are what consumers refuse; if there is none, the refusal itself is wrong, and the "
        "memcached.log of the one that sent it says why it was made",
    ),
)
