"""Segments of some conversations to frames, counted per conversation, in an order that does not depend on the tasks.

Used by the decoder of a split and by the decoder of shuffled segments, which choose the segments. A frame carries
``released``, the ordinal of the packet that completed it, which orders frames of different conversations; ``frame``
counts the frames of its conversation from 1. Sorted by both, frames are in the order of the single-process reader.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analysis.spark.partitioning import conversation_key
from analysis.spark.split.segment_rows import select_segments
from dissector.frames.batch_builder import batch_of
from dissector.frames.look_ahead import LookAhead, NumberedFrames, places_after
from dissector.frames.schema import SCHEMA
from dissector.link.flow_key import reverse_key
from dissector.tcp.connections import Connections
from dissector.tcp.fast_path import SequentialPath, run_block

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dissector.link.segment_block import SegmentBlock
    from dissector.options import ReadOptions
    from dissector.tcp.connections import Connection, TcpSegment
    from dissector.tcp.frame_table import FrameTable

RELEASED = pa.field(
    "released", pa.int64(), metadata={"doc": "packet that completed it; see analysis/spark/split/conversations.py"}
)
ORDERED_SCHEMA = SCHEMA.append(RELEASED)
#: Added to ``released`` of frames that only the end of the run completes: they come last, in the order in which their
#: connections began.
AT_END = 1 << 62
#: Segments of a new connection in the first step, and up to the end of the second; the rest are the third.
_STEP_SEGMENTS = (32, 512)


class TrackedConnections(Connections):
    """Connections that remember which packet they began with."""

    def __init__(self, slow: SequentialPath, options: ReadOptions) -> None:
        super().__init__(slow.emit, options.limits, options.ports, dialect=options.dialect)
        self.began: dict[int, int] = {}

    def open(self, segment: TcpSegment) -> tuple[Connection, int]:
        """Make a connection for a segment that belongs to none."""
        entry = super().open(segment)
        self.began[entry[0].index] = segment.packet
        return entry

    def restore(self, connection: Connection, began: int) -> None:
        """Continue a connection from a checkpoint."""
        connection.index = self.count
        self.count += 1
        self.live[reverse_key(connection.key)] = (connection, 1)
        self.live[connection.key] = (connection, 0)
        self.began[connection.index] = began
        self.held_total += sum(direction.held_cost for direction in connection.directions)
        self.partial_total += sum(framer.cost for framer in connection.framers)
        self.touch(connection, connection.last_packet, connection.last_ns)

    def end(self, connection: Connection) -> None:
        """Emit what is left of a connection and forget it."""
        super().end(connection)
        self.began.pop(connection.index, None)


class ConversationFrames:
    """Decodes segments of some conversations, and counts their frames."""

    def __init__(self, captures: Sequence[str], options: ReadOptions) -> None:
        self._captures = captures
        self._options = options
        self._slow = SequentialPath()
        self.connections = TrackedConnections(self._slow, options)
        self._look_ahead = LookAhead(self._is_open)
        self._place = 0  #: where the last frame ended, see places_after
        self.counts: defaultdict[bytes, int] = defaultdict(int)
        """Frames of each conversation so far."""

    def run(self, block: SegmentBlock) -> Iterator[pa.RecordBatch]:
        """Decode the segments of a block; yield the frames that they complete."""
        steps = new_connections_first(block, self.connections)
        # All of them at once: where frames wait for their dialect, none of the block may go before them.
        yield from self._batches([run_block(self.connections, self._slow, step) for step in steps])

    def end(self, conversations: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """End some conversations with the run; yield the frames that this completes."""
        for conversation in conversations:
            entry = self.connections.live.get(conversation)
            if entry is not None:
                began = self.connections.began[entry[0].index]
                before = len(self._slow.frames)
                self.connections.end(entry[0])
                emitted = self._slow.frames[before:]
                self._slow.frames[before:] = [frame._replace(released=AT_END + began) for frame in emitted]
        yield from self._batches([self._slow.table()])
        for conversation in conversations:
            self.counts.pop(conversation, None)

    def _batches(self, tables: Sequence[FrameTable]) -> Iterator[pa.RecordBatch]:
        numbered = []
        for table in tables:
            places = places_after(table, self._place)
            self._place = int(places[-1]) if len(places) else self._place
            numbered.append(NumberedFrames(table, self._numbers(table), places))
        for frames in self._look_ahead.take(numbered):
            batch = batch_of(frames, self._captures, self._options)
            arrays = [*batch.columns, pa.array(frames.table.released)]
            yield pa.RecordBatch.from_arrays(arrays, schema=ORDERED_SCHEMA)

    def _is_open(self, connection: Connection) -> bool:
        return self.connections.recent.get(connection.index) is connection

    def _numbers(self, table: FrameTable) -> NDArray[np.int64]:
        """Number the frames of each conversation, continuing its count."""
        index_of: dict[bytes, int] = {}
        names = [conversation_key(connection.key)[0] for connection in table.connections]
        index = np.array([index_of.setdefault(name, len(index_of)) for name in names], np.int64)[table.connection]
        sizes = np.bincount(index, minlength=len(index_of))
        before = np.array([self.counts[name] for name in index_of], np.int64)
        order = np.argsort(index, kind="stable")
        numbers = np.empty(len(table), np.int64)
        numbers[order] = np.arange(1, len(table) + 1) + np.repeat(before - (np.cumsum(sizes) - sizes), sizes)
        for name, count in zip(index_of, (before + sizes).tolist(), strict=True):
            if count:
                self.counts[name] = count
        return numbers


def new_connections_first(block: SegmentBlock, connections: Connections) -> Iterator[SegmentBlock]:
    """Split a block so that new connections are established first: only those take the fast path."""
    if not len(block):
        return
    new_keys = [key for key in block.keys if key not in connections.live]
    if not new_keys:
        yield block
        return
    index_of: dict[bytes, int] = {}
    conversation = np.array(
        [index_of.setdefault(conversation_key(key)[0], len(index_of)) for key in block.keys], np.int64
    )[block.flow]
    new = np.zeros(len(index_of), bool)
    new[[index_of[conversation_key(key)[0]] for key in new_keys]] = True
    order = np.argsort(conversation, kind="stable")
    counts = np.bincount(conversation, minlength=len(index_of))
    rank = np.empty(len(conversation), np.int64)
    rank[order] = np.arange(len(conversation)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = np.where(new[conversation], np.searchsorted(_STEP_SEGMENTS, rank, side="right"), len(_STEP_SEGMENTS))
    for number in range(len(_STEP_SEGMENTS) + 1):
        chosen = np.flatnonzero(step == number)
        if len(chosen):
            yield block if len(chosen) == len(block) else select_segments(block, chosen)
