"""Messages and bytes per second, by opcode.

Plain memcached messages on the same port, such as thousands of statistics, have a small panel and a scale of their
own: beside them nothing of UPR could be seen. Knows the names of messages; must not know what they mean.
"""

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
_SHOWN_BESIDE = 3  #: of plain memcached
_BARS = 100  #: at most: more would be too thin to see
_HEADER = 24


class Rates:
    """Frames and bytes by opcode."""

    columns = frozenset(("name", "body_length"))

    def __init__(self) -> None:
        self.bins = TimeBins(frames=SUM, bytes=SUM)
        self.names: dict[int, str] = {}
        self.beside: set[int] = set()  #: keys of plain memcached

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        key = frames.opcode | frames.response.astype(np.int64) << 8 | frames.numbering << 9
        for code in distinct(key)[0]:
            if code not in self.names:
                row = int(np.argmax(key == code))
                name = label_text(frames.batch.column("name")[row].as_py() or f"0x{code & 0xFF:02x}")
                self.names[code] = f"{name} reply" if frames.response[row] and not frames.draft[row] else name
                if not frames.upr[row]:
                    self.beside.add(code)
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
        total = bins["frames"].sum(axis=1)
        order = np.argsort(-total, kind="stable").tolist()
        beside = [lane for lane in order if bins.keys[lane] in self.beside]
        upr = [lane for lane in order if bins.keys[lane] not in self.beside] or order
        panels = [("frames", upr, SHOWN, "messages per second"), ("bytes", upr, SHOWN, "bytes per second")]
        ratios = [2.6, 2.6]
        if beside and upr is not order:
            panels.append(("frames", beside, _SHOWN_BESIDE, "per second"))
            ratios.append(1.0)
        figure, all_axes = context.figure(1.2 + sum(ratios), rows=len(panels), sharex=True, height_ratios=ratios)
        factor = max(1, -(-bins.count // _BARS))
        seconds = factor * bins.width_ns / 1e9
        edges = time_axis((bins.low + np.arange(-(-bins.count // factor) + 1) * factor << bins.shift).astype(np.int64))
        for axes, (name, lanes, shown, unit) in zip(all_axes, panels, strict=True):
            self._stack(axes, edges, self._series(name, lanes, shown, factor) / seconds, lanes, context)
            label_amounts(axes, "B" if name == "bytes" else "", 1024 if name == "bytes" else 1000)
            axes.set_ylabel(unit)
        all_axes[0].set_title("UPR and DCP" if upr is not order else "memcached")
        for axes in (all_axes[0], *all_axes[2:]):
            handles, labels = axes.get_legend_handles_labels()
            axes.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0))
        if len(panels) > 2:
            all_axes[2].set_title("plain memcached on the same connections or ports, with a scale of its own")
        time_axis.limit(all_axes[-1])
        time_axis.label(all_axes[-1])
        parts = [count(int(total[upr].sum()), "message"), f"a bar is {duration(seconds * 1e9)}"]
        if len(panels) > 2:
            parts.insert(1, f"{int(total[beside].sum()):,} of plain memcached")
        parts += context.zoom_hint(bins["frames"][upr].sum(axis=0), bins.starts_ns(), bins.width_ns)
        context.title(figure, "Rates by opcode", ", ".join(parts))
        return figure

    def _series(self, name: str, lanes: list[int], shown: int, factor: int) -> NDArray[np.float64]:
        """Return the sum of each bar, in a row for each shown opcode and one for all others."""
        array = self.bins[name][lanes]
        bars = -(-array.shape[1] // factor)
        padded = np.zeros((array.shape[0], bars * factor))
        padded[:, : array.shape[1]] = array
        summed = padded.reshape(array.shape[0], bars, factor).sum(axis=2)
        found: NDArray[np.float64] = np.vstack([summed[:shown], summed[shown:].sum(axis=0)])
        return found

    def _stack(
        self,
        axes: Axes,
        edges: NDArray[np.float64],
        rows: NDArray[np.float64],
        lanes: list[int],
        context: FigureContext,
    ) -> None:
        """Draw the rows on top of each other: those of the first lanes, and all others in the last row."""
        shown = lanes[: len(rows) - 1]
        base = np.zeros(rows.shape[1])
        for place, row in enumerate(rows):
            if place < len(shown):
                lane = shown[place]
                total = int(self.bins["frames"][lane].sum())
                label, color = f"{self.names[self.bins.keys[lane]]} ({total:,})", context.theme.series[place]
            elif not row.any():
                continue
            else:
                label, color = count(len(lanes) - len(shown), "other"), context.theme.faint
            axes.stairs(base + row, edges, baseline=base, fill=True, color=color, linewidth=0, label=label)
            base = base + row
        axes.set_ylim(0, max(float(base.max()) * 1.06, 1.0))
