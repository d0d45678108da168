"""A copy of captures as one pcapng file, in which packets have comments. Nothing else is changed.

* Blocks of a pcapng file are copied byte for byte; only packet blocks that get or lose comments are written anew, in
  their section's byte order.
* A Simple Packet Block has no room for comments and becomes an Enhanced one. It has no time either: it gets that of the
  packet before it, as the reader has it, rounded to the clock of interface 0.
* A section's length, where it is stated, becomes "unspecified" when anything in the section changes.
* A pcap file becomes a section with one interface. Of Kuznetzov's longer record headers the packet remains.
* Damaged parts that the reader skips are left out, so that the copy can be read, and packets keep their numbers.

Knows capture files; of comments it knows only how to tell those of an earlier check from others.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np

from analysis.annotate.comment import MARK, read_comment
from dissector.capture.chunk_sizes import COPY_CHUNK_BYTES
from dissector.capture.clock import NANOSECONDS
from dissector.capture.interfaces import options_in
from dissector.capture.magic import SECTION_HEADER
from dissector.capture.pcapng import SIMPLE_PACKET
from dissector.capture.pcapng_writer import (
    APPLICATION,
    CHECK_SEQUENCE_BITS,
    COMMENT,
    RESOLUTION,
    block,
    interface,
    option_list,
    packet_block,
    section_header,
)
from dissector.capture.sound_blocks import SoundBlockReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.array_types import Longs
    from dissector.capture import Input, PacketBlock
    from dissector.capture.compression import RawStream
    from dissector.capture.pcap import FileHeader
    from dissector.capture.pcapng_writer import Option
    from dissector.capture.sound_blocks import Packets, SoundBlocks

_SECTION_LENGTH_AT = 16  #: bytes into a section header
_SECTION_HEADER_BYTES = 28
_PACKET_AT = 28  #: where the packet begins in a block that is not simple
_SIMPLE_PACKET_AT = 12
_UNSPECIFIED = b"\xff" * 8  #: the section length -1, in either byte order
_MARK = MARK.encode()


class Comments(Protocol):
    """The comments of packets, by their numbers in the copy."""

    left_out: int  #: comments that were left out

    @property
    def numbers(self) -> Longs:
        """Return the packets that have comments, in order."""
        ...

    def of(self, packet: int) -> list[bytes]:
        """Write the comments of a packet."""
        ...


@dataclass(slots=True)
class CopyResult:
    """Counts of packets and comments."""

    packets: int = 0
    commented: int = 0  #: packets that have comments of this check
    removed: int = 0  #: comments of an earlier check that are not in the copy
    left_out: int = 0  #: comments of this check that are not in the copy: their packet has too many
    passed_over: int = 0  #: blocks that were too large to copy


def copy(
    inputs: Sequence[Input | RawStream], comments: Comments, stream: IO[bytes], chunk_bytes: int = COPY_CHUNK_BYTES
) -> CopyResult:
    """Copy captures one after the other into one file; ``stream`` must be seekable."""
    copier = _Copier(comments, stream, chunk_bytes)
    for each in inputs:
        copier.copy(each)
    copier.result.left_out = comments.left_out
    return copier.result


class _Copier:
    """Writes captures one after the other, and counts their packets through."""

    def __init__(self, comments: Comments, stream: IO[bytes], chunk_bytes: int) -> None:
        self.result = CopyResult()
        self._comments = comments
        self._stream = stream
        self._chunk_bytes = chunk_bytes
        self._order = ""  #: byte order of the section that is being written; empty: none has begun
        self._length_at: int | None = None  #: where the section states its length
        self._position = 0  #: byte of the input up to which everything is copied

    def copy(self, each: Input | RawStream) -> None:
        """Copy one capture."""
        self._order, self._length_at, self._position = "", None, 0
        with SoundBlockReader(each, self._copy_blocks, self._chunk_bytes) as reader:
            if reader.is_pcapng:
                for _ in reader:
                    pass  # _copy_blocks gets the blocks
                if reader.position != self._position:
                    self._note_change()
            else:
                self._copy_pcap(reader, reader.header)
        if not self._order:  # an empty input: what is written must be a capture nevertheless
            self._begin_section("<")
        self.result.passed_over += reader.passed_over

    # ------------------------------------------------------------------------------------------------------- pcap

    def _copy_pcap(self, packets: SoundBlockReader, header: FileHeader | None) -> None:
        if header is None:
            return
        self._begin_section("<")
        exponent = len(str(header.ticks_per_second)) - 1
        options = [(RESOLUTION, bytes((exponent,)))]
        if header.check_sequence_bits is not None:
            options.append((CHECK_SEQUENCE_BITS, bytes((header.check_sequence_bits,))))
        self._stream.write(interface(header.linktype, header.snaplen, *options))
        for each in packets:
            self._write_records(each, NANOSECONDS // header.ticks_per_second)

    def _write_records(self, packets: PacketBlock, nanoseconds: int) -> None:
        """Write the packets of a pcap file; a tick of its clock is so many nanoseconds."""
        comments = dict.fromkeys(self._count(len(packets)).tolist())
        first = self.result.packets - len(packets) + 1
        view = packets.buffer.data
        rows = (packets.offset, packets.captured, packets.original, packets.time_ns // nanoseconds)
        for at, (offset, captured, original, ticks) in enumerate(
            zip(*(column.tolist() for column in rows), strict=True)
        ):
            options = self._options(first + at) if at in comments else ()
            self._stream.write(packet_block(0, ticks, view[offset : offset + captured], original, *options))

    # ----------------------------------------------------------------------------------------------------- pcapng

    def _copy_blocks(self, blocks: SoundBlocks) -> None:
        """Copy blocks of a pcapng file."""
        if blocks.position != self._position:
            self._note_change()  # something damaged was left out
        self._position = blocks.position + len(blocks.data)
        if blocks.data[:4] == SECTION_HEADER:
            self._copy_section_header(blocks)
            return
        if blocks.order != self._order:  # the section's header is damaged
            self._begin_section(blocks.order)
        if blocks.packets is None:
            self._stream.write(blocks.data)
        else:
            self._copy_packets(blocks, blocks.packets)

    def _copy_section_header(self, blocks: SoundBlocks) -> None:
        if len(blocks.data) < _SECTION_HEADER_BYTES:  # the reader needs no more than the byte order
            self._begin_section(blocks.order)
            return
        stated = blocks.data[_SECTION_LENGTH_AT : _SECTION_LENGTH_AT + 8] != _UNSPECIFIED
        self._order = blocks.order
        self._length_at = self._stream.tell() + _SECTION_LENGTH_AT if stated else None
        self._stream.write(blocks.data)

    def _copy_packets(self, blocks: SoundBlocks, packets: Packets) -> None:
        """Copy packet blocks and the blocks between them."""
        chosen = np.union1d(self._count(len(packets.start)), _maybe_commented(blocks, packets))
        first = self.result.packets - len(packets.start) + 1
        edits: list[tuple[int, int | None]] = [(int(packets.start[at]), int(at)) for at in chosen]
        edits += [(start, None) for start in packets.refused.tolist()]
        copied = 0
        for start, at in sorted(edits):
            self._stream.write(blocks.data[copied:start])
            (length,) = struct.unpack_from(f"{blocks.order}I", blocks.data, start + 4)
            copied = start + length
            old = blocks.data[start:copied]
            new = b"" if at is None else self._commented(blocks, packets, at, first + at)
            if new != old:
                self._note_change()
            self._stream.write(new)
        self._stream.write(blocks.data[copied:])

    def _commented(self, blocks: SoundBlocks, packets: Packets, at: int, number: int) -> bytes:
        """Return a packet's block with its comments."""
        order, start = blocks.order, int(packets.start[at])
        kind, length = struct.unpack_from(f"{order}II", blocks.data, start)
        old = bytes(blocks.data[start : start + length])
        comments = self._options(number)
        captured = int(packets.columns.captured[at])
        if kind == SIMPLE_PACKET:
            if not comments or packets.clock is None:
                return old
            ticks = packets.clock.ticks(int(packets.columns.time_ns[at]))
            data = old[_SIMPLE_PACKET_AT : _SIMPLE_PACKET_AT + captured]
            return packet_block(0, ticks, data, int(packets.columns.original[at]), *comments, order=order)
        options_at = _PACKET_AT + captured + -captured % 4
        there = list(options_in(old[:-4], options_at, order))
        kept = [option for option in there if not _is_ours(option)]
        self.result.removed += len(there) - len(kept)
        if len(kept) == len(there) and not comments:
            return old
        return block(kind, old[8:options_at] + option_list([*kept, *comments], order), order)

    # ------------------------------------------------------------------------------------------------------- both

    def _begin_section(self, order: str) -> None:
        """Write a section header of our own."""
        self._order, self._length_at = order, None
        self._stream.write(section_header((APPLICATION, b"uprscope check"), order=order))

    def _note_change(self) -> None:
        """Note that the section has changed: a length that it states is no longer true, and becomes unspecified."""
        if self._length_at is not None:
            self._stream.seek(self._length_at)
            self._stream.write(_UNSPECIFIED)
            self._stream.seek(0, os.SEEK_END)
            self._length_at = None

    def _count(self, packets: int) -> Longs:
        """Count the next packets; return which of them get comments."""
        first = self.result.packets + 1
        self.result.packets += packets
        numbers = self._comments.numbers
        low, high = np.searchsorted(numbers, (first, first + packets))
        self.result.commented += int(high - low)
        return numbers[low:high] - first

    def _options(self, number: int) -> list[Option]:
        return [(COMMENT, text) for text in self._comments.of(number)]


def _maybe_commented(blocks: SoundBlocks, packets: Packets) -> Longs:
    """Return the packets whose blocks contain the mark of our comments: only these have to be parsed."""
    found: list[int] = []
    data = bytes(blocks.data)
    at = data.find(_MARK)
    while at >= 0:
        found.append(at)
        at = data.find(_MARK, at + 1)
    places = np.searchsorted(packets.start, np.array(found, np.int64), side="right") - 1
    return np.unique(places[places >= 0])


def _is_ours(option: Option) -> bool:
    """Tell whether an option is a comment of an earlier check, or looks exactly like one."""
    code, value = option
    if code != COMMENT:
        return False
    try:
        return read_comment(value.decode()) is not None
    except UnicodeDecodeError:
        return False
