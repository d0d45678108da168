"""Rules that look from one connection at another, in one capture or many. ``uprscope archive`` checks them with Spark.

Declarations only; :mod:`analysis.archive.xcn_01` computes. Tables and columns are those of the Spark jobs.
"""

from __future__ import annotations

from analysis.rules.expressions import col
from analysis.rules.model import Check, Excuse, Fault, Rule, Severity, Unknown

#: By fact ``what``, how an observation differs from another one of the same seqno; the first that applies.
DIFFERENCES = {
    1: "another kind of message",
    2: "another key",
    3: "revision {rev_seqno} and not {other_rev_seqno}",
    4: "another CAS",
    5: "deleted on one of them only",
    6: "item flags {item_flags:#x} and not {other_item_flags:#x}",
    7: "expiry {expiration} and not {other_expiration}",
    8: "durability level {durability_level} and not {other_durability_level}",
    9: "another value",
}

RULES: tuple[Rule, ...] = (
    Rule(
        "XCN-01",
        Severity.ERROR,
        "what has one seqno on one branch is the same wherever it is seen",
        "A vbucket's history branch and a seqno name one version of one document. Every connection in every capture "
        "that shows this seqno shows the same key, revision, CAS, deletion, flags, expiry, durability level and, where "
        "both carry it as it is, the same value. The branch is that of the failover log that the stream was granted "
        "with: the newest entry whose seqno is below the message's. All violations of one branch are one finding.",
        (
            Check(
                over="versions",
                holds=col.what.equals(0),
                because="seqno {by_seqno} is not the version that connection {other_connection} shows: {what}; on one "
                "branch a seqno must be one version",
                unknown=(Unknown("setup", col.branch.equals(0)),),
                facts=(
                    *("by_seqno", "what", "vbucket_uuid", "rev_seqno", "other_rev_seqno", "item_flags"),
                    *("other_item_flags", "expiration", "other_expiration"),
                    *("durability_level", "other_durability_level"),
                ),
                evidence=("other",),
                root="branch",
                words={"what": DIFFERENCES},
                fault=Fault.PRODUCER,
            ),
        ),
        excuses=(
            Excuse("a key without collection id is one of the default collection", "collections"),
            Excuse("a deletion on one connection is an expiration on another"),
            Excuse("a commit shows as a mutation to who does not know sync writes", "sync-writes"),
            Excuse("values that are compressed, stripped of xattrs or left out are not compared"),
            Excuse("the time of a deletion, nru and lock time may differ"),
            Excuse("after a rollback a seqno means another version, on another branch", "rollback"),
        ),
        source="terminology: history branch; failover log of the stream request",
        bugs=("MB-29040", "split brain"),
        limits="Buckets are told apart by name where it was selected, else by the uuids of their branches. Streams of "
        "several vbuckets under one opaque are not compared.",
        next_step="compare the failover logs of the two producers (cbstats failovers) and the document's metadata on "
        "both: if both have the branch of frame {frame} and another document at seqno {by_seqno}, both were active at "
        "a time, and one side has to be thrown away",
    ),
)
