"""A small capture that shows a finding: packets cut out, and checked again until they show it by themselves.

The packets are as they were captured, so the connection keeps its id, frames keep their offsets, and the finding its
name. Knows captures and packets; which of them matter is told by :mod:`analysis.slice.packets_needed`.
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


@dataclass(frozen=True, slots=True)
class SliceResult:
    """What became of it."""

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
        made = SliceResult(0, "", shown=False)
        for choice in needs.choices():
            if choice.runs in tried:
                continue
            tried.add(choice.runs)
            comment = f"{finding.id}: {finding.title}, but {finding.sentence}. Kept: {choice.what}."
            with trial.open("wb") as output:
                writer = PcapngWriter(output, comment)
                copy(inputs, needs, choice, writer)
            made = SliceResult(writer.packets, choice.what, _shows(trial, options, finding, rule))
            if made.shown:
                break
        with trial.open("rb") as source:
            shutil.copyfileobj(source, stream)
    return made


def _shows(path: Path, options: ReadOptions, finding: Finding, rule: Rule) -> bool:
    selection = Selection(only=frozenset((finding.id,)))
    return bool(inspect([Input(path.name, path)], (rule,), options, selection=selection).findings)


def copy(inputs: Sequence[Input], needs: PacketsNeeded, choice: PacketChoice, writer: PcapngWriter) -> None:
    """Copy the packets of a choice; ``inputs`` in the order in which they are read."""
    chooser = _Chooser(needs, choice)
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


class _Chooser:
    """Picks packets of block after block."""

    def __init__(self, needs: PacketsNeeded, choice: PacketChoice) -> None:
        self._needs = needs
        self._runs = choice.runs
        self._comments = needs.comments()
        self.end = max(run.last for run in choice.runs)
        self._proven = max(proof.run.last for proof in needs.proofs)
        self._begun: dict[bytes, _Beginning] = {}
        self._wanted: dict[bytes, bool] = {}

    def chosen(self, block: PacketBlock, index: int, decoder: ColumnarDecoder) -> Iterator[tuple[int, str]]:
        """Give out the packets of a block to keep, each with its comment."""
        segments = decoder.decode(block)
        wanted = np.array([self._asked(key) for key in segments.keys], bool)
        if not wanted.any():
            return
        rows = np.flatnonzero(wanted[segments.flow])
        places = segments.number[rows] + packet_ordinal(index, 0)
        flows = segments.flow[rows]
        kept = np.zeros(len(rows), bool)
        for run in self._runs:
            inside = (places >= run.first) & (places <= run.last)
            if run.ends is not None and inside.any():
                inside &= np.array([_ends(key) == run.ends for key in segments.keys], bool)[flows]
            kept |= inside
        beginnings = [self._beginning(key) if self._asked(key) else None for key in segments.keys]
        unsettled = np.array([each is not None and not each.settled for each in beginnings], bool)
        notes: dict[int, str] = {}
        for at in np.flatnonzero(kept | unsettled[flows] | (segments.flags[rows] & SYN != 0)).tolist():
            row, beginning = rows[at], beginnings[flows[at]]
            flags, time_ns, where = int(segments.flags[row]), int(segments.time_ns[row]), int(places[at])
            if beginning is None or not beginning.inside(segments.keys[flows[at]], flags, time_ns, where):
                continue
            if kept[at] or beginning.first:
                notes[int(segments.number[row]) - block.first_number] = self._comments.get(where, beginning.comment)
        yield from sorted(notes.items())

    def _asked(self, key: bytes) -> bool:
        found = self._wanted.get(key)
        if found is None:
            found = self._wanted[key] = _ends(key) in self._needs.flows
        return found

    def _beginning(self, key: bytes) -> _Beginning:
        return self._begun.setdefault(min(key, reverse_key(key)), _Beginning(self._needs.connections, self._proven))


class _Beginning:
    """Finds out where a connection begins and ends: the same ports may have been used before and behind it."""

    def __init__(self, connections: set[str], proven: int) -> None:
        self._connections = connections
        self._proven = proven  #: the finding's last packet: up to here it is the connection
        self._seen = 0
        self._sides: set[bytes] = set()
        self._over = False
        self.first = False  #: whether the packet is one that the connection begins with
        self.comment = ""

    @property
    def settled(self) -> bool:
        """Tell whether the beginning is complete."""
        return self._seen >= _HANDSHAKE and len(self._sides) > 1

    def inside(self, key: bytes, flags: int, time_ns: int, where: int) -> bool:
        """Take note of a packet; tell whether it belongs to the connection."""
        if not self._seen and connection_id(key, time_ns) not in self._connections:
            return False
        if flags & (SYN | ACK) == SYN and where > self._proven:
            self._over = True
        self._seen += 1
        self.first = self._seen <= _HANDSHAKE or key not in self._sides
        self.comment = "handshake" if flags & SYN else "the connection begins" if self.first else ""
        self._sides.add(key)
        return not self._over


def _ends(key: bytes) -> tuple[str, int, str, int]:
    flow = flow_of(key)
    return flow.source, flow.source_port, flow.destination, flow.destination_port
