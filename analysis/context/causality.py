"""What came before what, across the two directions of a connection: the one place that says so.

Within a direction the order of bytes is exact. Across directions only TCP's acknowledgements prove an order: the sender
of a message had received another one of the other side exactly if the packet with the message's first byte acknowledges
the other one's last byte. Neither times nor the order in a capture prove anything: two taps, several queues or a
packet that is waited for put directions side by side as they never were on the wire.

:class:`CausalOrder` brings rows into an order that no acknowledgement contradicts, so that whoever reads them one by
one meets a request before its response. Two rows of which no acknowledgement says anything stay as captured: to claim
that a sender knew something, ask :func:`had_received`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

import numpy as np
import pyarrow as pa

from analysis.context import kinds
from analysis.context.batch import ContextBatch
from analysis.context.lookback import sorted_by
from analysis.context.losses import after_loss

if TYPE_CHECKING:
    from dissector.array_types import Longs, Mask
    from dissector.frames.connection_numbers import AppearanceOrder, ConnectionNumbers

#: Rows that may wait: of one connection, of one whose other direction was never seen, and of all.
MOST_OF_CONNECTION, MOST_OF_ONE_SIDED, MOST_OF_ALL = 1 << 14, 1 << 10, 1 << 17


@overload
def had_received(acked_offset: int, end_offset: int) -> bool: ...
@overload
def had_received(acked_offset: int | Longs, end_offset: Longs) -> Mask: ...
def had_received(acked_offset: int | Longs, end_offset: int | Longs) -> bool | Mask:
    """Tell whether a sender that had acknowledged so much had received the message that ends there."""
    return acked_offset >= end_offset


@dataclass(slots=True, eq=False)
class _Queues:
    """The rows of one connection that wait, by side; as numbers of rows, in the order of the capture."""

    waiting: tuple[deque[int], deque[int]] = field(default_factory=lambda: (deque(), deque()))
    hopeless: bool = False  #: too many waited for what never came; nothing waits until it does

    @property
    def count(self) -> int:
        """Return how many rows wait."""
        return len(self.waiting[0]) + len(self.waiting[1])


@dataclass(slots=True, eq=False)
class _RowColumns:
    """Columns of the rows that are being ordered, as lists."""

    acked: list[int]
    end: list[int]
    lost: list[bool]
    patient: list[bool]


class CausalOrder:
    """Holds rows back until everything was given out that their senders had received."""

    def __init__(self, connections: ConnectionNumbers, captures: AppearanceOrder) -> None:
        self._connections, self._captures = connections, captures
        self._end = np.zeros(0, np.int64)  #: by direction: where the last row ends that was given out
        self._seen = np.zeros(0, bool)  #: by direction: whether any row was given out
        self._queues: dict[int, _Queues] = {}
        self._held: pa.RecordBatch | None = None

    def arrange(self, batch: pa.RecordBatch, base: int) -> ContextBatch | None:
        """Take a batch; return the rows whose turn it is, numbered from ``base``. None: there are none."""
        frames = self._read(batch, base)
        lost, disordered = self._judged(frames)
        if not disordered and not self._queues:
            frames.peer_lost = lost
            self._give_out(frames, np.arange(frames.size))
            return frames
        held = 0
        if self._held is not None:
            held = self._held.num_rows
            frames = self._read(_joined(self._held, batch), base)
        return self._merged(frames, disordered | self._queues.keys(), held + np.flatnonzero(lost), final=False)

    def finish(self, base: int) -> ContextBatch | None:
        """Return the rows that still wait for something that never came."""
        if self._held is None:
            return None
        return self._merged(self._read(self._held, base), {*self._queues}, np.empty(0, np.int64), final=True)

    def _read(self, batch: pa.RecordBatch, base: int) -> ContextBatch:
        frames = ContextBatch(batch, base, self._connections, self._captures)
        room = 2 * (int(frames.connection.max()) + 1)
        if room > len(self._end):
            more = max(room, 2 * len(self._end)) - len(self._end)
            self._end = np.concatenate((self._end, np.zeros(more, np.int64)))
            self._seen = np.concatenate((self._seen, np.zeros(more, bool)))
        return frames

    def _judged(self, frames: ContextBatch) -> tuple[Mask, set[int]]:
        """Return which rows' senders had received something that was lost, and connections that are not in order."""
        lost: Mask = np.broadcast_to(np.False_, (frames.size,))
        acked, end = frames.numbers("acked_offset"), frames.numbers("end_offset")
        ahead = np.flatnonzero(_patient(frames) & (acked > self._heard(frames)))
        disordered: set[int] = set()
        if len(ahead):
            behind, lost = after_loss(frames), np.zeros(frames.size, bool)
            lanes = frames.direction_id[ahead]
            for lane in dict.fromkeys(lanes.tolist()):
                some = ahead[lanes == lane]
                theirs = np.flatnonzero(frames.direction_id == lane ^ 1)
                place = np.searchsorted(theirs, some)
                if place[-1] == len(theirs) or had_received(acked[some], end[theirs[place]]).any():
                    disordered.add(lane // 2)
                else:  # they acknowledge a part of the next one
                    lost[some] = behind[theirs[place]]
        return lost, disordered

    def _heard(self, frames: ContextBatch) -> Longs:
        """Return, for each row, where the last row of the other direction before it ends."""
        order, groups = sorted_by(frames.connection)
        side, end = frames.side[order], frames.numbers("end_offset")[order]
        found = np.where(side == 0, groups.last_before(side == 1), groups.last_before(side == 0))
        result = np.empty(frames.size, np.int64)
        result[order] = np.where(found >= 0, end[found], self._end[frames.direction_id[order] ^ 1])
        return result

    def _give_out(self, frames: ContextBatch, rows: Longs) -> None:
        # Of several writes to one place the last one stays, and rows are in their order.
        self._end[frames.direction_id[rows]] = frames.numbers("end_offset")[rows]
        self._seen[frames.direction_id[rows]] = True

    # ------------------------------------------------------------------------------------------- where rows must wait

    def _merged(
        self, frames: ContextBatch, disordered: set[int], plainly_lost: Longs, *, final: bool
    ) -> ContextBatch | None:
        """Order the rows of some connections; the first of all rows are those that waited."""
        mixed = np.isin(frames.connection, [*disordered])
        plain = np.flatnonzero(~mixed)
        self._give_out(frames, plain)
        order, lost = plain.tolist(), [row for row in plainly_lost.tolist() if not mixed[row]]
        rows = _RowColumns(
            frames.numbers("acked_offset").tolist(),
            frames.numbers("end_offset").tolist(),
            after_loss(frames).tolist(),
            _patient(frames).tolist(),
        )
        for number in disordered:
            for each in self._queues.setdefault(number, _Queues()).waiting:
                each.clear()
        some = np.flatnonzero(mixed)
        for row, number, side in zip(
            some.tolist(), frames.connection[some].tolist(), frames.side[some].tolist(), strict=True
        ):
            queues = self._queues[number]
            queues.waiting[side].append(row)
            self._advance(number, queues, rows, order, lost, final=False)
        if final or sum(queues.count for queues in self._queues.values()) > MOST_OF_ALL:
            for number, queues in self._queues.items():
                self._advance(number, queues, rows, order, lost, final=True)
        self._queues = {number: each for number, each in self._queues.items() if each.count or each.hopeless}
        left = sorted(row for queues in self._queues.values() for each in queues.waiting for row in each)
        self._held = _taken(frames.batch, left) if left else None
        if not order:
            return None
        arranged = self._read(_taken(frames.batch, order), frames.base)
        arranged.peer_lost = np.isin(order, lost)
        return arranged

    def _advance(
        self, number: int, queues: _Queues, rows: _RowColumns, order: list[int], lost: list[int], *, final: bool
    ) -> None:
        """Give out the rows of a connection whose turn it is, as captured where nothing says otherwise."""
        while True:
            ready = [side for side in (0, 1) if queues.waiting[side] and self._ready(number, side, queues, rows)]
            contradicted = False
            if not ready:
                # Each waits for the other: bytes were sent again, with a later acknowledgement than at first.
                contradicted = bool(queues.waiting[0]) and bool(queues.waiting[1])
                both = self._seen[2 * number] and self._seen[2 * number + 1]
                most = MOST_OF_CONNECTION if both else MOST_OF_ONE_SIDED
                if not queues.count or not (final or contradicted or queues.count > most):
                    return
                queues.hopeless |= not final and not contradicted
                ready = [side for side in (0, 1) if queues.waiting[side]]
            side = min(ready, key=lambda each: queues.waiting[each][0])
            row = queues.waiting[side].popleft()
            if contradicted:
                lost.append(row)
            if rows.acked[row] > self._end[2 * number + 1 - side] and rows.patient[row]:
                other = queues.waiting[1 - side]
                if not other or rows.lost[other[0]]:
                    lost.append(row)
            elif queues.hopeless and rows.patient[row]:
                queues.hopeless = False
            order.append(row)
            self._end[2 * number + side] = rows.end[row]
            self._seen[2 * number + side] = True

    def _ready(self, number: int, side: int, queues: _Queues, rows: _RowColumns) -> bool:
        """Tell whether everything was given out that the sender of a side's first row had received."""
        row, other = queues.waiting[side][0], queues.waiting[1 - side]
        if other:
            return not had_received(rows.acked[row], rows.end[other[0]]) or not rows.patient[row]
        return not rows.patient[row] or queues.hopeless or rows.acked[row] <= self._end[2 * number + 1 - side]


def _patient(frames: ContextBatch) -> Mask:
    """Tell which rows wait for what their senders had received.

    Acks of flow control do not: they are added up by offsets, and there are many of them.
    """
    patient: Mask = (frames.kind != kinds.NONE) & (frames.kind != kinds.ACK)
    return patient


def _joined(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    table = pa.Table.from_batches([one]).select(other.schema.names)
    whole = pa.concat_tables([table, pa.Table.from_batches([other])], promote_options="permissive").unify_dictionaries()
    return whole.combine_chunks().to_batches()[0]


def _taken(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    return batch.take(pa.array(rows, pa.int64()))
