"""Where bytes are missing: a row for each direction of a connection, and below it the sum over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.figure import FigureContext, TimeAxis, count, label_amounts
from analysis.plots.row_labels import busiest, figure_height, label_rows
from analysis.plots.theme import label_text
from analysis.plots.time_bins import SUM, TimeBins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.plots.batch import PlotBatch


class Gaps:
    """Bytes lost and bytes skipped, by connection and direction."""

    columns = frozenset(("gap", "skipped", "missing"))

    def __init__(self) -> None:
        self.bins = TimeBins(lost=SUM, skipped=SUM, holes=SUM)
        self._range: tuple[int, int] | None = None

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        if not frames.size:
            return
        first, last = int(frames.time_ns.min()), int(frames.time_ns.max())
        self._range = (min(first, self._range[0]), max(last, self._range[1])) if self._range else (first, last)
        lost = np.maximum(frames.numbers("gap"), 0) + np.maximum(frames.numbers("missing"), 0)
        skipped = np.maximum(frames.numbers("skipped"), 0)
        rows = np.flatnonzero(lost + skipped)
        key = frames.connection[rows] << 1 | frames.direction[rows]
        lanes, bins, kept = self.bins.place(key, frames.time_ns[rows])
        self.bins.put("lost", lanes, bins, lost[rows[kept]])
        self.bins.put("skipped", lanes, bins, skipped[rows[kept]])
        self.bins.put("holes", lanes, bins, 1)

    def finish(self) -> None:
        """Extend the time axis to the whole capture."""
        if self._range is not None and self.bins.keys:
            self.bins.extend(*self._range)

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        return None if self.bins.keys else "no bytes are missing between frames"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        bins, theme = self.bins, context.theme
        time_axis = TimeAxis(bins.first_ns or 0, bins.last_ns)
        chosen = busiest((bins["lost"] + bins["skipped"]).sum(axis=1), bins.keys)
        figure, (above, below) = context.figure(
            figure_height(len(chosen)) + 1.6, rows=2, sharex=True, height_ratios=[0.36 * max(len(chosen), 2), 1.6]
        )
        times = time_axis(np.maximum(bins.starts_ns(), bins.first_ns or 0))
        for row, lane in enumerate(chosen):
            for name, offset, shape, color, text in (
                ("lost", -0.14, "o", theme.error, "not in the capture"),
                ("skipped", 0.14, "s", theme.series[1], "passed over: no frame"),
            ):
                at = np.flatnonzero(bins[name][lane])
                if not len(at):
                    continue
                sizes = 12 + 14 * np.log10(np.maximum(bins[name][lane][at], 1))
                above.scatter(
                    times[at], np.full(len(at), row + offset), sizes, color=color, marker=shape, alpha=0.7, label=text
                )
        label_rows(above, [self._label(lane, context) for lane in chosen])
        handles = dict(zip(*reversed(above.get_legend_handles_labels()), strict=True))
        legend = above.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0))
        for handle in legend.legend_handles:
            handle.set_sizes([40])  # type: ignore[union-attr]
        ends = np.r_[times, time_axis(bins.last_ns)]
        for name, color in (("lost", theme.error), ("skipped", theme.series[1])):
            total = np.cumsum(bins[name].sum(axis=0))
            if total[-1]:
                below.plot(ends, np.r_[total, total[-1]], drawstyle="steps-post", color=color)
        below.set_ylim(bottom=0)
        label_amounts(below, "B", 1024)
        below.set_ylabel("in all, so far")
        time_axis.limit(below)
        time_axis.label(below)
        lost, skipped, holes = (int(bins[name].sum()) for name in ("lost", "skipped", "holes"))
        parts = [count(holes, "hole"), f"{lost:,} bytes lost", f"{skipped:,} bytes passed over"]
        if len(bins.keys) > len(chosen):
            parts.append(f"{len(bins.keys) - len(chosen):,} more directions with less are not shown")
        context.title(figure, "Gaps", ", ".join(parts))
        return figure

    def _label(self, lane: int, context: FigureContext) -> str:
        key = self.bins.keys[lane]
        return f"{label_text(context.names.label(key >> 1), 28)}, {'server' if key & 1 else 'client'}"
