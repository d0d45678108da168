"""The undamaged bytes of a capture, for copying a file block by block.

A pcapng file comes as runs of whole blocks, byte for byte; damage lies between the runs. Of a pcap file there are the
packets to copy, and the file header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dissector.capture.chunk_sizes import COPY_CHUNK_BYTES
from dissector.capture.pcap import FILE_HEADER_BYTES, FileHeader, PcapWalker
from dissector.capture.pcapng import PACKET_KINDS, PcapngWalker
from dissector.capture.reader import CaptureReader

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from dissector.array_types import Longs
    from dissector.capture.clock import Clock
    from dissector.capture.compression import RawStream
    from dissector.capture.input import Input
    from dissector.capture.packet_block import Columns, DamageLog
    from dissector.capture.reader import Walker
    from dissector.capture.window import Window


@dataclass(frozen=True, slots=True, eq=False)
class Packets:
    """The packet blocks of a run."""

    start: Longs
    """Where blocks begin in the run whose packets the reader hands out."""
    columns: Columns
    """Their packets; offsets count from the window's start, not from the run's."""
    refused: Longs
    """Where blocks begin that contradict themselves: the reader hands out nothing for them."""
    clock: Clock | None
    """Clock of the section's interface 0, to which Simple Packet Blocks belong; None: there is no interface."""


@dataclass(frozen=True, slots=True, eq=False)
class SoundBlocks:
    """Whole blocks that follow one another: one block of any kind, or packet blocks and what lies between them."""

    position: int
    """Byte of the (decompressed) file at which it begins."""
    data: memoryview
    order: str
    """Byte order of the section, as the struct module writes it."""
    packets: Packets | None = None
    """None: the run is a single block that holds no packet."""


class SoundBlockReader(CaptureReader):
    """A reader that gives each run of a pcapng file's blocks to ``take`` before it hands out the packets in them."""

    def __init__(
        self, source: Input | RawStream, take: Callable[[SoundBlocks], None], chunk_bytes: int = COPY_CHUNK_BYTES
    ) -> None:
        self.header: FileHeader | None = None
        """Header of a pcap file; None for pcapng, and where it is cut."""
        self._take = take
        self._sound_walker: _SoundBlockWalker | None = None
        super().__init__(source, chunk_bytes=chunk_bytes)

    @property
    def is_pcapng(self) -> bool:
        """Whether the file is pcapng: only then ``take`` is called."""
        return self._sound_walker is not None

    @property
    def passed_over(self) -> int:
        """Count the sound blocks that are in no run, because they are too large to be held."""
        return self._sound_walker.passed_over if self._sound_walker is not None else 0

    @property
    def position(self) -> int:
        """Byte of the (decompressed) file up to which everything is read."""
        return self._window.position

    def _recognise(self) -> Walker:
        walker = super()._recognise()
        if isinstance(walker, PcapWalker):
            head = self._window.head(FILE_HEADER_BYTES)
            self.header = FileHeader.parse(head) if len(head) == FILE_HEADER_BYTES else None
            return walker
        self._sound_walker = _SoundBlockWalker(self._log, self._take)
        return self._sound_walker


class _SoundBlockWalker(PcapngWalker):
    """Hands on the undamaged blocks that it consumes."""

    def __init__(self, log: DamageLog, take: Callable[[SoundBlocks], None]) -> None:
        super().__init__(log)
        self.passed_over = 0
        self._take = take
        self._run: tuple[Longs, Longs, Columns] | None = None  #: blocks taken and refused, as offsets, and the packets

    def _packet_run(self, window: Window, kind: int, parts: list[Columns]) -> bool:
        begin = window.start
        done = super()._packet_run(window, kind, parts)
        if self._run is not None:
            taken, refused, columns = self._run
            clock = self._interfaces.clock(0) if self._interfaces.count else None
            packets = Packets(taken - begin, columns, refused - begin, clock)
            data = window.view[begin : window.start]
            self._take(SoundBlocks(window.base + begin, data, self._blocks.order, packets))
            self._run = None
        return done

    def _columns(self, window: Window, kind: int, offsets: Longs, headers: npt.NDArray[Any], lengths: Longs) -> Columns:
        columns = super()._columns(window, kind, offsets, headers, lengths)
        taken = columns.offset - (PACKET_KINDS[kind] - 4)
        refused = offsets[:0] if len(taken) == len(offsets) else np.setdiff1d(offsets, taken, assume_unique=True)
        self._run = (taken, refused, columns)
        return columns

    def _understand(self, window: Window, kind: int, length: int) -> bool:
        sound = super()._understand(window, kind, length)
        if sound:
            data = window.view[window.start : window.start + length]
            self._take(SoundBlocks(window.position, data, self._blocks.order))
        return sound

    def _enormous(self, window: Window, kind: int, length: int) -> int:
        need = super()._enormous(window, kind, length)
        self.passed_over += self._lost is None
        return need
