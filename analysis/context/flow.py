"""Flow control as each side knew it: what the producer had outstanding, what the consumer had received.

A connection's counted frames and its acks are gathered and settled in stretches. A frame is settled once every ack
that its sender had heard is there; an ack once every frame that its sender had received is. Sums never lie then,
whichever order the capture has them in, and they do not depend on how it is cut into batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.ledger import Ledger
from analysis.context.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.sight import Sight

    Longs = NDArray[np.int64]

_GATHER = 1 << 12  #: rows of a connection that are settled together
_GATHER_ALL = 1 << 16  #: rows of all connections that may wait


class Flow:
    """All connections' books."""

    def __init__(self) -> None:
        self._ledgers: dict[int, Ledger] = {}
        self._waiting = 0
        self._sent: list[Table] = []
        self._acks: list[Table] = []
        self._rests: list[Table] = []

    def fold(self, sight: Sight, facts: dict[str, Longs]) -> None:
        """Take a batch."""
        counted = (sight.numbers("flow_bytes") > 0) & ~sight.response
        ack = sight.kind == kinds.ACK
        lost = (sight.numbers("gap") > 0) | (sight.numbers("skipped") > 0) | (sight.numbers("missing") > 0)
        noop = (sight.opcode == kinds.NOOP) & ~sight.response & ~sight.draft
        wanted = counted | ack | noop | lost
        rows = np.flatnonzero(wanted)
        if len(rows):
            order = rows[np.argsort(sight.connection[rows], kind="stable")]
            cuts = np.flatnonzero(np.diff(sight.connection[order])) + 1
            for part in np.split(order, cuts):
                self._take(sight, facts, part, counted, ack, lost)
        self._positions(sight)
        if self._waiting > _GATHER_ALL:
            for number, ledger in self._ledgers.items():
                self._settle(number, ledger)

    def finish(self) -> None:
        """The capture is over: settle everything."""
        for number, ledger in self._ledgers.items():
            self._settle(number, ledger, final=True)
        self._ledgers.clear()

    def tables(self) -> dict[str, list[Table]]:
        """Give out what has been settled since the last time."""
        found = {"sent": self._sent, "acks": self._acks, "rests": self._rests}
        self._sent, self._acks, self._rests = [], [], []
        return found

    def _take(
        self,
        sight: Sight,
        facts: dict[str, Longs],
        rows: Longs,
        counted: NDArray[np.bool_],
        ack: NDArray[np.bool_],
        lost: NDArray[np.bool_],
    ) -> None:
        """Enter one connection's rows."""
        number = int(sight.connection[rows[0]])
        ledger = self._ledgers.get(number)
        if ledger is None:
            ledger = self._ledgers[number] = Ledger()
        frames, acks = rows[counted[rows]], rows[ack[rows]]
        if len(frames) and ledger.producer < 0:
            ledger.producer = int(sight.side[frames[0]])
        elif len(acks) and ledger.producer < 0:
            ledger.producer = 1 - int(sight.side[acks[0]])
        start = sight.numbers("start_offset")
        for row in rows[lost[rows]].tolist():
            side = int(sight.side[row])
            ledger.gap_at[side] = min(ledger.gap_at[side], int(start[row]))
        frames = frames[sight.side[frames] == ledger.producer]
        acks = acks[sight.side[acks] == 1 - ledger.producer]
        if len(frames):
            ledger.enter_frames(sight, facts, frames)
        if len(acks) or len(frames) or len(rows):
            ledger.enter_acks(sight, facts, acks, rows[~counted[rows] & ~ack[rows]])
        self._waiting += len(frames) + len(acks)
        ledger.waiting += len(frames) + len(acks)
        ledger.due = ledger.waiting >= _GATHER

    def _positions(self, sight: Sight) -> None:
        """Note how far each direction has come, and settle what is due."""
        end, time_ns = sight.numbers("end_offset"), sight.numbers("time_ns")
        directions, last = np.unique(sight.stream_of_bytes[::-1], return_index=True)
        for direction, back in zip(directions.tolist(), last.tolist(), strict=True):
            ledger = self._ledgers.get(direction // 2)
            if ledger is not None:
                row = sight.size - 1 - back
                ledger.heard[direction & 1] = int(end[row])
                ledger.latest_ns = max(ledger.latest_ns, int(time_ns[row]))
                if ledger.due:
                    self._settle(direction // 2, ledger)

    def _settle(self, number: int, ledger: Ledger, *, final: bool = False) -> None:
        self._waiting -= ledger.waiting
        ledger.waiting, ledger.due = 0, False
        acks = ledger.settle_acks(final=final)
        sent, rests = ledger.settle_frames(final=final)
        ledger.trim()
        for found, tables in ((sent, self._sent), (acks, self._acks), (rests, self._rests)):
            if found is not None:
                columns, guilty, refs = found
                size = len(guilty)
                columns |= {
                    "connection": np.full(size, number, np.int64),
                    "vbucket": np.full(size, -1, np.int64),
                    "stream_id": np.zeros(size, np.int64),
                }
                tables.append(Table(size, columns, {"guilty": guilty, **refs}))
