"""Pictures in the making: one reading of frames that fills any number of them, and checks rules on the way.

Knows sources, kinds and the checker; must not know how a picture is drawn.
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
from dissector.options import ReadReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.check.checker import Checker
    from analysis.check.findings import Finding
    from analysis.plots import Plot, PlotKind
    from analysis.plots.frame_source import BatchReader, FrameSource

    Watch = Callable[[BatchReader], Callable[[], None]]


_FOREVER = 1 << 62


class FigureSet:
    """Pictures, the connections on them, and the findings to mark."""

    def __init__(self, kinds: Sequence[PlotKind], checker: Checker | None = None) -> None:
        self.plots: dict[str, Plot] = {kind.name: plots.make(kind) for kind in kinds}
        self.names = ConnectionNames()
        self.report = ReadReport()
        self.frames = 0
        self.checker = checker
        self.given_findings: Sequence[Finding] = ()  #: where nothing is checked
        self._connection: str | None = None
        self._vbucket: int | None = None
        self._from_ns, self._until_ns = 0, _FOREVER
        self.start_ns: int | None = None  #: of the first frame

    @property
    def findings(self) -> Sequence[Finding]:
        """Return what the rules found."""
        return self.checker.findings if self.checker is not None else self.given_findings

    def select(
        self, connection: str | None, vbucket: int | None, from_ns: int = 0, until_ns: int | None = None
    ) -> None:
        """Show some of the frames only: of a connection (number or id), of a vbucket, of a time since the first one."""
        self._from_ns, self._until_ns = from_ns, _FOREVER if until_ns is None else until_ns
        Selection(connection=connection, vbucket=vbucket)  # complains about what makes no sense
        self._connection, self._vbucket = connection, vbucket

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns of frames that are needed."""
        found = COLUMNS.union(*(plot.columns for plot in self.plots.values()))
        if self._vbucket is not None:
            found |= {"vbucket"}
        return found | CONTEXT_COLUMNS if self.checker is not None else found

    def read(self, source: FrameSource, watch: Watch | None = None) -> None:
        """Read everything once."""
        reader = source.open(self.columns)
        advance = watch(reader) if watch is not None else None
        for batch in reader:
            if advance is not None:
                advance()
            self.fold(batch)
        self.report = reader.report
        self.finish()

    def fold(self, batch: pa.RecordBatch) -> None:
        """Take a batch of frames."""
        if not batch.num_rows:
            return
        self.frames += batch.num_rows
        if self.checker is not None:
            self.checker.fold(batch)
        whole = PlotBatch(batch, self.names)
        chosen = self._selected(whole)
        if chosen.size:
            for plot in self.plots.values():
                plot.fold(chosen)

    def finish(self) -> None:
        """The frames are over."""
        if self.checker is not None:
            self.checker.finish()
        for plot in self.plots.values():
            plot.finish()
        Selection(connection=self._connection).confirm(self.names.ids)

    def _selected(self, whole: PlotBatch) -> PlotBatch:
        if self.start_ns is None:
            self.start_ns = int(whole.time_ns[0])
        timed = self._from_ns > 0 or self._until_ns < _FOREVER
        if self._connection is None and self._vbucket is None and not timed:
            return whole
        mask = np.ones(whole.size, bool)
        if self._connection is not None:
            mask &= whole.connection == Selection(connection=self._connection).place(self.names.ids)
        if self._vbucket is not None:
            mask &= whole.numbers("vbucket") == self._vbucket
        if timed:
            since = whole.time_ns - self.start_ns
            mask &= (since >= self._from_ns) & (since <= self._until_ns)
        return PlotBatch(whole.frame_batch.batch.filter(pa.array(mask)), self.names)


def connection_id(names: ConnectionNames, connection: str | None) -> str | None:
    """Return the id of a connection that was given by its number or its id."""
    if connection is None:
        return None
    selection = Selection(connection=connection)
    selection.confirm(names.ids)
    return names.ids[selection.place(names.ids)]


def require_content(why: str | None, name: str) -> None:
    """Complain where there is nothing to draw."""
    if why is not None:
        raise UsageError(f"{name}: nothing to draw: {why}")
