"""Which packets a finding needs: those that prove it, those that set the connection up, and more if needed.

A rule is undecided where bytes are missing before the guilty frame. How much of a connection has to be kept differs by
rule, so there are several choices for the slicer to try, the smallest first. Knows frames and where they are; must not
know rules, nor how packets are copied.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.context import kinds
from analysis.slice import frame_packets
from analysis.slice.frame_packets import FramePackets
from analysis.slice.packet_choice import NO_LAST, PacketChoice, Side, Spans
from dissector.frames.reader import FrameReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from analysis.check.findings import Finding
    from dissector.array_types import Longs
    from dissector.capture import Input
    from dissector.options import ReadOptions


#: Messages without which the rest of a connection can't be read.
STREAM = (kinds.STREAM_REQUEST, kinds.ADD_STREAM)
SET_UP = np.array((kinds.HELLO, kinds.OPEN, kinds.CONTROL, *STREAM))
_COLUMNS = frame_packets.COLUMNS | {"frame", "opcode", "response", "vbucket", "opaque"}
BEFORE, AFTER = 12, 4  #: frames around the guilty one: the framing accepts a broken header only among sound ones


class PacketRange(NamedTuple):
    """Packets from one ordinal to another, of one direction or of all connections of the finding."""

    first: int
    last: int
    side: Side | None = None


_NOWHERE = PacketRange(0, 0)


class NeededFrame(NamedTuple):
    """A frame to keep, and its packets."""

    frame: int
    packets: PacketRange  #: from a packet in which a frame begins
    comment: str
    role: str = ""  #: empty: set-up


class NeededRanges(NamedTuple):
    """A set of packets, and a description of it."""

    what: str
    ranges: tuple[PacketRange, ...]


@dataclass(slots=True)
class PacketsNeeded:
    """The frames and connections that a finding needs."""

    connections: set[str]
    frames: list[NeededFrame] = field(default_factory=list)
    around: PacketRange = field(default=_NOWHERE)  #: some frames before the guilty one, and a few after it

    def comments(self) -> dict[int, str]:
        """Return the comments of packets; that of the guilty frame goes before others."""
        found: dict[int, str] = {}
        for needed in sorted(self.frames, key=lambda each: (each.role != "guilty", not each.role)):
            found.setdefault(needed.packets.last, needed.comment)
        return found

    def choices(self) -> Iterator[NeededRanges]:
        """Give out sets of packets, the smallest first."""
        small = tuple(needed.packets for needed in self.frames)
        yield NeededRanges("only the frames that prove it, and the set-up", small)
        guilty = next(needed for needed in self.frames if needed.role == "guilty")
        evidence = [needed for needed in self.frames if needed.role and needed is not guilty]
        yield NeededRanges(
            "the frames that prove it, those around the guilty one, and the set-up", (*small, self.around)
        )
        reached = (self.around.first, self.around.last)
        for needed in sorted(evidence, key=lambda each: abs(each.packets.first - guilty.packets.first)):
            reached = (min(reached[0], needed.packets.first), max(reached[1], needed.packets.last))
            names = sorted((needed.frame, guilty.frame))
            what = f"everything on the connection from frame {names[0]} to frame {names[1]}, and the set-up"
            yield NeededRanges(what, (*small, PacketRange(*reached)))
        yield NeededRanges("everything on the connection up to the guilty frame", (*small, PacketRange(0, reached[1])))
        yield NeededRanges("the whole connection", (PacketRange(0, NO_LAST),))

    def choice(self, needed: NeededRanges) -> PacketChoice:
        """Return one of the choices by connection and direction, with comments."""
        spans: dict[Side, list[Spans]] = {}
        everywhere = [(name, direction) for name in self.connections for direction in (0, 1)]
        for first, last, side in needed.ranges:
            for each in [side] if side is not None else everywhere:
                spans.setdefault(each, []).append(Spans(np.array([first]), np.array([last])))
        ranges = {side: Spans.joined(found) for side, found in spans.items()}
        return PacketChoice(needed.what, ranges, comments=self.comments())


def packets_needed(inputs: Sequence[Input], options: ReadOptions, finding: Finding) -> PacketsNeeded:
    """Read captures for what a finding needs; ``inputs`` in the order in which they are read."""
    needs = PacketsNeeded({finding.connection})
    while True:
        reader = _NeededFrameReader(needs, finding, FramePackets(inputs))
        for batch in FrameReader(inputs, dataclasses.replace(options, columns=_COLUMNS, pseudonyms=None)):
            if reader.read(batch):
                break
        if reader.others <= needs.connections:
            return needs
        needs = PacketsNeeded(needs.connections | reader.others)


class _NeededFrameReader:
    """Finds the frames of a finding, and the set-up of their connections."""

    def __init__(self, needs: PacketsNeeded, finding: Finding, packets: FramePackets) -> None:
        self.others: set[str] = set()  #: connections of evidence
        self._needs = needs
        self._finding = finding
        self._packets = packets
        self._roles = {frame.frame: frame.role for frame in reversed(finding.frames)}
        self._last = max(self._roles)
        self._request_opaques: set[int] = set()  #: opaques of stream requests for the vbucket
        self._recent: Longs = np.empty(0, np.int64)  #: first packets of the last frames before the batch

    def read(self, batch: pa.RecordBatch) -> bool:
        """Read a batch; tell whether that was all."""
        frame = batch.column("frame").to_numpy()
        proving = np.isin(frame, [*self._roles])
        self.others |= set(batch.column("connection").take(pa.array(np.flatnonzero(proving))).to_pylist())
        names = pa.array(sorted(self._needs.connections))
        mine = pc.is_in(batch.column("connection"), names).to_numpy(zero_copy_only=False)
        if mine.any():
            chosen = np.flatnonzero(mine)
            self._note_rows(batch.take(pa.array(chosen)), frame[chosen], proving[chosen])
        return bool(len(frame)) and int(frame[-1]) >= self._last

    def _note_rows(self, batch: pa.RecordBatch, frame: Longs, proving: NDArray[np.bool_]) -> None:
        first, last = self._packets.first(batch), self._packets.last(batch)
        chosen_rows = np.flatnonzero(proving | (self._set_up(batch) & (frame <= self._last)))
        begins = self._packets.begins(batch, first, last)
        self._around(batch, frame, np.r_[self._recent, begins], last)
        for at, row in zip(chosen_rows.tolist(), batch.take(pa.array(chosen_rows)).to_pylist(), strict=True):
            packets = PacketRange(int(begins[at]), int(last[at]), (row["connection"], row["direction"]))
            self._needs.frames.append(
                NeededFrame(row["frame"], packets, self._comment(row), self._roles.get(row["frame"], ""))
            )

    def _around(self, batch: pa.RecordBatch, frame: Longs, begins: Longs, last: Longs) -> None:
        """Note the frames around the guilty one; ``begins`` starts with frames before the batch."""
        mine = pc.equal(batch.column("connection"), self._finding.connection).to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(mine & (frame == self._finding.guilty.frame)).tolist():
            there = at + len(self._recent)
            first = int(begins[max(there - BEFORE, 0) : there + 1].min())
            self._needs.around = PacketRange(first, int(last[at : at + 1 + AFTER].max()))
        self._recent = begins[-BEFORE:]

    def _set_up(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Tell which rows are set-up that matters: of stream requests those for the vbucket, and their responses."""
        opcode, opaque = batch.column("opcode").to_numpy(), batch.column("opaque").to_numpy()
        response = batch.column("response").to_numpy(zero_copy_only=False)
        chosen: NDArray[np.bool_] = np.isin(opcode, SET_UP)
        if self._finding.vbucket is None:
            return chosen
        stream = np.isin(opcode, STREAM)
        vbucket = batch.column("vbucket").fill_null(-1).to_numpy()
        asked = stream & ~response & (vbucket == self._finding.vbucket)
        self._request_opaques |= set(opaque[asked].tolist())
        chosen &= ~stream | asked | (response & np.isin(opaque, [*self._request_opaques]))
        return chosen

    def _comment(self, row: dict[str, Any]) -> str:
        finding, role = self._finding, self._roles.get(row["frame"])
        if role == "guilty":
            return f"{finding.id}: {finding.title}, but {finding.sentence} (frame {row['frame']})"
        return f"{finding.id}: {role.replace('_', ' ')} (frame {row['frame']})" if role else "set-up"
