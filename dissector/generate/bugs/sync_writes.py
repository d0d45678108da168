"""Bugs of durable writes: aborts that are refused, prepares that are open twice, what 6.5 had wrong with replicas.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.modern import FROM_DISK
from dissector.generate.scenarios.replication import durable_write, marker
from dissector.generate.scenarios.setup import modern, replica
from dissector.generate.session import CHECKPOINT, MEMORY, REASON_CLOSED, SECOND, TAKEOVER
from dissector.spec import enums
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation, Emission

_ENOENT, _EINVAL = map(enums.STATUSES.number, ("key_not_found", "invalid_arguments"))


def _refused_abort(chance: random.Random) -> Story:
    session = replica(chance, "n1", collections=False)
    stream = session.stream(702)
    marker(stream, 0, 9, FROM_DISK, visible=9)
    stream.items(1, 9)
    stream.acknowledge(9)
    durable_write(stream, 10, b"seat-1", 9)
    durable_write(stream, 12, b"seat-2", 11, aborted=True)
    abort = session.conversation.emissions[-1]
    session.acking = False
    # The abort is as it has to be; the consumer's check wants one without a key.
    guilty = stream.reject("abort", _EINVAL)
    because = "the abort of seqno 13 is refused with invalid arguments, though it is well made"
    return Story([session.conversation]).shows("OPQ-11", because, guilty, abort)


def _two_prepares(chance: random.Random) -> Story:
    session = replica(chance, "n2", collections=False)
    stream = session.stream(703)
    marker(stream, 0, 6, FROM_DISK, visible=6)
    stream.items(1, 6)
    stream.acknowledge(6)
    seqno, visible = durable_write(stream, 7, b"seat-4", 6)
    marker(stream, seqno, seqno, MEMORY | CHECKPOINT, visible=visible)
    first = stream.prepare(seqno, b"seat-5", b'{"by":"one"}')
    stream.acknowledge(seqno)
    # Neither commit nor abort: the key is prepared again.
    marker(stream, seqno + 1, seqno + 1, MEMORY | CHECKPOINT, visible=visible)
    guilty = stream.prepare(seqno + 1, b"seat-5", b'{"by":"two"}')
    stream.acknowledge(seqno + 1)
    session.idle(6)
    because = f"seat-5 is prepared at seqno {seqno + 1}, and what was prepared at seqno {seqno} is not completed"
    return Story([session.conversation]).shows("SEQ-09", because, guilty, first)


def _replica_of_6_5(chance: random.Random) -> tuple[Conversation, dict[str, tuple[Emission, ...]]]:
    """Write the leg to a replica: a disk marker without a completed seqno, no new checkpoint, a second commit."""
    session = replica(chance, "n3", collections=False)
    stream = session.stream(7)
    short = stream.marker(0, 12, FROM_DISK)  # the old form, which has no high completed seqno
    stream.items(1, 12)
    stream.acknowledge(12)
    unmarked = stream.marker(13, 13, MEMORY, max_visible_seqno=12, high_completed_seqno=0)
    stream.prepare(13, b"seat-9")
    stream.acknowledge(13)
    marker(stream, 14, 14, MEMORY, visible=14)
    commit = stream.complete("commit", 14, 13, b"seat-9")
    marker(stream, 15, 15, MEMORY | CHECKPOINT, visible=15)
    again = stream.complete("commit", 15, 13, b"seat-9")
    session.acking = False
    refusal = stream.reject("commit", _EINVAL)
    shown = {
        "SNP-09": (short,),
        "SNP-13": (unmarked, short),
        "SEQ-08": (again, commit),
        "OPQ-11": (refusal, again),
    }
    return session.conversation, shown


def _takeover_of_6_5(chance: random.Random) -> tuple[Conversation, tuple[Emission, ...]]:
    """Write a takeover that gets an item under the opaque of the stream before it."""
    session = modern(
        chance, "replication:n1->n3:default", number=1, collections=False, era=Release(6, 5), begin_ns=2 * SECOND
    )
    old = session.stream(8)
    old.follow(8, FROM_DISK)
    old.close()
    old.end(REASON_CLOSED)
    uuid = session.bucket.vbucket(8).uuid
    fresh = session.stream(8, 8, uuid=uuid, snapshot=(8, 8), flags=TAKEOVER)
    fresh.marker(8, 10, MEMORY | CHECKPOINT)
    right, fresh.opaque = fresh.opaque, old.opaque
    guilty = fresh.items(9, 10)[0]
    fresh.opaque = right
    session.acking = False
    return session.conversation, (guilty, old.reject("mutation", _ENOENT))


def _first_of_6_5(chance: random.Random) -> Story:
    leg, shown = _replica_of_6_5(chance)
    takeover, stale = _takeover_of_6_5(chance)
    story = Story([leg, takeover])
    story.shows("SNP-09", "the disk snapshot 0 to 12 has no high completed seqno", *shown["SNP-09"])
    story.shows("SNP-13", "the memory marker 13 to 13 behind it starts no checkpoint", *shown["SNP-13"])
    story.shows("SEQ-08", "the prepare of seqno 13 is committed at seqno 14 and again at seqno 15", *shown["SEQ-08"])
    story.shows("OPQ-11", "the replica refuses the second commit", *shown["OPQ-11"])
    return story.shows("OPQ-04", "an item of the takeover has the opaque of the stream before it", *stale)


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-34122",
        "consumers refused every abort of a durable write",
        "The check of incoming messages wanted an abort to have no key, and an abort has one. So a replica refused "
        "each, the connection ended, and the write stayed open. In the capture the abort of seqno 13 is as it has to "
        "be, and is answered with invalid arguments.",
        ("OPQ-11",),
        silent=(("FRM-04", "the abort is well made: that this rule holds shows that the refusal is wrong"),),
        tell=_refused_abort,
        era="6.5",
    ),
    Bug(
        "MB-34562",
        "a key had two open prepares",
        "A document was prepared again before its last prepare was committed or aborted. A replica that follows has "
        "two open writes of one key, where there can be one. In the capture seat-5 is prepared at two seqnos, one "
        "after the other.",
        ("SEQ-09",),
        tell=_two_prepares,
        era="6.5",
    ),
    Bug(
        "MB-36971",
        "replicas and takeovers of the first release with durable writes",
        "Several defects go under this number: disk markers without the high completed seqno, from disk to memory "
        "without a new checkpoint, a prepare that is committed again, and, during takeovers, items under the opaque of "
        "the stream before, which tore the connection down. The capture shows each: the first connection is that of a "
        "replica, the second one a takeover.",
        ("SNP-09", "SNP-13", "SEQ-08", "OPQ-11", "OPQ-04"),
        tell=_first_of_6_5,
        era="6.5",
    ),
)
