"""Rows for people and their programs: the schema of the dissector, and columns that are made of it.

Names stand beside numbers, and each row tells its place in the run. Everything between the dissector's own stages uses
:mod:`dissector.frames.schema` alone; these columns are made where rows leave it, and only those that are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from dissector.frames import answers
from dissector.frames.schema import COLUMNS, SEQNOS, Column, columns_of
from dissector.frames.value_tables import tables_by_dialect
from dissector.spec.model import Flags

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A column, the one that it stands behind, and those that it is made of."""

    column: Column
    behind: str
    sources: frozenset[str]


_TEXTS = pa.list_(pa.string())
_PLACE = frozenset(("connection", "time_ns"))
#: Names of numbers that are declared beside no field.
_OTHER_NAMES = (
    ("status", Column("status_name", pa.string(), "name of the status, or of the family it belongs to; 0x.. for none")),
    ("features", Column("feature_names", _TEXTS, "names of the features; 0x.. for unknown ones")),
)


def _name_columns() -> tuple[DerivedColumn, ...]:
    found = [(source, column) for source, column in _OTHER_NAMES]
    for name in (column.name for column in COLUMNS):
        tables = tables_by_dialect().get(name, {})
        flags = any(isinstance(each, Flags) for each in tables.values())
        if flags:
            found.append((name, Column(f"{name}_names", _TEXTS, f"names of the bits of {name}; 0x.. for unknown ones")))
        elif tables and name != "deleted":  # 0 and 1 need no names
            found.append((name, Column(f"{name}_name", pa.string(), f"name of {name}; 0x.. for an unknown one")))
    return tuple(DerivedColumn(column, name, frozenset((name, "dialect"))) for name, column in found)


#: Of a single message.
NAME_COLUMNS = _name_columns()
MESSAGE_COLUMNS = (
    DerivedColumn(
        Column("time", pa.timestamp("us", "UTC"), "time_ns as a timestamp, in whole microseconds", always=True),
        "time_ns",
        frozenset(("time_ns",)),
    ),
    DerivedColumn(
        Column(
            "open_ended",
            pa.bool_(),
            'whether a seqno says "no end": that column is then empty in JSON and CSV, and 2^63-1 elsewhere',
        ),
        "end_seqno",
        SEQNOS | {"failover_log", "cache_records"},
    ),
    *NAME_COLUMNS,
)
#: Of a message's place in the run.
RUN_COLUMNS = (
    DerivedColumn(
        Column("seconds", pa.float64(), "seconds since the first frame of the run", always=True), "time", _PLACE
    ),
    DerivedColumn(
        Column("delta", pa.float64(), "seconds since the frame before, of whatever connection", always=True),
        "seconds",
        _PLACE,
    ),
    DerivedColumn(
        Column(
            "connection_number",
            pa.int64(),
            "number of the connection, from 1, in the order in which connections come up",
            always=True,
        ),
        "connection",
        _PLACE,
    ),
    DerivedColumn(
        Column("response_to", pa.int64(), "of an answer: the frame of its request"),
        "response",
        answers.COLUMNS | _PLACE,
    ),
    DerivedColumn(
        Column("response_time_ns", pa.int64(), "of an answer: nanoseconds since its request"),
        "response_to",
        answers.COLUMNS | _PLACE,
    ),
)
DERIVED = {each.column.name: each for each in (*MESSAGE_COLUMNS, *RUN_COLUMNS)}


def _in_order() -> tuple[Column, ...]:
    columns = list(COLUMNS)
    for each in DERIVED.values():
        place = next(at for at, column in enumerate(columns) if column.name == each.behind)
        columns.insert(place + 1, each.column)
    return tuple(columns)


#: All columns, and their schema: what ``dissect`` writes for programs and the library gives.
ROW_COLUMNS = _in_order()
ROW_SCHEMA = pa.schema([column.field for column in ROW_COLUMNS])
#: What the list on the screen calls columns.
ALIASES = {"conn": "connection_number", "packet": "packet_last", "message": "name"}


def row_columns_of(text: str, option: str) -> list[str]:
    """Read names of columns of rows, or what the screen calls them; raises UsageError that names the option."""
    return columns_of(text, option, ROW_SCHEMA, ALIASES)


def with_sources(names: Iterable[str], there: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return columns together with those that they are made of, unless they are ``there``: what has to be read."""
    wanted = frozenset(names)
    return wanted.union(*(DERIVED[name].sources for name in (wanted & DERIVED.keys()) - there))
