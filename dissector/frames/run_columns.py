"""Makes the derived columns of rows, batch after batch of a run: those that are asked for, and no others.

A batch that has such a column already keeps it: rows that were written before know their run better, as frames may have
been left out since.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dissector.arrow import holds, numeric, plain, valid
from dissector.frames.answers import NO_REQUEST, Answers
from dissector.frames.connection_numbers import ConnectionNumbers
from dissector.frames.derived_columns import DERIVED, NAME_COLUMNS, ROW_COLUMNS
from dissector.frames.schema import NO_END, SEQNOS
from dissector.frames.value_names import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dissector.array_types import Longs, Mask

_NAMES = {each.column.name: each for each in NAME_COLUMNS}
NUMBERED = frozenset(("seconds", "connection_number"))  #: what a run counts and rows keep
_SECOND_NS = 1e9


class RunColumns:
    """Adds derived columns to the batches of a run."""

    def __init__(self, names: Iterable[str], numbering: ConnectionNumbers | None = None) -> None:
        """Prepare to make these columns; names of other columns are passed over."""
        self._wanted = frozenset(names) & DERIVED.keys()
        self._numbering = numbering or ConnectionNumbers()
        self._answers = Answers()
        self._last_ns: int | None = None
        self._answered: tuple[Longs, Longs] | None = None  #: of the batch at hand

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the columns; all batches of the run have to come, in order."""
        if not self._wanted:
            return batch
        self._answered = None
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        missing = self._wanted - columns.keys()
        if missing & NUMBERED:
            self._numbering.see(batch)
        for name in missing:
            columns[name] = self._made(name, batch)
        if batch.num_rows and "time_ns" in batch.schema.names:
            self._last_ns = batch.column("time_ns")[batch.num_rows - 1].as_py()
        schema = _schema(frozenset(columns))
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _made(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        """Make a column."""
        if name in _NAMES:
            return names_of(_NAMES[name].behind, _NAMES[name].column.type, batch)
        match name:
            case "time":
                return numeric(pa.int64(), _numbers(batch, "time_ns") // 1000).view(DERIVED["time"].column.type)
            case "seconds":
                return self._seconds(batch)
            case "delta":
                return self._delta(batch)
            case "connection_number":
                return numeric(pa.int64(), self._numbering.see(batch) + 1)
            case "open_ended":
                return _open_ended(batch)
        return self._of_answers(name, batch)

    def _seconds(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.array((_numbers(batch, "time_ns") - (self._numbering.start_ns or 0)) / _SECOND_NS)

    def _delta(self, batch: pa.RecordBatch) -> pa.Array:
        times = _numbers(batch, "time_ns")
        found = np.zeros(len(times))
        np.subtract(times[1:], times[:-1], out=found[1:])
        if self._last_ns is not None:
            found[:1] = times[:1] - self._last_ns
        found /= _SECOND_NS
        return pa.array(found)

    def _of_answers(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if self._answered is None:
            self._answered = self._answers.take(batch)
        requests, took_ns = self._answered
        return numeric(pa.int64(), requests if name == "response_to" else took_ns, requests != NO_REQUEST)


@cache
def _schema(names: frozenset[str]) -> pa.Schema:
    """Return the schema of some columns, in the order of rows."""
    return pa.schema([column.field for column in ROW_COLUMNS if column.name in names])


def _numbers(batch: pa.RecordBatch, name: str) -> Longs:
    found: Longs = plain(batch.column(name), 0)
    return found


def _open_ended(batch: pa.RecordBatch) -> pa.Array:
    """Tell where a seqno says "no end"; nothing is told of messages that cannot end."""
    asked = valid(batch.column("end_seqno"))
    found = np.zeros(batch.num_rows, bool)
    for name in SEQNOS:
        column = batch.column(name)
        if column.null_count < len(column) and holds(column, NO_END):
            found |= plain(column, 0) == NO_END
    found |= _in_lists(batch.column("failover_log"), "seqno") | _in_lists(batch.column("cache_records"), "by_seqno")
    return numeric(pa.bool_(), found, asked | found)


def _in_lists(column: pa.Array, seqno: str) -> Mask:
    """Tell which lists have an entry whose seqno says "no end"."""
    if column.null_count == len(column):
        return np.zeros(len(column), bool)
    counts = np.r_[0, np.cumsum(plain(column.values.field(seqno), 0) == NO_END)]
    offsets = column.offsets.to_numpy()
    found: Mask = valid(column) & (counts[offsets[1:]] > counts[offsets[:-1]])
    return found
