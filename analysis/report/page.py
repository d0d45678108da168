"""The page: what its sections show, in their order. Templates have the markup, and the sentences without numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.report import findings, pictures, rendering, sections
from dissector.terminal.style import safe_text

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
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the page. Its template, ``ID.html.j2``, shows the value of the same name."""

    id: str
    title: str
    value: object


def page(data: ReportData, provenance: Sequence[tuple[str, str]], *, drawn: bool = True) -> str:
    """Return the whole page; ``provenance`` tells how it was made."""
    captures = short_names(data.source.names)
    ladders = pictures.ladders(data, captures) if drawn else {}
    parts = [
        _Section("rules", "Verdicts", sections.rules(data)),
        _Section("findings", "Findings", findings.findings(data, ladders)),
        _Section("connections", "Connections", sections.connections(data)),
        _Section("streams", "Streams", sections.streams(data)),
    ]
    if drawn:
        parts.append(_Section("pictures", "Pictures", pictures.pictures(data, captures, TITLES)))
    parts += [
        _Section("quality", "Quality of the capture", sections.quality(data)),
        _Section("made", "How this page was made", sections.made(data, provenance)),
    ]
    facts = (
        ("read", captures),
        ("frames", f"{data.inspection.frames:,}"),
        ("connections", f"{data.inspection.connections:,}"),
        ("streams", f"{len(data.streams):,}"),
    )
    values = {part.id: part.value for part in parts}
    shared = {"captures": captures, "verdict": sections.verdict(data), "facts": facts, "sections": parts}
    return rendering.page(values | shared)


def short_names(names: Sequence[str]) -> str:
    """Return the names of the first files, and how many more were read."""
    short = [safe_text(Path(name).name) for name in names]
    more = len(short) - _MOST_NAMES
    return ", ".join(short[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
