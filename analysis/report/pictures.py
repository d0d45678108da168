"""The pictures of a report: drawn light and dark, as parts of the page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from analysis.check.transcript import around_each
from analysis.plots import theme
from analysis.plots.figure import FigureContext
from analysis.plots.ladder import Ladder
from analysis.report.html import Html, data_url, element

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from analysis.check.findings import Finding
    from analysis.report.collect import ReportData

LADDERS = 4  #: findings that get a message sequence, each of another rule
_BEFORE, _BEHIND = 8, 5


def figure(draw: Callable[[FigureContext], Figure], found: ReportData, captures: str, title: str, alt: str) -> Html:
    """Draw a picture, and let the reader's colours decide between light and dark."""
    sheet = FigureContext(theme.LIGHT, found.album.people, captures, found.inspection.findings, found.album.start_ns)
    with theme.drawing(theme.LIGHT):
        stream = io.BytesIO()
        theme.save(draw(sheet), stream, "svg")
    light, dark = (data_url("image/svg+xml", svg) for svg in (stream.getvalue(), theme.darkened(stream.getvalue())))
    image = element(
        "picture",
        element("source", media="(prefers-color-scheme: dark)", srcset=dark),
        element("img", src=light, alt=alt),
    )
    return element("figure", element("figcaption", title), image)


def ladders(found: ReportData, captures: str) -> dict[str, Html]:
    """Return message sequences, by finding: one for each of the first rules that are broken."""
    chosen: dict[str, Finding] = {}
    for finding in found.shown:
        if len(chosen) < LADDERS:
            chosen.setdefault(finding.rule, finding)
    findings = list(chosen.values())
    if not findings:
        return {}
    told = around_each(found.source.open(None), findings, _BEFORE, _BEHIND, rings=found.given)
    drawn = {}
    for transcript, finding in told.values():
        ladder = Ladder(transcript, transcript.of(finding), finding)
        if ladder.nothing() is None:
            alt = f"message sequence around frame {finding.guilty.frame}"
            drawn[finding.id] = figure(ladder.draw, found, captures, "Who said what around it", alt)
    return drawn


def gallery(found: ReportData, captures: str, titles: Sequence[tuple[str, str]]) -> tuple[list[Html], list[str]]:
    """Return the pictures, and why others are not there."""
    pictures, missing = [], []
    for name, title in titles:
        plot = found.album.plots[name]
        why = plot.nothing()
        if why is None:
            pictures.append(figure(plot.draw, found, captures, title, title))
        else:
            missing.append(f"{name}: {why}")
    return pictures, missing
