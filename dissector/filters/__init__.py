"""Filters: which frames to show, in a small language over the columns of a row (docs/filters.md).

Importing this takes no pyarrow; parsing a filter does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dissector.filters import syntax, tree
from dissector.filters.errors import FilterError
from dissector.filters.names import fields

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Filter", "FilterError", "parse"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that makes sense. Its text is the one canonical way to write it, and parses back to it."""

    expression: tree.Expression

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that a batch needs for it."""
        asked = tree.fields_of(self.expression)
        return frozenset(column for field in asked for column in fields()[field.name].columns)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return, row by row, whether the filter lets it through; never null."""
        from dissector.filters.evaluate import evaluate  # noqa: PLC0415 - brings pyarrow along

        return evaluate(self.expression, batch)

    def __str__(self) -> str:
        return str(self.expression)


def parse(text: str) -> Filter:
    """Read a filter; raise :class:`FilterError` where it makes no sense, and nothing else whatever the text is."""
    return Filter(syntax.parse(text))
