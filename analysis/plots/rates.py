"""Messages and bytes per second, by opcode. Knows the names of messages; must not know what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.plots.figure import FigureContext, TimeAxis, count, duration, label_amounts
from analysis.plots.theme import label_text
from analysis.plots.time_bins import SUM, TimeBins
from dissector.frames.batch import distinct

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.plots.batch import PlotBatch

SHOWN = 7  #: opcodes with a colour of their own
_BARS = 100  #: at most: more would be too thin to see
_HEADER = 24


class Rates:
    """Frames and bytes by opcode."""

    columns = frozenset(("name", "body_length"))

    def __init__(self) -> None:
        self.bins = TimeBins(frames=SUM, bytes=SUM)
        self.names: dict[int, str] = {}

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        key = frames.opcode | frames.response.astype(np.int64) << 8 | frames.numbering << 9
        for code in distinct(key)[0]:
            if code not in self.names:
                row = int(np.argmax(key == code))
                name = label_text(frames.batch.column("name")[row].as_py() or f"0x{code & 0xFF:02x}")
                self.names[code] = f"{name} reply" if frames.response[row] and not frames.draft[row] else name
        lanes, bins, kept = self.bins.place(key, frames.time_ns)
        self.bins.put("frames", lanes, bins, 1)
        self.bins.put("bytes", lanes, bins, np.maximum(frames.numbers("body_length"), 0)[kept] + _HEADER)

    def finish(self) -> None:
        """Do nothing: every batch is complete by itself."""

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        return None if self.bins.keys else "there are no frames"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        bins = self.bins
        time_axis = TimeAxis(bins.first_ns or 0, bins.last_ns)
        figure, (above, below) = context.figure(6.4, rows=2, sharex=True)
        factor = max(1, -(-bins.count // _BARS))
        seconds = factor * bins.width_ns / 1e9
        total = bins["frames"].sum(axis=1)
        order = np.argsort(-total, kind="stable").tolist()
        edges = time_axis((bins.low + np.arange(-(-bins.count // factor) + 1) * factor << bins.shift).astype(np.int64))
        for axes, name, unit in ((above, "frames", ""), (below, "bytes", "B")):
            stacked = self._series(name, order, factor) / seconds
            self._stack(axes, edges, stacked, order, context)
            label_amounts(axes, unit, 1024 if unit else 1000)
        above.set_ylabel("messages per second")
        below.set_ylabel("bytes per second")
        time_axis.limit(below)
        time_axis.label(below)
        handles, labels = above.get_legend_handles_labels()
        figure.legend(handles[::-1], labels[::-1], loc="outside right upper")
        parts = [count(int(total.sum()), "message"), f"a bar is {duration(seconds * 1e9)}"]
        parts += context.zoom_hint(bins["frames"].sum(axis=0), bins.starts_ns(), bins.width_ns)
        context.title(figure, "Rates by opcode", ", ".join(parts))
        return figure

    def _series(self, name: str, order: list[int], factor: int) -> NDArray[np.float64]:
        """Return the sum of each bar, in a row for each shown opcode and one for all others."""
        array = self.bins[name]
        bars = -(-array.shape[1] // factor)
        padded = np.zeros((array.shape[0], bars * factor))
        padded[:, : array.shape[1]] = array
        summed = padded.reshape(array.shape[0], bars, factor).sum(axis=2)
        found: NDArray[np.float64] = np.vstack([summed[order[:SHOWN]], summed[order[SHOWN:]].sum(axis=0)])
        return found

    def _stack(
        self,
        axes: Axes,
        edges: NDArray[np.float64],
        rows: NDArray[np.float64],
        order: list[int],
        context: FigureContext,
    ) -> None:
        base = np.zeros(rows.shape[1])
        for place, row in enumerate(rows):
            if place < min(SHOWN, len(order)):
                lane = order[place]
                total = int(self.bins["frames"][lane].sum())
                label, color = f"{self.names[self.bins.keys[lane]]} ({total:,})", context.theme.series[place]
            elif not row.any():
                continue
            else:
                label, color = count(len(order) - SHOWN, "other"), context.theme.faint
            axes.stairs(base + row, edges, baseline=base, fill=True, color=color, linewidth=0, label=label)
            base = base + row
        axes.set_ylim(0, max(float(base.max()) * 1.06, 1.0))
