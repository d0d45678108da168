"""Rows of flow control as plain numbers: one matrix per lot, a line per column, and the tables that are made of them.

Knows which columns there are and how references are made of them; must not know what they add up to. References are
large and almost never asked for, so they are made when a rule wants them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.frame_refs import REF
from analysis.context.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch

    Longs = NDArray[np.int64]

#: Lines of a matrix.
END, ACKED, TIME, SIZE, CODE, START, ORDINAL, FRAME, FIRST, LAST, CAPTURE = range(11)
_NAMES = ("end_offset", "acked_offset", "time_ns", "", "", "start_offset", "", "frame", "packet_first", "packet_last")
WIDTH = 11

#: Bits of CODE: what the row is, which miscounted message (see DRIFTS), and more.
COUNTED, ACK, NOOP = range(3)
KIND, DRIFT_SHIFT, DRIFT, EARLY, SIDE_SHIFT, MALFORMED = 0x3, 2, 0x7, 0x20, 6, 0x80

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


def matrix_of(sight: ContextBatch, rows: Longs, ack: NDArray[np.bool_], counted: NDArray[np.bool_]) -> Longs:
    """Return some rows of a batch: counted messages, acks, and no-ops, which are neither."""
    made = np.empty((WIDTH, len(rows)), np.int64)
    for line, name in enumerate(_NAMES):
        if name:
            made[line] = sight.numbers(name)[rows]
    made[ORDINAL] = sight.ordinal[rows]
    made[CAPTURE] = sight.refs()["capture"][rows]
    made[SIZE] = sight.numbers("flow_bytes")[rows]
    opcode = sight.opcode[rows]
    drift = _DRIFT_OF[opcode]
    odd = np.flatnonzero((drift == _STREAM_END) | (drift == _MARKER))
    if len(odd):
        at = rows[odd]
        plain = np.where(
            drift[odd] == _MARKER,
            sight.numbers("marker_version")[at] != _MARKER_VERSION,
            sight.numbers("stream_id")[at] < 0,
        )
        drift[odd[plain]] = 0
    code = drift << DRIFT_SHIFT | sight.side[rows] << SIDE_SHIFT
    code[sight.early[rows]] |= EARLY
    others = np.flatnonzero(~counted[rows])
    if len(others):
        at = rows[others]
        given = sight.numbers("buffer_bytes")[at]
        made[SIZE, others] = np.where(ack[at], np.maximum(given, 0), 0)
        code[others] |= np.where(ack[at], np.where(given < 0, ACK | MALFORMED, ACK), NOOP)
    made[CODE] = code
    return made


def refs_of(rows: Longs) -> NDArray[np.void]:
    """Return references to rows; those with ordinal 0 refer to nothing."""
    made = np.zeros(rows.shape[1], REF)
    made["side"] = rows[CODE] >> SIDE_SHIFT & 1
    for name, line in (
        ("ordinal", ORDINAL),
        ("frame", FRAME),
        ("capture", CAPTURE),
        ("packet_first", FIRST),
        ("packet_last", LAST),
        ("time_ns", TIME),
        ("start_offset", START),
    ):
        made[name] = rows[line]
    return made


class RowBuffer:
    """Rows of a table to be, piece by piece. A column's piece is an array, or one number for all rows of the piece."""

    def __init__(self, columns: tuple[str, ...], refs: tuple[str, ...]) -> None:
        self._columns = columns
        self._refs = ("guilty", *refs)
        self._clear()

    def _clear(self) -> None:
        self._sizes: list[int] = []
        self._pieces: dict[str, list[Any]] = {name: [] for name in ("connection", *self._columns)}
        self._rows: dict[str, list[Longs]] = {name: [] for name in self._refs}

    def add(self, connection: int, refs: dict[str, Longs], **columns: Longs | NDArray[np.bool_] | int) -> None:
        """Add rows."""
        self._sizes.append(refs["guilty"].shape[1])
        self._pieces["connection"].append(connection)
        for name in self._columns:
            self._pieces[name].append(columns[name])
        for name in self._refs:
            self._rows[name].append(refs[name])  # one reference may stand for all rows of the piece

    def table(self) -> Table | None:
        """Return what has come, and begin again."""
        if not self._sizes:
            return None
        sizes = np.array(self._sizes, np.int64)
        total = int(sizes.sum())
        columns: dict[str, Any] = {name: _lazy(pieces, sizes) for name, pieces in self._pieces.items()}
        columns["vbucket"] = lambda rows: np.full(total if rows is None else len(rows), -1, np.int64)
        columns["stream_id"] = lambda rows: np.zeros(total if rows is None else len(rows), np.int64)
        refs = {name: _lazy_refs(pieces, sizes) for name, pieces in self._rows.items()}
        self._clear()
        return Table(total, columns, refs)


def _lazy(pieces: list[Any], sizes: Longs) -> Callable[[Longs | None], NDArray[Any]]:
    made: list[NDArray[Any]] = []

    def make(rows: Longs | None) -> NDArray[Any]:
        if not made:
            if all(isinstance(piece, int) for piece in pieces):
                made.append(np.repeat(np.array(pieces, np.int64), sizes))
            else:
                arrays = (
                    np.full(size, piece, np.int64) if isinstance(piece, int) else piece
                    for piece, size in zip(pieces, sizes.tolist(), strict=True)
                )
                made.append(np.concatenate(list(arrays)))
        return made[0] if rows is None else made[0][rows]

    return make


def _lazy_refs(pieces: list[Longs], sizes: Longs) -> Callable[[Longs | None], NDArray[np.void]]:
    ends = np.cumsum(sizes)

    def make(rows: Longs | None) -> NDArray[np.void]:
        if rows is None:
            rows = np.arange(int(ends[-1]))
        piece = np.searchsorted(ends, rows, side="right")
        place = rows - (ends - sizes)[piece]
        found = np.empty((WIDTH, len(rows)), np.int64)
        for number in np.unique(piece).tolist():
            here = piece == number
            found[:, here] = pieces[number][:, place[here] if pieces[number].shape[1] > 1 else [0] * int(here.sum())]
        return refs_of(found)

    return make
