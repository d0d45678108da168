"""Frames around findings, as lines: the guilty ones marked. Reads the captures again, and only as far as needed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dissector.choice import Numbering
from dissector.pipeline import FrameReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.findings import Finding
    from dissector.capture import Input
    from dissector.run import Options

    Row = dict[str, Any]

NEIGHBOURS = 2  #: frames of the same connection that are shown before and behind a guilty one


class Transcript:
    """Rows of frames, by number; and the numbers that their connections have in listings."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.numbering = Numbering()
        self.around: dict[int, list[int]] = defaultdict(list)  #: guilty frame to the frames to show with it

    def of(self, finding: Finding) -> list[Row]:
        """Return the rows to show for a finding, in order."""
        wanted = {frame.frame for frame in finding.frames} | set(self.around.get(finding.guilty.frame, ()))
        return [self.rows[number] for number in sorted(wanted) if number in self.rows]


def read(inputs: Sequence[Input], options: Options, findings: Sequence[Finding]) -> Transcript:
    """Gather what the findings' transcripts need."""
    found = Transcript()
    if not findings:
        return found
    gatherer = _Gatherer(found, findings)
    for batch in FrameReader(inputs, options):
        found.numbering.see(batch)
        if gatherer.take(batch):
            break
    return found


class _Gatherer:
    """Takes rows by number, and the neighbours of guilty ones in their connection."""

    def __init__(self, found: Transcript, findings: Sequence[Finding]) -> None:
        self._found = found
        self._guilty: dict[str, set[int]] = defaultdict(set)
        for finding in findings:
            self._guilty[finding.connection].add(finding.guilty.frame)
        self._wanted = np.array(sorted({frame.frame for each in findings for frame in each.frames}), np.int64)
        self._last = int(self._wanted[-1])
        self._tails: dict[str, list[Row]] = {}  #: the last rows of each connection before the batch
        self._owed: dict[str, list[tuple[int, int]]] = {}  #: guilty frames and how many rows they still want

    def take(self, batch: pa.RecordBatch) -> bool:
        """Take a batch; tell whether everything is there."""
        frame = batch.column("frame").to_numpy()
        self._keep(batch, np.flatnonzero(np.isin(frame, self._wanted)))
        connection = batch.column("connection").dictionary_encode()
        names = connection.dictionary.to_pylist()
        codes = connection.indices.to_numpy(zero_copy_only=False)
        for code, name in enumerate(names):
            if name in self._guilty:
                self._neighbours(batch, name, np.flatnonzero(codes == code), frame)
        return int(frame[-1]) >= self._last and not any(self._owed.values())

    def _keep(self, batch: pa.RecordBatch, rows: np.ndarray[Any, Any]) -> list[Row]:
        kept: list[Row] = batch.take(pa.array(rows)).to_pylist() if len(rows) else []
        for row in kept:
            self._found.rows[row["frame"]] = row
        return kept

    def _neighbours(
        self, batch: pa.RecordBatch, name: str, rows: np.ndarray[Any, Any], frame: np.ndarray[Any, Any]
    ) -> None:
        around = self._found.around
        for guilty, count in self._owed.pop(name, []):
            kept = self._keep(batch, rows[:count])
            around[guilty] += [row["frame"] for row in kept]
            if len(kept) < count:
                self._owed.setdefault(name, []).append((guilty, count - len(kept)))
        for at in np.flatnonzero(np.isin(frame[rows], sorted(self._guilty[name]))).tolist():
            guilty = int(frame[rows[at]])
            near = self._keep(batch, rows[max(at - NEIGHBOURS, 0) : at + 1 + NEIGHBOURS])
            missing = NEIGHBOURS - at
            if missing > 0:
                for row in self._tails.get(name, [])[-missing:]:
                    self._found.rows[row["frame"]] = row
                    around[guilty].append(row["frame"])
            around[guilty] += [row["frame"] for row in near]
            behind = len(rows) - 1 - at
            if behind < NEIGHBOURS:
                self._owed.setdefault(name, []).append((guilty, NEIGHBOURS - behind))
        tail = batch.take(pa.array(rows[-NEIGHBOURS:])).to_pylist()
        self._tails[name] = [*self._tails.get(name, []), *tail][-NEIGHBOURS:]
