"""Arrow arrays from numpy arrays and back, without copies where the bytes can be shared.

Knows Arrow types, validity bits and spans of bytes. Which columns there are is up to the caller.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

try:
    # The same function as pyarrow.compute's, without 50 ms of making wrappers for all the others.
    from pyarrow._compute import call_function
except ImportError:  # pragma: no cover - it is not public, so it may go away
    from pyarrow.compute import call_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dissector.array_types import Ints, Longs, Mask


_TEXT = pa.string()
_FEW = 16  #: up to so many texts, hashing costs no more than the comparison
_WIDTHS: dict[pa.DataType, np.dtype[Any]] = {
    pa.int16(): np.dtype(np.int16),
    pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64),
}


def take(values: pa.Array, places: NDArray[Any], valid: Mask | None = None) -> pa.Array:
    """Return the values at these places; null where ``valid`` is False."""
    return call_function("take", [values, _wrapped(pa.int64(), np.ascontiguousarray(places, np.int64), valid)])


def replaced(values: pa.Array, mask: Mask, others: pa.Array) -> pa.Array:
    """Return the values, with the others one after the other where the mask is True."""
    return call_function("replace_with_mask", [values, pa.array(mask), others])


def encoded(values: pa.Array) -> tuple[pa.Array, Ints]:
    """Return the distinct values in order of first appearance, and the place of each value among them."""
    if values.type == pa.string() and _repeats(values):
        return values.slice(0, 1), np.zeros(len(values), np.int32)
    found = call_function("dictionary_encode", [values])
    return found.dictionary, found.indices.to_numpy()


def translated(values: pa.Array, kind: pa.DataType, translate: Callable[[Any], Any]) -> pa.Array:
    """Return what each value becomes, as an array of type ``kind``; each value is asked for once, null stays null."""
    found = call_function("dictionary_encode", [values])
    if len(found.dictionary) == 1 and not values.null_count:
        return same(translate(found.dictionary[0].as_py()), len(values), kind)
    return call_function("take", [pa.array(map(translate, found.dictionary.to_pylist()), kind), found.indices])


def joined(lists: pa.Array, between: str) -> pa.Array:
    """Return the texts of each list as one text."""
    return call_function("binary_join", [lists, pa.scalar(between)])


def holds(column: pa.Array, number: int) -> bool:
    """Tell whether a column's greatest number is this one: looking for the greatest needs no memory."""
    return bool(call_function("min_max", [column])["max"].as_py() == number)


def is_shared(one: pa.Array, other: pa.Array) -> bool:
    """Tell whether two arrays are the same piece of memory, and so the same values."""
    if (len(one), one.offset) != (len(other), other.offset):
        return False
    ours, theirs = ([None if part is None else part.address for part in array.buffers()] for array in (one, other))
    return ours == theirs


def _repeats(texts: pa.Array) -> bool:
    """Tell whether all texts are equal: many columns are like this, and comparing is cheaper than hashing."""
    if len(texts) < _FEW or texts.null_count:
        return False
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    width = int(ends[1] - ends[0])
    if not width or int(ends[-1]) - int(ends[0]) != width * len(texts) or (np.diff(ends) != width).any():
        return False
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].reshape(-1, width)
    # Texts that differ mostly do so in the first two rows.
    return bool((letters[1] == letters[0]).all() and (letters == letters[0]).all())


def valid(column: pa.Array) -> Mask:
    """Tell which elements are not null."""
    bits = column.buffers()[0]
    if bits is None:
        return np.ones(len(column), bool)
    end = column.offset + len(column)
    found = np.unpackbits(np.frombuffer(bits, np.uint8), count=end, bitorder="little")[column.offset :]
    return found.view(np.bool_)


def plain(column: pa.Array, otherwise: int) -> NDArray[Any]:
    """Return a column of numbers as a numpy array, with ``otherwise`` in place of null."""
    if not column.null_count:
        found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return found
    width = _WIDTHS.get(column.type)
    if width is None:
        return np.array([otherwise if each is None else each for each in column.to_pylist()])
    numbers = np.frombuffer(column.buffers()[1], width)[column.offset : column.offset + len(column)]
    return np.where(valid(column), numbers, width.type(otherwise))


def lengths(column: pa.Array) -> Longs:
    """Return the length of each list; null has length 0."""
    found: Longs = np.diff(column.offsets.to_numpy()).astype(np.int64)
    return np.where(valid(column), found, 0) if column.null_count else found


def numeric(kind: pa.DataType, numbers: NDArray[Any], valid: Mask | None = None) -> pa.Array:
    """Return numbers of any width as an array of type ``kind``; null where they are not valid."""
    if kind == pa.bool_():
        return _wrapped(kind, np.packbits(numbers.astype(np.bool_, copy=False), bitorder="little"), valid, len(numbers))
    return _wrapped(kind, np.ascontiguousarray(numbers, _WIDTHS[kind]), valid)


def _wrapped(kind: pa.DataType, data: NDArray[Any], valid: Mask | None, size: int | None = None) -> pa.Array:
    """Make an array over the bytes of a numpy array, without a copy."""
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(data) if size is None else size, [bits, pa.py_buffer(data)])


def spans(kind: pa.DataType, data: Any, start: Longs, end: Longs, places: Longs, valid: Mask | None = None) -> pa.Array:
    """Cut spans out of ``data`` and return those at ``places``; the loop is in C.

    The spans must ascend and not overlap: they become every second element of an array, and the bytes between them
    become the others. ``kind`` is ``binary`` or ``large_binary``.
    """
    offsets = np.empty(2 * len(start) + 1, np.int32 if kind == pa.binary() else np.int64)
    offsets[0:-1:2] = start
    offsets[1::2] = end
    offsets[-1] = end[-1] if len(end) else 0
    source = pa.Array.from_buffers(kind, 2 * len(start), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return take(source, 2 * places, valid)


def nulls(kind: pa.DataType, size: int) -> pa.Array:
    """Return a null array of ``size`` rows, sliced from a cached one: most columns of a batch are all null."""
    return _absent(kind, 1 << size.bit_length()).slice(0, size)


def same(value: str | list[str], size: int, kind: pa.DataType = _TEXT) -> pa.Array:
    """Return an array of ``size`` rows with the same text, or the same list of texts, sliced from a cached one."""
    known = value if isinstance(value, str) else tuple(value)
    return _repeated(known, 1 << size.bit_length(), kind).slice(0, size)


@cache
def _absent(kind: pa.DataType, size: int) -> pa.Array:
    return pa.nulls(size, kind)


@lru_cache(maxsize=8)  # names of captures are among the texts, and there may be many
def _repeated(value: str | tuple[str, ...], size: int, kind: pa.DataType) -> pa.Array:
    return take(pa.array([value], kind), np.zeros(size, np.int64))  # pa.repeat is slow at lists


def texts(values: Sequence[str], places: Longs) -> pa.Array:
    """Return the text at each place of a short list."""
    if len(values) == 1 or (len(places) and not np.any(places != places[0])):
        return same(values[int(places[0]) if len(places) else 0], len(places))
    return take(pa.array(values, pa.string()), places)
