"""Frames in context: one pass over batches of frames that adds what single messages cannot show.

``Context.fold`` takes a batch and gives the tables that :mod:`analysis.context.schema` declares: the messages of
streams, each with its stream, marker and what came before it; requests and answers; starts and ends of streams; flow
control. Memory is bounded, and the tables are the same however the frames are cut into batches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from analysis.context.batch import COLUMNS
from analysis.context.causality import CausalOrder
from analysis.context.clock import CaptureClock
from analysis.context.connection_facts import ConnectionFacts
from analysis.context.connection_rows import ConnectionRows
from analysis.context.defects import DefectColumns, defect_rows
from analysis.context.flow_control.tracker import FlowControl
from analysis.context.losses import ConnectionDoubts
from analysis.context.progress import DirectionProgress
from analysis.context.requests.tracker import RequestTracker
from analysis.context.roles import ConnectionRoles
from analysis.context.silences import Silences
from analysis.context.streams.index import StreamIndex
from analysis.context.streams.instances import Instances
from analysis.context.tables import Table, gathered
from dissector.frames.connection_numbers import AppearanceOrder, ConnectionNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from analysis.context.batch import ContextBatch

__all__ = ["COLUMNS", "Context", "Table"]

#: Tables that the tracker of requests fills in, row by row.
_TRACKED = (
    *("answers", "requests", "stream_starts", "stream_closes", "add_streams", "completed_streams"),
    *("opens", "setups", "consumer_requests"),
)


class Context:
    """What is remembered of a run, and the one pass over its frames."""

    def __init__(self, *, prompt: bool = False) -> None:
        """Begin; ``prompt`` makes tables of flow control with every batch, which takes longer and changes nothing."""
        self.connections = ConnectionNumbers()
        self.captures = AppearanceOrder()
        self.roles = ConnectionRoles()
        self._order = CausalOrder(self.connections, self.captures)
        self._directions = DirectionProgress()
        self._instances = Instances()
        self.clock = CaptureClock()
        self._tracker = RequestTracker(self._instances, self._directions, self.clock)
        self._streams = StreamIndex(self._instances, self._tracker)
        self._facts = ConnectionFacts()
        self._defects = DefectColumns()
        self._flow = FlowControl(self.clock, prompt=prompt)
        self._silences = Silences(self.clock, self._tracker)
        self.doubts = ConnectionDoubts()
        self.has_upr = False  #: whether there was any message of UPR or DCP
        self._count = 0

    def fold(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Table]]:
        """Take a batch of frames; yield the tables that it makes, by name."""
        if batch.num_rows:
            yield from self._fold(self._order.arrange(batch, self._count + 1))

    def _fold(self, frames: ContextBatch | None) -> Iterator[tuple[str, Table]]:
        if frames is None:
            return
        self._count += frames.size
        self.has_upr = self.has_upr or bool(frames.upr.any())
        self.doubts.fold(frames)
        self.clock.fold(frames)
        self.roles.fold(frames)
        gaps = self._directions.gaps(frames)
        done = self._tracker.read(frames)
        facts = self._facts.fold(frames, done.changes)
        connections = ConnectionRows(frames, facts, self._tracker.states)
        yield from self._defects.fold(frames, facts, self._directions, connections)
        streams = self._streams.fold(frames, done, gaps, self._directions)
        self._tracker.report_starts(done, streams)
        self._tracker.report_replies(done, streams, facts["since"])
        self._tracker.failover_logs.report(done, streams, facts)
        for name, table in streams.tables(facts):
            table.add("has_defect", gathered(partial(defect_rows, frames), streams.rows.in_batch))
            table.add("end_ignored", lambda rows: self._tracker.ignored_ends(streams.ending_ordinal(rows)))
            yield name, table
        streams.note_reached()
        streams.remember()
        self._flow.fold(frames, facts)
        yield from self._silences.fold(frames, facts)
        yield from self._rest()
        self._directions.commit(frames, gaps)
        for instance in done.over:
            self._instances.release(instance)

    def finish(self) -> Iterator[tuple[str, Table]]:
        """Yield the tables of what only the end of the frames decides."""
        yield from self._fold(self._order.finish(self._count + 1))
        self._tracker.finish()
        self._flow.finish()
        yield from self._defects.finish()
        yield from self._rest()

    def _rest(self) -> Iterator[tuple[str, Table]]:
        tracker = self._tracker
        for name in _TRACKED:
            table = getattr(tracker, name).table()
            if table.size:
                yield name, table
        yield from tracker.failover_logs.tables()
        yield from tracker.noops.tables()
        for name, tables in self._flow.tables().items():
            for table in tables:
                yield name, table
