"""TCP segments of one packet block, as columns.

The result of both decoders. Knows which columns there are and how single segments become columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.array_types import Bytes, Ints, Longs, Words
    from dissector.capture.packet_block import PacketBlock

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))


@dataclass(frozen=True, slots=True, eq=False)
class SegmentBlock:
    """The TCP segments of a packet block in capture order; all arrays have one entry per segment.

    ``buffer`` is the packet block's own, unless a payload came out of reassembled IP fragments: then it is a copy with
    those payloads appended. ``payload_length`` is what the IP header says was on the wire; more than
    ``payload_captured`` means the capture's snap length cut the segment, and the missing bytes are its last ones.
    """

    capture: int
    buffer: Bytes
    number: Longs
    """1-based packet number; of a reassembled datagram, that of the fragment that completed it."""
    time_ns: Longs
    keys: tuple[bytes, ...]
    """The distinct directed flow keys (see ``flows``) of this block, in order of first appearance."""
    flow: Ints
    """Index into ``keys``."""
    seq: Words
    ack: Words
    flags: Bytes
    payload_offset: Longs
    payload_captured: Longs
    payload_length: Longs

    def __len__(self) -> int:
        return len(self.number)

    def payload(self, index: int) -> bytes:
        """Return the captured payload of one segment."""
        start = int(self.payload_offset[index])
        return self.buffer[start : start + int(self.payload_captured[index])].tobytes()


@dataclass(frozen=True, slots=True)
class PacketSegment:
    """One TCP segment, found in one packet or in a reassembled datagram."""

    key: bytes
    seq: int
    ack: int
    flags: int
    payload_start: int
    """Counted from the start of the packet, or of ``datagram`` where that is set."""
    payload_captured: int
    payload_length: int
    datagram: bytes | None = None
    """The reassembled IP payload that holds the segment; None when it is in the packet itself."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentColumns:
    """Segments of some packets of a block: ``index`` says which packet, ``keys`` are this part's own."""

    index: Longs
    keys: list[bytes]
    flow: Ints
    seq: Words
    ack: Words
    flags: Bytes
    payload_offset: Longs
    payload_captured: Longs
    payload_length: Longs


def columns_of(
    block: PacketBlock, buffer: Bytes, found: Sequence[tuple[int, PacketSegment]]
) -> tuple[Bytes, SegmentColumns]:
    """Turn single segments, each with its packet's index, into columns; return the buffer, longer if it has to be."""
    flows: dict[bytes, int] = {}
    appended: list[Bytes] = []
    end = len(buffer)
    rows: list[tuple[int, int, int, int, int, int, int, int]] = []
    for index, segment in found:
        flow = flows.setdefault(segment.key, len(flows))
        start = int(block.offset[index]) + segment.payload_start
        if segment.datagram is not None:
            held = segment.datagram[segment.payload_start : segment.payload_start + segment.payload_captured]
            appended.append(np.frombuffer(held, np.uint8))
            start, end = end, end + len(held)
        measures = (start, segment.payload_captured, segment.payload_length)
        rows.append((index, flow, segment.seq, segment.ack, segment.flags, *measures))
    if appended:
        buffer = np.concatenate([buffer, *appended])
    table = np.array(rows, np.int64).reshape(len(rows), 8).T
    return buffer, SegmentColumns(
        index=table[0],
        keys=list(flows),
        flow=table[1].astype(np.int32),
        seq=table[2].astype(np.uint32),
        ack=table[3].astype(np.uint32),
        flags=table[4].astype(np.uint8),
        payload_offset=table[5],
        payload_captured=table[6],
        payload_length=table[7],
    )


def _renumbered(keys: Sequence[bytes], flow: Ints) -> tuple[tuple[bytes, ...], Ints]:
    """Number flows by first appearance, each key once: parts may share keys and come in any order."""
    used, first = np.unique(flow, return_index=True)
    final: dict[bytes, int] = {}
    number = np.zeros(len(keys), np.int32)
    for old in used[np.argsort(first)].tolist():
        number[old] = final.setdefault(keys[old], len(final))
    return tuple(final), number[flow]


def block_of(block: PacketBlock, buffer: Bytes, parts: Sequence[SegmentColumns]) -> SegmentBlock:
    """Merge the parts found in one packet block, in capture order."""
    full = [part for part in parts if len(part.index)] or list(parts[:1])
    if len(full) == 1:
        # One part is already in order: nothing to copy in the usual case.
        merged, keys, flow = full[0], tuple(full[0].keys), full[0].flow
    else:
        merged = _concatenated(full)
        keys, flow = _renumbered(merged.keys, merged.flow)
    return SegmentBlock(
        capture=block.capture,
        buffer=buffer,
        number=merged.index + block.first_number,
        time_ns=block.time_ns[merged.index],
        keys=keys,
        flow=flow,
        seq=merged.seq,
        ack=merged.ack,
        flags=merged.flags,
        payload_offset=merged.payload_offset,
        payload_captured=merged.payload_captured,
        payload_length=merged.payload_length,
    )


def _concatenated(parts: Sequence[SegmentColumns]) -> SegmentColumns:
    """Put parts together in packet order; their flow numbers move up by the keys before them."""
    index = np.concatenate([part.index for part in parts])
    order = np.argsort(index)  # a packet gives one segment at most: no ties
    keys: list[bytes] = []
    flows: list[Ints] = []
    for part in parts:
        flows.append(part.flow + np.int32(len(keys)))
        keys.extend(part.keys)
    return SegmentColumns(
        index=index[order],
        keys=keys,
        flow=np.concatenate(flows)[order],
        seq=np.concatenate([part.seq for part in parts])[order],
        ack=np.concatenate([part.ack for part in parts])[order],
        flags=np.concatenate([part.flags for part in parts])[order],
        payload_offset=np.concatenate([part.payload_offset for part in parts])[order],
        payload_captured=np.concatenate([part.payload_captured for part in parts])[order],
        payload_length=np.concatenate([part.payload_length for part in parts])[order],
    )
