"""pcapng files: sections of blocks, some of which hold a packet.

Knows how blocks are framed (type, length, body, length again), which hold packets, and what a believable block looks
like; interfaces are in ``interfaces``, clocks in ``clock``. A packet is bytes here.

Packet blocks of one kind are walked in one tight loop and gathered by numpy; every other block is a single step.
A block whose two lengths differ, or that is too short for its kind, is damage; the bytes up to the next sound block are
searched.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dissector.capture import resync
from dissector.capture.interfaces import MAX_INTERFACES, InterfaceTable
from dissector.capture.magic import BYTE_ORDER_BIG, BYTE_ORDER_LITTLE, SECTION_HEADER
from dissector.capture.packet_block import MAX_PACKET_BYTES, Columns, DamageReason
from dissector.capture.resync import Lost
from dissector.capture.window import at_every_byte, gather

if TYPE_CHECKING:
    import numpy.typing as npt

    from dissector.array_types import Longs
    from dissector.capture.packet_block import DamageLog
    from dissector.capture.window import Window

SECTION = 0x0A0D0D0A  # reads the same in both byte orders
INTERFACE = 1
OLD_PACKET = 2
SIMPLE_PACKET = 3
PACKET = 6
LARGEST_COMMON_KIND = 10  # Decryption Secrets Block
CUSTOM = frozenset({0x0BAD, 0x40000BAD})

# Least bytes of a block that holds a packet: the fixed part and both lengths.
PACKET_KINDS = {PACKET: 32, OLD_PACKET: 32, SIMPLE_PACKET: 16}
STRUCTURAL = frozenset({SECTION, INTERFACE, *PACKET_KINDS})
HEADER_BYTES = 12
# Types handed out so far are small numbers. A large one with an enormous length is damage rather than a new block.
REGISTERED_KINDS = 0x10000
# The longest block a resynchronisation waits for.
SEARCHED_BLOCK_BYTES = 16 << 20


class PcapngWalker:
    """Turns the bytes of a pcapng file into columns, window by window."""

    def __init__(self, log: DamageLog) -> None:
        self._log = log
        self._blocks = _Blocks("<")
        self._interfaces = InterfaceTable()
        self._lost: Lost | None = None
        self._passing: int | None = None
        self._last_time_ns = 0
        self._packets = 0

    def walk(self, window: Window) -> tuple[list[Columns], int]:
        """Consume all that is whole; return its packets, and how many bytes the next step needs.

        At the end of the stream one call consumes everything that is left.
        """
        parts: list[Columns] = []
        if self._passing is not None:
            if window.missing:
                self._cut_while_passing(window, self._passing, window.missing)
            self._passing = None
        while True:
            if self._lost:
                need = resync.search(window, self._blocks)
                if need > 0:
                    return parts, need
                self._lost.report(self._log, window, found=need == resync.FOUND)
                self._lost = None
            if window.end - window.start < HEADER_BYTES:
                self._end(window)
                return parts, HEADER_BYTES
            kind, length = self._blocks.header(window, window.start)
            if kind in PACKET_KINDS and self._packet_run(window, kind, parts):
                continue
            need = self._single(window, kind, length)
            if need:
                return parts, need

    def _end(self, window: Window) -> None:
        left = window.end - window.start
        if window.eof and left:
            what = f"the file ends {left} bytes into the header of a block, after packet {self._packets}"
            self._log.add(window.position, DamageReason.TRUNCATED, what, left)
            window.start = window.end

    def _packet_run(self, window: Window, kind: int, parts: list[Columns]) -> bool:
        """Consume consecutive packet blocks of one kind; False if the block at the window's start is not sound."""
        blocks = self._blocks
        found, stop = blocks.collect(window, kind)
        if not found:
            return False
        offsets = np.array(found, np.int64)
        headers = gather(window.buffer, offsets, blocks.simple_layout if kind == SIMPLE_PACKET else blocks.layout)
        lengths = headers["length"].astype(np.int64)
        trailers = gather(window.buffer, offsets + lengths - 4, blocks.number)
        unsound = np.flatnonzero((trailers != headers["length"]) | (lengths > MAX_PACKET_BYTES))
        if len(unsound):
            first = int(unsound[0])
            stop = found[first]
            offsets, headers, lengths = offsets[:first], headers[:first], lengths[:first]
        window.start = stop
        if not len(offsets):
            return False
        columns = self._columns(window, kind, offsets, headers, lengths)
        if len(columns):
            parts.append(columns)
            self._packets += len(columns)
            self._last_time_ns = int(columns.time_ns[-1])
        return True

    def _columns(self, window: Window, kind: int, offsets: Longs, headers: npt.NDArray[Any], lengths: Longs) -> Columns:
        """Make the columns of packet blocks whose framing is sound, without those that contradict themselves."""
        original = headers["original"].astype(np.int64)
        if kind == SIMPLE_PACKET:
            ids = np.zeros(len(offsets), np.int64)
            snaplen = self._interfaces.first_snaplen
            captured = np.minimum(original, snaplen) if snaplen else original
            # Nothing but the block's length bounds a packet that its writer cut without saying so.
            captured = np.minimum(captured, lengths - PACKET_KINDS[kind])
        else:
            ids = headers["interface"].astype(np.int64)
            if kind == OLD_PACKET:  # the other half of the word counts drops; which half depends on the byte order
                ids = ids & 0xFFFF if self._blocks.order == "<" else ids >> 16
            captured = headers["captured"].astype(np.int64)
        known = ids < self._interfaces.count
        inside = captured <= lengths - PACKET_KINDS[kind]
        usable = known & inside
        if not usable.all():
            for i in np.flatnonzero(~usable).tolist():
                self._refuse(
                    window.base + int(offsets[i]), int(ids[i]), int(captured[i]), int(lengths[i]), known=known[i]
                )
            ids, captured, original = ids[usable], captured[usable], original[usable]
            offsets, headers = offsets[usable], headers[usable]
        if kind == SIMPLE_PACKET:  # such a block has no time: the packet before it is the nearest thing known
            times = np.full(len(ids), self._last_time_ns, np.int64)
        else:
            ticks = headers["high"].astype(np.uint64) << np.uint64(32) | headers["low"]
            times = self._interfaces.times(ids, ticks)
        return Columns(
            offset=offsets + (PACKET_KINDS[kind] - 4),
            captured=captured,
            original=original,
            time_ns=times,
            linktype=self._interfaces.linktypes(ids),
            interface=self._interfaces.numbers(ids),
        )

    def _refuse(self, position: int, interface: int, captured: int, length: int, *, known: bool) -> None:
        if known:
            what = f"a packet block of {length} bytes claims {captured} captured bytes"
            self._log.add(position, DamageReason.MALFORMED_BLOCK, what, length)
        else:
            what = f"a packet names interface {interface}, but {self._interfaces.count} are described before it"
            self._log.add(position, DamageReason.UNKNOWN_INTERFACE, what, length)

    def _single(self, window: Window, kind: int, length: int) -> int:
        """Take one step past a block that is no sound packet; return how many bytes it needs, 0 if it is done."""
        if kind == SECTION and self._blocks.section_order(window, window.start) is None:
            return self._lose(window, DamageReason.BAD_SECTION_HEADER, "a section header without a byte-order mark")
        if kind == SECTION and not self._packets and not self._interfaces.count:
            # Even if its length is damaged: the search needs the byte order, and there is no better witness.
            self._blocks = _Blocks(self._blocks.section_order(window, window.start) or self._blocks.order)
        if length < HEADER_BYTES or length % 4:
            return self._lose(window, DamageReason.BAD_BLOCK_LENGTH, f"a block of type {kind:#x} claims {length} bytes")
        if length > MAX_PACKET_BYTES:
            return self._enormous(window, kind, length)
        if length > window.end - window.start:
            if not window.eof:
                return length
            left = window.end - window.start
            what = f"the file ends {left} bytes into a block of {length} bytes, after packet {self._packets}"
            return self._lose(window, DamageReason.TRUNCATED, what)
        end = window.start + length
        if window.view[end - 4 : end] != window.view[window.start + 4 : window.start + 8]:
            what = f"a block of type {kind:#x} claims {length} bytes at its start and another length at its end"
            return self._lose(window, DamageReason.BAD_BLOCK_LENGTH, what)
        self._understand(window, kind, length)
        window.start += length
        return 0

    def _understand(self, window: Window, kind: int, length: int) -> bool:
        """Act on a whole, well-framed block; tell whether it is what it should be."""
        position = window.position
        if kind == SECTION:
            self._blocks = _Blocks(self._blocks.section_order(window, window.start) or self._blocks.order)
            self._interfaces.start_section()
        elif kind == INTERFACE and length >= HEADER_BYTES + 8:
            if not self._interfaces.add(window.head(length - 4)[8:], self._blocks.order):
                what = f"a section describes more than {MAX_INTERFACES} interfaces"
                self._log.add(position, DamageReason.TOO_MANY_INTERFACES, what, length)
                return False
        elif kind in STRUCTURAL:
            what = f"a block of type {kind:#x} has only {length} bytes"
            self._log.add(position, DamageReason.MALFORMED_BLOCK, what, length)
            return False
        return True

    def _enormous(self, window: Window, kind: int, length: int) -> int:
        """Pass over a block that is too large to hold, if reading does not depend on it."""
        if kind in STRUCTURAL or (kind >= REGISTERED_KINDS and kind not in CUSTOM):
            return self._lose(window, DamageReason.BAD_BLOCK_LENGTH, f"a block of type {kind:#x} claims {length} bytes")
        position, left = window.position, window.end - window.start
        if length <= left or not window.eof:
            self._passing = position
            window.discard(length)
            return HEADER_BYTES if length > left else 0
        # Not searched for packets: with smaller chunks these bytes would be gone, and chunks must make no difference.
        window.start = window.end
        self._cut_while_passing(window, position, length - left)
        return HEADER_BYTES

    def _cut_while_passing(self, window: Window, position: int, missing: int) -> None:
        what = f"the file ends inside a block that is passed over: {missing} bytes of it are missing"
        self._log.add(position, DamageReason.TRUNCATED, what, window.position - position)

    def _lose(self, window: Window, reason: DamageReason, what: str) -> int:
        self._lost = Lost(window.position, reason, what)
        window.start += 1
        return 0


class _Blocks:
    """The blocks of a section: their layout in its byte order, and what is believable in them."""

    header_bytes = HEADER_BYTES

    def __init__(self, order: str) -> None:
        self.order = order
        number = f"{order}u4"
        self.number: np.dtype[Any] = np.dtype(number)
        names = ("kind", "length", "interface", "high", "low", "captured", "original")
        self.layout: np.dtype[Any] = np.dtype([(name, number) for name in names])
        self.simple_layout: np.dtype[Any] = np.dtype([(name, number) for name in ("kind", "length", "original")])
        self._pair = struct.Struct(f"{order}II")
        self._single = struct.Struct(f"{order}I")

    def header(self, window: Window, at: int) -> tuple[int, int]:
        """Return type and length of a block; a section header speaks in its own byte order."""
        kind, length = self._pair.unpack_from(window.view, at)
        if kind == SECTION and (order := self.section_order(window, at)):
            (length,) = struct.unpack_from(f"{order}I", window.view, at + 4)
        return kind, length

    @staticmethod
    def section_order(window: Window, at: int) -> str | None:
        """Return the byte order a section header announces, or None if it does not."""
        mark = window.view[at + 8 : at + 12]
        return "<" if mark == BYTE_ORDER_LITTLE else ">" if mark == BYTE_ORDER_BIG else None

    def collect(self, window: Window, wanted: int) -> tuple[list[int], int]:
        """Walk over packet blocks of one kind and useless blocks; return where the former are, and where it stopped."""
        view, offset, end = window.view, window.start, window.end
        offsets: list[int] = []
        append, unpack, unpack_length = offsets.append, self._pair.unpack_from, self._single.unpack_from
        least, last, structural = PACKET_KINDS[wanted], end - HEADER_BYTES, STRUCTURAL
        while offset <= last:
            kind, length = unpack(view, offset)
            following = offset + length
            if kind == wanted:
                if length < least or length & 3 or following > end:
                    break
                append(offset)
            elif (
                kind in structural
                or length < HEADER_BYTES
                or length & 3
                or following > end
                or length > MAX_PACKET_BYTES
                or unpack_length(view, following - 4)[0] != length
            ):
                break
            offset = following
        return offsets, offset

    def likely(self, window: Window, first: int, count: int) -> Longs:
        """Return the offsets at which a block of a known type may start (resync.Grammar)."""
        kinds = at_every_byte(window.buffer, first, count, f"{self.order}u4")
        lengths = at_every_byte(window.buffer, first + 4, count, f"{self.order}u4")
        known = (kinds <= LARGEST_COMMON_KIND) & (kinds > 0)
        for kind in CUSTOM:
            known |= kinds == kind
        known &= (lengths >= HEADER_BYTES) & (lengths <= SEARCHED_BLOCK_BYTES) & (lengths & 3 == 0)
        known |= kinds == SECTION  # its length may be in the other byte order
        return np.flatnonzero(known) + first

    def link(self, window: Window, at: int) -> int | None:
        """Return where the next block starts if this one is believable (resync.Grammar)."""
        order = self._order_at(window, at)
        if order is None:
            return None
        first = window.view[at + 4 : at + 8]
        length = int.from_bytes(first, order)
        if length < HEADER_BYTES or length % 4 or length > SEARCHED_BLOCK_BYTES:
            return None
        following = at + length
        if following <= window.end and window.view[following - 4 : following] != first:
            return None
        return following

    def _order_at(self, window: Window, at: int) -> Literal["little", "big"] | None:
        """Return the byte order in which a block makes sense: a section header on the way may have changed it."""
        kind = window.view[at : at + 4]
        order: str | None = self.order
        if kind == SECTION_HEADER:
            order = self.section_order(window, at)
        elif not _common(int.from_bytes(kind, "little")) and _common(int.from_bytes(kind, "big")):
            order = ">"
        elif not _common(int.from_bytes(kind, "big")) and _common(int.from_bytes(kind, "little")):
            order = "<"
        return None if order is None else "little" if order == "<" else "big"


def _common(kind: int) -> bool:
    return 0 < kind <= LARGEST_COMMON_KIND or kind in CUSTOM
