"""SEQ: revisions and CAS values, which grow with the seqnos of a document (SEQ-04 to SEQ-06)."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.streams.documents import CLOCK
from analysis.rules.conditions import KEY_ONLY, at_least, maybe
from analysis.rules.expressions import col
from analysis.rules.model import Check, Excuse, Rule, Severity, Unknown

_DAY_S = 24 * 3600
_ALL_ONES = -1  #: 2^64 - 1 as a signed number
_REVISED = (kinds.MUTATION, kinds.DELETION, kinds.EXPIRATION, kinds.PREPARE)
_TOMBSTONES = (kinds.DELETION, kinds.EXPIRATION)

#: A document that came before in the same stream, both with a revision and a CAS of their own.
_VERSIONS = (
    col.version_opcode.one_of(_REVISED)
    & (col.by_seqno > col.version_seqno)
    & (col.version_rev > 0)
    & (col.rev_seqno > 0)
    & ~col.draft.true()
)
_LOST_SINCE_VERSION = Unknown("gap", col.key_gap > col.version_ordinal)
#: Another cluster wrote something between the two versions, or one of them.
_FOREIGN = Unknown("foreign", col.foreign_ordinal >= col.version_ordinal)
#: One of the two is a key from disk: such a one has CAS 0 and revision 1, whatever came before.
_KEY_FROM_DISK = col.cas.equals(0) | col.version_cas.equals(0)
_CLOCKED = col.revised & at_least(4, 5) & ~col.draft.true()

RULES: tuple[Rule, ...] = (
    Rule(
        "SEQ-04",
        Severity.ERROR,
        "revisions of a document increase",
        "Of two versions of a document in a stream, the one with the greater seqno has the greater revision. Undecided "
        "where another cluster must have written one of the two, or something between them: a revision above the "
        "seqno, or a CAS below that of the item before, other than a deletion's.",
        (
            Check(
                "revisions",
                col.rev_seqno > col.version_rev,
                "the document has revision {rev_seqno} at seqno {by_seqno}, and had {version_rev} at seqno "
                "{version_seqno} (frame {version_frame}); it must have grown",
                # A tombstone that was purged takes the revision with it.
                when=_VERSIONS & ~col.version_opcode.one_of(_TOMBSTONES) & ~(KEY_ONLY & _KEY_FROM_DISK),
                unknown=(_LOST_SINCE_VERSION, _FOREIGN, Unknown("setup", _KEY_FROM_DISK & maybe("open_no_value"))),
                facts=("rev_seqno", "by_seqno", "version_rev", "version_seqno", "version_frame"),
            ),
        ),
        excuses=(
            Excuse("writes with metadata bring their own revision", "with-meta"),
            Excuse("revisions start again when the tombstone was purged", "purged-tombstone"),
            Excuse("a prepare and what it became share the revision", "disk-prepares"),
            Excuse("streams of keys alone have revision 1 for all that is read from disk", "key-only"),
        ),
        source="revisions count the changes of a document",
        bugs=("MB-48179", "MB-48713", "MB-23713"),
        limits="Replication between clusters shows only by its traces: a first document of another cluster that leaves "
        "none may be blamed. Across streams, and behind a tombstone, nothing is compared.",
        next_step="find out who wrote the key of frame {frame} between seqnos {version_seqno} and {by_seqno}: "
        "replication between clusters (XDCR) and cbrestore bring revisions of their own; if nobody did, compare the "
        "document's metadata on active and replica, for conflict resolution keeps the higher revision",
    ),
    Rule(
        "SEQ-05",
        Severity.WARNING,
        "CAS values of a document increase",
        "Of two versions of a document in a stream whose revisions follow each other, the later one has the greater "
        "CAS. Judged where both are hybrid clocks, and nothing from the earlier one on came from another cluster.",
        (
            Check(
                "revisions",
                col.cas > col.version_cas,
                "the document has CAS {cas} at seqno {by_seqno}, and had {version_cas} at seqno {version_seqno} "
                "(frame {version_frame}); it must have grown",
                when=_VERSIONS
                # The vbucket's own next version, by its revision.
                & col.rev_seqno.equals(col.version_rev + 1)
                & (col.cas >= CLOCK)
                & (col.version_cas >= CLOCK),
                unknown=(
                    _LOST_SINCE_VERSION,
                    Unknown(
                        "foreign", (col.foreign_ordinal >= col.version_ordinal) & (col.foreign_ordinal < col.ordinal)
                    ),
                ),
                facts=("cas", "by_seqno", "version_cas", "version_seqno", "version_frame"),
            ),
        ),
        since="4.0",
        excuses=(
            Excuse("writes with metadata bring the CAS of another cluster", "with-meta"),
            Excuse("a CAS is a hybrid clock since 4.0 only", "old-cas"),
            Excuse("a prepare and what it became share the CAS", "disk-prepares"),
            Excuse("streams of keys alone have CAS 0 for all that is read from disk", "key-only"),
        ),
        source="hybrid clocks, MB-12926",
        bugs=("MB-17517",),
        limits="Versions between which others were replaced are not compared: their revisions leave one out.",
        next_step="compare the clocks of the nodes and the vbucket's max_cas on both (cbstats vbucket-details): a "
        "failover to a node whose clock is behind explains it if the max_cas was lost; clients that use the CAS of "
        "frame {version_frame} now overwrite seqno {by_seqno}",
    ),
    Rule(
        "SEQ-06",
        Severity.WARNING,
        "a CAS is a time, and not one to come",
        "The CAS of a document is neither 0 nor all ones, and as a clock not more than a day ahead of the capture.",
        (
            Check(
                "documents",
                col.cas.differs(0),
                "the CAS of seqno {by_seqno} is 0; it must be a time",
                when=_CLOCKED & ~KEY_ONLY,
                unknown=(Unknown("setup", col.cas.equals(0) & maybe("open_no_value")),),
                facts=("by_seqno",),
                root="serial",
                name="zero",
                next_step="read the document of frame {frame} on the producer with its metadata: if it is 0 there, "
                "find out what wrote it, such as a write with metadata: conflict resolution by time always loses it",
            ),
            Check(
                "documents",
                col.cas.differs(_ALL_ONES),
                "the CAS of seqno {by_seqno} is 2^64 - 1; it must be a time",
                when=_CLOCKED,
                facts=("by_seqno",),
                root="serial",
                name="all-ones",
            ),
            Check(
                "documents",
                col.cas_ahead_s <= _DAY_S,
                "the CAS of seqno {by_seqno} is {cas_ahead_s:,} seconds ahead of the capture; more than a day is no "
                "clock drift",
                when=_CLOCKED & col.cas.differs(_ALL_ONES),
                unknown=(Unknown("setup", col.time_ns < CLOCK),),
                facts=("by_seqno", "cas", "cas_ahead_s"),
                root="serial",
                name="ahead",
                next_step="check the clock of the machine that captured first; if that is right, look at the vbucket's "
                "max_cas and drift (cbstats vbucket-details) on the producer and on clusters that replicate to it: "
                "every later CAS is ahead as well",
            ),
        ),
        since="4.5",
        excuses=(
            Excuse("a CAS is a hybrid clock since 4.0 only", "old-cas"),
            Excuse("streams of keys alone have CAS 0 for all that is read from disk", "key-only"),
        ),
        source="hybrid clocks; a poisoned clock is never caught up with",
        bugs=("MB-17517",),
        limits="Silent until the connection shows that its producer is of 4.5 or later, and where the capture's own "
        "clock is from before 2010.",
        next_step="look at the vbucket's max_cas on the producer (cbstats vbucket-details): a poisoned one, as in "
        "MB-17517, never comes down, and the document of frame {frame} can't be changed by replication any more",
    ),
)
