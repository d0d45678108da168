"""Pictures of captures. The kinds are a table of names: a kind's module, and matplotlib, are loaded when it is drawn.

Every picture is gathered while frames are read, into arrays whose size does not depend on the number of frames. What
a kind gathers is in its own module; bins of time, colours and files are in modules that know no kind.
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
    """What a kind gathers, and how it is drawn."""

    columns: frozenset[str]  #: of frames, beside those that every picture needs

    def fold(self, frames: PlotBatch) -> None:
        """Take a batch of frames."""

    def finish(self) -> None:
        """The frames are over."""

    def why_empty(self) -> str | None:
        """Say why there is nothing to draw; None: there is something."""

    def draw(self, context: FigureContext) -> Figure:
        """Draw it."""


@dataclass(frozen=True, slots=True)
class PlotKind:
    """A kind of picture."""

    name: str
    module: str
    class_name: str  #: class in the module, without arguments
    help: str
    marks_findings: bool = False  #: findings are marked, so rules have to be checked
    selections: tuple[str, ...] = ("connection",)  #: options that leave frames out, and what is left still makes sense


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
#: Drawn from chosen frames, not gathered from all.
LADDER = PlotKind("ladder", "analysis.plots.ladder", "Ladder", "who said what, in order: for some frames or a finding")
NAMES = (*(kind.name for kind in KINDS), LADDER.name)


def kind_of(name: str) -> PlotKind:
    """Return the kind of this name."""
    return next(kind for kind in (*KINDS, LADDER) if kind.name == name)


def make(kind: PlotKind) -> Plot:
    """Begin a picture of this kind."""
    return cast("Plot", getattr(importlib.import_module(kind.module), kind.class_name)())
