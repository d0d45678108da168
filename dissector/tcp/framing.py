"""From ordered bytes and gaps of one direction to frames: walk, survive gaps, search, resynchronise.

A direction that is seen from its SYN on starts with a header, or is another protocol and left alone. One that is seen
from the middle on, or has lost its place, is searched for headers that confirm each other. A gap *inside* a frame whose
header was read costs that frame's bytes only: its end is known, and the next frame starts there.

This module knows where frames start and end; ``codec`` decodes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dissector.tcp import header_check, packet_marks
from dissector.tcp.header_check import HEADER_SIZE
from dissector.tcp.limits import SEGMENT_OVERHEAD
from dissector.tcp.other_protocols import OPENING_BYTES
from dissector.tcp.packet_marks import Mark
from dissector.tcp.reassembly import shifted

if TYPE_CHECKING:
    from dissector.tcp.limits import Limits
    from dissector.tcp.reassembly import Chunk, Gap

#: What is kept of a frame that is not held whole: header, framing extras, extras and key.
PREFIX_BYTES = HEADER_SIZE + 255 + 255 + 256


class State(Enum):
    """What a direction is waiting for."""

    TRIAL = "trial"  #: the first header, which must be here if this is memcached at all
    SEARCH = "search"  #: headers that confirm each other
    WALK = "walk"  #: the next frame, at a known place
    IGNORE = "ignore"  #: nothing: another protocol


class RawFrame(NamedTuple):
    """A frame's bytes and where they came from. ``data`` is its beginning alone where bytes are missing."""

    start: int
    end: int
    data: bytes
    missing: int
    gap: int  #: bytes lost between the frame before and this one
    skipped: int  #: bytes passed over between them
    packet_first: int
    packet_last: int
    time_ns: int  #: of the last packet
    acked: int | None  #: by the packet of the first byte


@dataclass(slots=True)
class _PartialFrame:
    """A frame that is passed over without being held: its beginning, and where it ends."""

    start: int
    end: int
    data: bytes
    first: int
    last: int
    time_ns: int
    acked: int | None


@dataclass(slots=True)
class Framer:
    """The frames of one direction."""

    limits: Limits
    state: State = State.SEARCH
    forced: bool = False  #: the user says it is memcached: search, whatever the first bytes look like
    position: int = 0  #: offset of the first byte in the buffer
    buffer: bytearray = field(default_factory=bytearray)
    marks: list[Mark] = field(default_factory=list)  #: of the bytes in the buffer, by offset
    frames: int = 0
    bytes_skipped: int = 0
    gap_before: int = 0  #: bytes lost since the last frame
    skipped_before: int = 0  #: bytes passed over since then
    opening: bytes = b""  #: the first bytes, where they are no frame
    _partial: _PartialFrame | None = None
    _searched: int = 0

    @property
    def in_step(self) -> bool:
        """Tell whether the next frame starts at the buffer's first byte and nothing is pending from a gap."""
        return self.state is State.WALK and self._partial is None and not self.gap_before and not self.skipped_before

    @property
    def cost(self) -> int:
        """Return the bytes held, and the memory of their marks where the number of these is not bounded."""
        if self.state is State.WALK:
            return len(self.buffer)  # at most a header's worth of marks, see compact_marks
        return len(self.buffer) + SEGMENT_OVERHEAD * len(self.marks)

    def data(self, chunk: Chunk, out: list[RawFrame]) -> None:
        """Take the next bytes in order."""
        if self.state is State.IGNORE:
            return
        offset, data = chunk.offset, chunk.data
        if self._partial is not None:
            frame = self._partial
            taken = min(len(data), frame.end - offset)
            frame.first = min(frame.first, chunk.packet)  # it may have been held since before the gap was given up
            if chunk.packet > frame.last:
                frame.last, frame.time_ns = chunk.packet, chunk.time_ns
            offset += taken
            data = data[taken:]
            if offset < frame.end:
                return
            self._close(out)
            if not data:
                return
        if not self.buffer:
            self.position = offset
        self.marks.append(Mark(offset, chunk.packet, chunk.time_ns, chunk.acked))
        self.buffer += data
        self._advance(out, final=False)

    def gap(self, gap: Gap, out: list[RawFrame]) -> None:
        """Take note of bytes that will not come."""
        if self.state is State.IGNORE:
            return
        start, end = gap.offset, gap.offset + gap.length
        if self._partial is None:
            self._advance(out, final=True)
            self._pass_over()
        if self._partial is not None:
            frame = self._partial
            if end < frame.end:
                return
            self._close(out)
            if end == frame.end:
                return
            start = frame.end
        self._lose_place(end - start)

    def finish(self, out: list[RawFrame]) -> None:
        """Nothing more will come: emit what can be told of the rest."""
        if self.state is State.IGNORE:
            return
        if self._partial is None:
            self._advance(out, final=True)
            self._pass_over()
        self._close(out)
        self._skip(len(self.buffer))

    def _lose_place(self, gap: int) -> None:
        self._skip(len(self.buffer))
        self.gap_before += gap
        if self.state is not State.IGNORE:
            self.state = State.SEARCH

    def drop_buffer(self) -> None:
        """Drop the bytes of an unfinished frame or search: too much is held over all connections."""
        if self.state is State.WALK:
            self._pass_over()
        elif self.state is not State.IGNORE:
            self._searched += len(self.buffer)
            self._skip(len(self.buffer))
            self.state = State.SEARCH  # what comes next is no longer the very first header

    def shift(self, offsets: int, acked: int) -> None:
        """Move the origin of offsets: of this direction by ``offsets``, of acknowledged offsets by ``acked``."""
        self.position += offsets
        self.marks = [
            Mark(mark.offset + offsets, mark.packet, mark.time_ns, shifted(mark.acked, acked)) for mark in self.marks
        ]
        frame = self._partial
        if frame is not None:
            frame.start, frame.end = frame.start + offsets, frame.end + offsets
            frame.acked = shifted(frame.acked, acked)

    @property
    def searched(self) -> int | None:
        """Return how many bytes were searched for a first frame; None where that has no consequences any more."""
        return None if self.frames or self.forced else self._searched

    def _advance(self, out: list[RawFrame], *, final: bool) -> None:
        while self.buffer:
            if self.state is State.TRIAL and not self._try(final=final):
                return
            if self.state is State.SEARCH and not self._search(final=final):
                return
            if self.state is not State.WALK or not self._walk(out):
                return

    def _try(self, *, final: bool) -> bool:
        """Look at the very first header; return True when there is something to go on with."""
        # A gap that comes before anything can be told is no sign of another protocol.
        undecided = len(self.buffer) < HEADER_SIZE and self.buffer[0] in header_check.MAGICS
        if undecided and not final:
            return False
        if len(self.buffer) >= HEADER_SIZE and (
            header_check.is_legal(self.buffer) or header_check.is_draft(self.buffer)
        ):
            self.state = State.WALK
            return True
        if len(self.buffer) >= HEADER_SIZE and header_check.is_plausible(self.buffer):
            # Not one of ours, but it may be a broken one: the next header decides.
            second = header_check.frame_length(self.buffer)
            undecided = len(self.buffer) < second + HEADER_SIZE
            if undecided and not final:
                return False
            if len(self.buffer) == second or (
                len(self.buffer) >= second + HEADER_SIZE and header_check.is_plausible(self.buffer, second)
            ):
                self.state = State.WALK
                return True
        self.state = State.SEARCH if self.forced or undecided else State.IGNORE
        if self.state is State.IGNORE:
            self._skip(len(self.buffer))
        return self.state is State.SEARCH

    def _search(self, *, final: bool) -> bool:
        """Look for headers that confirm each other; return True when one was found."""
        if final and self._cut_frame():
            self.state = State.WALK
            return True
        search = header_check.find_frame(self.buffer, 0, final=final)
        self._searched += search.at
        self._skip(search.at)
        if search.found:
            self.state = State.WALK
            return True
        if not self.frames and not self.forced and self._searched > self.limits.search_bytes:
            self._skip(len(self.buffer))
            self.state = State.IGNORE
        return False

    def _cut_frame(self) -> bool:
        """Tell whether a packet's first bytes are the header of a frame that the following gap cut.

        Where a snap length leaves little more than headers there is nothing to confirm one with; but a strictly legal
        header right at the start of a packet is no accident. Flexible magics are believed only where something
        confirms them: they are small numbers, and the seqnos in a packet that starts in the middle of a frame are too.
        """
        at_packet_start = bool(self.marks) and self.marks[0].offset == self.position
        if not at_packet_start or len(self.buffer) < HEADER_SIZE or self.buffer[0] not in header_check.PLAIN_MAGICS:
            return False
        if not header_check.is_legal(self.buffer):
            return False
        return header_check.frame_length(self.buffer) > len(self.buffer)

    def _walk(self, out: list[RawFrame]) -> bool:
        """Emit whole frames; return True when a bad header makes a search for the next frame necessary."""
        buffer, size = self.buffer, len(self.buffer)
        at = 0
        lost = False
        while at + HEADER_SIZE <= size:
            length = header_check.frame_length(buffer, at)
            if buffer[at] not in header_check.MAGICS or length > self.limits.frame_bytes:
                lost = True
                break
            if at + length > size:
                break
            self._emit(out, at, length)
            at += length
        self._drop(at)
        if lost:
            self.state = State.SEARCH
            self._skip(1)  # a header that is legal but announces too much would be found again and again
        else:
            self.compact_marks()
        return lost

    def _emit(self, out: list[RawFrame], at: int, length: int) -> None:
        start = self.position + at
        first, last, time_ns, acked = packet_marks.packets_of(self.marks, start, start + length)
        data = bytes(self.buffer[at : at + length])
        out.append(
            RawFrame(start, start + length, data, 0, self.gap_before, self.skipped_before, first, last, time_ns, acked)
        )
        self.frames += 1
        self.gap_before = self.skipped_before = 0

    def compact_marks(self) -> None:
        """Keep only the packets of an unfinished frame that its row names: a frame may come byte by byte."""
        # Before its header is whole it may be no frame at all, and the next one may start in any of these packets.
        if len(self.buffer) >= HEADER_SIZE:
            self.marks = packet_marks.compacted(self.marks)

    def first_packet(self) -> tuple[int, int | None] | None:
        """Return the first packet of the unfinished frame, and what the one with its first byte acknowledged."""
        packet_marks.forget_before(self.marks, self.position)
        return (min(mark.packet for mark in self.marks), self.marks[0].acked) if self.marks else None

    def _pass_over(self) -> None:
        """Go on with a frame whose header was read without holding all of it."""
        if self.state is not State.WALK or len(self.buffer) < HEADER_SIZE:
            return
        end = self.position + header_check.frame_length(self.buffer)
        held = self.position + len(self.buffer)
        first, last, time_ns, acked = packet_marks.packets_of(self.marks, self.position, held)
        data = bytes(self.buffer[:PREFIX_BYTES])
        self._partial = _PartialFrame(self.position, end, data, first, last, time_ns, acked)
        self.buffer.clear()
        self.marks.clear()

    def _close(self, out: list[RawFrame]) -> None:
        frame = self._partial
        if frame is None:
            return
        out.append(
            RawFrame(
                frame.start,
                frame.end,
                frame.data,
                frame.end - frame.start - len(frame.data),  # lost, or not kept because something before it was
                self.gap_before,
                self.skipped_before,
                frame.first,
                frame.last,
                frame.time_ns,
                frame.acked,
            )
        )
        self.frames += 1
        self.gap_before = self.skipped_before = 0
        self.position = frame.end
        self._partial = None

    def _skip(self, count: int) -> None:
        if not self.frames and not self.bytes_skipped:
            self.opening = bytes(self.buffer[:OPENING_BYTES])
        self.bytes_skipped += count
        self.skipped_before += count
        self._drop(count)

    def _drop(self, count: int) -> None:
        del self.buffer[:count]
        self.position += count
        if self.buffer:
            # Otherwise a search through small packets would remember all of them.
            packet_marks.forget_before(self.marks, self.position)
        else:
            self.marks.clear()
