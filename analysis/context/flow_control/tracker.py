"""Flow control of all connections: gathers counted messages, acks and no-ops, and hands them to their connections.

Rows of many batches are gathered and sorted by connection; each :class:`ConnectionFlow` adds up its own. Until a
connection has its first ack or control, only the sum of its messages is kept. Must not know rules, nor how sums are
made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.flow_control.buffer_size import BUFFER_SIZE_KEY, NEVER, NO_WINDOW, requested_size
from analysis.context.flow_control.connection import CapturedSoFar, ConnectionFlow, FlowTables
from analysis.context.flow_control.rows import ACKED, CODE, END, SIDE_SHIFT, SIZE, TIME, WIDTH, matrix_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.tables import Table
    from dissector.array_types import Longs


_ROWS_AT_ONCE = 1 << 15, 1 << 18  #: rows that are handed over together: at least and at most
_ROWS_PER_CONNECTION = 256  #: between these, so many for each connection
KEEP_ALL = 1 << 19  #: rows of all connections that may be kept
_RELIEF = 0.75  #: once there are more, connections give up until this part of the limit is left


class FlowControl:
    """The flow control of all connections."""

    def __init__(self) -> None:
        self._tables = FlowTables()
        self._flows: dict[int, ConnectionFlow] = {}
        self._gathered: list[Longs] = []
        self._gathered_connections: list[Longs] = []  #: the connection of each row in these
        self._gathered_rows = 0
        # By direction:
        self._end = np.zeros(0, np.int64)
        self._first_gap = np.zeros(0, np.int64)
        self._acked = np.zeros(0, np.int64)
        self._time_ns = np.zeros(0, np.int64)
        # By connection:
        self._active = np.zeros(0, bool)  #: an ack or a control came, so its messages count one by one
        self._unopened = np.zeros(0, bool)
        self._before_window = np.zeros((WIDTH, 0), np.int64)  #: the sum of the messages before that, as one row

    def fold(self, frames: ContextBatch, facts: dict[str, Longs]) -> None:
        """Gather the rows of a batch, and hand rows over once there are many."""
        self._grow(int(frames.connection.max()) + 1)
        # Of several writes to one place the last one stays, and rows are in their order.
        direction = frames.direction_id
        self._end[direction] = frames.numbers("end_offset")
        self._acked[direction] = frames.numbers("acked_offset")
        self._time_ns[direction] = frames.numbers("time_ns")
        self._note_gaps(frames)
        plain = ~frames.response & ~frames.draft
        counted = (frames.numbers("flow_bytes") > 0) & plain
        ack = (frames.kind == kinds.ACK) & plain
        noop = (frames.opcode == kinds.NOOP) & (frames.kind != kinds.NONE) & plain
        control = np.flatnonzero((frames.opcode == kinds.CONTROL) & (frames.kind != kinds.NONE) & ~frames.draft)
        if len(control):
            self._controls(frames, facts, control)
        for mask, active in ((ack, True), (noop, False)):
            if mask.any():
                self._start_flows(frames, facts, np.flatnonzero(mask), active=active)
        self._gather(frames, facts, counted, ack, noop)
        least, most = _ROWS_AT_ONCE
        if self._gathered_rows >= min(max(least, _ROWS_PER_CONNECTION * len(self._flows)), most):
            self._hand_over()

    def finish(self) -> None:
        """Add everything up at the end of the capture."""
        self._hand_over()
        for number, flow in self._flows.items():
            flow.finish(self._captured(number))
        self._flows.clear()

    def tables(self) -> dict[str, list[Table]]:
        """Return the rows that were made since the last call."""
        tables = self._tables
        buffers = {
            "sent": tables.sent,
            "stalls": tables.stalls,
            "acks": tables.acks,
            "idle_producers": tables.idle_producers,
        }
        return {name: [table] for name, buffer in buffers.items() if (table := buffer.table()) is not None}

    def _grow(self, room: int) -> None:
        if room <= len(self._active):
            return
        more = max(room, 2 * len(self._active)) - len(self._active)
        for name, empty in (("_end", 0), ("_first_gap", NEVER), ("_acked", -1), ("_time_ns", 0)):
            setattr(self, name, np.concatenate((getattr(self, name), np.full(2 * more, empty, np.int64))))
        self._before_window = np.concatenate((self._before_window, np.zeros((WIDTH, more), np.int64)), axis=1)
        for name in ("_active", "_unopened"):
            setattr(self, name, np.concatenate((getattr(self, name), np.zeros(more, bool))))

    def _note_gaps(self, frames: ContextBatch) -> None:
        """Note the first missing byte of each direction."""
        gap, skipped, missing = frames.numbers("gap"), frames.numbers("skipped"), frames.numbers("missing")
        lost = np.flatnonzero((gap > 0) | (skipped > 0) | (missing > 0))
        if len(lost):
            begin = frames.numbers("start_offset")[lost] - np.maximum(gap[lost], 0) - np.maximum(skipped[lost], 0)
            np.minimum.at(self._first_gap, frames.direction_id[lost], begin)

    def _gather(
        self,
        frames: ContextBatch,
        facts: dict[str, Longs],
        counted: NDArray[np.bool_],
        ack: NDArray[np.bool_],
        noop: NDArray[np.bool_],
    ) -> None:
        rows = np.flatnonzero(counted | ack | noop)
        early = rows[facts["opened"][rows] == 0]
        if len(early):
            self._unopened[frames.connection[early]] = True
        number = frames.connection[rows]
        inactive = counted[rows] & ~self._active[number]
        if inactive.any():
            self._sum_up_inactive(frames, rows[inactive])
            rows, number = rows[~inactive], number[~inactive]
        if len(rows):
            self._gathered.append(matrix_of(frames, rows, ack, counted))
            self._gathered_connections.append(number)
            self._gathered_rows += len(rows)

    def _sum_up_inactive(self, frames: ContextBatch, rows: Longs) -> None:
        """Add messages of inactive connections to the row that stands for all of them."""
        number, before = frames.connection[rows], self._before_window
        before[SIZE] += np.bincount(number, frames.numbers("flow_bytes")[rows], before.shape[1]).astype(np.int64)
        before[END, number] = frames.numbers("end_offset")[rows]
        before[TIME, number] = frames.numbers("time_ns")[rows]
        before[CODE, number] = frames.side[rows] << SIDE_SHIFT
        np.maximum.at(before[ACKED], number, frames.numbers("acked_offset")[rows])

    def _controls(self, frames: ContextBatch, facts: dict[str, Longs], rows: Longs) -> None:
        """Pass control requests and responses on to their connections."""
        self._start_flows(frames, facts, rows)
        names = ("opaque", "key", "text", "status", "response", "direction", "end_offset", "acked_offset", "time_ns")
        for number, row in zip(frames.connection[rows].tolist(), frames.rows(rows, names), strict=True):
            flow = self._flows[number]
            if row["response"] and row["direction"] == flow.producer_side:
                acked = -1 if row["acked_offset"] is None else row["acked_offset"]
                flow.buffer_sizes.note_response(
                    row["end_offset"], acked, row["opaque"], row["time_ns"], granted=row["status"] == 0
                )
            elif not row["response"] and row["direction"] != flow.producer_side:
                size = requested_size(row["text"] or "") if row["key"] == BUFFER_SIZE_KEY else NO_WINDOW
                flow.buffer_sizes.note_request(row["end_offset"], row["opaque"], size)

    def _start_flows(self, frames: ContextBatch, facts: dict[str, Longs], rows: Longs, *, active: bool = True) -> None:
        """Start the flow control of connections; an ack or a control makes it active, a no-op does not."""
        for row in rows[~self._active[frames.connection[rows]]].tolist():
            number = int(frames.connection[row])
            if number not in self._flows:
                producer = int(facts["producer"][row])
                if producer < 0:  # not known from the open: the side that acks or sends a control consumes
                    producer = int(frames.side[row]) ^ int(not frames.response[row] and active)
                self._flows[number] = ConnectionFlow(number, producer, self._tables)
            if active and not self._active[number]:
                self._active[number] = True
                if self._before_window[SIZE, number]:
                    self._gathered.append(self._before_window[:, number : number + 1].copy())
                    self._gathered_connections.append(np.array([number]))
                    self._gathered_rows += 1

    def _captured(self, number: int) -> tuple[CapturedSoFar, CapturedSoFar]:
        both = slice(2 * number, 2 * number + 2)
        columns = (self._end, self._first_gap, self._acked, self._time_ns)
        one, other = zip(*(column[both].tolist() for column in columns), strict=True)
        return CapturedSoFar(*one), CapturedSoFar(*other)

    def _hand_over(self) -> None:
        """Hand the gathered rows over to their connections, which add them up."""
        if not self._gathered_rows:
            return
        number = np.concatenate(self._gathered_connections)
        # Sorting is several times as fast by small numbers.
        order = np.argsort(number.astype(np.int16) if len(self._active) < 1 << 15 else number, kind="stable")
        number = number[order]
        rows, at = np.empty((WIDTH, len(number)), np.int64), 0
        self._gathered.reverse()
        while self._gathered:  # freed one by one, so that the rows are never in memory twice
            part = self._gathered.pop()
            rows[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        for line in rows:
            line[:] = line[order]
        self._gathered_connections, self._gathered_rows = [], 0
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        ends = np.append(starts[1:], len(number))
        for connection, start, end in zip(number[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
            flow = self._flows[connection]
            flow.unopened = bool(self._unopened[connection])
            flow.add_rows(rows[:, start:end])
            flow.add_up(self._captured(connection))
        self._limit_memory()

    def _limit_memory(self) -> None:
        """Let connections give up their sums where too many rows are kept, those with the most rows first."""
        total = sum(flow.kept for flow in self._flows.values())
        if total <= KEEP_ALL:
            return
        for number, flow in sorted(self._flows.items(), key=lambda entry: -entry[1].kept):
            if total <= KEEP_ALL * _RELIEF:
                return
            total -= flow.kept
            flow.give_up(self._captured(number))
