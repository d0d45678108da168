"""SNP: what markers say besides their range, and snapshots with an end of their own (SNP-08 to SNP-14)."""

from __future__ import annotations

from analysis.context import kinds
from analysis.rules.conditions import (
    ASKED_UNKNOWN,
    PARTIAL,
    SETUP_UNKNOWN,
    SYNC_REPLICATION,
    UNDECIDED,
    agreed,
    at_least,
    marker_flags,
    stream_flags,
)
from analysis.rules.expressions import Term, col
from analysis.rules.model import LOST_SINCE_BEGIN, LOST_SINCE_MARKER, Check, Excuse, Rule, Severity, Unknown
from dissector.spec import enums

_MEMORY, _DISK, _CHECKPOINT, _ACK, _HISTORY, _MAY_DUPLICATE = map(
    marker_flags, ("memory", "disk", "checkpoint", "acknowledge", "history", "may_contain_duplicates")
)
_TAKEOVER = stream_flags("takeover")
#: Reasons of a stream end that may come at any point: closed, disconnected, backfill failed, privileges lost.
_BROKEN_OFF = tuple(
    enums.END_REASONS.number(name) for name in ("closed", "disconnected", "backfill_failed", "lost_privileges")
)

_OK = enums.END_REASONS.number("ok")
_START, _END = map(enums.OSO_MARKERS.number, ("start", "end"))
_BEHIND_ANOTHER = (col.marker_end >= 0) & ~col.oso_since_marker
_IN_FLIGHT = Unknown("one-sided", col.peer_not_captured)
_HEARD = (_IN_FLIGHT, Unknown("gap", col.connection_gap > 0))


def _either(flags: Term) -> Term:
    """Return a term: memory or disk, and not both."""
    return flags.has(_MEMORY).differs(flags.has(_DISK))


def _not_behind_end(column: str, what: str) -> Check:
    return Check(
        "ranged_markers",
        getattr(col, column) <= col.snap_end_seqno,
        f"the {what} is {{{column}}}, and the snapshot ends at {{snap_end_seqno}}",
        when=getattr(col, column) >= 0,
        facts=(column, "snap_end_seqno"),
        name=column,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "SNP-08",
        Severity.ERROR,
        "flags of markers make sense",
        "A snapshot is of memory or of disk, not both. Duplicates need history, history needs change streams, and only "
        "the stream of a takeover asks for a confirmation: elsewhere a warning, for consumers give it all the same.",
        (
            Check(
                "ranged_markers",
                _either(col.snapshot_type),
                "the marker's flags are {snapshot_type}: both memory and disk, or neither",
                when=col.snapshot_type >= 0,
                unknown=(Unknown("setup", col.snapshot_type.equals(0) & ~col.typed & ~at_least(4)),),
                facts=("snapshot_type",),
                name="type",
            ),
            Check(
                "ranged_markers",
                col.snapshot_type.has(_HISTORY),
                "the marker's flags are {snapshot_type}: it may contain duplicates, and has no history",
                when=col.snapshot_type.has(_MAY_DUPLICATE),
                facts=("snapshot_type",),
                name="duplicates",
            ),
            Check(
                "ranged_markers",
                agreed("change_streams"),
                "the marker's flags are {snapshot_type}: history, and nobody asked for change streams",
                when=col.snapshot_type.has(_HISTORY),
                unknown=SETUP_UNKNOWN,
                facts=("snapshot_type",),
                name="history",
            ),
            Check(
                "ranged_markers",
                col.flags.has(_TAKEOVER),
                "the marker's flags are {snapshot_type}: to be confirmed, and the stream is no takeover",
                when=col.snapshot_type.has(_ACK),
                unknown=(LOST_SINCE_BEGIN,),
                facts=("snapshot_type", "flags"),
                evidence=("request",),
                name="confirmation",
                severity=Severity.WARNING,
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("builds of mid 2014 said 0 for memory and 1 for disk", "mid-2014"),
            Excuse("7.x says disk and checkpoint of its backfills", "modern"),
        ),
        source="snapshot marker in the documents; recordings",
        limits="Whether a takeover has come to its send phase when it asks for a confirmation is not visible. A type "
        "of 0 is undecided until the stream or the release shows that types are bits.",
    ),
    Rule(
        "SNP-09",
        Severity.ERROR,
        "seqnos in markers of sync replication make sense",
        "The max visible, high prepared and purge seqnos are not above the snapshot's end. Disk markers for replicas "
        "that take part in sync writes have a high completed seqno, and it does not go back.",
        (
            _not_behind_end("max_visible_seqno", "max visible seqno"),
            _not_behind_end("high_prepared_seqno", "high prepared seqno"),
            _not_behind_end("purge_seqno", "purge seqno"),
            Check(
                "ranged_markers",
                col.high_completed_seqno >= 0,
                "the disk snapshot {snap_start_seqno} to {snap_end_seqno} has no high completed seqno",
                when=col.snapshot_type.has(_DISK) & SYNC_REPLICATION,
                unknown=SETUP_UNKNOWN,
                facts=("snap_start_seqno", "snap_end_seqno"),
                name="missing",
            ),
            Check(
                "ranged_markers",
                col.high_completed_seqno >= col.completed,
                "the high completed seqno is {high_completed_seqno}, and was {completed} before",
                when=col.snapshot_type.has(_DISK) & (col.high_completed_seqno > 0) & (col.completed > 0),
                unknown=(LOST_SINCE_BEGIN,),
                facts=("high_completed_seqno", "completed"),
                evidence=("marker",),
                name="backwards",
            ),
        ),
        dialects=("dcp",),
        since="6.5",
        excuses=(
            Excuse("the high prepared seqno may lie below the start", "marker-v22"),
            Excuse("the max visible seqno may lie below the start, and nothing may be completed", "prepares-only"),
            Excuse("memory markers complete nothing", "sync-writes"),
        ),
        source="PassiveStream::processMarker throws on it",
        bugs=("MB-36971", "MB-66577", "MB-65742"),
        limits="A high completed seqno of 0 stands for none and is not compared.",
    ),
    Rule(
        "SNP-10",
        Severity.ERROR,
        "a marker that wants a confirmation gets one, behind its last item",
        "A marker with the flag acknowledge is answered exactly once, when the item with the snapshot's last seqno has "
        "been received.",
        (
            Check(
                "confirmations",
                (col.marker_ordinal > col.asked_ordinal)
                | ((col.previous_seqno >= col.asked_end) & (col.acked_offset >= col.previous_offset)),
                "the snapshot is confirmed when seqno {previous_seqno} is the last that came, and it ends at "
                "{asked_end}",
                when=col.status.equals(enums.SUCCESS),
                unknown=(*_HEARD, LOST_SINCE_BEGIN, Unknown("one-sided", col.asked_ordinal < col.answer_ordinal)),
                facts=("previous_seqno", "asked_end"),
                evidence=("asked", "last"),
                name="early",
            ),
            Check(
                "ends",
                col.unconfirmed_markers <= 0,
                "the takeover is over, and the snapshot {marker_start} to {marker_end} was never confirmed",
                when=col.marker_type.has(_ACK) & col.end_reason.equals(_OK) & col.flags.has(_TAKEOVER),
                unknown=(*_HEARD, LOST_SINCE_BEGIN),
                facts=("marker_start", "marker_end"),
                evidence=("here",),
                guilty="marker",
                name="missing",
            ),
            Check(
                "requests",
                col.answered.true(),
                "nobody confirms the snapshot",
                when=col.opcode.equals(kinds.SNAPSHOT_MARKER),
                unknown=UNDECIDED,
                name="overdue",
            ),
            Check(
                "answers",
                ~col.repeated.true(),
                "a snapshot is confirmed that was confirmed before, or asked for no confirmation",
                when=col.opcode.equals(kinds.SNAPSHOT_MARKER) & col.status.equals(enums.SUCCESS) & ~col.is_upr.true(),
                unknown=UNDECIDED,
                name="twice",
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("the connection was lost before the marker was confirmed", "takeover-lost"),),
        source="takeover since MB-11721; recordings",
        bugs=("MB-11721",),
        limits="Without a stream end, a missing confirmation is one after a minute.",
    ),
    Rule(
        "SNP-11",
        Severity.ERROR,
        "out-of-order snapshots begin and end in turn",
        "Starts and ends of out-of-order snapshots alternate in a stream; no marker and no stream end is inside.",
        (
            Check(
                "brackets",
                col.inside_oso.differs(col.oso_flags.equals(_START)),
                "an out-of-order snapshot {oso_flags} again",
                unknown=(LOST_SINCE_BEGIN,),
                facts=("oso_flags",),
                evidence=("bracket",),
                words={"oso_flags": {_START: "starts", _END: "ends"}},
                name="turns",
            ),
            Check(
                "ranged_markers",
                ~col.inside_oso,
                "a marker {snap_start_seqno} to {snap_end_seqno} comes inside an out-of-order snapshot",
                unknown=(LOST_SINCE_BEGIN,),
                facts=("snap_start_seqno", "snap_end_seqno"),
                evidence=("bracket",),
                name="marker",
            ),
            Check(
                "ends",
                ~col.inside_oso,
                "the stream ends (reason {end_reason}) inside an out-of-order snapshot",
                when=~col.end_reason.one_of(_BROKEN_OFF),
                unknown=(LOST_SINCE_BEGIN,),
                facts=("end_reason",),
                evidence=("bracket",),
                name="end",
            ),
        ),
        dialects=("dcp",),
        since="7.0",
        source="out-of-order snapshots in the documents",
        bugs=("MB-52956",),
        limits="A stream that the client closes, or that breaks off for want of its disk, may end anywhere.",
    ),
    Rule(
        "SNP-12",
        Severity.WARNING,
        "no snapshot is empty",
        "At least one item, or a seqno advanced, comes between two markers.",
        (
            Check(
                "ranged_markers",
                col.items > 0,
                "nothing comes of the snapshot {marker_start} to {marker_end}",
                when=_BEHIND_ANOTHER & (col.marker_end > col.start) & (~PARTIAL | at_least(7)),
                unknown=(*ASKED_UNKNOWN, LOST_SINCE_MARKER),
                facts=("marker_start", "marker_end"),
                evidence=("here",),
                guilty="marker",
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("before 7.0 a filtered snapshot may have no item", "filtered-without-advance"),),
        source="recordings: no server sends an empty snapshot",
        bugs=("MB-55590",),
    ),
    Rule(
        "SNP-13",
        Severity.WARNING,
        "going over between disk and memory starts a checkpoint",
        "A memory marker behind a disk marker, and a disk marker behind a memory marker, has the checkpoint flag.",
        (
            Check(
                "ranged_markers",
                col.snapshot_type.has(_CHECKPOINT),
                "the marker's flags are {snapshot_type} behind {marker_type}: no checkpoint begins",
                when=_BEHIND_ANOTHER
                & _either(col.snapshot_type)
                & _either(col.marker_type)
                & col.snapshot_type.has(_DISK).differs(col.marker_type.has(_DISK))
                & at_least(6, 5),
                unknown=(LOST_SINCE_MARKER,),
                facts=("snapshot_type", "marker_type"),
                evidence=("marker",),
            ),
        ),
        dialects=("dcp",),
        since="6.5",
        excuses=(Excuse("before 6.5 the change from disk to memory is not marked", "basic"),),
        source="PassiveStream::processMarker",
        bugs=("MB-36971", "MB-42780"),
        limits="Silent until the connection shows that its producer is of 6.5 or later.",
    ),
    Rule(
        "SNP-14",
        Severity.WARNING,
        "the draft's snapshots start and end in turn, with all items inside",
        "Starts and ends of the draft's snapshots alternate, and every item lies between a start and an end.",
        (
            Check(
                "markers",
                ~col.inside_draft,
                "another snapshot starts, and the last one has not ended",
                when=col.draft.true(),
                unknown=(LOST_SINCE_MARKER,),
                evidence=("marker",),
                name="start",
            ),
            Check(
                "draft_snapshot_ends",
                col.inside_draft,
                "a snapshot ends that has not started",
                unknown=(
                    Unknown("start", col.snapshot_ordinal.equals(0) & col.started_ordinal.equals(0)),
                    Unknown("gap", (col.gap > col.snapshot_ordinal) & (col.gap > col.started_ordinal)),
                ),
                evidence=("marker",),
                name="end",
            ),
            Check(
                "items",
                col.inside_draft,
                "seqno {by_seqno} comes outside of a snapshot",
                # What comes before the first start is left to SNP-01.
                when=col.draft.true() & (col.marker_ordinal > 0),
                unknown=(LOST_SINCE_MARKER,),
                facts=("by_seqno",),
                evidence=("marker",),
                root="marker_ordinal",
                name="item",
            ),
        ),
        dialects=("draft",),
        source="streams in the draft of August 2013",
    ),
)
