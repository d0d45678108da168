"""Two lanes for the segments of a block: plainly ordered flows all at once, everything else one segment at a time.

The fast lane decides nothing that the sequential engine would decide otherwise: whatever is not plain sends the whole
connection to the slow lane for this block. Both lanes leave the same state behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dissector.tcp.connections import segments_of
from dissector.tcp.fast_path import FastPath
from dissector.tcp.frame_table import FrameTable, join, table_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dissector.link.segment_block import SegmentBlock
    from dissector.tcp.connections import Connection, Connections
    from dissector.tcp.framing import RawFrame


class SequentialPath:
    """Collects what the sequential engine emits, with the packet that released it."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, Connection, int, RawFrame]] = []
        self.packet = 0

    def emit(self, connection: Connection, side: int, frame: RawFrame) -> None:
        """Take a frame."""
        self.frames.append((self.packet, connection, side, frame))

    def run(self, connections: Connections, block: SegmentBlock, indexes: NDArray[np.int64]) -> None:
        """Feed some segments of a block to the engine, in capture order."""
        for segment in segments_of(block, indexes.tolist()):
            self.packet = segment.packet
            connections.feed(segment)

    def table(self) -> FrameTable:
        """Return what was emitted since the last time."""
        frames, self.frames = self.frames, []
        return table_of(frames)


def run_block(connections: Connections, slow: SequentialPath, block: SegmentBlock) -> FrameTable:
    """Take all segments of a block; return the frames that they completed."""
    lane = FastPath(connections, block)
    # A direction that loses its place takes its connection to the slow lane after all.
    while not lane.assemble():
        pass
    slow.run(connections, block, lane.others())
    lane.settle()
    return join(lane.table(), slow.table())
