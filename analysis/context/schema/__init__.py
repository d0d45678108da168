"""Every table that rules look at, declared once: its columns, what they mean and what their numbers are called.

The context fills the tables in, rules are written in their columns, and ``docs/context.md`` prints them.
"""

from __future__ import annotations

from analysis.context.schema import (
    archive_tables,
    failover_tables,
    flow_tables,
    handover_tables,
    message_tables,
    noop_tables,
    request_tables,
    setup_tables,
    stream_tables,
)
from analysis.context.schema.model import Column, Reference, TableSchema, View, Vocabulary

__all__ = ["ARCHIVE_TABLES", "TABLES", "Column", "Reference", "TableSchema", "View", "Vocabulary", "vocabulary"]

#: By name, in the order of pages.
TABLES: dict[str, TableSchema] = {
    each.name: each
    for each in (
        *message_tables.TABLES,
        *setup_tables.TABLES,
        *stream_tables.TABLES,
        *request_tables.TABLES,
        *failover_tables.TABLES,
        *flow_tables.TABLES,
        *handover_tables.TABLES,
        *noop_tables.TABLES,
    )
}
#: Those that the context does not fill in: an archive has them.
ARCHIVE_TABLES: dict[str, TableSchema] = {each.name: each for each in archive_tables.TABLES}
_ALL = (*TABLES.values(), *ARCHIVE_TABLES.values())
_VOCABULARIES = {column.name: column.words for each in reversed(_ALL) for column in each.columns}


def vocabulary(column: str) -> Vocabulary | None:
    """Return what the numbers of a column are called: the same in all tables that have it."""
    return _VOCABULARIES.get(column)
