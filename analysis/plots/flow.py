"""Flow control: outstanding bytes against the window, a panel for each connection, stalls shaded.

Messages add and acks subtract in capture order, and the sum never falls below 0. The rules FLC-* judge by what each
side knew at the time; this plot shows what passed the capture point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.figure import FigureContext, TimeAxis, count, duration, label_amounts
from analysis.plots.theme import label_text
from analysis.plots.time_bins import LAST, LEAST, MOST, NONE, SUM, TimeBins, forward_fill

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.plots.batch import ConnectionNames, PlotBatch
    from dissector.array_types import Longs


SHOWN = 6  #: connections that are drawn
_STALLS = 256  #: kept for each connection, the longest
_EMPTY = 8  #: a window more than 8 times the outstanding bytes is a note in the title, not a line
_CONTROL = b"connection_buffer_size"
_OFF = f"flow control switched off ({_CONTROL.decode()}=0)"


@dataclass(slots=True)
class _FlowState:
    """One connection's flow control after the last batch."""

    outstanding: int = 0
    window: int = 0  #: 0: not known, or none
    full_since: int = -1  #: time of the last message or ack, if it left the window full, else -1
    stalls: list[tuple[int, int]] = field(default_factory=list)  #: begin and end of the longest ones
    stall_count: int = 0
    stalled_ns: int = 0
    unended_ns: int = 0  #: how long the last one lasted, if the connection or the capture ended first


class FlowPlot:
    """Outstanding bytes, windows and stalls by connection."""

    columns = frozenset(("flow_bytes", "buffer_bytes", "gap", "missing"))

    def __init__(self) -> None:
        self.bins = TimeBins(least=LEAST, most=MOST, last=LAST, window=LAST, lost=SUM)
        self.states: dict[int, _FlowState] = {}
        self._switched_off: set[int] = set()  #: connections whose last window is 0
        self._names: ConnectionNames | None = None

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        self._names = frames.names
        sent = np.where(frames.response, 0, np.maximum(frames.numbers("flow_bytes"), 0))
        acked = np.maximum(frames.numbers("buffer_bytes"), 0)
        lost = np.maximum(frames.numbers("gap"), 0) + np.maximum(frames.numbers("missing"), 0)
        windows = dict(frames.controls(_CONTROL))
        for row, size in windows.items():
            (self._switched_off.discard if size else self._switched_off.add)(int(frames.connection[row]))
        wanted = (sent > 0) | (acked > 0) | (lost > 0)
        wanted[[*windows]] = True
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return
        rows = rows[np.argsort(frames.connection[rows], kind="stable")]
        cuts = np.flatnonzero(np.diff(frames.connection[rows])) + 1
        for part in np.split(rows, cuts):
            number = int(frames.connection[part[0]])
            state = self.states.setdefault(number, _FlowState())
            lanes, bins, kept = self.bins.place(frames.connection[part], frames.time_ns[part])
            if not len(kept):
                continue
            window = _window_at(state, part, windows)
            outstanding = _outstanding_after(state, sent[part] - acked[part])
            self._find_stalls(state, frames.time_ns[part], outstanding, window, acked[part] > 0)
            for name, numbers in (("least", outstanding), ("most", outstanding), ("last", outstanding)):
                self.bins.put(name, lanes, bins, numbers)
            self.bins.put("window", lanes, bins, window)
            self.bins.put("lost", lanes, bins, lost[part])

    def finish(self) -> None:
        """End the stalls that last until the end of their connection, or of the capture."""
        if self._names is None or self.bins.first_ns is None:
            return
        for number, state in self.states.items():
            end_ns = self._names.end_ns(number)
            if 0 <= state.full_since < end_ns:
                state.unended_ns = end_ns - state.full_since
                _add_stalls(state, [(state.full_since, end_ns)])
                state.full_since = -1
                self.bins.extend(self.bins.first_ns, max(self.bins.last_ns, end_ns))

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        return None if (self.bins["last"] > 0).any() else "no connection has messages that flow control counts"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        bins = self.bins
        time_axis = TimeAxis(bins.first_ns or 0, bins.last_ns)
        shown_lanes = self.shown_lanes()
        figure, all_axes = context.figure(2.2 + 1.75 * len(shown_lanes), rows=len(shown_lanes), sharex=True)
        for axes, lane in zip(all_axes, shown_lanes, strict=True):
            self._draw(axes, lane, context, time_axis)
        time_axis.limit(all_axes[-1])
        time_axis.label(all_axes[-1])
        handles = {
            label: handle for axes in all_axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6)
        some = [bins.keys[lane] for lane in shown_lanes]
        stalls = sum(self.states[key].stall_count for key in some)
        parts = [count(len(shown_lanes), "connection"), count(stalls, "stall")]
        stalled = sum(self.states[key].stalled_ns for key in some)
        if stalled:
            parts[-1] += f" of {duration(stalled)}" + (" together" if stalls > 1 else "")
        unended = sum(self.states[key].unended_ns > 0 for key in some)
        if unended:
            parts.append(f"{unended:,} without an end")
        others = int(np.count_nonzero((bins["last"] > 0).any(axis=1))) - len(shown_lanes)
        if others > 0:
            parts.append(f"{others:,} more with less in their windows are not shown (--connection)")
        context.title(figure, "Flow control", ", ".join(parts))
        return figure

    def shown_lanes(self) -> list[int]:
        """Return the lanes to draw: the connections with the fullest windows, in the order of their numbers."""
        most = self.bins["most"].max(axis=1, initial=0)
        window = self.bins["window"].max(axis=1, initial=0)
        full = np.where(window > 0, most / np.maximum(window, 1), most / 2.0**62)
        order = [lane for lane in np.argsort(-full, kind="stable").tolist() if most[lane] > 0]
        return sorted(order[:SHOWN], key=lambda lane: self.bins.keys[lane])

    def _draw(self, axes: Axes, lane: int, context: FigureContext, time_axis: TimeAxis) -> None:
        bins, theme = self.bins, context.theme
        state = self.states[bins.keys[lane]]
        starts = np.r_[np.maximum(bins.starts_ns(), bins.first_ns or 0), bins.last_ns]
        times = time_axis(np.minimum(starts, context.names.end_ns(bins.keys[lane])))
        most, last = (forward_fill(bins[name][lane : lane + 1])[0] for name in ("most", "last"))
        # A bin without messages has the last number of the bin before.
        high = np.where(bins["most"][lane] != NONE, most, last).astype(float)
        low = np.where(bins["least"][lane] != NONE, bins["least"][lane], last).astype(float)
        high[last == NONE] = low[last == NONE] = np.nan
        high, low = np.r_[high, float(last[-1])], np.r_[low, float(last[-1])]
        at = _corners(low, high)
        axes.fill_between(times[at], low[at], high[at], step="post", color=theme.series[0], alpha=0.25, linewidth=0)
        at = _corners(high)
        axes.plot(
            times[at], high[at], drawstyle="steps-post", color=theme.series[0], linewidth=1.2, label="not acknowledged"
        )
        window = forward_fill(bins["window"][lane : lane + 1])[0].astype(float)
        window = np.r_[window, window[-1]]
        window[window <= 0] = np.nan
        top = np.nanmax(high)
        largest = np.nanmax(window) if np.isfinite(window).any() else 0
        empty = largest > _EMPTY * top
        if largest and not empty:
            top = max(top, largest)
            form: dict[str, Any]
            at, form = _corners(window), {"drawstyle": "steps-post", "linewidth": 1.2, "linestyle": "--"}
            axes.plot(times[at], window[at], color=theme.ink, label="window", **form)
        for begin, end in state.stalls:
            axes.axvspan(
                time_axis(begin), time_axis(end), color=theme.series[1], alpha=0.25, linewidth=0, label="stall"
            )
        holes = np.flatnonzero(bins["lost"][lane] > 0)
        if len(holes):
            axes.plot(times[holes], np.zeros(len(holes)), "x", color=theme.error, label="bytes lost: sums may be off")
        for finding in context.findings:
            if context.names.number(finding.connection) == bins.keys[lane] and finding.rule.startswith("FLC"):
                color, shape = theme.mark(finding.severity.value)
                axes.plot(time_axis(finding.time_ns), top, shape, color=color, label=finding.severity.value, zorder=4)
        axes.set_ylim(0, top * 1.12)
        label_amounts(axes, "B", 1024)
        axes.set_ylabel("outstanding")
        title = f"connection {label_text(context.names.label(bins.keys[lane]))}"
        if empty:
            title += f", far below its window of {largest:,.0f} bytes"
        if state.stall_count:
            title += f": {count(state.stall_count, 'stall')}, {duration(state.stalled_ns)}"
            title += f", the last one without an end ({duration(state.unended_ns)})" if state.unended_ns else ""
        if largest and bins.keys[lane] in self._switched_off:
            title += f", then {_OFF}"
        elif not largest:
            title += f": {self._why_no_window(lane, context)}"
        axes.set_title(title)

    def _why_no_window(self, lane: int, context: FigureContext) -> str:
        """Say why a connection has no window: it may have one that is not in the capture."""
        number = self.bins.keys[lane]
        if number in self._switched_off:
            return _OFF
        if number not in context.names.dcp_names:
            return "its set-up is not in the capture, nor its window"
        if self.bins["lost"][lane].any():
            return f"no {_CONTROL.decode()} in the capture, from which bytes are missing"
        return f"no {_CONTROL.decode()} was asked for: flow control is off"

    @staticmethod
    def _find_stalls(
        state: _FlowState, times: Longs, outstanding: Longs, window: Longs, ack: NDArray[np.bool_]
    ) -> None:
        """Find the times between a message that left the window full and an ack right after it."""
        full = (outstanding >= window) & (window > 0)
        begin = np.r_[state.full_since, np.where(full, times, -1)]
        found = np.flatnonzero((begin[:-1] >= 0) & ack & (times > begin[:-1]))
        _add_stalls(state, list(zip(begin[found].tolist(), times[found].tolist(), strict=True)))
        state.full_since = int(begin[-1])


def _corners(*lines: NDArray[np.float64]) -> Longs:
    """Return where one of the lines steps, and both of their ends: the points between change nothing."""
    steps = np.zeros(len(lines[0]), bool)
    steps[[0, -1]] = True
    for line in lines:
        same = (line[1:] == line[:-1]) | (np.isnan(line[1:]) & np.isnan(line[:-1]))
        steps[1:] |= ~same
    return np.flatnonzero(steps)


def _add_stalls(state: _FlowState, stalls: list[tuple[int, int]]) -> None:
    state.stall_count += len(stalls)
    state.stalled_ns += sum(end - begin for begin, end in stalls)
    longest = sorted([*state.stalls, *stalls], key=lambda stall: (stall[0] - stall[1], stall))
    state.stalls = longest[:_STALLS]


def _window_at(state: _FlowState, rows: Longs, changes: dict[int, int]) -> Longs:
    """Return the window in force at each row."""
    window = np.full(len(rows), state.window, np.int64)
    for place in [place for place, row in enumerate(rows.tolist()) if row in changes] if changes else []:
        window[place:] = changes[int(rows[place])]
    state.window = int(window[-1])
    return window


def _outstanding_after(state: _FlowState, change: Longs) -> Longs:
    """Return the outstanding bytes after each row: a running sum that never falls below 0."""
    sums = state.outstanding + np.cumsum(change)
    found: Longs = sums - np.minimum(np.minimum.accumulate(sums), 0)
    state.outstanding = int(found[-1])
    return found
