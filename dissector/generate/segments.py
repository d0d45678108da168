"""A conversation as TCP segments: who sends which bytes when, and what had been heard by then.

Knows TCP's rules and when messages are sent; must not know addresses, sequence numbers as they are on the wire, or
packets. Offsets count the bytes of a direction from after its SYN, as the analyzer counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from dissector.generate.conversation import CLIENT, LATENCY_NS, SERVER, STEP_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dissector.generate.conversation import Conversation, Emission

FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
LARGEST_MSS = 65_495  #: what an IPv4 packet has room for
DEFAULT_MSS = 1448
GAP_NS = 1000  #: between two packets of one connection, at least: a microsecond, so that no stamp hides it
_BURST_BYTES = 1 << 16  #: more is not sent at once
_ACK_EVERY = 2  #: segments that a receiver waits for before it acknowledges, unless it has something to say


class MadeSegment(NamedTuple):
    """One TCP segment. A plain tuple, as there may be millions."""

    flow: int  #: twice the connection's place, plus the sender's side
    offset: int  #: of its first byte; a SYN stands one before offset 0
    acked: int  #: bytes of the other direction that its sender had received; a FIN counts as one
    flags: int
    data: bytes
    time_ns: int  #: since the beginning of the capture

    @property
    def end(self) -> int:
        """Return the offset after its last byte."""
        return self.offset + len(self.data)


class Sent(NamedTuple):
    """A message, and where its bytes are."""

    connection: int
    emission: Emission
    offset: int
    data: bytes
    heard: int  #: bytes of the other direction that its sender had received

    @property
    def flow(self) -> int:
        """Return the direction it went in."""
        return 2 * self.connection + self.emission.side

    @property
    def end(self) -> int:
        """Return the offset after its last byte."""
        return self.offset + len(self.data)


@dataclass(slots=True)
class Delivery:
    """A conversation as segments, in the order of their times, and its messages in the order of the conversation."""

    sent: list[Sent]
    segments: list[MadeSegment] = field(default_factory=list)


def placed(conversation: Conversation, connection: int) -> list[Sent]:
    """Encode the messages; find out where their bytes are and how much their senders had received."""
    sent: list[Sent] = []
    ends: tuple[list[int], list[int]] = ([0], [0])
    heard = [0, 0]
    for emission in conversation:
        side, arrived = emission.side, ends[1 - emission.side]
        known = arrived[max(0, len(arrived) - 1 - emission.unheard)]
        heard[side] = max(heard[side], known)  # what has been acknowledged once stays so
        data = emission.frame.encode()
        sent.append(Sent(connection, emission, ends[side][-1], data, heard[side]))
        ends[side].append(ends[side][-1] + len(data))
    return sent


def deliver(
    conversation: Conversation, connection: int, size: Callable[[], int], *, skip_messages: int = 0, scale: float = 1.0
) -> Delivery:
    """Make segments, each of at most ``size()`` bytes.

    A segment acknowledges exactly what the senders of the messages in it had received: only messages of which that is
    the same amount share one. ``skip_messages`` is where the capture begins; ``scale`` stretches time.
    """
    writer = _SegmentWriter(conversation, connection, size, scale)
    if not skip_messages:
        writer.shake_hands()
    for index in range(len(writer.sent)):
        writer.add(index)
        if index == skip_messages - 1:
            writer.flush()
            writer.segments.clear()
    writer.finish(orderly=conversation.orderly)
    return Delivery(writer.sent, writer.segments)


class _SegmentWriter:
    """Both ends of a connection while it lasts."""

    def __init__(self, conversation: Conversation, connection: int, size: Callable[[], int], scale: float) -> None:
        self.sent = placed(conversation, connection)
        self.segments: list[MadeSegment] = []
        self._flow, self._size = 2 * connection, size
        pauses = (round(each.emission.pause_ns * scale) for each in self.sent)
        begin = conversation.begin_ns
        self._clock = begin - GAP_NS
        self._times = list(accumulate(pauses, initial=begin + 2 * LATENCY_NS))[1:]
        self._begin = begin
        self._totals = [0, 0]
        self._acked = [0, 0]  #: per side, what it acknowledged last
        self._segments_unacked = [0, 0]  #: per sender
        self._burst: list[int] = []  #: messages that go out together
        #: Per side, what its later messages allow to be acknowledged, the next one last.
        self._allowed: tuple[list[int], list[int]] = ([], [])
        for each in reversed(self.sent):
            self._allowed[each.emission.side].append(each.heard)

    def shake_hands(self) -> None:
        self._put(CLIENT, -1, 0, SYN, b"", self._begin)
        self._put(SERVER, -1, 0, SYN | ACK, b"", self._begin + LATENCY_NS)
        self._put(CLIENT, 0, 0, ACK, b"", self._begin + 2 * LATENCY_NS)

    def add(self, index: int) -> None:
        """Send a message together with those before it, or after them."""
        each = self.sent[index]
        if self._burst:
            last, first = self.sent[self._burst[-1]], self.sent[self._burst[0]]
            together = (
                last.flow == each.flow
                and last.heard == each.heard
                and self._times[index] - self._times[index - 1] <= STEP_NS
                and each.end - first.offset <= _BURST_BYTES
            )
            if not together:
                self.flush()
        self._burst.append(index)

    def flush(self) -> None:
        """Send what was said, and let the other side acknowledge it as far as its own messages allow."""
        if not self._burst:
            return
        members = [self.sent[index] for index in self._burst]
        moment = self._times[self._burst[0]]
        side, peer, heard = members[0].emission.side, 1 - members[0].emission.side, members[0].heard
        del self._allowed[side][-len(members) :]
        data, at, offset = b"".join(each.data for each in members), 0, members[0].offset
        self._burst = []
        while at < len(data):
            piece = data[at : at + self._size()]
            at += len(piece)
            self._put(side, offset, heard, (PSH if at == len(data) else 0) | ACK, piece, moment)
            offset += len(piece)
            self._totals[side] = offset
            self._segments_unacked[side] += 1
            if self._segments_unacked[side] >= _ACK_EVERY:
                self._acknowledge(peer)

    def finish(self, *, orderly: bool) -> None:
        """End both directions, or let the capture end; what has arrived is acknowledged by then."""
        self.flush()
        client, server = self._totals
        later = self._clock + LATENCY_NS
        if orderly:
            self._put(CLIENT, client, server, FIN | ACK, b"", later)
            self._put(SERVER, server, client + 1, FIN | ACK, b"", later + LATENCY_NS)
            self._put(CLIENT, client + 1, server + 1, ACK, b"", later + 2 * LATENCY_NS)
        else:
            for side in (CLIENT, SERVER):
                self._acknowledge(side)

    def _acknowledge(self, side: int) -> None:
        """Send an acknowledgement, unless there is nothing new that this side may have received by now."""
        allowed = self._allowed[side]
        ready = min(self._totals[1 - side], allowed[-1]) if allowed else self._totals[1 - side]
        if ready > self._acked[side]:
            self._put(side, self._totals[side], ready, ACK, b"", self._clock)

    def _put(self, side: int, offset: int, acked: int, flags: int, data: bytes, moment: int) -> None:
        self._clock = max(self._clock + GAP_NS, moment)
        if acked > self._acked[side]:
            self._segments_unacked[1 - side] = 0
        self._acked[side] = max(self._acked[side], acked)
        self.segments.append(MadeSegment(self._flow + side, offset, acked, flags, data, self._clock))
