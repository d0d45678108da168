"""Which side of each connection produces, and whether it is a proxy: for findings that say whose fault something is.

The open decides: its flag names the role of its receiver. Where it was not captured, the first message tells that only
one role sends. Who opens a connection to a consumer is no producer itself: it hands on what another connection brings,
as ns_server does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.frames.batch import DRAFT, PLAIN, PROTO
from dissector.frames.message_kinds import ADD_STREAM, OPEN
from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Party

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs

_PRODUCES = enums.OPEN_FLAGS.bit("producer") | enums.OPEN_FLAGS.bit("notifier")
_NONE = -1


class Roles(NamedTuple):
    """Who is who on a connection."""

    producer: int = _NONE  #: the side that produces; -1: not known
    relayed: bool = False  #: what produces is a proxy

    @property
    def known(self) -> bool:
        """Tell whether anything said which side produces."""
        return self.producer != _NONE

    def party(self, side: int) -> str:
        """Return what a side is: producer, consumer or proxy; empty if that is not known."""
        if not self.known:
            return ""
        if side != self.producer:
            return "consumer"
        return "proxy" if self.relayed else "producer"


class ConnectionRoles:
    """The roles on all connections of a run."""

    def __init__(self) -> None:
        self._opened: dict[int, Roles] = {}
        self._seen: dict[int, Roles] = {}

    def of(self, connection: int) -> Roles:
        """Return what is known of a connection."""
        return self._opened.get(connection) or self._seen.get(connection) or Roles()

    def fold(self, frames: ContextBatch) -> None:
        """Learn from a batch; of several messages that tell, the first one counts."""
        plain = frames.numbering == PLAIN
        opens = np.flatnonzero(plain & (frames.opcode == OPEN) & ~frames.response & (frames.numbers("open_flags") >= 0))
        for row in opens.tolist():
            side, produces = int(frames.side[row]), bool(frames.numbers("open_flags")[row] & _PRODUCES)
            roles = Roles(1 - side) if produces else Roles(side, relayed=True)
            self._opened.setdefault(int(frames.connection[row]), roles)
        unknown = set(np.flatnonzero(np.bincount(frames.connection)).tolist()) - self._opened.keys() - self._seen.keys()
        if unknown:
            self._infer(frames, np.flatnonzero(np.isin(frames.connection, [*unknown])))

    def _infer(self, frames: ContextBatch, rows: Longs) -> None:
        """Learn from the first of some rows on each connection that only one role sends."""
        sender = SENDERS[frames.numbering[rows], frames.response[rows].astype(np.int64), frames.opcode[rows]]
        telling, produces = rows[sender != _NONE], sender[sender != _NONE]
        _, first = np.unique(frames.connection[telling], return_index=True)
        for at in first.tolist():
            row = int(telling[at])
            side = int(frames.side[row])
            relayed = bool(frames.numbering[row] == PLAIN and frames.opcode[row] == ADD_STREAM)
            self._seen[int(frames.connection[row])] = Roles(side if produces[at] else 1 - side, relayed)


def _sender_table() -> NDArray[np.int8]:
    """Return, by numbering, response and opcode, 1 where the sender produces, 0 where it consumes, else -1."""
    table = np.full((3, 2, 256), _NONE, np.int8)
    numberings = {Dialect.DCP: PLAIN, Dialect.PROTO: PROTO, Dialect.DRAFT: DRAFT}
    for message in registry.MESSAGES:
        if message.dialect not in numberings or message.sender not in (Party.PRODUCER, Party.CONSUMER):
            continue
        pushed = int(message.push is not None)  # in the draft data comes with the magic of responses
        produces = message.sender is Party.PRODUCER
        table[numberings[message.dialect], pushed, message.opcode] = produces
        if message.dialect is not Dialect.DRAFT:
            table[numberings[message.dialect], 1, message.opcode] = not produces
    # It goes to the consumer, from the proxy that the consumer's stream comes from.
    table[PLAIN, :, ADD_STREAM] = 1, 0
    return table


SENDERS = _sender_table()
