"""The bytes of each direction as a hash: what the sequential engine delivers, each byte once and in order.

The whole capture goes through the sequential engine here, one segment at a time: slower, but every byte passes one
place. Rows of frames come out of it as they do from the product's path.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dissector.capture import CaptureReader
from dissector.capture.chunk_sizes import FRAME_CHUNK_BYTES
from dissector.frames.reader import FrameReader
from dissector.link.columnar import ColumnarDecoder
from dissector.tcp.connections import Connection, Connections
from dissector.tcp.reassembly import Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dissector.capture import Input
    from dissector.options import ReadOptions
    from dissector.tcp.frame_table import FrameTable
    from dissector.tcp.reassembly import Chunk

#: Gaps of one direction that are listed; all of them are counted.
MAX_GAPS = 10_000


@dataclass(slots=True)
class Digest:
    """What was delivered of one direction."""

    sha256: hashlib._Hash = field(default_factory=hashlib.sha256)
    length: int = 0
    gaps: list[Gap] = field(default_factory=list)
    gaps_left_out: int = 0

    def take(self, event: Chunk | Gap) -> None:
        """Take the next bytes, or a gap."""
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
    """The sequential engine, with an eye on what it delivers."""

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
        """Prepare to read; when ``ended`` is told of a connection, :attr:`digests` has it."""
        self.digests: dict[Connection, Digests] = {}  #: of connections that are over; whoever wants one takes it out
        super().__init__(inputs, options, ended=ended)

    def tables(self) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        """Yield each batch of rows together with the bytes of its frames."""
        decoder = ColumnarDecoder()
        finished = 0
        for index, each in enumerate(self._inputs):
            reader = CaptureReader(each, index, self.options.chunk_bytes or FRAME_CHUNK_BYTES)
            for block in reader:
                self.bytes_read = finished + reader.raw_position
                segments = decoder.decode(block)
                self._slow.run(self._connections, segments, np.arange(len(segments)))
                yield from self._batches(self._slow.table())
            self.report.damage += reader.damage
            finished = self.bytes_read
            if self.options.separate:
                yield from self._end()
        decoder.finish()
        self.report.link.merge(decoder.counts)
        yield from self._end()

    def _fresh(self) -> Connections:
        self._hashing = HashingConnections(
            self._slow.emit,
            self.options.limits,
            self.options.ports,
            ended=self._end_of,
            dialect=self.options.dialect,
        )
        return self._hashing

    def _end_of(self, connection: Connection) -> None:
        self.digests[connection] = self._hashing.digests.pop(connection.index)
        super()._end_of(connection)
