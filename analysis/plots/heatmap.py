"""Items by vbucket and time: which vbucket was busy when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.figure import FigureContext, TimeAxis, count, duration
from analysis.plots.time_bins import SUM, TimeBins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.plots.batch import PlotBatch
    from dissector.array_types import Longs


_NAMED = 40  #: with up to so many vbuckets, every row has its label
_TICKS = 12
_COLUMNS, _ROWS = 400, 256  #: more would be too small to see
_LEAST_COLUMNS = 60
_BUSY = 0.35  #: fraction of cells that should not be empty: single dots are hard to see


class Heatmap:
    """Items by vbucket."""

    columns = frozenset(("by_seqno", "vbucket"))

    def __init__(self) -> None:
        self.bins = TimeBins(items=SUM)

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        vbucket = frames.numbers("vbucket")
        rows = np.flatnonzero((frames.numbers("by_seqno") >= 0) & (vbucket >= 0))
        lanes, bins, _ = self.bins.place(vbucket[rows], frames.time_ns[rows])
        self.bins.put("items", lanes, bins, 1)

    def finish(self) -> None:
        """Do nothing: every batch is complete by itself."""

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        return None if self.bins.keys else "no message of a stream has a seqno"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        from matplotlib.colors import LogNorm, Normalize  # noqa: PLC0415 - see analysis.plots.theme.require_matplotlib
        from matplotlib.ticker import NullFormatter  # noqa: PLC0415

        bins = self.bins
        time_axis = TimeAxis(bins.first_ns or 0, bins.last_ns)
        order = sorted(range(len(bins.keys)), key=lambda lane: bins.keys[lane])
        vbuckets = [bins.keys[lane] for lane in order]
        vbuckets_per_row = -(-len(order) // _ROWS)
        items = _merge_columns(bins["items"][order].T, vbuckets_per_row).T
        factor = -(-bins.count // _COLUMNS)
        while bins.count // factor > _LEAST_COLUMNS and np.mean(_merge_columns(items, factor) > 0) < _BUSY:
            factor *= 2
        items = _merge_columns(items, factor)
        columns = items.shape[1]
        edges = time_axis((bins.low + np.arange(columns + 1) * factor << bins.shift).astype(np.int64))
        height = min(7.0, max(2.6, 1.9 + 0.19 * len(order)))
        figure, (axes,) = context.figure(height)
        axes.grid(visible=False)
        most = int(items.max())
        norm = LogNorm(1, most) if most > 20 else Normalize(0, max(most, 1))
        shown = np.ma.masked_equal(items, 0)
        mesh = axes.pcolormesh(
            edges,
            np.r_[np.arange(len(items)) * vbuckets_per_row, len(order)],
            shown,
            norm=norm,
            cmap=context.theme.colormap(),
            rasterized=True,
        )
        width = duration(factor * bins.width_ns)
        bar = figure.colorbar(mesh, ax=axes, label=f"items in {width}", pad=0.01, fraction=0.05)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        bar.ax.yaxis.set_minor_formatter(NullFormatter())
        ticks = np.arange(len(order))
        if len(order) > _NAMED:
            ticks = np.unique(np.linspace(0, len(order) - 1, _TICKS).astype(np.int64))
        axes.set_yticks(ticks + 0.5, [str(vbuckets[tick]) for tick in ticks.tolist()])
        axes.set_ylabel("vbucket")
        axes.invert_yaxis()
        time_axis.limit(axes)
        time_axis.label(axes)
        parts = [count(int(bins["items"].sum()), "item"), count(len(order), "vbucket"), f"a column is {width}"]
        if vbuckets_per_row > 1:
            parts.append(f"{vbuckets_per_row} vbuckets a row")
        if bins.left_out:
            parts.append(f"{bins.left_out:,} items of further vbuckets are not shown")
        context.title(figure, "Items by vbucket", ", ".join(parts))
        return figure


def _merge_columns(array: Longs, factor: int) -> Longs:
    """Add up each ``factor`` columns."""
    rows, columns = array.shape
    padded = np.zeros((rows, -(-columns // factor) * factor), np.int64)
    padded[:, :columns] = array
    found: Longs = padded.reshape(rows, -1, factor).sum(axis=2)
    return found
