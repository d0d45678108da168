"""Tables that rules look at: columns by name, references to frames by name, and where each row stands.

Columns are made on demand, and only for the rows that are left: most of them matter to a few rows in a thousand. A
table is valid until the context takes the next batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.context.frame_refs import REF

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from analysis.context.frame_refs import Ref
    from analysis.context.schema import TableSchema
    from dissector.array_types import Longs


_PLACE = ("connection", "vbucket", "stream_id")  #: where a row stands


class Table:
    """Rows of one kind. ``guilty`` refers to the frame that a finding in the row would be about."""

    __slots__ = ("_made", "_refs", "_rows", "_sources", "size", "terms")

    def __init__(
        self,
        size: int,
        columns: Mapping[str, Any],
        refs: Mapping[str, Any],
        rows: Longs | None = None,
    ) -> None:
        """Make a table of ``columns`` (``connection``, ``vbucket`` and ``stream_id`` among them) and ``refs``."""
        self.size = size
        self._sources = dict(columns)
        self._refs = dict(refs)
        self._rows = rows
        self._made: dict[str, NDArray[Any]] = {}
        self.terms: dict[Any, Any] = {}  #: results of terms over the columns, by term

    def __getitem__(self, name: str) -> NDArray[Any]:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(self._sources[name])
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    def add(self, name: str, source: Any) -> None:
        """Add a column to a table that is still whole."""
        self._sources[name] = source

    def extended(self, columns: Mapping[str, Any], refs: Mapping[str, Any]) -> Table:
        """Return a whole table with more columns and references."""
        return Table(self.size, {**self._sources, **columns}, {**self._refs, **refs}, self._rows)

    def refs(self, name: str) -> NDArray[np.void]:
        """Return references to frames, one per row."""
        return self._make(self._refs[name])

    @property
    def ref_names(self) -> tuple[str, ...]:
        """Return the names of all references."""
        return tuple(self._refs)

    def where(self, mask: NDArray[np.bool_]) -> Table:
        """Return some of the rows; all of them are the table itself, with what it has made already."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, rows: Longs) -> Table:
        """Return the rows of these numbers."""
        if self._rows is not None:
            rows = self._rows[rows]
        return Table(len(rows), self._sources, self._refs, rows)

    def _make(self, source: Any) -> NDArray[Any]:
        if callable(source):
            made: NDArray[Any] = source(self._rows)
            return made
        whole: NDArray[Any] = source
        return whole if self._rows is None else whole[self._rows]


def gathered(whole: Callable[[], NDArray[Any]], base: Longs) -> Callable[[Longs | None], NDArray[Any]]:
    """Return a source that takes a column of all frames at the table's own rows."""

    def make(rows: Longs | None) -> NDArray[Any]:
        return whole()[base if rows is None else base[rows]]

    return make


class Records:
    """Rows that come one at a time; becomes a table."""

    def __init__(self, schema: TableSchema) -> None:
        self._columns = [name for name in schema.column_names if name not in _PLACE]
        self._refs = [name for name in schema.ref_names if name != "guilty"]
        self.clear()

    def clear(self) -> None:
        """Begin again."""
        self._rows: list[tuple[int, int, int, Ref, dict[str, int], dict[str, Ref]]] = []

    def add(
        self, connection: int, vbucket: int, stream_id: int, guilty: Ref, refs: Mapping[str, Ref | None], **row: int
    ) -> None:
        """Add a row; columns that are not given are 0."""
        there = {name: ref for name, ref in refs.items() if ref is not None}
        self._rows.append((connection, vbucket, stream_id, guilty, row, there))

    def table(self) -> Table:
        """Return what has come, and begin again."""
        rows, size = self._rows, len(self._rows)
        columns = {name: np.fromiter((row[index] for row in rows), np.int64, size) for index, name in enumerate(_PLACE)}
        columns |= {name: np.fromiter((row[4].get(name, 0) for row in rows), np.int64, size) for name in self._columns}
        refs = {name: np.zeros(size, REF) for name in self._refs}
        refs["guilty"] = np.array([tuple(row[3]) for row in rows], REF)
        for index, row in enumerate(rows):
            for name, ref in row[5].items():
                refs[name][index] = tuple(ref)
        self.clear()
        return Table(size, columns, refs)
