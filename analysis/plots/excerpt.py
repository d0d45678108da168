"""Some frames as rows: those of given numbers, or those that prove findings and their neighbours on the connection.

Reads from wherever frames come from, and no further than needed. Must not know how rows are shown.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.check.transcript import Transcript
from dissector.frames.connection_numbers import ConnectionNumbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from analysis.check.findings import Finding

    Row = dict[str, Any]
    Longs = NDArray[np.int64]


def numbered(batches: Iterable[pa.RecordBatch], first: int, last: int, connection: str | None = None) -> Transcript:
    """Return the frames from one number to another."""
    found = Transcript()
    seen: dict[str, int] = defaultdict(int)
    for batch in batches:
        found.numbering.see(batch)
        frame = batch.column("frame").to_numpy()
        chosen = np.flatnonzero((frame >= first) & (frame <= last))
        places = _places(batch, seen)
        for at, row in zip(chosen.tolist(), batch.take(pa.array(chosen)).to_pylist(), strict=True):
            if connection is None or connection == row["connection"]:
                found.rows[row["frame"]], found.place[row["frame"]] = row, int(places[at])
        if len(frame) and int(frame[-1]) >= last:
            break
    return found


def _places(batch: pa.RecordBatch, seen: dict[str, int]) -> Longs:
    """Return how many frames of its connection come before each row, and count on."""
    encoded = batch.column("connection").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    places = np.zeros(len(codes), np.int64)
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        places[rows] = seen[name] + np.arange(len(rows))
        seen[name] += len(rows)
    return places


def around(batches: Iterable[pa.RecordBatch], findings: Sequence[Finding], before: int, behind: int) -> Transcript:
    """Return the frames that prove findings, with some of the frames around each guilty one."""
    gatherer = _Gatherer(findings, before, behind)
    if findings:
        for batch in batches:
            if batch.num_rows and gatherer.take(batch):
                break
    return gatherer.found


def each(
    batches: Iterable[pa.RecordBatch], findings: Sequence[Finding], before: int, behind: int, *, rings: bool = False
) -> dict[str, tuple[Transcript, Finding]]:
    """Return for each finding, by id, where its frames are, and the finding with the frames that are there.

    ``rings``: the frames are of several readings, each of a directory, and each has counted its frames from 1.
    """
    if not rings:
        transcript = around(batches, findings, before, behind)
        return {finding.id: (transcript, finding) for finding in findings}
    told: dict[str, tuple[_Gatherer, Finding]] = {}
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        ring = _ring(finding.guilty.capture)
        frames = tuple(frame for frame in finding.frames if _ring(frame.capture) == ring)
        groups[ring].append(dataclasses.replace(finding, frames=frames))
    gatherers = {ring: _Gatherer(group, before, behind) for ring, group in groups.items()}
    numbering = ConnectionNumbers()
    for ring, gatherer in gatherers.items():
        gatherer.found.numbering = numbering
        told |= {finding.id: (gatherer, finding) for finding in groups[ring]}
    for batch in batches:
        numbering.see(batch)
        encoded = batch.column("capture").dictionary_encode()
        names = [_ring(name) for name in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for ring in set(names) & set(gatherers):
            mine = np.array([name == ring for name in names])[codes]
            gatherers[ring].take(batch.filter(pa.array(mine)))
    return {name: (gatherer.found, finding) for name, (gatherer, finding) in told.items()}


def _ring(capture: str) -> str:
    return str(PurePath(capture).parent)


class _Gatherer:
    """Takes rows by number; and of the connections of findings those before and behind guilty ones."""

    def __init__(self, findings: Sequence[Finding], before: int, behind: int) -> None:
        self.found = Transcript()
        self._before, self._behind = before, behind
        self._wanted = np.array(sorted({frame.frame for each in findings for frame in each.frames}), np.int64)
        self._guilty: dict[str, set[int]] = defaultdict(set)
        for each in findings:
            self._guilty[each.connection].add(each.guilty.frame)
        self._names = pa.array(sorted(self._guilty), pa.string())
        self._seen: dict[str, int] = defaultdict(int)
        self._tails: dict[str, list[tuple[Row, int]]] = defaultdict(list)  #: the last rows of connections so far
        self._owed: dict[str, list[tuple[int, int]]] = defaultdict(list)  #: guilty frames, and rows they still want

    def take(self, batch: pa.RecordBatch) -> bool:
        """Take a batch; tell whether that was all."""
        found = self.found
        found.numbering.see(batch)
        frame = batch.column("frame").to_numpy()
        places = _places(batch, self._seen)
        proving = np.flatnonzero(np.isin(frame, self._wanted))
        for row, place in self._rows(batch, proving, places):
            found.rows[row["frame"]], found.place[row["frame"]] = row, place
        mine = pc.is_in(batch.column("connection"), self._names)
        for name in pc.unique(batch.column("connection").filter(mine)).to_pylist():
            same = pc.equal(batch.column("connection"), name).to_numpy(zero_copy_only=False)
            self._connection(batch, name, np.flatnonzero(same), frame, places)
        last = int(self._wanted[-1])
        return bool(frame[-1] >= last) and not any(self._owed.values())

    def _connection(self, batch: pa.RecordBatch, name: str, rows: Longs, frame: Longs, places: Longs) -> None:
        """Take what is around guilty frames of one connection."""
        wanted: dict[int, set[int]] = defaultdict(set)  #: guilty frame to places in ``rows``
        for number, count in self._owed.pop(name, []):
            wanted[number] |= set(range(min(count, len(rows))))
            if count > len(rows):
                self._owed[name].append((number, count - len(rows)))
        for at in np.flatnonzero(np.isin(frame[rows], list(self._guilty[name]))).tolist():
            number = int(frame[rows[at]])
            wanted[number] |= set(range(max(at - self._before, 0), min(at + 1 + self._behind, len(rows))))
            if at < self._before:
                for row, place in self._tails[name][-(self._before - at) :]:
                    self._add(number, row, place)
            if at + self._behind >= len(rows):
                self._owed[name].append((number, at + self._behind - len(rows) + 1))
        for number, chosen in wanted.items():
            for row, place in self._rows(batch, rows[sorted(chosen)], places):
                self._add(number, row, place)
        tail = self._rows(batch, rows[-self._before :], places)
        self._tails[name] = [*self._tails[name], *tail][-self._before :]

    def _add(self, number: int, row: Row, place: int) -> None:
        self.found.rows[row["frame"]], self.found.place[row["frame"]] = row, place
        self.found.around[number].append(row["frame"])

    @staticmethod
    def _rows(batch: pa.RecordBatch, chosen: Longs, places: Longs) -> list[tuple[Row, int]]:
        taken = batch.take(pa.array(chosen)).to_pylist() if len(chosen) else []
        return list(zip(taken, places[chosen].tolist(), strict=True))
