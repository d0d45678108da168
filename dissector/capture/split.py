"""Parts of a capture that can be read by themselves: byte ranges between record boundaries, and how to find them.

Knows how to begin in the middle of a plain pcap or pcapng file: what every reader needs from the file's beginning (the
*context*: the file header, or section header and interfaces) is put in front of the bytes from a record on.

A boundary found in the middle is a guess, however good: payloads may hold captures themselves. Induction makes it
certain. The first range begins at byte 0; each scan ends at the first record at or after the end of its range. If the
next range's guess is that same record, its scan was right. If not, that range is scanned again from the right record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dissector.capture import magic, resync
from dissector.capture.chunk_sizes import SPLIT_CHUNK_BYTES
from dissector.capture.compression import PlainStream, open_stream
from dissector.capture.packet_block import DamageLog
from dissector.capture.pcap import FILE_HEADER_BYTES, FileHeader, PcapWalker, _Records
from dissector.capture.pcapng import INTERFACE, PACKET, PACKET_KINDS, SECTION, SIMPLE_PACKET, PcapngWalker, _Blocks
from dissector.capture.reader import CaptureReader
from dissector.capture.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from dissector.array_types import Longs
    from dissector.capture.packet_block import Columns, PacketBlock
    from dissector.capture.reader import Walker
    from dissector.capture.resync import Grammar


class SeekableStream(Protocol):
    """A file that can be read from any byte on."""

    def readinto(self, target: memoryview, /) -> int | None:
        """Fill a buffer as far as bytes are there; 0 is the end."""
        ...

    def seek(self, position: int, /) -> int:
        """Go to a byte."""
        ...


@dataclass(frozen=True, slots=True)
class FileProbe:
    """What the first packets of a file tell."""

    splittable: bool
    """Plain pcap or pcapng: its parts can be read by themselves."""
    first_time_ns: int | None
    """Time of the first packet; None: there is none."""
    context: bytes = b""
    """The bytes that a reader of any later record needs in front."""


@dataclass(frozen=True, slots=True)
class RangeScan:
    """What the scan of one range found; positions are bytes of the file."""

    first: int | None
    """The first record at or after the range's begin; None: there is none."""
    last: int | None
    """The first record at or after the range's end; None: the file ends before."""
    packets: int
    """Packets of records that begin in the range."""
    sure: bool
    """Whether a part cut here gives the same packets as reading the whole file."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A range with known ends: read by itself, it gives the same packets as in the whole file."""

    begin: int = 0
    end: int | None = None
    """None: to the end of the file."""
    packets_before: int = 0
    context: bytes = b""


WHOLE = FilePart()


class FilePartStream:
    """The bytes of a part as one stream: its context, then the file's bytes up to its end."""

    def __init__(self, file: SeekableStream, part: FilePart) -> None:
        self._file = file
        self._context = memoryview(part.context)
        self._left = None if part.end is None else part.end - part.begin
        file.seek(part.begin)

    def readinto(self, target: memoryview, /) -> int | None:
        """Fill a buffer as far as bytes are there; 0 is the end."""
        if self._context:
            count = min(len(target), len(self._context))
            target[:count] = self._context[:count]
            self._context = self._context[count:]
            return count
        if self._left is None:
            return self._file.readinto(target)
        if not self._left:
            return 0
        got = self._file.readinto(target[: self._left])
        if got:
            self._left -= got
        return got


def probe_file(file: SeekableStream, name: str) -> FileProbe:
    """Look at the first packets of a file that is at its beginning; raises InputError if it is no capture."""
    plain = isinstance(open_stream(file, DamageLog(name)), PlainStream)
    file.seek(0)
    reader = _ScanReader(file, name)
    time_ns, position = None, None
    for block in reader:
        time_ns, position = int(block.time_ns[0]), int(reader.starts(block)[0])
        break
    if not plain or position is None or any(entry.offset < position for entry in reader.damage):
        return FileProbe(splittable=False, first_time_ns=time_ns)
    return FileProbe(True, time_ns, reader.context(position))


def scan_range(
    file: SeekableStream, name: str, context: bytes, start: int, stop: int, known: int | None = None
) -> RangeScan:
    """Scan the records that begin in ``start`` to ``stop``; ``known`` is a record to begin at without a search."""
    first = known if known is not None else _search(file, context, start) if start else 0
    if first is None:
        return RangeScan(None, None, 0, sure=True)
    front = context if first else b""
    reader = _ScanReader(FilePartStream(file, FilePart(first, context=front)), name)
    shift = first - len(front)
    begins: int | None = None
    ends: int | None = None
    packets = 0
    for block in reader:
        starts = reader.starts(block) + shift
        begins = int(starts[0]) if begins is None else begins
        inside = int((starts < stop).sum())
        packets += inside
        if inside < len(starts):
            ends = int(starts[inside])
            break
    # Damage in the last part is judged as in the whole file; damage before another part may have been judged by bytes
    # of that part.
    broken = ends is not None and any(entry.offset + shift < ends for entry in reader.damage)
    fixed = len(front) if first else begins
    later = fixed is None or any(position >= fixed for position, _ in reader.structure)
    return RangeScan(begins, ends, packets, sure=not (broken or later or reader.untimed))


def parts_of(
    context: bytes,
    ranges: Sequence[tuple[int, int]],
    scans: Sequence[RangeScan],
    again: Callable[[int, int], RangeScan],
) -> list[FilePart]:
    """Return the parts of a file from the scans of its ranges, or the whole file where a cut would not be certain.

    ``again`` scans a range, by its index, from a known record on.
    """
    found: list[FilePart] = []
    expected: int | None = 0
    packets = 0
    for index, (_, stop) in enumerate(ranges):
        scan = scans[index]
        if expected is None or (index and expected >= stop):
            continue  # the part before covers all of it
        if index and scan.first != expected:
            scan = again(index, expected)
        if not scan.sure or (index and scan.first != expected):
            return [WHOLE]
        if scan.packets:
            found.append(FilePart(expected, scan.last, packets, context if expected else b""))
        packets += scan.packets
        expected = scan.last
    return found or [WHOLE]


def ranges(size: int, split_bytes: int) -> list[tuple[int, int]]:
    """Cut a file's size into ranges of about equal size, none larger than wanted."""
    count = max(1, -(-size // split_bytes))
    return [(size * index // count, size * (index + 1) // count) for index in range(count)]


class _ScanReader(CaptureReader):
    """A reader that knows where records begin, and which blocks describe their section."""

    def __init__(self, stream: SeekableStream | FilePartStream, name: str) -> None:
        self.structure: list[tuple[int, bytes]] = []
        """Section headers and interfaces so far, each with its place in the stream."""
        self._header = b""
        self._before = PACKET_KINDS[PACKET] - 4
        self._base = 0
        self._scan_walker: _ScanWalker | None = None
        super().__init__(stream, chunk_bytes=SPLIT_CHUNK_BYTES, name=name)

    @property
    def untimed(self) -> bool:
        """Whether a packet has no time of its own: it takes the time of the packet before it, maybe of another part."""
        return self._scan_walker is not None and self._scan_walker.untimed

    def starts(self, block: PacketBlock) -> Longs:
        """Return where the records of the block just handed out begin, as bytes of the stream."""
        return block.offset + (self._base - self._before)

    def context(self, first: int) -> bytes:
        """Return the bytes that a reader of any record after the first one needs in front."""
        return self._header or b"".join(raw for position, raw in self.structure if position < first)

    def _block(self, columns: Columns) -> PacketBlock:
        self._base = self._window.base
        return super()._block(columns)

    def _recognise(self) -> Walker:
        walker = super()._recognise()
        if isinstance(walker, PcapWalker):
            self._header = self._window.head(FILE_HEADER_BYTES)
            if len(self._header) == FILE_HEADER_BYTES:
                self._before = FileHeader.parse(self._header).record_header_bytes
            return walker
        self._scan_walker = _ScanWalker(self._log, self.structure)
        return self._scan_walker


class _ScanWalker(PcapngWalker):
    """Notes the blocks that later ones depend on."""

    def __init__(self, log: DamageLog, structure: list[tuple[int, bytes]]) -> None:
        super().__init__(log)
        self._structure = structure
        self.untimed = False

    def _understand(self, window: Window, kind: int, length: int) -> bool:
        if kind in (SECTION, INTERFACE):
            self._structure.append((window.position, window.head(length)))
        return super()._understand(window, kind, length)

    def _columns(self, window: Window, kind: int, offsets: Longs, headers: npt.NDArray[Any], lengths: Longs) -> Columns:
        self.untimed |= kind == SIMPLE_PACKET
        return super()._columns(window, kind, offsets, headers, lengths)


def _search(file: SeekableStream, context: bytes, start: int) -> int | None:
    """Return the next record at or after a byte, believed because others follow it; None: there is none."""
    grammar: Grammar
    if magic.container(context) is magic.Container.PCAP:
        grammar = _Records(FileHeader.parse(context))
    else:
        grammar = _Blocks("<" if context[8:12] == magic.BYTE_ORDER_LITTLE else ">")
    window = Window(PlainStream(FilePartStream(file, FilePart(start)), DamageLog("")), SPLIT_CHUNK_BYTES)
    need = grammar.header_bytes
    while need > 0:
        window.refill(need)
        need = resync.search(window, grammar)
    return start + window.position if need == resync.FOUND else None
