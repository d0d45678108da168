"""The loop that all readers of frames share: captures in order, packets to segments, connections to their ends.

A reader says what decodes packets, what becomes of a block's segments, and what it yields. Report and progress are
kept here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dissector.capture import CaptureReader, order_by_time
from dissector.capture.chunk_sizes import FRAME_CHUNK_BYTES
from dissector.options import ReadOptions, ReadReport
from dissector.tcp.connections import Connection, Connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dissector.capture import Input, PacketBlock
    from dissector.link.drop_counts import LinkCounts
    from dissector.link.segment_block import SegmentBlock
    from dissector.tcp.framing import RawFrame

Output = TypeVar("Output")
Engine = TypeVar("Engine", bound=Connections)


class LinkDecoder(Protocol):
    """Turns packets into TCP segments."""

    counts: LinkCounts  #: why packets gave no segment

    def decode(self, block: PacketBlock) -> SegmentBlock:
        """Return the segments of a block of packets."""

    def finish(self) -> None:
        """Count the fragments that were never completed."""


def ignore_end(connection: Connection) -> None:
    """Do nothing when a connection ends."""
    del connection


class BaseReader(ABC, Generic[Output]):
    """Reads the captures of a run, once."""

    def __init__(
        self,
        inputs: Sequence[Input],
        options: ReadOptions | None = None,
        *,
        ended: Callable[[Connection], None] = ignore_end,
    ) -> None:
        """Prepare to read; ``ended`` is called with every connection when nothing more will come of it."""
        self.options = options or ReadOptions()
        self.report = ReadReport()
        self._ended = ended
        self._inputs = list(inputs) if self.options.separate else order_by_time(inputs)
        self._captures = [each.name for each in self._inputs]
        sizes = [each.path.stat().st_size if each.path is not None and not each.once else None for each in self._inputs]
        self.bytes_total = None if None in sizes else sum(size for size in sizes if size is not None)
        self.bytes_read = 0

    # -------------------------------------------------------------------------------------- what a reader has to say

    @abstractmethod
    def _decoder(self) -> LinkDecoder:
        """Return what decodes the packets of the run."""

    @abstractmethod
    def _emit(self) -> Callable[[Connection, int, RawFrame], None]:
        """Return what takes the frames that the sequential engine finds."""

    @abstractmethod
    def _feed(self, segments: SegmentBlock) -> Iterator[Output]:
        """Feed a block's segments to the connections; return what is ready.

        Not a generator: that would keep the segments in memory while its output is being used.
        """

    @abstractmethod
    def _rest(self) -> Iterator[Output]:
        """Return what is ready after connections have ended."""

    def _new_connections(self) -> Connections:
        """Return an engine without connections."""
        return self._engine(Connections)

    # ------------------------------------------------------------------------------------------------------ the loop

    def _read(self) -> Iterator[Output]:
        """Read all captures."""
        decoder = self._decoder()
        self._connections = self._new_connections()
        finished = 0
        for index, each in enumerate(self._inputs):
            with CaptureReader(each, index, self.options.chunk_bytes or FRAME_CHUNK_BYTES) as reader:
                for block in reader:
                    self.bytes_read = finished + reader.raw_position
                    yield from self._feed(self._renamed(decoder.decode(block)))
            self.report.damage += reader.damage
            finished = self.bytes_read
            if self.options.separate:
                yield from self._end_all()
        decoder.finish()
        self.report.link.merge(decoder.counts)
        yield from self._end_all()

    def _renamed(self, segments: SegmentBlock) -> SegmentBlock:
        """Replace the addresses of hosts, if that was asked for."""
        pseudonyms = self.options.pseudonyms
        if pseudonyms is None or not pseudonyms.addresses:
            return segments
        from dissector.pseudonyms.addresses import flow_key_of  # noqa: PLC0415 - only on request

        return replace(segments, keys=tuple(flow_key_of(pseudonyms, key) for key in segments.keys))

    def _end_all(self) -> Iterator[Output]:
        """End the connections that are still open; return what is ready then."""
        self._connections.finish()
        self.report.given_up.update(self._connections.given_up)
        begun = self._connections.begun  # what begins in the next file is another connection, however alike
        self._connections = self._new_connections()
        self._connections.begun = begun
        return self._rest()

    def _engine(self, kind: type[Engine]) -> Engine:
        options = self.options
        return kind(self._emit(), options.limits, options.ports, ended=self._end, dialect=options.dialect)

    def _end(self, connection: Connection) -> None:
        """Report a connection that has ended."""
        self.report.ended(connection)
        self._ended(connection)
