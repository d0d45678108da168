"""Which rows of a batch belong to which stream instance, each stream's in their order.

Finds the rows and their entries in :class:`Instances`. What is known of each row in its stream is up to
:class:`analysis.context.streams.stream_tables.StreamTables`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.context import kinds
from analysis.context.codes import UnknownReason
from analysis.context.lookback import RowGroups
from analysis.context.losses import without_stream
from analysis.context.streams.key_versions import KeyVersions
from analysis.context.streams.rows import BEGUN, CLOSED, CONFIRMED, SortedRows, StreamRows
from analysis.context.streams.stream_tables import StreamTables
from dissector.frames.batch import distinct
from dissector.frames.stream_key import connection_of, side_of, stream_key

if TYPE_CHECKING:
    from analysis.context.batch import ContextBatch
    from analysis.context.progress import DirectionProgress
    from analysis.context.requests.stream_lifecycle import BatchChanges
    from analysis.context.requests.tracker import RequestTracker
    from analysis.context.streams.instances import Instances
    from dissector.array_types import Longs, Mask


_SYNCS = 1 << 16  #: prepares and completions that are remembered
_SHORT_CODES = 1 << 16  #: numbers below are sorted as 16-bit integers, by radix: several times as fast


class StreamIndex:
    """All streams of a run. :attr:`versions` and :attr:`syncs` are the last versions of their keys."""

    def __init__(self, instances: Instances, tracker: RequestTracker, versions: KeyVersions | None = None) -> None:
        self.instances = instances
        self.tracker = tracker
        self.versions = versions or KeyVersions()
        self.syncs = KeyVersions(_SYNCS)

    def fold(
        self, frames: ContextBatch, changes: BatchChanges, gaps: Longs, directions: DirectionProgress
    ) -> StreamTables:
        """Find the messages of streams in a batch; the result makes tables of them."""
        rows, key, kind, begun = self._rows(frames, changes)
        keys, code = distinct(key)
        order = np.argsort(code.astype(np.uint16) if len(keys) < _SHORT_CODES else code, kind="stable")
        rows, key, kind, code = rows[order], key[order], kind[order], code[order]
        first = _first(code)
        if (kind == kinds.SEQNO_ACK).any():
            kept = self._without_lone_acks(changes, keys, code, kind, first)
            rows, key, kind, code = rows[kept], key[kept], kind[kept], code[kept]
            first = _first(code)
        begins = np.flatnonzero(kind == BEGUN)
        first[begins] = True
        doubts, forgotten = self._doubts(changes, keys, rows, code)
        first[doubts] = True
        groups = RowGroups(first)
        own = dict(zip(groups.number[begins].tolist(), (begun[row] for row in rows[begins].tolist()), strict=True))
        entries = self._entries(changes, keys, frames, rows, code, groups, doubts, forgotten, own)
        order_of_streams = SortedRows(rows, key, kind, groups, entries)
        stream_rows = StreamRows(frames, self.instances, order_of_streams, gaps)
        return StreamTables(self, stream_rows, changes, gaps, directions)

    def _rows(self, frames: ContextBatch, changes: BatchChanges) -> tuple[Longs, Longs, Longs, dict[int, int]]:
        """Return the rows of streams, the keys of their streams, kinds, and by row the entry that begins there."""
        vbucket = frames.numbers("vbucket")
        own = (frames.kind >= kinds.FIRST_OF_STREAM) & (frames.kind <= kinds.LAST_OF_STREAM)
        acks = frames.kind == kinds.SEQNO_ACK
        own |= acks
        own &= (vbucket >= 0) & ~without_stream(frames)
        extra: dict[int, tuple[int, int]] = {}
        for row, asked, state in changes.confirmations:
            if asked.vbucket >= 0:
                extra[row] = stream_key(state.number, asked.vbucket, asked.stream_id, asked.ref.side), CONFIRMED
        extra |= {row: (each, CLOSED) for row, each in changes.closes.items()}
        extra |= {row: (each, BEGUN) for row, (each, _) in changes.begins.items()}
        if extra:
            own[[*extra]] = True
        rows = np.flatnonzero(own)
        kind = frames.kind[rows].astype(np.int64)
        # A seqno acknowledgement belongs to the stream of the other direction.
        side = frames.side[rows] ^ acks[rows] if acks.any() else frames.side[rows]
        stream_id = np.maximum(frames.numbers("stream_id")[rows], 0)
        key = stream_key(frames.connection[rows], vbucket[rows], stream_id, side)
        if extra:
            at = np.searchsorted(rows, [*extra])
            key[at] = [each for each, _ in extra.values()]
            kind[at] = [each for _, each in extra.values()]
        return rows, key, kind, {row: instance for row, (_, instance) in changes.begins.items()}

    def _entry(self, changes: BatchChanges, key: int) -> int:
        """Return the entry that a stream had before the batch; -1: none."""
        if key in changes.before:
            return changes.before[key]
        return self.tracker.state(connection_of(key)).live.get(key, -1)

    @staticmethod
    def _doubts(changes: BatchChanges, keys: list[int], rows: Longs, code: Longs) -> tuple[Longs, frozenset[int]]:
        """Return the rows from which on a stream's messages may be those of another one, and streams without such rows.

        Of the latter only what comes in later batches may be another one's.
        """
        if not changes.doubts and not changes.doubted_directions:
            return np.empty(0, np.int64), frozenset()
        found: set[int] = set()
        forgotten: set[int] = set()
        for number, key in enumerate(keys):
            doubted = [
                *changes.doubts.get(key, ()),
                *changes.doubted_directions.get(connection_of(key) * 2 + side_of(key), ()),
            ]
            if doubted:
                begin, end = np.searchsorted(code, (number, number + 1)).tolist()
                places = begin + np.searchsorted(rows[begin:end], doubted)
                found.update(places[places < end].tolist())
                if (places == end).any():
                    forgotten.add(key)
        return np.array(sorted(found), np.int64), frozenset(forgotten)

    def _entries(
        self,
        changes: BatchChanges,
        keys: list[int],
        frames: ContextBatch,
        rows: Longs,
        code: Longs,
        groups: RowGroups,
        doubts: Longs,
        forgotten: frozenset[int],
        own: dict[int, int],
    ) -> Longs:
        """Return the entry of each group; ``own`` has those of groups that begin with an answer."""
        starts = groups.starts
        entries = np.full(len(starts), -1, np.int64)
        if not len(starts):
            return entries
        number = code[starts]
        first = np.ones(len(starts), bool)
        first[1:] = number[1:] != number[:-1]
        last = np.ones(len(starts), bool)
        last[:-1] = first[1:]
        entries[[*own]] = [*own.values()]
        doubted = np.isin(starts, doubts) if len(doubts) else np.zeros(len(starts), bool)
        for group in np.flatnonzero(first & ~doubted & (entries < 0)).tolist():
            entries[group] = self._entry(changes, keys[number[group]])
        for group in np.flatnonzero(entries < 0).tolist():
            if first[group] or doubted[group]:
                key = keys[number[group]]
                entry = self._add_unseen(key, frames.base + int(rows[starts[group]]), doubted=bool(doubted[group]))
                entries[group] = entry
                state = self.tracker.state(connection_of(key))
                if last[group] and key not in state.live and key not in forgotten:
                    state.live[key] = entry
                else:
                    changes.over.append(entry)
        return entries

    def _add_unseen(self, key: int, ordinal: int, *, doubted: bool) -> int:
        """Make an entry for a stream whose beginning was not captured."""
        state = self.tracker.state(connection_of(key))
        unseen = state.unseen_streams[side_of(key)]
        reason = UnknownReason.KNOWN
        if not state.opened or state.opened > ordinal:
            reason = UnknownReason.START
        elif doubted or 0 < unseen <= ordinal:
            reason = UnknownReason.GAP
        return self.instances.add(presumed=int(reason))

    def _without_lone_acks(self, changes: BatchChanges, keys: list[int], code: Longs, kind: Longs, first: Mask) -> Mask:
        """Return the rows to keep: all but acknowledgements for streams of which nothing was captured before."""
        kept = np.ones(len(code), bool)
        for head in np.flatnonzero(first & (kind == kinds.SEQNO_ACK)).tolist():
            if self._entry(changes, keys[code[head]]) < 0:
                others = np.flatnonzero((code[head:] != code[head]) | (kind[head:] != kinds.SEQNO_ACK))
                kept[head : head + int(others[0]) if len(others) else len(kept)] = False
        return kept


def _first(code: Longs) -> Mask:
    """Tell where a new code begins."""
    first = np.ones(len(code), bool)
    first[1:] = code[1:] != code[:-1]
    return first
