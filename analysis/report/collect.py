"""Collect a report's data in one reading of the frames, and the frames around findings in a second one.

Knows frame sources, the checker, the summaries of connections and streams, and plots. Must not know HTML.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.check.checker import Checker
from analysis.check.findings import Tally
from analysis.check.inspection import Inspection, inspection_of
from analysis.check.selection import Selection
from analysis.check.transcript import NEIGHBOURS, Transcript, around_each
from analysis.plots.figure_set import FigureSet
from analysis.rules import RULES
from dissector.frames.batch import FrameBatch
from dissector.summary.connections import ConnectionSummaries
from dissector.summary.rows import ConnectionRows, iso_time, stream_rows
from dissector.summary.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from analysis.check.findings import Finding
    from analysis.plots import PlotKind
    from analysis.plots.frame_source import FrameSource
    from analysis.rules import Rule
    from dissector.frames.sources import BatchReader

    Row = dict[str, Any]
    Watch = Callable[[BatchReader], Callable[[], None]]


@dataclass(slots=True)
class ReportData:
    """Everything that the page shows."""

    source: FrameSource
    inspection: Inspection
    figures: FigureSet
    connections: list[Row]
    streams: list[Row]
    rules: Sequence[Rule] = RULES
    selection: Selection = field(default_factory=Selection)
    shown: list[Finding] = field(default_factory=list)  #: findings that are shown in full, up to the limit of each rule
    transcripts: dict[str, tuple[Transcript, Finding]] = field(default_factory=dict)  #: their frames, by id
    notes: list[str] = field(default_factory=list)
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
    listings = _Listings(source)
    reader = source.open(None, listings.summaries.end)
    advance = watch(reader) if watch is not None else None
    for batch in reader:
        if advance is not None:
            advance()
        listings.fold(batch)
        figures.fold(batch)
    figures.finish()
    figures.report = reader.report
    if checker is not None:
        inspection = inspection_of(checker, figures.frames, reader.report)
    else:
        inspection = _sum_up(given_findings or (), figures)
        figures.given_findings = inspection.findings
    data = ReportData(
        source, inspection, figures, listings.connections(figures), listings.streams(), selection=selection
    )
    data.findings_given = checker is None
    data.notes = listings.notes
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


class _Listings:
    """Connections and streams, as ``uprscope connections`` lists them."""

    def __init__(self, source: FrameSource) -> None:
        self._rows = ConnectionRows()
        self.summaries = ConnectionSummaries(self._rows.add)
        self._streams = Streams()
        self._captures = source.has_packets
        self._counted: dict[str, Row] = {}
        self.notes: list[str] = []

    def fold(self, batch: pa.RecordBatch) -> None:
        """Add a batch of frames."""
        if not batch.num_rows:
            return
        frame_batch = FrameBatch(batch)
        connections = self.summaries.fold(frame_batch)
        self._streams.fold(frame_batch, connections)
        if self._captures:
            self.summaries.release_ended()
            return
        # Parquet files of frames do not say how connections ended: count what frames show.
        times = frame_batch.numbers("time_ns")
        for code, connection in enumerate(connections):
            rows = np.flatnonzero(frame_batch.code == code)
            row = self._counted.setdefault(connection.id, {"number": connection.number, "connection": connection.id})
            row["name"] = connection.name
            row["start_ns"] = min(row.get("start_ns", int(times[rows[0]])), int(times[rows].min()))
            row["last_ns"] = max(row.get("last_ns", 0), int(times[rows].max()))
            for side, name in enumerate(("client_frames", "server_frames")):
                row[name] = row.get(name, 0) + int(np.count_nonzero(frame_batch.direction[rows] == side))

    def connections(self, figures: FigureSet) -> list[Row]:
        """Return the rows of connections."""
        if self._captures:
            if self._rows.left_out:
                self.notes.append(f"{self._rows.left_out:,} more connections are not listed")
            return self._rows.sorted()
        for connection in figures.names.connections:
            row = self._counted[connection.id]
            for side, place in (("client", connection.client), ("server", connection.server)):
                row[side], _, port = place.rpartition(":")
                row[f"{side}_port"] = int(port)
            row["start"] = iso_time(row["start_ns"])
            row["duration_ns"] = row["last_ns"] - row["start_ns"]
        return sorted(self._counted.values(), key=lambda row: int(row["number"]))

    def streams(self) -> list[Row]:
        """Return the rows of streams."""
        if self._streams.limit_reached:
            self.notes.append(f"more than {self._streams.limit:,} streams: later ones are not listed")
        return list(stream_rows(self._streams))
