"""Seqnos over time: a line for each stream, the ranges of its snapshots, findings marked.

For each stream and bin the first, last, lowest and highest seqno are kept: enough to draw the same line as all points
would give. Knows by_seqno and snapshot markers; must not know rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context.kinds import SNAPSHOT_MARKER, STREAM_END
from analysis.plots.figure import FigureContext, TimeAxis, count
from analysis.plots.theme import label_text
from analysis.plots.time_bins import FIRST, LAST, LEAST, MAX_LANES, MOST, NONE, TimeBins, forward_fill

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.check.findings import Finding
    from analysis.plots.batch import PlotBatch


FEW = 12  #: up to so many streams, each has its own colour, and its snapshots are drawn
_SHADED = 3  #: up to so many streams, the range of the current snapshot is shaded: more shades lie on each other
_CONNECTION, _VBUCKET = 32, 16  #: bits to the right of them in a key
_NAMED = 6  #: streams with findings that are named, if there are more than FEW streams
_MANY = 48  #: from so many streams on, percentiles are drawn too
_BEGUN = 0.9  #: fraction of streams that must have begun before percentiles mean anything
_PERCENTILES = (10, 50, 90)
_DASHES = ("-", "--", ":")


class Seqnos:
    """Seqnos and snapshot ranges by stream."""

    columns = frozenset(("by_seqno", "vbucket", "stream_id", "snap_start_seqno", "snap_end_seqno"))

    def __init__(self) -> None:
        self.items = 0
        self.snapshots = 0
        self._ended_ns: dict[int, int] = {}  #: by stream, time of its last stream end
        self.bins = TimeBins(first=FIRST, last=LAST, least=LEAST, most=MOST, start=LEAST, end=MOST)

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        vbucket, seqno = frames.numbers("vbucket"), frames.numbers("by_seqno")
        stream = np.maximum(frames.numbers("stream_id"), 0)
        key = frames.connection << _CONNECTION | np.maximum(vbucket, 0) << _VBUCKET | stream & 0xFFFF
        rows = np.flatnonzero((seqno >= 0) & (vbucket >= 0))
        self.items += len(rows)
        lanes, bins, kept = self.bins.place(key[rows], frames.time_ns[rows])
        for name in ("first", "last", "least", "most"):
            self.bins.put(name, lanes, bins, seqno[rows[kept]])
        start, end = frames.numbers("snap_start_seqno"), frames.numbers("snap_end_seqno")
        rows = np.flatnonzero(frames.requests(SNAPSHOT_MARKER) & (start >= 0) & (end >= 0) & (vbucket >= 0))
        self.snapshots += len(rows)
        lanes, bins, kept = self.bins.place(key[rows], frames.time_ns[rows])
        self.bins.put("start", lanes, bins, start[rows[kept]])
        self.bins.put("end", lanes, bins, end[rows[kept]])

        over = np.flatnonzero(frames.requests(STREAM_END) & (vbucket >= 0))
        if len(self._ended_ns) < MAX_LANES:
            self._ended_ns.update(zip(key[over].tolist(), frames.time_ns[over].tolist(), strict=True))

    def finish(self) -> None:
        """Do nothing: every batch is complete by itself."""

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        return None if self.items or self.snapshots else "no message of a stream has a seqno"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 - see analysis.plots.theme.require_matplotlib

        bins = self.bins
        time_axis = TimeAxis(bins.first_ns or 0, bins.last_ns)
        few = len(bins.keys) <= FEW
        figure, (axes,) = context.figure(5.6)
        if few:
            self._draw_few(axes, context, time_axis)
        else:
            self._draw_many(axes, figure, context, time_axis)
        marked = self._mark_findings(axes, context, time_axis)
        axes.set_ylabel("by_seqno")
        axes.ticklabel_format(axis="y", style="plain", useOffset=False)
        axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.margins(y=0.06)
        time_axis.limit(axes)
        time_axis.label(axes)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            if few:
                axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0))
            else:  # the bar of colours is on the right
                figure.legend(handles, labels, loc="outside lower center", ncols=4)
        parts = [count(len(bins.keys), "stream"), count(self.items, "item"), count(self.snapshots, "snapshot")]
        if marked:
            parts.append(f"{count(marked, 'finding')} marked")
        if bins.left_out:
            parts.append(f"{bins.left_out:,} items of further streams are not shown")
        if not few and self.snapshots:
            parts.append(f"snapshots are drawn for up to {FEW} streams (--vbucket, --connection)")
        parts += context.zoom_hint((bins["last"] != NONE).sum(axis=0), bins.starts_ns(), bins.width_ns)
        context.title(figure, "Seqno progress", ", ".join(parts))
        return figure

    def label(self, key: int, context: FigureContext) -> str:
        """Return the label of a stream."""
        stream = f" stream {key & 0xFFFF}" if key & 0xFFFF else ""
        name = label_text(context.names.label(key >> _CONNECTION), 20)
        return f"vbucket {key >> _VBUCKET & 0xFFFF}{stream} ({name})"

    def line(self, lane: int, time_axis: TimeAxis) -> tuple[Any, Any]:
        """Return the points of a stream's line."""
        bins = self.bins
        there = np.flatnonzero(bins["last"][lane] != NONE)
        start, width = bins.starts_ns()[there], bins.width_ns
        times = np.repeat(start, 4) + np.tile((np.arange(4) * width) // 4, len(there))
        values = np.column_stack([bins[name][lane][there] for name in ("first", "least", "most", "last")])
        # A bin with one item gives one point. With rising seqnos first = least and most = last: points stay in order.
        times = np.clip(times, bins.first_ns, bins.last_ns)
        alone = np.repeat(bins["least"][lane][there] == bins["most"][lane][there], 4)
        keep = ~alone | (np.arange(len(times)) % 4 == 0)
        return time_axis(times[keep]), values.ravel()[keep]

    def _draw_few(self, axes: Axes, context: FigureContext, time_axis: TimeAxis) -> None:
        bins, series = self.bins, context.theme.series
        edges = np.r_[bins.starts_ns(), (bins.starts_ns()[-1:] + bins.width_ns)]
        edges = time_axis(np.clip(edges, bins.first_ns, max(bins.last_ns, (bins.first_ns or 0) + 1)))
        shaded = len(bins.keys) <= _SHADED
        for place, lane in enumerate(sorted(range(len(bins.keys)), key=lambda lane: bins.keys[lane])):
            color, dash = series[place % len(series)], _DASHES[place // len(series) % len(_DASHES)]
            if shaded:
                self._shade_snapshots(axes, lane, edges, color, context)
            else:
                at = np.flatnonzero(bins["start"][lane] != NONE)
                low, high = bins["start"][lane][at], bins["end"][lane][at]
                axes.vlines(edges[at], low, high, color=color, alpha=0.7, linewidth=1.0, zorder=1.6)
            times, values = self.line(lane, time_axis)
            marker = "o" if len(times) <= 60 else ""
            label = self.label(bins.keys[lane], context)
            form: dict[str, Any] = {"drawstyle": "steps-post", "linestyle": dash, "marker": marker, "markersize": 3}
            axes.plot(times, values, color=color, label=label, zorder=2.5, **form)
        if (bins["start"] != NONE).any() and shaded:
            axes.fill_between([], [], [], color=context.theme.quiet, alpha=0.3, linewidth=0, label="current snapshot")
        elif (bins["start"] != NONE).any():
            axes.plot([], [], "|", color=context.theme.quiet, markersize=9, label="range of a snapshot")

    def _shade_snapshots(self, axes: Axes, lane: int, edges: Any, color: str, context: FigureContext) -> None:
        bins = self.bins
        start, end = (forward_fill(bins[name][lane : lane + 1])[0] for name in ("start", "end"))
        there = (start != NONE) & ~self._ended(lane, context)
        if not there.any():
            return
        low, high = (np.where(there, filled.astype(float), np.nan) for filled in (start, end))
        low, high = np.r_[low, low[-1]], np.r_[high, high[-1]]
        at_end = int(np.flatnonzero(there)[-1]) + 1  # the last bin has a right edge too
        low[at_end], high[at_end] = low[at_end - 1], high[at_end - 1]
        axes.fill_between(edges, low, high, step="post", color=color, alpha=0.16, linewidth=0, zorder=1.5)
        for edge in (low, high):
            axes.plot(edges, edge, color=color, drawstyle="steps-post", alpha=0.35, linewidth=0.7, zorder=1.6)

    def _ended(self, lane: int, context: FigureContext) -> NDArray[np.bool_]:
        """Return a mask of the bins after the end of the stream, or of its connection."""
        bins = self.bins
        starts = bins.starts_ns()
        after: NDArray[np.bool_] = starts > context.names.end_ns(bins.keys[lane] >> _CONNECTION)
        ended = self._ended_ns.get(bins.keys[lane])
        if ended is not None and starts[np.flatnonzero(bins["start"][lane] != NONE)].max(initial=0) <= ended:
            after |= starts > ended  # no later stream has the same key
        return after

    def _draw_many(self, axes: Axes, figure: Figure, context: FigureContext, time_axis: TimeAxis) -> None:
        from matplotlib.collections import LineCollection  # noqa: PLC0415 - see analysis.plots.theme.require_matplotlib
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

        bins = self.bins
        lines = [_steps(*self.line(lane, time_axis)) for lane in range(len(bins.keys))]
        vbuckets = np.array([key >> _VBUCKET & 0xFFFF for key in bins.keys])
        drawn = LineCollection(
            lines,
            array=vbuckets,
            cmap=context.theme.colormap(),
            linewidths=max(0.4, min(1.2, 60 / len(lines))),
            alpha=0.75,
            rasterized=True,
            zorder=2,
        )
        axes.add_collection(drawn)
        axes.autoscale_view()
        if len(lines) >= _MANY:
            self._draw_percentiles(axes, context, time_axis)
        bar = figure.colorbar(drawn, ax=axes, label="vbucket", pad=0.01, fraction=0.04)
        bar.ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))

    def _draw_percentiles(self, axes: Axes, context: FigureContext, time_axis: TimeAxis) -> None:
        """Draw percentiles: among very many lines no single one can be followed."""
        bins = self.bins
        last = forward_fill(bins["last"])
        begun = np.flatnonzero((last != NONE).mean(axis=0) >= _BEGUN)
        if not len(begun) or begun[0] > bins.count / 2:
            return  # streams that follow one another have no common progress
        times = time_axis(np.clip(bins.starts_ns()[begun], bins.first_ns, bins.last_ns))
        known = np.where(last == NONE, np.nan, last.astype(float))[:, begun]
        percentiles = np.nanpercentile(known, _PERCENTILES, axis=0)
        for percentile, dash, label in zip(
            percentiles, (":", "-", "--"), [f"p{part} of the streams" for part in _PERCENTILES], strict=True
        ):
            axes.plot(
                times, percentile, color=context.theme.ink, linestyle=dash, linewidth=1.8, label=label, zorder=2.8
            )

    def _mark_findings(self, axes: Axes, context: FigureContext, time_axis: TimeAxis) -> int:
        """Mark findings; name the streams of the first ones where lines have no names."""
        lanes = {key: lane for lane, key in enumerate(self.bins.keys)}
        marked: dict[str, list[tuple[float, float]]] = {}
        named: dict[int, None] = {}
        for finding in context.findings:
            key = _key(finding, context)
            if key in lanes:
                marked.setdefault(finding.severity.value, []).append(self._point(finding, lanes[key], time_axis))
                named[key] = None
        for severity, points in marked.items():
            color, shape = context.theme.mark(severity)
            times, values = zip(*points, strict=True)
            axes.scatter(
                times, values, color=color, marker=shape, s=42, zorder=4, edgecolors=context.theme.paper, label=severity
            )
        if len(lanes) > FEW:
            for place, key in enumerate(list(named)[:_NAMED]):
                color = context.theme.series[place % len(context.theme.series)]
                times, values = self.line(lanes[key], time_axis)
                label = self.label(key, context)
                axes.plot(times, values, color=color, drawstyle="steps-post", label=label, zorder=3)
        return sum(len(points) for points in marked.values())

    def _point(self, finding: Finding, lane: int, time_axis: TimeAxis) -> tuple[float, float]:
        """Return the point of a finding: at its seqno if the stream has it, else on the stream's line."""
        bins = self.bins
        seqno = finding.facts.get("by_seqno", -1)
        if seqno < 0 or not self._seen(lane, seqno):
            there = np.flatnonzero(bins["last"][lane] != NONE)
            source = "last" if len(there) else "end"
            there = there if len(there) else np.flatnonzero(bins["end"][lane] != NONE)
            wanted = (finding.time_ns >> bins.shift) - bins.low
            seqno = int(bins[source][lane][there[np.argmin(np.abs(there - wanted))]])
        return float(time_axis(finding.time_ns)), float(seqno)

    def _seen(self, lane: int, seqno: int) -> bool:
        least, most = self.bins["least"][lane], self.bins["most"][lane]
        there = least != NONE
        return bool(((least <= seqno) & (most >= seqno) & there).any())


def _steps(times: Any, values: Any) -> Any:
    """Return the corners of a line that is level until the next point."""
    return np.column_stack([np.repeat(times, 2)[1:], np.repeat(values, 2)[:-1]])


def _key(finding: Finding, context: FigureContext) -> int:
    number = context.names.number(finding.connection)
    if number is None or finding.vbucket is None:
        return -1
    return number << _CONNECTION | finding.vbucket << _VBUCKET | (finding.stream_id or 0)
