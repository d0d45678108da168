"""Classic pcap files: a file header, then records of a header and a packet.

Knows the five magic numbers' layouts (micro- and nanoseconds, Kuznetzov's longer record header, either byte order) and
what a believable record header looks like. A packet is bytes here.

Only the walk from record to record is a Python loop; every column is gathered by numpy. Nothing in a record header is
protected by a checksum, so a length is believed when its record fits into the file and, if it is larger than the file's
snapshot length allows, when another believable header follows it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dissector.capture import resync
from dissector.capture.clock import NANOSECONDS
from dissector.capture.magic import PCAP_MAGICS, PCAP_NANOSECONDS, PCAP_PATCHED
from dissector.capture.packet_block import MAX_PACKET_BYTES, Columns, DamageReason
from dissector.capture.resync import Lost
from dissector.capture.window import at_every_byte, gather

if TYPE_CHECKING:
    import numpy.typing as npt

    from dissector.array_types import Longs
    from dissector.capture.packet_block import DamageLog
    from dissector.capture.window import Window

FILE_HEADER_BYTES = 24
# libpcap's MAXIMUM_SNAPLEN. Real records stay below it whatever the file header says, but for a few link types.
USUAL_SNAPLEN = 262_144
# A snapshot length beyond this is a writer's "no limit" (0x7fffffff, 0xffffffff), not a size to expect.
LARGEST_SNAPLEN = 16 << 20
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class FileHeader:
    """What the first 24 bytes say about all records."""

    order: str
    """Byte order of every number, as the struct module writes it."""
    record_header_bytes: int
    ticks_per_second: int
    sane_bytes: int
    """The largest captured length that needs no proof."""
    linktype: int
    snaplen: int
    """The snapshot length as the header states it: 0 or an enormous one is "no limit"."""
    check_sequence_bits: int | None
    """Length of the frame check sequence at the end of every packet; None: the header does not tell."""

    @classmethod
    def parse(cls, head: bytes) -> FileHeader:
        """Read a file header whose magic number is known to be one of PCAP_MAGICS."""
        order = "<" if int.from_bytes(head[:4], "little") in PCAP_MAGICS else ">"
        magic, _major, _minor, _zone, _accuracy, snaplen, network = struct.unpack(f"{order}IHHiIII", head)
        return cls(
            order=order,
            record_header_bytes=24 if magic == PCAP_PATCHED else 16,
            ticks_per_second=NANOSECONDS if magic == PCAP_NANOSECONDS else 1_000_000,
            sane_bytes=snaplen if USUAL_SNAPLEN < snaplen <= LARGEST_SNAPLEN else USUAL_SNAPLEN,
            linktype=network & 0xFFFF,
            snaplen=snaplen,
            # The highest four bits count units of 16 bits, if another bit says so (libpcap's LT_FCS_LENGTH_PRESENT).
            check_sequence_bits=(network >> 28) * 16 if network & 0x0400_0000 else None,
        )


class PcapWalker:
    """Turns the bytes of a pcap file into columns, window by window."""

    def __init__(self, log: DamageLog) -> None:
        self._log = log
        self._records: _Records | None = None
        self._lost: Lost | None = None
        self._packets = 0

    def walk(self, window: Window) -> tuple[list[Columns], int]:
        """Consume all that is whole; return its packets, and how many bytes the next step needs.

        At the end of the stream one call consumes everything that is left.
        """
        if self._records is None:
            if window.end - window.start < FILE_HEADER_BYTES:
                if window.eof:
                    what = f"the file ends after {window.end - window.start} of {FILE_HEADER_BYTES} header bytes"
                    self._log.add(window.position, DamageReason.TRUNCATED, what)
                    window.start = window.end
                return [], FILE_HEADER_BYTES
            self._records = _Records(FileHeader.parse(window.head(FILE_HEADER_BYTES)))
            window.start += FILE_HEADER_BYTES
        return self._walk(window, self._records)

    def _walk(self, window: Window, records: _Records) -> tuple[list[Columns], int]:
        parts: list[Columns] = []
        while True:
            if self._lost:
                need = resync.search(window, records)
                if need > 0:
                    return parts, need
                self._lost.report(self._log, window, found=need == resync.FOUND)
                self._lost = None
            offsets, stop = _collect(window.view, window.start, window.end, records.header_bytes, records.length)
            if offsets:
                columns, need = self._believed(window, records, np.array(offsets, np.int64), stop)
                if len(columns):
                    parts.append(columns)
                if need:
                    return parts, need
                if self._lost:
                    continue
            need = self._unfinished(window, records)
            if not self._lost:
                return parts, need

    def _believed(self, window: Window, records: _Records, offsets: Longs, stop: int) -> tuple[Columns, int]:
        """Gather the columns of walked records, up to the first one that can't be believed."""
        headers = gather(window.buffer, offsets, records.layout)
        captured = headers["captured"]
        # The second clause alone would meet legal empty packets too, but hardly ever: the exact test comes below.
        unusual = (captured > records.header.sane_bytes) | ((captured == 0) & (headers["seconds"] == 0))
        kept, need = len(offsets), 0
        for i in np.flatnonzero(unusual).tolist():
            if i:
                records.last_second = int(headers["seconds"][i - 1])
            doubt, need = records.doubt(window, int(offsets[i]))
            if doubt or need:
                kept, stop = i, int(offsets[i])
                break
        columns = records.columns(headers[:kept], offsets[:kept])
        self._packets += kept
        window.start = stop
        if kept:
            records.last_second = int(headers["seconds"][kept - 1])
        if kept < len(offsets) and not need:
            self._lose(window, doubt)
        return columns, need

    def _unfinished(self, window: Window, records: _Records) -> int:
        """Judge the record at the window's start, which is not whole; return how many bytes it needs."""
        left = window.end - window.start
        if left < records.header_bytes:
            if window.eof and left:
                what = f"the file ends {left} bytes into the header of packet {self._packets + 1}"
                self._log.add(window.position, DamageReason.TRUNCATED, what, left)
                window.start = window.end
            return records.header_bytes
        doubt, need = records.doubt(window, window.start)
        if need and window.eof:
            what = f"the file ends {left} bytes into packet {self._packets + 1}, a record of {need} bytes"
            self._lost = Lost(window.position, DamageReason.TRUNCATED, what)
            window.start += 1
        elif doubt:
            self._lose(window, doubt)
        return need

    def _lose(self, window: Window, doubt: str) -> None:
        what = f"the record header of packet {self._packets + 1} {doubt}"
        self._lost = Lost(window.position, DamageReason.BAD_RECORD_HEADER, what)
        window.start += 1


class _Records:
    """The records of one file: their layout, their columns, and what is believable in their headers."""

    def __init__(self, header: FileHeader) -> None:
        self.header = header
        self.header_bytes = header.record_header_bytes
        self.length = struct.Struct(f"{header.order}I")
        self._numbers = struct.Struct(f"{header.order}IIII")
        self.layout: np.dtype[Any] = np.dtype(
            [(name, f"{header.order}u4") for name in ("seconds", "ticks", "captured", "original")]
        )
        self.last_second: int | None = None

    def columns(self, headers: npt.NDArray[Any], offsets: Longs) -> Columns:
        """Make the columns of records that are believed."""
        time_ns = headers["seconds"].astype(np.int64)
        time_ns *= NANOSECONDS
        time_ns += headers["ticks"].astype(np.int64) * (NANOSECONDS // self.header.ticks_per_second)
        return Columns(
            offset=offsets + self.header_bytes,
            captured=headers["captured"].astype(np.int64),
            original=headers["original"].astype(np.int64),
            time_ns=time_ns,
            linktype=np.full(len(headers), self.header.linktype, np.int32),
            interface=np.zeros(len(headers), np.int32),
        )

    def doubt(self, window: Window, at: int) -> tuple[str, int]:
        """Judge the record at an offset: why it can't be believed (or ""), and how many bytes it needs (or 0)."""
        numbers = self._numbers.unpack_from(window.view, at)
        captured = int(numbers[2])
        if numbers == (0, 0, 0, 0):
            # A capture preallocated or cut by a crash ends in zeros, which would read as endless empty packets.
            return "is blank", 0
        following = at + self.header_bytes + captured
        if captured <= self.header.sane_bytes:
            return "", following - at if following > window.end else 0
        claim = f"claims {captured} captured bytes"
        if captured > MAX_PACKET_BYTES or not self._believable(*numbers, limit=MAX_PACKET_BYTES):
            return claim, 0
        if following > window.end:
            return "", following - at
        if following + 16 > window.end:  # the end of the file proves it as well as another header
            return "", 0 if window.eof else following + 16 - at
        after = self._numbers.unpack_from(window.view, following)
        return ("" if self._believable(*after, limit=MAX_PACKET_BYTES) else claim), 0

    def likely(self, window: Window, first: int, count: int) -> Longs:
        """Return the offsets at which a believable header starts (resync.Grammar)."""
        numbers = [
            at_every_byte(window.buffer, first + skip, count, f"{self.header.order}u4").astype(np.int64)
            for skip in (0, 4, 8, 12)
        ]
        seconds, ticks, captured, original = numbers
        mask = self._believable(seconds, ticks, captured, original, limit=self.header.sane_bytes)
        return np.flatnonzero(mask) + first

    def link(self, window: Window, at: int) -> int | None:
        """Return where the next record starts if this one is believable (resync.Grammar)."""
        numbers = self._numbers.unpack_from(window.view, at)
        if not self._believable(*numbers, limit=self.header.sane_bytes):
            return None
        return at + self.header_bytes + int(numbers[2])

    def _believable(self, seconds: Any, ticks: Any, captured: Any, original: Any, *, limit: int) -> Any:
        """Judge one header (integers) or many (arrays) by the same rule."""
        # An empty record is legal, but runs of zeros in a packet would look like many of them.
        sane = (captured > 0) & (captured <= limit) & (original >= captured) & (original <= MAX_PACKET_BYTES)
        sane &= ticks < self.header.ticks_per_second
        if self.last_second is not None:
            sane &= abs(seconds - self.last_second) <= DAY_SECONDS
        return sane


def _collect(
    view: memoryview, offset: int, end: int, header_bytes: int, length: struct.Struct
) -> tuple[list[int], int]:
    """Walk from record to record; return where the whole ones start, and where the walk stopped."""
    lengths = view[8:]  # so that a record's start is where its captured length is read
    offsets: list[int] = []
    append, unpack = offsets.append, length.unpack_from
    last = end - header_bytes
    while offset <= last:
        append(offset)
        (size,) = unpack(lengths, offset)
        offset += size + header_bytes
    if offset > end:
        offset = offsets.pop()  # it is not there whole
    return offsets, offset
