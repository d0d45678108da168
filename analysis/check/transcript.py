"""Frames around findings, as rows: those that prove a finding, and their neighbours on the connection.

Reads the captures again, and only as far as needed: frames are not kept while rules are checked. Must not know how
frames are shown.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.frames.reader import FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analysis.check.findings import Finding
    from dissector.capture import Input
    from dissector.options import ReadOptions

    Row = dict[str, Any]

COLUMNS = frozenset(("frame", "time_ns", "connection"))  #: what a row must have to be gathered
NEIGHBOURS = 2  #: frames of the same connection that are shown before and behind a guilty one


class Transcript:
    """Rows of frames, by number; and the numbers that their connections have in listings."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.place: dict[int, int] = {}  #: of each of them: how many frames of its connection come before
        self.numbering = ConnectionNumbers()
        self.around: dict[int, list[int]] = defaultdict(list)  #: guilty frame to the frames to show with it

    def of(self, finding: Finding) -> list[Row]:
        """Return the rows to show for a finding, in order."""
        wanted = {frame.frame for frame in finding.frames} | set(self.around.get(finding.guilty.frame, ()))
        return [self.rows[number] for number in sorted(wanted) if number in self.rows]


def read(
    inputs: Sequence[Input],
    options: ReadOptions,
    findings: Sequence[Finding],
    watch: Callable[[FrameReader], Callable[[], None]] | None = None,
    neighbours: int = NEIGHBOURS,
) -> Transcript:
    """Gather what the findings' transcripts need; ``watch`` is told how far it has come.

    Rows have the columns that the options ask for, and must have those of ``COLUMNS``.
    """
    found = Transcript()
    if not findings:
        return found
    gatherer = _TranscriptGatherer(found, findings, neighbours)
    reader = FrameReader(inputs, options)
    advance = watch(reader) if watch is not None else None
    for batch in reader:
        if advance is not None:
            advance()
        found.numbering.see(batch)
        if gatherer.take(batch):
            break
    return found


class _TranscriptGatherer:
    """Takes rows by number, and the neighbours of guilty ones in their connection."""

    def __init__(self, found: Transcript, findings: Sequence[Finding], neighbours: int) -> None:
        self._found = found
        self._neighbours = neighbours
        self._wanted = np.array(sorted({frame.frame for each in findings for frame in each.frames}), np.int64)
        self._guilty = np.array(sorted({each.guilty.frame for each in findings}), np.int64)
        self._connections = {each.connection for each in findings}
        self._last = int(self._wanted[-1])
        self._seen: dict[str, int] = defaultdict(int)  #: frames of each connection before the batch
        self._tails: dict[str, list[tuple[int, Row]]] = {}  #: the last rows of each connection before the batch
        self._owed: dict[str, list[tuple[int, int]]] = {}  #: guilty frames and how many rows they still want

    def take(self, batch: pa.RecordBatch) -> bool:
        """Take a batch; tell whether everything is there."""
        if not batch.num_rows:
            return False
        frame = batch.column("frame").to_numpy()
        wanted, guilty = np.isin(frame, self._wanted), np.isin(frame, self._guilty)
        connection = batch.column("connection").dictionary_encode()
        names = connection.dictionary.to_pylist()
        codes = connection.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            name = names[codes[rows[0]]]
            if name in self._connections or wanted[rows].any():
                self._connection(batch, name, rows, wanted[rows], guilty[rows])
            self._seen[name] += len(rows)
        return int(frame[-1]) >= self._last and not any(self._owed.values())

    def _connection(
        self,
        batch: pa.RecordBatch,
        name: str,
        rows: np.ndarray[Any, Any],
        wanted: np.ndarray[Any, Any],
        guilty: np.ndarray[Any, Any],
    ) -> None:
        """Take the rows of one connection."""
        around, seen, neighbours = self._found.around, self._seen[name], self._neighbours
        self._keep(batch, rows, np.flatnonzero(wanted), seen)
        if not neighbours:
            return
        for number, count in self._owed.pop(name, []):
            kept = self._keep(batch, rows, np.arange(min(count, len(rows))), seen)
            around[number] += kept
            if len(kept) < count:
                self._owed.setdefault(name, []).append((number, count - len(kept)))
        for at in np.flatnonzero(guilty).tolist():
            near = np.arange(max(at - neighbours, 0), min(at + 1 + neighbours, len(rows)))
            number = batch.column("frame")[int(rows[at])].as_py()
            for place, row in self._tails.get(name, [])[-(neighbours - at) :] if at < neighbours else []:
                self._add(place, row)
                around[number].append(row["frame"])
            around[number] += self._keep(batch, rows, near, seen)
            behind = len(rows) - 1 - at
            if behind < neighbours:
                self._owed.setdefault(name, []).append((number, neighbours - behind))
        places = range(max(len(rows) - neighbours, 0), len(rows))
        tail = batch.take(pa.array(rows[-neighbours:])).to_pylist()
        kept_tail = [(seen + at, row) for at, row in zip(places, tail, strict=True)]
        self._tails[name] = [*self._tails.get(name, []), *kept_tail][-neighbours:]

    def _keep(
        self, batch: pa.RecordBatch, rows: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any], seen: int
    ) -> list[int]:
        """Keep some of a connection's rows; return their numbers."""
        taken: list[Row] = batch.take(pa.array(rows[chosen])).to_pylist() if len(chosen) else []
        for at, row in zip(chosen.tolist(), taken, strict=True):
            self._add(seen + at, row)
        return [row["frame"] for row in taken]

    def _add(self, place: int, row: Row) -> None:
        self._found.rows[row["frame"]] = row
        self._found.place[row["frame"]] = place
