"""Defects of single messages as columns, with what is known of the connection at that point.

Knows the defects that the dissector puts into rows, and which framing rule each belongs to; rules decide. A batch
without defects costs next to nothing: columns of defects are made on demand, and are one zero then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context.frame_refs import REF
from analysis.context.lookback import filled, sorted_by
from analysis.context.tables import Table, gathered
from dissector.arrow import encoded, lengths
from dissector.spec.defects import DEFECTS
from dissector.spec.model import Dialect, Severity
from dissector.spec.registry import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.progress import DirectionProgress
    from dissector.array_types import Longs, Mask


#: Defects by number, from 1: what the columns of defects hold.
NUMBER = {spec.id: number for number, spec in enumerate(DEFECTS, 1)}
_SEVERITIES = {Severity.ERROR: "error", Severity.WARNING: "warning"}
_SPOKEN = dict.fromkeys((Dialect.DRAFT.value, Dialect.PROTO.value, Dialect.UPR.value, Dialect.DCP.value), 1)
_NONE = np.zeros(0, np.int64)
_TAKEN = (
    *("opcode", "magic", "status", "datatype", "extras_length", "key_length", "value_length", "framing_length"),
    *("body_length", "nmeta", "vbucket", "stream_id", "open_flags", "stream_flags", "snapshot_type", "marker_version"),
    *("event", "event_version", "missing", "subtype", "end_reason", "vbucket_state", "oso_flags", "durability_level"),
)


def _columns() -> dict[str, NDArray[np.int8]]:
    """Return, by column, a table from a defect's number to what the column holds: the number, 0 for other rules."""
    found: dict[str, NDArray[np.int8]] = {}
    for spec in DEFECTS:
        if spec.rule and spec.severity in _SEVERITIES:
            name = f"{_SEVERITIES[spec.severity]}_{spec.rule.lower().replace('-', '_')}"
            table = found.setdefault(name, np.zeros(len(DEFECTS) + 1, np.int8))
            table[NUMBER[spec.id]] = NUMBER[spec.id]
    return found


#: ``error_frm_03`` has a message's first defect that is an error by FRM-03, ``warning_frm_03`` the first that is not.
DEFECT_COLUMNS = _columns()


def defect_rows(frames: ContextBatch) -> Mask:
    """Tell which rows have any defect: what they say of themselves may be misread."""
    return lengths(frames.batch.column("defects")) > 0


class DefectColumns:
    """Makes the tables ``messages`` and ``unframed_bytes``; keeps each direction's last frame and losses."""

    def __init__(self) -> None:
        self._last = np.zeros(0, REF)
        self._lossy: set[int] = set()  #: connections

    def fold(
        self, frames: ContextBatch, facts: dict[str, Longs], directions: DirectionProgress
    ) -> Iterator[tuple[str, Table]]:
        """Take a batch, before its directions are committed."""
        defects = _DefectRows(frames, self._lossy, directions)
        rows = np.flatnonzero(_spoken(frames))
        if len(rows):
            yield "messages", _messages(frames, facts, defects, rows)
        behind = np.flatnonzero((frames.numbers("skipped") > 0) & (facts["opened"] > 0))
        if len(behind):
            yield "unframed_bytes", self._unframed_bytes(frames, defects, behind)
        self._remember(frames)
        self._lossy |= defects.lossy()

    def _unframed_bytes(self, frames: ContextBatch, defects: _DefectRows, behind: Longs) -> Table:
        """Return the table of bytes that are no frame, one row for the frame after each such place."""
        order, groups = sorted_by(frames.direction_id)
        place = np.empty(frames.size, np.int64)
        place[order] = np.arange(frames.size)
        everything = np.ones(frames.size, bool)
        found = groups.last_before(everything)[place[behind]]
        before = self._known(frames.direction_id[behind])
        here = found >= 0
        before[here] = frames.refs()[order[found[here]]]
        damaged = (frames.numbers("gap")[behind] > 0) | (frames.numbers("missing")[behind] > 0)
        columns = {
            "connection": frames.connection[behind],
            "vbucket": np.full(len(behind), -1),
            "stream_id": np.zeros(len(behind), np.int64),
            "skipped": frames.numbers("skipped")[behind],
            "lost": damaged | (before["ordinal"] == 0) | defects.lost_before()[behind],
        }
        refs = frames.refs()[behind]
        # Fewer bytes than a header were left over by the frame before; more may be a frame that could not be read.
        short = columns["skipped"] < HEADER_SIZE
        guilty = np.where(short & (before["ordinal"] > 0), before, refs)
        return Table(len(behind), columns, {"guilty": guilty, "behind": refs, "before": before})

    def _known(self, directions: Longs) -> NDArray[np.void]:
        found = np.zeros(len(directions), REF)
        known = directions < len(self._last)
        found[known] = self._last[directions[known]]
        return found

    def _remember(self, frames: ContextBatch) -> None:
        room = int(frames.direction_id.max()) + 1
        if room > len(self._last):
            self._last = np.r_[self._last, np.zeros(max(room, 2 * len(self._last)) - len(self._last), REF)]
        last = np.full(room, -1, np.int64)
        last[frames.direction_id] = np.arange(frames.size)  # of several writes to one place the last one stays
        there = np.flatnonzero(last >= 0)
        self._last[there] = frames.refs()[last[there]]


class _DefectRows:
    """The defects of a batch, and what makes them doubtful."""

    def __init__(self, frames: ContextBatch, lossy: set[int], directions: DirectionProgress) -> None:
        self._frames, self._lossy, self._directions = frames, lossy, directions
        column = frames.batch.column("defects")
        counts = lengths(column)
        self.rows: Longs = np.repeat(np.arange(frames.size), counts) if counts.any() else _NONE
        self._column = column
        self._numbers: NDArray[np.int8] | None = None

    def first_defect(self, name: str) -> NDArray[np.int8]:
        """Return one column of defects, for all rows of the batch: the first of each message."""
        if not len(self.rows):
            return np.broadcast_to(np.int8(0), (self._frames.size,))
        found = np.zeros(self._frames.size, np.int8)
        numbers = DEFECT_COLUMNS[name][self._codes()]
        there = np.flatnonzero(numbers)[::-1]  # of several writes to one place the last one stays: the first defect
        found[self.rows[there]] = numbers[there]
        return found

    def root(self, name: str) -> Longs:
        """Return what findings of one column share: the defect, and the opcode of the message that has it."""
        return self.first_defect(name).astype(np.int64) << 8 | self._frames.opcode

    def _codes(self) -> NDArray[np.int8]:
        """Return the numbers of all defects, in their order."""
        if self._numbers is None:
            names, places = encoded(self._column.flatten())
            numbers = np.array([NUMBER.get(name, 0) for name in names.to_pylist()], np.int8)
            self._numbers = numbers[places]
        return self._numbers

    def _damaged(self) -> Mask:
        frames = self._frames
        damaged: Mask = (frames.numbers("gap") > 0) | (frames.numbers("skipped") > 0) | (frames.numbers("missing") > 0)
        return damaged

    def lossy(self) -> set[int]:
        """Return the connections that the batch shows to have lost something."""
        return set(self._frames.connection[self._damaged()].tolist())

    def lost(self) -> Mask:
        """Tell of which rows' connections something was lost so far, in either direction.

        What a dialect is, and what was agreed upon, may have been in there.
        """
        if not len(self.rows):
            return np.broadcast_to(np.False_, (self._frames.size,))
        return self._any_lost(itself=True)

    def lost_before(self) -> Mask:
        """Like `lost`, but excluding the row itself, and for a batch without defects too."""
        return self._any_lost(itself=False)

    def _any_lost(self, *, itself: bool) -> Mask:
        frames = self._frames
        order, groups = sorted_by(frames.connection)
        damaged = self._damaged()[order]
        found = groups.last_until(damaged) if itself else groups.last_before(damaged)
        numbers = np.unique(frames.connection)
        known = np.array([number in self._lossy for number in numbers.tolist()], bool)
        result = np.empty(frames.size, bool)
        result[order] = (found >= 0) | known[np.searchsorted(numbers, frames.connection[order])]
        return result

    def peer_not_captured(self) -> Mask:
        """Tell which rows' senders had received more of the other side than was captured before the row."""
        return self._peer_not_captured() if len(self.rows) else np.broadcast_to(np.False_, (self._frames.size,))

    def doubtful(self) -> Mask:
        """Like `lost` or `peer_not_captured`, but for a batch without defects too."""
        return self._any_lost(itself=True) | self._peer_not_captured()

    def _peer_not_captured(self) -> Mask:
        frames = self._frames
        order, groups = sorted_by(frames.connection)
        side, end = frames.side[order], frames.numbers("end_offset")[order]
        other = frames.direction_id[order] ^ 1
        numbers, place = np.unique(other, return_inverse=True)
        carried = np.array([self._directions.heard(number) for number in numbers.tolist()])
        heard = np.where(
            side == 0,
            filled(groups.last_before(side == 1), end, carried, place),
            filled(groups.last_before(side == 0), end, carried, place),
        )
        result = np.empty(frames.size, bool)
        result[order] = frames.numbers("acked_offset")[order] > heard
        return result


def _spoken(frames: ContextBatch) -> Mask:
    """Tell which rows are messages of UPR, of whatever dialect."""
    return frames.by_dialect(_SPOKEN, 0) > 0


def _messages(frames: ContextBatch, facts: dict[str, Longs], defects: _DefectRows, rows: Longs) -> Table:
    whole: dict[str, Callable[[], NDArray[Any]]] = {name: partial(frames.numbers, name) for name in _TAKEN}
    whole |= {name: partial(_same, column) for name, column in facts.items()}
    whole |= {name: partial(defects.first_defect, name) for name in DEFECT_COLUMNS}
    whole |= {f"{name}_root": partial(defects.root, name) for name in DEFECT_COLUMNS}
    whole["cas"] = partial(frames.signed, "cas")
    whole["lost"] = defects.lost
    whole["peer_not_captured"] = defects.peer_not_captured
    whole["doubtful"] = defects.doubtful
    for name, column in (
        ("connection", frames.connection),
        ("is_upr", frames.early),
        ("draft", frames.draft),
        ("response", frames.response),
    ):
        whole[name] = partial(_same, column)
    if len(rows) == frames.size:
        columns: dict[str, Any] = {name: partial(_picked, make) for name, make in whole.items()}
        return Table(len(rows), columns, {"guilty": partial(_picked, frames.refs)})
    columns = {name: gathered(make, rows) for name, make in whole.items()}
    return Table(len(rows), columns, {"guilty": gathered(frames.refs, rows)})


def _same(column: NDArray[Any]) -> NDArray[Any]:
    return column


def _picked(whole: Callable[[], NDArray[Any]], rows: Longs | None) -> NDArray[Any]:
    return whole() if rows is None else whole()[rows]
