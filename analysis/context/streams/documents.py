"""Documents in a stretch of streams: each one's version before, prepares and what completed them, signs of other
clusters.

Knows keys, revisions and CAS values; must not know what rules make of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.streams.key_versions import COLUMN, FIELDS
from analysis.context.trails import RowsOfKind
from dissector.arrow import plain, valid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.streams.key_versions import KeyVersions
    from analysis.context.streams.rows import StreamRows

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Rows = Longs | None

#: A CAS that is no less is a hybrid clock: nanoseconds since 1970. Before, it was time since a machine's start.
CLOCK = 1_262_304_000 * 10**9
_SECOND = 10**9
_SYNC = ("ordinal", "frame", "seqno", "opcode")


class Documents:
    """The columns of a stretch that are about documents."""

    def __init__(self, stretch: StreamRows, versions: KeyVersions, syncs: KeyVersions) -> None:
        self._stretch = stretch
        self._instances = stretch.instances
        self._versions, self._syncs = versions, syncs
        sight, rows = stretch.sight, stretch.rows
        self._opcode = sight.opcode[rows]
        if sight.draft.any():
            self._opcode = np.where(sight.draft[rows], kinds.MUTATION, self._opcode)
        document = stretch.data & kinds.DOCUMENT[self._opcode] & (sight.numbers("key_length")[rows] > 0)
        hashes = sight.batch.column("key_hash")
        if hashes.null_count:
            document &= valid(hashes)[rows]
        self._hashes: Longs = plain(hashes, 0)
        self._document: Mask = document
        # Arrival decides what came before, not the order of streams: the table must not depend on how batches are cut.
        places = np.full(sight.size, -1, np.int64)
        places[rows[document]] = np.flatnonzero(document)
        self._chosen: Longs = places[places >= 0]
        self._slot = np.full(len(rows), -1, np.int64)
        self._slot[self._chosen] = np.arange(len(self._chosen))
        self._found = self._exchange()
        self._sync, self._sync_slot, self._sync_strange = self._exchange_sync()

    def _exchange(self) -> Longs:
        """Look up the version before each document's, and keep its own."""
        chosen = self._chosen
        code = self._opcode[chosen]
        space = self._instances["serial"][self._stretch.entry[chosen]] * 2 + kinds.PREPARED[code]
        found, _ = self._versions.exchange(space, self._hashes[self._stretch.rows[chosen]], self._fresh(chosen))
        return found

    def _fresh(self, chosen: Longs) -> dict[str, Longs]:
        stretch = self._stretch
        return {
            "ordinal": stretch.ordinal[chosen],
            "frame": stretch.number("frame", chosen),
            "snapshot": stretch.snapshots.snapshot_ordinal(chosen),
            "seqno": stretch.seqno[chosen],
            "rev": stretch.number("rev_seqno", chosen),
            "cas": stretch.sight.signed("cas")[stretch.rows[chosen]],
            "opcode": self._opcode[chosen],
        }

    def _exchange_sync(self) -> tuple[Longs | None, Longs | None, Mask | None]:
        """Look up the prepare or completion before each of these."""
        sync = kinds.SYNC[self._opcode[self._chosen]]
        if not sync.any():
            return None, None, None
        chosen = self._chosen[sync]
        space = self._instances["serial"][self._stretch.entry[chosen]]
        found, strange = self._syncs.exchange(space, self._hashes[self._stretch.rows[chosen]], self._fresh(chosen))
        slot = np.full(len(self._stretch.rows), -1, np.int64)
        slot[chosen] = np.arange(len(chosen))
        return found, slot, strange

    # ------------------------------------------------------------------------------------------------------ columns

    def columns(self) -> dict[str, Any]:
        """Return the columns; those of versions are -1 where none is known."""
        carried, of = self._instances, self._stretch.of
        columns: dict[str, Any] = {"document": self._document}
        columns["revised"] = lambda rows: self._kind(kinds.REVISED, rows)
        columns["sync"] = lambda rows: self._kind(kinds.SYNC, rows)
        columns |= {f"version_{name}": self._version(COLUMN[name]) for name in FIELDS}
        columns |= {f"sync_{name}": self._sync_version(COLUMN[name]) for name in _SYNC}
        columns["sync_strange"] = self._strange
        columns["snapshot_ordinal"] = lambda rows: self._stretch.snapshots.snapshot_ordinal(self._numbers(rows))
        columns["foreign"] = lambda rows: (self._foreign.before(rows) >= 0) | (carried["foreign"][of(rows)] > 0)
        columns["foreign_here"] = lambda rows: self._foreign.mask if rows is None else self._foreign.mask[rows]
        columns["cas_ahead_s"] = self._ahead
        return columns

    def refs(self) -> dict[str, Any]:
        """Return references to frames: none, a version has the number of its frame."""
        return {}

    def _numbers(self, rows: Rows) -> Longs:
        return np.arange(len(self._stretch.rows)) if rows is None else rows

    def _kind(self, wanted: Mask, rows: Rows) -> Mask:
        """Tell which rows are about a document and of some opcodes."""
        document, opcode = self._document, self._opcode
        kind: Mask = document & wanted[opcode] if rows is None else document[rows] & wanted[opcode[rows]]
        return kind

    def _version(self, column: int) -> Any:
        def make(rows: Rows) -> Longs:
            slot = self._slot if rows is None else self._slot[rows]
            return _taken(self._found, slot, column)

        return make

    def _sync_version(self, column: int) -> Any:
        def make(rows: Rows) -> Longs:
            if self._sync is None or self._sync_slot is None:
                return np.full(len(self._numbers(rows)), -1, np.int64)
            return _taken(self._sync, self._sync_slot if rows is None else self._sync_slot[rows], column)

        return make

    def _strange(self, rows: Rows) -> Mask:
        """Tell where a prepare may have been forgotten."""
        size = len(self._numbers(rows))
        if self._sync_strange is None or self._sync_slot is None:
            return np.zeros(size, bool)
        slot = self._sync_slot if rows is None else self._sync_slot[rows]
        strange: Mask = (slot >= 0) & self._sync_strange[slot]
        return strange

    def _ahead(self, rows: Rows) -> Longs:
        """Return how many seconds the clock in the CAS is ahead of the capture's."""
        at = self._stretch.rows if rows is None else self._stretch.rows[rows]
        cas = self._stretch.sight.signed("cas")[at]
        ahead: Longs = (
            np.where(cas < 0, np.iinfo(np.int64).max, cas) - self._stretch.number("time_ns", rows)
        ) // _SECOND
        return ahead

    @cached_property
    def _foreign(self) -> RowsOfKind:
        """Documents whose revision or CAS another cluster made.

        A vbucket's own clock and seqnos only grow: a CAS below that of the item before, or a revision above the seqno,
        came with the document (SEQ-04, SEQ-05).
        """
        stretch = self._stretch
        mask = np.zeros(len(stretch.rows), bool)
        rows = np.flatnonzero(self._document & kinds.REVISED[self._opcode])
        if len(rows):
            cas = stretch.sight.signed("cas")[stretch.rows]
            found = stretch.items.before(rows)
            before = np.where(found >= 0, cas[found], self._instances["last_cas"][stretch.entry[rows]])
            disorder = (before >= CLOCK) & (cas[rows] >= CLOCK) & (cas[rows] < before)
            disorder |= stretch.number("rev_seqno", rows) > stretch.seqno[rows]
            mask[rows] = disorder & ~stretch.snapshots.inside_oso(rows)
        return RowsOfKind(stretch.groups, mask)

    def remember(self) -> None:
        """Carry over what the next batch has to know."""
        stretch, instances = self._stretch, self._instances
        np.add.at(instances["foreign"], stretch.entry[self._foreign.at], 1)
        if len(stretch.items):
            found = stretch.items.until(stretch.groups.ends)
            here = found >= 0
            cas = stretch.sight.signed("cas")[stretch.rows[found[here]]]
            instances["last_cas"][stretch.entries[here]] = cas


def _taken(found: Longs, slot: Longs, column: int) -> Longs:
    """Return a column of what was found, and -1 for rows that nothing was looked up for."""
    if not len(found):
        return np.full(len(slot), -1, np.int64)
    result: Longs = found[slot, column]
    nothing = slot < 0
    if nothing.any():
        result[nothing] = -1
    return result
