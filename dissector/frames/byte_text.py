"""Bytes of captures as text: printable UTF-8 as it is, anything else as ``hex:`` and hexadecimal digits.

This is how keys, and bytes in NDJSON and CSV, are written. Knows bytes and Arrow columns, not what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dissector.arrow import call_function, nulls, take

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dissector.array_types import Longs, Mask

HEX = "hex:"
_MARK = HEX.encode()


def text_of(data: bytes) -> str:
    """Write bytes as text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return HEX + data.hex()
    return text if text.isprintable() and not text.startswith(HEX) else HEX + data.hex()


def text_column(column: pa.Array) -> pa.Array:
    """Write a column of bytes as text; printable ASCII, the usual case, is text already and is not copied."""
    if column.null_count == len(column):
        return nulls(pa.string(), len(column))
    strange = _strange(column)
    if not len(strange):
        return column.view(pa.string())
    mask = np.zeros(len(column), bool)
    mask[strange] = True
    written = [text_of(data) for data in take(column, strange).to_pylist()]
    # What is replaced is no text yet, so the column is one of bytes until all of it is text.
    replaced = call_function(
        "replace_with_mask", [column, pa.array(mask), pa.array([text.encode() for text in written], pa.binary())]
    )
    return replaced.view(pa.string())


def is_printable(column: pa.Array) -> bool:
    """Tell whether texts hold nothing but what can be shown, as :func:`text_column` leaves them."""
    rows = _strange(column)
    return all(text is None or text.isprintable() for text in take(column, rows).to_pylist())


def _strange(column: pa.Array) -> Longs:
    """Return the rows whose bytes have to be looked at one by one."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if data is None or bounds[0] == bounds[-1]:
        return np.empty(0, np.int64)
    source = np.frombuffer(data, np.uint8)
    found = _rows_of(bounds, _unprintable(source[bounds[0] : bounds[-1]]))
    starts = bounds[:-1]
    # A key that begins as the mark of bytes does would be taken for it.
    marked = np.flatnonzero(np.diff(bounds) >= len(_MARK))
    for place, character in enumerate(_MARK):
        marked = marked[source[starts[marked] + place] == character]
    return np.union1d(found, marked) if len(marked) else found


def _unprintable(characters: NDArray[np.uint8]) -> Longs:
    """Return the places of bytes that are no printable ASCII."""
    strange: Mask = (characters - np.uint8(0x20)) >= np.uint8(0x7F - 0x20)  # wraps around below the first one
    return np.flatnonzero(strange) if strange.any() else np.empty(0, np.int64)


def _rows_of(bounds: NDArray[np.int32], places: Longs) -> Longs:
    """Return the rows that bytes belong to, by their places behind the first row's start; each row once."""
    if not len(places):
        return places
    return np.unique(np.searchsorted(bounds, places + int(bounds[0]), side="right") - 1)
