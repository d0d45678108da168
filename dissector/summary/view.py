"""A batch of frames as a fold wants it: numbers as numpy arrays, connections by the order they come up in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dissector.spec.model import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]

NOTHING = -1  #: in place of null
#: Opcodes mean other things in these; in all other dialects they mean the same.
PLAIN, PROTO, DRAFT = range(3)


class View:
    """One batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.size = batch.num_rows
        encoded = batch.column("connection").dictionary_encode()
        self.ids: list[str] = encoded.dictionary.to_pylist()
        self.code: Longs = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self.direction = self.numbers("direction")
        self.opcode = self.numbers("opcode")
        self.response: Mask = batch.column("response").to_numpy(zero_copy_only=False)
        self.numbering = self._numbering()

    def numbers(self, name: str) -> Longs:
        """Return a column of numbers that are never negative, with :data:`NOTHING` for null."""
        column = self.batch.column(name)
        if column.null_count == self.size:
            return np.full(self.size, NOTHING, np.int64)
        if column.null_count:
            column = column.fill_null(NOTHING)
        found: Longs = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return found

    def rows(self, which: Longs, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return some rows as objects: for the few set-up messages only."""
        found: list[dict[str, Any]] = self.batch.select(list(columns)).take(pa.array(which)).to_pylist()
        return found

    def _numbering(self) -> Longs:
        """Return which numbering each row's opcode belongs to."""
        numbering = np.full(self.size, PLAIN, np.int64)
        for dialect, number in ((Dialect.DRAFT, DRAFT), (Dialect.PROTO, PROTO)):
            found = pc.equal(self.batch.column("dialect"), dialect.value).to_numpy(zero_copy_only=False)
            numbering[found] = number
        return numbering


def distinct(numbers: Longs) -> tuple[list[int], Longs]:
    """Return the distinct numbers in the order they come up, and each row's place among them."""
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
