"""The SHA-256 of each direction's bytes: what the sequential engine delivers, each byte once and in order.

All segments go through the sequential engine here, none through the fast path: slower, but every byte passes one place.
The rows of frames are those of the product's path.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dissector.frames.reader import FrameReader
from dissector.tcp.connections import Connection, Connections
from dissector.tcp.reassembly import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.link.segment_block import SegmentBlock
    from dissector.options import ReadOptions
    from dissector.tcp.frame_table import FrameTable
    from dissector.tcp.reassembly import Chunk

#: Gaps of one direction that are listed; all of them are counted.
MAX_GAPS = 10_000


@dataclass(slots=True)
class Digest:
    """The hash of what was delivered of one direction, and its gaps."""

    sha256: hashlib._Hash = field(default_factory=hashlib.sha256)
    length: int = 0
    gaps: list[Gap] = field(default_factory=list)
    gaps_left_out: int = 0

    def take(self, event: Chunk | Gap) -> None:
        """Add the next bytes, or a gap."""
        if not isinstance(event, Gap):
            self.sha256.update(event.data)
            self.length += len(event.data)
        elif len(self.gaps) < MAX_GAPS:
            self.gaps.append(event)
        else:
            self.gaps_left_out += 1


Digests = tuple[Digest, Digest]


@dataclass(slots=True)
class HashingConnections(Connections):
    """The sequential engine, which also hashes what it delivers."""

    digests: dict[int, Digests] = field(default_factory=dict)  #: by index of the connection

    def deliver(self, connection: Connection, side: int, events: list[Chunk | Gap]) -> None:
        """Hash ordered bytes on their way to the framer."""
        digests = self.digests.get(connection.index)
        if digests is None:
            digests = self.digests[connection.index] = (Digest(), Digest())
        for event in events:
            digests[side].take(event)
        Connections.deliver(self, connection, side, events)


class HashingReader(FrameReader):
    """Captures to record batches of frames, all through the sequential engine."""

    def __init__(
        self, inputs: Sequence[Input], options: ReadOptions | None = None, *, ended: Callable[[Connection], None]
    ) -> None:
        """Prepare to read; when ``ended`` is called with a connection, :attr:`digests` has it."""
        super().__init__(inputs, options, ended=ended)
        self.digests: dict[Connection, Digests] = {}  #: of connections that have ended; ``ended`` may remove them

    def _feed(self, segments: SegmentBlock) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        self._sequential.run(self._connections, segments, np.arange(len(segments)))
        return self._rest()

    def _new_connections(self) -> Connections:
        self._hashing = self._engine(HashingConnections)
        return self._hashing

    def _end(self, connection: Connection) -> None:
        self.digests[connection] = self._hashing.digests.pop(connection.index)
        super()._end(connection)
