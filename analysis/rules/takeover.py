"""TKO-01 to 07: how a vbucket is handed over, and the states that the old active tells the new one."""

from __future__ import annotations

from analysis.context import kinds
from analysis.rules import message_words
from analysis.rules.conditions import agreed, at_least, stream_flags, undecided
from analysis.rules.expressions import NEVER, Term, col, either
from analysis.rules.model import NOT_REQUESTED, Check, Excuse, Rule, Severity, Unknown
from dissector.spec import enums

_TAKEOVER = stream_flags("takeover")
_OK = enums.END_REASONS.number("ok")
_ACTIVE = enums.VBUCKET_STATES.number("active")
#: What pending is on the wire: of servers up to 4.1.0 and all 3.x, and of later ones.
_EARLY_PENDING = enums.UPR_VBUCKET_STATES.number("pending")
_PENDING = enums.VBUCKET_STATES.number("pending")
_WORDS = {
    "vbucket_state": message_words.VBUCKET_STATES,
    "previous_state": message_words.VBUCKET_STATES,
    "opcode": message_words.MESSAGES,
    "end_reason": message_words.END_REASONS,
}
_SHIPPED = ~col.is_upr & ~col.draft
_OWN = col.opaque.equals(col.instance_opaque)  #: a message with another opaque is for OPQ-04 to judge
_MISREAD = Unknown("gap", col.has_defect)
_LOST_SINCE_ACTIVE = Unknown("gap", col.gap > col.activated_ordinal)


def _in_takeovers(*, unknown: bool = True) -> Term:
    """Return which messages are of takeovers, or ``unknown`` ones may be: their request was not captured."""
    granted = col.flags.has(_TAKEOVER) & _OWN & _SHIPPED
    return granted | (~col.granted.true() & _SHIPPED) if unknown else granted


def _words(*names: str) -> dict[str, dict[int, str]]:
    return {name: dict(_WORDS[name]) for name in names}


RULES: tuple[Rule, ...] = (
    Rule(
        "TKO-01",
        Severity.ERROR,
        "a takeover says pending, then active",
        "On a takeover stream the producer sends two vbucket states: pending, and then active. A takeover that is "
        "given up stops anywhere in between.",
        (
            Check(
                "vbucket_states",
                (col.states.equals(0) & col.vbucket_state.one_of((_EARLY_PENDING, _PENDING)))
                | (col.states.equals(1) & col.vbucket_state.equals(_ACTIVE)),
                "vbucket {vbucket} is told to be {vbucket_state} after {states} states (the last: {previous_state}); "
                "a takeover must say pending, then active, and no more",
                when=_in_takeovers(),
                unknown=(
                    *NOT_REQUESTED,
                    # A pending that was lost excuses active, and nothing else: what follows a state is never pending.
                    Unknown("gap", col.lost_since_answer & col.states.equals(0) & col.vbucket_state.equals(_ACTIVE)),
                    Unknown("gap", (col.vbucket_state < 0) | (col.previous_state.equals(-1) & (col.states > 0))),
                    _MISREAD,
                ),
                facts=("vbucket", "vbucket_state", "states", "previous_state"),
                evidence=("request", "state"),
                root="serial",
                words=_words("vbucket_state", "previous_state"),
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("up to 4.1.0 pending is 2", "takeover-3x"),
            Excuse("a node that is older than the consumer sends 2 during an upgrade", "takeover-upgrade"),
            Excuse("a rebalance that is given up stops anywhere", "takeover-aborted"),
            Excuse("a connection that is lost stops anywhere", "takeover-lost"),
        ),
        source="ActiveStream::takeoverSendPhase, setVBucketStateAckRecieved",
        bugs=("MB-17861",),
        limits="which state 2 or 3 means: that is for TKO-07 to say; states of a takeover that is never finished",
        next_step="look at what vbucket {vbucket} is on both nodes now (cbstats vbucket): without pending the new node "
        "refuses clients until it is active, and without active nobody serves them",
    ),
    Rule(
        "TKO-02",
        Severity.ERROR,
        "no document follows the state active",
        "When a takeover has said active, the new node may write to the vbucket: the old one sends no document any "
        "more.",
        (
            Check(
                "documents",
                NEVER,
                "{opcode} with seqno {by_seqno} for vbucket {vbucket} comes behind the state active; everything must "
                "be sent before",
                when=col.flags.has(_TAKEOVER) & (col.activated_ordinal > 0) & _OWN & _SHIPPED,
                unknown=(*NOT_REQUESTED, _LOST_SINCE_ACTIVE, _MISREAD),
                facts=("vbucket", "by_seqno"),
                spoken=("opcode",),
                evidence=("activated", "request"),
                root="activated_ordinal",
                words=_words("opcode"),
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("after pending, what was written until then still comes", "takeover"),
            Excuse("a new stream of the same vbucket is another one", "takeover-back"),
        ),
        source="ActiveStream::takeoverSendPhase: active is sent when nothing is left",
        bugs=("MB-17766",),
        next_step="compare seqno {by_seqno} of vbucket {vbucket} on both nodes: the new active may have given it to "
        "another document already, or have refused this one, and then a write is lost",
    ),
    Rule(
        "TKO-03",
        Severity.ERROR,
        "a takeover waits for the answer to each state",
        "The producer sends the next state, or ends the stream, only when the answer to the state before has reached "
        "it: until then it does not know whether the new node is ready.",
        (
            Check(
                "handovers",
                col.state_answered.true(),
                "{opcode} of vbucket {vbucket} was sent before the answer to the state {previous_state} had come; the "
                "producer must wait for it",
                when=(col.states > 0)
                & (col.kind.equals(kinds.STATE) | col.end_reason.equals(_OK))
                & col.ending_ordinal.equals(0)
                & _in_takeovers(),
                unknown=(
                    *NOT_REQUESTED,
                    *undecided(col.answer_unknown),
                    Unknown("one-sided", col.peer_lost & ~col.state_answered.true()),
                    _MISREAD,
                ),
                facts=("vbucket", "previous_state"),
                spoken=("opcode",),
                evidence=("state",),
                words=_words("previous_state", "opcode"),
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("a rebalance that is given up ends the stream for another reason", "takeover-aborted"),
            Excuse("a connection that is lost stops anywhere", "takeover-lost"),
            Excuse("a relay's two legs are connections of their own", "takeover-relay"),
        ),
        source="ActiveStream::setVBucketStateAckRecieved; documents say both that there is no reply and what it is",
        bugs=("MB-29541", "MB-45523"),
        limits="an answer that never comes while the producer waits: OPQ-02; a second answer: OPQ-01",
        next_step="`uprscope dissect {capture} --follow {connection} --vbucket {vbucket}` shows when the answer came: "
        "if it refuses the state, the new node never took the vbucket over",
    ),
    Rule(
        "TKO-04",
        Severity.ERROR,
        "a state follows the confirmation of all snapshots",
        "Before a takeover sends a state, every marker before it that asked for a confirmation has been answered, and "
        "the answer has reached the producer.",
        (
            Check(
                "vbucket_states",
                col.markers_waiting.equals(0),
                "the state {vbucket_state} of vbucket {vbucket} was sent while {markers_waiting} markers waited for "
                "their confirmation; all must be confirmed before",
                when=_in_takeovers(),
                unknown=(
                    *NOT_REQUESTED,
                    *undecided(col.marker_unknown),
                    Unknown("one-sided", col.peer_lost & (col.markers_waiting > 0)),
                    _MISREAD,
                ),
                facts=("vbucket", "vbucket_state", "markers_waiting"),
                evidence=("waiting",),
                words=_words("vbucket_state"),
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("snapshots of the backfill ask for no confirmation", "takeover"),
            Excuse("a connection that is lost stops anywhere", "takeover-lost"),
        ),
        source="ActiveStream::waitForSnapshot",
        bugs=("MB-11721",),
        limits="confirmations that never come while the producer waits: SNP-10",
        next_step="compare the high seqnos of vbucket {vbucket} on both nodes (cbstats vbucket-seqno): the new node "
        "may have become active without what was still on the way",
    ),
    Rule(
        "TKO-05",
        Severity.ERROR,
        "vbucket states belong to takeovers",
        "A vbucket state is sent on a stream only if its request has the flag takeover.",
        (
            Check(
                "vbucket_states",
                col.flags.has(_TAKEOVER),
                "vbucket {vbucket} is told to be {vbucket_state} on a stream that was requested with flags {flags}; "
                "states are for streams with the flag takeover",
                when=_SHIPPED & (_OWN | ~col.granted.true()),
                unknown=(*NOT_REQUESTED, Unknown("gap", col.flags < 0), _MISREAD),
                facts=("vbucket", "vbucket_state", "flags"),
                evidence=("request",),
                root="serial",
                words={**_words("vbucket_state"), "flags": message_words.STREAM_FLAGS},
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("a stream that is added as a takeover has the flag in its request, too", "takeover-relay"),),
        source="ActiveStream: only takeover streams have a takeover phase",
        next_step="look at the state of vbucket {vbucket} on the consumer (cbstats vbucket): it does what it is told, "
        "and there may be two active copies now",
    ),
    Rule(
        "TKO-06",
        Severity.ERROR,
        "a takeover ends with ok, and only after active",
        "When the answer to the state active has come, the takeover stream ends for the reason ok and no other; and "
        "for that reason it does not end before.",
        (
            Check(
                "handover_ends",
                col.end_reason.equals(_OK),
                "the takeover of vbucket {vbucket} ends for reason {end_reason} though active was confirmed; it must "
                "be ok (0)",
                when=(col.activated_ordinal > 0)
                & col.previous_state.equals(_ACTIVE)
                & col.state_answered.true()
                & (col.end_reason >= 0)
                & col.ending_ordinal.equals(0)
                & col.closing_ordinal.equals(0)
                & _in_takeovers(unknown=False),
                unknown=(*NOT_REQUESTED, _LOST_SINCE_ACTIVE, _MISREAD),
                facts=("vbucket", "end_reason"),
                evidence=("activated", "request"),
                name="reason",
                words=_words("end_reason"),
            ),
            Check(
                "handover_ends",
                col.activated_ordinal > 0,
                "the takeover of vbucket {vbucket} ends with ok (0), and the state active was never sent (states sent: "
                "{states}); it must come before",
                when=col.end_reason.equals(_OK)
                & col.ending_ordinal.equals(0)
                & col.closing_ordinal.equals(0)
                & _in_takeovers(),
                unknown=(
                    *NOT_REQUESTED,
                    Unknown("gap", either(col.states > 0, col.gap > col.state_ordinal, col.lost_since_answer)),
                    _MISREAD,
                ),
                facts=("vbucket", "states"),
                evidence=("request", "state"),
                name="unfinished",
                next_step="look at what vbucket {vbucket} is on both nodes now (cbstats vbucket): if neither is "
                "active, clients get not_my_vbucket from both until the next rebalance",
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("a rebalance that is given up ends the stream for another reason", "takeover-aborted"),
            Excuse("who closes the stream gets the reason closed", "takeover-closed"),
        ),
        source="ActiveStream::setVBucketStateAckRecieved ends the stream",
        limits="an end that comes before the answer to active: TKO-03; one that never comes",
        next_step="look in the producer's memcached.log for vbucket {vbucket}: ns_server takes any other reason for a "
        "failed takeover and may start it again, though the new node is active already",
    ),
    Rule(
        "TKO-07",
        Severity.WARNING,
        "pending is 3 since 4.1.1",
        "Consumers have always read state 2 as replica and 3 as pending. Servers up to 4.1.0, and all of 3.x, send 2 "
        "where they mean pending; later ones send 3.",
        (
            Check(
                "vbucket_states",
                col.vbucket_state.differs(_EARLY_PENDING),
                "the takeover of vbucket {vbucket} begins with state {vbucket_state} from a server that is newer than "
                "that; it must send pending as 3",
                # On a relay's leg to the consumer, agreements tell the consumer's release and not the producer's.
                when=col.states.equals(0) & at_least(4, 5) & agreed("open_producer") & _in_takeovers(unknown=False),
                unknown=(*NOT_REQUESTED, _MISREAD),
                facts=("vbucket", "vbucket_state"),
                evidence=("request",),
                words=_words("vbucket_state"),
            ),
        ),
        dialects=("dcp",),
        since="4.5",
        excuses=(
            Excuse("up to 4.1.0 pending is 2", "takeover-3x"),
            Excuse("during an upgrade the producer may be older than its consumer", "takeover-upgrade"),
        ),
        source="set vbucket state; the documents number states as 3.x sent them",
        bugs=("MB-16292", "MB-17391"),
        limits="servers of which no message shows the release, and the leg of a relay to its consumer",
        next_step="look at what the consumer did with vbucket {vbucket}: it became a replica instead of pending, and "
        "clients that were sent there early are refused until it is active",
    ),
)
