"""64-bit numbers as text formats write them, so that readers with doubles, such as jq and spreadsheets, lose nothing.

Identifiers become sixteen hexadecimal digits; a seqno that says "no end" becomes none; times become ISO 8601. Knows
columns by name, and no format.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dissector.arrow import numeric, plain, valid
from dissector.frames.schema import NO_END, SEQNOS, UNSIGNED

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_SIZE = len("0x") + 16


def hex_of(number: int) -> str:
    """Write an identifier."""
    return f"0x{number % 2**64:016x}"


def seqno_of(number: int | None) -> int | None:
    """Return a seqno; None: there is none, or it says "no end"."""
    return None if number == NO_END else number


def written(name: str, column: pa.Array) -> pa.Array:
    """Return a column with its 64-bit numbers and times as they are written; other columns as they are."""
    if column.null_count == len(column):
        return column
    if name in UNSIGNED:
        return _hex(column)
    if name in SEQNOS:
        numbers = plain(column, NO_END)
        ended = numbers != NO_END
        return column if ended.all() else numeric(pa.int64(), numbers, ended)
    if pa.types.is_timestamp(column.type):
        import pyarrow.compute as pc  # noqa: PLC0415 - takes a while to load

        return pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ")
    return column


def written_lists(name: str, value: Any) -> Any:
    """Return a failover log or the records of a cache transfer with their numbers as they are written."""
    if name == "failover_log":
        return [{"vbucket_uuid": hex_of(each["vbucket_uuid"]), "seqno": seqno_of(each["seqno"])} for each in value]
    if name == "cache_records":
        return [
            {
                **each,
                "cas": None if each["cas"] is None else hex_of(each["cas"]),
                "by_seqno": seqno_of(each["by_seqno"]),
            }
            for each in value
        ]
    return value


def _hex(column: pa.Array) -> pa.Array:
    """Write identifiers, a whole column at a time."""
    there = valid(column)
    octets = np.ascontiguousarray(plain(column, 0), np.int64).byteswap().view(np.uint8).reshape(-1, 8)
    text = np.empty((len(column), _SIZE), np.uint8)
    text[:, 0], text[:, 1] = b"0x"
    text[:, 2::2], text[:, 3::2] = _DIGITS[octets >> 4], _DIGITS[octets & 15]
    lengths = np.where(there, _SIZE, 0)
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(text[there]))
    return pa.Array.from_buffers(pa.string(), len(column), [bits, pa.py_buffer(offsets), data])
