"""Frames in context: one pass over batches of frames that adds what single messages cannot show.

``Context.fold`` takes a batch and gives tables for rules: one of all frames, one of the messages of streams with their
instance, marker and predecessors, and smaller ones of answers, exchanges, beginnings and ends of streams, acks. Memory
is bounded, and the tables are the same however the frames are cut into batches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.batch import COLUMNS, ContextBatch, DirectionGaps
from analysis.context.connection_facts import ConnectionFacts
from analysis.context.defects import DefectColumns, defect_rows
from analysis.context.flow_control.tracker import FlowControl
from analysis.context.requests.tracker import RequestTracker
from analysis.context.streams.index import StreamIndex
from analysis.context.streams.instances import Instances
from analysis.context.tables import Table, gathered
from dissector.frames.connection_numbers import AppearanceOrder, ConnectionNumbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["COLUMNS", "Context", "Table"]

_FRAME_COLUMNS = (
    *("opcode", "magic", "status", "datatype", "time_ns", "extras_length", "key_length", "value_length", "nmeta"),
    *("vbucket", "stream_id", "event", "event_version", "open_flags", "stream_flags", "snapshot_type", "opaque"),
)


class Context:
    """Everything that is remembered of a run."""

    def __init__(self) -> None:
        self.connections = ConnectionNumbers()
        self.captures = AppearanceOrder()
        self._directions = DirectionGaps()
        self._instances = Instances()
        self._desk = RequestTracker(self._instances)
        self._streams = StreamIndex(self._instances, self._desk)
        self._facts = ConnectionFacts()
        self._flaws = DefectColumns()
        self._flow = FlowControl()
        self._count = 0

    def fold(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Table]]:
        """Take a batch of frames; give out tables by name."""
        if not batch.num_rows:
            return
        sight = ContextBatch(batch, self._count + 1, self.connections, self.captures)
        self._count += sight.size
        gaps = self._directions.gaps(sight)
        done = self._desk.read(sight, gaps, self._directions)
        if done.unexplained:
            gaps = self._directions.gaps(sight, done.unexplained)
        facts = self._facts.fold(sight, done.changes)
        yield "frames", _frames(sight, facts, gaps)
        yield from self._flaws.fold(sight, facts, self._directions)
        stretch = self._streams.fold(sight, done, gaps, self._directions)
        ending = stretch.ordinals(stretch.trail(kinds.END), "ending")
        for name, table in stretch.tables(facts):
            table.add("flawed", gathered(partial(defect_rows, sight), stretch.rows))
            table.add("end_refused", lambda rows: self._desk.refused(ending(rows)))
            yield name, table
        stretch.reached()
        stretch.remember()
        stretch.release()
        self._flow.fold(sight, facts)
        yield from self._rest()
        self._directions.commit(sight, gaps)
        for instance in done.over:
            self._instances.release(instance)

    def finish(self) -> Iterator[tuple[str, Table]]:
        """The frames are over: give out what was still undecided."""
        self._desk.finish()
        self._flow.finish()
        yield from self._rest()

    def _rest(self) -> Iterator[tuple[str, Table]]:
        desk = self._desk
        for name in ("answers", "exchanges", "begins", "closings", "additions", "endings"):
            table = getattr(desk, name).table()
            if table.size:
                yield name, table
        for name, tables in self._flow.tables().items():
            for table in tables:
                yield name, table


def _same(column: NDArray[Any]) -> NDArray[Any]:
    return column


def _frames(sight: ContextBatch, facts: dict[str, NDArray[np.int64]], gaps: NDArray[np.int64]) -> Table:
    """Return the table of all frames of UPR connections."""
    rows = np.flatnonzero(sight.kind != kinds.NONE)
    whole: dict[str, Callable[[], NDArray[Any]]] = {name: partial(sight.numbers, name) for name in _FRAME_COLUMNS}
    whole |= {name: partial(_same, column) for name, column in facts.items()}
    whole["cas"] = partial(sight.signed, "cas")
    for name, column in (
        ("connection", sight.connection),
        ("gap", gaps),
        ("early", sight.early),
        ("draft", sight.draft),
        ("kind", sight.kind),
        ("response", sight.response),
    ):
        whole[name] = partial(_same, column)
    columns: dict[str, Any] = {name: gathered(make, rows) for name, make in whole.items()}
    columns["row"] = rows
    columns["defects"] = lambda chosen: sight.batch.column("defects").take(rows if chosen is None else rows[chosen])
    return Table(len(rows), columns, {"guilty": gathered(sight.refs, rows)})
