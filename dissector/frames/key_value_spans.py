"""Where keys and values of a batch's frames are in its bytes, and the columns that are made of them.

Everything is done for all frames of a batch at once. Knows spans of bytes, not messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import xxhash

from dissector.arrow import nulls, numeric, spans
from dissector.frames.byte_text import text_column
from dissector.frames.key_hash import hash_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs, Mask
    from dissector.tcp.frame_table import FrameTable


_digest = xxhash.xxh3_64_digest
_MAX_LEB128 = 5  #: bytes of a collection id


class KeyValueSpans:
    """Keys and values of the frames of one table."""

    def __init__(
        self, table: FrameTable, source: NDArray[np.uint8], key_start: Longs, key_length: Longs, value_length: Longs
    ) -> None:
        self._table = table
        self._source = source
        self._size = len(table)
        self.key_start = key_start
        self.key_length = key_length
        self.prefix = np.zeros(self._size, np.int64)  #: bytes of a collection id in front of each key
        self.value_start = key_start + key_length
        self.value_length = value_length
        self.key_there = key_length > 0
        self.value_there = value_length > 0
        self._keys: pa.Array | None = None

    def collection_ids(self, chosen: Longs, prefixed: Mask) -> tuple[Longs, Longs, Mask]:
        """Read the LEB128 ids in front of those chosen keys that are prefixed.

        Returns ids, their sizes (0: no id) and which frames are sound.
        """
        wanted = prefixed & self.key_there[chosen]
        start = self.key_start[chosen]
        number = np.zeros(len(chosen), np.int64)
        size = np.zeros(len(chosen), np.int64)
        open_ = wanted.copy()
        canonical = np.ones(len(chosen), bool)
        for index in range(_MAX_LEB128):
            if not open_.any():
                break
            byte = self._source[start + index].astype(np.int64)
            number[open_] |= (byte[open_] & 0x7F) << (7 * index)
            ends = open_ & (byte < 0x80)
            size[ends] = index + 1
            canonical &= ~(ends & (byte == 0) & (index > 0))
            open_ &= ~ends
        sound = ~wanted | (~open_ & canonical & (number < 1 << 32) & (size < self.key_length[chosen]))
        return number, size, sound

    def keys(self, left_out: Mask) -> pa.Array:
        """Return the keys as on the wire, some left out: always the same ones."""
        if self._keys is None:
            self._keys = self._column(self.key_there & ~left_out, self.key_start, self.key_length)
        return self._keys

    def key_texts(self, left_out: Mask) -> pa.Array:
        """Return the keys without collection ids, as text, some left out."""
        if not self.prefix.any():
            return text_column(self.keys(left_out))
        there = self.key_there & ~left_out
        return text_column(self._column(there, self.key_start + self.prefix, self.key_length - self.prefix))

    def key_hashes(self) -> pa.Array:
        """Return the hashes of the keys."""
        hashes = np.zeros(self._size, np.int64)
        there = self.key_there
        hashes[there] = hash_keys(self._source, self.key_start[there], self.key_length[there])
        return numeric(pa.int64(), hashes, there)

    def values(self) -> pa.Array:
        """Return the values."""
        return self._column(self.value_there, self.value_start, self.value_length)

    def value_hashes(self) -> pa.Array:
        """Return the hashes of the values."""
        there = self.value_there
        start, length = self.value_start[there], self.value_length[there]
        # All in C: slice objects, slices, digests, without byte code per frame.
        cut = map(self._table.stream.__getitem__, map(slice, start.tolist(), (start + length).tolist()))
        hashes = np.zeros(self._size, np.int64)
        hashes[there] = np.frombuffer(b"".join(map(_digest, cut)), ">i8")
        return numeric(pa.int64(), hashes, there)

    def _column(self, there: Mask, start: Longs, length: Longs) -> pa.Array:
        """Return the span of each frame that has one."""
        if not there.any():
            return nulls(pa.binary(), self._size)
        rank, position = self._table.rank, self._table.position
        begin, end = np.empty(self._size, np.int64), np.empty(self._size, np.int64)
        # A frame without a span gets an empty one at its own position, so that all spans ascend.
        begin[rank] = np.where(there, start, position)
        end[rank] = np.where(there, start + length, position)
        return spans(pa.binary(), self._table.stream, begin, end, rank, None if there.all() else there)
