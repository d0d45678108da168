"""What the two sides of a connection say to each other, in the order a capture would show it.

Knows who sends what and who had heard what by then; must not know packets, nor what the messages mean beyond their
flow-control size. A scenario writes a conversation; faults change it; :func:`size_buffer_acks` makes the sums
right again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dissector.generate.frame import ALL_THAT_ARRIVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.frame import Frame

CLIENT, SERVER = 0, 1
STEP_NS = 20_000  #: between two messages that do not wait for each other
LATENCY_NS = 250_000  #: from one side to the other


@dataclass(slots=True, eq=False)
class Emission:
    """One message as it is sent."""

    side: int
    frame: Frame
    unheard: int = 0  #: how many of the other side's messages before it had not arrived when it was sent
    pause_ns: int = STEP_NS  #: since the message before it, of either side


@dataclass(slots=True, eq=False)
class Conversation:
    """One connection."""

    emissions: list[Emission] = field(default_factory=list)
    client: str = "10.0.0.1"
    server: str = "10.0.0.2"
    client_port: int = 40_000
    server_port: int = 11_210
    begin_ns: int = 0  #: when the connection is made, counted from the beginning of the capture
    orderly: bool = True  #: ends with FINs; otherwise the capture ends first
    #: What the scenario wants to say of it in the truth, such as its name or what server it plays.
    notes: dict[str, object] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Emission]:
        return iter(self.emissions)

    def send(self, side: int, frame: Frame, *, unheard: int = 0, pause_ns: int | None = None) -> Emission:
        """Add a message. One that answers the other side's last message waits for it to arrive."""
        if pause_ns is None:
            turned = bool(self.emissions) and self.emissions[-1].side != side and not unheard
            pause_ns = LATENCY_NS if turned else STEP_NS
        emission = Emission(side, frame, unheard, pause_ns)
        self.emissions.append(emission)
        return emission

    def place(self, emission: Emission) -> int:
        """Return an emission's place in the order."""
        return next(index for index, each in enumerate(self.emissions) if each is emission)

    def remove(self, emission: Emission) -> None:
        """Leave a message unsaid."""
        del self.emissions[self.place(emission)]


def size_buffer_acks(conversation: Conversation) -> None:
    """Give buffer acks that return everything their size: what counts, has arrived and was not given back yet."""
    sent = ([0], [0])  #: per side, the flow-control sizes of all its messages so far, summed up
    returned = [0, 0]  #: per side, what the other one gave back
    for emission in conversation:
        frame, peer = emission.frame, 1 - emission.side
        if frame.name == "buffer_ack" and not frame.response and frame.raw is None:
            arrived = sent[peer][max(0, len(sent[peer]) - 1 - emission.unheard)]
            if frame.fields.get("buffer_bytes") == ALL_THAT_ARRIVED:
                frame.fields["buffer_bytes"] = arrived - returned[peer]
            # Servers clamp what is given back twice, so this sum does too.
            returned[peer] = min(returned[peer] + frame.fields.get("buffer_bytes", 0), sent[peer][-1])
        sent[emission.side].append(sent[emission.side][-1] + frame.flow_bytes)
