"""Streams: which rows of a batch belong to which stream instance, each stream's in their order.

Finds the rows, and the entries in :class:`Instances` that they belong to. What the rows are to each other is told by
:class:`analysis.context.streams.rows.StreamRows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.lookback import RowGroups
from analysis.context.streams.key_versions import KeyVersions
from analysis.context.streams.rows import BEGUN, CLOSED, CONFIRMED, StreamRows
from dissector.frames.batch import distinct
from dissector.frames.stream_key import connection_of, stream_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.batch import ContextBatch
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.stream_lifecycle import BatchChanges
    from analysis.context.requests.tracker import RequestTracker
    from analysis.context.streams.instances import Instances

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_SYNCS = 1 << 16  #: prepares and completions that are remembered
_SHORT = 1 << 16  #: numbers below sort in one go over their digits


class StreamIndex:
    """All streams of a run."""

    def __init__(self, instances: Instances, desk: RequestTracker, versions: KeyVersions | None = None) -> None:
        self.instances = instances
        self.desk = desk
        self.versions = versions or KeyVersions()
        self.syncs = KeyVersions(_SYNCS)

    def fold(self, sight: ContextBatch, done: BatchChanges, gaps: Longs, directions: DirectionProgress) -> StreamRows:
        """Take a batch; what comes back gives tables of the messages of streams, each stream's in their order."""
        rows, key, kind, begun = self._rows(sight, done)
        keys, code = distinct(key)
        order = np.argsort(code.astype(np.uint16) if len(keys) < _SHORT else code, kind="stable")
        rows, key, kind, code = rows[order], key[order], kind[order], code[order]
        first = _first(code)
        if (kind == kinds.SEQNO_ACK).any():
            kept = self._unclaimed(done, keys, code, kind, first)
            rows, key, kind, code = rows[kept], key[kept], kind[kept], code[kept]
            first = _first(code)
        begins = np.flatnonzero(kind == BEGUN)
        heads = np.flatnonzero(first)
        known = self._known(done, keys, code[heads[kind[heads] != BEGUN]])
        first[begins] = True
        groups = RowGroups(first)
        # Only the first part of a stream's rows has the entry that the batch found; others begin with their own.
        entries = known[code[groups.starts]] if len(keys) else np.empty(0, np.int64)
        if len(begins):
            entries[groups.number[begins]] = [begun[row] for row in rows[begins].tolist()]
        return StreamRows(self, sight, rows, key, kind, groups, entries, gaps, directions, done)

    def _rows(self, sight: ContextBatch, done: BatchChanges) -> tuple[Longs, Longs, Longs, dict[int, int]]:
        """Return the rows that matter, with the key of their stream, their kind, and the entries that begin there."""
        vbucket = sight.numbers("vbucket")
        own = (sight.kind >= kinds.FIRST_OF_STREAM) & (sight.kind <= kinds.LAST_OF_STREAM)
        acks = sight.kind == kinds.SEQNO_ACK
        own |= acks
        own &= vbucket >= 0
        extra: dict[int, tuple[int, int]] = {}
        for row, asked, talk in done.confirmations:
            if asked.vbucket >= 0:
                extra[row] = stream_key(talk.number, asked.vbucket, asked.stream_id, asked.ref.side), CONFIRMED
        extra |= {row: (each, CLOSED) for row, each in done.closes.items()}
        extra |= {row: (each, BEGUN) for row, (each, _) in done.begins.items()}
        if extra:
            own[[*extra]] = True
        rows = np.flatnonzero(own)
        kind = sight.kind[rows].astype(np.int64)
        # What a replica acknowledges belongs to the stream of the other direction.
        side = sight.side[rows] ^ acks[rows] if acks.any() else sight.side[rows]
        stream_id = np.maximum(sight.numbers("stream_id")[rows], 0)
        key = stream_key(sight.connection[rows], vbucket[rows], stream_id, side)
        if extra:
            at = np.searchsorted(rows, [*extra])
            key[at] = [each for each, _ in extra.values()]
            kind[at] = [each for _, each in extra.values()]
        return rows, key, kind, {row: instance for row, (_, instance) in done.begins.items()}

    def _entry(self, done: BatchChanges, key: int) -> int:
        """Return the entry that a stream had before the batch; -1: none."""
        if key in done.before:
            return done.before[key]
        return self.desk.state(connection_of(key)).live.get(key, -1)

    def _known(self, done: BatchChanges, keys: list[int], needed: Longs) -> Longs:
        """Return, by stream, the entry that the batch found; streams whose beginning was not captured get one."""
        known = np.full(len(keys), -1, np.int64)
        for number in needed.tolist():
            key = keys[number]
            entry = self._entry(done, key)
            known[number] = self._unasked(key, done) if entry < 0 else entry
        return known

    def _unclaimed(self, done: BatchChanges, keys: list[int], code: Longs, kind: Longs, first: Mask) -> Mask:
        """Return the rows to keep: all but what is acknowledged of streams that nobody has seen yet."""
        kept = np.ones(len(code), bool)
        for head in np.flatnonzero(first & (kind == kinds.SEQNO_ACK)).tolist():
            if self._entry(done, keys[code[head]]) < 0:
                others = np.flatnonzero((code[head:] != code[head]) | (kind[head:] != kinds.SEQNO_ACK))
                kept[head : head + int(others[0]) if len(others) else len(kept)] = False
        return kept

    def _unasked(self, key: int, done: BatchChanges) -> int:
        """Make an entry for a stream whose beginning was not captured."""
        talk = self.desk.state(connection_of(key))
        fresh = self.instances.add()
        if key in done.before:
            done.before[key] = fresh
            done.over.append(fresh)
        else:
            talk.live[key] = fresh
        return fresh


def _first(code: Longs) -> Mask:
    """Tell where a new code begins."""
    first = np.ones(len(code), bool)
    first[1:] = code[1:] != code[:-1]
    return first
