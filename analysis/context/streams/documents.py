"""Documents in the streams of a batch: the version before each one, prepares and their completions, signs that a
document came from another cluster.

Knows keys, revisions and CAS values; must not know what rules make of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context import kinds
from analysis.context.lookback import RowsOfKind
from analysis.context.streams.key_versions import COLUMN, FIELDS
from dissector.arrow import plain, valid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from analysis.context.streams.key_versions import KeyVersions
    from analysis.context.streams.rows import Column, LongColumn, Rows, StreamRows
    from analysis.context.streams.snapshots import Snapshots
    from dissector.array_types import Longs, Mask

#: A CAS of at least this (2010) is a hybrid clock: nanoseconds since 1970. Older servers counted from their start.
CLOCK = 1_262_304_000 * 10**9
_SECOND = 10**9
#: Fields of the last prepare or completion of a key.
_SYNC = ("ordinal", "frame", "seqno", "opcode")


class Documents:
    """The columns of stream rows that are about documents."""

    def __init__(
        self, stream_rows: StreamRows, snapshots: Snapshots, versions: KeyVersions, syncs: KeyVersions
    ) -> None:
        self._stream_rows = stream_rows
        self._snapshots = snapshots
        self._instances = stream_rows.instances
        self._versions, self._syncs = versions, syncs
        frames, in_batch = stream_rows.frames, stream_rows.in_batch
        self._opcode = frames.opcode[in_batch]
        if frames.draft.any():
            self._opcode = np.where(frames.draft[in_batch], kinds.MUTATION, self._opcode)
        document = stream_rows.data & kinds.DOCUMENT[self._opcode] & (frames.numbers("key_length")[in_batch] > 0)
        hashes = frames.batch.column("key_hash")
        if hashes.null_count:
            document &= valid(hashes)[in_batch]
        self._hashes: Longs = plain(hashes, 0)
        self._document: Mask = document
        # Versions are looked up in the order of arrival, not stream by stream: so they do not depend on how frames are
        # cut into batches.
        places = np.full(frames.size, -1, np.int64)
        places[in_batch[document]] = np.flatnonzero(document)
        self._chosen: Longs = places[places >= 0]
        self._slot = np.full(stream_rows.size, -1, np.int64)
        self._slot[self._chosen] = np.arange(len(self._chosen))
        self._found = self._exchange()
        self._sync, self._sync_slot, self._sync_strange = self._exchange_sync()

    def _exchange(self) -> Longs:
        """Look up the version before each document's, and store its own."""
        chosen = self._chosen
        code = self._opcode[chosen]
        space = self._instances["serial"][self._stream_rows.entry[chosen]] * 2 + kinds.PREPARED[code]
        found, _ = self._versions.exchange(space, self._hashes[self._stream_rows.in_batch[chosen]], self._fresh(chosen))
        return found

    def _fresh(self, chosen: Longs) -> dict[str, Longs]:
        stream_rows = self._stream_rows
        return {
            "ordinal": stream_rows.ordinal[chosen],
            "frame": stream_rows.numbers("frame", chosen),
            "snapshot": self._snapshots.snapshot_ordinal(chosen),
            "seqno": stream_rows.seqno[chosen],
            "rev": stream_rows.numbers("rev_seqno", chosen),
            "cas": stream_rows.frames.signed("cas")[stream_rows.in_batch[chosen]],
            "opcode": self._opcode[chosen],
        }

    def _exchange_sync(self) -> tuple[Longs | None, Longs | None, Mask | None]:
        """Look up the prepare or completion before each prepare or completion."""
        sync = kinds.SYNC[self._opcode[self._chosen]]
        if not sync.any():
            return None, None, None
        chosen = self._chosen[sync]
        space = self._instances["serial"][self._stream_rows.entry[chosen]]
        found, strange = self._syncs.exchange(
            space, self._hashes[self._stream_rows.in_batch[chosen]], self._fresh(chosen)
        )
        slot = np.full(self._stream_rows.size, -1, np.int64)
        slot[chosen] = np.arange(len(chosen))
        self._leave_refused_out(chosen, space, found)
        return found, slot, strange

    def _leave_refused_out(self, chosen: Longs, space: Longs, found: Longs) -> None:
        """Let completions that a replica refuses not complete anything for the messages after them (SEQ-08).

        It refuses those that are not of the key's outstanding prepare, where that was surely sent in the stream.
        """
        rows, opcode = self._stream_rows, self._opcode[chosen]
        completes = (opcode == kinds.COMMIT) | (opcode == kinds.ABORT)
        prepared = rows.numbers("prepared_seqno", chosen)
        before = found[:, COLUMN["opcode"]]
        wrong = completes & (before >= 0)
        wrong &= (before != kinds.PREPARE) | (found[:, COLUMN["seqno"]] != prepared)
        if not wrong.any():
            return
        start = self._instances["start"][rows.entry[chosen]]
        shown = (prepared > start) & (prepared > self._snapshots.disk_end(chosen))
        shown &= (prepared >= self._snapshots.whole_from(chosen)) & (prepared < rows.seqno[chosen])
        hashes = self._hashes[rows.in_batch[chosen]]
        ordinals = rows.ordinal[chosen]
        refused: dict[int, Longs] = {}
        last: dict[tuple[int, int], int] = {}
        for at, (each, key) in enumerate(zip(space.tolist(), hashes.tolist(), strict=True)):
            earlier = refused.get(int(found[at, COLUMN["ordinal"]]))
            if earlier is not None:
                found[at] = earlier
            last[each, key] = at
            if shown[at] and completes[at] and found[at, COLUMN["opcode"]] >= 0:
                outstanding = found[at, COLUMN["opcode"]] == kinds.PREPARE
                if not outstanding or found[at, COLUMN["seqno"]] != prepared[at]:
                    refused[int(ordinals[at])] = found[at].copy()
        for (each, key), at in last.items():
            if int(ordinals[at]) in refused:
                self._syncs.restore(each, key, refused[int(ordinals[at])])

    # ------------------------------------------------------------------------------------------------------ columns

    def columns(self) -> dict[str, Column | NDArray[Any]]:
        """Return the columns; those of versions are -1 where none is known."""
        columns: dict[str, Column | NDArray[Any]] = {"document": self._document}
        columns["revised"] = lambda rows: self._of_opcodes(kinds.REVISED, rows)
        columns["sync"] = lambda rows: self._of_opcodes(kinds.SYNC, rows)
        columns |= {f"version_{name}": self._version(COLUMN[name]) for name in FIELDS}
        columns |= {f"sync_{name}": self._sync_version(COLUMN[name]) for name in _SYNC}
        columns["sync_forgotten"] = self._strange
        columns["snapshot_ordinal"] = lambda rows: self._snapshots.snapshot_ordinal(self._stream_rows.numbered(rows))
        columns["foreign_ordinal"] = self._foreign_ordinal
        columns["cas_ahead_s"] = self._ahead
        return columns

    def _of_opcodes(self, opcodes: Mask, rows: Rows) -> Mask:
        """Tell which rows are about a document and of some opcodes."""
        document, opcode = self._document, self._opcode
        kind: Mask = document & opcodes[opcode] if rows is None else document[rows] & opcodes[opcode[rows]]
        return kind

    def _version(self, column: int) -> LongColumn:
        def make(rows: Rows) -> Longs:
            slot = self._slot if rows is None else self._slot[rows]
            return _taken(self._found, slot, column)

        return make

    def _sync_version(self, column: int) -> LongColumn:
        def make(rows: Rows) -> Longs:
            if self._sync is None or self._sync_slot is None:
                return np.full(len(self._stream_rows.entries_of(rows)), -1, np.int64)
            return _taken(self._sync, self._sync_slot if rows is None else self._sync_slot[rows], column)

        return make

    def _strange(self, rows: Rows) -> Mask:
        """Tell where the prepare may have been overwritten in the table of versions."""
        size = len(self._stream_rows.entries_of(rows))
        if self._sync_strange is None or self._sync_slot is None:
            return np.zeros(size, bool)
        slot = self._sync_slot if rows is None else self._sync_slot[rows]
        strange: Mask = (slot >= 0) & self._sync_strange[slot]
        return strange

    def _ahead(self, rows: Rows) -> Longs:
        """Return how many seconds the clock in the CAS is ahead of the capture's clock."""
        at = self._stream_rows.in_batch if rows is None else self._stream_rows.in_batch[rows]
        cas = self._stream_rows.frames.signed("cas")[at]
        ahead: Longs = (
            np.where(cas < 0, np.iinfo(np.int64).max, cas) - self._stream_rows.numbers("time_ns", rows)
        ) // _SECOND
        return ahead

    @cached_property
    def _foreign(self) -> RowsOfKind:
        """Documents whose revision or CAS another cluster made.

        A vbucket's own clock and seqnos only grow: a CAS below that of the item before, or a revision above the seqno,
        came with the document from another cluster (SEQ-04, SEQ-05). Deletions of releases up to 4.1 keep the CAS of
        what they delete, so theirs says nothing.
        """
        stream_rows = self._stream_rows
        mask = np.zeros(stream_rows.size, bool)
        rows = np.flatnonzero(self._document & kinds.REVISED[self._opcode])
        if len(rows):
            cas = stream_rows.frames.signed("cas")[stream_rows.in_batch]
            found = stream_rows.items.before(rows)
            before = np.where(found >= 0, cas[found], self._instances["last_cas"][stream_rows.entry[rows]])
            foreign = (before >= CLOCK) & (cas[rows] >= CLOCK) & (cas[rows] < before)
            foreign &= self._opcode[rows] != kinds.DELETION
            foreign |= stream_rows.numbers("rev_seqno", rows) > stream_rows.seqno[rows]
            mask[rows] = foreign & ~self._snapshots.inside_oso(rows)
        return RowsOfKind(stream_rows.groups, mask)

    def _foreign_ordinal(self, rows: Rows) -> Longs:
        """Return the last document of another cluster up to each row, in its stream; 0: there is none."""
        remembered = self._instances["foreign"][self._stream_rows.entries_of(rows)]
        found = self._foreign.until(rows)
        last: Longs = np.where(found >= 0, self._stream_rows.ordinal[found], remembered)
        return last

    def remember(self) -> None:
        """Store what the next batch has to know."""
        stream_rows, instances = self._stream_rows, self._instances
        if len(self._foreign):
            instances["foreign"][stream_rows.entries] = self._foreign_ordinal(stream_rows.groups.ends)
        if len(stream_rows.items):
            found = stream_rows.items.until(stream_rows.groups.ends)
            here = found >= 0
            cas = stream_rows.frames.signed("cas")[stream_rows.in_batch[found[here]]]
            instances["last_cas"][stream_rows.entries[here]] = cas


def _taken(found: Longs, slot: Longs, column: int) -> Longs:
    """Return a column of the versions that were found, and -1 for rows for which none was looked up."""
    if not len(found):
        return np.full(len(slot), -1, np.int64)
    result: Longs = found[slot, column]
    nothing = slot < 0
    if nothing.any():
        result[nothing] = -1
    return result
