"""Relayed streams that go other than usual: rolled back, refused, closed with items in flight, half captured.

Each scenario is about exceptions of the rules on add stream and on closing (OPQ); the reasons stand beside it. Must not
know faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.generate.conversation import CLIENT
from dissector.generate.scenario import Scenario
from dissector.generate.scenarios.relay import Relay
from dissector.generate.session import CHECKPOINT, DISK, MEMORY
from dissector.spec import enums

if TYPE_CHECKING:
    import random

    from dissector.generate.conversation import Conversation
    from dissector.generate.scenario import Size

_CONTROLS = (("connection_buffer_size", "20480"), ("enable_noop", "true"), ("set_noop_interval", "20"))
_ENOENT, _EEXISTS, _NOT_MY_VBUCKET = map(enums.STATUSES.number, ("key_not_found", "key_exists", "not_my_vbucket"))


def _relay_rollback(chance: random.Random, _size: Size) -> list[Conversation]:
    relay = Relay(chance, "replication:rollback:5")
    relay.open()
    added = relay.add_stream(5)
    relay.set_up(_CONTROLS)
    vbucket = relay.near.bucket.vbucket(5)
    old = vbucket.uuid
    vbucket.fork(20)
    # The replica is ahead of its new active. It takes its time to go back, and asks with the same opaque again.
    relay.request(added, 31, old, (31, 31))
    relay.roll_back(added, 20)
    for _ in range(3):
        relay.idle(22)
    relay.request(added, 20, old, (20, 20))
    relay.accept(added)
    relay.snapshot(added, 28, MEMORY | CHECKPOINT)
    relay.confirm(added)
    relay.snapshot(added, 33, MEMORY | CHECKPOINT)
    relay.idle(21)
    return relay.conversations


def _relay_refused(chance: random.Random, _size: Size) -> list[Conversation]:
    relay = Relay(chance, "replication:n0->n1:default")
    relay.open()
    good, missing = relay.add_stream(0), relay.add_stream(77)
    relay.set_up(_CONTROLS)
    relay.request(good)
    relay.request(missing)
    relay.accept(good)
    # The producer does not have that vbucket: the answer has four bytes, and they are zero.
    refusal = relay.near.frame("stream_request", response=True, opaque=missing.opaque, status=_NOT_MY_VBUCKET)
    relay.forward(relay.near, relay.near.producer, refusal)
    relay.refuse(missing, _NOT_MY_VBUCKET)
    relay.confirm(good)
    relay.snapshot(good, 12, DISK)
    # The consumer has that stream already, and does not ask: the answer has no extras.
    relay.refuse(relay.add_stream(0), _EEXISTS, reached=False)
    relay.snapshot(good, 20, MEMORY | CHECKPOINT)
    relay.idle(21)
    return relay.conversations


def _relay_close_in_flight(chance: random.Random, _size: Size) -> list[Conversation]:
    relay = Relay(chance, "replication:n0->n1:default")
    relay.open()
    added = relay.add_stream(0)
    relay.set_up(_CONTROLS)
    relay.request(added)
    relay.accept(added)
    relay.confirm(added)
    relay.snapshot(added, 12, DISK)
    # The relay closes the consumer's end first; what it still has from the producer goes there none the less.
    far = relay.far
    closing = far.frame("close_stream", vbucket=0, opaque=bytes.fromhex("000000c1"))
    far.ask(CLIENT, closing)
    before = len(far.conversation.emissions)
    relay.snapshot(added, 17, MEMORY | CHECKPOINT)
    late = [each.frame for each in far.conversation.emissions[before:] if each.side == CLIENT]
    for frame in late:
        answer = far.frame(frame.name, response=True, opaque=frame.opaque, status=_ENOENT)
        far.send(far.consumer, answer)
    near = relay.near
    near.ask(CLIENT, near.frame("close_stream", vbucket=0, opaque=bytes.fromhex("000000c2")))
    # The consumer gives back the bytes of what it refused, too.
    relay.idle(21)
    return relay.conversations


def _consumer_leg(chance: random.Random, _size: Size) -> list[Conversation]:
    relay = Relay(chance, "replication:n0->n1:default")
    relay.open()
    added = relay.add_stream(0)
    relay.set_up(_CONTROLS)
    relay.request(added)
    relay.accept(added)
    relay.snapshot(added, 14, DISK)
    relay.confirm(added)
    relay.snapshot(added, 25, MEMORY | CHECKPOINT)
    relay.idle(21)
    return relay.conversations[:1]


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "relay-rollback",
        "a replica that must go back before its stream is there",
        _relay_rollback,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-02", "add stream is answered only when the rollback is done"),
            ("OPQ-05", "a rollback makes the consumer ask several times with one opaque"),
            ("OPQ-12", "a consumer asks again with the same opaque after a rollback"),
        ),
    ),
    Scenario(
        "relay-refused",
        "add streams that fail, at the producer and before it",
        _relay_refused,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-05", "a failed add stream answers with zero, or with no extras when no producer was asked"),
            ("FRM-03", "a refused add stream may have no extras"),
        ),
    ),
    Scenario(
        "relay-close-in-flight",
        "items that reach a consumer behind its close",
        _relay_close_in_flight,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-01", "several refusals of items pair with one stream opaque"),
            ("OPQ-09", "on the consumer's leg items behind the close are normal (MB-34850)"),
            ("OPQ-11", "the refused items were in flight when the stream was closed"),
            ("FLC-04", "a consumer gives back the bytes of items that it refused with ENOENT"),
        ),
    ),
    Scenario(
        "consumer-leg",
        "only the leg to the consumer: its TCP client is the producer",
        _consumer_leg,
        "dcp",
        "3.0 to 4.1",
        (
            ("OPQ-01", "of proxied connections one leg may be captured alone, and says all by itself"),
            ("OPQ-05", "the answer to add stream may come behind the first items"),
        ),
    ),
)
