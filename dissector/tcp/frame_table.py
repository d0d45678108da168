"""The frames of a block as columns over one buffer: the result of both TCP paths, from which rows are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from dissector.array_types import Longs, Mask
    from dissector.tcp.connections import Connection
    from dissector.tcp.framing import RawFrame


#: Zero bytes after the last frame, so that headers and extras can be gathered without a bounds check.
SLACK_BYTES = 512
NOTHING_ACKED = -1


@dataclass(frozen=True, slots=True, eq=False)
class FrameTable:
    """The frames of one block in the order they were complete, as columns over one buffer."""

    stream: memoryview
    """Bytes of all frames, and some more at the end."""
    connections: list[Connection]
    connection: Longs
    """Index into ``connections``."""
    side: Longs
    position: Longs
    """Start of each frame in ``stream``."""
    available: Longs
    """Bytes of it that are there."""
    start: Longs
    """Offset in its direction."""
    length: Longs
    packet_first: Longs
    packet_last: Longs
    time_ns: Longs
    acked: Longs
    """``NOTHING_ACKED`` where the packet acknowledged nothing."""
    from_start: Mask
    """Whether offset 0 of the direction was known to be its first byte."""
    gap: Longs
    skipped: Longs
    released: Longs
    """The packet whose arrival completed each frame, or everything before it."""
    rank: Longs
    """Place of each frame among all when they are sorted by their position."""

    def __len__(self) -> int:
        return len(self.position)

    def data(self, index: int) -> bytes:
        """Return the bytes of a frame that are there."""
        start = int(self.position[index])
        return bytes(self.stream[start : start + int(self.available[index])])


def join(first: FrameTable, second: FrameTable) -> FrameTable:
    """Put the frames of two tables into the order in which they were released."""
    released = np.r_[first.released, second.released]
    order = np.argsort(released, kind="stable")
    if not len(second):
        return _ordered(first, order)

    def both(one: Longs, other: Longs) -> Longs:
        return np.concatenate((one, other))

    whole = FrameTable(
        stream=memoryview(b"".join((first.stream, second.stream))),
        connections=first.connections + second.connections,
        connection=both(first.connection, second.connection + len(first.connections)),
        side=both(first.side, second.side),
        position=both(first.position, second.position + len(first.stream)),
        available=both(first.available, second.available),
        start=both(first.start, second.start),
        length=both(first.length, second.length),
        packet_first=both(first.packet_first, second.packet_first),
        packet_last=both(first.packet_last, second.packet_last),
        time_ns=both(first.time_ns, second.time_ns),
        acked=both(first.acked, second.acked),
        from_start=np.concatenate((first.from_start, second.from_start)),
        gap=both(first.gap, second.gap),
        skipped=both(first.skipped, second.skipped),
        released=released,
        rank=both(first.rank, second.rank + len(first)),
    )
    return _ordered(whole, order)


def _ordered(table: FrameTable, order: Longs) -> FrameTable:
    return FrameTable(
        stream=table.stream,
        connections=table.connections,
        connection=table.connection[order],
        side=table.side[order],
        position=table.position[order],
        available=table.available[order],
        start=table.start[order],
        length=table.length[order],
        packet_first=table.packet_first[order],
        packet_last=table.packet_last[order],
        time_ns=table.time_ns[order],
        acked=table.acked[order],
        from_start=table.from_start[order],
        gap=table.gap[order],
        skipped=table.skipped[order],
        released=table.released[order],
        rank=table.rank[order],
    )


class Emitted(NamedTuple):
    """A frame of the sequential engine."""

    released: int  #: the packet that released it
    connection: Connection
    side: int
    frame: RawFrame
    from_start: bool  #: of the direction, at that time


def table_of(frames: list[Emitted]) -> FrameTable:
    """Make a table of single frames."""
    rows = np.array(
        [
            (
                released,
                side,
                frame.start,
                frame.end - frame.start,
                len(frame.data),
                frame.packet_first,
                frame.packet_last,
                frame.time_ns,
                NOTHING_ACKED if frame.acked is None else frame.acked,
                frame.gap,
                frame.skipped,
            )
            for released, _, side, frame, _ in frames
        ],
        np.int64,
    )
    columns = rows.reshape(len(frames), 11).T
    return FrameTable(
        stream=memoryview(b"".join([*(each.frame.data for each in frames), bytes(SLACK_BYTES)])),
        connections=[each.connection for each in frames],
        connection=np.arange(len(frames)),
        side=columns[1],
        position=np.cumsum(columns[4]) - columns[4],
        available=columns[4],
        start=columns[2],
        length=columns[3],
        packet_first=columns[5],
        packet_last=columns[6],
        time_ns=columns[7],
        acked=columns[8],
        from_start=np.array([each.from_start for each in frames], bool),
        gap=columns[9],
        skipped=columns[10],
        released=columns[0],
        rank=np.arange(len(frames)),
    )
