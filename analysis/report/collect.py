"""Collect a report's data in one reading of the frames, and the frames around findings in a second one.

Knows frame sources, the checker, statistics and plots. Must not know HTML.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analysis.check.checker import Checker
from analysis.check.findings import Tally
from analysis.check.inspection import Inspection, inspection_of
from analysis.check.selection import Selection
from analysis.check.transcript import NEIGHBOURS, Transcript, around_each
from analysis.plots.figure_set import FigureSet
from analysis.rules import RULES
from analysis.stats.collect import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.check.findings import Finding
    from analysis.plots import PlotKind
    from analysis.plots.frame_source import FrameSource
    from analysis.rules import Rule
    from analysis.stats.statistics import Statistics
    from dissector.frames.sources import BatchReader
    from dissector.tcp.connections import Connection

    Row = dict[str, Any]
    Watch = Callable[[BatchReader], Callable[[], None]]


@dataclass(slots=True)
class ReportData:
    """Everything that the page shows."""

    source: FrameSource
    inspection: Inspection
    figures: FigureSet
    statistics: Statistics
    connections: list[Row]
    streams: list[Row]
    rules: Sequence[Rule] = RULES
    selection: Selection = field(default_factory=Selection)
    shown: list[Finding] = field(default_factory=list)  #: findings that are shown in full, up to the limit of each rule
    transcripts: dict[str, tuple[Transcript, Finding]] = field(default_factory=dict)  #: their frames, by id
    findings_given: bool = False  #: they come from an archive, nothing was checked here


def collect(
    source: FrameSource,
    kinds: Sequence[PlotKind],
    selection: Selection,
    *,
    limit: int,
    given_findings: Sequence[Finding] | None = None,
    watch: Watch | None = None,
) -> ReportData:
    """Read the frames, a second time if there are findings to show; ``given_findings`` replace the check."""
    checker = Checker(selection=selection) if given_findings is None else None
    figures = FigureSet(kinds, checker)
    collector = Collector(packets=source.has_packets)

    def ended(connection: Connection) -> None:
        collector.ended(connection)
        figures.names.ends.end(connection)

    reader = source.open(None, ended)
    advance = watch(reader) if watch is not None else None
    for batch in reader:
        if advance is not None:
            advance()
        collector.fold(batch)
        figures.fold(batch)
    figures.finish()
    figures.report = reader.report
    if checker is not None:
        inspection = inspection_of(checker, figures.frames, reader.report)
    else:
        inspection = _sum_up(given_findings or (), figures)
        figures.given_findings = inspection.findings
    data = ReportData(
        source,
        inspection,
        figures,
        collector.finish(source.names, reader.report),
        collector.connection_rows(),
        collector.stream_rows(),
        selection=selection,
        findings_given=checker is None,
    )
    data.shown = _shown(inspection.findings, limit)
    if data.shown:
        again = source.open(None)
        advance = watch(again) if watch is not None else None
        batches = _advancing(again, advance)
        data.transcripts = around_each(batches, data.shown, NEIGHBOURS, NEIGHBOURS, rings=data.findings_given)
    return data


def _advancing(reader: BatchReader, advance: Callable[[], None] | None) -> Any:
    for batch in reader:
        if advance is not None:
            advance()
        yield batch


def _shown(findings: Sequence[Finding], limit: int) -> list[Finding]:
    counts: Counter[str] = Counter()
    shown = []
    for finding in findings:
        counts[finding.rule] += 1
        if limit == 0 or counts[finding.rule] <= limit:
            shown.append(finding)
    return shown


def _sum_up(findings: Sequence[Finding], figures: FigureSet) -> Inspection:
    """Count violations of given findings. Which cases held is not known."""
    tallies: dict[str, Tally] = {}
    for finding in findings:
        tally = tallies.setdefault(finding.rule, Tally(finding.rule))
        tally.checked += 1 + finding.echoes
        tally.violated += 1 + finding.echoes
    ordered = sorted(findings, key=lambda one: (one.severity.rank, one.rule, one.time_ns, one.id))
    return Inspection(
        ordered, [*tallies.values()], figures.frames, len(figures.names.connections), report=figures.report
    )
