"""Flow control of all connections: gathers counted messages, acks and no-ops, and hands them to their connections.

Rows of many batches are gathered and sorted by connection; each :class:`ConnectionFlow` adds up its own. Until a
connection has its first ack or control, only the sum of its messages is kept. Must not know rules, nor how sums are
made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.clock import place
from analysis.context.flow_control.buffer_size import (
    BUFFER_SIZE_KEY,
    NO_WINDOW,
    SHORTEST_MESSAGE,
    SHORTEST_REQUEST,
    UNKNOWN_WINDOW,
    requested_size,
)
from analysis.context.flow_control.connection import CapturedSoFar, ConnectionFlow, FlowTables
from analysis.context.flow_control.lost_bytes import Loss
from analysis.context.flow_control.rows import (
    ACKED,
    CAPTURE,
    CODE,
    END,
    LAST,
    SIDE_SHIFT,
    SIZE,
    START,
    TIME,
    WIDTH,
    matrix_of,
)
from analysis.context.losses import losses_of
from dissector.spec.model import Dialect
from dissector.spec.registry import message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.clock import CaptureClock
    from analysis.context.tables import Table
    from dissector.array_types import Longs


_ROWS_AT_ONCE = 1 << 15, 1 << 18  #: rows that are handed over together: at least and at most
_ROWS_PER_CONNECTION = 256  #: between these, so many for each connection
KEEP_ALL = 1 << 19  #: rows of all connections that may be kept
#: Opcodes that have a name: it is known whether they count.
_NAMED = np.array([message(Dialect.DCP, opcode) is not None for opcode in range(256)])
_MOST_KEPT = 64  #: losses of a connection that are remembered before it is known which side produces
_CONTROL = (
    *("opaque", "key_bytes", "text", "status", "response", "direction", "start_offset", "end_offset", "acked_offset"),
    *("time_ns", "gap", "skipped", "missing"),
)
_RELIEF = 0.75  #: once there are more, connections give up until this part of the limit is left


class FlowControl:
    """The flow control of all connections."""

    def __init__(self, clock: CaptureClock, *, prompt: bool = False) -> None:
        """Begin; ``prompt``: rows are handed over with every batch, however few there are."""
        self._clock = clock
        self._prompt = prompt
        self._tables = FlowTables()
        self._flows: dict[int, ConnectionFlow] = {}
        self._kept: dict[int, list[tuple[int, Loss]]] = {}  #: of connections without a flow: side and loss
        self._gathered: list[Longs] = []
        self._gathered_connections: list[Longs] = []  #: the connection of each row in these
        self._gathered_rows = 0
        # By direction:
        self._end = np.zeros(0, np.int64)
        self._acked = np.zeros(0, np.int64)
        self._time_ns = np.zeros(0, np.int64)
        self._place = np.zeros(0, np.int64)
        # By connection:
        self._active = np.zeros(0, bool)  #: an ack or a control came, so its messages count one by one
        self._unopened = np.zeros(0, bool)
        self._without_open = np.zeros(0, bool)  #: requests may have come before the first row
        self._open_answered = np.zeros(0, np.int64)  #: ordinal of the answer to an open; 0: none so far
        self._before_window = np.zeros((WIDTH, 0), np.int64)  #: the sum of the messages before that, as one row

    def fold(self, frames: ContextBatch, facts: dict[str, Longs]) -> None:
        """Gather the rows of a batch, and hand rows over once there are many."""
        self._grow(int(frames.connection.max()) + 1)
        self._note_opens(frames)
        # Of several writes to one place the last one stays, and rows are in their order.
        direction = frames.direction_id
        self._end[direction] = frames.numbers("end_offset")
        self._acked[direction] = frames.numbers("acked_offset")
        self._time_ns[direction] = frames.numbers("time_ns")
        self._place[direction] = place(frames.refs()["capture"], frames.numbers("packet_last"))
        plain = ~frames.response & ~frames.draft
        counted = (frames.numbers("flow_bytes") > 0) & plain
        ack = (frames.kind == kinds.ACK) & plain
        noop = (frames.opcode == kinds.NOOP) & (frames.kind != kinds.NONE) & plain
        unknown = self._unknown_bytes(frames)
        control = np.flatnonzero((frames.opcode == kinds.CONTROL) & (frames.kind != kinds.NONE) & ~frames.draft)
        if len(control) or len(unknown):
            self._controls(frames, facts, control, unknown)
        for mask, active in ((ack, True), (noop, False)):
            if mask.any():
                self._start_flows(frames, facts, np.flatnonzero(mask), active=active)
        self._gather(frames, facts, counted, ack, noop)
        least, most = _ROWS_AT_ONCE
        if self._prompt or self._gathered_rows >= min(max(least, _ROWS_PER_CONNECTION * len(self._flows)), most):
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
        for name, empty in (("_end", 0), ("_acked", -1), ("_time_ns", 0), ("_place", 0)):
            setattr(self, name, np.concatenate((getattr(self, name), np.full(2 * more, empty, np.int64))))
        self._before_window = np.concatenate((self._before_window, np.zeros((WIDTH, more), np.int64)), axis=1)
        for name in ("_active", "_unopened", "_without_open"):
            setattr(self, name, np.concatenate((getattr(self, name), np.zeros(more, bool))))
        self._open_answered = np.concatenate((self._open_answered, np.zeros(more, np.int64)))

    def _note_opens(self, frames: ContextBatch) -> None:
        """Take note of answers to opens that come first on their connections: nothing was sent before them."""
        for row in np.flatnonzero((frames.opcode == kinds.OPEN) & frames.response & ~frames.draft).tolist():
            number = int(frames.connection[row])
            # A consumer that does not wait for the answer may have sent anything before.
            seen = self._time_ns[2 * number : 2 * number + 2].any() or (frames.connection[:row] == number).any()
            if not seen and not self._open_answered[number]:
                self._open_answered[number] = frames.ordinal[row]

    def _unknown_bytes(self, frames: ContextBatch) -> Longs:
        """Return the rows before which bytes were lost, and those of messages that have no name."""
        unnamed = np.flatnonzero((frames.kind == kinds.NONE) & ~frames.response & ~frames.draft)
        unnamed = unnamed[~_NAMED[frames.opcode[unnamed]]]
        lost = losses_of(frames).rows
        return np.union1d(lost, unnamed) if len(unnamed) else lost

    def _gather(
        self,
        frames: ContextBatch,
        facts: dict[str, Longs],
        counted: NDArray[np.bool_],
        ack: NDArray[np.bool_],
        noop: NDArray[np.bool_],
    ) -> None:
        rows = np.flatnonzero(counted | ack | noop)
        late = np.flatnonzero(ack)
        late = late[frames.numbers("from_start")[late] == 0]  # its sender may have asked for a window before
        self._without_open[frames.connection[late]] = True
        early = rows[facts["opened"][rows] == 0]
        if len(early):
            # The answer to an open that was lost shows as well that nothing had been sent before.
            # Controls may have been sent with it, though, and been lost as well.
            self._without_open[frames.connection[early]] = True
            answered = self._open_answered[frames.connection[early]]
            early = early[(answered == 0) | (answered > frames.ordinal[early])]
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
        before[START, number] = frames.numbers("start_offset")[rows]
        before[TIME, number] = frames.numbers("time_ns")[rows]
        before[LAST, number] = frames.numbers("packet_last")[rows]
        before[CAPTURE, number] = frames.refs()["capture"][rows]
        before[CODE, number] = frames.side[rows] << SIDE_SHIFT
        np.maximum.at(before[ACKED], number, frames.numbers("acked_offset")[rows])

    def _controls(self, frames: ContextBatch, facts: dict[str, Longs], rows: Longs, unknown: Longs) -> None:
        """Pass control requests and responses on to their connections, and unknown bytes in between."""
        self._start_flows(frames, facts, rows)
        self._start_flows(frames, facts, unknown[facts["producer"][unknown] >= 0], active=False)
        chosen = np.zeros(frames.size, bool)
        chosen[rows] = chosen[unknown] = True
        both = np.flatnonzero(chosen)
        numbers = frames.connection[both].tolist()
        for number, at, row in zip(numbers, both.tolist(), frames.rows(both, _CONTROL), strict=True):
            self._note_unknown(number, frames, at, row)
            flow = self._flows.get(number)
            if flow is not None and frames.opcode[at] == kinds.CONTROL and frames.kind[at] != kinds.NONE:
                self._pass_on(flow, row, int(place(frames.refs()["capture"][at], frames.numbers("packet_last")[at])))

    def _note_unknown(self, number: int, frames: ContextBatch, at: int, row: dict[str, Any]) -> None:
        """Pass on the bytes that were lost before a frame, or the frame itself if it has no name."""
        side, begin = row["direction"], row["start_offset"]
        packet = int(place(frames.refs()["capture"][at], frames.numbers("packet_last")[at]))
        acked = -1 if row["acked_offset"] is None else row["acked_offset"]
        lost = row["gap"] + row["skipped"]
        found = []
        if lost >= SHORTEST_MESSAGE:
            found.append(Loss(begin - lost, begin, acked, row["time_ns"], packet))
        if not row["response"] and frames.kind[at] == kinds.NONE and not _NAMED[frames.opcode[at]]:
            found.append(Loss(begin, row["end_offset"], acked, row["time_ns"], packet, unnamed=True))
        flow = self._flows.get(number)
        if flow is not None:
            for loss in found:
                flow.note_loss(side, loss)
        elif found and not self._unopened[number]:
            kept = self._kept.setdefault(number, [])
            kept += [(side, loss) for loss in found]
            if len(kept) > _MOST_KEPT:  # too much to remember, and nothing of it will be known
                self._unopened[number] = True
                del self._kept[number]

    def _pass_on(self, flow: ConnectionFlow, row: dict[str, Any], packet: int) -> None:
        """Pass a control on."""
        side, end = row["direction"], row["end_offset"]
        if row["response"] and side == flow.producer_side:
            acked, granted = -1 if row["acked_offset"] is None else row["acked_offset"], row["status"] == 0
            flow.buffer_sizes.note_response(end, acked, row["opaque"], row["time_ns"], packet, granted=granted)
        elif not row["response"] and side != flow.producer_side:
            flow.buffer_sizes.note_request(end, row["opaque"], _size_asked_for(row))

    def _start_flows(self, frames: ContextBatch, facts: dict[str, Longs], rows: Longs, *, active: bool = True) -> None:
        """Start the flow control of connections; an ack or a control makes it active, a no-op does not."""
        for row in rows[~self._active[frames.connection[rows]]].tolist():
            number = int(frames.connection[row])
            if number not in self._flows:
                producer = int(facts["producer"][row])
                if producer < 0:  # not known from the open: the side that acks or sends a control consumes
                    producer = int(frames.side[row]) ^ int(not frames.response[row] and active)
                flow = self._flows[number] = ConnectionFlow(number, producer, self._tables, self._clock)
                for side, loss in self._kept.pop(number, ()):
                    flow.note_loss(side, loss)
            if active and not self._active[number]:
                self._active[number] = True
                if self._before_window[SIZE, number]:
                    self._gathered.append(self._before_window[:, number : number + 1].copy())
                    self._gathered_connections.append(np.array([number]))
                    self._gathered_rows += 1

    def _captured(self, number: int) -> tuple[CapturedSoFar, CapturedSoFar]:
        both = slice(2 * number, 2 * number + 2)
        columns = (self._end, self._acked, self._time_ns, self._place)
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
            if self._unopened[connection]:
                flow.begin_unknown()
            flow.without_open |= bool(self._without_open[connection])
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


def _size_asked_for(control: dict[str, Any]) -> int:
    """Return the window that a control asks for; it may not have been captured."""
    if control["missing"] and (
        control["key_bytes"] is None or (control["key_bytes"] == BUFFER_SIZE_KEY and not control["text"])
    ):
        asks = control["end_offset"] - control["start_offset"] >= SHORTEST_REQUEST
        return UNKNOWN_WINDOW if asks else NO_WINDOW
    return requested_size(control["text"] or "") if control["key_bytes"] == BUFFER_SIZE_KEY else NO_WINDOW
