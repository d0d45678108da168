"""Defects of single messages as columns, with what is known of the connection at that point.

Knows the defects that the dissector puts into rows, and which framing rule each belongs to; rules decide. A batch
without defects costs next to nothing: columns of defects are made on demand, and are one zero then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context.frame_refs import REF
from analysis.context.frame_runs import FrameRuns
from analysis.context.lookback import filled, sorted_by
from analysis.context.odd_fields import FLAG_FIELDS, NUMBER_FIELDS, odd_field, odd_value
from analysis.context.settled_dialects import DCP, NOT_SETTLED, UPR, DialectForms, SettledDialects
from analysis.context.tables import Table, gathered
from dissector.arrow import encoded, lengths
from dissector.spec.defects import DEFECTS
from dissector.spec.model import Dialect, Severity
from dissector.spec.registry import HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.connection_rows import ConnectionRows
    from analysis.context.progress import DirectionProgress
    from dissector.array_types import Longs, Mask


#: Defects by number, from 1: what the columns of defects hold.
NUMBER = {spec.id: number for number, spec in enumerate(DEFECTS, 1)}
_SEVERITIES = {Severity.ERROR: "error", Severity.WARNING: "warning"}
_SPOKEN = dict.fromkeys((Dialect.DRAFT.value, Dialect.PROTO.value, Dialect.UPR.value, Dialect.DCP.value), 1)
_NONE = np.zeros(0, np.int64)
_FORM_DIALECTS = (Dialect.DRAFT, Dialect.UPR, Dialect.DCP)
_DRAFT_FORM, _UPR_FORM, _DCP_FORM = range(len(_FORM_DIALECTS))
#: Told of frames with missing bytes only, which are not judged for that.
_CUT = ("truncated-header", "truncated-frame")
_CUT_NUMBERS = [NUMBER[name] for name in _CUT]
#: Decided when the dialect is, in a table of its own.
OTHER_DIALECT = "layout-of-other-dialect"
#: A frame after so many others of its run was not found by mistake.
_CONFIRMED = 2
_TAKEN = (
    *("opcode", "magic", "status", "datatype", "extras_length", "key_length", "value_length", "framing_length"),
    *("body_length", "nmeta", "vbucket", "stream_id", "open_flags", "stream_flags", "snapshot_type", "marker_version"),
    *("event", "event_version", "missing", "subtype", "reserved"),
)


def _columns() -> dict[str, NDArray[np.int8]]:
    """Return, by column, a table from a defect's number to what the column holds: the number, 0 for other rules."""
    found: dict[str, NDArray[np.int8]] = {}
    for spec in DEFECTS:
        if spec.rule and spec.severity in _SEVERITIES and spec.id != OTHER_DIALECT:
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
    """Makes the tables ``messages``, ``dialect_forms`` and ``unframed_bytes``; keeps each direction's last frame."""

    def __init__(self) -> None:
        self._last = np.zeros(0, REF)
        self._last_doubtful: Mask = np.zeros(0, bool)  #: by direction: where its last frame ends may be wrong
        self._lossy: set[int] = set()  #: connections
        self._runs = FrameRuns()
        self._dialects = SettledDialects()
        self._forms = DialectForms(self._dialects)

    def fold(
        self,
        frames: ContextBatch,
        facts: dict[str, Longs],
        directions: DirectionProgress,
        connections: ConnectionRows,
    ) -> Iterator[tuple[str, Table]]:
        """Take a batch, before its directions are committed."""
        before = self._runs.fold(frames)
        settled = self._dialects.fold(frames, before > 0)
        defects = _DefectRows(frames, self._lossy, directions)
        spoken = _spoken(frames)
        rows = np.flatnonzero(spoken)
        if len(rows):
            yield "messages", _messages(frames, facts, defects, rows, before == 0, settled)
        yield from connections.tables(spoken, before == 0, defects.doubtful)
        forms = self._forms.fold(frames, settled, defects.with_defect(OTHER_DIALECT), before == 0)
        if forms is not None:
            yield "dialect_forms", forms
        doubtful = (frames.numbers("missing") > 0) | (before < _CONFIRMED)
        behind = np.flatnonzero((frames.numbers("skipped") > 0) & spoken)
        if len(behind):
            yield "unframed_bytes", self._unframed_bytes(frames, behind, doubtful)
        self._remember(frames, doubtful)
        self._lossy |= defects.lossy()

    def finish(self) -> Iterator[tuple[str, Table]]:
        """Yield what no frame decides any more."""
        forms = self._forms.finish()
        if forms is not None:
            yield "dialect_forms", forms

    def _unframed_bytes(self, frames: ContextBatch, behind: Longs, doubtful: Mask) -> Table:
        """Return the table of bytes that are no frame, one row for the frame after each such place."""
        order, groups = sorted_by(frames.direction_id)
        place = np.empty(frames.size, np.int64)
        place[order] = np.arange(frames.size)
        everything = np.ones(frames.size, bool)
        found = groups.last_before(everything)[place[behind]]
        before, unsure = self._known(frames.direction_id[behind])
        here = found >= 0
        before[here] = frames.refs()[order[found[here]]]
        unsure[here] = doubtful[order[found[here]]]
        damaged = (frames.numbers("gap")[behind] > 0) | (frames.numbers("missing")[behind] > 0)
        columns = {
            "connection": frames.connection[behind],
            "vbucket": np.full(len(behind), -1),
            "stream_id": np.zeros(len(behind), np.int64),
            "skipped": frames.numbers("skipped")[behind],
            "lost": damaged | unsure | (before["ordinal"] == 0),
        }
        refs = frames.refs()[behind]
        # Fewer bytes than a header were left over by the frame before; more may be a frame that could not be read.
        short = columns["skipped"] < HEADER_SIZE
        guilty = np.where(short & (before["ordinal"] > 0), before, refs)
        return Table(len(behind), columns, {"guilty": guilty, "behind": refs, "before": before})

    def _known(self, directions: Longs) -> tuple[NDArray[np.void], Mask]:
        """Return the last frames of directions before the batch, and whether where they end may be wrong."""
        found, unsure = np.zeros(len(directions), REF), np.zeros(len(directions), bool)
        known = directions < len(self._last)
        found[known] = self._last[directions[known]]
        unsure[known] = self._last_doubtful[directions[known]]
        return found, unsure

    def _remember(self, frames: ContextBatch, doubtful: Mask) -> None:
        room = int(frames.direction_id.max()) + 1
        if room > len(self._last):
            more = max(room, 2 * len(self._last)) - len(self._last)
            self._last = np.r_[self._last, np.zeros(more, REF)]
            self._last_doubtful = np.r_[self._last_doubtful, np.zeros(more, bool)]
        last = np.full(room, -1, np.int64)
        last[frames.direction_id] = np.arange(frames.size)  # of several writes to one place the last one stays
        there = np.flatnonzero(last >= 0)
        self._last[there] = frames.refs()[last[there]]
        self._last_doubtful[there] = doubtful[last[there]]


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
        there = there[np.argsort(~np.isin(numbers[there], _CUT_NUMBERS), kind="stable")]  # or one of what is there
        found[self.rows[there]] = numbers[there]
        return found

    def with_defect(self, defect: str) -> Longs:
        """Return the rows that have a defect."""
        return np.unique(self.rows[self._codes() == NUMBER[defect]]) if len(self.rows) else _NONE

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

    def doubtful(self) -> Mask:
        """Tell which rows' connections may have agreed upon more than was captured.

        Something was lost so far, in either direction, or a sender had received more than was captured before the row.
        """
        return self._any_lost() | self._peer_not_captured()

    def _any_lost(self) -> Mask:
        frames = self._frames
        order, groups = sorted_by(frames.connection)
        found = groups.last_until(self._damaged()[order])
        numbers = np.unique(frames.connection)
        known = np.array([number in self._lossy for number in numbers.tolist()], bool)
        result = np.empty(frames.size, bool)
        result[order] = (found >= 0) | known[np.searchsorted(numbers, frames.connection[order])]
        return result

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
        result[order] = frames.numbers("acked_offset")[order] > np.maximum(heard, 0)  # below 0: nothing came
        return result


def form_number(dialect: Dialect, opcode: int, *, response: bool) -> int:
    """Return the number that stands for a message of a dialect in columns of forms."""
    return _FORM_DIALECTS.index(dialect) << 9 | response << 8 | opcode


def _forms(frames: ContextBatch) -> Longs:
    dialect = np.where(frames.draft, _DRAFT_FORM, np.where(frames.early, _UPR_FORM, _DCP_FORM))
    forms: Longs = dialect << 9 | frames.response.astype(np.int64) << 8 | frames.opcode
    return forms


def _spoken(frames: ContextBatch) -> Mask:
    """Tell which rows are messages of UPR, of whatever dialect."""
    return frames.by_dialect(_SPOKEN, 0) > 0


def _messages(
    frames: ContextBatch,
    facts: dict[str, Longs],
    defects: _DefectRows,
    rows: Longs,
    searched: Mask,
    settled: Longs,
) -> Table:
    whole: dict[str, Callable[[], NDArray[Any]]] = {name: partial(frames.numbers, name) for name in _TAKEN}
    whole |= {name: partial(_same, column) for name, column in facts.items()}
    whole |= {name: partial(defects.first_defect, name) for name in DEFECT_COLUMNS}
    whole |= {f"{name}_root": partial(defects.root, name) for name in DEFECT_COLUMNS}
    whole["cas"] = partial(frames.signed, "cas")
    whole["doubtful"] = defects.doubtful
    for kind, fields in (("number", NUMBER_FIELDS), ("flags", FLAG_FIELDS)):
        whole[f"odd_{kind}_field"] = partial(odd_field, frames, fields)
        whole[f"odd_{kind}_value"] = partial(odd_value, frames, fields)
    whole["has_reserved"] = lambda: frames.numbers("reserved") >= 0
    whole["form"] = whole["expected"] = partial(_forms, frames)
    whole["dialect_unknown"] = lambda: _dialect_unknown(frames, facts, defects, settled)
    for name, column in (
        ("connection", frames.connection),
        ("is_upr", frames.early),
        ("draft", frames.draft),
        ("response", frames.response),
        ("searched", searched),
    ):
        whole[name] = partial(_same, column)
    if len(rows) == frames.size:
        columns: dict[str, Any] = {name: partial(_picked, make) for name, make in whole.items()}
        return Table(len(rows), columns, {"guilty": partial(_picked, frames.refs)})
    columns = {name: gathered(make, rows) for name, make in whole.items()}
    return Table(len(rows), columns, {"guilty": gathered(frames.refs, rows)})


def _dialect_unknown(frames: ContextBatch, facts: dict[str, Longs], defects: _DefectRows, settled: Longs) -> Mask:
    """Tell which rows may have been read in a wrong dialect.

    Connections are taken for dcp until a message says otherwise, which one that was captured from its open on shows.
    """
    begun = ~frames.early & (facts["opened"] > 0) & (settled == NOT_SETTLED) & ~defects.doubtful()
    unknown: Mask = ~frames.draft & ~begun & (settled != np.where(frames.early, UPR, DCP))
    return unknown


def _same(column: NDArray[Any]) -> NDArray[Any]:
    return column


def _picked(whole: Callable[[], NDArray[Any]], rows: Longs | None) -> NDArray[Any]:
    return whole() if rows is None else whole()[rows]
