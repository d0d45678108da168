"""What nodes of a cluster do among themselves: replicate, write synchronously, hand a vbucket over, by a relay or not.

Each function writes conversations that recorded servers would have written; must not know rules or faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.relay import Relay
from dissector.generate.scenarios.setup import RELEASE_3, plain, replica
from dissector.generate.session import ACK, CHECKPOINT, DISK, MEMORY, TAKEOVER

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.session import Session, Stream

FROM_DISK = DISK | CHECKPOINT
ACTIVE = 1
PENDING, EARLY_PENDING = 3, 2  #: on the wire since 4.1.1, and before that


def marker(stream: Stream, start: int, end: int, flags: int, visible: int, completed: int = 0) -> None:
    """Announce a snapshot to a replica: form V2.0; only disk snapshots know a high completed seqno."""
    stream.marker(start, end, flags, max_visible_seqno=visible, high_completed_seqno=completed)


def _sync_writes(chance: random.Random, _size: Size) -> list[Conversation]:
    session = replica(chance, "n1", collections=False)
    stream = session.stream(0)
    # From disk a commit comes as the mutation it made, and an abort without its prepare (SEQ-08).
    marker(stream, 0, 12, FROM_DISK, visible=12, completed=8)
    for seqno in range(1, 6):
        stream.mutation(seqno, b"plain-%d" % seqno)
    stream.prepare(6, b"durable-6", b'{"n":6}')
    rev, cas = session.bucket.vbucket(0).version(6, 0, b"durable-6")
    stream.mutation(7, b"durable-6", b'{"n":6}', rev_seqno=rev, cas=cas)
    stream.complete("abort", 9, 8, b"given-up-8")
    stream.mutation(12, b"plain-12")
    stream.acknowledge(12)
    seqno, visible = 13, 12
    for turn in range(6):
        seqno, visible = durable_write(stream, seqno, b"key-%d" % turn, visible, aborted=turn == 3)
    # Two writes at once: the replica acknowledges the later one, which covers both.
    marker(stream, seqno, seqno + 1, MEMORY, visible=visible)
    stream.prepare(seqno, b"pair-a", durability_level=2)
    stream.prepare(seqno + 1, b"pair-b", durability_level=3)
    stream.acknowledge(seqno + 1)
    marker(stream, seqno + 2, seqno + 4, MEMORY, visible=seqno + 4)
    stream.complete("commit", seqno + 2, seqno, b"pair-a")
    stream.complete("commit", seqno + 3, seqno + 1, b"pair-b")
    stream.mutation(seqno + 4, b"plain-again")
    # And one that was committed at once: both are in one snapshot.
    marker(stream, seqno + 5, seqno + 6, MEMORY, visible=seqno + 6)
    stream.prepare(seqno + 5, b"quick")
    stream.complete("commit", seqno + 6, seqno + 5, b"quick")
    stream.acknowledge(seqno + 5)
    session.idle(6)
    return [session.conversation]


def durable_write(stream: Stream, seqno: int, key: bytes, visible: int, *, aborted: bool = False) -> tuple[int, int]:
    """Prepare, acknowledge and complete a write in two snapshots; return the next free and the last visible seqno."""
    marker(stream, seqno, seqno, MEMORY | CHECKPOINT, visible=visible)
    stream.prepare(seqno, key, b'{"key":"%s"}' % key)
    stream.acknowledge(seqno)
    # Nobody sees what was aborted.
    visible = visible if aborted else seqno + 1
    marker(stream, seqno + 1, seqno + 1, MEMORY, visible=visible)
    stream.complete("abort" if aborted else "commit", seqno + 1, seqno, key)
    stream.session.keep_alive()
    return seqno + 2, visible


def hand_over(session: Session, stream: Stream, pending: int, snapshots: tuple[int, ...], last: int) -> None:
    """Send the last snapshots of a takeover, each confirmed after its last item, then the states and the end."""
    for end in snapshots:
        stream.follow(end, MEMORY | ACK)
        stream.confirm_marker()
    stream.state(pending)
    # What was written until the old node became dead still comes, and is confirmed as well.
    stream.follow(last, MEMORY | ACK)
    stream.confirm_marker()
    stream.state(ACTIVE)
    stream.end()
    session.idle(6)


def _takeover_early(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "replication:takeover:3", era=RELEASE_3)
    stream = session.stream(3, flags=TAKEOVER)
    stream.follow(25, DISK, holes=0.1)
    stream.follow(32, MEMORY | CHECKPOINT)
    hand_over(session, stream, EARLY_PENDING, (41, 47), 50)
    return [session.conversation]


def _takeover(chance: random.Random, _size: Size) -> list[Conversation]:
    session = replica(chance, "n1")
    stream = session.stream(3, flags=TAKEOVER)
    marker(stream, 0, 25, FROM_DISK, visible=25)
    stream.items(1, 25, holes=0.1)
    stream.acknowledge(25)
    for end in (34, 40):
        marker(stream, stream.snap_end + 1, end, MEMORY | ACK | (CHECKPOINT if end == 34 else 0), visible=end)
        stream.items(stream.last + 1, end)
        stream.confirm_marker()
    stream.state(PENDING)
    marker(stream, 41, 43, MEMORY | ACK, visible=43)
    stream.items(41, 43)
    stream.confirm_marker()
    stream.state(ACTIVE)
    stream.end()
    session.idle(6)
    return [session.conversation]


def _relay(chance: random.Random, _size: Size) -> list[Conversation]:
    relay = Relay(chance, "replication:n0->n1:default")
    relay.open()
    asked = [relay.add_stream(vbucket) for vbucket in (0, 1, 2)]
    relay.set_up((("connection_buffer_size", "20480"), ("enable_noop", "true"), ("set_noop_interval", "20")))
    for each in asked:
        relay.request(each)
    for each in asked:
        relay.accept(each)
    relay.confirm(asked[0])
    for each in asked:
        relay.snapshot(each, 14, DISK)
    # The answers of the others come after their first items.
    relay.confirm(asked[1])
    relay.confirm(asked[2])
    for end in (22, 30):
        for each in asked:
            relay.snapshot(each, end, MEMORY | CHECKPOINT)
    relay.idle(21)
    relay.close(asked[0])
    return relay.conversations


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "sync-writes",
        "a replica of 7.x: prepares, commits and aborts, acknowledged",
        _sync_writes,
        "dcp",
        "6.5 and later",
        (
            ("SNP-05", "a prepare and its commit, or the mutation it became on disk, are in different name spaces"),
            ("SNP-09", "the max visible seqno may lie below the start; memory snapshots complete nothing"),
            ("SEQ-04", "a prepare and what it became share the revision"),
            ("SEQ-05", "a prepare and what it became share the CAS"),
            ("SEQ-08", "from disk an abort comes without its prepare"),
            ("SEQ-10", "a replica acknowledges the end of a disk snapshot"),
            ("FLC-01", "a prepare counts two bytes more than it has"),
        ),
    ),
    Scenario(
        "takeover",
        "a vbucket is handed over; pending is 3",
        _takeover,
        "dcp",
        "6.5 and later",
        (
            ("OPQ-01", "answers to markers and states have the stream's opaque"),
            ("SNP-02", "states and stream ends have no seqno"),
            ("SEQ-03", "a takeover has no end: it ends with the state"),
            ("SEQ-10", "a replica acknowledges the end of a disk snapshot that has no prepare"),
            ("TKO-02", "behind pending, what was written until the old node became dead still comes"),
            ("TKO-04", "a snapshot of the backfill asks for no confirmation"),
        ),
    ),
    Scenario(
        "takeover-3x",
        "a vbucket is handed over; pending is 2",
        _takeover_early,
        "dcp",
        "3.0 to 4.1.0",
        (
            ("OPQ-01", "answers to markers and states have the stream's opaque"),
            ("SEQ-03", "a takeover has no end: it ends with the state"),
            ("TKO-01", "up to 4.1.0 pending is 2, and later 3"),
            ("TKO-07", "up to 4.1.0 pending is 2; nothing shows that this server is newer"),
        ),
    ),
    Scenario(
        "relay",
        "ns_server between two nodes: one connection to the producer, one to the consumer",
        _relay,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-01", "both legs have the same messages: each is a connection of its own"),
            ("OPQ-05", "the answer to add stream has the stream's opaque byte-reversed, and may come late"),
            ("NOP-01", "a relay hands no-ops and answers on as they are"),
        ),
    ),
)
