"""Plots of captures: the table of their kinds. A kind's module is imported on use, matplotlib when it is drawn.

A plot collects its numbers while frames are read, into arrays whose size does not depend on the number of frames.
Each kind is a module of its own; time bins, figures and colours are modules that know no kind.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis.plots.batch import PlotBatch
    from analysis.plots.figure import FigureContext


class Plot(Protocol):
    """Collects numbers from batches of frames, then draws them."""

    columns: frozenset[str]  #: of frames, besides those that every plot needs

    def fold(self, frames: PlotBatch) -> None:
        """Add a batch of frames."""

    def finish(self) -> None:
        """Add what is only known after the last frame."""

    def why_empty(self) -> str | None:
        """Return why there is nothing to draw, or None if there is something."""

    def draw(self, context: FigureContext) -> Figure:
        """Draw the numbers collected so far."""


@dataclass(frozen=True, slots=True)
class PlotKind:
    """A kind of plot."""

    name: str
    module: str
    class_name: str  #: in the module; its constructor takes no arguments
    help: str
    marks_findings: bool = False  #: so rules have to be checked
    selections: tuple[str, ...] = ("connection",)  #: options that this kind can be limited by


_TIME = ("connection", "time")
_ANY = ("connection", "time", "vbucket")

KINDS: tuple[PlotKind, ...] = (
    PlotKind("seqno", "analysis.plots.seqno", "Seqnos", "seqnos over time, with snapshots and findings", True, _ANY),
    PlotKind("flow", "analysis.plots.flow", "FlowPlot", "bytes that wait for an ack, against the window", True),
    PlotKind("rates", "analysis.plots.rates", "Rates", "messages and bytes per second, by opcode", False, _ANY),
    PlotKind("latency", "analysis.plots.latency", "Latencies", "how long answers and acks took"),
    PlotKind("heatmap", "analysis.plots.heatmap", "Heatmap", "which vbucket was busy when", False, _ANY),
    PlotKind("liveness", "analysis.plots.liveness", "Liveness", "no-ops, their answers, and silence", False, _TIME),
    PlotKind("gaps", "analysis.plots.gaps", "Gaps", "where bytes are missing or no frames", False, _TIME),
)
#: Draws selected frames; the other kinds collect from all frames.
LADDER = PlotKind("ladder", "analysis.plots.ladder", "Ladder", "who said what, in order: for some frames or a finding")
NAMES = (*(kind.name for kind in KINDS), LADDER.name)


def kind_of(name: str) -> PlotKind:
    """Return the kind of this name."""
    return next(kind for kind in (*KINDS, LADDER) if kind.name == name)


def make(kind: PlotKind) -> Plot:
    """Return an empty plot of this kind."""
    return cast("Plot", getattr(importlib.import_module(kind.module), kind.class_name)())
