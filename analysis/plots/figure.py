"""What figures of all kinds share: context, title, time axis, numbers with units."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.plots.theme import label_text
from dissector.terminal import amounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.check.findings import Finding
    from analysis.plots.batch import ConnectionNames
    from analysis.plots.theme import Theme

WIDTH = 10.0  #: inches
count, duration = amounts.count, amounts.duration
_PART, _MOST = 16, 0.6  #: 60 % of the weight in 1/16 of the time deserve a figure of their own
TOP = 0.72  #: inches for title and subtitle


@dataclass(slots=True)
class FigureContext:
    """Everything a figure needs besides its numbers."""

    theme: Theme
    names: ConnectionNames
    captures: str = ""  #: what was read, for the subtitle
    findings: Sequence[Finding] = ()
    start_ns: int | None = None  #: of the first frame
    notes: list[str] = field(default_factory=list)

    def figure(self, height: float, rows: int = 1, width: float = WIDTH, **grid: Any) -> tuple[Figure, list[Axes]]:
        """Begin a figure with some axes."""
        from matplotlib.figure import Figure as Made  # noqa: PLC0415 - see analysis.plots.theme.require_matplotlib
        from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

        layout = ConstrainedLayoutEngine(rect=(0.0, 0.0, 1.0, 1 - TOP / height))
        figure = Made(figsize=(width, height), layout=layout)
        axes = figure.subplots(rows, squeeze=False, **grid)
        return figure, list(axes.flat)

    def zoom_hint(self, weights: NDArray[np.int64], starts_ns: NDArray[np.int64], width_ns: int) -> list[str]:
        """Return a note on the option that shows more, if most of the weight is within a small part of the time."""
        wide = len(weights) // _PART
        if self.start_ns is None or wide < 1:
            return []
        sums = np.concatenate(([0], np.cumsum(weights)))
        inside = sums[wide:] - sums[:-wide]
        at = int(np.argmax(inside))
        if inside[at] < _MOST * sums[-1]:
            return []
        busy = np.flatnonzero(weights[at : at + wide])
        begin, end = int(starts_ns[at + busy[0]]), int(starts_ns[at + busy[-1]]) + width_ns
        begin_s, end_s = max(begin - self.start_ns, 0) / 1e9, max(end - self.start_ns, 1) / 1e9
        return [f"most of it at {begin_s:.6g}-{end_s:.6g} s (--time)"]

    def title(self, figure: Figure, title: str, subtitle: str = "") -> None:
        """Write the title and, below it, notes and the names of the captures."""
        height = figure.get_size_inches()[1]
        parts = [part for part in (subtitle, *self.notes, label_text(self.captures, 60)) if part]
        left = 0.12 / figure.get_size_inches()[0]
        figure.text(left, 1 - 0.14 / height, title, fontsize=12, fontweight="bold", va="top")
        figure.text(left, 1 - 0.42 / height, "  |  ".join(parts), fontsize=8, color=self.theme.quiet, va="top")


def described(figure: Figure) -> str:
    """Say in words what a figure shows: what stands below its title, and above its panels."""
    below = [text.get_text().replace("  |  ", ", ") for text in figure.texts[1:2]]
    return "; ".join([*below, *filter(None, (axes.get_title(loc="left") for axes in figure.axes))])


class TimeAxis:
    """The x axis of a figure: times of a capture, in a unit that fits."""

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self.first_ns = first_ns
        self.range_ns = max(last_ns - first_ns, 1)
        self.scale, self.unit = next(
            ((scale, unit) for scale, unit in amounts.TIME_UNITS if self.range_ns >= 2 * scale), (1e3, "µs")
        )

    def __call__(self, time_ns: NDArray[np.int64] | int) -> Any:
        """Return where times are on the axis."""
        return (np.asarray(time_ns, np.int64) - self.first_ns) / self.scale

    def label(self, axes: Axes) -> None:
        """Write the start and the unit below the axis."""
        axes.set_xlabel(f"time since {_utc(self.first_ns)} [{self.unit}]")

    def limit(self, axes: Axes) -> None:
        """Show the whole time, with a margin on both sides."""
        width = self.range_ns / self.scale
        axes.set_xlim(-0.015 * width, 1.015 * width)


def _utc(time_ns: int) -> str:
    try:
        return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # no calendar has it
        return f"{time_ns} ns"


def label_amounts(axes: Axes, unit: str, power: int = 1000) -> None:
    """Write the numbers of the y axis with prefixes: 2 MiB, 15 k."""
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    prefixes = ("", "Ki", "Mi", "Gi", "Ti") if power == 1024 else ("", "k", "M", "G", "T")

    def written(value: float, _: int) -> str:
        step = 0
        while abs(value) >= power and step < len(prefixes) - 1:
            value, step = value / power, step + 1
        return f"{value:.4g} {prefixes[step]}{unit}".rstrip()

    axes.yaxis.set_major_formatter(FuncFormatter(written))
    if power == 1024:  # steps of decimal numbers look odd in binary units
        top = max(axes.get_ylim()[1], 1.0)
        step = 2.0 ** np.ceil(np.log2(top / 6))
        axes.set_yticks(np.arange(0, top, step))
