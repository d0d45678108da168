"""FOL-05, 07, 08 and 11: where clients are sent back to, and what they do then."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.requests.rollback_point import RollbackVerdict
from analysis.rules.conditions import UNDECIDED, agreed, stream_flags, unsure
from analysis.rules.expressions import Term, col
from analysis.rules.model import DIALECT_UNKNOWN, NOT_REQUESTED, Check, Excuse, Rule, Severity, Unknown
from dissector.spec import enums

IS_DCP = ~col.is_upr.true()
CUT_OFF = Unknown("gap", ~col.whole.true())
_OWN_START = stream_flags("from_latest")
_ROLLBACK = enums.STATUSES.number("rollback")
_NOTIFIER = agreed("open_notifier")
_NOTIFIER_UNKNOWN = unsure("open_notifier")
#: Where the stream begins is what the request says: notifiers, and streams from what is newest, begin elsewhere.
HISTORY_BOUND = IS_DCP & ~col.flags.has(_OWN_START) & ~_NOTIFIER
_MOST_IN_A_ROW = 3
_SETUP_UNKNOWN = (*UNDECIDED, DIALECT_UNKNOWN, _NOTIFIER_UNKNOWN)
_DUE = {
    RollbackVerdict.NONE: "no rollback is due, for the client's snapshot lies on the producer's branch",
    RollbackVerdict.UNKNOWN_BRANCH: "it must go to 0, for the log does not have the uuid of the request",
    RollbackVerdict.OLD_BRANCH: "it must go to {rollback_due}, for the branch of the request ended at {branch_end}",
    RollbackVerdict.NEWEST_BRANCH: "it must go to the start of the client's snapshot, {ask_snap_start}, or to the high "
    "seqno, which is {least_high} or more",
}


def _maybe_repeated(seqno: Term) -> Unknown:
    """Return the reason that the stream before may have delivered more: the client asked for what is beyond."""
    return Unknown("gap", ~col.resumed_surely.true() & (seqno > col.resumed_after) & (seqno <= col.start))


RULES: tuple[Rule, ...] = (
    Rule(
        "FOL-05",
        Severity.ERROR,
        "a rollback goes where the failover log says, and only if it is due",
        "A rollback goes back: its seqno is lower than the requested start, or both are 0. By the failover log it is "
        "due if the uuid is not in the log (to 0), or if the client's snapshot ends beyond the seqno of the next newer "
        "entry, or beyond the high seqno on the newest branch: then to that seqno, or to the snapshot's start if that "
        "is lower. A snapshot that is complete, or not begun, counts as its start seqno alone. A rollback to 0 is "
        "always right: tombstones may have been purged. A request that needs a rollback is not granted.",
        (
            Check(
                "stream_answers",
                (col.rollback_seqno < col.start) | (col.rollback_seqno.equals(0) & col.start.equals(0)),
                "a rollback to {rollback_seqno} for a stream request from {start} on; it must go to a lower seqno",
                when=col.status.equals(_ROLLBACK) & HISTORY_BOUND,
                unknown=(*_SETUP_UNKNOWN, CUT_OFF, Unknown("gap", col.rollback_seqno < 0)),
                facts=("rollback_seqno", "start"),
                evidence=("request",),
                name="not lower",
                next_step="look at what the client does behind frame {frame}: one that believes it asks for seqnos "
                "that it does not have, and one that does not asks the same again for ever",
            ),
            Check(
                "rollbacks",
                col.fits.true() | col.rollback_seqno.equals(0),
                "a rollback to {rollback_seqno} for a stream request from {start} on in the snapshot {ask_snap_start} "
                "to {ask_snap_end}; by the failover log {verdict}",
                # What goes up instead of down is another finding.
                when=(col.rollback_seqno >= 0) & (col.rollback_seqno < col.start) & HISTORY_BOUND,
                unknown=(*_SETUP_UNKNOWN, Unknown("history", col.verdict.equals(RollbackVerdict.OPEN))),
                facts=("rollback_seqno", "start", "ask_snap_start", "ask_snap_end", "verdict", "rollback_due"),
                spoken=("branch_end", "least_high"),
                evidence=("request", "log_before", "log_after"),
                name="elsewhere",
                words={"verdict": {int(verdict): text for verdict, text in _DUE.items()}},
            ),
            Check(
                "stream_answers",
                col.rollback_due < 0,
                "a stream request from {start} on in the snapshot {ask_snap_start} to {ask_snap_end} is granted, and "
                "by the failover log that comes with it the branch of its uuid ended at {branch_end}; the client must "
                "be sent back to {rollback_due}",
                when=col.status.equals(enums.SUCCESS) & (col.start > 0) & col.in_log.true() & HISTORY_BOUND,
                unknown=(*_SETUP_UNKNOWN, CUT_OFF),
                facts=("start", "ask_snap_start", "ask_snap_end", "branch_end", "rollback_due"),
                evidence=("request",),
                name="granted",
                next_step="compare the documents of the client with the bucket's for seqnos beyond {branch_end}: it "
                "keeps those of a branch that was given up",
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("a failover: the client is sent back to where its branch ended", "failover-history"),
            Excuse("a client on the newest branch is ahead of the producer", "failover-history"),
            Excuse("tombstones were purged: back to 0 whatever the log says", "purged-history"),
            Excuse("a strict uuid is looked up at start 0, too", "strict-uuid"),
            Excuse("a stream that starts at what is newest has no start to go back from", "from-latest-anywhere"),
            Excuse("a notifier is not sent back from a seqno that is still to come", "notifier"),
        ),
        source="FailoverTable::needsRollback",
        bugs=("MB-27604", "MB-13479", "MB-15826", "MB-25785"),
        limits="A rollback is compared with the log only if a log of the vbucket came before it on the connection, and "
        "the same one after it; on the newest branch the high seqno is known from below only. What was purged is not "
        "on the wire",
        next_step="compare with cbstats failovers of the vbucket: if the log is right, the client loses more than it "
        "has to, or keeps what the producer never had; look in the producer's memcached.log for 'requires rollback to "
        "seqno'",
    ),
    Rule(
        "FOL-07",
        Severity.WARNING,
        "a client that is sent back goes back",
        "The next stream request for a stream, sent after its client had received a rollback, has a start at or below "
        "the seqno of the rollback. More than three rollbacks in a row without a smaller start are a loop.",
        (
            Check(
                "stream_requests",
                col.start <= col.told_seqno,
                "a stream request from {start} on after a rollback to {told_seqno}; the client must go back to that "
                "seqno or a lower one",
                when=col.told_back.true(),
                unknown=(*UNDECIDED, Unknown("gap", col.start < 0)),
                facts=("start", "told_seqno"),
                evidence=("rollback",),
                name="stays",
            ),
            Check(
                "stream_answers",
                col.in_a_row <= _MOST_IN_A_ROW,
                "{in_a_row} stream requests in a row from {start} on or higher were sent back; a client must ask for "
                "less, or it will never get its stream",
                when=col.status.equals(_ROLLBACK),
                unknown=(*UNDECIDED, Unknown("gap", (col.in_a_row <= _MOST_IN_A_ROW) & ~col.counted.true())),
                facts=("in_a_row", "start"),
                evidence=("request",),
                guilty="request",
                root="start",
                name="loop",
            ),
        ),
        excuses=(
            Excuse("a consumer goes back to an older snapshot than it has to", "failover-history"),
            Excuse("a client may be sent back several times, each time further", "failover-history"),
        ),
        source="rollback.md of the DCP documents",
        limits="clients that share a connection, and ask for the same vbucket in turn",
        next_step="look in the client's log for what it does with a rollback: one that keeps its old start, or the "
        "seqnos of another branch, asks in vain until somebody resets it",
    ),
    Rule(
        "FOL-08",
        Severity.ERROR,
        "without a rollback nothing comes again",
        "A stream that goes on where the vbucket's stream before it on the connection stopped, without a rollback in "
        "between, has only items beyond the last seqno of that one, and its first marker does not end before it.",
        (
            Check(
                "resumed_streams",
                col.by_seqno > col.resumed_after,
                "the stream begins with seqno {by_seqno}, and the one before it had delivered {resumed_after}; it goes "
                "on behind it without a rollback, so its seqnos must be higher",
                when=col.kind.equals(kinds.DATA) & (col.by_seqno >= 0),
                unknown=(*NOT_REQUESTED, _maybe_repeated(col.by_seqno)),
                facts=("by_seqno", "resumed_after", "start"),
                evidence=("request", "answer"),
                root="serial",
                name="item",
            ),
            Check(
                "resumed_streams",
                col.snap_end_seqno >= col.resumed_after,
                "the stream begins with the snapshot {snap_start_seqno} to {snap_end_seqno}, and the one before it had "
                "delivered {resumed_after}; it goes on behind it without a rollback, so its first snapshot must not "
                "end before that seqno",
                when=col.kind.equals(kinds.MARKER) & (col.snap_end_seqno >= 0) & col.marker_ordinal.equals(0),
                unknown=(*NOT_REQUESTED, _maybe_repeated(col.snap_end_seqno)),
                facts=("snap_start_seqno", "snap_end_seqno", "resumed_after", "start"),
                evidence=("request", "answer"),
                name="marker",
            ),
        ),
        excuses=(
            Excuse("behind a rollback seqnos come again", "failover-meanwhile"),
            Excuse("a client may ask again for what it has", "asks-again"),
            Excuse("the first snapshot of a stream that goes on starts below its start", "close-resume"),
        ),
        source="a stream request's start: all seqnos beyond it",
        limits="streams of other connections",
        next_step="`uprscope plot {capture} seqno --connection {connection} -o seqno.png` shows both streams: a "
        "producer that starts over by itself has lost its history, and the client ends up with documents that it "
        "should have given up",
    ),
    Rule(
        "FOL-11",
        Severity.INFO,
        "clients are sent back to 0 only if they have to start over",
        "A rollback to 0 of a client whose uuid is in the failover log, where the log alone asks for less, means that "
        "tombstones were purged that the client had not seen: it streams the whole vbucket again. They are counted by "
        "connection.",
        (
            Check(
                "full_rollbacks",
                col.enough.true(),
                "vbucket {rolled_back_vbucket} is sent back from {start} to 0, though its branch is in the failover "
                "log; that means that tombstones were purged which the client had not seen",
                when=IS_DCP,
                facts=("rolled_back_vbucket", "start"),
                evidence=("request", "log_before", "log_after"),
                root="enough",
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("a snapshot that starts at 0 goes back to 0", "failover-history"),),
        source="FailoverTable::needsRollback",
        limits="as of FOL-05, a log before the rollback and the same one after it",
        next_step="compare how long the client was away with the bucket's metadata purge interval (three days, if "
        "nobody changed it): a client that is away for longer starts over",
    ),
)
