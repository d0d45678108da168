"""SEQ: sequence numbers. Here: their order and range (SEQ-01 to 03, 07, 11, 12); the modules beside have the others."""

from __future__ import annotations

from analysis.context import kinds
from analysis.rules import message_words, seqno_sync, seqno_versions
from analysis.rules.conditions import PARTIAL, agreed, at_least, marker_flags, maybe, stream_flags, unsure
from analysis.rules.expressions import col, constant
from analysis.rules.model import (
    LOST_SINCE_MARKER,
    LOST_SINCE_PREVIOUS,
    NOT_REQUESTED,
    Check,
    Excuse,
    Rule,
    Severity,
    Unknown,
)
from dissector.frames.schema import NO_END
from dissector.spec import enums

_SEQNO_LIMIT = constant(1 << 48).named("2^48")
_MEMORY, _DISK = map(marker_flags, ("memory", "disk"))
_OK = enums.END_REASONS.number("ok")
_FROM_LATEST = stream_flags("from_latest")
_OWN_END = stream_flags("takeover", "disk_only", "to_latest", "cache_transfer")  #: the end of the request means nothing
_THIN_SPAN, _THIN = 100, 10  #: a snapshot of so many seqnos, of which less than one in ten came

#: The beginning of an out-of-order snapshot may be among what was lost: only a marker tells that there is none.
_MAYBE_OSO = (
    (agreed("enable_out_of_order_snapshots") | maybe("enable_out_of_order_snapshots")) & ~col.is_upr & ~col.draft
)
_ORDER_UNKNOWN = (
    LOST_SINCE_PREVIOUS,
    Unknown("gap", (col.gap > col.snapshot_ordinal) & _MAYBE_OSO),
    Unknown("start", col.snapshot_ordinal.equals(0) & ~col.granted.true() & _MAYBE_OSO),
)
_FILTER_UNKNOWN = (*NOT_REQUESTED, unsure("open_skip_deletes_in_backfill"))
_ENDING = (col.end >= 0) & (col.end < NO_END) & ~col.flags.has(_OWN_END)
_ADVANCE = col.opcode.equals(kinds.SEQNO_ADVANCED) & ~col.draft.true()
#: Long filtered backfills tell now and then how far they are (MB-71913).
_REPORTS = PARTIAL & col.marker_type.has(_DISK)


def _thin(table: str) -> Check:
    return Check(
        table,
        col.items * _THIN >= col.marker_end - col.marker_start + 1,
        "{items} items came of the snapshot {marker_start} to {marker_end}; a tenth is expected, for half or more came "
        "of one before",
        when=(col.marker_end - col.marker_start + 1 >= _THIN_SPAN)
        & (col.marker_end >= 0)
        & (col.dense >= 1)
        & (col.items > 0)
        & (col.previous_seqno >= col.marker_end)
        & col.marker_type.has(_MEMORY)
        & ~col.oso_since_marker
        & ~PARTIAL,
        unknown=(LOST_SINCE_MARKER, *_FILTER_UNKNOWN),
        facts=("items", "marker_start", "marker_end"),
        evidence=("last", "here"),
        guilty="marker",
        name=table,
    )


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
                "seqno {by_seqno} comes after {previous_seqno} in the same stream; seqnos must increase",
                when=(col.previous_seqno >= 0) & ~col.inside_oso & ~col.oso_since_previous,
                unknown=_ORDER_UNKNOWN,
                facts=("by_seqno", "previous_seqno"),
                evidence=("last",),
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("an out-of-order snapshot has no order", "oso"),
            Excuse("the records of a cache transfer have no order, and their seqnos come again", "cache-transfer"),
            Excuse("a new stream after a rollback starts over", "rollback"),
            Excuse("the client asked again for what it had not received", "reopened-in-flight"),
        ),
        source="PassiveStream::messageReceived refuses it with ERANGE",
        bugs=("MB-50543",),
        limits="Streams are looked at one by one; what a later stream of the same vbucket repeats is not.",
        next_step="`uprscope plot {capture} seqno --connection {connection} -o seqno.png` shows whether one item is "
        "out of place or the stream starts over; a replica drops the item ('Erroneous (out of sequence)' in its "
        "memcached.log), so compare the document on both nodes",
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
                "the first item of the stream has seqno {by_seqno}; it was asked for from {start} on, so it must be "
                "greater",
                when=(col.previous_seqno < 0) & ~col.flags.has(_FROM_LATEST),
                unknown=NOT_REQUESTED,
                facts=("by_seqno", "start"),
                evidence=("request",),
            ),
        ),
        dialects=("draft", "upr", "dcp"),
        excuses=(
            Excuse("with from-latest the server chooses the start", "from-latest"),
            Excuse("the records of a cache transfer are not counted from the start", "cache-transfer"),
        ),
        source="stream request: start seqno",
        bugs=("MB-59759",),
        next_step="look whether the consumer had seqno {by_seqno} before: then it takes it in twice, and counters and "
        "indexes built on the stream are wrong; if not, compare the stream request with what the producer logs of it",
    ),
    Rule(
        "SEQ-03",
        Severity.ERROR,
        "a stream ends where it was asked to",
        "A stream end without trouble comes when the requested end was reached, by an item or by the end of a "
        "snapshot, and no snapshot starts behind that end. The snapshot that holds the end may be finished.",
        (
            Check(
                "ends",
                (col.previous_seqno >= col.end) | (col.marker_end >= col.end) | (col.start >= col.end),
                "the stream ends with reason ok before it was all sent (last seqno: {previous_seqno}); it was asked "
                "for up to {end}",
                when=col.end_reason.equals(_OK) & ~col.draft.true() & _ENDING & ~PARTIAL,
                unknown=(
                    *NOT_REQUESTED,
                    # A marker behind the loss tells what there is; those of early UPR have no range.
                    Unknown("gap", col.lost_since_previous & (col.lost_since_marker | (col.marker_end < 0))),
                    # The last prepares are not sent to a consumer without sync writes.
                    Unknown("setup", (at_least(5) | col.unsure.differs(0)) & ~agreed("enable_sync_writes")),
                ),
                facts=("previous_seqno", "end"),
                evidence=("last", "request"),
                name="early",
                words={"previous_seqno": message_words.NO_SEQNO},
            ),
            Check(
                "ranged_markers",
                col.snap_start_seqno <= col.end,
                "a snapshot starts at {snap_start_seqno}, and the stream was asked for up to {end}; a stream end must "
                "come instead",
                when=_ENDING & ~col.flags.has(_FROM_LATEST) & (col.snap_start_seqno >= 0),
                unknown=NOT_REQUESTED,
                facts=("snap_start_seqno", "end"),
                evidence=("request", "marker"),
                root="serial",
                name="beyond",
                next_step="look whether a stream end comes at all behind frame {frame}: a consumer that counts up to "
                "{end} may close the stream itself, and one that does not takes in what it did not ask for",
            ),
        ),
        excuses=(
            Excuse("the server finishes the snapshot that holds the end", "past-end-seqno"),
            Excuse("with to-latest the stream ends at the high seqno", "to-latest"),
            Excuse("with disk-only the stream ends at the last persisted seqno", "disk-only"),
            Excuse("a takeover ends with the vbucket's state", "takeover"),
            Excuse("a stream whose end is still to come stays open", "waits-for-end"),
            Excuse("only reason 0 promises that the end was reached", "ends-early"),
            Excuse("a stream of cache transfer alone has its end at its start", "cache-transfer-only"),
        ),
        source="stream request: end seqno; recordings: the end is not a hard limit",
        bugs=("MB-31481",),
        limits="Not judged: the ends that servers put in the request's place, filtered streams, and where prepares at "
        "the end may have been left out.",
        next_step="compare {end} with the producer's high seqno (cbstats vbucket-seqno): what lies up to it is missing "
        "in the backup or index that was made of the stream, though the end says that it is complete",
    ),
    *seqno_versions.RULES,
    Rule(
        "SEQ-07",
        Severity.ERROR,
        "seqnos are neither 0 nor absurd",
        "A by-seqno is greater than 0 and less than 2^48.",
        (
            Check(
                "items",
                (col.by_seqno > 0) & (col.by_seqno < _SEQNO_LIMIT),
                "seqno {by_seqno} is no seqno; they are greater than 0 and less than 2^48",
                facts=("by_seqno",),
            ),
        ),
        source="request validators of the servers",
        next_step="look at the bytes of frame {frame} with `uprscope dissect {capture} --follow {connection} --filter "
        "'by_seqno == {by_seqno}' -V -x`: a field at a wrong offset shows in its neighbours too, a lone one was set so",
    ),
    *seqno_sync.RULES,
    Rule(
        "SEQ-11",
        Severity.ERROR,
        "a seqno is advanced once, to the end of its snapshot",
        "A seqno advanced is behind the last seqno, not behind the end of the snapshot, and the last of its snapshot.",
        (
            Check(
                "items",
                col.by_seqno > col.previous_seqno,
                "seqno advanced to {by_seqno}, and {previous_seqno} was there already; it must go further",
                when=_ADVANCE & (col.previous_seqno >= 0) & ~col.inside_oso & ~col.oso_since_previous,
                unknown=_ORDER_UNKNOWN,
                facts=("by_seqno", "previous_seqno"),
                evidence=("last",),
                name="again",
            ),
            Check(
                "items",
                col.by_seqno <= col.marker_end,
                "seqno advanced to {by_seqno} in a snapshot that ends at {marker_end}; it must not go beyond that",
                when=_ADVANCE & (col.marker_end >= 0) & ~col.inside_oso,
                unknown=(LOST_SINCE_MARKER,),
                facts=("by_seqno", "marker_end"),
                evidence=("marker",),
                name="beyond",
                next_step="compare {by_seqno} with the next marker: a seqno advanced that belongs to the snapshot "
                "behind it came too early, and a consumer that resumes from there misses what lies between",
            ),
            Check(
                "items",
                col.items.equals(0) | _REPORTS,
                "seqno advanced to {previous_seqno}, and seqno {by_seqno} comes in the same snapshot; it must be the "
                "last of it",
                when=col.previous_opcode.equals(kinds.SEQNO_ADVANCED)
                & ~col.draft.true()
                & ~col.inside_oso
                & ~col.oso_since_previous,
                unknown=(
                    LOST_SINCE_MARKER,
                    Unknown("start", col.marker_ordinal.equals(0)),
                    *(Unknown(each.reason, each.when & col.marker_type.has(_DISK)) for each in _FILTER_UNKNOWN),
                ),
                facts=("by_seqno", "previous_seqno"),
                evidence=("here", "marker"),
                guilty="last",
                name="early",
            ),
        ),
        dialects=("dcp",),
        since="7.0",
        excuses=(
            Excuse("inside a filtered backfill advances may come now and then", "filter-advance"),
            Excuse("an out-of-order snapshot has no marker, and may end in a seqno advanced", "oso-advanced"),
            Excuse("snapshots from memory end in one where tables of system events are not told", "memory-advance"),
        ),
        source="ActiveStream::queueSeqnoAdvanced; recordings",
        bugs=("MB-62847", "MB-48010"),
        next_step="`uprscope dissect {capture} --follow {connection} --filter 'name == seqno_advanced or name == "
        "snapshot_marker'` shows what was advanced to in which snapshot: a consumer takes seqno {previous_seqno} for "
        "the place to resume from",
    ),
    Rule(
        "SEQ-12",
        Severity.INFO,
        "snapshots do not grow thin all of a sudden",
        "Of a memory snapshot of a hundred seqnos or more, at least a tenth comes, if at least half came of an earlier "
        "snapshot of the stream.",
        (_thin("ranged_markers"), _thin("ends")),
        dialects=("dcp",),
        excuses=(
            Excuse("versions that were replaced are not sent", "dedup"),
            Excuse("items that do not pass a filter are not sent", "collections"),
        ),
        source="an observation: batches that got lost show like this",
        limits="De-duplication looks the same: the number is worth a look, not more.",
        next_step="find out whether documents were overwritten often at that time, which leaves few items (cbstats "
        "checkpoint counts them); if not, compare the number of documents of both nodes: some of {marker_start} to "
        "{marker_end} may have been lost",
    ),
)
