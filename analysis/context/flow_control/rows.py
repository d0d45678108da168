"""Rows of flow control as plain numbers: a matrix with a line per column, and the tables that are made of such rows.

Knows which columns there are and how references are made of them; must not know what they add up to. References are
large and rarely asked for, so they are made when a rule needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.clock import place
from analysis.context.flow_control.lost_bytes import SHORTEST_ACK
from analysis.context.frame_refs import REF
from analysis.context.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.flow_control.lost_bytes import Loss
    from dissector.array_types import Longs


#: Lines of a matrix.
END, ACKED, TIME, SIZE, CODE, START, ORDINAL, FRAME, FIRST, LAST, CAPTURE = range(11)
_NAMES = ("end_offset", "acked_offset", "time_ns", "", "", "start_offset", "", "frame", "packet_first", "packet_last")
WIDTH = 11

#: Bits of CODE: what the row is, which miscounted message (see DRIFTS), and more.
COUNTED, ACK, NOOP = range(3)
KIND, DRIFT_SHIFT, DRIFT, UPR, SIDE_SHIFT, MALFORMED = 0x3, 2, 0x7, 0x20, 6, 0x80
VAGUE = 0x100  #: of an ack: how much it gives back was not captured
LOST = 0x200  #: no ack, but lost bytes that may have held some: they are vague as well

#: Messages whose size consumers have been known to count wrongly, and the bytes that they were off by (FLC-05).
DRIFTS: tuple[tuple[str, int], ...] = (
    ("prepare", 2),
    ("stream end with a stream id", 3),
    ("snapshot marker V2.1", 8),
    ("mutation", 1),
)
_PREPARE, _STREAM_END, _MARKER, _MUTATION = range(1, 5)
_MARKER_VERSION = 1

_DRIFT_OF = np.zeros(256, np.int64)
_DRIFT_OF[[kinds.PREPARE, kinds.STREAM_END, kinds.SNAPSHOT_MARKER, kinds.MUTATION]] = (
    _PREPARE,
    _STREAM_END,
    _MARKER,
    _MUTATION,
)
NONE = np.empty((WIDTH, 0), np.int64)
_PACKET = (1 << 40) - 1


def matrix_of(frames: ContextBatch, rows: Longs, ack: NDArray[np.bool_], counted: NDArray[np.bool_]) -> Longs:
    """Return some rows of a batch as a matrix: counted messages, acks, and no-ops, which are neither."""
    matrix = np.empty((WIDTH, len(rows)), np.int64)
    for line, name in enumerate(_NAMES):
        if name:
            matrix[line] = frames.numbers(name)[rows]
    matrix[ORDINAL] = frames.ordinal[rows]
    matrix[CAPTURE] = frames.refs()["capture"][rows]
    matrix[SIZE] = frames.numbers("flow_bytes")[rows]
    opcode = frames.opcode[rows]
    drift = _DRIFT_OF[opcode]
    odd = np.flatnonzero((drift == _STREAM_END) | (drift == _MARKER))
    if len(odd):
        at = rows[odd]
        plain = np.where(
            drift[odd] == _MARKER,
            frames.numbers("marker_version")[at] != _MARKER_VERSION,
            frames.numbers("stream_id")[at] < 0,
        )
        drift[odd[plain]] = 0
    code = drift << DRIFT_SHIFT | frames.side[rows] << SIDE_SHIFT
    code[frames.early[rows]] |= UPR
    others = np.flatnonzero(~counted[rows])
    if len(others):
        at = rows[others]
        given = frames.numbers("buffer_bytes")[at]
        matrix[SIZE, others] = np.where(ack[at], np.maximum(given, 0), 0)
        code[others] |= np.where(ack[at], np.where(given < 0, ACK | MALFORMED, ACK), NOOP)
        cut_off = others[ack[at] & (given < 0) & (frames.numbers("missing")[at] > 0)]
        code[cut_off] |= VAGUE
    matrix[CODE] = code
    return matrix


def places_of(rows: Longs) -> Longs:
    """Return the places of the packets that completed rows, for the capture's clock; 0: there is no row."""
    found: Longs = place(rows[CAPTURE], rows[LAST])
    return found


def loss_rows(loss: Loss, side: int) -> Longs:
    """Return rows for lost bytes of a consumer: one for their first possible ack, and one for their last."""
    rows = np.zeros((WIDTH, 2), np.int64)
    for line, number in (
        (ACKED, loss.acked),
        (TIME, loss.time_ns),
        (CAPTURE, loss.place >> 40),
        (LAST, loss.place & _PACKET),
    ):
        rows[line] = number
    rows[CODE] = ACK | VAGUE | LOST | side << SIDE_SHIFT
    rows[START] = loss.begin
    rows[END] = loss.begin + SHORTEST_ACK, loss.end
    return rows


def refs_of(rows: Longs) -> NDArray[np.void]:
    """Return references to rows; those with ordinal 0 refer to nothing."""
    matrix = np.zeros(rows.shape[1], REF)
    matrix["side"] = rows[CODE] >> SIDE_SHIFT & 1
    for name, line in (
        ("ordinal", ORDINAL),
        ("frame", FRAME),
        ("capture", CAPTURE),
        ("packet_first", FIRST),
        ("packet_last", LAST),
        ("time_ns", TIME),
        ("start_offset", START),
    ):
        matrix[name] = rows[line]
    return matrix


class RowBuffer:
    """Collects the rows of a table in parts. A column's part is an array, or one number for all rows of the part."""

    def __init__(self, columns: tuple[str, ...], refs: tuple[str, ...]) -> None:
        self._columns = columns
        self._refs = ("guilty", *refs)
        self._clear()

    def _clear(self) -> None:
        self._sizes: list[int] = []
        self._parts: dict[str, list[Any]] = {name: [] for name in ("connection", *self._columns)}
        self._ref_parts: dict[str, list[Longs]] = {name: [] for name in self._refs}

    def add(self, connection: int, refs: dict[str, Longs], **columns: Longs | NDArray[np.bool_] | int) -> None:
        """Add a part."""
        self._sizes.append(refs["guilty"].shape[1])
        self._parts["connection"].append(connection)
        for name in self._columns:
            self._parts[name].append(columns[name])
        for name in self._refs:
            self._ref_parts[name].append(refs[name])  # one reference may stand for all rows of the part

    def table(self) -> Table | None:
        """Return the rows added since the last call; None: there are none."""
        if not self._sizes:
            return None
        sizes = np.array(self._sizes, np.int64)
        total = int(sizes.sum())
        columns: dict[str, Any] = {name: _lazy_column(parts, sizes) for name, parts in self._parts.items()}
        columns["vbucket"] = lambda rows: np.full(total if rows is None else len(rows), -1, np.int64)
        columns["stream_id"] = lambda rows: np.zeros(total if rows is None else len(rows), np.int64)
        refs = {name: _lazy_refs(parts, sizes) for name, parts in self._ref_parts.items()}
        self._clear()
        return Table(total, columns, refs)


def _lazy_column(parts: list[Any], sizes: Longs) -> Callable[[Longs | None], NDArray[Any]]:
    matrix: list[NDArray[Any]] = []

    def make(rows: Longs | None) -> NDArray[Any]:
        if not matrix:
            if all(isinstance(part, int) for part in parts):
                matrix.append(np.repeat(np.array(parts, np.int64), sizes))
            else:
                arrays = (
                    np.full(size, part, np.int64) if isinstance(part, int) else part
                    for part, size in zip(parts, sizes.tolist(), strict=True)
                )
                matrix.append(np.concatenate(list(arrays)))
        return matrix[0] if rows is None else matrix[0][rows]

    return make


def _lazy_refs(parts: list[Longs], sizes: Longs) -> Callable[[Longs | None], NDArray[np.void]]:
    ends = np.cumsum(sizes)

    def make(rows: Longs | None) -> NDArray[np.void]:
        if rows is None:
            rows = np.arange(int(ends[-1]))
        part = np.searchsorted(ends, rows, side="right")
        place = rows - (ends - sizes)[part]
        found = np.empty((WIDTH, len(rows)), np.int64)
        for number in np.unique(part).tolist():
            here = part == number
            found[:, here] = parts[number][:, place[here] if parts[number].shape[1] > 1 else [0] * int(here.sum())]
        return refs_of(found)

    return make
