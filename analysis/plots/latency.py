"""How long answers and acks took, as distributions: bins on a logarithmic axis, so that memory is bounded.

What belongs to what is told by the context of :mod:`analysis.context`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import COLUMNS, Context
from analysis.plots.figure import FigureContext, count, duration
from analysis.plots.theme import plain
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from analysis.context import Table
    from analysis.plots.batch import PlotBatch

    Longs = NDArray[np.int64]

SHOWN = 7
_PER_DECADE = 24
_DECADES = 13  #: up to 10,000 s
_SIZE = _PER_DECADE * _DECADES
_NAMES = {message.opcode: message.name for message in registry.MESSAGES if message.dialect is Dialect.DCP}


class Latencies:
    """Gathers and draws."""

    columns = COLUMNS

    def __init__(self) -> None:
        self.answers: dict[int, Longs] = {}  #: by opcode
        self.acks: dict[int, Longs] = {}  #: by connection
        self.unanswered: dict[int, int] = {}
        self._context = Context()

    def fold(self, frames: PlotBatch) -> None:
        """Take a batch of frames."""
        self._take(self._context.fold(frames.view.batch))

    def finish(self) -> None:
        """What is still unanswered will never be answered."""
        self._take(self._context.finish())

    def _take(self, tables: Iterable[tuple[str, Table]]) -> None:
        for name, table in tables:
            if name == "requests":
                answered = table["answered"] > 0
                _count(self.answers, table["opcode"][answered], table["latency_ns"][answered])
                for opcode in table["opcode"][~answered].tolist():
                    self.unanswered[opcode] = self.unanswered.get(opcode, 0) + 1
            elif name == "acks" and "latency_ns" in table:
                latency = table["latency_ns"]
                told = latency > 0
                _count(self.acks, table["connection"][told], latency[told])

    def nothing(self) -> str | None:
        """Say why there is nothing to draw."""
        return None if self.answers or self.acks else "no request has an answer, and no message an ack"

    def draw(self, sheet: FigureContext) -> Figure:
        """Draw it."""
        panels = [panel for panel in (self.answers, self.acks) if panel]
        figure, all_axes = sheet.figure(1.6 + 2.7 * len(panels), rows=len(panels), sharex=True)
        places = [np.flatnonzero(counts) for panel in panels for counts in panel.values()]
        least, most = min(int(each[0]) for each in places), max(int(each[-1]) for each in places)
        for axes, panel in zip(all_axes, panels, strict=True):
            if panel is self.answers:
                labels = {opcode: _NAMES.get(opcode, f"0x{opcode:02x}") for opcode in panel}
                self._draw(axes, panel, labels, self.unanswered, sheet)
                axes.set_title("from a request to its answer")
            else:
                labels = {number: self._label(number, sheet) for number in panel}
                self._draw(axes, panel, labels, {}, sheet)
                axes.set_title("from a message to the ack that gives its bytes back")
            axes.set_ylabel("share that took no longer")
        _label(all_axes[-1], _edge(least - 2), _edge(most + 3))
        answered = sum(int(counts.sum()) for counts in self.answers.values())
        parts = [count(answered, "answer"), count(sum(int(counts.sum()) for counts in self.acks.values()), "ack")]
        if self.unanswered:
            parts.append(f"{count(sum(self.unanswered.values()), 'request')} without an answer")
        sheet.title(figure, "Latencies", ", ".join(parts))
        return figure

    def _label(self, number: int, sheet: FigureContext) -> str:
        """Return what to call a connection that the context has numbered."""
        known = sheet.people.number(self._context.connections.names[number])
        return f"connection {plain(sheet.people.label(known or 0), 24)}"

    @staticmethod
    def _draw(
        axes: Axes, panel: dict[int, Longs], labels: dict[int, str], missing: dict[int, int], sheet: FigureContext
    ) -> None:
        order = sorted(panel, key=lambda key: (-int(panel[key].sum()), key))
        for place, key in enumerate(order[:SHOWN]):
            counts = panel[key]
            share = np.r_[0, np.cumsum(counts)] / counts.sum()
            used = slice(int(np.flatnonzero(counts)[0]), int(np.flatnonzero(counts)[-1]) + 2)
            half, most = (duration(quantile(counts, part)) for part in (0.5, 0.99))
            label = f"{labels[key]} ({int(counts.sum()):,})\nhalf in {half}, 99 % in {most}"
            label += f", {missing[key]:,} unanswered" if missing.get(key) else ""
            color = sheet.theme.series[place % len(sheet.theme.series)]
            edges = [_edge(bin_) for bin_ in range(used.start, used.stop)]
            axes.plot(edges, share[used], color=color, drawstyle="steps-post", label=label)
        if len(order) > SHOWN:
            axes.plot([], [], " ", label=f"{len(order) - SHOWN} more not shown")
        axes.set_ylim(-0.02, 1.04)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _count(panel: dict[int, Longs], keys: Longs, latency_ns: Longs) -> None:
    place = np.clip((np.log10(np.maximum(latency_ns, 1)) * _PER_DECADE).astype(np.int64), 0, _SIZE - 1)
    for key in np.unique(keys).tolist():
        counts = panel.setdefault(key, np.zeros(_SIZE, np.int64))
        counts += np.bincount(place[keys == key], minlength=_SIZE)


def _edge(place: float) -> float:
    """Return where a bin begins, in nanoseconds."""
    return float(10 ** (place / _PER_DECADE))


def quantile(counts: Longs, part: float) -> float:
    """Return how long this part of all took at most, in nanoseconds: the end of a bin."""
    sums = np.cumsum(counts)
    return _edge(int(np.searchsorted(sums, part * sums[-1])) + 1)


def _label(axes: Axes, least: float, most: float) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415 - see analysis.plots.theme.require

    axes.set_xscale("log")
    axes.set_xlim(least, most)
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if most < 1000 * least else (1,), numticks=20))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: duration(value))
    axes.set_xlabel("time it took [logarithmic]")
