"""SEQ: synchronous writes, what completes them, and what replicas acknowledge (SEQ-08 to SEQ-10)."""

from __future__ import annotations

from analysis.context import kinds
from analysis.rules import message_words
from analysis.rules.conditions import marker_flags
from analysis.rules.expressions import Term, col, either
from analysis.rules.model import NOT_REQUESTED, Check, Excuse, Fault, Rule, Severity, Unknown

_DISK = marker_flags("disk")
_COMPLETIONS = (kinds.COMMIT, kinds.ABORT)
_NAMES = {"opcode": {kinds.COMMIT: "commit", kinds.ABORT: "abort"}}

_COMPLETION = col.opcode.one_of(_COMPLETIONS) & ~col.draft.true() & (col.prepared_seqno >= 0)
#: The prepare must have been sent in this stream, and not from disk, where it may have been replaced or left out.
_SHOWN = (
    (col.prepared_seqno > col.start)
    & (col.prepared_seqno > col.disk_end)
    & ((col.start >= 0) | ~col.granted.true())  # else the start was cut off
)
#: Whatever was lost had lower seqnos than the first item after the loss and the next marker: a prepare from there on
#: would have been captured.
_PREPARE_LOST = Unknown("gap", col.prepared_seqno < col.whole_from)
#: The key's last prepare may be in what was lost; 0 stands for no loss.
_MAYBE_PREPARED = ((col.key_gap > 0) & (col.key_gap > col.sync_ordinal)) | (
    (col.whole_from > 0) & (col.sync_seqno < col.whole_from)
)
_FORGOTTEN = Unknown("limit", col.sync_forgotten)
#: Something that the consumer had received was not captured: perhaps the grant of another stream.
_PEER_LOST = Unknown("one-sided", col.peer_lost)
_OUTSTANDING = col.sync_opcode.equals(kinds.PREPARE)


def _highest(one: Term, other: Term) -> Term:
    return either(one > other, one, other)


RULES: tuple[Rule, ...] = (
    Rule(
        "SEQ-08",
        Severity.ERROR,
        "a commit or an abort completes one prepare of its key",
        "The prepared seqno of a commit or an abort is below its own, is that of the key's prepare, and no prepare is "
        "completed twice.",
        (
            Check(
                "sync_writes",
                col.prepared_seqno < col.by_seqno,
                "the {opcode} at seqno {by_seqno} is of a prepare at seqno {prepared_seqno}; the prepare must come "
                "before",
                when=_COMPLETION,
                facts=("opcode", "by_seqno", "prepared_seqno"),
                words=_NAMES,
                name="own-seqno",
                next_step="look at the seqnos in frame {frame}: if prepared and by-seqno were mixed up, the prepare "
                "has one of them; `uprscope dissect {capture} --follow {connection} --filter 'name == prepare'` shows "
                "those sent",
            ),
            Check(
                "sync_writes",
                ~col.sync_opcode.one_of(_COMPLETIONS),
                "the {opcode} at seqno {by_seqno} is of the prepare at seqno {prepared_seqno}, and the key's last one "
                "was completed at seqno {sync_seqno} (frame {sync_frame}); a prepare is completed once",
                when=_COMPLETION & _SHOWN & (col.prepared_seqno < col.by_seqno),
                unknown=(_PREPARE_LOST, _FORGOTTEN),
                facts=("opcode", "by_seqno", "prepared_seqno", "sync_seqno", "sync_frame"),
                words=_NAMES,
                name="twice",
            ),
            Check(
                "sync_writes",
                col.sync_seqno.equals(col.prepared_seqno),
                "the {opcode} at seqno {by_seqno} is of a prepare at seqno {prepared_seqno}, which is not its key's; "
                "it must be of the last one of the key",
                when=_COMPLETION & _SHOWN & (col.prepared_seqno < col.by_seqno) & ~col.sync_opcode.one_of(_COMPLETIONS),
                unknown=(_PREPARE_LOST, _FORGOTTEN),
                facts=("opcode", "by_seqno", "prepared_seqno", "sync_seqno"),
                words=_NAMES,
                name="other-key",
            ),
        ),
        dialects=("dcp",),
        since="6.5",
        excuses=(
            Excuse("the prepare was sent before the stream began", "duplicate-prepare"),
            Excuse("from disk, aborts come without their prepare, and prepares are replaced", "disk-prepares"),
            Excuse("the prepares were sent on the connection before", "acknowledged-again"),
        ),
        source="VBucket::commit and VBucket::abort",
        bugs=("MB-36971", "MB-50333"),
        limits="Prepares up to the end of the last disk snapshot are not asked for.",
        next_step="look at the durability monitor of the vbucket on both nodes (cbstats durability-monitor) for "
        "prepared seqno {prepared_seqno}: a replica can't apply such a message, and its memcached.log says what it did "
        "instead; `uprscope slice {capture} --finding {finding} -o bug.pcapng` keeps what a bug report needs",
    ),
    Rule(
        "SEQ-09",
        Severity.ERROR,
        "a key has one outstanding prepare",
        "A key is not prepared again before its last prepare in the stream was committed or aborted.",
        (
            Check(
                "sync_writes",
                ~_OUTSTANDING | (col.sync_seqno <= col.disk_end) | (col.sync_seqno >= col.by_seqno),
                "the key is prepared at seqno {by_seqno}, and what was prepared at seqno {sync_seqno} "
                "(frame {sync_frame}) is not completed; a commit or an abort must come between",
                when=col.opcode.equals(kinds.PREPARE) & ~col.draft.true() & ~col.marker_type.has(_DISK),
                unknown=(Unknown("gap", _MAYBE_PREPARED), _FORGOTTEN),
                facts=("by_seqno", "sync_seqno", "sync_frame"),
            ),
        ),
        dialects=("dcp",),
        since="6.5",
        excuses=(
            Excuse("in disk snapshots mutations stand for commits: they complete their prepares", "disk-prepares"),
            Excuse("behind a disk snapshot an old prepare may look open", "duplicate-prepare"),
        ),
        source="PassiveDurabilityMonitor and its duplicate-prepare window",
        bugs=("MB-34562",),
        limits="Of prepares up to the end of the last disk snapshot nothing is known.",
        next_step="look between frames {sync_frame} and {frame} for a commit or an abort of the key: one that the "
        "active node made (its cbstats durability-monitor no longer lists seqno {sync_seqno}) was not sent, and the "
        "replica still waits for it",
    ),
    Rule(
        "SEQ-10",
        Severity.ERROR,
        "a replica acknowledges what it has, and never less than before",
        "The seqnos that a replica acknowledges do not go back within a stream, and none is behind what was sent.",
        (
            Check(
                "seqno_acks",
                col.prepared_seqno >= col.acked_before,
                "seqno {prepared_seqno} is acknowledged, and {acked_before} was before; it must not go back",
                when=(col.acked_before >= 0) & (col.prepared_seqno >= 0),
                # A consumer that has not received the grant of the stream yet speaks of the one before.
                unknown=(_PEER_LOST, Unknown("one-sided", col.acked_offset <= col.answer_offset)),
                facts=("prepared_seqno", "acked_before"),
                evidence=("before",),
                name="backwards",
                fault=Fault.CONSUMER,
                next_step="look whether the replica rolled back before frame {frame} without a new stream: sync writes "
                "between {prepared_seqno} and {acked_before} were reported as durable on a node that may no longer "
                "have them",
            ),
            Check(
                "seqno_acks",
                col.prepared_seqno <= _highest(col.previous_seqno, col.start),
                "seqno {prepared_seqno} is acknowledged, which was not sent (last seqno: {previous_seqno}); a replica "
                "must have what it acknowledges",
                unknown=(
                    _PEER_LOST,
                    Unknown("one-sided", col.acked_offset <= col.answer_offset),
                    Unknown("gap", (col.producer_gap > col.previous_ordinal) | (col.gap > col.previous_ordinal)),
                    *(Unknown(each.reason, each.when & (col.previous_seqno < 0)) for each in NOT_REQUESTED),
                    Unknown("gap", (col.previous_seqno < 0) & (col.start < 0)),  # the start was cut off
                ),
                facts=("prepared_seqno", "previous_seqno"),
                evidence=("last", "marker"),
                name="ahead",
                words={"previous_seqno": message_words.NO_SEQNO},
                fault=Fault.CONSUMER,
            ),
        ),
        dialects=("dcp",),
        since="6.5",
        excuses=(
            Excuse("a replica acknowledges the end of a disk snapshot that has no prepare", "prepares-only"),
            Excuse("a replica acknowledges again when it has reconnected", "acknowledged-again"),
        ),
        source="ActiveStream::seqnoAck",
        limits="Any seqno that was sent may be acknowledged, not only those of prepares.",
        next_step="compare with the high prepared seqno of the replica (cbstats durability-monitor): the active node "
        "commits on the strength of frame {frame}, and a failover to this replica may lose writes up to "
        "{prepared_seqno}",
    ),
)
