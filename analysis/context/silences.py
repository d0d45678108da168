"""Connections on which nothing was said for long, in either direction, before they went on.

Knows times, offsets and losses; whether anything should have been said is for rules to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.clock import SECOND_NS
from analysis.context.codes import UnknownReason
from analysis.context.frame_refs import REF, Ref
from analysis.context.lookback import sorted_by
from analysis.context.losses import after_loss
from analysis.context.schema import TABLES
from analysis.context.tables import Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from analysis.context.batch import ContextBatch
    from analysis.context.clock import CaptureClock
    from analysis.context.requests.tracker import RequestTracker
    from analysis.context.tables import Table
    from dissector.array_types import Longs

LEAST_NS = 300 * SECOND_NS  #: shorter ones are no rule's business
_FACTS = ("agreed", "unsure")


class Silences:
    """All connections: the last frame of each, and where its directions ended."""

    def __init__(self, clock: CaptureClock, tracker: RequestTracker) -> None:
        self._clock, self._tracker = clock, tracker
        self._last = np.zeros(0, REF)
        self._known = {name: np.zeros(0, np.int64) for name in _FACTS}
        self._ends = np.zeros(0, np.int64)  #: by direction
        self._records = Records(TABLES["silences"])

    def fold(self, frames: ContextBatch, facts: Mapping[str, Longs]) -> Iterator[tuple[str, Table]]:
        """Take a batch; give out the silences that end in it."""
        self._grow(int(frames.connection.max()) + 1)
        order, groups = sorted_by(frames.connection)
        times = frames.numbers("time_ns")[order]
        before = np.empty_like(times)
        before[1:] = times[:-1]
        heads = groups.starts
        before[heads] = self._last["time_ns"][frames.connection[order[heads]]]
        long = np.flatnonzero((times - before > LEAST_NS) & (before > 0))
        for at in long.tolist():
            self._report(frames, facts, order, at, first=bool(groups.start[at] == at))
        self._remember(frames, facts, order[groups.ends])
        table = self._records.table()
        if table.size:
            yield "silences", table

    def _report(self, frames: ContextBatch, facts: Mapping[str, Longs], order: Longs, at: int, *, first: bool) -> None:
        row = int(order[at])
        number = int(frames.connection[row])
        if first:
            last = Ref.of(self._last[number])
            known = {name: int(self._known[name][number]) for name in _FACTS}
        else:
            last = frames.ref(int(order[at - 1]))
            known = {name: int(facts[name][order[at - 1]]) for name in _FACTS}
        here = frames.ref(row)
        passed = self._clock.passed(last, here)
        due = self._tracker.state(number).noops.first_due
        self._records.add(
            number,
            -1,
            0,
            here,
            {"last": last},
            silent_ns=passed,
            silent_s=passed // SECOND_NS,
            streamed=int(0 < due <= last.ordinal),
            unknown=self._doubt(frames, row),
            **known,
        )

    def _doubt(self, frames: ContextBatch, row: int) -> UnknownReason:
        """Return why it is not certain that nothing was said before a row."""
        if after_loss(frames)[row]:
            return UnknownReason.GAP
        direction = int(frames.direction_id[row]) ^ 1
        theirs = np.flatnonzero(frames.direction_id[:row] == direction)
        heard = int(frames.numbers("end_offset")[theirs[-1]]) if len(theirs) else int(self._ends[direction])
        acked = int(frames.numbers("acked_offset")[row])
        return UnknownReason.ONE_SIDED if acked < 0 or acked > heard else UnknownReason.KNOWN

    def _remember(self, frames: ContextBatch, facts: Mapping[str, Longs], ends: Longs) -> None:
        number = frames.connection[ends]
        self._last[number] = frames.refs()[ends]
        for name, column in self._known.items():
            column[number] = facts[name][ends]
        # Of several writes to one place the last one stays, and rows are in their order.
        self._ends[frames.direction_id] = frames.numbers("end_offset")

    def _grow(self, connections: int) -> None:
        known = len(self._last)
        if connections > known:
            more = max(connections, 2 * known) - known
            self._last = np.concatenate((self._last, np.zeros(more, REF)))
            self._known = {name: np.r_[column, np.zeros(more, np.int64)] for name, column in self._known.items()}
            self._ends = np.r_[self._ends, np.zeros(2 * more, np.int64)]
