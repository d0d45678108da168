"""A relay between a producer and a consumer, as ns_server is: two connections, the same messages on both.

Knows who opens which connection and in which order things are forwarded; must not know what is worth relaying.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dissector.generate.bucket import Bucket
from dissector.generate.conversation import CLIENT, LATENCY_NS
from dissector.generate.frame import ALL_THAT_ARRIVED
from dissector.generate.scenarios.setup import RELEASE_3, new_conversation
from dissector.generate.session import SECOND, Session
from dissector.generate.stream import ROLLBACK, pack_log

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from dissector.generate.conversation import Conversation
    from dissector.generate.frame import Frame
    from dissector.generate.stream import Stream
    from dissector.spec.model import Release

_FORWARDING_NS = 60_000  #: from a message's arrival on one leg to its departure on the other


@dataclass(slots=True, eq=False)
class Relayed:
    """A stream that the consumer was told to ask for."""

    vbucket: int
    flags: int
    added: bytes  #: opaque of the add stream
    opaque: bytes = bytes(4)  #: of the stream, the consumer's own
    near: Stream | None = None  #: as the producer's leg has it


class Relay:
    """Both legs. The relay is the TCP client of both; on the leg to the consumer it stands for the producer."""

    def __init__(self, chance: random.Random, name: str, *, era: Release = RELEASE_3, number: int = 0) -> None:
        self.name = name.encode()
        bucket = Bucket()
        self.far = Session(  # to the consumer: its server asks for the streams
            new_conversation(number, name=f"{name} consumer", server="10.0.0.3"),
            chance,
            era=era,
            producer=CLIENT,
            bucket=bucket,
        )
        self.near = Session(
            new_conversation(number + 1, name=f"{name} producer", begin_ns=SECOND // 1000),
            chance,
            era=era,
            bucket=bucket,
        )
        self.next_added = 2
        self.next_opaque = 1
        self.streams = 0

    @property
    def conversations(self) -> list[Conversation]:
        """Return both conversations."""
        return [self.far.conversation, self.near.conversation]

    def open(self) -> None:
        """Open both legs; each open says what role its receiver has."""
        for session in (self.far, self.near):
            session.next_opaque = 0x0100_0000  # the relay counts big-endian: 00000001 on the wire
            session.open(self.name)

    def forward(self, leg: Session, side: int, frame: Frame) -> None:
        """Send a message on one leg and, when it has arrived there, on the other."""
        other = self.far if leg is self.near else self.near
        leg.send(side, frame)
        arrived = leg.conversation.begin_ns + leg.clock_ns + LATENCY_NS
        wait = arrived + _FORWARDING_NS - (other.conversation.begin_ns + other.clock_ns)
        other.pending_ns = max(other.pending_ns, wait)
        # The client of one leg is the relay; what it hears there as a client it says here as one, and vice versa.
        other.send(1 - side, frame.copy())

    def _opaque(self) -> bytes:
        self.next_opaque += 1
        return (self.next_opaque - 1).to_bytes(4, "little")

    def add_stream(self, vbucket: int, flags: int = 0) -> Relayed:
        """Tell the consumer to ask for a stream."""
        added = self.next_added.to_bytes(4, "big")
        self.next_added += 1
        frame = self.far.frame("add_stream", vbucket=vbucket, opaque=added, fields={"stream_flags": flags})
        self.far.send(CLIENT, frame)
        return Relayed(vbucket, flags, added)

    def set_up(self, controls: Sequence[tuple[str, str]]) -> None:
        """Have the consumer set its parameters; the producer's answers go back to it."""
        # A consumer numbers its streams first and counts on from there.
        self.next_opaque = self.next_added - 1
        for key, value in controls:
            frame = self.far.frame("control", key=key.encode(), value=value.encode(), opaque=self._opaque())
            self.forward(self.far, self.far.consumer, frame)
            self.forward(self.near, self.near.producer, frame.copy(response=True, key=b"", value=b""))
            if key == "connection_buffer_size":
                self.far.window = self.near.window = int(value)

    def request(self, relayed: Relayed, start: int = 0, uuid: int = 0, snapshot: tuple[int, int] | None = None) -> None:
        """Have the consumer ask for the stream, with an opaque of its own; again with the same one."""
        if relayed.near is None:
            self.streams += 1
            relayed.opaque = self.streams.to_bytes(4, "little")
        waiting = self.near.conversation.emissions
        before = len(waiting)
        relayed.near = self.near.request(
            relayed.vbucket, start, uuid=uuid, snapshot=snapshot, flags=relayed.flags, opaque=relayed.opaque
        )
        frame = waiting[before].frame
        del waiting[before:]
        self.forward(self.far, self.far.consumer, frame)

    def accept(self, relayed: Relayed) -> None:
        """Grant the stream."""
        log = self.near.bucket.vbucket(relayed.vbucket).log
        answer = self.near.frame("stream_request", response=True, opaque=relayed.opaque, value=pack_log(log))
        self.forward(self.near, self.near.producer, answer)

    def roll_back(self, relayed: Relayed, seqno: int) -> None:
        """Tell the consumer to go back."""
        answer = self.near.frame(
            "stream_request", response=True, opaque=relayed.opaque, status=ROLLBACK, fields={"rollback_seqno": seqno}
        )
        self.forward(self.near, self.near.producer, answer)

    def refuse(self, relayed: Relayed, status: int, *, reached: bool = True) -> None:
        """Have the consumer tell that there is no stream; four bytes if the producer was asked at all."""
        frame = self.far.frame("add_stream", response=True, opaque=relayed.added, status=status)
        if reached:
            frame.value = bytes(4)
            frame.header = {"extras_length": 4}
        self.far.send(self.far.consumer, frame)

    def confirm(self, relayed: Relayed) -> None:
        """Have the consumer tell that the stream is there: its opaque, byte-reversed (OPQ-05)."""
        stream_opaque = int.from_bytes(relayed.opaque, "little")
        frame = self.far.frame(
            "add_stream", response=True, opaque=relayed.added, fields={"stream_opaque": stream_opaque}
        )
        self.far.send(self.far.consumer, frame)

    def snapshot(self, relayed: Relayed, last: int, flags: int) -> None:
        """Relay a snapshot up to a seqno."""
        self._pass_on(relayed, lambda stream: stream.follow(last, flags))

    def _pass_on(self, relayed: Relayed, say: Callable[[Stream], object]) -> None:
        assert relayed.near is not None  # noqa: S101 - a stream that was asked for
        sent = self.near.conversation.emissions
        before, clock = len(sent), self.near.clock_ns
        say(relayed.near)
        frames = [emission.frame for emission in sent[before:]]
        del sent[before:]
        self.near.clock_ns = clock
        self.near.outstanding = self.far.outstanding
        for frame in frames:
            self.forward(self.near, self.near.producer, frame)
            self._give_back(0.2)

    def _give_back(self, share: float) -> None:
        if self.far.outstanding > share * self.far.window:
            frame = self.far.frame("buffer_ack", fields={"buffer_bytes": ALL_THAT_ARRIVED}, opaque=self._opaque())
            self.forward(self.far, self.far.consumer, frame)
            self.far.outstanding = self.near.outstanding = 0

    def idle(self, seconds: int) -> None:
        """Say nothing but acks and no-ops for a while."""
        self.far.pending_ns = 5 * SECOND
        self._give_back(0)
        self.near.pending_ns = seconds * SECOND
        opaque = self.near.next_noop.to_bytes(4, "little")
        self.near.next_noop += 1
        asked = self.near.frame("noop", opaque=opaque)
        self.forward(self.near, self.near.producer, asked)
        self.forward(self.far, self.far.consumer, asked.copy(response=True))

    def close(self, relayed: Relayed) -> None:
        """Close the stream on both legs; the relay asks each side."""
        for session in (self.near, self.far):
            opaque = self.next_added.to_bytes(4, "big")
            self.next_added += 1
            frame = session.frame("close_stream", vbucket=relayed.vbucket, opaque=opaque)
            session.ask(CLIENT, frame)
