"""Vbuckets that are handed over in other ways than usual: given up, closed, relayed, from an older node, and back.

Each scenario is about exceptions of the rules on takeovers (TKO); the reasons stand beside it. Must not know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.relay import Relay
from dissector.generate.scenarios.replication import ACTIVE, EARLY_PENDING, PENDING, hand_over
from dissector.generate.scenarios.setup import ALT_REQUEST, JSON_VALUES, XATTR, XERROR, modern, plain
from dissector.generate.session import ACK, CHECKPOINT, DISK, MEMORY, REASON_CLOSED, REASON_STATE, TAKEOVER

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size
    from dissector.generate.scenarios.relay import Relayed

_CONTROLS = (("connection_buffer_size", "20480"), ("enable_noop", "true"), ("set_noop_interval", "20"))
_FROM_DISK = DISK | CHECKPOINT


def _aborted(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "replication:aborted", collections=False)
    # Given up before the first state, behind pending, and while pending waits for its answer.
    streams = [session.stream(vbucket, flags=TAKEOVER) for vbucket in (3, 4, 5)]
    for stream in streams:
        stream.follow(15, _FROM_DISK)
        stream.follow(21, MEMORY | CHECKPOINT | ACK)
        stream.confirm_marker()
    early, pending, waiting = streams
    early.end(REASON_STATE)
    pending.state(PENDING)
    pending.end(REASON_STATE)
    state = waiting.frame("set_vbucket_state", fields={"vbucket_state": PENDING})
    session.send(session.producer, state)
    waiting.end(REASON_STATE)
    answer = session.frame("set_vbucket_state", response=True, opaque=waiting.opaque)
    session.send(session.consumer, answer, unheard=1)
    session.idle(6)
    return [session.conversation]


def _closed(chance: random.Random, _size: Size) -> list[Conversation]:
    session = modern(chance, "replication:closed", collections=False)
    stream = session.stream(3, flags=TAKEOVER)
    stream.follow(15, _FROM_DISK)
    stream.follow(21, MEMORY | CHECKPOINT | ACK)
    stream.confirm_marker()
    stream.state(PENDING)
    stream.state(ACTIVE)
    # The consumer has what it wants and closes the stream before the producer ends it.
    stream.close()
    stream.end(REASON_CLOSED)
    session.idle(6)
    return [session.conversation]


def _back(chance: random.Random, _size: Size) -> list[Conversation]:
    session = plain(chance, "replication:back")
    stream = session.stream(3, flags=TAKEOVER)
    stream.follow(15, DISK)
    hand_over(session, stream, EARLY_PENDING, (21,), 24)
    # The vbucket comes back as a replica, and somebody streams from it on the same connection.
    uuid = session.bucket.vbucket(3).uuid
    again = session.stream(3, 24, uuid=uuid, snapshot=(24, 24))
    again.follow(33, MEMORY | CHECKPOINT)
    session.idle(6)
    return [session.conversation]


def _relayed(chance: random.Random, _size: Size) -> list[Conversation]:
    relay = Relay(chance, "replication:n0->n1:default")
    relay.open()
    _take_over(relay)
    return relay.conversations


def _upgrade(chance: random.Random, _size: Size) -> list[Conversation]:
    relay = Relay(chance, "replication:n0->n1:default")
    # The new node knows HELLO, and its old partner does not.
    relay.far.hello((XATTR, XERROR, JSON_VALUES, ALT_REQUEST))
    relay.open()
    _take_over(relay)
    return relay.conversations


def _take_over(relay: Relay) -> None:
    """Add a takeover stream and carry it out on both legs."""
    added = relay.add_stream(3, TAKEOVER)
    relay.set_up(_CONTROLS)
    relay.request(added)
    relay.accept(added)
    relay.confirm(added)
    relay.snapshot(added, 14, DISK)
    for end in (20, 24):
        relay.snapshot(added, end, MEMORY | ACK)
        _confirm(relay, added, "snapshot_marker")
    for state in (EARLY_PENDING, ACTIVE):
        frame = relay.near.frame("set_vbucket_state", vbucket=3, opaque=added.opaque, fields={"vbucket_state": state})
        relay.forward(relay.near, relay.near.producer, frame)
        _confirm(relay, added, "set_vbucket_state")
    end_frame = relay.near.frame("stream_end", vbucket=3, opaque=added.opaque, fields={"end_reason": 0})
    relay.forward(relay.near, relay.near.producer, end_frame)
    relay.idle(21)


def _confirm(relay: Relay, added: Relayed, name: str) -> None:
    """Have the consumer answer; the answer goes back to the producer."""
    relay.forward(relay.far, relay.far.consumer, relay.far.frame(name, response=True, opaque=added.opaque))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "takeover-aborted",
        "takeovers that are given up before, behind and during their first state",
        _aborted,
        "dcp",
        "5.0 and later",
        (
            ("SEQ-03", "only reason 0 promises that the end was reached"),
            ("TKO-01", "a rebalance that is given up stops anywhere"),
            ("TKO-03", "a stream that ends because the vbucket changes its state waits for nothing"),
            ("TKO-06", "a takeover that is given up ends for another reason than ok"),
        ),
    ),
    Scenario(
        "takeover-closed",
        "a takeover whose consumer closes the stream before it is ended",
        _closed,
        "dcp",
        "5.5 and later",
        (("TKO-06", "who closes a stream gets the reason closed"),),
    ),
    Scenario(
        "takeover-back",
        "a vbucket that is handed over, and streamed again on the same connection",
        _back,
        "dcp",
        "3.0 to 4.1.0",
        (
            ("SEQ-03", "a takeover has no end: it ends with the state"),
            ("TKO-02", "a new stream of the vbucket is another one: documents may follow"),
        ),
    ),
    Scenario(
        "takeover-relay",
        "a takeover by ns_server: one connection to the producer, one to the consumer",
        _relayed,
        "dcp",
        "3.0 to 4.1.0",
        (
            ("OPQ-01", "answers to markers and states have the stream's opaque"),
            ("SEQ-03", "a takeover has no end: it ends with the state"),
            ("TKO-03", "both legs have the same messages: each is a connection of its own"),
            ("TKO-05", "the add stream's flag takeover is in the stream request, too"),
        ),
    ),
    Scenario(
        "takeover-upgrade",
        "a takeover from a node of 3.x to one that is newer, by ns_server",
        _upgrade,
        "dcp",
        "3.0 to 4.1.0, and 5.0 and later",
        (
            ("OPQ-01", "answers to markers and states have the stream's opaque"),
            ("SEQ-03", "a takeover has no end: it ends with the state"),
            ("TKO-01", "the older node sends 2 for pending, which the newer one reads as replica"),
            ("TKO-07", "what the consumer agreed to says nothing of the producer's release"),
        ),
    ),
)
