"""The time column of the list: the formats that tshark has, under the same names, and the time since the request.

Knows times of frames and nothing else of them. A local time is that of the time zone the command runs in.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from dissector.array_types import Longs
    from dissector.frames.answers import Answers
    from dissector.frames.connection_numbers import ConnectionNumbers

_SECOND_NS = 1_000_000_000
_CLOCK = "%H:%M:%S"
_DATE = "%Y-%m-%d %H:%M:%S"
_DAY_OF_YEAR = "%Y/%j %H:%M:%S"


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A way to show when a frame was there."""

    name: str  #: tshark's, if it has the format
    word: str  #: a name that says what it is
    heading: str  #: of the column
    width: int  #: of the column: it fits, unless there is more than there mostly is
    clock: str = _CLOCK  #: of a time of day: how it is written down to the second
    utc: bool = False
    neighbours: bool = False  #: takes more than the frame: the one before it, or its request


RELATIVE = TimeFormat("r", "relative", "seconds", 12)  #: since the first frame
DELTA = TimeFormat("d", "delta", "delta", 10, neighbours=True)  #: since the frame before it
SHOWN_DELTA = TimeFormat("dd", "delta-displayed", "delta shown", 11, neighbours=True)  #: since the line before it
SINCE_REQUEST = TimeFormat("s", "since-request", "since request", 13, neighbours=True)  #: of answers
EPOCH = TimeFormat("e", "epoch", "epoch", 17)  #: seconds since 1970-01-01 UTC
FORMATS: tuple[TimeFormat, ...] = (
    TimeFormat("a", "absolute", "local time", 15),
    TimeFormat("ad", "absolute-date", "local date and time", 26, _DATE),
    TimeFormat("adoy", "absolute-day", "local day and time", 24, _DAY_OF_YEAR),
    DELTA,
    SHOWN_DELTA,
    EPOCH,
    RELATIVE,
    SINCE_REQUEST,
    TimeFormat("u", "utc", "UTC", 15, utc=True),
    TimeFormat("ud", "utc-date", "UTC date and time", 26, _DATE, utc=True),
    TimeFormat("udoy", "utc-day", "UTC day and time", 24, _DAY_OF_YEAR, utc=True),
)
BY_NAME = {name: each for each in FORMATS for name in (each.name, each.word)}


class TimeColumn:
    """Texts of the column, for the frames of one run in order."""

    def __init__(self, form: TimeFormat, numbering: ConnectionNumbers) -> None:
        self.format = form
        self._numbering = numbering
        self._before: int | None = None  #: time of the frame, or of the line, before the next one
        self._answers = _answers() if form is SINCE_REQUEST else None
        self._second: tuple[int, str] | None = None  #: the second that was written last: many frames share it

    def texts(self, batch: pa.RecordBatch, indexes: Longs) -> list[str]:
        """Return the texts of the chosen frames of a batch; every batch has to come here."""
        if self._answers is not None:
            _, since = self._answers.take(batch)
            return ["" if each < 0 else _seconds(each) for each in since[indexes].tolist()]
        times = batch.column("time_ns").to_numpy()
        if self.format is DELTA:
            deltas = self._deltas(times.tolist())
            return [_seconds(deltas[index]) for index in indexes.tolist()]
        chosen: list[int] = times[indexes].tolist()
        if self.format is SHOWN_DELTA:
            return [_seconds(delta) for delta in self._deltas(chosen)]
        return [self.text(time) for time in chosen]

    def text(self, time_ns: int) -> str:
        """Return the text of a single frame; only for formats that look at no other."""
        if self.format is RELATIVE:
            return _seconds(time_ns - (self._numbering.start_ns or 0))
        if self.format is EPOCH:
            second, rest = divmod(abs(time_ns), _SECOND_NS)
            return f"{'-' * (time_ns < 0)}{second}.{rest // 1000:06d}"
        second, rest = divmod(time_ns, _SECOND_NS)
        return f"{self._clock(second)}.{rest // 1000:06d}"

    def _clock(self, second: int) -> str:
        if self._second is None or self._second[0] != second:
            moment = datetime.fromtimestamp(second, UTC)
            moment = moment if self.format.utc else moment.astimezone()
            self._second = second, moment.strftime(self.format.clock)
        return self._second[1]

    def _deltas(self, times: list[int]) -> list[int]:
        before = [self._before if self._before is not None else times[0], *times[:-1]] if times else []
        self._before = times[-1] if times else self._before
        return [time - earlier for time, earlier in zip(times, before, strict=True)]


def _answers() -> Answers:
    from dissector.frames.answers import Answers  # noqa: PLC0415 - brings numpy along, and formats are for helps too

    return Answers()


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.6f}"
