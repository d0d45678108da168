"""Which bytes the capture lost, as each direction's offsets tell it: the one place that reads gaps.

A loss lies between two frames of a direction. Bytes that are missing inside of a frame are no loss: its header tells
how long it is, so no other message can have been there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dissector.spec.registry import HEADER_SIZE

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from dissector.array_types import Longs, Mask


class Losses(NamedTuple):
    """The losses of a batch, one for each frame that has one before it."""

    rows: Longs  #: the frame after the loss, as a row of the batch
    begin: Longs  #: offset of the first byte that is not known
    end: Longs  #: offset of the frame after it


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
