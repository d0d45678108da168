"""SNP: what markers say besides their range, and snapshots with an end of their own (SNP-08 to SNP-14)."""

from __future__ import annotations

from analysis.context import kinds
from analysis.rules import message_words
from analysis.rules.conditions import (
    PARTIAL,
    SYNC_REPLICATION,
    UNDECIDED,
    agreed,
    at_least,
    marker_flags,
    maybe,
    stream_flags,
    unsure,
)
from analysis.rules.expressions import Term, col
from analysis.rules.model import LOST_SINCE_MARKER, NOT_REQUESTED, Check, Excuse, Fault, Rule, Severity, Unknown
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
_FLAGS = {"snapshot_type": message_words.MARKER_FLAGS}
_BEHIND_ANOTHER = (col.marker_end >= 0) & ~col.oso_since_marker
#: Something that the sender had received was not captured.
_PEER_LOST = Unknown("one-sided", col.peer_lost)
#: A consumer that did not ask for out-of-order snapshots refuses their starts: none has begun then.
_WITH_OSO = agreed("enable_out_of_order_snapshots") | maybe("enable_out_of_order_snapshots")
#: Whether an out-of-order snapshot has begun is told by the last marker, or by the last start or end of one.
_BRACKET_LOST = (
    Unknown("gap", (col.gap > col.snapshot_ordinal)),
    Unknown("start", col.snapshot_ordinal.equals(0) & ~col.granted.true()),
)


def _either(flags: Term) -> Term:
    """Return a term: memory or disk, and not both."""
    return flags.has(_MEMORY).differs(flags.has(_DISK))


def _not_behind_end(column: str, what: str) -> Check:
    return Check(
        "ranged_markers",
        getattr(col, column) <= col.snap_end_seqno,
        f"the {what} is {{{column}}}, and the snapshot ends at {{snap_end_seqno}}; it must not be behind that",
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
                "the marker's flags are {snapshot_type}; a snapshot must be of memory or of disk, not of both or none",
                when=col.snapshot_type >= 0,
                unknown=(Unknown("setup", col.snapshot_type.equals(0) & ~col.typed & ~at_least(4)),),
                facts=("snapshot_type",),
                name="type",
                words=_FLAGS,
            ),
            Check(
                "ranged_markers",
                col.snapshot_type.has(_HISTORY),
                "the marker's flags are {snapshot_type}; what may contain duplicates must be history",
                when=col.snapshot_type.has(_MAY_DUPLICATE),
                facts=("snapshot_type",),
                name="duplicates",
                words=_FLAGS,
                next_step="look at whether keys come twice behind frame {frame}: a consumer that does not expect that "
                "may keep another version than the last",
            ),
            Check(
                "ranged_markers",
                agreed("change_streams"),
                "the marker's flags are {snapshot_type}; history must have been asked for with the control "
                "change_streams",
                when=col.snapshot_type.has(_HISTORY),
                unknown=(unsure("change_streams"),),
                facts=("snapshot_type",),
                name="history",
                words=_FLAGS,
                next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == control'` shows what "
                "was asked for: a control change_streams that was refused, or has another value than true, explains it",
            ),
            Check(
                "ranged_markers",
                col.flags.has(_TAKEOVER),
                "the marker's flags are {snapshot_type}; only the stream of a takeover asks for a confirmation, and "
                "this one has stream flags {flags}",
                when=col.snapshot_type.has(_ACK),
                unknown=(*NOT_REQUESTED, Unknown("gap", col.flags < 0)),
                facts=("snapshot_type", "flags"),
                evidence=("request",),
                name="confirmation",
                severity=Severity.WARNING,
                words={**_FLAGS, "flags": message_words.STREAM_FLAGS},
                next_step="look whether the consumer confirms the snapshot of frame {frame}: a producer that waits for "
                "it may send nothing more on this stream until then",
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
        next_step="compare the flags with those of the stream's other markers: consumers go by memory or disk when "
        "they choose how to keep the items behind frame {frame}; `uprscope explain snapshot_marker` has the flags by "
        "release",
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
                "the disk snapshot {snap_start_seqno} to {snap_end_seqno} has no high completed seqno; a replica that "
                "takes part in sync writes must get one",
                when=col.snapshot_type.has(_DISK) & SYNC_REPLICATION,
                unknown=(unsure("enable_sync_writes", "consumer_name"), Unknown("gap", col.missing > 0)),
                facts=("snap_start_seqno", "snap_end_seqno"),
                name="missing",
                next_step="compare the releases of both nodes and the version of the marker in frame {frame}: without "
                "the seqno a replica does not know which prepares from disk are completed",
            ),
            Check(
                "ranged_markers",
                col.high_completed_seqno >= col.completed,
                "the high completed seqno is {high_completed_seqno}, and was {completed} before; it must not go back",
                when=col.snapshot_type.has(_DISK) & (col.high_completed_seqno > 0) & (col.completed > 0),
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
            Excuse("without synchronous writes a V2.2 marker has zeros there", "v22-without-durability"),
        ),
        source="PassiveStream::processMarker throws on it",
        bugs=("MB-36971", "MB-66577", "MB-65742"),
        limits="A high completed seqno of 0 stands for none and is not compared.",
        next_step="look in the replica's memcached.log for an exception of processMarker at the time of frame {frame}, "
        "and compare with the high prepared and high completed seqnos of the producer (cbstats durability-monitor)",
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
                "the snapshot is confirmed before it is there (last seqno that came: {previous_seqno}); its end, "
                "{asked_end}, must have been received first",
                when=col.status.equals(enums.SUCCESS),
                unknown=(
                    _PEER_LOST,
                    Unknown("gap", (col.producer_gap > col.asked_ordinal) | (col.gap > col.asked_ordinal)),
                    Unknown("one-sided", col.asked_ordinal < col.answer_ordinal),
                ),
                facts=("previous_seqno", "asked_end"),
                evidence=("asked", "last"),
                name="early",
                words={"previous_seqno": message_words.NO_SEQNO},
                next_step="compare the high seqnos of both nodes after the takeover (cbstats vbucket-seqno): a "
                "consumer that confirms too early may become active without what was still on the way, up to "
                "{asked_end}",
            ),
            Check(
                "ends",
                col.unconfirmed_markers <= 0,
                "the takeover is over, and the snapshot {marker_start} to {marker_end} was never confirmed; its marker "
                "asks for an answer",
                when=col.marker_type.has(_ACK) & col.end_reason.equals(_OK) & col.flags.has(_TAKEOVER),
                unknown=(_PEER_LOST, LOST_SINCE_MARKER, Unknown("gap", col.consumer_gap > col.answer_ordinal)),
                facts=("marker_start", "marker_end"),
                evidence=("here",),
                guilty="marker",
                name="missing",
                fault=Fault.CONSUMER,
                next_step="compare the high seqnos of both nodes (cbstats vbucket-seqno): nobody knows whether the "
                "consumer had everything up to {marker_end} when it became active",
            ),
            Check(
                "requests",
                col.answered.true(),
                "the marker asks for a confirmation, and waited {seconds} seconds for it; the consumer must answer "
                "when the snapshot is there",
                when=col.opcode.equals(kinds.SNAPSHOT_MARKER),
                unknown=UNDECIDED,
                spoken=("seconds",),
                name="overdue",
                fault=Fault.CONSUMER,
            ),
            Check(
                "answers",
                ~col.repeated.true(),
                "a snapshot is confirmed that was confirmed before, or asked for no confirmation; each that asks must "
                "be confirmed once",
                when=col.opcode.equals(kinds.SNAPSHOT_MARKER) & col.status.equals(enums.SUCCESS) & ~col.is_upr.true(),
                unknown=UNDECIDED,
                name="twice",
                next_step="look at the producer's next markers and states behind frame {frame}: it may have taken the "
                "second confirmation for that of a snapshot that was not there yet",
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("the connection was lost before the marker was confirmed", "takeover-lost"),),
        source="takeover since MB-11721; recordings",
        bugs=("MB-11721",),
        limits="Without a stream end, a missing confirmation is one after a minute.",
        next_step="ask the producer with cbstats dcp-vbtakeover whether the takeover still waits, and look in the "
        "consumer's memcached.log for what kept it from the end of the snapshot of frame {frame}: a rebalance hangs on "
        "this",
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
                "an out-of-order snapshot {oso_flags} again; starts and ends must take turns",
                unknown=(
                    Unknown("gap", col.gap > col.bracket_ordinal),
                    Unknown("start", col.bracket_ordinal.equals(0) & ~col.granted.true()),
                ),
                facts=("oso_flags",),
                evidence=("bracket",),
                words={"oso_flags": {_START: "starts", _END: "ends"}},
                name="turns",
            ),
            Check(
                "ranged_markers",
                ~col.inside_oso,
                "a marker {snap_start_seqno} to {snap_end_seqno} comes inside an out-of-order snapshot; its end must "
                "come first",
                when=_WITH_OSO,
                unknown=_BRACKET_LOST,
                facts=("snap_start_seqno", "snap_end_seqno"),
                evidence=("bracket",),
                name="marker",
            ),
            Check(
                "ends",
                ~col.inside_oso,
                "the stream ends for reason {end_reason} inside an out-of-order snapshot; its end must come first",
                when=~col.end_reason.one_of(_BROKEN_OFF) & _WITH_OSO,
                unknown=_BRACKET_LOST,
                facts=("end_reason",),
                evidence=("bracket",),
                words={"end_reason": message_words.END_REASONS},
                name="end",
                next_step="look at what the consumer keeps: without the end of the out-of-order snapshot nothing of it "
                "counts, and its next stream request must start where the bracket did",
            ),
        ),
        dialects=("dcp",),
        since="7.0",
        source="out-of-order snapshots in the documents",
        bugs=("MB-52956",),
        limits="A stream that the client closes, or that breaks off for want of its disk, may end anywhere.",
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == oso_snapshot or name == "
        "snapshot_marker'` shows the turns: look whether a start was refused, or an end lies behind frame {frame}, "
        "which tells whether a bracket is missing or late",
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
                "nothing comes of the snapshot {marker_start} to {marker_end} before the next marker; at least an item "
                "or a seqno advanced must",
                when=_BEHIND_ANOTHER & (col.marker_end > col.start) & (~PARTIAL | at_least(7)),
                unknown=(LOST_SINCE_MARKER, *NOT_REQUESTED, unsure("open_skip_deletes_in_backfill")),
                facts=("marker_start", "marker_end"),
                evidence=("here",),
                guilty="marker",
            ),
        ),
        dialects=("dcp",),
        excuses=(Excuse("before 7.0 a filtered snapshot may have no item", "filtered-without-advance"),),
        source="recordings: no server sends an empty snapshot",
        bugs=("MB-55590",),
        next_step="ask the producer for what has a seqno of {marker_start} to {marker_end} (cbstats vbucket-details): "
        "items that exist there were lost on the way to the stream, or the marker announces what a filter takes away",
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
                "the marker's flags are {snapshot_type} behind {marker_type}; going over between disk and memory must "
                "have the flag checkpoint",
                when=_BEHIND_ANOTHER
                & _either(col.snapshot_type)
                & _either(col.marker_type)
                & col.snapshot_type.has(_DISK).differs(col.marker_type.has(_DISK))
                & at_least(6, 5),
                unknown=(LOST_SINCE_MARKER,),
                facts=("snapshot_type", "marker_type"),
                evidence=("marker",),
                words={**_FLAGS, "marker_type": message_words.MARKER_FLAGS},
            ),
        ),
        dialects=("dcp",),
        since="6.5",
        excuses=(Excuse("before 6.5 the change from disk to memory is not marked", "basic"),),
        source="PassiveStream::processMarker",
        bugs=("MB-36971", "MB-42780"),
        limits="Silent until the connection shows that its producer is of 6.5 or later.",
        next_step="look at the checkpoints of the replica (cbstats checkpoint): items from disk and from memory in one "
        "checkpoint may break sync writes and de-duplication there, from frame {frame} on",
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
                "another snapshot starts, and the last one has not ended; its end must come first",
                when=col.draft.true(),
                unknown=(LOST_SINCE_MARKER,),
                evidence=("marker",),
                name="start",
            ),
            Check(
                "draft_snapshot_ends",
                col.inside_draft,
                "a snapshot ends, and none has started since the last end; its start must come first",
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
                "seqno {by_seqno} comes outside of a snapshot; items must come between a start and an end",
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
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == snapshot_start or name == "
        "snapshot_end'` shows the turns: a start or an end that is missing before frame {frame} makes the consumer "
        "keep what is not consistent",
    ),
)
