"""Reading one capture: bytes in, blocks of packets out.

Connects the layers (compression, window, container), each of which knows its own format. Never seeks. The packets are
the same for every chunk size; only their division into blocks differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from dissector.capture import magic
from dissector.capture.chunk_sizes import PACKET_CHUNK_BYTES
from dissector.capture.compression import open_stream
from dissector.capture.input import Input
from dissector.capture.packet_block import SLACK_BYTES, Columns, Damage, DamageLog, PacketBlock
from dissector.capture.pcap import PcapWalker
from dissector.capture.pcapng import PcapngWalker
from dissector.capture.window import Window
from dissector.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from io import FileIO
    from types import TracebackType

    from dissector.capture.compression import RawStream


class Walker(Protocol):
    """Finds the packets of one container format in a window of bytes."""

    def walk(self, window: Window) -> tuple[list[Columns], int]:
        """Consume what is whole; return its packets, and how many bytes are needed to go on."""
        ...


class Nothing:
    """The walker of an input that was left before it began."""

    def walk(self, window: Window) -> tuple[list[Columns], int]:
        """Find nothing."""
        del window
        return [], 0


class CaptureReader:
    """Iterates over the blocks of one capture, once. Raises InputError at once if the input is no capture.

    Closes what it opened itself when it is exhausted, closed or left as a context.
    """

    def __init__(
        self,
        source: Input | RawStream,
        capture_index: int = 0,
        chunk_bytes: int = PACKET_CHUNK_BYTES,
        name: str | None = None,
    ) -> None:
        self.packets = 0
        """Packets handed out so far."""
        self._index = capture_index
        if isinstance(source, Input):
            self.name = name or source.name
            raw: RawStream = (opened := source.open())
            self._opened: FileIO | None = opened
        else:
            self.name = name or str(getattr(source, "name", "capture"))
            raw, self._opened = source, None
        self._log = DamageLog(self.name)
        try:
            self._window = Window(open_stream(raw, self._log), chunk_bytes)
            self._window.refill(magic.HEAD_BYTES)
            self._walker = self._recognise()
        except BaseException:
            self.close()
            raise

    @property
    def damage(self) -> list[Damage]:
        """What could not be read, in file order; complete when the iteration is."""
        return self._log.entries()

    def __iter__(self) -> Iterator[PacketBlock]:
        window = self._window
        while True:
            parts, need = self._walker.walk(window)
            if parts:
                yield self._block(Columns.join(parts))
            if window.eof or window.stopped:
                self.close()
                return
            window.refill(need)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def raw_position(self) -> int:
        """Bytes of the file, before decompression, that have been read; 0 where that cannot be told."""
        try:
            return self._opened.tell() if self._opened is not None and self._opened.seekable() else 0
        except OSError:
            return 0

    def close(self) -> None:
        """Close the file if the reader opened it."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _block(self, columns: Columns) -> PacketBlock:
        first = self.packets + 1
        self.packets += len(columns)
        return PacketBlock(
            capture=self._index,
            buffer=self._window.buffer[: self._window.end + SLACK_BYTES],
            offset=columns.offset,
            captured=columns.captured,
            original=columns.original,
            time_ns=columns.time_ns,
            linktype=columns.linktype,
            interface=columns.interface,
            first_number=first,
            end_position=self._window.position,
        )

    def _recognise(self) -> Walker:
        head = self._window.head(magic.HEAD_BYTES)
        kind = magic.container(head)
        if kind is magic.Container.PCAP:
            return PcapWalker(self._log)
        if kind is magic.Container.PCAPNG:
            return PcapngWalker(self._log)
        if damage := self.damage:
            raise InputError(f"{self.name}: nothing can be read: {damage[0].detail}")
        if self._window.stopped and len(head) < magic.HEAD_BYTES:  # before anything came that tells
            return Nothing()
        if not head:
            raise InputError(f"{self.name}: is empty")
        if (rows := magic.row_format(head)) is not None:
            raise InputError(f"{self.name}: holds frames as rows ({rows}), no capture; give them as a file")
        raise InputError(f"{self.name}: not a capture (pcap or pcapng): {magic.describe(head)}")


def open_capture(path: str | os.PathLike[str], capture_index: int = 0) -> CaptureReader:
    """Open a capture file, plain or compressed, or standard input (``-``)."""
    return CaptureReader(Input.of(path), capture_index)
