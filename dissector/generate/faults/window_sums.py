"""The flow-control sums of a connection before they are written down: what was sent, had arrived, was given back.

Knows what counts, and that producers forget what is given back twice; must not know rules, nor change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dissector.generate.frame import ALL_THAT_ARRIVED

if TYPE_CHECKING:
    from dissector.generate.conversation import Conversation, Emission

WINDOW = b"connection_buffer_size"


class Balance(NamedTuple):
    """How things stand when a message is sent, the message itself left out."""

    emission: Emission
    side: int  #: of the producer
    window: int  #: None agreed upon yet: 0
    sent: int  #: counted bytes of the producer
    arrived: int  #: those of them that had reached the sender of this message; all if that is the producer
    returned: int  #: given back by the consumer
    heard: int  #: those of them that the sender of this message knew of
    amount: int  #: what this message gives back

    @property
    def outstanding(self) -> int:
        """Return what the producer believes to be on its way."""
        return self.sent - self.heard

    @property
    def overdrawn(self) -> bool:
        """Tell whether a counted message of the producer's is sent although the window is full."""
        counted = self.emission.side == self.side and self.emission.frame.flow_bytes
        return bool(counted and self.window and self.outstanding >= self.window)

    @property
    def everything(self) -> bool:
        """Tell whether it is an ack that gives back all there is, nothing being on its way."""
        return is_ack(self.emission) and self.amount == self.sent - self.returned > 0


def is_ack(emission: Emission) -> bool:
    """Tell whether it gives bytes back."""
    return emission.frame.name == "buffer_ack" and not emission.frame.response and emission.frame.raw is None


def producer_of(conversation: Conversation) -> int | None:
    """Return the side that sends what counts."""
    return next((each.side for each in conversation if each.frame.flow_bytes), None)


def balances(conversation: Conversation) -> list[Balance]:
    """Return how things stand at each message; nothing for a connection without counted messages."""
    side = producer_of(conversation)
    if side is None:
        return []
    sizes = [0]  #: sums after each of the producer's messages
    refunds = [0]  #: sums after each of the consumer's messages
    window = 0
    wanted: dict[bytes, int] = {}
    rows = []
    for emission in conversation:
        frame = emission.frame
        if frame.name == "control" and frame.key == WINDOW:
            wanted[frame.opaque] = int(frame.value)
        elif frame.name == "control" and frame.response and not frame.status:
            window = wanted.pop(frame.opaque, window)
        own = emission.side == side
        arrived = sizes[-1] if own else sizes[max(0, len(sizes) - 1 - emission.unheard)]
        heard = refunds[max(0, len(refunds) - 1 - emission.unheard)] if own else refunds[-1]
        amount = 0
        if is_ack(emission) and not own:
            amount = frame.fields.get("buffer_bytes", 0)
            if amount == ALL_THAT_ARRIVED:
                amount = arrived - refunds[-1]
        rows.append(Balance(emission, side, window, sizes[-1], arrived, refunds[-1], heard, amount))
        if own:
            sizes.append(sizes[-1] + frame.flow_bytes)
        else:
            refunds.append(min(refunds[-1] + amount, sizes[-1]))
    return rows
