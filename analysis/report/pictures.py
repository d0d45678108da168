"""The pictures of a report. Each is drawn once in light colours, which are replaced for the dark version."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.check.transcript import around_each
from analysis.plots import theme
from analysis.plots.figure import FigureContext, described
from analysis.plots.ladder import Ladder
from analysis.report.rendering import data_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib import figure as matplotlib_figure

    from analysis.check.findings import Finding
    from analysis.report.collect import ReportData

LADDERS = 4  #: findings that get a message sequence, each of another rule
_BEFORE, _AFTER = 8, 5


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, light and dark: the browser's colour scheme decides between them."""

    title: str
    alt: str
    light: str  #: data URL
    dark: str


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of the section Pictures."""

    drawn: Sequence[Picture]
    missing: str  #: kinds that are not drawn, and why


def _picture(
    draw: Callable[[FigureContext], matplotlib_figure.Figure], data: ReportData, captures: str, title: str, alt: str
) -> Picture:
    context = FigureContext(theme.LIGHT, data.figures.names, captures, data.inspection.findings, data.figures.start_ns)
    figure = draw(context)
    stream = io.BytesIO()
    theme.save(figure, stream, "svg")
    svg = stream.getvalue()
    return Picture(
        title,
        f"{alt}: {described(figure)}",
        data_url("image/svg+xml", svg),
        data_url("image/svg+xml", theme.darkened(svg)),
    )


def ladders(data: ReportData, captures: str) -> dict[str, Picture]:
    """Return message sequences by finding id: one for each of the first LADDERS violated rules.

    Like :func:`pictures`, this is for use within ``theme.drawing(theme.LIGHT)``.
    """
    chosen: dict[str, Finding] = {}
    for finding in data.shown:
        if len(chosen) < LADDERS:
            chosen.setdefault(finding.rule, finding)
    findings = list(chosen.values())
    if not findings:
        return {}
    told = around_each(data.source.open(None), findings, _BEFORE, _AFTER, rings=data.findings_given)
    drawn = {}
    for transcript, finding in told.values():
        ladder = Ladder(transcript, transcript.of(finding), finding)
        if ladder.why_empty() is None:
            alt = f"message sequence around frame {finding.guilty.frame}"
            drawn[finding.id] = _picture(ladder.draw, data, captures, "Who said what around it", alt)
    return drawn


def pictures(data: ReportData, captures: str, titles: Sequence[tuple[str, str]]) -> Pictures:
    """Draw the kinds with these titles."""
    drawn, missing = [], []
    for name, title in titles:
        plot = data.figures.plots[name]
        why = plot.why_empty()
        if why is None:
            drawn.append(_picture(plot.draw, data, captures, title, title))
        else:
            missing.append(f"{name}: {why}")
    return Pictures(drawn, "; ".join(missing))
