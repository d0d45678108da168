"""Which bytes the capture lost, as each direction's offsets tell it: the one place that reads gaps.

A loss lies between two frames of a direction. Bytes that are missing inside of a frame are no loss: its header tells
how long it is, so no other message can have been there.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.arrow import lengths
from dissector.spec.registry import HEADER_SIZE

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs, Mask


class Losses(NamedTuple):
    """The losses of a batch, one for each frame that has one before it."""

    rows: Longs  #: the frame after the loss, as a row of the batch
    begin: Longs  #: offset of the first byte that is not known
    end: Longs  #: offset of the frame after it


class Doubt(IntFlag):
    """What of a connection may leave a case undecided."""

    MISSING = 1  #: bytes are not in the capture, or one direction is not
    UNREAD = 2  #: bytes are no frame although nothing is missing before them, or a whole frame has a defect
    LATE = 4  #: the beginning was not captured


_DOUBTS = Doubt.MISSING | Doubt.UNREAD | Doubt.LATE
#: Bits of sides: it sent a frame, and it acknowledged bytes of the other one.
_SEEN, _HEARD = 8, 32


class ConnectionDoubts:
    """By connection, everything of this kind that it has. Complete after the last frame."""

    def __init__(self) -> None:
        self._found = np.zeros(0, np.int64)

    def fold(self, frames: ContextBatch) -> None:
        """Take a batch."""
        room = int(frames.connection.max()) + 1 - len(self._found)
        if room > 0:
            self._found = np.concatenate((self._found, np.zeros(max(room, len(self._found)), np.int64)))
        gap, cut = frames.numbers("gap") > 0, frames.numbers("missing") > 0
        late = frames.numbers("from_start") == 0
        skipped = frames.numbers("skipped")
        unread = skipped > 0
        if unread.any():  # after a gap, or where the capture begins, there is no telling where a frame starts
            unread &= ~gap & ~(late & (frames.numbers("start_offset") == skipped))
        unread |= (lengths(frames.batch.column("defects")) > 0) & ~cut
        alone = frames.numbers("acked_offset") > 0
        for doubt, rows in ((Doubt.MISSING, gap | cut), (Doubt.UNREAD, unread), (Doubt.LATE, late)):
            if rows.any():
                self._note(frames.connection[rows], doubt)
        for side in (0, 1):
            self._note(frames.connection[frames.side == side], _SEEN << side)
            self._note(frames.connection[alone & (frames.side == side)], _HEARD << side)

    def of(self, connection: int) -> Doubt:
        """Return what a connection has."""
        found = int(self._found[connection])
        for side in (0, 1):  # it acknowledges bytes of the other side, of which there is no frame
            if found & _HEARD << side and not found & _SEEN << (1 - side):
                found |= Doubt.MISSING
        return Doubt(found & _DOUBTS)

    def _note(self, connections: Longs, bits: int) -> None:
        self._found[connections] |= bits


def after_loss(frames: ContextBatch) -> Mask:
    """Tell before which frames a message may have been lost: one needs at least the bytes of a header."""
    lost: Mask = frames.numbers("gap") + frames.numbers("skipped") >= HEADER_SIZE
    return lost


def losses_of(frames: ContextBatch) -> Losses:
    """Return the losses of a batch."""
    rows = np.flatnonzero(after_loss(frames))
    end = frames.numbers("start_offset")[rows]
    return Losses(rows, end - frames.numbers("gap")[rows] - frames.numbers("skipped")[rows], end)


def without_stream(frames: ContextBatch) -> Mask:
    """Tell which frames were cut before their stream id: they belong to a stream of their vbucket, but to which?"""
    cut: Mask = frames.numbers("missing") > 0
    if cut.any():
        cut &= (frames.numbers("framing_length") > 0) & (frames.numbers("stream_id") < 0)
    return cut
