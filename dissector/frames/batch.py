"""A batch of frames as numpy columns: what summaries, context and plots read.

Connections have codes: their places in the order in which they come up in the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dissector.arrow import encoded, numeric, plain, take
from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dissector.array_types import Longs, Mask


NOTHING = -1  #: in place of null
#: Numberings of opcodes: the prototype and the draft have their own, all other dialects share one.
PLAIN, PROTO, DRAFT = range(3)
_NUMBERINGS = {Dialect.DRAFT.value: DRAFT, Dialect.PROTO.value: PROTO}


class FrameBatch:
    """One batch of rows."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.size = batch.num_rows
        ids, codes = encoded(batch.column("connection"))
        self.ids: list[str] = ids.to_pylist()  #: of connections, by code
        self.code: Longs = codes.astype(np.int64)  #: each row's connection
        self.direction = self.numbers("direction")
        self.opcode = self.numbers("opcode")
        self.response: Mask = batch.column("response").to_numpy(zero_copy_only=False)
        spoken, self._dialect = encoded(batch.column("dialect"))
        self._dialects: list[str] = spoken.to_pylist()
        self.numbering = self.by_dialect(_NUMBERINGS, PLAIN)

    def numbers(self, name: str) -> Longs:
        """Return a column of numbers that are never negative, with :data:`NOTHING` for null."""
        column = self.batch.column(name)
        if column.null_count == self.size:
            return np.full(self.size, NOTHING, np.int64)
        found: Longs = plain(column, NOTHING).astype(np.int64, copy=False)
        return found

    def rows(self, which: Longs, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return some rows as objects: for the few set-up messages only."""
        arrays = [take(self.batch.column(name), which) for name in columns]
        found: list[dict[str, Any]] = pa.RecordBatch.from_arrays(arrays, list(columns)).to_pylist()
        return found

    def by_dialect(self, numbers: Mapping[str, int], otherwise: int) -> Longs:
        """Return a number for each row's dialect."""
        found = np.array([numbers.get(name, otherwise) for name in self._dialects], np.int64)
        return np.full(self.size, found[0]) if len(found) == 1 else found[self._dialect]


def distinct(numbers: Longs) -> tuple[list[int], Longs]:
    """Return the distinct numbers in the order they come up, and each row's place among them."""
    found, place = encoded(numeric(pa.int64(), numbers))
    return found.to_pylist(), place.astype(np.int64)
