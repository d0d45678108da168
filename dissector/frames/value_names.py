"""Names beside numbers, for whole columns: each number that comes up is looked up once for a batch."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dissector.arrow import encoded, nulls, numeric, plain, take, translated, valid
from dissector.frames.value_tables import tables_by_dialect
from dissector.spec import enums, registry
from dissector.spec.model import Dialect, Enumeration, Flags

if TYPE_CHECKING:
    from dissector.array_types import Longs

_DIALECTS = tuple(Dialect)
_NUMBERS = {dialect.value: number for number, dialect in enumerate(_DIALECTS)}


def names_of(source: str, kind: pa.DataType, batch: pa.RecordBatch) -> pa.Array:
    """Return the names of a column's numbers: texts, or lists of texts where they are flags or lists."""
    column = batch.column(source)
    if column.null_count == len(column):
        return nulls(kind, len(column))
    if source == "features":
        return _of_lists(column, kind)
    if _differs(source):
        column = numeric(pa.int64(), plain(column, 0) * len(_DIALECTS) + _dialects(batch), valid(column))
    return translated(column, kind, partial(_names, source))


def known_names(column: str) -> list[str]:
    """Return the names that can stand in a column of names."""
    source, _, kind = column.rpartition("_")
    if column == "feature_names":
        return [member.name for member in enums.FEATURES.members]
    if column == "status_name":
        return [member.name for member in enums.STATUSES.members]
    tables = tables_by_dialect().get(source, {}) if kind in {"name", "names"} else {}
    return list(dict.fromkeys(member.name for table in tables.values() for member in table.members))


def _names(source: str, number: int) -> Any:
    """Return what a number is called, or the bits of it."""
    if source == "status":
        return registry.status_name(number) or f"0x{number:04x}"
    tables = tables_by_dialect()[source]
    dialect = Dialect.DCP
    if _differs(source):
        number, place = divmod(number, len(_DIALECTS))
        dialect = _DIALECTS[place]
    table = tables.get(dialect) or next(iter(tables.values()))
    if isinstance(table, Flags):
        unknown = table.unknown(number)
        return [*table.names(number), *([hex(unknown)] if unknown else [])]
    return _named(table, number)


def _named(table: Enumeration, number: int) -> str:
    member = table.member(number)
    return hex(number) if member is None else member.name


@cache
def _differs(source: str) -> bool:
    """Tell whether the numbers of a column have other names in another dialect."""
    return len({id(table) for table in tables_by_dialect().get(source, {}).values()}) > 1


def _dialects(batch: pa.RecordBatch) -> Longs:
    found, places = encoded(batch.column("dialect"))
    return np.array([_NUMBERS[name] for name in found.to_pylist()], np.int64)[places]


def _of_lists(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the names of the features in lists, which only a few rows have."""
    rows = np.flatnonzero(valid(column))
    names: list[list[str] | None] = [None] * len(column)
    for row, features in zip(rows.tolist(), take(column, rows).to_pylist(), strict=True):
        names[row] = [_named(enums.FEATURES, feature) for feature in features]
    return pa.array(names, kind)
