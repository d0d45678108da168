"""FOL-01 to 04 and 06: failover logs, and the ranges of stream requests. Rollbacks are in the module beside."""

from __future__ import annotations

from analysis.rules import message_words, rollback
from analysis.rules.conditions import UNDECIDED, agreed, stream_flags, unsure
from analysis.rules.expressions import col
from analysis.rules.model import DIALECT_UNKNOWN, Check, Excuse, Rule, Severity, Unknown
from analysis.rules.rollback import CUT_OFF, HISTORY_BOUND, IS_DCP
from dissector.frames.schema import NO_END
from dissector.spec import enums

_ENTRY = 16
_END = {"end": {NO_END: "no end"}}
_WORDS = {"opcode": message_words.MESSAGES}
_OUT_OF_RANGE, _ROLLBACK = map(enums.STATUSES.number, ("out_of_range", "rollback"))
_OWN_START = stream_flags("from_latest")
_OWN_END = stream_flags("to_latest", "disk_only")  #: the server puts in an end of its own
_NOTIFIER = agreed("open_notifier")
_NOTIFIER_UNKNOWN = unsure("open_notifier")
_ENDS_BEFORE_START = (col.start > col.end) & (col.end >= 0) & ~col.flags.has(_OWN_END)
_OUTSIDE_SNAPSHOT = ((col.start < col.ask_snap_start) | (col.start > col.ask_snap_end)) & IS_DCP
_RANGE_MATTERS = ~col.flags.has(_OWN_START) & ~_NOTIFIER
_UNREAD = Unknown("gap", ~col.readable.true())

_LOGS_AND_RANGES: tuple[Rule, ...] = (
    Rule(
        "FOL-01",
        Severity.ERROR,
        "a failover log has whole entries, and at least one",
        "The value of a successful answer to a stream request or a get failover log is a multiple of 16 bytes, and at "
        "least 16: a uuid and a seqno for each branch.",
        (
            Check(
                "failover_logs",
                (col.value_length % _ENTRY).equals(0) & (col.value_length >= _ENTRY),
                "a response to {opcode} with success and {value_length} bytes of failover log; it must have 16 bytes "
                "for each entry, and at least one entry",
                facts=("opcode", "value_length"),
                words=_WORDS,
            ),
        ),
        source="UprConsumer::handleResponse of 3.0 disconnects",
        bugs=("MB-10122", "MB-10474"),
        limits="logs that are asked for outside of UPR, with the opcode 0x96",
        next_step="look at whether the connection ends behind frame {frame}: consumers disconnect, and ask again for "
        "ever; on the producer, cbstats failovers shows the log that it has",
    ),
    Rule(
        "FOL-02",
        Severity.ERROR,
        "a failover log has its newest entry first",
        "From entry to entry of a failover log, the seqnos do not increase: the newest branch comes first, and each "
        "began at or behind the one that follows it in the list.",
        (
            Check(
                "failover_logs",
                col.disordered_entry.equals(0),
                "entry {disordered_entry} of {entries} of a failover log has seqno {entry_seqno}, and the newer entry "
                "before it {newer_seqno}; seqnos must not increase from entry to entry",
                when=col.value_length >= _ENTRY,
                unknown=(_UNREAD,),
                facts=("disordered_entry", "entries", "entry_seqno", "newer_seqno"),
                root="disordered_entry",
            ),
        ),
        excuses=(Excuse("branches may begin at the same seqno", "failover-history"),),
        source="FailoverTable::createEntry drops entries beyond the seqno of a new one",
        bugs=("MB-20822",),
        next_step="compare with cbstats failovers of the vbucket on all nodes: entries of a branch that was given up "
        "stay in the log, and clients on it are told to go back too far, or not at all",
    ),
    Rule(
        "FOL-03",
        Severity.ERROR,
        "the uuids of a failover log are unique, and none is 0",
        "No two entries of a failover log have the same uuid, and none has 0: clients name a branch by it.",
        (
            Check(
                "failover_logs",
                col.repeated_entry.equals(0),
                "entries {first_entry} and {repeated_entry} of a failover log of {entries} have the same uuid; each "
                "branch must have its own",
                when=col.value_length >= _ENTRY,
                unknown=(_UNREAD,),
                facts=("first_entry", "repeated_entry", "entries"),
                root="repeated_entry",
                name="repeated",
            ),
            Check(
                "failover_logs",
                col.zero_entry.equals(0),
                "entry {zero_entry} of {entries} of a failover log has uuid 0, which clients send when they are on no "
                "branch; a branch must have another one",
                when=col.value_length >= _ENTRY,
                unknown=(_UNREAD,),
                facts=("zero_entry", "entries"),
                root="zero_entry",
                name="zero",
            ),
        ),
        source="FailoverTable::generateUuid",
        bugs=("MB-9737",),
        limits="data that was written by builds before 2014 may have uuids of 0",
        next_step="look in cbstats failovers of the vbucket for the same entries on other nodes: a log that was copied "
        "with its defect goes on to every replica, and a client on such a branch can't be told where to go back to",
    ),
    Rule(
        "FOL-04",
        Severity.ERROR,
        "the range of a stream request makes sense, or is refused",
        "A stream request has its start inside of its snapshot, and not beyond its end. A server refuses all others "
        "with out_of_range (0x22), and only those.",
        (
            Check(
                "stream_requests",
                ~_ENDS_BEFORE_START,
                "a stream request from {start} to {end}; it must not end before it starts",
                when=_RANGE_MATTERS,
                unknown=(CUT_OFF, _NOTIFIER_UNKNOWN),
                facts=("start", "end"),
                name="end",
            ),
            Check(
                "stream_requests",
                ~_OUTSIDE_SNAPSHOT,
                "a stream request from {start} on in the snapshot {ask_snap_start} to {ask_snap_end}; its start must "
                "lie inside of its snapshot",
                when=_RANGE_MATTERS & IS_DCP,
                unknown=(CUT_OFF, _NOTIFIER_UNKNOWN, DIALECT_UNKNOWN),
                facts=("start", "ask_snap_start", "ask_snap_end"),
                name="snapshot",
            ),
            Check(
                "stream_answers",
                ~col.status.one_of((enums.SUCCESS, _ROLLBACK)),
                "a stream request from {start} to {end} in the snapshot {ask_snap_start} to {ask_snap_end} is answered "
                "with {status}; such a range must be refused with out_of_range (0x22)",
                when=(_ENDS_BEFORE_START | _OUTSIDE_SNAPSHOT) & _RANGE_MATTERS,
                unknown=(*UNDECIDED, CUT_OFF, _NOTIFIER_UNKNOWN, DIALECT_UNKNOWN),
                facts=("start", "end", "ask_snap_start", "ask_snap_end", "status"),
                evidence=("request",),
                name="accepted",
                words={**_END, "status": message_words.STATUSES},
                next_step="look at the first marker and items behind frame {frame}: the producer takes the range for "
                "something else than the client meant, so what is missing or comes twice depends on its release",
            ),
            Check(
                "stream_answers",
                col.status.differs(_OUT_OF_RANGE),
                "a stream request from {start} to {end} in the snapshot {ask_snap_start} to {ask_snap_end} is refused "
                "as out of range; this range makes sense, so it must be granted, or be sent back with a rollback",
                when=~_ENDS_BEFORE_START
                & ~_OUTSIDE_SNAPSHOT
                & ~col.flags.has(_OWN_END)
                & _RANGE_MATTERS
                & (col.start <= col.least_high),
                unknown=(*UNDECIDED, CUT_OFF, _NOTIFIER_UNKNOWN, DIALECT_UNKNOWN),
                facts=("start", "end", "ask_snap_start", "ask_snap_end"),
                evidence=("request",),
                name="refused",
                words=_END,
                next_step="look at whether the client gives up behind frame {frame}, or asks with the same range for "
                "ever: it has no way to find out what is wrong",
            ),
        ),
        excuses=(
            Excuse("a stream that starts at what is newest has no range", "from-latest-anywhere"),
            Excuse("a notifier waits for a seqno that is still to come", "notifier"),
            Excuse("other refusals are decided before the range", "error-replies"),
            Excuse("a server puts in an end of its own: the high seqno, or that of what is on disk", "error-replies"),
        ),
        source="DcpProducer::checkConditionsForStreamRequest",
        bugs=("MB-19843",),
        limits="in builds of May 2014 only start and end, for requests have no snapshot; refusals of a start that may "
        "be beyond the high seqno",
        next_step="find out where the client of frame {frame} has these numbers from: after a resume they are the last "
        "seqno that it has, and the start and end of the snapshot that this lies in",
    ),
    Rule(
        "FOL-06",
        Severity.ERROR,
        "a client goes on only on a branch that the producer has",
        "When a stream request with a uuid and a start beyond 0 is granted, the failover log that comes with it has "
        "this uuid.",
        (
            Check(
                "stream_answers",
                col.in_log.true(),
                "a stream request from {start} on is granted, and the failover log that comes with it does not have "
                "the uuid of the request; the client must be sent back to 0",
                when=col.status.equals(enums.SUCCESS) & (col.start > 0) & col.vbucket_uuid.differs(0) & HISTORY_BOUND,
                unknown=(
                    *UNDECIDED,
                    CUT_OFF,
                    Unknown("gap", ~col.log_known.true()),
                    DIALECT_UNKNOWN,
                    _NOTIFIER_UNKNOWN,
                ),
                facts=("start", "vbucket_uuid"),
                evidence=("request",),
            ),
        ),
        dialects=("dcp",),
        excuses=(
            Excuse("a stream that starts at what is newest is on no branch yet", "from-latest-anywhere"),
            Excuse("a notifier is on no branch", "notifier"),
        ),
        source="FailoverTable::needsRollback",
        limits="logs that are not in order",
        next_step="compare the documents of the client with the bucket's from seqno {start} back to where the branches "
        "part: the client keeps changes that the producer never had, and nobody will tell it",
    ),
)
RULES: tuple[Rule, ...] = tuple(sorted((*_LOGS_AND_RANGES, *rollback.RULES), key=lambda rule: rule.id))
