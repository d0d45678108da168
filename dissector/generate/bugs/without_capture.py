"""Bugs that have no capture here, each with the reason: the wire looks right, or one capture can't show it."""

from __future__ import annotations

from dissector.generate.bugs.model import Bug

_ACROSS = "only a comparison of connections or captures shows it ({})"


def _across(name: str, title: str, doc: str, *rules: str) -> Bug:
    return Bug(name, title, doc, across=rules, why_no_capture=_ACROSS.format(", ".join(rules)))


_LOST_ITEMS = (
    "The stream looks sound: markers, seqnos and order are right, and what is missing looks like an item that was "
    "replaced by a later one. Only another stream of the same vbucket that has the item tells."
)
_HAND_OVER = (
    "Items were lost when a vbucket was handed over: the old node took writes that the takeover no longer carried. "
    "Both nodes' streams look sound by themselves."
)

BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-29040",
        "deletions were sent with datatypes that deletions can't have",
        "Producers sent deletions with xattrs and the datatype of the document they had deleted: 5 and 7, which say "
        "JSON though no document is left. Consumers accept that since then.",
        across=("XCN-01",),
        silent=(("FRM-06", "datatypes 5 and 7 of deletions are accepted since: see the scenario deletion-values"),),
        why_no_capture="what it looks like is accepted today, and FRM-06 lets it pass",
    ),
    Bug(
        "MB-31141",
        "deletions were sent with the datatype of compression",
        "Producers sent deletions with datatype 2, snappy, as MB-29040 did with 5 and 7. Consumers accept that since "
        "then.",
        silent=(("FRM-06", "datatype 2 of deletions is accepted since: see the scenario deletion-values"),),
        why_no_capture="what it looks like is accepted today, and FRM-06 lets it pass",
    ),
    Bug(
        "MB-55678",
        "a valid flag was refused",
        "A server refused a request for a flag that is valid: the mirror image of the rule about flags without a name.",
        silent=(("FRM-08", "the request is right, and whether a refusal is right the capture does not tell"),),
        why_no_capture="the request is right, and a server may refuse what it does not offer",
    ),
    Bug(
        "MB-65564",
        "long snapshot markers were read wrongly",
        "The reader of markers of version 2 was corrected. The markers themselves were right.",
        silent=(("FRM-11", "the marker is right: it was its reader that was not"),),
        why_no_capture="the mistake was in the reader: the wire looks right",
    ),
    Bug(
        "MB-34850",
        "items reach a consumer behind the close of its stream",
        "On the leg from a relay to the consumer, items that were on their way arrive when the consumer's stream is "
        "closed already. That is how it works, and a rule that calls it wrong would lie.",
        silent=(("OPQ-09", "on the consumer's leg this is normal: see the scenario relay-close-in-flight"),),
        why_no_capture="it is an exception of OPQ-09; captures/clean/relay-close-in-flight.pcapng shows it",
    ),
    Bug(
        "MB-52956",
        "a wrong place to resume from after an out-of-order snapshot",
        "Where a client goes on after an out-of-order snapshot was chosen wrongly. The brackets of the snapshot "
        "themselves were in order.",
        across=("SEQ-13",),
        silent=(("SNP-11", "the brackets take turns as they should"),),
        why_no_capture=_ACROSS.format("SEQ-13"),
    ),
    Bug(
        "MB-50333",
        "memory snapshots start with their checkpoint, and commits may name a prepare that was replaced",
        "Since 7.1 a memory marker starts at the checkpoint's first seqno, whose items may be gone; and from disk a "
        "commit may come whose prepare was replaced by a later one. Both are legal.",
        silent=(
            ("SNP-04", "a marker may start higher than right behind the last end: see the scenario dedup"),
            ("SEQ-08", "prepares may be replaced in a disk snapshot: see the scenario disk-prepares"),
        ),
        why_no_capture="what it looks like is legal; captures/clean/dedup.pcapng and disk-prepares.pcapng show it",
    ),
    Bug(
        "MB-16656",
        "replicas merge disk and memory snapshots",
        "A stream from a replica may start a snapshot before the end of the last one, because the replica has merged "
        "two snapshots of its active. It is the exception of the rules about snapshots.",
        why_no_capture="it is an exception of SNP-04 to SNP-06; captures/clean/replica-source.pcapng shows it",
    ),
    Bug(
        "MB-53523",
        "replicas merged disk and memory snapshots until 7.2",
        "Named with MB-16656 for what replicas do with snapshots. Later releases do not merge them.",
        why_no_capture="it is an exception of SNP-04 to SNP-06; captures/clean/replica-source.pcapng shows it",
    ),
    Bug(
        "MB-12926",
        "a CAS is a hybrid clock since 4.0",
        "Before, a CAS was no time of day, and may go back or be 0. It is an exception of the rules about CAS values.",
        why_no_capture="it is an exception of SEQ-05 and SEQ-06; captures/clean/old-cas.pcapng shows it",
    ),
    Bug(
        "MB-71913",
        "long filtered backfills advance seqnos now and then",
        "Inside a filtered backfill a seqno advanced may come before the end of the snapshot. It is an exception of "
        "the rule about seqnos advanced.",
        why_no_capture="it is an exception of SEQ-11; captures/clean/filter-advance.pcapng shows it",
    ),
    Bug(
        "MB-10640",
        "snapshots got a range",
        "At the end of April 2014 stream requests grew from 40 to 48 bytes, and markers from 0 to 20: a change of the "
        "protocol, and no defect.",
        why_no_capture="it is a change of the protocol; the clean captures of the early dialect show what was before",
    ),
    Bug(
        "MB-11298",
        "a producer held a message back because it did not fit into the window",
        "Before, a producer sent only what fitted. A message larger than the room that was left was never sent, while "
        "the consumer waited for enough to give back: a deadlock at a window that is not full. Since then one message "
        "may overshoot.",
        silent=(("FLC-02", "a producer that holds back sends too little, and the rule is about too much"),),
        why_no_capture="a producer that waits looks like one that has nothing to send: its window is not full",
    ),
    Bug(
        "MB-17391",
        "the meaning of the states 2 and 3 was changed back in 3.x",
        "What MB-16292 had corrected was taken back in 3.x: its servers go on to send 2 for pending.",
        silent=(("TKO-07", "2 is what servers of 3.x send: see the scenario takeover-3x"),),
        why_no_capture="what it looks like is right for servers of 3.x; captures/clean/takeover-3x.pcapng shows it",
    ),
    Bug(
        "MB-25785",
        "a client at seqno 0 may be rolled back for its uuid",
        "With the flag strict_vbucket_uuid the uuid must fit even where a client begins at 0; the answer is a rollback "
        "to 0. Without the flag it was a rollback that nobody needed.",
        across=("XCN-11",),
        silent=(("FOL-05", "a rollback from 0 to 0 undoes nothing, and may always be answered"),),
        why_no_capture="a rollback to 0 may always be answered: what was purged is not on the wire",
    ),
    Bug(
        "MB-65403",
        "producers give up on a consumer that gives nothing back",
        "Since then a producer whose window stays full for 720 seconds ends the connection, where it is set so. What "
        "led to it are stalls such as that of MB-63439.",
        why_no_capture="it is what producers do about a stall; captures/bugs/MB-63439.pcapng shows one",
    ),
    Bug(
        "MB-11410",
        "streams of what is on disk end at the last persisted seqno",
        "The source of the rule about such streams; what was persisted when the request was answered stands in other "
        "answers than the stream's own.",
        across=("SEQ-14",),
        why_no_capture=_ACROSS.format("SEQ-14"),
    ),
    _across(
        "MB-11053",
        "a clean hand-over of a vbucket added an entry to its failover log",
        "The new active node began a new branch though nothing was lost: clients were rolled back without need. The "
        "logs of both nodes tell.",
        "FOL-09",
    ),
    _across(
        "MB-10919",
        "a clean hand-over of a vbucket added an entry to its failover log, named together with MB-11053",
        "Known for an extra branch and needless rollbacks of clients. The logs of both nodes tell.",
        "FOL-09",
    ),
    _across(
        "MB-33702",
        "a vbucket that was active already was set active, and its failover log grew",
        "Setting the state that a vbucket has adds no entry. The logs before and after tell.",
        "FOL-10",
    ),
    _across(
        "MB-24817",
        "items were lost when a vbucket was handed over",
        _HAND_OVER,
        "TKO-08",
        "XCN-05",
    ),
    _across(
        "MB-12673",
        "items were lost when a vbucket was handed over, and seqnos came again",
        _HAND_OVER,
        "TKO-08",
        "TKO-09",
    ),
    _across(
        "MB-29287",
        "items were lost when a vbucket was handed over, and streams lacked them",
        _HAND_OVER,
        "TKO-08",
        "TKO-09",
        "XCN-05",
    ),
    _across("MB-16684", "a stream lacked items", _LOST_ITEMS, "XCN-05"),
    _across("MB-13359", "a stream lacked items, named together with MB-16684", _LOST_ITEMS, "XCN-05"),
    _across("MB-56084", "a stream lacked items, named together with MB-16684", _LOST_ITEMS, "XCN-05"),
    _across(
        "MB-43027",
        "failover logs of one vbucket disagreed",
        "Two logs that share an entry must agree on everything older. Each log is in order by itself.",
        "XCN-02",
    ),
    _across(
        "MB-62840",
        "a replica may have kept what it was told to roll back",
        "What a node serves after a rollback must be what the new branch has. Each stream is in order by itself.",
        "XCN-09",
    ),
)
