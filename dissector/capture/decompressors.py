"""Decompressors of the compression libraries under one interface: one object per member, frame or stream.

Knows how the libraries differ (what they lose on an error, what they hold back). A library is imported when its format
turns up, never before.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

from dissector.capture.magic import Compression

if TYPE_CHECKING:
    from collections.abc import Callable


# Bytes fed at once. A library that fails keeps what it had decoded from that feed, so small feeds lose little.
# zstd has no limit on what it returns (at most 128 KiB from 4 bytes): its feed is also the bound on memory.
# Measured against 64 KiB feeds: zstd 25% faster, bzip2 equal, xz 25% slower. gzip can be replayed and need not care.
FEED_BYTES = {
    Compression.GZIP: 1 << 16,
    Compression.ZSTD: 1 << 10,
    Compression.LZ4: 1 << 12,
    Compression.XZ: 1 << 10,
    Compression.BZIP2: 1 << 10,
}


class Decompressor(Protocol):
    """One frame's decoder, with the interface bz2 and lzma share."""

    @property
    def eof(self) -> bool:
        """Whether the frame is complete."""
        ...

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes without more input."""
        ...

    @property
    def unused_data(self) -> bytes | None:
        """Input after the end of the frame."""
        ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Decode up to so many bytes."""
        ...


class _Gzip:
    """zlib with the common interface, and with a second try: what precedes an error is not lost."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._full = False
        self._failed = ""

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def needs_input(self) -> bool:
        return not (self._full or self._failed or self._inflate.unconsumed_tail)

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if self._failed:
            raise zlib.error(self._failed)
        data = self._inflate.unconsumed_tail + data
        before = self._inflate.copy()
        try:
            output = self._inflate.decompress(data, max_length)
        except zlib.error as error:
            self._failed = str(error)
            output = _before_error(before, data)
        self._full = len(output) == max_length
        return output


def _before_error(inflate: zlib._Decompress, data: bytes) -> bytes:
    """Decode input that fails somewhere up to the very byte, in smaller and smaller steps."""
    output = bytearray()
    for step in (4096, 64):
        for at in range(0, len(data), step):
            before = inflate.copy()
            try:
                output += inflate.decompress(data[at : at + step])
            except zlib.error:
                inflate, data = before, data[at : at + step]
                break
    try:
        for i in range(len(data)):
            rest = data[i : i + 1]
            while (out := inflate.decompress(rest, 1)) or inflate.unconsumed_tail:
                output += out
                rest = inflate.unconsumed_tail
    except zlib.error:
        pass  # the error that is known already
    return bytes(output)


class _Zstd:
    """A zstandard frame with the common interface; its output is bounded by how little it is fed."""

    needs_input = True

    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415

        self._frame = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:  # noqa: ARG002
        return self._frame.decompress(data)


class _Lz4:
    """An lz4 frame; its library asks for input although decoded bytes are still waiting, so ask it again first."""

    def __init__(self) -> None:
        import lz4.frame  # noqa: PLC0415

        self._frame = lz4.frame.LZ4FrameDecompressor()
        self._full = False

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._frame.needs_input) and not self._full

    @property
    def unused_data(self) -> bytes | None:
        unused: bytes | None = self._frame.unused_data
        return unused

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        output: bytes = self._frame.decompress(data, max_length)
        self._full = len(output) == max_length
        return output


def library(kind: Compression) -> tuple[Callable[[], Decompressor], tuple[type[Exception], ...]]:
    """Return what makes a decoder of one format, and the errors it raises for bad data."""
    if kind is Compression.GZIP:
        return _Gzip, (zlib.error,)
    if kind is Compression.ZSTD:
        import zstandard  # noqa: PLC0415

        return _Zstd, (zstandard.ZstdError,)
    if kind is Compression.LZ4:
        return _Lz4, (RuntimeError,)
    if kind is Compression.XZ:
        import lzma  # noqa: PLC0415

        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), (lzma.LZMAError,)
    import bz2  # noqa: PLC0415

    return bz2.BZ2Decompressor, (OSError, EOFError, ValueError)
