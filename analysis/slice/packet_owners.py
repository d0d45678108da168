"""Which connection each packet belongs to, and what its payload has to become: the first of two passes of a copy.

All segments go through the sequential engine here, which knows of every segment whose it is and where in its stream.
Knows streams and frames; :mod:`analysis.slice.packet_copy` reads the captures again and writes packets.
"""

from __future__ import annotations

import tempfile
from array import array
from collections import deque
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING

import numpy as np

from analysis.slice.stream_places import Scratch, Slot, StreamPlaces, not_a_header
from dissector.codec.decoder import decode
from dissector.frames.reader import FrameReader
from dissector.link.flow_key import reverse_key
from dissector.link.segment_block import RST, SYN
from dissector.pseudonyms.permutation import without_addresses
from dissector.spec import registry
from dissector.spec.model import Body, Dialect
from dissector.tcp import header_check
from dissector.tcp.connections import Connection, Connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from dissector.array_types import Ints
    from dissector.capture import Input
    from dissector.link.segment_block import SegmentBlock
    from dissector.options import ReadOptions, ReadReport
    from dissector.tcp.connections import TcpSegment
    from dissector.tcp.frame_table import FrameTable

_COLUMNS = frozenset(("connection", "dialect"))
#: Connections that have ended and are remembered: at most so many frames wait in a look ahead.
_ENDED = 1 << 16
NOBODY = -1
_SECRET = np.zeros(256, bool)
_SECRET[
    [each.opcode for each in registry.MESSAGES if each.request is not None and each.request.body is Body.SECRET]
] = True


class PacketOwners:
    """The owner of every TCP segment of a run, and the bytes that are to stand in its place."""

    def __init__(self, options: ReadOptions) -> None:
        """Prepare to read. Connections keep their ids: addresses are replaced when packets are written."""
        self.names: list[str] = []  #: ids of connections; an owner is twice a place in here, plus the direction
        self.ends: list[bytes] = []  #: of each of them, its addresses and ports
        self.speaking: set[str] = set()  #: ids of connections that have frames
        self.secrets = 0  #: frames with something to blank
        self.scratch = Scratch()
        self.pseudonyms = options.pseudonyms
        self._options = replace(options, pseudonyms=without_addresses(options.pseudonyms))
        self._owners: IO[bytes] = tempfile.TemporaryFile(prefix="uprscope-")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> PacketOwners:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.scratch.__exit__(kind, error, trace)
        self._owners.close()

    def read(
        self,
        inputs: Sequence[Input],
        watch: Callable[[FrameReader], Callable[[], None]] | None = None,
    ) -> ReadReport:
        """Read the captures through; ``watch`` is told of the progress."""
        places = StreamPlaces(self.scratch)
        reader = _OwnerReader(inputs, self._options, self, places)
        advance = watch(reader) if watch is not None else _nothing
        for batch, table in reader.tables():
            advance()
            self._note(batch, table, places)
        self._owners.flush()
        return reader.report

    def _note(self, batch: pa.RecordBatch, table: FrameTable, places: StreamPlaces) -> None:
        """Note what becomes of frames."""
        self.speaking |= set(batch.column("connection").unique().to_pylist())
        opcode = np.frombuffer(table.stream, np.uint8)[table.position + 1]
        redacted = self.pseudonyms is not None
        secret = _SECRET[opcode] & (self._options.withhold_secrets and not redacted)
        dialects = batch.column("dialect")
        ends = table.start + table.length
        owners, sides = table.connection.tolist(), table.side.tolist()
        for index, (start, end) in enumerate(zip(table.start.tolist(), ends.tolist(), strict=True)):
            name, side = table.connections[owners[index]].id, sides[index]
            if secret[index]:
                decoded = decode(Dialect(dialects[index].as_py()), table.data(index), inspect=False)
                if decoded.value.withheld and decoded.value.length:
                    self.secrets += 1
                    places.mark(name, side, start + decoded.value.offset, end)
            places.replace(name, side, start, end, table.data(index) if redacted else b"")

    def spoken_between(self) -> list[bool]:
        """Tell of each connection whether any between its two ends has frames.

        What comes between such connections, if only a reset, is where one ends and the next one of that name begins.
        """
        spoken = {ends for name, ends in zip(self.names, self.ends, strict=True) if name in self.speaking}
        return [ends in spoken for ends in self.ends]

    def append(self, owners: array[int]) -> None:
        """Take the owners of the next segments."""
        owners.tofile(self._owners)

    def rewind(self) -> None:
        """Go back to the first segment."""
        self._owners.seek(0)

    def next(self, count: int) -> Ints:
        """Return the owners of the next segments; NOBODY where there is none."""
        size = np.dtype(np.int32).itemsize
        return np.frombuffer(self._owners.read(count * size).ljust(count * size, b"\xff"), np.int32)

    def payload(self, place: int, data: bytes) -> bytes:
        """Return what is to stand in place of a payload: of bytes that are in no frame zeros, where all is replaced."""
        if self.pseudonyms is not None:
            return self.scratch.read(place, len(data))
        mask = self.scratch.read(place, len(data))
        if not mask.strip(b"\0"):
            return data
        return (np.frombuffer(data, np.uint8) & ~np.frombuffer(mask, np.uint8)).tobytes()


def _nothing() -> None:
    pass


@dataclass(slots=True)
class _OwningConnections(Connections):
    """The sequential engine, which also tells whose each segment is."""

    tell: Callable[[Connection, int, TcpSegment], None] = lambda *_: None

    def take(self, connection: Connection, side: int, segment: TcpSegment) -> None:
        """Tell of the segment, after the engine has found its place in the stream."""
        Connections.take(self, connection, side, segment)
        self.tell(connection, side, segment)


class _OwnerReader(FrameReader):
    """Captures to frames, all through the sequential engine."""

    def __init__(
        self, inputs: Sequence[Input], options: ReadOptions, found: PacketOwners, places: StreamPlaces
    ) -> None:
        super().__init__(inputs, replace(options, columns=_COLUMNS, values=False, inspect=False))
        self._found = found
        self._streams = places
        self._payloads = 0
        self._owners = array("i")  #: of the block's segments
        self._numbers: dict[int, int] = {}  #: by index of a live connection
        self._gone: deque[str] = deque()

    def _feed(self, segments: SegmentBlock) -> Iterator[tuple[pa.RecordBatch, FrameTable]]:
        self._sequential.run(self._connections, segments, np.arange(len(segments)))
        self._found.append(self._owners)
        del self._owners[:]
        while len(self._gone) > _ENDED:
            self._streams.forget(self._gone.popleft())
        return self._rest()

    def _new_connections(self) -> Connections:
        engine = self._engine(_OwningConnections)
        engine.tell = self._note
        return engine

    def _note(self, connection: Connection, side: int, segment: TcpSegment) -> None:
        number = self._numbers.get(connection.index)
        if number is None:
            number = self._numbers[connection.index] = len(self._found.names)
            self._found.names.append(connection.id)
            self._found.ends.append(min(connection.key, reverse_key(connection.key)))
        self._owners.append(number * 2 + side)
        place, self._payloads = self._payloads, self._payloads + len(segment.data)
        if connection.ignored:
            self._streams.forget(connection.id)
        elif segment.data and not segment.flags & RST:
            direction = connection.directions[side]
            offset = direction.offset_of((segment.seq + bool(segment.flags & SYN)) & 0xFFFFFFFF)
            if self._found.pseudonyms is not None and segment.data[0] in header_check.MAGICS:
                # Frames before and behind this byte are found by it, even where it begins none that is whole.
                self._found.scratch.write(place, not_a_header(segment.data[:1], len(segment.data)))
            self._streams.add(connection.id, side, Slot(offset, offset + len(segment.data), place))

    def _end(self, connection: Connection) -> None:
        self._numbers.pop(connection.index, None)
        self._gone.append(connection.id)
        super()._end(connection)
