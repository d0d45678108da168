"""Rows as earlier builds wrote them, where ``key`` held the bytes on the wire and there was no ``key_bytes``.

Such a batch gets both columns. Knows what changed in the schema, not how files are read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dissector.arrow import plain, spans, valid
from dissector.codec import leb128
from dissector.frames.byte_text import text_column, text_of

#: What a collection id takes in front of a key: one byte, and one more from each of these numbers on.
_LONGER = np.array([1 << bits for bits in (7, 14, 21, 28)])
_NO_ID = -1


def is_earlier(schema: pa.Schema) -> bool:
    """Tell whether rows have their keys as on the wire alone."""
    names = schema.names
    return "key" in names and "key_bytes" not in names and not pa.types.is_string(schema.field("key").type)


def read_from(name: str) -> tuple[str, ...]:
    """Return the columns of earlier rows that a column of rows is made of."""
    return {"key_bytes": ("key",), "key": ("key", "collection_id", "event")}.get(name, (name,))


def updated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return earlier rows with keys as they are today."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if "key" in columns:
        columns["key_bytes"] = columns.pop("key").cast(pa.binary())
        if {"collection_id", "event"} <= columns.keys():
            keys = _without_ids(columns["key_bytes"], columns["collection_id"], columns["event"])
            columns["key"] = text_column(keys)
    if "cache_records" in columns:
        rows = columns["cache_records"].to_pylist()
        columns["cache_records"] = pa.array([None if row is None else [_record(each) for each in row] for row in rows])
    return pa.RecordBatch.from_pydict(columns)


def _without_ids(keys: pa.Array, collection_id: pa.Array, event: pa.Array) -> pa.Array:
    """Cut off the collection ids; that of a system event is not in front of its key."""
    _, offsets, data = keys.buffers()
    if data is None:
        return keys
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    ids = plain(collection_id.cast(pa.int64()), _NO_ID)
    size = np.where((ids == _NO_ID) | valid(event), 0, 1 + np.searchsorted(_LONGER, ids, side="right"))
    start = np.minimum(bounds[:-1] + size, bounds[1:])
    return spans(pa.binary(), data, start, bounds[1:], np.arange(len(keys)), valid(keys))


def _record(record: dict[str, object]) -> dict[str, object]:
    key, collection_id = record["key"], record["collection_id"]
    if not isinstance(key, bytes):
        return record
    prefix = leb128.pack(collection_id) if isinstance(collection_id, int) and collection_id >= 0 else b""
    return {**record, "key": text_of(key), "key_bytes": prefix + key}
