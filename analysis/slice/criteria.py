"""What chooses the frames of a slice: a filter, a connection, numbers of frames, a range of time.

All that is given has to hold. Knows columns of frames; must not know packets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from analysis.slice.chosen_frames import COLUMNS, ChosenFrames
from analysis.slice.packet_choice import PacketChoice, Spans
from dissector.capture.clock import NANOSECONDS
from dissector.errors import UsageError
from dissector.filters.errors import FilterError
from dissector.filters.literals import time_ns
from dissector.filters.selector import FrameSelector
from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.frames.derived_columns import with_sources
from dissector.frames.reader import FrameReader
from dissector.frames.run_columns import RunColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from dissector.array_types import Longs
    from dissector.capture import Input
    from dissector.filters import Filter
    from dissector.options import ReadOptions

_FRAMES = re.compile(r"([0-9]{1,18})(?:(-)([0-9]{1,18})?)?")
_SECONDS = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?")
_LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: nanoseconds since the epoch, or since the first frame."""

    ns: int
    since_first: bool

    def at(self, start_ns: int) -> int:
        """Return nanoseconds since the epoch."""
        return self.ns + start_ns if self.since_first else self.ns


def read_frames(text: str, option: str = "--frames") -> Spans:
    """Read numbers of frames, such as ``10-20,33``; ``40-`` goes on to the last one."""
    ranges: list[tuple[int, int]] = []
    for part in text.split(","):
        found = _FRAMES.fullmatch(part.strip())
        if found is None:
            raise UsageError(f"{option}: {part.strip()[:40]!r} is no number or range of frames, as in 10-20,33")
        first = int(found[1])
        last = int(found[3]) if found[3] else _LAST if found[2] else first
        if last < first or not first:
            raise UsageError(f"{option}: {part.strip()[:40]!r} has no frames: they count from 1 upwards")
        ranges.append((first, last))
    table = np.array(ranges, np.int64)
    return Spans.joined([Spans(table[:, 0], table[:, 1])])


def read_times(text: str, option: str = "--time") -> tuple[Moment | None, Moment | None]:
    """Read ``FROM..TO``, each in seconds since the first frame or as ISO 8601, or nothing."""
    first, dots, last = text.partition("..")
    if not dots or (not first.strip() and not last.strip()):
        raise UsageError(f"{option}: {text[:60]!r} is no range: give FROM..TO, as in 1.5..3 or 2026-11-16T02:10:00Z..")
    begin, end = _moment(first.strip(), option), _moment(last.strip(), option)
    if begin and end and begin.since_first == end.since_first and end.ns < begin.ns:
        raise UsageError(f"{option}: {text[:60]!r} ends before it begins")
    return begin, end


def _moment(text: str, option: str) -> Moment | None:
    if not text:
        return None
    seconds = _SECONDS.fullmatch(text)
    if seconds is not None:
        return Moment(int(seconds[1]) * NANOSECONDS + int((seconds[2] or "0").ljust(9, "0")), since_first=True)
    try:
        return Moment(time_ns(text), since_first=False)
    except FilterError:
        raise UsageError(
            f"{option}: {text[:40]!r} is no time: give seconds since the first frame, or as in 2026-11-16T02:10:00Z"
        ) from None


class Criteria:
    """Chooses frames, batch after batch."""

    def __init__(
        self,
        *,
        chosen: Filter | None = None,
        connection: str | None = None,
        frames: Spans | None = None,
        times: tuple[Moment | None, Moment | None] = (None, None),
    ) -> None:
        self._numbering = ConnectionNumbers()
        self._selector = FrameSelector(chosen, connection, None, self._numbering)
        self._connection = connection
        self._frames = frames
        self._times = times
        self.by_frame = chosen is not None or frames is not None  #: whether single frames are meant, or all there is

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that frames are chosen by."""
        return self._selector.columns | {"frame", "time_ns", "connection"}

    def indexes(self, batch: pa.RecordBatch) -> Longs:
        """Return the chosen rows of a batch."""
        rows: Longs = self._selector.indexes(batch)
        if self._frames is not None:
            rows = rows[self._frames.hold(batch.column("frame").to_numpy()[rows])]
        first, last = self.times
        time = batch.column("time_ns").to_numpy()[rows]
        chosen: Longs = rows[(time >= first) & (time <= last)]
        return chosen

    @property
    def times(self) -> tuple[int, int]:
        """Return the range of time, as far as it is limited; to be asked after the first batch."""
        start = self._numbering.start_ns or 0
        first, last = self._times
        return (-_LAST if first is None else first.at(start), _LAST if last is None else last.at(start))

    @property
    def timed(self) -> bool:
        """Tell whether the time is limited."""
        return self._times != (None, None)

    @property
    def unlimited(self) -> bool:
        """Tell whether all there is was chosen."""
        return self._connection is None and not self.by_frame and not self.timed

    def connections(self) -> frozenset[str] | None:
        """Return the connection that was named, after all frames; None: all of them. Raises UsageError for no such."""
        if self._connection is None:
            return None
        if self._selector.unknown is not None:
            raise UsageError(self._selector.unknown)
        names = self._numbering.names
        if self._connection.lower() in names:
            return frozenset((self._connection.lower(),))
        return frozenset((names[int(self._connection) - 1],))


def choose(
    inputs: Sequence[Input],
    options: ReadOptions,
    criteria: Criteria,
    watch: Callable[[FrameReader], Callable[[], None]],
) -> PacketChoice:
    """Read captures for what is chosen of them; raises UsageError where that is nothing.

    The criteria are held against the frames as they are, redacted or not.
    """
    if criteria.unlimited:
        return PacketChoice("everything", connections=None, others=True)
    frames = ChosenFrames(inputs)
    columns = COLUMNS | criteria.columns
    derived = RunColumns(columns)
    reader = FrameReader(inputs, replace(options, columns=with_sources(columns), pseudonyms=None))
    advance = watch(reader)
    for batch in reader:
        advance()
        frames.note(batch, criteria.indexes(derived.add(batch)))
    connections = criteria.connections()
    what = "the frames that were asked for, and the set-up"
    if criteria.by_frame:
        if not frames.count:
            raise UsageError(f"none of the {reader.report.frames:,} frames is chosen: there is nothing to write")
        return frames.choice(what)
    times = criteria.times if criteria.timed else None
    what = "the whole connection" if connections is not None else "everything"
    if times is not None:
        what = f"{what} in the time that was asked for, and the set-up"
    spans = frames.choice("").spans if times is not None else {}
    return PacketChoice(what, spans, connections, others=connections is None, times=times)
