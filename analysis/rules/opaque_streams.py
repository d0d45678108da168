"""OPQ-04, 06 to 10, 12: which stream a message belongs to, and how streams begin and end."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.codes import UnknownReason
from analysis.context.requests.state import bit
from analysis.rules import message_words
from analysis.rules.conditions import UNDECIDED, unsure
from analysis.rules.expressions import ALWAYS, NEVER, col
from analysis.rules.model import Check, Excuse, Fault, Rule, Severity, Unknown
from dissector.spec import enums

_END_ON_CLOSE = bit("send_stream_end_on_client_close_stream")
_CLOSED = enums.END_REASONS.number("closed")
_WORDS = {"opcode": message_words.MESSAGES}
_OWN = (kinds.DATA, kinds.MARKER, kinds.END, kinds.STATE, kinds.OSO, kinds.CACHE)

RULES: tuple[Rule, ...] = (
    Rule(
        "OPQ-04",
        Severity.ERROR,
        "messages of a stream have its opaque and its vbucket",
        "Every message of a stream has the opaque of the request that began it, and the vbucket of that request.",
        (
            Check(
                "stream",
                col.opaque.equals(col.instance_opaque),
                "{opcode} with opaque {opaque:#010x} for vbucket {vbucket}; its stream has {instance_opaque:#010x}, "
                "which all its messages must have",
                # Where the request was not captured, the first two messages that agree tell the stream's opaque.
                when=(col.instance_opaque >= 0) & col.kind.one_of(_OWN) & ~col.draft,
                unknown=(Unknown("gap", col.has_defect),),
                facts=("opaque", "instance_opaque", "vbucket"),
                spoken=("opcode",),
                evidence=("request", "answer"),
                root="opaque",
                name="opaque",
                words=_WORDS,
            ),
            # The answers that begin streams come the same way as their data: without a loss, none was overlooked.
            Check(
                "stream",
                NEVER,
                "{opcode} with opaque {opaque:#010x} for vbucket {vbucket}, which has no stream here; one must have "
                "been requested and granted",
                when=~col.granted.true() & (col.instance_opaque < 0) & col.kind.one_of(_OWN) & ~col.draft,
                unknown=(
                    Unknown("start", col.presumed.equals(UnknownReason.START)),
                    Unknown("gap", (col.presumed > 0) | col.has_defect),
                ),
                facts=("opaque", "vbucket"),
                spoken=("opcode",),
                root="opaque",
                name="no stream",
                words=_WORDS,
            ),
        ),
        excuses=(Excuse("items of the old stream come until the new request is granted", "reopened-in-flight"),),
        source="DcpConsumer::lookupStreamAndDispatchMessage",
        bugs=("MB-36971", "MB-34951"),
        next_step="`uprscope connections {capture} --streams` lists the streams with their opaques: look for one with "
        "{opaque:#010x} that was over before frame {frame}, whose messages come late, or for another vbucket's",
    ),
    Rule(
        "OPQ-06",
        Severity.ERROR,
        "nothing follows a stream end",
        "Behind a stream end no message of the stream comes until a new request is granted.",
        (
            Check(
                "stream",
                col.ending_ordinal.equals(0),
                "{opcode} for vbucket {vbucket} comes behind the end of its stream; nothing may follow until a new "
                "request is granted",
                # An end with another stream's opaque ends nothing: that is for OPQ-04 to say.
                when=~col.draft & ~col.end_ignored,
                unknown=(
                    Unknown("gap", (col.ending_ordinal > 0) & col.has_defect),
                    # The stream's own opaque is not known, and this may be another stream, or another's end.
                    Unknown(
                        "gap", ~col.granted.true() & (col.ending_ordinal > 0) & col.opaque.differs(col.ending_opaque)
                    ),
                ),
                facts=("vbucket", "opcode"),
                evidence=("ending",),
                root="ending_ordinal",
                words=_WORDS,
            ),
        ),
        source="stream end: no more messages will be sent",
        bugs=("MB-18625",),
        next_step="look at how long after the end frame {frame} comes: at once, it was still in the producer's queue; "
        "later, the producer goes on with a stream that the consumer has forgotten, and what comes of it is lost",
    ),
    Rule(
        "OPQ-07",
        Severity.ERROR,
        "a vbucket has one stream at a time",
        "A stream request is not granted while the vbucket (with stream ids: the id) has a live stream on the "
        "connection.",
        (
            Check(
                "stream_starts",
                ~col.live.true(),
                "a stream for vbucket {vbucket} with opaque {opaque:#010x} was granted while that with opaque "
                "{previous_opaque:#010x} is live; the request must be refused with key_exists (0x02), or the first "
                "stream's end was never sent",
                unknown=UNDECIDED,
                facts=("vbucket", "opaque", "previous_opaque"),
                evidence=("request", "previous"),
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("status 0x02 is the right answer to a second request", "error-replies"),
            Excuse("streams of different vbuckets may share an opaque", "shared-opaque"),
        ),
        source="stream request: KEY_EEXISTS",
        bugs=("MB-35061",),
        next_step="`uprscope dissect {capture} --follow {connection} --vbucket {vbucket}` shows whether the stream "
        "with opaque {previous_opaque:#010x} goes on: if it does, there are two streams; if not, the other explanation "
        "is the likely one, a stream end that was never sent",
    ),
    Rule(
        "OPQ-08",
        Severity.WARNING,
        "live streams have opaques of their own",
        "A new stream has another opaque than all live streams of the connection. Servers accept it otherwise: it is a "
        "warning where answers go by the opaque alone, as in a takeover, and a remark where the vbucket is always at "
        "hand.",
        (
            Check(
                "stream_starts",
                ~col.shared.true(),
                "the streams of vbuckets {vbucket} and {other_vbucket} share opaque {opaque:#010x}, and one is a "
                "takeover, whose answers have nothing else to go by; each needs its own",
                when=col.handed_over.true() & ~col.draft.true(),
                unknown=UNDECIDED,
                facts=("vbucket", "other_vbucket", "opaque"),
                evidence=("sharer",),
                guilty="request",
                name="takeover",
                next_step="look which of the two streams the answers to markers and states with opaque {opaque:#010x} "
                "are meant for: a wrong one lets a takeover go on too early, or never",
            ),
            Check(
                "stream_starts",
                ~col.shared.true(),
                "the streams of vbuckets {vbucket} and {other_vbucket} share opaque {opaque:#010x}; each should have "
                "its own",
                when=~col.handed_over.true() & ~col.draft.true(),
                unknown=UNDECIDED,
                facts=("vbucket", "other_vbucket", "opaque"),
                evidence=("sharer",),
                guilty="request",
                root="opaque",
                name="shared",
                severity=Severity.INFO,
            ),
        ),
        excuses=(
            Excuse("some clients count in the upper half and put the vbucket in the lower", "gomemcached"),
            Excuse("some clients use the vbucket's number", "vbucket-opaques"),
            Excuse("the vbucket tells the streams apart", "shared-opaque"),
        ),
        source="consumers find streams by opaque",
        next_step="look at how the client of frame {frame} numbers its requests; the vbucket tells these streams "
        "apart, so it matters only if something in between goes by the opaque alone",
    ),
    Rule(
        "OPQ-09",
        Severity.ERROR,
        "a close is followed by what was agreed upon",
        "When the producer grants a close, exactly one stream end of reason 1 follows if "
        "send_stream_end_on_client_close_stream was accepted; otherwise nothing follows.",
        (
            Check(
                "stream_closes",
                col.ended.true(),
                "vbucket {vbucket} was closed, and the stream end that was agreed upon never came; one of reason "
                "closed (1) must follow the answer",
                when=col.announced.true(),
                unknown=UNDECIDED,
                facts=("vbucket",),
                evidence=("request",),
                name="no end",
                fault=Fault.PRODUCER,
                next_step="look at whether the consumer still waits for the end of vbucket {vbucket}, and asks for no "
                "new stream because of it; on the producer, cbstats dcp tells whether the stream is still there",
            ),
            Check(
                "stream_closes",
                col.reason.equals(_CLOSED),
                "vbucket {vbucket} was closed, and its stream ended for reason {reason}; behind a close it must be "
                "closed (1)",
                when=col.announced.true() & col.ended.true() & (col.reason >= 0),
                unknown=UNDECIDED,
                facts=("vbucket", "reason"),
                evidence=("request", "answer"),
                name="reason",
                words={"reason": message_words.END_REASONS},
                next_step="look in the producer's memcached.log for what else happened to vbucket {vbucket} at that "
                "time: a state change or a failed backfill may have come before the close, and the consumer acts on "
                "the reason",
            ),
            Check(
                "stream_closes",
                ~col.ended.true(),
                "a stream end comes behind the answer to the close of vbucket {vbucket}; nothing may follow where "
                "send_stream_end_on_client_close_stream was not agreed upon",
                when=~col.announced.true(),
                unknown=UNDECIDED,
                facts=("vbucket", "reason"),
                evidence=("request", "answer"),
                name="uncalled",
            ),
            Check(
                "stream",
                NEVER,
                "{opcode} for vbucket {vbucket} comes behind the answer to its close; nothing may follow where "
                "send_stream_end_on_client_close_stream was not agreed upon",
                when=(col.closing_ordinal > 0)
                & (col.ending_ordinal <= col.closing_ordinal)
                & col.kind.one_of((kinds.DATA, kinds.MARKER, kinds.OSO, kinds.CACHE))
                & ~col.agreed.has(_END_ON_CLOSE)
                & ~col.draft,
                unknown=(unsure("send_stream_end_on_client_close_stream"),),
                facts=("vbucket", "opcode"),
                evidence=("closing", "request"),
                root="closing_ordinal",
                name="data",
                severity=Severity.WARNING,
                words=_WORDS,
                next_step="look for refusals of these messages by the consumer, and at flow control: bytes that a "
                "consumer without a stream does not give back are lost to the window",
            ),
        ),
        excuses=(
            Excuse("before 5.5 nothing follows a close", "close-resume"),
            Excuse("with the agreement items may come until the stream end", "close-in-flight"),
            Excuse("on a consumer's leg items behind the close are normal", "relay-close-in-flight"),
        ),
        source="close stream",
        bugs=("MB-45863", "MB-35061", "MB-34850"),
        limits="a stream end that is missing where the producer had no room, or at the end of the capture",
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == control or name == close_stream "
        "or name == stream_end'` shows what was agreed upon, and how other closes of the connection went",
    ),
    Rule(
        "OPQ-10",
        Severity.ERROR,
        "a stream that reaches its end is ended",
        "A stream that has delivered the requested end, and the snapshot that holds it, gets a stream end.",
        (
            Check(
                "ends",
                ALWAYS,
                "",
                when=col.granted.true() & (col.end >= 0) & (col.previous_seqno >= col.end),
            ),
            Check(
                "completed_streams",
                NEVER,
                "vbucket {vbucket} has reached the requested end {end_seqno}, and no stream end came in the "
                "{seconds} seconds that the producer went on; it must follow the last item",
                unknown=UNDECIDED,
                facts=("vbucket", "end_seqno", "seconds"),
                evidence=("request",),
                name="no end",
                fault=Fault.PRODUCER,
            ),
        ),
        excuses=(
            Excuse("the client disconnected", "closed-meanwhile"),
            Excuse("before 5.5 a closed stream gets no stream end", "close-resume"),
        ),
        source="stream end",
        bugs=("MB-31481", "MB-31570"),
        limits="takeovers, which end with a state, and streams without an end seqno",
        next_step="ask the producer with cbstats dcp for the state of this stream: one that is still there after frame "
        "{frame} was forgotten, and backups and index builds that wait for its end hang",
    ),
    Rule(
        "OPQ-12",
        Severity.INFO,
        "a new stream has a new opaque",
        "A stream of a vbucket has another opaque than the stream before it on the same connection: late messages "
        "could not be told apart.",
        (
            Check(
                "stream_starts",
                ~col.reused.true(),
                "two streams of vbucket {vbucket}, one after the other, have opaque {opaque:#010x}; the second should "
                "have a new one",
                unknown=UNDECIDED,
                facts=("vbucket", "opaque"),
                evidence=("previous",),
                guilty="request",
                root="opaque",
            ),
        ),
        excuses=(
            Excuse("after a rollback a consumer asks again with the same opaque", "rollback"),
            Excuse("the opaque of an ended stream may be used again", "shared-opaque"),
        ),
        source="example in the documents: a retry with the same opaque",
        next_step="look at the first messages of vbucket {vbucket} behind frame {frame}: seqnos that belong to the "
        "stream before show that late messages were taken for the new stream's",
    ),
)
