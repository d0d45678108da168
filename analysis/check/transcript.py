"""Frames around findings, as rows: those that prove a finding, and their neighbours on its connection.

Reads frames again, and only as far as needed: they are not kept while rules are checked. Knows frame numbers and
connections; must not know how rows are shown.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.check import refusals
from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.frames.sources import open_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from analysis.check.findings import Finding
    from dissector.array_types import Longs
    from dissector.capture import Input
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions

    Row = dict[str, Any]

COLUMNS = frozenset(("frame", "time_ns", "connection"))  #: what a row must have to be gathered
NEIGHBOURS = 2  #: frames of the same connection that are shown before and after a guilty one


class Transcript:
    """Rows of frames, by number; and the numbers that their connections have in listings."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.place: dict[int, int] = {}  #: of each of them: how many frames of its connection come before
        self.numbering = ConnectionNumbers()
        self.around: dict[int, list[int]] = defaultdict(list)  #: guilty frame to the frames to show with it
        self.later: dict[int, list[tuple[Row, int]]] = defaultdict(list)  #: guilty frame to those that may refuse it

    def refusal(self, finding: Finding) -> Row | None:
        """Return the answer that refused the guilty message, if it was seen; it is among the rows to show."""
        number = finding.guilty.frame
        message = self.rows.get(number)
        if message is None or not message.keys() >= refusals.COLUMNS:
            return None
        found = refusals.refusal_of(message, (row for row, _ in self.later[number]))
        if found is not None:
            places = {row["frame"]: place for row, place in self.later[number]}
            self.rows[found["frame"]], self.place[found["frame"]] = found, places[found["frame"]]
        return found

    def of(self, finding: Finding) -> list[Row]:
        """Return the rows to show for a finding, in order."""
        numbers = {frame.frame for frame in finding.frames} | set(self.around.get(finding.guilty.frame, ()))
        refusal = self.refusal(finding)
        if refusal is not None:
            numbers.add(refusal["frame"])
        return [self.rows[number] for number in sorted(numbers) if number in self.rows]


def read(
    inputs: Sequence[Input],
    options: ReadOptions,
    findings: Sequence[Finding],
    watch: Callable[[BatchReader], Callable[[], None]] | None = None,
    neighbours: int = NEIGHBOURS,
) -> Transcript:
    """Read captures again for the transcripts of findings; ``watch`` is told of the progress.

    Rows have the columns that the options ask for, and must have those of ``COLUMNS``.
    """
    if not findings:
        return Transcript()
    reader = open_frames(inputs, options)
    return around(reader if watch is None else _watched(reader, watch(reader)), findings, neighbours, neighbours)


def _watched(reader: BatchReader, advance: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        advance()
        yield batch


def around(
    batches: Iterable[pa.RecordBatch],
    findings: Sequence[Finding],
    before: int,
    after: int,
    numbering: ConnectionNumbers | None = None,
) -> Transcript:
    """Return the frames that prove findings, with some of the frames before and after each guilty one.

    ``numbering`` has the numbers of connections, if the batches do not begin where the reading did.
    """
    gatherer = _Gatherer(findings, before, after)
    if numbering is not None:
        gatherer.found.numbering = numbering
    if findings:
        for batch in batches:
            if numbering is None:
                gatherer.found.numbering.see(batch)
            if gatherer.gather(batch):
                break
    return gatherer.found


def around_each(
    batches: Iterable[pa.RecordBatch], findings: Sequence[Finding], before: int, after: int, *, rings: bool = False
) -> dict[str, tuple[Transcript, Finding]]:
    """Return for each finding, by id, the transcript with its frames, and the finding with the frames that are there.

    ``rings``: the frames are of several readings, each of a directory, and each has counted its frames from 1.
    """
    if not rings:
        transcript = around(batches, findings, before, after)
        return {finding.id: (transcript, finding) for finding in findings}
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        ring = _ring(finding.guilty.capture)
        frames = tuple(frame for frame in finding.frames if _ring(frame.capture) == ring)
        groups[ring].append(dataclasses.replace(finding, frames=frames))
    gatherers = {ring: _Gatherer(group, before, after) for ring, group in groups.items()}
    numbering = ConnectionNumbers()
    for gatherer in gatherers.values():
        gatherer.found.numbering = numbering
    for batch in batches:
        numbering.see(batch)
        encoded = batch.column("capture").dictionary_encode()
        names = [_ring(name) for name in encoded.dictionary.to_pylist()]
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        for ring in set(names) & set(gatherers):
            of_ring = np.array([name == ring for name in names])[codes]
            gatherers[ring].gather(batch.filter(pa.array(of_ring)))
    return {finding.id: (gatherers[ring].found, finding) for ring, group in groups.items() for finding in group}


def _ring(capture: str) -> str:
    return str(PurePath(capture).parent)


def numbered(
    batches: Iterable[pa.RecordBatch],
    first: int,
    last: int,
    connection: str | None = None,
    most: int | None = None,
) -> Transcript:
    """Return the frames from one number to another, of one connection or of all; of them the first ``most``."""
    found = Transcript()
    counts: dict[str, int] = defaultdict(int)
    for batch in batches:
        found.numbering.see(batch)
        frame = batch.column("frame").to_numpy()
        places, _ = _places(batch, counts)
        wanted = (frame >= first) & (frame <= last)
        if connection is not None:
            wanted &= pc.equal(batch.column("connection"), connection).to_numpy(zero_copy_only=False)
        left = None if most is None else most - len(found.rows)
        for row, place in _rows(batch, np.flatnonzero(wanted)[:left], places):
            found.rows[row["frame"]], found.place[row["frame"]] = row, place
        if (len(frame) and int(frame[-1]) >= last) or len(found.rows) == most:
            break
    return found


class _Gatherer:
    """Keeps the rows that prove findings, and on the connection of each finding those around the guilty one."""

    def __init__(self, findings: Sequence[Finding], before: int, after: int) -> None:
        self.found = Transcript()
        self._before, self._after = before, after
        self._proving = np.array(sorted({frame.frame for each in findings for frame in each.frames}), np.int64)
        self._guilty: dict[str, set[int]] = defaultdict(set)  #: guilty frames of each connection
        for each in findings:
            self._guilty[each.connection].add(each.guilty.frame)
        self._counts: dict[str, int] = defaultdict(int)  #: frames of each connection in earlier batches
        self._tails: dict[str, list[tuple[Row, int]]] = defaultdict(list)  #: the last rows in earlier batches
        self._owed: dict[str, list[tuple[int, int]]] = defaultdict(list)  #: guilty frames, and rows still to come
        self._searched: dict[str, list[tuple[int, int]]] = defaultdict(list)  #: the same, for their refusals

    def gather(self, batch: pa.RecordBatch) -> bool:
        """Keep what is needed of a batch; tell whether that was all."""
        if not batch.num_rows:
            return False
        frame = batch.column("frame").to_numpy()
        places, connections = _places(batch, self._counts)
        for row, place in _rows(batch, np.flatnonzero(np.isin(frame, self._proving)), places):
            self._keep(row, place)
        for name in connections.keys() & self._guilty.keys():
            self._gather_around(batch, name, connections[name], frame, places)
            if self._after and {*batch.schema.names} >= refusals.COLUMNS:
                self._gather_later(batch, name, connections[name], frame, places)
        done = not any(self._owed.values()) and not any(self._searched.values())
        return bool(frame[-1] >= self._proving[-1]) and done

    def _gather_around(self, batch: pa.RecordBatch, name: str, rows: Longs, frame: Longs, places: Longs) -> None:
        """Keep what is around the guilty frames of one connection, whose rows in the batch are ``rows``."""
        chosen: dict[int, set[int]] = defaultdict(set)  #: guilty frame to indexes into ``rows``
        for number, count in self._owed.pop(name, []):
            chosen[number] |= set(range(min(count, len(rows))))
            if count > len(rows):
                self._owed[name].append((number, count - len(rows)))
        for at in np.flatnonzero(np.isin(frame[rows], list(self._guilty[name]))).tolist():
            number = int(frame[rows[at]])
            chosen[number] |= set(range(max(at - self._before, 0), min(at + 1 + self._after, len(rows))))
            if at < self._before:
                for row, place in self._tails[name][-(self._before - at) :]:
                    self._keep(row, place, number)
            if at + self._after >= len(rows):
                self._owed[name].append((number, at + self._after - len(rows) + 1))
        for number, some in chosen.items():
            for row, place in _rows(batch, rows[sorted(some)], places):
                self._keep(row, place, number)
        if self._before:
            tail = _rows(batch, rows[-self._before :], places)
            self._tails[name] = [*self._tails[name], *tail][-self._before :]

    def _gather_later(self, batch: pa.RecordBatch, name: str, rows: Longs, frame: Longs, places: Longs) -> None:
        """Keep the rows after the guilty frames of one connection in which they may be refused."""
        searched = [(number, 0, count) for number, count in self._searched.pop(name, [])]
        guilty = np.flatnonzero(np.isin(frame[rows], list(self._guilty[name]))).tolist()
        searched += [(int(frame[rows[at]]), at + 1, refusals.SEARCHED) for at in guilty]
        for number, begin, count in searched:
            chosen = rows[begin : begin + count]
            self.found.later[number] += _rows(batch, chosen, places)
            if len(chosen) < count:
                self._searched[name].append((number, count - len(chosen)))

    def _keep(self, row: Row, place: int, guilty: int | None = None) -> None:
        self.found.rows[row["frame"]], self.found.place[row["frame"]] = row, place
        if guilty is not None:
            self.found.around[guilty].append(row["frame"])


def _places(batch: pa.RecordBatch, counts: dict[str, int]) -> tuple[Longs, dict[str, Longs]]:
    """Return how many frames of its connection come before each row, and the rows of each connection.

    ``counts`` has the frames of each connection before the batch, and is brought up to date.
    """
    encoded = batch.column("connection").dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    places = np.empty(len(codes), np.int64)
    connections: dict[str, Longs] = {}
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else ():
        name = names[codes[rows[0]]]
        connections[name] = rows
        places[rows] = counts[name] + np.arange(len(rows))
        counts[name] += len(rows)
    return places, connections


def _rows(batch: pa.RecordBatch, chosen: Longs, places: Longs) -> list[tuple[Row, int]]:
    rows = batch.take(pa.array(chosen)).to_pylist() if len(chosen) else []
    return list(zip(rows, places[chosen].tolist(), strict=True))
