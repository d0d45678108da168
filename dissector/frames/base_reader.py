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
from dissector.tcp.patience import Patience, is_now

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
        over: Callable[[Connection], None] | None = None,
    ) -> None:
        """Prepare to read; ``ended`` is called with every connection when nothing more will come of it.

        ``over`` is called with those that had frames, when the rows of all of these have been taken.
        """
        self.options = options or ReadOptions()
        self.report = ReadReport()
        self._ended, self._over = ended, over
        self._ending: list[Connection] = []  #: ended, and some of their rows may not have been taken
        self._inputs = list(inputs) if self.options.separate else order_by_time(inputs)
        self._captures = [each.name for each in self._inputs]
        sizes = [each.path.stat().st_size if each.path is not None and not each.once else None for each in self._inputs]
        self.bytes_total = None if None in sizes else sum(size for size in sizes if size is not None)
        self.bytes_read = 0
        self._patience: Patience | None = None

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

    @property
    def open_connections(self) -> int:
        """Return how many connections something may come of, as far as was read."""
        return len(self._connections.recent)

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
                    if self.options.live and not self._connections.count:
                        self._watch(block)
                    yield from self._feed(self._renamed(decoder.decode(block)))
                    self._let_go(block)
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

    def _watch(self, block: PacketBlock) -> None:
        """Read as for somebody who watches, if this is what happens now; a recording is read as from a file."""
        if self._patience is None and is_now(int(block.time_ns[0])):
            self._patience = self._connections.patience = Patience()
            self._begin_live()

    def _begin_live(self) -> None:
        """Prepare not to wait for what may come much later."""

    def _holds_rows(self) -> bool:
        """Tell whether rows wait for later ones."""
        return False

    def _let_go(self, block: PacketBlock) -> None:
        """Tell of connections that are over; live, make it known which are."""
        if self._patience is not None:
            self._patience.end_closed(self._connections, int(block.time_ns[-1]))
        if self._ending and not self._holds_rows():
            for connection in self._ending:
                if self._over is not None:
                    self._over(connection)
            self._ending.clear()

    def _engine(self, kind: type[Engine]) -> Engine:
        options = self.options
        return kind(
            self._emit(),
            options.limits,
            options.ports,
            dialect=options.dialect,
            count_ignored=options.count_ignored,
            ended=self._end,
            patience=self._patience,
        )

    def _end(self, connection: Connection) -> None:
        """Report a connection that has ended."""
        self.report.ended(connection)
        self._ended(connection)
        if self._over is not None and any(framer.frames for framer in connection.framers):
            self._ending.append(connection)
