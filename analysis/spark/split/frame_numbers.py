"""Frame numbers of the whole run, assigned to each split before it is decoded.

Knows the counts that stitching makes: how many frames each split releases, and which ones only the end of the run
does. So the decoder of a split gives its frames the numbers of the single-process reader without the other splits. If
any conversation fell back to the shuffle, its frames are not counted, and these numbers are not available.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from analysis.spark.split.conversations import AT_END, ORDERED_SCHEMA
from analysis.spark.split.decode_split import groups_of_split
from analysis.spark.split.records import END_COUNT, FRAME_COUNT, RecordKind
from dissector.frames.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from analysis.spark.split.decode_split import SplitRecords
    from analysis.spark.split.plan import Split
    from dissector.options import ReadOptions


@dataclass(frozen=True, slots=True)
class FrameNumbers:
    """The numbers of a run's frames."""

    first: Sequence[int]
    """By split: the number of its first frame."""
    ends: Mapping[int, int]
    """By the packet that a connection began with: number of its first frame that the end of the run releases."""
    frames: int
    """How many frames the run has."""


def number_frames(splits: int, rows: Iterable[tuple[int, int, bytes]]) -> FrameNumbers:
    """Take splits, kinds and bodies of checkpoint rows, and assign numbers from those that hold counts."""
    counts = [0] * splits
    ends: list[tuple[int, int]] = []
    for split, kind, body in rows:
        if kind == RecordKind.FRAME_COUNT:
            counts[split] += FRAME_COUNT.unpack(body)[0]
        elif kind == RecordKind.END_COUNT:
            ends.append(END_COUNT.unpack(body))
    sums = [0]
    for count in counts:
        sums.append(sums[-1] + count)
    after: dict[int, int] = {}
    number = sums[-1]
    for began, count in sorted(ends):
        after[began] = number + 1
        number += count
    return FrameNumbers(tuple(each + 1 for each in sums[:-1]), after, number)


def numbered_frames(
    split: Split, records: SplitRecords, numbers: FrameNumbers, captures: Sequence[str], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Decode a split; yield its frames in the order of the run, with their numbers.

    Frames that the end of the run releases come last in their split, though their numbers are higher than those of all
    splits.
    """
    first = numbers.first[records.number]
    for group in groups_of_split(split, records, captures, options):
        frames = pa.Table.from_batches(group, ORDERED_SCHEMA).combine_chunks()
        if not len(frames):
            continue
        frames = frames.sort_by([("released", "ascending"), ("frame", "ascending")])
        released = frames["released"].to_numpy()
        size = int(np.searchsorted(released, AT_END))
        began, inverse, counts = np.unique(released[size:] - AT_END, return_inverse=True, return_counts=True)
        starts = np.array([numbers.ends[each] for each in began.tolist()], np.int64)
        at_end = starts[inverse] + np.arange(len(inverse)) - (np.cumsum(counts) - counts)[inverse]
        number = np.r_[np.arange(first, first + size), at_end]
        first += size
        columns = [pa.array(number), *(frames[name].combine_chunks() for name in SCHEMA.names[1:])]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
