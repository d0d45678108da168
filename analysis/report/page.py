"""The page: sections in their order, under one title, with one style and one script."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.report import findings, pictures, sections
from analysis.report.html import Html, document, element, joined
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.report.collect import ReportData

#: Pictures, in their order, and what is written above them.
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


def page(found: ReportData, how: Sequence[tuple[str, str]], *, drawn: bool = True) -> str:
    """Return the whole page; ``how`` tells how it was made."""
    captures = short_names(found.source.names)
    ladders = pictures.ladders(found, captures) if drawn else {}
    gallery: list[Html] = []
    missing: list[str] = []
    if drawn:
        gallery, missing = pictures.gallery(found, captures, TITLES)
    inspection = found.inspection
    parts: list[tuple[str, str, Html]] = [
        ("rules", "Verdicts", sections.rules(found)),
        ("findings", "Findings", findings.section(found, ladders)),
        ("connections", "Connections", sections.connections(found)),
        ("streams", "Streams", sections.streams(found)),
    ]
    if drawn:
        note = element("p", f"Not drawn: {'; '.join(missing)}.", class_="quiet") if missing else Html("")
        parts.append(("pictures", "Pictures", joined((*gallery, note))))
    parts += [
        ("quality", "Quality of the capture", sections.quality(found)),
        ("made", "How this page was made", sections.made(found, how)),
    ]
    facts = (
        ("read", captures),
        ("frames", f"{inspection.frames:,}"),
        ("connections", f"{inspection.connections:,}"),
        ("streams", f"{len(found.streams):,}"),
    )
    links = element("ul", *(element("li", element("a", title, href=f"#{name}")) for name, title, _ in parts))
    body = joined(
        (
            element("a", "to the verdict", href="#top", class_="skip"),
            element("header", element("h1", "uprscope report"), element("nav", links, aria_label="sections")),
            element(
                "main",
                sections.verdict(found),
                sections.pairs(facts),
                *(element("section", element("h2", title), inside, id=name) for name, title, inside in parts),
                id="top",
            ),
        )
    )
    folder = files("analysis.report")
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return document(f"uprscope: {captures}", style, script, body)


def short_names(names: Sequence[str]) -> str:
    """Return what was read, in a few words."""
    short = [safe_text(Path(name).name) for name in names]
    more = len(short) - _MOST_NAMES
    return ", ".join(short[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
