"""Where bytes are missing: a row for each direction of a connection with its numbers, and below it the sums over time.

A packet that is missing can cost more than its own bytes: the rest of a message behind a hole cannot be read either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.figure import FigureContext, TimeAxis, count, label_amounts
from analysis.plots.row_labels import busiest, figure_height, label_rows
from analysis.plots.theme import label_text
from analysis.plots.time_bins import SUM, TimeBins

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.plots.batch import PlotBatch
    from dissector.array_types import Longs

_SIDES = ("client", "server")
#: Kinds of missing bytes: name, place in the row, shape, index of the series (None: the colour of errors), what it is.
_KINDS = (
    ("lost", -0.16, "o", None, "missing between messages"),
    ("cut", 0.0, "D", 3, "missing in a message, from a hole to its end"),
    ("skipped", 0.16, "s", 1, "passed over: no message"),
)
#: Columns of numbers beside the rows, and where they end: points to the right of the axes.
_COLUMNS = (("holes", 36), ("bytes lost", 96), ("of all", 138), ("messages cut", 208))


class Gaps:
    """Bytes lost, bytes of messages that were cut short and bytes skipped, by connection and direction."""

    columns = frozenset(("gap", "skipped", "missing", "from_start"))

    def __init__(self) -> None:
        self.bins = TimeBins(lost=SUM, cut=SUM, skipped=SUM, holes=SUM, messages=SUM)
        self._range: tuple[int, int] | None = None
        self._begun: dict[int, bool] = {}  #: by key, whether its beginning is in the capture

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        if not frames.size:
            return
        first, last = int(frames.time_ns.min()), int(frames.time_ns.max())
        self._range = (min(first, self._range[0]), max(last, self._range[1])) if self._range else (first, last)
        keys = frames.connection << 1 | frames.direction
        self._note_beginnings(frames, keys)
        lost, cut, skipped = (np.maximum(frames.numbers(name), 0) for name in ("gap", "missing", "skipped"))
        rows = np.flatnonzero(lost + cut + skipped)
        lanes, bins, kept = self.bins.place(keys[rows], frames.time_ns[rows])
        for name, numbers in (("lost", lost), ("cut", cut), ("skipped", skipped)):
            self.bins.put(name, lanes, bins, numbers[rows[kept]])
        self.bins.put("holes", lanes, bins, 1)
        self.bins.put("messages", lanes, bins, (cut[rows[kept]] > 0).astype(np.int64))

    def finish(self) -> None:
        """Extend the time axis to the whole capture."""
        if self._range is not None and self.bins.keys:
            self.bins.extend(*self._range)

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        if self.bins.keys:
            return None
        return ", but ".join(["no bytes are missing between frames", *self._late()])

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        bins, theme = self.bins, context.theme
        time_axis = TimeAxis(bins.first_ns or 0, bins.last_ns)
        chosen = busiest(self._unread().sum(axis=1), bins.keys)
        figure, (above, below) = context.figure(
            figure_height(len(chosen)) + 2.3, rows=2, sharex=True, height_ratios=[0.36 * max(len(chosen), 2), 1.8]
        )
        times = time_axis(np.maximum(bins.starts_ns(), bins.first_ns or 0))
        for row, lane in enumerate(chosen):
            for name, offset, shape, series, text in _KINDS:
                at = np.flatnonzero(bins[name][lane])
                if len(at):
                    sizes = 12 + 14 * np.log10(np.maximum(bins[name][lane][at], 1))
                    color = theme.error if series is None else theme.series[series]
                    places = np.full(len(at), row + offset)
                    above.scatter(times[at], places, sizes, color=color, marker=shape, alpha=0.7, label=text)
        label_rows(above, [self._label(lane, context) for lane in chosen])
        self._write_numbers(above, chosen, context)
        self._draw_sums(below, time_axis, context)
        time_axis.limit(below)
        time_axis.label(below)
        handles = dict(zip(*reversed(above.get_legend_handles_labels()), strict=True))
        legend = figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=3, title="larger marks: more bytes"
        )
        for handle in legend.legend_handles:
            handle.set_sizes([40])  # type: ignore[union-attr]
        parts = self._summary(context)
        if len(bins.keys) > len(chosen):
            parts.append(f"{len(bins.keys) - len(chosen):,} more directions with less are not shown")
        context.title(figure, "Gaps", ", ".join(parts))
        return figure

    def _summary(self, context: FigureContext) -> list[str]:
        """Return the sums over everything, for the subtitle."""
        holes, lost, cut, skipped, messages = (
            int(self.bins[name].sum()) for name in ("holes", "lost", "cut", "skipped", "messages")
        )
        seen = {context.names.connections[key >> 1].id for key in self._begun}
        ends = [end for name, end in context.names.ends.by_id.items() if name in seen]
        of_tcp = f"{sum(sum(end.lost) for end in ends):,} bytes lost"
        parts = [count(holes, "hole"), of_tcp if ends else f"{lost:,} bytes lost between messages"]
        if messages:
            parts.append(f"{count(messages, 'message')} cut short, {cut:,} bytes of them unread")
        if skipped:
            parts.append(f"{skipped:,} bytes passed over")
        return parts + self._late()

    def _draw_sums(self, axes: Axes, time_axis: TimeAxis, context: FigureContext) -> None:
        """Draw how many bytes could not be read so far, from either side."""
        bins, theme = self.bins, context.theme
        unread = self._unread()
        sides = np.array([key & 1 for key in bins.keys])
        ends = time_axis(np.r_[np.maximum(bins.starts_ns(), bins.first_ns or 0), bins.last_ns])
        for side, (name, dash) in enumerate(zip(_SIDES, ("--", "-"), strict=True)):
            total = np.cumsum(unread[sides == side].sum(axis=0))
            if total[-1]:
                line = np.r_[total, total[-1]]
                label = f"from the {name}: {int(total[-1]):,} bytes"
                axes.plot(ends, line, drawstyle="steps-post", color=theme.series[side], linestyle=dash, label=label)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.set_ylim(bottom=0)
        label_amounts(axes, "B", 1024)
        axes.set_ylabel("unread so far")

    def _unread(self) -> Longs:
        """Return by lane and bin how many bytes could not be read."""
        return self.bins["lost"] + self.bins["cut"] + self.bins["skipped"]

    def _write_numbers(self, axes: Axes, chosen: list[int], context: FigureContext) -> None:
        """Write the numbers of each row beside it."""
        form: dict[str, Any] = {"fontsize": 8, "ha": "right", "va": "center", "annotation_clip": False}
        form |= {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        for place, (heading, points) in enumerate(_COLUMNS):
            axes.annotate(heading, (1, -0.85), (points, 0), color=context.theme.quiet, **form)
            for row, lane in enumerate(chosen):
                axes.annotate(self._numbers(lane, context)[place], (1, row), (points, 0), **form)

    def _numbers(self, lane: int, context: FigureContext) -> tuple[str, ...]:
        """Return a direction's holes, lost bytes, their share, and messages that were cut short."""
        key = self.bins.keys[lane]
        holes, lost, cut = (int(self.bins[name][lane].sum()) for name in ("holes", "lost", "messages"))
        end = context.names.ends.by_id.get(context.names.connections[key >> 1].id)
        if end is None:  # rows of frames do not tell what packets had
            return f"{holes:,}", f"{lost:,}", "", f"{cut:,}"
        lost, there = end.lost[key & 1], end.there[key & 1]
        return f"{holes:,}", f"{lost:,}", f"{lost / max(lost + there, 1):.1%}", f"{cut:,}"

    def _note_beginnings(self, frames: PlotBatch, keys: Any) -> None:
        known, first = np.unique(keys, return_index=True)
        from_start = frames.batch.column("from_start").to_numpy(zero_copy_only=False)
        for key, row in zip(known.tolist(), first.tolist(), strict=True):
            self._begun.setdefault(key, bool(from_start[row]))

    def _late(self) -> list[str]:
        """Tell of connections that began before the capture."""
        late = len({key >> 1 for key, begun in self._begun.items() if not begun})
        return [f"{count(late, 'connection')} began before the capture"] if late else []

    def _label(self, lane: int, context: FigureContext) -> str:
        key = self.bins.keys[lane]
        return f"{label_text(context.names.label(key >> 1), 28)}, {_SIDES[key & 1]}"
