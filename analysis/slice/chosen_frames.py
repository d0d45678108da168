"""The packets of chosen frames, and the set-up without which they can't be read.

Frames are noted batch after batch, all of them, with those that are chosen. Knows frames and where they are; who
chooses them, and how packets are copied, is no matter here.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pyarrow.compute import equal, list_value_length

from analysis.slice import frame_packets
from analysis.slice.frame_packets import FramePackets, sides_of
from analysis.slice.packet_choice import PacketChoice, Spans
from analysis.slice.packets_needed import AFTER, BEFORE, SET_UP, STREAM
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from analysis.slice.packet_choice import Side
    from dissector.array_types import Longs, Mask
    from dissector.capture import Input

#: What a batch needs to be noted.
COLUMNS = frame_packets.COLUMNS | {"opcode", "response", "vbucket", "opaque", "defects", "dialect"}
_MOST_SET_UP = 1 << 20  #: messages of the set-up that are remembered
_SET_UP_COLUMNS = 6


@dataclass(slots=True)
class _ChosenSide:
    """One direction: the ranges of packets with chosen frames, and the last rows of the batch before."""

    first: array[int] = field(default_factory=lambda: array("q"))
    last: array[int] = field(default_factory=lambda: array("q"))
    recent: Longs = field(default_factory=lambda: np.empty((0, 4), np.int64))


@dataclass(slots=True)
class _SetUp:
    """The set-up of one connection so far."""

    rows: array[int] = field(default_factory=lambda: array("q"))  #: first, last, direction, vbucket, opaque, response
    vbuckets: set[int] = field(default_factory=set)  #: of chosen frames
    last: int = -1  #: the last packet with a chosen frame


class ChosenFrames:
    """Frames that are to be copied. Give every batch of a run to :meth:`note`, in order, then ask for the choice."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.count = 0
        self._packets = FramePackets(inputs)
        self._sides: dict[Side, _ChosenSide] = {}
        self._set_up: dict[str, _SetUp] = {}
        self._messages = 0  #: of all set-ups

    def note(self, batch: pa.RecordBatch, indexes: Longs) -> None:
        """Note a batch, and which of its rows are chosen."""
        self.count += len(indexes)
        chosen = np.zeros(batch.num_rows, bool)
        chosen[indexes] = True
        first, last = self._packets.first(batch), self._packets.last(batch)
        begins = self._packets.begins(batch, first, last)
        in_doubt = list_value_length(batch.column("defects")).to_numpy() > 0
        in_doubt |= equal(batch.column("dialect"), Dialect.DRAFT.value).to_numpy(zero_copy_only=False)
        table = np.stack((begins, last, chosen, in_doubt), axis=1).astype(np.int64)
        side, names = sides_of(batch)
        for code in np.unique(side).tolist():
            self._note_side((names[code // 2], code % 2), table[side == code])
        self._note_set_up(batch, chosen, begins, last)

    def choice(self, what: str) -> PacketChoice:
        """Return the packets of what was chosen."""
        ranges: dict[Side, list[Spans]] = {}
        for side, found in self._sides.items():
            if found.first:
                ranges.setdefault(side, []).append(Spans(np.array(found.first), np.array(found.last)))
        for name, set_up in self._set_up.items():
            if set_up.last >= 0:
                for direction, spans in _needed(set_up):
                    ranges.setdefault((name, direction), []).append(spans)
        return PacketChoice(what, {side: Spans.joined(found) for side, found in ranges.items()})

    def _note_side(self, side: Side, rows: Longs) -> None:
        """Note rows of one direction: where to begin, the last packet, whether they are chosen, and in doubt."""
        state = self._sides.setdefault(side, _ChosenSide())
        rows = np.concatenate((state.recent, rows))
        state.recent = rows[-BEFORE:]
        begins, last, chosen = rows[:, 0], rows[:, 1], rows[:, 2].astype(bool)
        for at in np.flatnonzero(chosen & (rows[:, 3] > 0)).tolist():
            chosen[max(at - BEFORE, 0) : at + 1 + AFTER] = True
        edges = np.flatnonzero(np.diff(np.r_[False, chosen, False].astype(np.int8)))
        for start, end in edges.reshape(-1, 2).tolist():
            state.first.append(int(begins[start:end].min()))
            state.last.append(int(last[start:end].max()))

    def _note_set_up(self, batch: pa.RecordBatch, chosen: Mask, begins: Longs, last: Longs) -> None:
        names = batch.column("connection")
        opcode, direction = batch.column("opcode").to_numpy(), batch.column("direction").to_numpy()
        vbucket = batch.column("vbucket").fill_null(-1).to_numpy()
        opaque = batch.column("opaque").to_numpy()
        response = batch.column("response").to_numpy(zero_copy_only=False)
        of_stream = np.isin(opcode, STREAM)
        for at in np.flatnonzero(np.isin(opcode, SET_UP)).tolist():
            if self._messages >= _MOST_SET_UP:
                break
            self._messages += 1
            number = int(vbucket[at]) if of_stream[at] else -2
            row = (int(begins[at]), int(last[at]), int(direction[at]), number, int(opaque[at]), int(response[at]))
            self._set_up.setdefault(names[at].as_py(), _SetUp()).rows.extend(row)
        side, ids = sides_of(batch)
        for code in np.unique(side[chosen] // 2).tolist():
            rows = np.flatnonzero(chosen & (side // 2 == code))
            state = self._set_up.setdefault(ids[code], _SetUp())
            state.last = max(state.last, int(last[rows].max()))
            state.vbuckets.update(np.unique(vbucket[rows]).tolist())


def _needed(set_up: _SetUp) -> list[tuple[int, Spans]]:
    """Return the ranges of a set-up by direction: of stream requests those for chosen vbuckets, and their answers."""
    table = np.array(set_up.rows, np.int64).reshape(-1, _SET_UP_COLUMNS)
    table = table[table[:, 0] <= set_up.last]
    vbucket, opaque, response = table[:, 3], table[:, 4], table[:, 5].astype(bool)
    of_stream = vbucket != -2
    asked = of_stream & ~response & np.isin(vbucket, [*set_up.vbuckets])
    wanted = ~of_stream | asked | (of_stream & response & np.isin(opaque, opaque[asked]))
    table = table[wanted]
    return [(side, Spans(rows[:, 0], rows[:, 1])) for side in (0, 1) if len(rows := table[table[:, 2] == side])]
