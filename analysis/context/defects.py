"""What is wrong with single messages, beside what is known of their connection at that point.

Knows the defects that the dissector puts into rows, and which framing rule each belongs to; decides nothing. A batch
without defects costs next to nothing: the columns of flaws are made when they are asked for, and are one zero then.
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

    from analysis.context.batch import ContextBatch, DirectionGaps

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]

#: Defects by number, from 1: what stands in the columns of flaws.
NUMBER = {spec.id: number for number, spec in enumerate(DEFECTS, 1)}
_SEVERITIES = {Severity.ERROR: "flaw", Severity.WARNING: "oddity"}
_SPOKEN = dict.fromkeys((Dialect.DRAFT.value, Dialect.PROTO.value, Dialect.UPR.value, Dialect.DCP.value), 1)
_NONE = np.zeros(0, np.int64)
_TAKEN = (
    *("opcode", "magic", "status", "datatype", "extras_length", "key_length", "value_length", "framing_length"),
    *("body_length", "nmeta", "vbucket", "stream_id", "open_flags", "stream_flags", "snapshot_type", "marker_version"),
    *("event", "event_version", "missing", "subtype", "end_reason", "vbucket_state", "oso_flags", "durability_level"),
)


def _columns() -> dict[str, NDArray[np.int8]]:
    """Return, by column of flaws, a table from defects to what stands there: their numbers, 0 for those of others."""
    found: dict[str, NDArray[np.int8]] = {}
    for spec in DEFECTS:
        if spec.rule and spec.severity in _SEVERITIES:
            name = f"{_SEVERITIES[spec.severity]}_{spec.rule.lower().replace('-', '_')}"
            table = found.setdefault(name, np.zeros(len(DEFECTS) + 1, np.int8))
            table[NUMBER[spec.id]] = NUMBER[spec.id]
    return found


#: ``flaw_frm_03`` has a message's first defect that is an error by FRM-03, ``oddity_frm_03`` the first that is not.
COLUMNS_OF_FLAWS = _columns()


def defect_rows(sight: ContextBatch) -> Mask:
    """Tell which rows have any defect: what they say of themselves may be misread."""
    return lengths(sight.batch.column("defects")) > 0


class DefectColumns:
    """Makes the tables ``messages`` and ``strays``; remembers the last frame of each direction, and who lost bytes."""

    def __init__(self) -> None:
        self._last = np.zeros(0, REF)
        self._lossy: set[int] = set()  #: connections

    def fold(
        self, sight: ContextBatch, facts: dict[str, Longs], directions: DirectionGaps
    ) -> Iterator[tuple[str, Table]]:
        """Take a batch, before its directions are committed."""
        flawed = _DefectRows(sight, self._lossy, directions)
        rows = np.flatnonzero(_spoken(sight))
        if len(rows):
            yield "messages", _messages(sight, facts, flawed, rows)
        behind = np.flatnonzero((sight.numbers("skipped") > 0) & (facts["opened"] > 0))
        if len(behind):
            yield "strays", self._strays(sight, flawed, behind)
        self._remember(sight)
        self._lossy |= flawed.lossy()

    def _strays(self, sight: ContextBatch, flawed: _DefectRows, behind: Longs) -> Table:
        """Return the table of bytes that are no frame, one row for the frame behind each such place."""
        order, groups = sorted_by(sight.stream_of_bytes)
        place = np.empty(sight.size, np.int64)
        place[order] = np.arange(sight.size)
        everything = np.ones(sight.size, bool)
        found = groups.last_before(everything)[place[behind]]
        before = self._known(sight.stream_of_bytes[behind])
        here = found >= 0
        before[here] = sight.refs()[order[found[here]]]
        damaged = (sight.numbers("gap")[behind] > 0) | (sight.numbers("missing")[behind] > 0)
        columns = {
            "connection": sight.connection[behind],
            "vbucket": np.full(len(behind), -1),
            "stream_id": np.zeros(len(behind), np.int64),
            "skipped": sight.numbers("skipped")[behind],
            "lost": damaged | (before["ordinal"] == 0) | flawed.lost_before()[behind],
        }
        refs = sight.refs()[behind]
        # Fewer bytes than a header were left over by the frame before; more may be a frame that nobody can read.
        short = columns["skipped"] < HEADER_SIZE
        guilty = np.where(short & (before["ordinal"] > 0), before, refs)
        return Table(len(behind), columns, {"guilty": guilty, "behind": refs, "before": before})

    def _known(self, directions: Longs) -> NDArray[np.void]:
        found = np.zeros(len(directions), REF)
        known = directions < len(self._last)
        found[known] = self._last[directions[known]]
        return found

    def _remember(self, sight: ContextBatch) -> None:
        room = int(sight.stream_of_bytes.max()) + 1
        if room > len(self._last):
            self._last = np.r_[self._last, np.zeros(max(room, 2 * len(self._last)) - len(self._last), REF)]
        last = np.full(room, -1, np.int64)
        last[sight.stream_of_bytes] = np.arange(sight.size)  # of several writes to one place the last one stays
        there = np.flatnonzero(last >= 0)
        self._last[there] = sight.refs()[last[there]]


class _DefectRows:
    """The defects of a batch, and what makes them doubtful."""

    def __init__(self, sight: ContextBatch, lossy: set[int], directions: DirectionGaps) -> None:
        self._sight, self._lossy, self._directions = sight, lossy, directions
        column = sight.batch.column("defects")
        counts = lengths(column)
        self.rows: Longs = np.repeat(np.arange(sight.size), counts) if counts.any() else _NONE
        self._column = column
        self._numbers: NDArray[np.int8] | None = None

    def flaw(self, name: str) -> NDArray[np.int8]:
        """Return one column of flaws, for all rows of the batch."""
        if not len(self.rows):
            return np.broadcast_to(np.int8(0), (self._sight.size,))
        found = np.zeros(self._sight.size, np.int8)
        numbers = COLUMNS_OF_FLAWS[name][self._codes()]
        there = np.flatnonzero(numbers)[::-1]  # of several writes to one place the last one stays: the first defect
        found[self.rows[there]] = numbers[there]
        return found

    def root(self, name: str) -> Longs:
        """Return what the flaws of one kind go back to: the defect, and the kind of message that has it."""
        return self.flaw(name).astype(np.int64) << 8 | self._sight.opcode

    def _codes(self) -> NDArray[np.int8]:
        """Return the numbers of all defects, in their order."""
        if self._numbers is None:
            names, places = encoded(self._column.flatten())
            numbers = np.array([NUMBER.get(name, 0) for name in names.to_pylist()], np.int8)
            self._numbers = numbers[places]
        return self._numbers

    def _damaged(self) -> Mask:
        sight = self._sight
        damaged: Mask = (sight.numbers("gap") > 0) | (sight.numbers("skipped") > 0) | (sight.numbers("missing") > 0)
        return damaged

    def lossy(self) -> set[int]:
        """Return the connections that the batch shows to have lost something."""
        return set(self._sight.connection[self._damaged()].tolist())

    def lost(self) -> Mask:
        """Tell of which rows' connections something was lost so far, in either direction.

        What a dialect is, and what was agreed upon, may have been in there.
        """
        if not len(self.rows):
            return np.broadcast_to(np.False_, (self._sight.size,))
        return self._any_lost(itself=True)

    def lost_before(self) -> Mask:
        """Tell the same of all that came before each row."""
        return self._any_lost(itself=False)

    def _any_lost(self, *, itself: bool) -> Mask:
        sight = self._sight
        order, groups = sorted_by(sight.connection)
        damaged = self._damaged()[order]
        found = groups.last_until(damaged) if itself else groups.last_before(damaged)
        numbers = np.unique(sight.connection)
        known = np.array([number in self._lossy for number in numbers.tolist()], bool)
        result = np.empty(sight.size, bool)
        result[order] = (found >= 0) | known[np.searchsorted(numbers, sight.connection[order])]
        return result

    def unheard(self) -> Mask:
        """Tell which rows' senders had heard more of the other side than was captured before the row."""
        return self._unheard() if len(self.rows) else np.broadcast_to(np.False_, (self._sight.size,))

    def doubtful(self) -> Mask:
        """Tell both, of a batch without flaws too."""
        return self._any_lost(itself=True) | self._unheard()

    def _unheard(self) -> Mask:
        sight = self._sight
        order, groups = sorted_by(sight.connection)
        side, end = sight.side[order], sight.numbers("end_offset")[order]
        other = sight.stream_of_bytes[order] ^ 1
        numbers, place = np.unique(other, return_inverse=True)
        carried = np.array([self._directions.heard(number) for number in numbers.tolist()])[place]
        heard = np.where(
            side == 0,
            filled(groups.last_before(side == 1), end, carried),
            filled(groups.last_before(side == 0), end, carried),
        )
        result = np.empty(sight.size, bool)
        result[order] = sight.numbers("acked_offset")[order] > heard
        return result


def _spoken(sight: ContextBatch) -> Mask:
    """Tell which rows are messages of UPR, of whatever dialect."""
    return sight.by_dialect(_SPOKEN, 0) > 0


def _messages(sight: ContextBatch, facts: dict[str, Longs], flawed: _DefectRows, rows: Longs) -> Table:
    whole: dict[str, Callable[[], NDArray[Any]]] = {name: partial(sight.numbers, name) for name in _TAKEN}
    whole |= {name: partial(_same, column) for name, column in facts.items()}
    whole |= {name: partial(flawed.flaw, name) for name in COLUMNS_OF_FLAWS}
    whole |= {f"{name}_root": partial(flawed.root, name) for name in COLUMNS_OF_FLAWS}
    whole["cas"] = partial(sight.signed, "cas")
    whole["lost"] = flawed.lost
    whole["unheard"] = flawed.unheard
    whole["doubtful"] = flawed.doubtful
    for name, column in (
        ("connection", sight.connection),
        ("early", sight.early),
        ("draft", sight.draft),
        ("response", sight.response),
    ):
        whole[name] = partial(_same, column)
    if len(rows) == sight.size:
        columns: dict[str, Any] = {name: partial(_picked, make) for name, make in whole.items()}
        return Table(len(rows), columns, {"guilty": partial(_picked, sight.refs)})
    columns = {name: gathered(make, rows) for name, make in whole.items()}
    return Table(len(rows), columns, {"guilty": gathered(sight.refs, rows)})


def _same(column: NDArray[Any]) -> NDArray[Any]:
    return column


def _picked(whole: Callable[[], NDArray[Any]], rows: Longs | None) -> NDArray[Any]:
    return whole() if rows is None else whole()[rows]
