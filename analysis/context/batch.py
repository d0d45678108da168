"""A batch of frames as the context reads it: columns as arrays, connections and captures by numbers that outlive it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from analysis.context.frame_refs import REF, Ref
from analysis.context.kinds import KIND_OF
from dissector.arrow import encoded, plain
from dissector.frames.batch import DRAFT, PLAIN, FrameBatch
from dissector.frames.message_kinds import IS_UPR
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dissector.array_types import Longs, Mask
    from dissector.frames.connection_numbers import AppearanceOrder, ConnectionNumbers


#: Columns of frames that the context reads.
COLUMNS = frozenset(
    (
        *("frame", "capture", "packet_first", "packet_last", "time_ns", "connection", "direction"),
        *("start_offset", "end_offset", "acked_offset", "from_start", "gap", "skipped", "missing", "dialect"),
        *("magic", "opcode"),
        *("response", "vbucket", "status", "subtype", "datatype", "framing_length", "extras_length", "key_length"),
        *("value_length", "body_length", "opaque", "cas", "flow_bytes", "stream_id", "by_seqno", "rev_seqno", "nmeta"),
        *("name", "key_bytes", "key_hash", "text", "features", "defects", "snap_start_seqno", "snap_end_seqno"),
        *("snapshot_type", "max_visible_seqno", "high_completed_seqno", "high_prepared_seqno", "purge_seqno"),
        *("marker_version", "open_flags", "stream_flags", "start_seqno", "end_seqno", "high_seqno", "vbucket_uuid"),
        *("end_reason", "buffer_bytes", "prepared_seqno", "oso_flags", "vbucket_state", "stream_opaque", "event"),
        *("event_version", "durability_level", "reserved", "deleted", "failover_log", "rollback_seqno"),
    )
)
_EARLY = {Dialect.UPR.value: 1}


class ContextBatch(FrameBatch):
    """One batch: its columns, and what each message is to the context."""

    def __init__(
        self, batch: pa.RecordBatch, base: int, connections: ConnectionNumbers, captures: AppearanceOrder
    ) -> None:
        self._numbers: dict[str, Longs] = {}
        super().__init__(batch)
        self.base = base  #: ordinal of the first row
        self.ordinal: Longs = np.arange(base, base + self.size)
        self.connection = connections.indexes(self.ids)[self.code]
        self.side = self.direction
        self.direction_id = self.connection * 2 + self.side  #: one number per direction
        self.draft: Mask = self.numbering == DRAFT
        subtype = np.maximum(self.numbers("subtype"), 0) if self.draft.any() else np.zeros(self.size, np.int64)
        self.kind = KIND_OF[self.numbering, self.response.astype(np.int64), self.opcode, subtype]
        self.early: Mask = self.by_dialect(_EARLY, 0) > 0
        #: Rows whose senders had received something of the other side that the capture lacks, right before them.
        self.peer_lost: Mask = np.broadcast_to(np.False_, (self.size,))
        self._captures = captures
        self._refs: NDArray[np.void] | None = None

    @cached_property
    def upr(self) -> Mask:
        """Tell which rows are messages of the protocol, answers included."""
        found: Mask = IS_UPR[self.opcode] | (self.numbering != PLAIN)
        return found

    def numbers(self, name: str) -> Longs:
        """Return a column of numbers; -1 stands for null."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = super().numbers(name)
        return found

    def signed(self, name: str) -> Longs:
        """Return a column of 64-bit patterns, in which any number is a value; 0 stands for null."""
        return plain(self.batch.column(name), 0)

    @property
    def one_capture(self) -> bool:
        """Tell whether all rows are of one capture."""
        names, _ = encoded(self.batch.column("capture"))
        return len(names) == 1

    def capture_of(self, row: int) -> int:
        """Return the number of a row's capture."""
        return int(self._captures.indexes([self.batch.column("capture")[row].as_py()])[0])

    def refs(self) -> NDArray[np.void]:
        """Return a reference to each row."""
        if self._refs is None:
            names, places = encoded(self.batch.column("capture"))
            codes = self._captures.indexes(names.to_pylist())
            self._refs = np.empty(self.size, REF)
            self._refs["ordinal"] = self.ordinal
            self._refs["capture"] = codes[places]
            self._refs["side"] = self.side
            for name in ("frame", "packet_first", "packet_last", "time_ns", "start_offset"):
                self._refs[name] = self.numbers(name)
        return self._refs

    def ref(self, row: int) -> Ref:
        """Return a reference to one row."""
        return Ref.of(self.refs()[row])
