"""Rows of fixed-width headers gathered from a byte buffer, and the distinct ones among rows.

Knows buffers and numpy layouts; the layouts of protocols come from the callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dissector.arrow import encoded

if TYPE_CHECKING:
    from dissector.array_types import Bytes, Ints, Longs, Structs


def gather(buffer: Bytes, start: Longs, layout: np.dtype[np.void]) -> Structs:
    """Return one row of ``layout`` per start; bytes beyond the end of the buffer read as zero.

    An overlapping view of opaque items makes numpy copy each row at once: 4 to 16 times as fast as indexing a
    ``sliding_window_view``, measured on 8 MB blocks.
    """
    width = layout.itemsize
    if len(buffer) < width:
        buffer = np.concatenate([buffer, np.zeros(width, np.uint8)])
    last = len(buffer) - width
    windows: Structs = np.ndarray((last + 1,), np.dtype((np.void, width)), buffer, strides=(1,))
    late = np.flatnonzero(start > last)
    if not len(late):
        return windows[start].view(layout)
    rows = windows[np.minimum(start, last)]
    table = rows.view(np.uint8).reshape(len(rows), width)
    for row, begin in zip(late.tolist(), start[late].tolist(), strict=True):
        rest = buffer[begin:]
        table[row, : len(rest)] = rest
        table[row, len(rest) :] = 0
    return rows.view(layout)


def distinct(rows: Structs) -> tuple[Bytes, Ints]:
    """Return the bytes of the distinct rows in order of first appearance, and each row's place among them.

    The rows are compared byte for byte, and must be contiguous.
    """
    width = rows.dtype.itemsize
    column = pa.Array.from_buffers(pa.binary(width), len(rows), [None, pa.py_buffer(rows)])
    dictionary, places = encoded(column)
    count = len(dictionary)
    found = np.frombuffer(dictionary.buffers()[1], np.uint8, count * width) if count else np.zeros(0, np.uint8)
    return found.reshape(count, width), places
