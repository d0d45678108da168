"""SNP: snapshots. Here: where they begin and end and what they hold (SNP-01 to SNP-07); others are beside."""

from __future__ import annotations

from analysis.rules import message_words, snapshot_markers
from analysis.rules.conditions import ACTIVE, PARTIAL, at_least, marker_flags, stream_flags, unsure
from analysis.rules.expressions import Term, col, either
from analysis.rules.model import (
    DIALECT_UNKNOWN,
    LOST_SINCE_ANSWER,
    LOST_SINCE_MARKER,
    NOT_REQUESTED,
    Check,
    Excuse,
    Rule,
    Severity,
    Unknown,
)
from dissector.spec import enums

_HISTORY, _MAY_DUPLICATE, _MEMORY = map(marker_flags, ("history", "may_contain_duplicates", "memory"))
_OK = enums.END_REASONS.number("ok")
_CUT_SHORT = stream_flags("to_latest", "disk_only")  #: the server puts its own end in
_OWN_START = stream_flags("from_latest", "cache_transfer")

#: A replica that merges snapshots shows it by starting one inside what the last one left unsent. What shows it may be
#: among what was lost, and so may be the request that wanted no replica.
_MAYBE_MERGED = (Unknown("source", col.merged), *NOT_REQUESTED, Unknown("gap", col.marker_lost))
#: What is left out on purpose is not known: the request may have a filter, the open may skip deletions.
_MAYBE_PARTIAL = (*NOT_REQUESTED, unsure("open_skip_deletes_in_backfill"))
#: A marker with a range before this one in the stream, and nothing out of order between the two.
_BEHIND_ANOTHER = (col.marker_end >= 0) & ~col.oso_since_marker
#: History repeats the end of the marker before it, whose own part stops where the history begins.
_CONTINUES = (
    col.snapshot_type.has(_HISTORY) & ~col.marker_type.has(_HISTORY) & col.snap_end_seqno.equals(col.marker_end)
)
#: The first marker of a stream, where the request's own start holds. What was cut off can't be compared.
_FIRST_MARKER = (
    col.marker_ordinal.equals(0)
    & ~col.flags.has(_OWN_START)
    & (col.snap_start_seqno >= 0)
    & ((col.ask_snap_start >= 0) | ~col.granted.true())
)
_SENT = either(col.previous_seqno >= 0, col.previous_seqno, col.start)
#: Only a replica's memory has snapshots that are two of its active's: disk, OSO and what is older have none.
_OF_MEMORY = col.marker_type.has(_MEMORY) & ~col.inside_oso
_LAST_SENT = {"previous_seqno": message_words.NO_SEQNO}
_FILTERED = "-filtered"
#: Next steps where a rule's own does not fit.
_OF_REPLICA = (
    "ask the producer with cbstats vbucket whether its vbucket is active: a replica of a release before 7.2 merges "
    "snapshots and may do this, an active vbucket never does"
)
_TRIMMED = (
    "look for a seqno advanced to {marker_end} before frame {frame}: producers since 7.0 send one where the last item "
    "of a snapshot does not pass the filter; without it the consumer waits, and resumes too low"
)


def _overlap(name: str, when: Term, severity: Severity | None = None, *unknown: Unknown) -> Check:
    return Check(
        "ranged_markers",
        col.snap_start_seqno > col.marker_end,
        "the snapshot starts at {snap_start_seqno}, and the one before it ended at {marker_end}; it must start behind "
        "that",
        when=_BEHIND_ANOTHER & ~_CONTINUES & when,
        unknown=(LOST_SINCE_MARKER, *unknown),
        facts=("snap_start_seqno", "snap_end_seqno", "marker_start", "marker_end"),
        evidence=("marker",),
        name=name,
        severity=severity,
        next_step=_OF_REPLICA if unknown else "",
    )


def _repeated(name: str, when: Term, severity: Severity | None = None, *unknown: Unknown) -> Check:
    return Check(
        "documents",
        col.version_snapshot.differs(col.snapshot_ordinal),
        "the key of seqno {by_seqno} came before in the same snapshot, with seqno {version_seqno} (frame "
        "{version_frame}); a snapshot must have a key once",
        # After the first early marker items come as they are written, and no marker closes them for long.
        when=(col.snapshot_ordinal > 0).differs(col.is_upr) & ~col.marker_type.has(_MAY_DUPLICATE) & when,
        unknown=(Unknown("gap", col.gap > col.snapshot_ordinal), *unknown),
        facts=("by_seqno", "version_seqno", "version_frame"),
        evidence=("marker",),
        root="snapshot_ordinal",
        name=name,
        severity=severity,
    )


def _incomplete(name: str, when: Term, severity: Severity | None = None, *unknown: Unknown) -> tuple[Check, Check]:
    sentence = "the snapshot {marker_start} to {marker_end} is not complete (last seqno sent: {previous_seqno}) when "
    expected = (
        f"; {'an item or a seqno advanced' if name == _FILTERED else 'an item'} with its last seqno must come first"
    )
    step = _TRIMMED if name == _FILTERED else _OF_REPLICA if unknown else ""
    facts = ("marker_start", "marker_end", "previous_seqno")
    return (
        Check(
            "ranged_markers",
            col.marker_end <= _SENT,
            f"{sentence}the next one is announced{expected}",
            when=_BEHIND_ANOTHER & ~_CONTINUES & when,
            unknown=(LOST_SINCE_MARKER, *_MAYBE_PARTIAL, *unknown),
            facts=facts,
            evidence=("marker", "last"),
            name=f"marker{name}",
            severity=severity,
            words=_LAST_SENT,
            next_step=step,
        ),
        Check(
            "ends",
            col.marker_end <= _SENT,
            f"{sentence}the stream ends as if all had been sent{expected}",
            when=_BEHIND_ANOTHER
            & col.end_reason.equals(_OK)
            & (col.end >= col.marker_end)
            & ~col.flags.has(_CUT_SHORT)
            & when,
            unknown=(LOST_SINCE_MARKER, *_MAYBE_PARTIAL, *unknown),
            facts=facts,
            evidence=("marker", "last"),
            name=f"end{name}",
            severity=severity,
            words=_LAST_SENT,
            next_step=step,
        ),
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "SNP-01",
        Severity.ERROR,
        "a marker comes before the first item",
        "A snapshot marker, or the start of an out-of-order snapshot, precedes the first item of a stream. In the "
        "early dialect it is the other way round: a marker follows all items before the stream ends.",
        (
            Check(
                "items",
                col.snapshot_ordinal > 0,
                "seqno {by_seqno} comes before any snapshot marker; one must announce the first item of a stream",
                when=~col.is_upr & ~col.draft,
                unknown=(*NOT_REQUESTED, LOST_SINCE_ANSWER, DIALECT_UNKNOWN),
                facts=("by_seqno",),
                evidence=("answer",),
                root="serial",
                name="first",
            ),
            Check(
                "items",
                col.marker_ordinal > 0,
                "seqno {by_seqno} comes before any snapshot starts; a snapshot start must precede the first item",
                when=col.draft.true(),
                # The draft says itself where a stream starts; its requests may go unrecognised.
                unknown=(
                    Unknown("start", col.started_ordinal.equals(0)),
                    Unknown("gap", col.gap > col.started_ordinal),
                ),
                facts=("by_seqno",),
                root="serial",
                name="draft",
                next_step="look for a snapshot start between the stream start and frame {frame}, and for a snapshot "
                "end behind it: if the end comes, only its start is missing",
            ),
            Check(
                "ends",
                col.items.equals(0),
                "no marker closes the last {items} items before the stream ends; in the early dialect one must follow "
                "them",
                when=col.is_upr & col.end_reason.equals(_OK),
                unknown=(
                    LOST_SINCE_MARKER,
                    Unknown("gap", col.marker_ordinal.equals(0) & ~col.granted.true()),
                    # The dialect showed itself only after the first of these items.
                    Unknown("setup", col.opening_ordinal.equals(0)),
                ),
                facts=("items",),
                evidence=("here", "marker"),
                guilty="opening",
                name="early",
                next_step="look at what the consumer keeps of the {items} items from frame {frame} on: it can resume "
                "only at the marker before them",
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("an out-of-order snapshot begins with its bracket", "oso"),
            Excuse("cache transfer needs no marker", "cache-transfer"),
            Excuse("in the early dialect the marker comes behind the items that it closes", "early-upr"),
        ),
        source="snapshot marker in the documents of UPR; recordings of May 2014 for the early dialect",
        limits="Behind an out-of-order snapshot, whether a marker comes before the next item is not looked at. Early "
        "streams that are closed, or end with trouble, may leave items behind their last marker: recorded servers do.",
        next_step="look for the marker between the answer to the stream request and frame {frame}: one under another "
        "opaque or vbucket is an OPQ-04 finding; a consumer without a snapshot drops or refuses the item",
    ),
    Rule(
        "SNP-02",
        Severity.ERROR,
        "items lie inside their snapshot",
        "The seqno of an item is neither below the start of the marker in force nor above its end.",
        (
            Check(
                "items",
                (col.by_seqno >= col.marker_start) & (col.by_seqno <= col.marker_end),
                "seqno {by_seqno} is outside of the snapshot {marker_start} to {marker_end}; items must lie inside of "
                "the last marker's",
                when=(col.marker_end >= 0) & (col.marker_start >= 0) & ~col.inside_oso,
                unknown=(LOST_SINCE_MARKER,),
                facts=("by_seqno", "marker_start", "marker_end"),
                evidence=("marker",),
                root="marker_ordinal",
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("inside an out-of-order snapshot no marker is in force", "oso"),
            Excuse("the records of a cache transfer lie in no snapshot", "cache-transfer"),
            Excuse("states and stream ends have no seqno", "takeover"),
            Excuse("early markers have no range", "early-upr"),
        ),
        source="PassiveStream::processMessageInner rejects it",
        bugs=("MB-17766",),
        next_step="`uprscope plot {capture} seqno --connection {connection} -o seqno.png` shows items over snapshots: "
        "a single item outside is misplaced, a run of them lacks its marker; a replica drops them and logs 'Erroneous' "
        "with seqno {by_seqno}",
    ),
    Rule(
        "SNP-03",
        Severity.ERROR,
        "a snapshot does not start behind its end",
        "The start of a snapshot marker is at most its end.",
        (
            Check(
                "ranged_markers",
                col.snap_start_seqno <= col.snap_end_seqno,
                "the snapshot starts at {snap_start_seqno} and ends at {snap_end_seqno}; its start must not be behind "
                "its end",
                facts=("snap_start_seqno", "snap_end_seqno"),
            ),
        ),
        dialects=("dcp",),
        source="consumers refuse it since MB-16042",
        bugs=("MB-16042",),
        next_step="compare the marker with the start of the stream request and with the producer's high seqno (cbstats "
        "vbucket-seqno), which tells which of the two numbers is wrong; consumers refuse it since MB-16042, older ones "
        "take it in",
    ),
    Rule(
        "SNP-04",
        Severity.ERROR,
        "a snapshot starts behind the end of the one before",
        "Within a stream each marker starts above the end of the last one. An error where the source is known to be "
        "active, a warning where it may be a replica, and undecided where it merges snapshots as replicas do.",
        (
            _overlap("", ACTIVE),
            _overlap("unknown-source", ~ACTIVE, Severity.WARNING, *_MAYBE_MERGED),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("replicas merge disk and memory snapshots: starts may precede the last end", "replica-source"),
            Excuse("history repeats the end of the marker before it", "history"),
            Excuse("the first ordinary marker starts below what came out of order", "oso"),
            Excuse("a marker may start higher than right behind the last end", "dedup"),
            Excuse("a filtered memory snapshot may start higher", "collections"),
        ),
        source="ActiveStream::snapshot throws on it since 2022; no recorded server ever did it",
        bugs=("MB-50543", "MB-51105", "MB-24631", "MB-57767"),
        limits="A capture does not say whether a plain client streams from an active vbucket or from a replica.",
        next_step="`uprscope slice {capture} --finding {finding} -o bug.pcapng` keeps what proves it for a bug report, "
        "for an active vbucket never does this; on the producer, cbstats checkpoint has the ranges that it should have "
        "sent",
    ),
    Rule(
        "SNP-05",
        Severity.ERROR,
        "a snapshot has a key once",
        "No key comes twice in one snapshot, in one out-of-order snapshot, or before the first early marker. Prepares "
        "and aborts are one name space, everything else is another. A warning in memory snapshots of what may be a "
        "replica.",
        (
            _repeated("", ~_OF_MEMORY & ~col.is_upr),
            _repeated("memory", _OF_MEMORY & ACTIVE & ~col.is_upr),
            _repeated("unknown-source", _OF_MEMORY & ~ACTIVE & ~col.is_upr, Severity.WARNING, *_MAYBE_MERGED),
            _repeated("early", col.is_upr.true(), None, *NOT_REQUESTED, LOST_SINCE_ANSWER),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("a snapshot that may contain duplicates says so", "history"),
            Excuse("merged snapshots of a replica may have a key twice", "replica-source"),
            Excuse("a prepare and what completes it are in different name spaces", "sync-writes"),
            Excuse("the early dialect counts what its first marker closes", "early-upr"),
        ),
        source="definition of a snapshot in the documents of UPR",
        bugs=("MB-24244", "MB-71914", "MB-72198"),
        limits="The keys of a million documents are remembered: in longer snapshots a repetition may be missed. "
        "Behind the first marker of an early stream keys are not counted: recorded servers repeat them.",
        next_step="compare frames {version_frame} and {frame}: a marker that is missing between them explains it if "
        "their seqnos {version_seqno} and {by_seqno} lie in two checkpoints of the producer (cbstats checkpoint); a "
        "consumer that rolls back into this snapshot may keep the wrong version",
    ),
    Rule(
        "SNP-06",
        Severity.ERROR,
        "a snapshot is complete before the stream goes on",
        "When the next marker comes, or the stream ends without trouble, the last seqno of the snapshot has been sent. "
        "An error where the source is known to be active, otherwise a warning; for filtered streams a warning, and "
        "only for releases that advance seqnos.",
        (
            *_incomplete("", ~PARTIAL & ACTIVE),
            *_incomplete("-unknown-source", ~PARTIAL & ~ACTIVE, Severity.WARNING, *_MAYBE_MERGED),
            *_incomplete(_FILTERED, PARTIAL & at_least(7), Severity.WARNING, *_MAYBE_MERGED),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("before seqno advanced, filtered streams stop short", "filtered-without-advance"),
            Excuse("filtered snapshots are completed by seqno advanced, or trimmed", "collections"),
            Excuse("merged snapshots of a replica may be left unfinished", "replica-source"),
            Excuse("what is older than the history stops where the history begins", "history"),
            Excuse("the requested end lies inside the snapshot", "end-inside-snapshot"),
            Excuse("the stream was closed in the middle of a snapshot", "close-resume"),
            Excuse("a stream end of another reason may leave its snapshot unfinished", "ends-early"),
        ),
        source="seqno advanced in the documents; recordings: the next marker comes only behind the former's end",
        bugs=("MB-37402", "MB-48368", "MB-73354"),
        limits="The last snapshot of a stream that has not ended is not judged.",
        next_step="ask the producer what seqno {marker_end} is: if a document has it (cbstats vbucket-details shows "
        "the high seqno), the item was not sent and the consumer lacks it; a consumer that stops here resumes inside "
        "the snapshot",
    ),
    Rule(
        "SNP-07",
        Severity.ERROR,
        "the first snapshot starts where the request says",
        "The first marker of a stream starts at the snapshot start of the stream request: a lower start is an error, "
        "one between it and the start seqno a warning.",
        (
            Check(
                "ranged_markers",
                col.snap_start_seqno >= col.ask_snap_start,
                "the first snapshot starts at {snap_start_seqno}, below the requested snapshot start {ask_snap_start}; "
                "it must start there",
                when=_FIRST_MARKER,
                unknown=(*NOT_REQUESTED, LOST_SINCE_ANSWER),
                facts=("snap_start_seqno", "ask_snap_start", "start"),
                evidence=("request",),
                name="below",
            ),
            Check(
                "ranged_markers",
                (col.snap_start_seqno <= col.ask_snap_start) | (col.snap_start_seqno > col.start),
                "the first snapshot starts at {snap_start_seqno}, inside the requested one, which starts at "
                "{ask_snap_start} and was read up to {start}; it must start where that does",
                when=_FIRST_MARKER,
                unknown=(*NOT_REQUESTED, LOST_SINCE_ANSWER),
                facts=("snap_start_seqno", "ask_snap_start", "start"),
                evidence=("request",),
                name="above",
                severity=Severity.WARNING,
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse(
                "the first marker reaches back below the start, to the requested snapshot", "resume-inside-snapshot"
            ),
            Excuse("with from-latest the server puts its own start in", "from-latest"),
            Excuse("the first marker may come behind a cache transfer", "cache-transfer"),
            Excuse("the first ordinary marker may come behind an out-of-order snapshot", "oso"),
            Excuse("and may start at the last seqno of that snapshot", "oso-advanced"),
        ),
        source="ActiveStream::snapshot; every recorded stream",
        bugs=("MB-59759",),
        limits="That the end is not below the first seqno is left to SNP-02.",
        next_step="compare the marker with the stream request, which asks for snapshot start {ask_snap_start} and "
        "start {start}: a consumer that is cut off now will ask for a range that no snapshot had, and may be rolled "
        "back",
    ),
    *snapshot_markers.RULES,
)
