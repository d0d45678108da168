"""Flow control of all connections: gathers the rows that matter and settles them in large lots.

Counted messages, acks and no-ops of many batches are brought together by connection; each connection's ledger adds
up. Of connections that nobody gave a window, only the sum is kept. Must not know rules, nor how sums are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.flow_control.buffer_size import KEY, NEVER, NO_WINDOW, size_of
from analysis.context.flow_control.connection import CapturedSoFar, ConnectionFlow, FlowTables
from analysis.context.flow_control.rows import ACKED, CODE, END, SIDE_SHIFT, SIZE, TIME, WIDTH, matrix_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.tables import Table

    Longs = NDArray[np.int64]

_LOT = 1 << 15, 1 << 18  #: rows that are settled together: at least and at most
_LOT_EACH = 256  #: between these, so many per connection
KEEP_ALL = 1 << 19  #: rows of all connections that may wait
_RELIEF = 0.75


class FlowControl:
    """All connections' books."""

    def __init__(self) -> None:
        self._piles = FlowTables()
        self._ledgers: dict[int, ConnectionFlow] = {}
        self._lots: list[Longs] = []
        self._numbers: list[Longs] = []  #: the connections of the rows in these
        self._waiting = 0
        # By direction:
        self._heard = np.zeros(0, np.int64)
        self._hole = np.zeros(0, np.int64)
        self._acked = np.zeros(0, np.int64)
        self._time_ns = np.zeros(0, np.int64)
        # By connection:
        self._active = np.zeros(0, bool)  #: its counted messages matter one by one
        self._unopened = np.zeros(0, bool)
        self._before = np.zeros((WIDTH, 0), np.int64)  #: the messages before that, as one

    def fold(self, sight: ContextBatch, facts: dict[str, Longs]) -> None:
        """Take a batch."""
        self._grow(int(sight.connection.max()) + 1)
        # Of several writes to one place the last one stays, and rows are in their order.
        direction = sight.stream_of_bytes
        self._heard[direction] = sight.numbers("end_offset")
        self._acked[direction] = sight.numbers("acked_offset")
        self._time_ns[direction] = sight.numbers("time_ns")
        self._holes(sight)
        plain = ~sight.response & ~sight.draft
        counted = (sight.numbers("flow_bytes") > 0) & plain
        ack = (sight.kind == kinds.ACK) & plain
        noop = (sight.opcode == kinds.NOOP) & (sight.kind != kinds.NONE) & plain
        control = np.flatnonzero((sight.opcode == kinds.CONTROL) & (sight.kind != kinds.NONE) & ~sight.draft)
        if len(control):
            self._controls(sight, facts, control)
        for mask, active in ((ack, True), (noop, False)):
            if mask.any():
                self._open(sight, facts, np.flatnonzero(mask), active=active)
        self._gather(sight, facts, counted, ack, noop)
        least, most = _LOT
        if self._waiting >= min(max(least, _LOT_EACH * len(self._ledgers)), most):
            self._settle()

    def finish(self) -> None:
        """The capture is over: settle everything."""
        self._settle()
        for number, ledger in self._ledgers.items():
            ledger.finish(self._known(number))
        self._ledgers.clear()

    def tables(self) -> dict[str, list[Table]]:
        """Give out what has been settled since the last time."""
        piles = self._piles
        made = {"sent": piles.sent, "stalls": piles.stalls, "acks": piles.acks, "rests": piles.rests}
        return {name: [table] for name, pile in made.items() if (table := pile.table()) is not None}

    def _grow(self, room: int) -> None:
        if room <= len(self._active):
            return
        more = max(room, 2 * len(self._active)) - len(self._active)
        for name, empty in (("_heard", 0), ("_hole", NEVER), ("_acked", -1), ("_time_ns", 0)):
            setattr(self, name, np.concatenate((getattr(self, name), np.full(2 * more, empty, np.int64))))
        self._before = np.concatenate((self._before, np.zeros((WIDTH, more), np.int64)), axis=1)
        for name in ("_active", "_unopened"):
            setattr(self, name, np.concatenate((getattr(self, name), np.zeros(more, bool))))

    def _holes(self, sight: ContextBatch) -> None:
        """Note where each direction misses something for the first time."""
        gap, skipped, missing = sight.numbers("gap"), sight.numbers("skipped"), sight.numbers("missing")
        lost = np.flatnonzero((gap > 0) | (skipped > 0) | (missing > 0))
        if len(lost):
            begin = sight.numbers("start_offset")[lost] - np.maximum(gap[lost], 0) - np.maximum(skipped[lost], 0)
            np.minimum.at(self._hole, sight.stream_of_bytes[lost], begin)

    def _gather(
        self,
        sight: ContextBatch,
        facts: dict[str, Longs],
        counted: NDArray[np.bool_],
        ack: NDArray[np.bool_],
        noop: NDArray[np.bool_],
    ) -> None:
        rows = np.flatnonzero(counted | ack | noop)
        early = rows[facts["opened"][rows] == 0]
        if len(early):
            self._unopened[sight.connection[early]] = True
        number = sight.connection[rows]
        passive = counted[rows] & ~self._active[number]
        if passive.any():
            self._sum(sight, rows[passive])
            rows, number = rows[~passive], number[~passive]
        if len(rows):
            self._lots.append(matrix_of(sight, rows, ack, counted))
            self._numbers.append(number)
            self._waiting += len(rows)

    def _sum(self, sight: ContextBatch, rows: Longs) -> None:
        """Add messages of connections without a window to the one that stands for all of them."""
        number, before = sight.connection[rows], self._before
        before[SIZE] += np.bincount(number, sight.numbers("flow_bytes")[rows], before.shape[1]).astype(np.int64)
        before[END, number] = sight.numbers("end_offset")[rows]
        before[TIME, number] = sight.numbers("time_ns")[rows]
        before[CODE, number] = sight.side[rows] << SIDE_SHIFT
        np.maximum.at(before[ACKED], number, sight.numbers("acked_offset")[rows])

    def _controls(self, sight: ContextBatch, facts: dict[str, Longs], rows: Longs) -> None:
        """Hand windows that are asked for or granted to the ledgers."""
        self._open(sight, facts, rows)
        names = ("opaque", "key", "text", "status", "response", "direction", "end_offset", "acked_offset", "time_ns")
        for number, row in zip(sight.connection[rows].tolist(), sight.rows(rows, names), strict=True):
            ledger = self._ledgers[number]
            if row["response"] and row["direction"] == ledger.producer:
                acked = -1 if row["acked_offset"] is None else row["acked_offset"]
                ledger.windows.answer(
                    row["end_offset"], acked, row["opaque"], row["time_ns"], granted=row["status"] == 0
                )
            elif not row["response"] and row["direction"] != ledger.producer:
                size = size_of(row["text"] or "") if row["key"] == KEY else NO_WINDOW
                ledger.windows.ask(row["end_offset"], row["opaque"], size)

    def _open(self, sight: ContextBatch, facts: dict[str, Longs], rows: Longs, *, active: bool = True) -> None:
        """Begin ledgers for the connections that have none; from an ack or a control on, they are in use."""
        for row in rows[~self._active[sight.connection[rows]]].tolist():
            number = int(sight.connection[row])
            if number not in self._ledgers:
                producer = int(facts["producer"][row])
                if producer < 0:  # nobody said: who gives bytes back, or asks for something, consumes
                    producer = int(sight.side[row]) ^ int(not sight.response[row] and active)
                self._ledgers[number] = ConnectionFlow(number, producer, self._piles)
            if active and not self._active[number]:
                self._active[number] = True
                if self._before[SIZE, number]:
                    self._lots.append(self._before[:, number : number + 1].copy())
                    self._numbers.append(np.array([number]))
                    self._waiting += 1

    def _known(self, number: int) -> tuple[CapturedSoFar, CapturedSoFar]:
        both = slice(2 * number, 2 * number + 2)
        columns = (self._heard, self._hole, self._acked, self._time_ns)
        one, other = zip(*(column[both].tolist() for column in columns), strict=True)
        return CapturedSoFar(*one), CapturedSoFar(*other)

    def _settle(self) -> None:
        """Hand everything that was gathered to the ledgers."""
        if not self._waiting:
            return
        number = np.concatenate(self._numbers)
        # Sorting is several times as fast by small numbers.
        order = np.argsort(number.astype(np.int16) if len(self._active) < 1 << 15 else number, kind="stable")
        number = number[order]
        rows, at = np.empty((WIDTH, len(number)), np.int64), 0
        self._lots.reverse()
        while self._lots:  # one after the other, so that nothing is there twice
            lot = self._lots.pop()
            rows[:, at : at + lot.shape[1]] = lot
            at += lot.shape[1]
        for line in rows:
            line[:] = line[order]
        self._numbers, self._waiting = [], 0
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        ends = np.append(starts[1:], len(number))
        for connection, start, end in zip(number[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
            ledger = self._ledgers[connection]
            ledger.unopened = bool(self._unopened[connection])
            ledger.enter(rows[:, start:end])
            ledger.settle(self._known(connection))
        self._relieve()

    def _relieve(self) -> None:
        """Whoever keeps the most gives up first."""
        total = sum(ledger.kept for ledger in self._ledgers.values())
        if total <= KEEP_ALL:
            return
        for number, ledger in sorted(self._ledgers.items(), key=lambda entry: -entry[1].kept):
            if total <= KEEP_ALL * _RELIEF:
                return
            total -= ledger.kept
            ledger.forget(self._known(number))
