"""Flow control: bytes that wait for an ack against the window, connection by connection, stalls shaded.

Adds up in the order of the capture: a message counts from when it was captured, an ack too, and nothing is ever less
than nothing. The rules judge by what each side knew; the picture shows what went by.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.figure import FigureContext, TimeAxis, amounts, count, duration
from analysis.plots.theme import plain
from analysis.plots.time_bins import LAST, LEAST, MOST, NONE, SUM, TimeBins, carried

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.plots.batch import PlotBatch

    Longs = NDArray[np.int64]

SHOWN = 6  #: connections that are drawn
_STALLS = 256  #: of a connection that are remembered: the longest
_EMPTY = 8  #: a window so much larger than what is outstanding is told, not drawn
_CONTROL = b"connection_buffer_size"


@dataclass(slots=True)
class _Balances:
    """What is carried from batch to batch, of one connection."""

    outstanding: int = 0
    window: int = 0  #: 0: none that we know of
    full_since: int = -1  #: when the window became full, if nothing has happened since
    stalls: list[tuple[int, int]] = field(default_factory=list)  #: begin and end, the longest
    stall_count: int = 0
    stalled_ns: int = 0


class FlowPlot:
    """Gathers and draws."""

    columns = frozenset(("flow_bytes", "buffer_bytes", "gap", "missing"))

    def __init__(self) -> None:
        self.bins = TimeBins(least=LEAST, most=MOST, last=LAST, window=LAST, lost=SUM)
        self.books: dict[int, _Balances] = {}
        self._seen_ns = np.zeros(0, np.int64)  #: by connection, when its last message came

    def fold(self, frames: PlotBatch) -> None:
        """Take a batch of frames."""
        self._see(frames)
        sent = np.where(frames.response, 0, np.maximum(frames.numbers("flow_bytes"), 0))
        given = np.maximum(frames.numbers("buffer_bytes"), 0)
        lost = np.maximum(frames.numbers("gap"), 0) + np.maximum(frames.numbers("missing"), 0)
        windows = dict(frames.controls(_CONTROL))
        wanted = (sent > 0) | (given > 0) | (lost > 0)
        wanted[[*windows]] = True
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return
        rows = rows[np.argsort(frames.connection[rows], kind="stable")]
        cuts = np.flatnonzero(np.diff(frames.connection[rows])) + 1
        for part in np.split(rows, cuts):
            number = int(frames.connection[part[0]])
            books = self.books.setdefault(number, _Balances())
            lanes, bins, kept = self.bins.place(frames.connection[part], frames.time_ns[part])
            if not len(kept):
                continue
            window = _windows(books, part, windows)
            outstanding = _balance(books, sent[part] - given[part])
            self._stalls(books, frames.time_ns[part], outstanding, window, given[part] > 0)
            for name, numbers in (("least", outstanding), ("most", outstanding), ("last", outstanding)):
                self.bins.put(name, lanes, bins, numbers)
            known = np.flatnonzero(window > 0)
            self.bins.put("window", lanes[known], bins[known], window[known])
            self.bins.put("lost", lanes, bins, lost[part])

    def finish(self) -> None:
        """A stall may last to the end."""
        for books in self.books.values():
            if books.full_since >= 0 and self.bins.last_ns > books.full_since:
                _add_stalls(books, [(books.full_since, self.bins.last_ns)])
                books.full_since = -1

    def nothing(self) -> str | None:
        """Say why there is nothing to draw."""
        return None if (self.bins["last"] > 0).any() else "no connection has messages that flow control counts"

    def draw(self, sheet: FigureContext) -> Figure:
        """Draw it."""
        bins = self.bins
        clock = TimeAxis(bins.first_ns or 0, bins.last_ns)
        chosen = self.chosen()
        figure, all_axes = sheet.figure(2.2 + 1.75 * len(chosen), rows=len(chosen), sharex=True)
        for axes, lane in zip(all_axes, chosen, strict=True):
            self._draw(axes, lane, sheet, clock)
        clock.limit(all_axes[-1])
        clock.label(all_axes[-1])
        handles = {
            label: handle for axes in all_axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
        some = [bins.keys[lane] for lane in chosen]
        stalls = sum(self.books[key].stall_count for key in some)
        parts = [count(len(chosen), "connection"), count(stalls, "stall")]
        stalled = sum(self.books[key].stalled_ns for key in some)
        if stalled:
            parts[-1] += f" of {duration(stalled)} together"
        others = int(np.count_nonzero((bins["last"] > 0).any(axis=1))) - len(chosen)
        if others > 0:
            parts.append(f"{others:,} more with less in their windows are not shown (--connection)")
        sheet.title(figure, "Flow control", ", ".join(parts))
        return figure

    def chosen(self) -> list[int]:
        """Return the lanes to draw: those whose windows were fullest, in the order of connections."""
        most = self.bins["most"].max(axis=1, initial=0)
        window = self.bins["window"].max(axis=1, initial=0)
        full = np.where(window > 0, most / np.maximum(window, 1), most / 2.0**62)
        order = [lane for lane in np.argsort(-full, kind="stable").tolist() if most[lane] > 0]
        return sorted(order[:SHOWN], key=lambda lane: self.bins.keys[lane])

    def _draw(self, axes: Axes, lane: int, sheet: FigureContext, clock: TimeAxis) -> None:
        bins, theme = self.bins, sheet.theme
        books = self.books[bins.keys[lane]]
        starts = np.r_[np.maximum(bins.starts_ns(), bins.first_ns or 0), bins.last_ns]
        times = clock(np.minimum(starts, self._seen_ns[bins.keys[lane]]))
        most, last = (carried(bins[name][lane : lane + 1])[0] for name in ("most", "last"))
        # In a bin without messages the last bin's last number still holds.
        high = np.where(bins["most"][lane] != NONE, most, last).astype(float)
        low = np.where(bins["least"][lane] != NONE, bins["least"][lane], last).astype(float)
        high[last == NONE] = low[last == NONE] = np.nan
        high, low = np.r_[high, float(last[-1])], np.r_[low, float(last[-1])]
        axes.fill_between(times, low, high, step="post", color=theme.series[0], alpha=0.25, linewidth=0)
        axes.plot(times, high, drawstyle="steps-post", color=theme.series[0], linewidth=1.2, label="not acknowledged")
        window = carried(bins["window"][lane : lane + 1])[0].astype(float)
        window = np.r_[window, window[-1]]
        window[window <= 0] = np.nan
        top = np.nanmax(high)
        largest = np.nanmax(window) if np.isfinite(window).any() else 0
        empty = largest > _EMPTY * top
        if largest and not empty:
            top = max(top, largest)
            axes.plot(
                times, window, drawstyle="steps-post", color=theme.ink, linewidth=1.2, linestyle="--", label="window"
            )
        for begin, end in books.stalls:
            axes.axvspan(clock(begin), clock(end), color=theme.series[1], alpha=0.25, linewidth=0, label="stall")
        holes = np.flatnonzero(bins["lost"][lane] > 0)
        if len(holes):
            axes.plot(times[holes], np.zeros(len(holes)), "x", color=theme.error, label="bytes lost: sums may be off")
        for finding in sheet.findings:
            if sheet.people.number(finding.connection) == bins.keys[lane] and finding.rule.startswith("FLC"):
                color, shape = theme.mark(finding.severity.value)
                axes.plot(clock(finding.time_ns), top, shape, color=color, label=finding.severity.value, zorder=4)
        axes.set_ylim(0, top * 1.12)
        amounts(axes, "B", 1024)
        axes.set_ylabel("outstanding")
        title = f"connection {plain(sheet.people.label(bins.keys[lane]))}"
        if empty:
            title += f", far below its window of {largest:,.0f} bytes"
        if books.stall_count:
            title += f": {count(books.stall_count, 'stall')}, {duration(books.stalled_ns)}"
        axes.set_title(title)

    def _see(self, frames: PlotBatch) -> None:
        room = len(frames.people.parties) - len(self._seen_ns)
        if room > 0:
            self._seen_ns = np.r_[self._seen_ns, np.zeros(max(room, len(self._seen_ns)), np.int64)]
        np.maximum.at(self._seen_ns, frames.connection, frames.time_ns)

    @staticmethod
    def _stalls(books: _Balances, times: Longs, outstanding: Longs, window: Longs, ack: NDArray[np.bool_]) -> None:
        """Find where the window was full until an ack came."""
        full = (outstanding >= window) & (window > 0)
        begin = np.r_[books.full_since, np.where(full, times, -1)]
        found = np.flatnonzero((begin[:-1] >= 0) & ack & (times > begin[:-1]))
        _add_stalls(books, list(zip(begin[found].tolist(), times[found].tolist(), strict=True)))
        books.full_since = int(begin[-1])


def _add_stalls(books: _Balances, stalls: list[tuple[int, int]]) -> None:
    books.stall_count += len(stalls)
    books.stalled_ns += sum(end - begin for begin, end in stalls)
    longest = sorted([*books.stalls, *stalls], key=lambda stall: (stall[0] - stall[1], stall))
    books.stalls = longest[:_STALLS]


def _windows(books: _Balances, rows: Longs, changes: dict[int, int]) -> Longs:
    """Return the window at each row."""
    window = np.full(len(rows), books.window, np.int64)
    for place in [place for place, row in enumerate(rows.tolist()) if row in changes] if changes else []:
        window[place:] = changes[int(rows[place])]
    books.window = int(window[-1])
    return window


def _balance(books: _Balances, change: Longs) -> Longs:
    """Return what is outstanding behind each row: the running sum, which is never below 0."""
    sums = books.outstanding + np.cumsum(change)
    found: Longs = sums - np.minimum(np.minimum.accumulate(sums), 0)
    books.outstanding = int(found[-1])
    return found
