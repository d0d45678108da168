"""Which answer belongs to which request, for whole batches: the oldest request of its opcode and opaque.

Of the same connection, sent by the other side, and one that has to be answered: messages of a stream all have its
opaque, so what refuses one of them does not say which. Knows the order of frames and nothing of what answers mean;
:mod:`analysis.context.requests` judges them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from dissector.arrow import plain, take
from dissector.frames.batch import FrameBatch
from dissector.frames.connection_numbers import AppearanceOrder
from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Reply

if TYPE_CHECKING:
    from dissector.array_types import Longs, Mask

#: Columns of rows that are needed to pair them.
COLUMNS = frozenset(
    ("frame", "time_ns", "connection", "direction", "opcode", "response", "dialect", "opaque", "snapshot_type")
)
#: Requests that may still be answered; beyond this many the oldest are forgotten.
MAX_WAITING = 1 << 16
NO_REQUEST, NO_TIME = 0, -1  #: of what is no answer, or one whose request is not known
_DIALECTS = {dialect.value: number for number, dialect in enumerate(Dialect)}
_ACKNOWLEDGE = enums.MARKER_FLAGS.bit("acknowledge")
_MARKERS = [known.opcode for known in registry.MESSAGES if known.name == "snapshot_marker"]
_OPCODE, _SIDE, _CONNECTION = 32, 40, 41  #: where the parts of a pair's key begin, above the opaque


def _answered() -> Mask:
    """Tell, by dialect and opcode, which requests have to be answered."""
    table = np.zeros((len(Dialect), 256), bool)
    table[:, [known.opcode for known in registry.MESSAGES if known.dialect is Dialect.MEMCACHED]] = True
    for known in registry.MESSAGES:
        if known.dialect is not Dialect.MEMCACHED:
            table[_DIALECTS[known.dialect.value], known.opcode] = known.reply is Reply.ALWAYS
    return table


_ANSWERED = _answered()
_MAY_ASK: Mask = np.logical_or.reduce(_ANSWERED)
_MAY_ASK[_MARKERS] = True


class _Asked(NamedTuple):
    """Requests without an answer so far, oldest first."""

    key: Longs
    frame: Longs
    time_ns: Longs


class Answers:
    """Pairs the answers of a run with their requests, batch after batch."""

    def __init__(self, limit: int = MAX_WAITING) -> None:
        """Start without requests; at most so many are kept for the next batch."""
        self._limit = limit
        self._order = AppearanceOrder()
        nothing = np.empty(0, np.int64)
        self._waiting = _Asked(nothing, nothing, nothing)

    def take(self, batch: pa.RecordBatch) -> tuple[Longs, Longs]:
        """Return of each row the frame of the request that it answers, and the nanoseconds from it to the answer.

        :data:`NO_REQUEST` and :data:`NO_TIME` where there is none. A further answer to the same request has none.
        """
        frame, time_ns = np.full(batch.num_rows, NO_REQUEST, np.int64), np.full(batch.num_rows, NO_TIME, np.int64)
        if not batch.num_rows:
            return frame, time_ns
        rows = _concerned(batch)
        frames = FrameBatch(_rows_of(batch, rows))
        asking = _asking(frames)
        paired = asking | frames.response
        rows = rows[paired]
        if not len(rows):
            return frame, time_ns
        waiting, own = self._waiting, self._keyed(frames, np.flatnonzero(paired))
        before = len(waiting.key)
        everything = _Asked(*(np.concatenate(pair) for pair in zip(waiting, own, strict=True)))
        asks = np.r_[np.ones(before, bool), asking[paired]]
        answers, requests, left = _paired(everything.key, asks)
        kept = left[-self._limit :]
        self._waiting = _Asked(*(part[kept] for part in everything))
        places = rows[answers - before]
        frame[places] = everything.frame[requests]
        time_ns[places] = np.maximum(everything.time_ns[answers] - everything.time_ns[requests], 0)
        return frame, time_ns

    @property
    def waiting(self) -> Longs:
        """Return the frames of the requests that have no answer so far, oldest first."""
        return self._waiting.frame

    def _keyed(self, frames: FrameBatch, rows: Longs) -> _Asked:
        """Return what some rows are paired by."""
        connection = self._order.indexes(frames.ids)[frames.code[rows]]
        asker = frames.direction[rows] ^ frames.response[rows]  # the side that asked
        key = connection << _CONNECTION | asker << _SIDE | frames.opcode[rows] << _OPCODE
        return _Asked(
            key | frames.numbers("opaque")[rows], frames.numbers("frame")[rows], frames.numbers("time_ns")[rows]
        )


def _concerned(batch: pa.RecordBatch) -> Longs:
    """Return the few rows that may be requests or answers: documents, which are nearly all, are neither."""
    response = batch.column("response").to_numpy(zero_copy_only=False)
    response |= _MAY_ASK.take(plain(batch.column("opcode"), 0))
    return np.flatnonzero(response)


def _rows_of(batch: pa.RecordBatch, rows: Longs) -> pa.RecordBatch:
    names = [name for name in batch.schema.names if name in COLUMNS]
    return pa.RecordBatch.from_arrays([take(batch.column(name), rows) for name in names], names)


def _asking(frames: FrameBatch) -> Mask:
    """Tell which rows are requests that are to be answered."""
    dialect = frames.by_dialect(_DIALECTS, _DIALECTS[Dialect.DCP.value])
    asking: Mask = _ANSWERED[dialect, frames.opcode] & ~frames.response
    markers = np.isin(frames.opcode, _MARKERS) & ~frames.response
    if markers.any():
        flags = np.maximum(frames.numbers("snapshot_type"), 0)
        asking |= markers & (flags & _ACKNOWLEDGE > 0)
    return asking


def _paired(key: Longs, asks: Mask) -> tuple[Longs, Longs, Longs]:
    """Pair what has the same key, first in, first out; return answers, their requests, and the requests that are left.

    Within a key each request adds one to a sum and each answer takes one away. An answer that brings the sum below all
    that it was has no request; of the others the first belongs to the first request, the second to the second.
    """
    order = np.argsort(key, kind="stable")
    key, asks = key[order], asks[order]
    begins = np.r_[True, key[1:] != key[:-1]]
    group = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    steps = np.where(asks, 1, -1)
    total = np.cumsum(steps)
    level = total - (total - steps)[starts][group]
    far = 2 * len(key) * group  # further down than any sum goes: the least of a group is not that of the one before
    lowest = np.minimum.accumulate(np.minimum(level, 0) - far) + far
    paired = ~asks & (level >= np.where(begins, 0, np.r_[0, lowest[:-1]]))
    asked: Longs = np.cumsum(asks) - asks  # requests before, and answers that have one
    answered = np.cumsum(paired) - paired
    requests = np.flatnonzero(asks)
    mine = asked[starts][group] + answered - answered[starts][group]
    found = requests[mine[paired]]
    left = np.ones(len(key), bool)
    left[found] = False
    left &= asks
    return order[paired], order[found], np.sort(order[left])
