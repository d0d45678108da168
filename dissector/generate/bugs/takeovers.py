"""Bugs of takeovers: states without an answer, markers without a confirmation, items behind the last state.

Each story is the shortest exchange that leads to it. Must not know the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.bugs.model import Bug, Story
from dissector.generate.scenarios.replication import ACTIVE, EARLY_PENDING, FROM_DISK, PENDING
from dissector.generate.scenarios.setup import RELEASE_3, RELEASE_4, modern, plain
from dissector.generate.session import ACK, CHECKPOINT, DISK, MEMORY, SECOND, TAKEOVER
from dissector.spec.model import Release

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Emission
    from dissector.generate.session import Session, Stream


def _modern_takeover(chance: random.Random, vbucket: int, last: int) -> tuple[Session, Stream]:
    """Open a connection of 5.x and hand over what a vbucket has, up to the states."""
    name = f"replication:n0->n1:takeover:{vbucket}"
    session = modern(chance, name, collections=False, controls=(), era=Release(5, 5))
    stream = session.stream(vbucket, flags=TAKEOVER)
    stream.follow(last - 4, FROM_DISK)
    stream.follow(last, MEMORY | CHECKPOINT | ACK)
    stream.confirm_marker()
    return session, stream


def _state(stream: Stream, state: int) -> Emission:
    """Set the vbucket's state on the other side; nothing is answered."""
    return stream.produce("set_vbucket_state", fields={"vbucket_state": state})


def _never_finished(chance: random.Random) -> Story:
    session, stream = _modern_takeover(chance, 344, 14)
    guilty = _state(stream, PENDING)
    # The other side does not answer, but lives: no-ops come and go.
    session.idle(95)
    session.failover_log(344)
    because = "the state pending of vbucket 344 is not answered for 95 seconds, and the takeover stands still"
    return Story([session.conversation]).shows("OPQ-02", because, guilty)


def _hung(chance: random.Random) -> Story:
    session, stream = _modern_takeover(chance, 345, 17)
    pending = _state(stream, PENDING)
    session.idle(70)
    active = _state(stream, ACTIVE)
    session.idle(6)
    session.failover_log(345)
    because = "the state pending of vbucket 345 is not answered for more than 70 seconds"
    story = Story([session.conversation]).shows("OPQ-02", because, pending)
    return story.shows("TKO-03", "the state active is sent before pending was answered", active, pending)


def _unconfirmed(chance: random.Random) -> Story:
    session = plain(chance, "replication:takeover:21", era=RELEASE_3)
    stream = session.stream(21, flags=TAKEOVER)
    stream.follow(12, DISK)
    marker = stream.follow(19, MEMORY | CHECKPOINT | ACK)[0]
    # All of the snapshot is there, and the consumer does not confirm it: the takeover stalls.
    session.idle(75)
    state = stream.state(EARLY_PENDING)
    session.idle(6)
    because = "the snapshot 13 to 19 is not confirmed for 75 seconds, though its marker asks for it"
    story = Story([session.conversation]).shows("SNP-10", because, marker)
    story.shows("TKO-04", "the state pending is set, and the marker before it was not confirmed", state, marker)
    return story.shows("OPQ-02", because, marker)


def _behind_active(chance: random.Random) -> Story:
    session = plain(chance, "replication:takeover:902", era=RELEASE_4)
    stream = session.stream(902, flags=TAKEOVER)
    stream.follow(20, DISK)
    stream.follow(26, MEMORY | CHECKPOINT | ACK)
    stream.confirm_marker()
    stream.state(PENDING)
    stream.follow(28, MEMORY | ACK)
    stream.confirm_marker()
    active = stream.state(ACTIVE)
    # A write came through while the state changed; the other node is active already, and has no snapshot for it.
    guilty = stream.items(29, 29)[0]
    stream.end()
    session.idle(6)
    story = Story([session.conversation])
    story.shows("SNP-02", "seqno 29 is outside of the snapshot 27 to 28", guilty)
    return story.shows("TKO-02", "seqno 29 comes behind the state active", guilty, active)


def _active_at_once(chance: random.Random) -> Story:
    session, stream = _modern_takeover(chance, 346, 15)
    guilty = stream.state(ACTIVE)
    stream.end()
    session.idle(6)
    because = "the first state of the takeover is active; pending must come before"
    return Story([session.conversation]).shows("TKO-01", because, guilty)


def _pending_as_replica(chance: random.Random) -> Story:
    session, stream = _modern_takeover(chance, 347, 19)
    guilty = stream.state(EARLY_PENDING)
    session.pending_ns = SECOND // 10
    stream.follow(21, MEMORY | ACK)
    stream.confirm_marker()
    stream.state(ACTIVE)
    stream.end()
    session.idle(6)
    because = "the state before active is 2, which every receiver reads as replica; pending is 3"
    return Story([session.conversation]).shows("TKO-07", because, guilty)


BUGS: tuple[Bug, ...] = (
    Bug(
        "MB-29541",
        "a takeover never finished, because a vbucket state was not answered",
        "The producer sets the state on the other side and waits for the answer, which did not come: the takeover "
        "stands still, and the rebalance with it. In the capture the state pending of vbucket 344 is never answered, "
        "while no-ops go on.",
        ("OPQ-02",),
        silent=(("TKO-03", "it judges what a producer sends without having the answer; this one waits"),),
        tell=_never_finished,
        era="5.0 and later",
    ),
    Bug(
        "MB-45523",
        "a takeover hung, because a vbucket state was not answered",
        "Named with MB-29541 for a takeover that hangs at a state. In the capture the state pending of vbucket 345 is "
        "not answered for more than a minute; then active is sent without that answer, and is not answered either.",
        ("OPQ-02", "TKO-03"),
        tell=_hung,
        era="5.0 and later",
    ),
    Bug(
        "MB-11721",
        "a takeover stalled, because a marker was not confirmed",
        "Since then the markers of a takeover's last phase ask for a confirmation, and states are set only when all "
        "are confirmed. In the capture the snapshot 13 to 19 is complete and never confirmed; after more than a minute "
        "the state pending is set all the same.",
        ("SNP-10", "TKO-04", "OPQ-02"),
        tell=_unconfirmed,
        era="3.0 to 4.1",
    ),
    Bug(
        "MB-17766",
        "a mutation came behind the state active of a takeover",
        "A race: while the vbucket changed hands a write still got into the stream, behind the state that makes the "
        "other node active. It lies in no snapshot, and the consumer crashed over it. In the capture seqno 29 of "
        "vbucket 902 comes behind the answer to the state active.",
        ("SNP-02", "TKO-02"),
        tell=_behind_active,
        era="4.1.1 and later",
    ),
    Bug(
        "MB-17861",
        "the states of a takeover came in another order than pending, active",
        "Known as a break of the rule that a takeover sets pending, then active, without the exchange that led to it. "
        "The capture shows the plainest form: active comes first.",
        ("TKO-01",),
        tell=_active_at_once,
        era="5.0 and later",
    ),
    Bug(
        "MB-16292",
        "a vbucket became a replica during its takeover",
        "Servers up to 4.1.0 send 2 for pending, as the documents say; receivers of all releases read 2 as replica. "
        "Later servers send 3. In the capture a server of a later release sends 2 none the less.",
        ("TKO-07",),
        tell=_pending_as_replica,
        era="5.0 and later",
    ),
)
