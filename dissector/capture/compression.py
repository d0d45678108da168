"""Compressed files as byte streams: gzip, zstd, lz4, xz and bzip2, told apart by content.

Knows how compressed frames follow one another; the libraries are in ``decompressors``. Reads forward only, so pipes
work, and holds a bounded amount of output at a time. Data that can't be decoded is damage: everything before it is
delivered, then the stream ends. Compressed data inside compressed data is not unpacked again.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any, Protocol, cast

from dissector.capture import magic
from dissector.capture.decompressors import FEED_BYTES, library
from dissector.capture.live import LiveFile
from dissector.capture.magic import Compression
from dissector.capture.packet_block import DamageReason

if TYPE_CHECKING:
    from dissector.capture.decompressors import Decompressor
    from dissector.capture.packet_block import DamageLog

_READ_BYTES = 1 << 18
_OUTPUT_BYTES = 1 << 18


class RawStream(Protocol):
    """The least a source of bytes must offer; files, pipes and BytesIO do."""

    def readinto(self, target: memoryview, /) -> int | None:
        """Fill a buffer as far as bytes are there; 0 is the end, None is "not yet"."""
        ...


class PlainStream:
    """Uncompressed bytes, with a look ahead; a read that fails is noted as damage, not raised."""

    def __init__(self, raw: RawStream, log: DamageLog) -> None:
        self._raw = raw
        self._log = log
        self._live = raw if isinstance(raw, LiveFile) else None
        self._held = b""
        self._at = 0
        self.position = 0
        """Bytes handed out."""
        self.failed = ""
        """Why the system stopped reading, if it did."""

    @property
    def live(self) -> bool:
        """Whether bytes come while they are read."""
        return self._live is not None

    @property
    def stopped(self) -> bool:
        """Whether the end was asked for by the user."""
        return self._live is not None and self._live.stopped

    def ready(self, seconds: float) -> bool:
        """Wait a while for bytes; tell whether a read gives some, or the end, without further waiting."""
        return self._live is None or self._at < len(self._held) or bool(self.failed) or self._live.ready(seconds)

    def readinto(self, target: memoryview, /) -> int:
        """Fill a buffer as far as bytes are there; 0 at the end."""
        if self._at < len(self._held):
            count = min(len(target), len(self._held) - self._at)
            target[:count] = self._held[self._at : self._at + count]
            self._at += count
        else:
            count = self._pull(target)
            if not count and self.failed:
                self._log.add(self.position, DamageReason.READ_ERROR, f"reading fails here: {self.failed}")
        self.position += count
        return count

    def peek(self, count: int) -> bytes:
        """Look at the next bytes, fewer at the end."""
        while len(self._held) - self._at < count:
            target = bytearray(_READ_BYTES)
            got = self._pull(memoryview(target))
            if not got:
                break
            self._held, self._at = self._held[self._at :] + target[:got], 0
        return self._held[self._at : self._at + count]

    def take(self, count: int) -> bytes:
        """Consume the next bytes, fewer at the end."""
        data = self.peek(count)
        self._at += len(data)
        self.position += len(data)
        return data

    def take_some(self, count: int) -> bytes:
        """Consume some of the next bytes: so many where the source is no live one, else what comes; none at the end."""
        return self.take(count if self._live is None else min(count, self._waited_for()))

    def _waited_for(self) -> int:
        """Return how many bytes are in memory, after a wait where there are none; 0 at the end."""
        self.peek(1)
        return len(self._held) - self._at

    def give_back(self, count: int) -> None:
        """Take back the last bytes of what was just taken."""
        self._at -= count
        self.position -= count

    def _pull(self, target: memoryview) -> int:
        if self.failed:
            return 0
        try:
            while (count := self._raw.readinto(target)) is None:  # a terminal or socket left non-blocking by its owner
                select.select([cast("Any", self._raw)], [], [])
        except OSError as error:
            self.failed = error.strerror or str(error)
            return 0
        return count


class DecodedStream:
    """The decoded bytes of a compressed source."""

    def __init__(self, source: PlainStream, kind: Compression, log: DamageLog) -> None:
        self._source = source
        self._kind = kind
        self._log = log
        self._make, self._errors = library(kind)
        self._feed_bytes = FEED_BYTES[kind]
        self._decoder: Decompressor | None = self._make()
        self._output = memoryview(b"")
        self._ended = False
        self._produced = 0
        self.decoded = 0
        """Bytes handed out."""

    @property
    def live(self) -> bool:
        """Whether bytes come while they are read."""
        return self._source.live

    @property
    def stopped(self) -> bool:
        """Whether the end was asked for by the user."""
        return self._source.stopped

    def ready(self, seconds: float) -> bool:
        """Wait a while for decoded bytes; tell whether a read gives some, or the end, without further waiting."""
        while not self._output and not self._ended:
            if not self._source.ready(seconds):
                return False
            self._output = memoryview(self._step())
        return True

    def readinto(self, target: memoryview, /) -> int:
        """Fill a buffer as far as decoded bytes are there; 0 at the end."""
        while not self._output and not self._ended:
            self._output = memoryview(self._step())
        count = min(len(target), len(self._output))
        target[:count] = self._output[:count]
        self._output = self._output[count:]
        self.decoded += count
        return count

    def _step(self) -> bytes:
        """Decode a piece of the source, or go on to its next frame; nothing may come of it."""
        if self._decoder is None:
            self._next_frame()
            return b""
        output = self._decode(self._decoder)
        self._produced += len(output)
        return output

    def _decode(self, decoder: Decompressor) -> bytes:
        data = self._source.take_some(self._feed_bytes) if decoder.needs_input else b""
        if not data and decoder.needs_input:
            self._end(DamageReason.TRUNCATED_COMPRESSION, f"the {self._kind} data ends early")
            return b""
        try:
            output = decoder.decompress(data, _OUTPUT_BYTES)
        except self._errors as error:
            self._end(DamageReason.CORRUPT_COMPRESSION, f"the {self._kind} data is corrupt ({error})")
            return b""
        if decoder.eof:
            self._source.give_back(len(decoder.unused_data or b""))
            self._decoder = None
        return output

    def _next_frame(self) -> None:
        """Go on to the next member, frame or stream, past padding and skippable frames."""
        head = self._source.peek(magic.HEAD_BYTES)
        if self._kind in (Compression.ZSTD, Compression.LZ4) and magic.skippable(head):
            if not skip_frame(self._source):
                self._end(DamageReason.TRUNCATED_COMPRESSION, f"the {self._kind} data ends inside a skippable frame")
        elif magic.compression(head) is self._kind:
            self._decoder = self._make()
        elif not head:
            self._ended = True
            if self._source.failed:
                self._end(DamageReason.READ_ERROR, "reading stops")
        elif self._kind in (Compression.GZIP, Compression.XZ) and not any(head):
            self._source.take(len(head))  # written by tape-minded tools; allowed for xz, ignored by gzip
        else:
            self._end(
                DamageReason.TRAILING_DATA, f"something else follows the {self._kind} data: {magic.describe(head)}"
            )

    def _end(self, reason: DamageReason, what: str) -> None:
        if self._source.stopped:
            self._ended = True
            return
        if self._source.failed:
            reason, what = DamageReason.READ_ERROR, f"{what}: reading fails, {self._source.failed}"
        self._ended = True
        self._log.add(self._produced, reason, f"{what}, near byte {self._source.position} of the compressed file")


def open_stream(raw: RawStream, log: DamageLog) -> PlainStream | DecodedStream:
    """Look at the first bytes and return a stream of what is inside."""
    source = PlainStream(raw, log)
    kind = magic.compression(source.peek(magic.HEAD_BYTES))
    while kind is None and magic.skippable(source.peek(4)):  # pzstd starts so; the next frame tells zstd from lz4
        if not skip_frame(source):
            break
        kind = magic.compression(source.peek(magic.HEAD_BYTES))
    return source if kind is None else DecodedStream(source, kind, log)


def skip_frame(source: PlainStream) -> bool:
    """Pass over a skippable frame; False if the source ends inside it."""
    header = source.take(8)
    left = int.from_bytes(header[4:], "little")
    while left and (data := source.take(min(left, _READ_BYTES))):
        left -= len(data)
    return len(header) == 8 and not left
