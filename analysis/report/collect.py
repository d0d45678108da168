"""Everything that a report tells, from one reading of the frames; and the frames around findings, from another.

Knows sources, the checker, the folds of connections and streams, and the album of pictures. Must not know HTML.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.check.checker import Checker
from analysis.check.findings import Tally
from analysis.check.inspection import Inspection
from analysis.check.selection import Selection
from analysis.check.transcript import NEIGHBOURS, Transcript
from analysis.plots.excerpt import each
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
    from analysis.plots.frame_source import BatchReader, FrameSource
    from analysis.rules import Rule

    Row = dict[str, Any]
    Watch = Callable[[BatchReader], Callable[[], None]]


@dataclass(slots=True)
class ReportData:
    """What there is to tell."""

    source: FrameSource
    inspection: Inspection
    album: FigureSet
    connections: list[Row]
    streams: list[Row]
    rules: Sequence[Rule] = RULES
    selection: Selection = field(default_factory=Selection)
    shown: list[Finding] = field(default_factory=list)  #: findings that are told in full
    told: dict[str, tuple[Transcript, Finding]] = field(default_factory=dict)  #: their frames, by id
    notes: list[str] = field(default_factory=list)
    given: bool = False  #: the findings were given: nothing was checked here


def collect(
    source: FrameSource,
    kinds: Sequence[PlotKind],
    selection: Selection,
    *,
    limit: int,
    given: Sequence[Finding] | None = None,
    watch: Watch | None = None,
) -> ReportData:
    """Read frames, twice if anything is found; ``given`` findings are taken as they are."""
    checker = Checker(selection=selection) if given is None else None
    album = FigureSet(kinds, checker)
    tables = _Tables(source)
    reader = source.open(None, tables.roster.end)
    advance = watch(reader) if watch is not None else None
    for batch in reader:
        if advance is not None:
            advance()
        tables.fold(batch)
        album.fold(batch)
    album.finish()
    album.report = reader.report
    if checker is not None:
        inspection = Inspection(
            checker.findings,
            list(checker.tallies.values()),
            album.frames,
            checker.connections,
            checker.left_out,
            checker.hidden,
            reader.report,
        )
    else:
        inspection = _given(given or (), album)
        album.given = inspection.findings
    found = ReportData(source, inspection, album, tables.connections(album), tables.streams(), selection=selection)
    found.given = checker is None
    found.notes = tables.notes
    found.shown = _shown(inspection.findings, limit)
    if found.shown:
        again = source.open(None)
        advance = watch(again) if watch is not None else None
        batches = _advancing(again, advance)
        found.told = each(batches, found.shown, NEIGHBOURS, NEIGHBOURS, rings=found.given)
    return found


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


def _given(findings: Sequence[Finding], album: FigureSet) -> Inspection:
    """Sum up findings that come from elsewhere: what held there is not known here."""
    tallies: dict[str, Tally] = {}
    for finding in findings:
        tally = tallies.setdefault(finding.rule, Tally(finding.rule))
        tally.checked += 1 + finding.echoes
        tally.violated += 1 + finding.echoes
    ordered = sorted(findings, key=lambda one: (one.severity.rank, one.rule, one.time_ns, one.id))
    return Inspection(ordered, [*tallies.values()], album.frames, len(album.people.parties), report=album.report)


class _Tables:
    """Connections and streams, as ``uprscope connections`` lists them."""

    def __init__(self, source: FrameSource) -> None:
        self._rows = ConnectionRows()
        self.roster = ConnectionSummaries(self._rows.add)
        self._streams = Streams()
        self._captures = not source.rows
        self._plain: dict[str, Row] = {}
        self.notes: list[str] = []

    def fold(self, batch: pa.RecordBatch) -> None:
        """Take a batch of frames."""
        if not batch.num_rows:
            return
        view = FrameBatch(batch)
        members = self.roster.fold(view)
        self._streams.fold(view, members)
        if self._captures:
            self.roster.release_ended()
            return
        # Rows of frames do not tell how connections ended: what can be counted is.
        times = view.numbers("time_ns")
        for code, member in enumerate(members):
            rows = np.flatnonzero(view.code == code)
            row = self._plain.setdefault(member.id, {"number": member.number, "connection": member.id})
            row["name"] = member.name
            row["start_ns"] = min(row.get("start_ns", int(times[rows[0]])), int(times[rows].min()))
            row["last_ns"] = max(row.get("last_ns", 0), int(times[rows].max()))
            for side, name in enumerate(("client_frames", "server_frames")):
                row[name] = row.get(name, 0) + int(np.count_nonzero(view.direction[rows] == side))

    def connections(self, album: FigureSet) -> list[Row]:
        """Return the rows of connections."""
        if self._captures:
            if self._rows.left_out:
                self.notes.append(f"{self._rows.left_out:,} more connections are not listed")
            return self._rows.sorted()
        for party in album.people.parties:
            row = self._plain[party.id]
            for side, place in (("client", party.client), ("server", party.server)):
                row[side], _, port = place.rpartition(":")
                row[f"{side}_port"] = int(port)
            row["start"] = iso_time(row["start_ns"])
            row["duration_ns"] = row["last_ns"] - row["start_ns"]
        return sorted(self._plain.values(), key=lambda row: int(row["number"]))

    def streams(self) -> list[Row]:
        """Return the rows of streams."""
        if self._streams.limit_reached:
            self.notes.append(f"more than {self._streams.limit:,} streams: later ones are not listed")
        return list(stream_rows(self._streams))
