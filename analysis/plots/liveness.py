"""No-ops and silence: a row for each connection with its traffic, its no-ops, and its longest pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context.kinds import NOOP
from analysis.plots.figure import FigureContext, TimeAxis, count, duration
from analysis.plots.row_labels import busiest, figure_height, label_rows
from analysis.plots.theme import label_text
from analysis.plots.time_bins import SUM, TimeBins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.batch import PlotBatch

_CONTROL = b"set_noop_interval"


class Liveness:
    """Frames, no-ops and pauses by connection."""

    columns: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.bins = TimeBins(frames=SUM, noops=SUM, replies=SUM)
        self.interval_s: dict[int, int] = {}  #: by connection, as negotiated
        self.silence: dict[int, tuple[int, int]] = {}  #: by connection, begin and end of the longest
        self._latest: dict[int, int] = {}

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        lanes, bins, kept = self.bins.place(frames.connection, frames.time_ns)
        noop = ((frames.opcode == NOOP) & ~frames.draft)[kept]
        reply = frames.response[kept]
        self.bins.put("frames", lanes, bins, 1)
        self.bins.put("noops", lanes, bins, (noop & ~reply).astype(np.int64))
        self.bins.put("replies", lanes, bins, (noop & reply).astype(np.int64))
        for row, seconds in frames.controls(_CONTROL):
            self.interval_s[int(frames.connection[row])] = seconds
        self._note_silences(frames)

    def finish(self) -> None:
        """Do nothing: every batch is complete by itself."""

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        there = self.bins["noops"].any() or self.bins["replies"].any() or self.interval_s
        return None if there else "there is no no-op, and no connection has agreed on any"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        bins = self.bins
        time_axis = TimeAxis(bins.first_ns or 0, bins.last_ns)
        noops, replies = bins["noops"].sum(axis=1), bins["replies"].sum(axis=1)
        agreed = np.array([key in self.interval_s for key in bins.keys])
        chosen = busiest((noops + replies) * 2 + agreed, bins.keys)
        figure, (axes,) = context.figure(figure_height(len(chosen)))
        for row, lane in enumerate(chosen):
            self._draw_row(axes, row, lane, context, time_axis)
        label_rows(axes, [self._label(lane, context) for lane in chosen])
        time_axis.limit(axes)
        time_axis.label(axes)
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0))
        parts = [count(int(noops.sum()), "no-op"), f"{int(replies.sum()):,} answered"]
        others = int(np.count_nonzero(noops + replies)) - len(chosen)
        if others > 0:
            parts.append(f"{count(others, 'connection')} more with no-ops are not shown")
        context.title(figure, "Liveness", ", ".join(parts))
        return figure

    def _label(self, lane: int, context: FigureContext) -> str:
        key = self.bins.keys[lane]
        every = f"\nno-op every {self.interval_s[key]:,} s" if key in self.interval_s else ""
        return label_text(context.names.label(key), 28) + every

    def _draw_row(self, axes: Axes, row: int, lane: int, context: FigureContext, time_axis: TimeAxis) -> None:
        bins, theme = self.bins, context.theme
        starts = np.maximum(bins.starts_ns(), bins.first_ns or 0)
        width = max(bins.width_ns / time_axis.scale, time_axis.range_ns / time_axis.scale / 500)
        busy = time_axis(starts[bins["frames"][lane] > 0])
        spans = [(float(begin), width) for begin in busy]
        axes.broken_barh(spans, (row - 0.11, 0.22), color=theme.quiet, alpha=0.55, linewidth=0, label="any message")
        for name, offset, shape, color in (
            ("noops", -0.25, "v", theme.series[0]),
            ("replies", 0.25, "^", theme.series[1]),
        ):
            at = np.flatnonzero(bins[name][lane])
            if not len(at):
                continue
            label = "no-op" if name == "noops" else "its answer"
            axes.plot(
                time_axis(starts[at]), np.full(len(at), row + offset), shape, color=color, markersize=5, label=label
            )
        begin, end = self.silence.get(bins.keys[lane], (0, 0))
        if end - begin > time_axis.range_ns * 0.08:
            ends = (float(time_axis(begin)), float(time_axis(end)))
            axes.annotate(
                "",
                (ends[0], row),
                (ends[1], row),
                arrowprops={"arrowstyle": "<->", "color": theme.quiet, "linewidth": 0.8},
            )
            axes.annotate(
                f"{duration(end - begin)} of silence",
                (sum(ends) / 2, row),
                ha="center",
                va="center",
                fontsize=7,
                bbox={"facecolor": theme.paper, "edgecolor": "none", "pad": 1},
            )

    def _note_silences(self, frames: PlotBatch) -> None:
        order = np.argsort(frames.connection, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(frames.connection[order])) + 1):
            if not len(part):
                continue
            number = int(frames.connection[part[0]])
            times = np.maximum.accumulate(frames.time_ns[part])
            before = np.r_[self._latest.get(number, times[0]), times[:-1]]
            at = int(np.argmax(times - before))
            begin, end = self.silence.get(number, (0, 0))
            if times[at] - before[at] > end - begin:
                self.silence[number] = (int(before[at]), int(times[at]))
            self._latest[number] = max(int(times[-1]), int(before[0]))
