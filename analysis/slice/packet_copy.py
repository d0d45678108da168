"""Copies of packets: the second of two passes, which reads the captures again and writes the packets of a choice.

Packets stay as they were captured, but for the bytes that :mod:`analysis.slice.packet_owners` found reason to replace:
lengths and sequence numbers stay, and a checksum that was right is right again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dissector.capture import CaptureReader
from dissector.link.checksums import tcp_header_before, with_payload
from dissector.link.columnar import ColumnarDecoder
from dissector.link.drop_counts import Reason
from dissector.link.reference import ReferenceDecoder
from dissector.link.segment_block import SYN
from dissector.pseudonyms.addresses import flow_key_of, with_addresses
from dissector.tcp.connections import packet_ordinal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.slice.packet_choice import PacketChoice
    from analysis.slice.packet_owners import PacketOwners
    from dissector.array_types import Longs, Mask
    from dissector.capture import Input, PacketBlock
    from dissector.link.segment_block import SegmentBlock

_HANDSHAKE = 3  #: packets that a connection begins with
_FOREIGN = "packets of other protocols"
_FRAGMENTS = "fragments of IP"
_OTHER_HEADERS = "packets in tunnels or with headers cut off"


class PacketWriter(Protocol):
    """Takes packets."""

    packets: int

    def write(self, block: PacketBlock, at: int, comment: str = "", data: bytes | None = None) -> None:
        """Write one packet, with ``data`` in place of its bytes if that is given."""


@dataclass(slots=True)
class _ConnectionStart:
    """What has come of a connection."""

    packets: int = 0
    sides: set[int] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Tell whether its first packets have all come."""
        return self.packets >= _HANDSHAKE and len(self.sides) > 1


@dataclass(slots=True)
class CopyCounts:
    """What was not copied as it was."""

    left_out: Counter[str] = field(default_factory=Counter)  #: chosen packets that could not be copied, by the reason
    rewritten: int = 0  #: packets with other bytes
    redacted: bool = False  #: all user data was replaced, and not log-ins alone

    def sentences(self) -> list[str]:
        """Say what was not copied as it was."""
        found = [(count, reason) for reason, count in sorted(self.left_out.items()) if count]
        left_out = ", ".join(f"{count:,} {reason}" for count, reason in found)
        lines = []
        if self.redacted:
            lines.append(f"{self.rewritten:,} packets are redacted{f'; left out: {left_out}' if left_out else ''}")
        elif self.rewritten:
            lines.append(f"{self.rewritten:,} packets with log-ins: these are blanked")
        if left_out and not self.redacted:
            lines.append(f"left out: {left_out}")
        return lines


def copy_packets(
    inputs: Sequence[Input], owners: PacketOwners, choice: PacketChoice, writer: PacketWriter
) -> CopyCounts:
    """Copy the packets of a choice; ``inputs`` in the order in which they are read."""
    return _Copy(owners, choice, writer).run(inputs)


class _Copy:
    """One pass over the captures."""

    def __init__(self, owners: PacketOwners, choice: PacketChoice, writer: PacketWriter) -> None:
        self._owners = owners
        self._choice = choice
        self._writer = writer
        self._counts = CopyCounts(redacted=owners.pseudonyms is not None)
        self._starts: dict[int, _ConnectionStart] = {}  #: by number, of connections that are chosen in part
        self._place = 0
        numbers = {name: number for number, name in enumerate(owners.names)}
        self._spans = {
            numbers[name] * 2 + side: spans for (name, side), spans in choice.spans.items() if name in numbers
        }
        self._partly = np.zeros(len(owners.names) + 1, bool)  #: by number; the last one stands for nobody
        self._partly[[owner // 2 for owner in self._spans]] = True
        self._wholly = np.zeros(len(owners.names) + 1, bool)
        if choice.connections is None:
            self._wholly[:] = True
        else:
            self._wholly[[numbers[name] for name in choice.connections if name in numbers]] = True
        self._foreign = np.zeros(len(owners.names) + 1, bool)
        if owners.pseudonyms is not None:  # what no frame was found in can't be redacted
            self._foreign[:] = ~np.array([*owners.spoken_between(), False])

    def run(self, inputs: Sequence[Input]) -> CopyCounts:
        """Copy what is chosen."""
        self._owners.rewind()
        end = self._choice.end
        decoder = ColumnarDecoder()  # one for all inputs, as in the first pass: fragments may go on in the next file
        for index, each in enumerate(inputs):
            with CaptureReader(each, index) as reader:
                for block in reader:
                    if packet_ordinal(index, block.first_number) > end:
                        return self._counts
                    self._copy(block, decoder.decode(block))
        return self._counts

    def _copy(self, block: PacketBlock, segments: SegmentBlock) -> None:
        owner = self._owners.next(len(segments)).astype(np.int64)
        places = self._place + np.cumsum(segments.payload_captured) - segments.payload_captured
        self._place += int(segments.payload_captured.sum())
        ordinals = segments.number + packet_ordinal(block.capture, 0)
        chosen = self._chosen(owner, ordinals, segments.time_ns)
        notes = self._beginnings(owner, segments, chosen)
        foreign = chosen & self._foreign[owner // 2]
        self._counts.left_out[_FOREIGN] += int(np.count_nonzero(foreign))
        chosen &= ~foreign
        rows = segments.number - block.first_number
        picked: list[tuple[int, int]] = [(int(rows[at]), at) for at in np.flatnonzero(chosen).tolist()]
        if self._choice.others:
            without = np.ones(len(block), bool)
            without[rows] = False
            without &= self._in_time(block.time_ns)
            if self._owners.pseudonyms is not None:
                self._counts.left_out[_FOREIGN] += int(np.count_nonzero(without))
                without[:] = False
            elif self._owners.secrets:  # which may be in pieces of a datagram
                held = [row for row in np.flatnonzero(without).tolist() if _is_fragment(block, row)]
                self._counts.left_out[_FRAGMENTS] += len(held)
                without[held] = False
            picked = sorted([*picked, *((row, -1) for row in np.flatnonzero(without).tolist())])
        for row, at in picked:
            if at < 0:
                self._writer.write(block, row)
                continue
            data = self._packet(block, segments, row, at, int(places[at]))
            if data is not None:
                comment = self._choice.comments.get(int(ordinals[at])) or notes.get(at, "")
                self._writer.write(block, row, comment, data)

    def _in_time(self, time_ns: Longs) -> Mask:
        times = self._choice.times
        return np.ones(len(time_ns), bool) if times is None else (time_ns >= times[0]) & (time_ns <= times[1])

    def _chosen(self, owner: Longs, ordinals: Longs, time_ns: Longs) -> Mask:
        chosen: Mask = self._wholly[owner // 2] & self._in_time(time_ns)
        part = self._partly[owner // 2]
        if part.any():
            for number in np.unique(owner[part]).tolist():
                spans = self._spans.get(number)
                if spans is not None:
                    rows = np.flatnonzero(owner == number)
                    chosen[rows] |= spans.hold(ordinals[rows])
        return chosen

    def _beginnings(self, owner: Longs, segments: SegmentBlock, chosen: Mask) -> dict[int, str]:
        """Choose the first packets of connections that are chosen in part; return comments on them."""
        notes: dict[int, str] = {}
        for at in np.flatnonzero(self._partly[owner // 2]).tolist():
            number, side = divmod(int(owner[at]), 2)
            start = self._starts.setdefault(number, _ConnectionStart())
            if start.complete:
                continue
            start.packets += 1
            if start.packets <= _HANDSHAKE or side not in start.sides:
                chosen[at] = True
                notes[at] = "handshake" if segments.flags[at] & SYN else "the connection begins"
            start.sides.add(side)
        return notes

    def _packet(self, block: PacketBlock, segments: SegmentBlock, row: int, at: int, place: int) -> bytes | None:
        """Return a packet as it is to be written; None if that can't be done."""
        packet = block.packet(row)
        before = segments.payload(at)
        after = self._owners.payload(place, before)
        start = int(segments.payload_offset[at] - block.offset[row])
        pseudonyms = self._owners.pseudonyms
        reassembled = bool(segments.payload_offset[at] >= len(block.buffer))
        if pseudonyms is None and after == before and not (reassembled and self._owners.secrets):
            return packet
        if reassembled:
            self._counts.left_out[_FRAGMENTS] += 1
            return None
        self._counts.rewritten += 1
        key = segments.keys[segments.flow[at]]
        whole = bool(segments.payload_captured[at] == segments.payload_length[at])
        if pseudonyms is not None:  # padding, and what a network card appends
            packet = packet[: start + len(after)].ljust(len(packet), b"\0")
        if pseudonyms is None or not pseudonyms.addresses:
            return with_payload(packet, key, start, after, whole=whole)
        header = tcp_header_before(packet, key, start)
        linktype = int(block.linktype[row])
        made = with_addresses(pseudonyms, packet, linktype, key, header) if header is not None else None
        if made is None:
            self._counts.left_out[_OTHER_HEADERS] += 1
            return None
        # The checksum is judged by the old addresses, which it does not cover elsewhere.
        return with_payload(made, key, start, after, whole=whole, renamed=flow_key_of(pseudonyms, key))


def _is_fragment(block: PacketBlock, row: int) -> bool:
    """Tell whether a packet without a segment is a part of a datagram that may have had one."""
    decoder = ReferenceDecoder()
    decoder.segment(block.packet(row), int(block.linktype[row]), int(block.original[row]), int(block.time_ns[row]))
    return bool(decoder.counts.dropped[Reason.FRAGMENT_HELD])
