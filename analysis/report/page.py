"""The page: what its sections show, in their order. Templates have the markup, and the sentences without numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.plots import theme
from analysis.report import findings, pictures, rendering, sections, verdicts
from analysis.report.overview import overview, short_names, title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.collect import ReportData

#: Kinds of plots, in their order, and their titles.
TITLES = (
    ("seqno", "Seqno progress of every stream, with snapshots and findings"),
    ("flow", "Bytes that wait for an ack, against the window; stalls are shaded"),
    ("rates", "Messages and bytes per second, by opcode"),
    ("heatmap", "Which vbucket was busy when"),
    ("latency", "How long answers and acks took"),
    ("liveness", "No-ops, their answers, and silence"),
    ("gaps", "Where bytes are missing"),
)


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the page. Its template, ``ID.html.j2``, shows the value of the same name."""

    id: str
    title: str
    value: object


def page(data: ReportData, provenance: Sequence[tuple[str, str]], *, drawn: bool = True) -> str:
    """Return the whole page; ``provenance`` tells how it was made."""
    captures = short_names(data.source.names)
    told = overview(data)
    ladders, shown = {}, None
    if drawn:
        with theme.drawing(theme.LIGHT):  # once: it takes longer than a small picture
            ladders = pictures.ladders(data, captures)
            shown = pictures.pictures(data, captures, TITLES)
    parts = [
        _Section("rules", "Verdicts", verdicts.rules(data)),
        _Section("findings", "Findings", findings.findings(data, ladders)),
        _Section("overview", "Statistics", told),
        _Section("connections", "Connections", sections.connections(data)),
        _Section("streams", "Streams", sections.streams(data)),
    ]
    if shown is not None:
        parts.append(_Section("pictures", "Pictures", shown))
    parts += [
        _Section("quality", "Quality of the capture", sections.quality(data)),
        _Section("made", "How this page was made", sections.made(data, provenance)),
    ]
    values = {part.id: part.value for part in parts}
    name = title([data.source.label] if data.source.label else data.source.names)
    shared = {"title": name, "verdict": verdicts.verdict(data), "facts": told.facts, "sections": parts}
    return rendering.page(values | shared)
