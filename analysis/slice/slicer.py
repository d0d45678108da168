"""A small capture that shows a finding: packets are copied and checked again until they show it by themselves.

The packets are as they were captured, so the connection keeps its id, frames keep their offsets, and the finding its
name. Knows captures and packets; :mod:`analysis.slice.packets_needed` says which of them are needed.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from analysis.check.inspection import inspect
from analysis.check.selection import Selection
from dissector.capture import CaptureReader, Input
from dissector.capture.pcapng_writer import PcapngWriter
from dissector.link.columnar import ColumnarDecoder
from dissector.link.flow_key import flow_of, reverse_key
from dissector.link.segment_block import ACK, SYN
from dissector.tcp.connections import connection_id, packet_ordinal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.check.findings import Finding
    from analysis.rules import Rule
    from analysis.slice.packets_needed import PacketChoice, PacketsNeeded
    from dissector.capture import PacketBlock
    from dissector.options import ReadOptions

_HANDSHAKE = 3  #: packets that a connection begins with
_MOST_ALIKE = 4  #: connections with the same ends and the same time that are told apart


@dataclass(frozen=True, slots=True)
class SliceResult:
    """What a slice has in it."""

    packets: int
    what: str  #: which packets these are
    shown: bool  #: whether a check of them finds the finding again


def write_slice(
    inputs: Sequence[Input], options: ReadOptions, finding: Finding, rule: Rule, needs: PacketsNeeded, stream: IO[bytes]
) -> SliceResult:
    """Write the smallest set of packets in which the rule shows the finding; if none does, the largest."""
    with tempfile.TemporaryDirectory(prefix="uprscope-") as folder:
        trial = Path(folder, "slice.pcapng")
        tried: set[tuple[object, ...]] = set()
        result = SliceResult(0, "", shown=False)
        for choice in needs.choices():
            if choice.ranges in tried:
                continue
            tried.add(choice.ranges)
            comment = f"{finding.id}: {finding.title}, but {finding.sentence}. Kept: {choice.what}."
            with trial.open("wb") as output:
                writer = PcapngWriter(output, comment)
                copy(inputs, needs, choice, writer)
            result = SliceResult(writer.packets, choice.what, _shows(trial, options, finding, rule))
            if result.shown:
                break
        with trial.open("rb") as source:
            shutil.copyfileobj(source, stream)
    return result


def _shows(path: Path, options: ReadOptions, finding: Finding, rule: Rule) -> bool:
    selection = Selection(only=frozenset((finding.id,)))
    return bool(inspect([Input(path.name, path)], (rule,), options, selection=selection).findings)


def copy(inputs: Sequence[Input], needs: PacketsNeeded, choice: PacketChoice, writer: PcapngWriter) -> None:
    """Copy the packets of a choice; ``inputs`` in the order in which they are read."""
    chooser = _PacketChooser(needs, choice)
    for index, each in enumerate(inputs):
        if packet_ordinal(index, 0) > chooser.end:
            return
        decoder = ColumnarDecoder()
        with CaptureReader(each, index) as reader:
            for block in reader:
                if packet_ordinal(index, block.first_number) > chooser.end:
                    return
                for at, comment in chooser.chosen(block, index, decoder):
                    writer.write(block, at, comment)


class _PacketChooser:
    """Chooses packets, block after block."""

    def __init__(self, needs: PacketsNeeded, choice: PacketChoice) -> None:
        self._needs = needs
        self._ranges = choice.ranges
        self._comments = needs.comments()
        self.end = max(packets.last for packets in choice.ranges)
        self._last_proof = max(frame.packets.last for frame in needs.frames)
        self._beginnings: dict[bytes, _Beginning] = {}
        self._flows: dict[bytes, bool] = {}

    def chosen(self, block: PacketBlock, index: int, decoder: ColumnarDecoder) -> Iterator[tuple[int, str]]:
        """Give out the packets of a block to keep, each with its comment."""
        segments = decoder.decode(block)
        of_finding = np.array([self._is_of_finding(key) for key in segments.keys], bool)
        if not of_finding.any():
            return
        rows = np.flatnonzero(of_finding[segments.flow])
        ordinals = segments.number[rows] + packet_ordinal(index, 0)
        flows = segments.flow[rows]
        kept = np.zeros(len(rows), bool)
        for packets in self._ranges:
            inside = (ordinals >= packets.first) & (ordinals <= packets.last)
            if packets.endpoints is not None and inside.any():
                inside &= np.array([_endpoints(key) == packets.endpoints for key in segments.keys], bool)[flows]
            kept |= inside
        beginnings = [self._beginning(key) if self._is_of_finding(key) else None for key in segments.keys]
        incomplete = np.array([each is not None and not each.complete for each in beginnings], bool)
        notes: dict[int, str] = {}
        for at in np.flatnonzero(kept | incomplete[flows] | (segments.flags[rows] & SYN != 0)).tolist():
            row, beginning = rows[at], beginnings[flows[at]]
            flags, time_ns, ordinal = int(segments.flags[row]), int(segments.time_ns[row]), int(ordinals[at])
            if beginning is None or not beginning.inside(segments.keys[flows[at]], flags, time_ns, ordinal):
                continue
            if kept[at] or beginning.first:
                notes[int(segments.number[row]) - block.first_number] = self._comments.get(ordinal, beginning.comment)
        yield from sorted(notes.items())

    def _is_of_finding(self, key: bytes) -> bool:
        found = self._flows.get(key)
        if found is None:
            found = self._flows[key] = _endpoints(key) in self._needs.flows
        return found

    def _beginning(self, key: bytes) -> _Beginning:
        return self._beginnings.setdefault(
            min(key, reverse_key(key)), _Beginning(self._needs.connections, self._last_proof)
        )


class _Beginning:
    """Finds where a connection begins and ends: others may have used the same ports before and after it."""

    def __init__(self, connections: set[str], last_proof: int) -> None:
        self._connections = connections
        self._last_proof = last_proof  #: the finding's last packet: up to here no other connection begins
        self._seen = 0
        self._sides: set[bytes] = set()
        self._over = False
        self.first = False  #: whether the packet is one that the connection begins with
        self.comment = ""

    @property
    def complete(self) -> bool:
        """Tell whether the connection's first packets have all come."""
        return self._seen >= _HANDSHAKE and len(self._sides) > 1

    def inside(self, key: bytes, flags: int, time_ns: int, ordinal: int) -> bool:
        """Note a packet; tell whether it belongs to the connection."""
        if not self._seen and not self._begins(key, time_ns):
            return False
        if flags & (SYN | ACK) == SYN and ordinal > self._last_proof:
            self._over = True
        self._seen += 1
        self.first = self._seen <= _HANDSHAKE or key not in self._sides
        self.comment = "handshake" if flags & SYN else "the connection begins" if self.first else ""
        self._sides.add(key)
        return not self._over

    def _begins(self, key: bytes, time_ns: int) -> bool:
        """Tell whether a packet begins the connection, or one before it that is alike: its id depends on those."""
        return any(connection_id(key, time_ns, alike) in self._connections for alike in range(_MOST_ALIKE))


def _endpoints(key: bytes) -> tuple[str, int, str, int]:
    flow = flow_of(key)
    return flow.source, flow.source_port, flow.destination, flow.destination_port
