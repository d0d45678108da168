"""Latencies of responses and acks as cumulative distributions, counted in logarithmic bins to bound memory.

:mod:`analysis.context` pairs requests with responses, and messages with acks; percentiles are those of the statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import COLUMNS, Context
from analysis.plots.figure import FigureContext, count, duration
from analysis.plots.theme import label_text
from analysis.stats.durations import DurationsByKey
from dissector.spec import registry
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.context import Table
    from analysis.plots.batch import PlotBatch
    from analysis.stats.durations import Distribution
    from dissector.array_types import Longs


SHOWN = 7
_MOST = 1024  #: curves with percentiles
_PER_DECADE = 24
_DECADES = 13  #: up to 10,000 s
_SIZE = _PER_DECADE * _DECADES
_NAMES = {message.opcode: message.name for message in registry.MESSAGES if message.dialect is Dialect.DCP}


class Latencies:
    """Latency counts of responses by opcode, and of acks by connection."""

    columns = COLUMNS

    def __init__(self) -> None:
        self.answers: dict[int, Longs] = {}  #: by opcode
        self.acks: dict[int, Longs] = {}  #: by connection
        self.answer_times, self.ack_times = DurationsByKey(_MOST), DurationsByKey(_MOST)
        self.unanswered: dict[int, int] = {}
        self._frame_context = Context()

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""
        self._take(self._frame_context.fold(frames.batch))

    def finish(self) -> None:
        """Count the requests that stay without a response."""
        self._take(self._frame_context.finish())

    def _take(self, tables: Iterable[tuple[str, Table]]) -> None:
        for name, table in tables:
            if name == "requests":
                answered = table["answered"] > 0
                opcode, latency = table["opcode"][answered], table["latency_ns"][answered]
                _add_counts(self.answers, opcode, latency)
                self.answer_times.add(opcode, latency)
                for opcode in table["opcode"][~answered].tolist():
                    self.unanswered[opcode] = self.unanswered.get(opcode, 0) + 1
            elif name == "acks" and "latency_ns" in table:
                latency = table["latency_ns"]
                known = latency > 0
                _add_counts(self.acks, table["connection"][known], latency[known])
                self.ack_times.add(table["connection"][known], latency[known])

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None."""
        return None if self.answers or self.acks else "no request has an answer, and no message an ack"

    def draw(self, context: FigureContext) -> Figure:
        """Draw the figure."""
        panels = [panel for panel in (self.answers, self.acks) if panel]
        figure, all_axes = context.figure(1.6 + 2.7 * len(panels), rows=len(panels), sharex=True)
        places = [np.flatnonzero(counts) for panel in panels for counts in panel.values()]
        least, most = min(int(each[0]) for each in places), max(int(each[-1]) for each in places)
        for axes, panel in zip(all_axes, panels, strict=True):
            if panel is self.answers:
                labels = {opcode: _NAMES.get(opcode, f"0x{opcode:02x}") for opcode in panel}
                self._draw(axes, panel, labels, self.answer_times, self.unanswered, context)
                axes.set_title("from a request to its answer")
            else:
                labels = {number: self._label(number, context) for number in panel}
                self._draw(axes, panel, labels, self.ack_times, {}, context)
                axes.set_title("from a message to the ack that gives its bytes back")
            axes.set_ylabel("share that took no longer")
        _label_durations(all_axes[-1], _edge(least - 2), _edge(most + 3))
        answered = sum(int(counts.sum()) for counts in self.answers.values())
        parts = [count(answered, "answer"), count(sum(int(counts.sum()) for counts in self.acks.values()), "ack")]
        if self.unanswered:
            parts.append(f"{count(sum(self.unanswered.values()), 'request')} without an answer")
        context.title(figure, "Latencies", ", ".join(parts))
        return figure

    def _label(self, number: int, context: FigureContext) -> str:
        """Return the label of a connection, by its number in the frame context."""
        known = context.names.number(self._frame_context.connections.names[number])
        return f"connection {label_text(context.names.label(known or 0), 24)}"

    @staticmethod
    def _draw(
        axes: Axes,
        panel: dict[int, Longs],
        labels: dict[int, str],
        times: DurationsByKey,
        missing: dict[int, int],
        context: FigureContext,
    ) -> None:
        order = sorted(panel, key=lambda key: (-int(panel[key].sum()), key))
        for place, key in enumerate(order[:SHOWN]):
            counts = panel[key]
            fraction = np.r_[0, np.cumsum(counts)] / counts.sum()
            used = slice(int(np.flatnonzero(counts)[0]), int(np.flatnonzero(counts)[-1]) + 2)
            label = f"{labels[key]} ({int(counts.sum()):,})\n{_percentiles(times.of(key))}"
            label += f", {missing[key]:,} unanswered" if missing.get(key) else ""
            color = context.theme.series[place % len(context.theme.series)]
            edges = [_edge(bin_) for bin_ in range(used.start, used.stop)]
            axes.plot(edges, fraction[used], color=color, drawstyle="steps-post", label=label)
        if len(order) > SHOWN:
            axes.plot([], [], " ", label=f"{len(order) - SHOWN} more not shown")
        axes.set_ylim(-0.02, 1.04)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _add_counts(panel: dict[int, Longs], keys: Longs, latency_ns: Longs) -> None:
    place = np.clip((np.log10(np.maximum(latency_ns, 1)) * _PER_DECADE).astype(np.int64), 0, _SIZE - 1)
    for key in np.unique(keys).tolist():
        counts = panel.setdefault(key, np.zeros(_SIZE, np.int64))
        counts += np.bincount(place[keys == key], minlength=_SIZE)


def _edge(place: float) -> float:
    """Return the lower edge of a bin, in nanoseconds."""
    return float(10 ** (place / _PER_DECADE))


def _percentiles(times: Distribution | None) -> str:
    if times is None:
        return ""
    parts = {"p50": times.p50_ns, "p99": times.p99_ns, "max": times.max_ns}
    return ", ".join(f"{name} {duration(number)}" for name, number in parts.items())


def _label_durations(axes: Axes, least: float, most: float) -> None:
    from matplotlib.ticker import LogLocator, NullLocator  # noqa: PLC0415 - see analysis.plots.theme.require_matplotlib

    axes.set_xscale("log")
    axes.set_xlim(least, most)
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if most < 1000 * least else (1,), numticks=20))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: duration(value))
    axes.set_xlabel("time it took [logarithmic]")
