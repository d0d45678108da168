"""Plots that are filled by one reading of the frames, in which rules are checked too.

Knows frame sources, kinds of plots and the checker; must not know how a plot is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analysis import plots
from analysis.check.selection import Selection
from analysis.context import COLUMNS as CONTEXT_COLUMNS
from analysis.plots.batch import COLUMNS, ConnectionNames, PlotBatch
from dissector.errors import UsageError
from dissector.frames.vbuckets_seen import VbucketsSeen
from dissector.options import ReadReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.check.checker import Checker
    from analysis.check.findings import Finding
    from analysis.plots import Plot, PlotKind
    from analysis.plots.frame_source import FrameSource
    from dissector.frames.sources import BatchReader

    Watch = Callable[[BatchReader], Callable[[], None]]


_FOREVER = 1 << 62


class FigureSet:
    """Plots, the names of their connections, and the findings to mark."""

    def __init__(self, kinds: Sequence[PlotKind], checker: Checker | None = None) -> None:
        self.plots: dict[str, Plot] = {kind.name: plots.make(kind) for kind in kinds}
        self.names = ConnectionNames()
        self.report = ReadReport()
        self.frames = 0
        self.checker = checker
        self.given_findings: Sequence[Finding] = ()  #: to mark where there is no checker
        self._connection: str | None = None
        self._vbucket: int | None = None
        self._vbuckets = VbucketsSeen()
        self._from_ns, self._until_ns = 0, _FOREVER
        self.start_ns: int | None = None  #: of the first frame

    @property
    def findings(self) -> Sequence[Finding]:
        """Return the findings to mark."""
        return self.checker.findings if self.checker is not None else self.given_findings

    def select(
        self, connection: str | None, vbucket: int | None, from_ns: int = 0, until_ns: int | None = None
    ) -> None:
        """Show one connection (number or id), one vbucket, or a time since the first frame; None: all."""
        self._from_ns, self._until_ns = from_ns, _FOREVER if until_ns is None else until_ns
        Selection(connection=connection, vbucket=vbucket)  # raises UsageError for nonsense
        self._connection, self._vbucket = connection, vbucket

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that the plots and the checker need."""
        found = COLUMNS.union(*(plot.columns for plot in self.plots.values()))
        if self._vbucket is not None:
            found |= {"vbucket"}
        return found | CONTEXT_COLUMNS if self.checker is not None else found

    def read(self, source: FrameSource, watch: Watch | None = None) -> None:
        """Read all frames, and finish."""
        reader = source.open(self.columns, self.names.ends.end)
        advance = watch(reader) if watch is not None else None
        for batch in reader:
            if advance is not None:
                advance()
            self.fold(batch)
        self.report = reader.report
        self.finish()

    def fold(self, batch: pa.RecordBatch) -> None:
        """Add a batch of frames."""
        if not batch.num_rows:
            return
        self.frames += batch.num_rows
        if self.checker is not None:
            self.checker.fold(batch)
        whole = PlotBatch(batch, self.names)
        self.names.ends.see(int(whole.time_ns.max()))
        chosen = self._selected(whole)
        if chosen.size:
            for plot in self.plots.values():
                plot.fold(chosen)

    def finish(self) -> None:
        """Finish the plots and the checker after the last frame."""
        if self.checker is not None:
            self.checker.finish()
        for plot in self.plots.values():
            plot.finish()
        Selection(connection=self._connection).confirm(self.names.ids)
        if self._vbucket is not None:
            where = f"connection {self._connection}" if self._connection is not None else ""
            if missing := self._vbuckets.missing(self._vbucket, where):
                raise UsageError(missing)

    def _selected(self, whole: PlotBatch) -> PlotBatch:
        if self.start_ns is None:
            self.start_ns = int(whole.time_ns[0])
            self.names.until_ns = min(self.start_ns + self._until_ns, _FOREVER)
        timed = self._from_ns > 0 or self._until_ns < _FOREVER
        if self._connection is None and self._vbucket is None and not timed:
            return whole
        mask = np.ones(whole.size, bool)
        if self._connection is not None:
            mask &= whole.connection == Selection(connection=self._connection).place(self.names.ids)
        if self._vbucket is not None:
            vbuckets = whole.numbers("vbucket")
            self._vbuckets.see(vbuckets[mask])
            mask &= vbuckets == self._vbucket
        if timed:
            since = whole.time_ns - self.start_ns
            mask &= (since >= self._from_ns) & (since <= self._until_ns)
        return PlotBatch(whole.batch.filter(pa.array(mask)), self.names)


def connection_id(names: ConnectionNames, connection: str | None) -> str | None:
    """Return the id of a connection that was given by its number or its id."""
    if connection is None:
        return None
    selection = Selection(connection=connection)
    selection.confirm(names.ids)
    return names.ids[selection.place(names.ids)]


def require_content(why: str | None, name: str) -> None:
    """Raise UsageError if there is a reason ``why`` nothing can be drawn."""
    if why is not None:
        raise UsageError(f"{name}: nothing to draw: {why}")
