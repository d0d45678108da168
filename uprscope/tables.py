"""The tables of the library: rows of captures as Arrow record batches, or as tables of pandas, polars and DuckDB.

A table reads its captures when rows are asked for. The columns are declared in :mod:`dissector.frames.schema` and
:mod:`dissector.summary.schema`. Each of the other libraries is imported by the method that needs it.
"""

from __future__ import annotations

import dataclasses
import importlib
from abc import ABC, abstractmethod
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from dissector.errors import InputError, UprscopeError, UsageError
from dissector.filters import parse
from dissector.frames.derived_columns import ROW_SCHEMA, row_columns_of
from dissector.frames.run_columns import RunColumns
from dissector.frames.sources import open_frames
from dissector.summary.schema import STREAM_COLUMNS, schema_of, table_of
from dissector.terminal.style import one_line
from uprscope.preview import ROWS, as_html, as_text
from uprscope.summaries import connection_columns, connection_summary, stream_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import duckdb
    import pandas as pd
    import polars as pl

    from dissector.capture import Input
    from dissector.frames.schema import Column
    from dissector.options import ReadOptions, ReadReport
    from uprscope.summaries import Summary

#: Bytes of the capture that a preview reads: repr() has to be quick whatever is in the capture.
_PREVIEW_BYTES = 8 << 20
#: Columns of a preview where no columns were chosen.
_FRAME_PREVIEW = ("frame", "time_ns", "direction", "name", "vbucket", "status", "opaque", "by_seqno", "key")
_CONNECTION_PREVIEW = ("number", "client", "client_port", "server", "server_port", "name", "dialect", "ended")
_STREAM_PREVIEW = ("number", "name", "vbucket", "status", "start_seqno", "last_seqno", "items", "ended")


class Table(ABC):
    """Rows of captures, as Arrow record batches and in the forms of other libraries."""

    _report: ReadReport | None = None

    def __init__(self, inputs: Sequence[Input], schema: pa.Schema, preview: Sequence[str]) -> None:
        self.schema = schema  #: the Arrow schema; each field's metadata has its description under ``doc``
        self.inputs = list(inputs)  #: the captures, found when the table was made
        self._preview = tuple(preview)

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    @property
    def report(self) -> ReadReport:
        """What became of everything that is no row: ``report.losses()`` is a list of sentences."""
        if self._report is None:
            raise UsageError("report: nothing was read yet (to_arrow() reads everything)")
        return self._report

    def to_arrow(self) -> pa.Table:
        """Read all rows into a pyarrow.Table.

        >>> uprscope.frames("captures/03_noop.pcap").to_arrow().num_rows
        """
        return pa.Table.from_batches(self, self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Read all rows into a pandas.DataFrame.

        >>> uprscope.connections("captures/").to_pandas().describe()
        """
        _library("pandas", "to_pandas")
        return cast("pd.DataFrame", self.to_arrow().to_pandas())

    def to_polars(self) -> pl.DataFrame:
        """Read all rows into a polars.DataFrame.

        >>> uprscope.streams("captures/").to_polars().group_by("status").len()
        """
        return cast("pl.DataFrame", _library("polars", "to_polars").from_arrow(self.to_arrow()))

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Read all rows into a DuckDB relation, of this connection or of DuckDB's default one.

        >>> frames = uprscope.frames("captures/03_noop.pcap").to_duckdb()
        >>> frames.query("frames", "SELECT name, count(*) FROM frames GROUP BY ALL")
        """
        return cast(
            "duckdb.DuckDBPyRelation", (connection or _library("duckdb", "to_duckdb")).from_arrow(self.to_arrow())
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give the rows to any library that takes Arrow's stream interface."""
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return "\n".join([f"<{self._title()}>", *as_text(self._first_rows(), self._preview)])

    def _repr_html_(self) -> str:
        return as_html(self._title(), self._first_rows(), self._preview)

    def _title(self) -> str:
        """Return a line about the table; names of files are made fit for a terminal."""
        names = [one_line(each.name) for each in self.inputs]
        of = names[0] if len(names) == 1 else f"{len(names)} captures, {names[0]} first"
        return f"{type(self).__name__} of {of}: {len(self.schema)} column{'s' if len(self.schema) > 1 else ''}"

    def _first_rows(self) -> pa.Table:
        """Return rows to show. Standard input is not read for this, and a capture that is gone is no error here."""
        try:
            return self.schema.empty_table() if any(each.once for each in self.inputs) else self._head()
        except UprscopeError:
            return self.schema.empty_table()

    @abstractmethod
    def _head(self) -> pa.Table: ...


class Frames(Table):
    """Frames of captures, one row each. Iterating yields Arrow record batches.

    Every iteration reads the captures anew, a chunk at a time, so that captures
    of any size fit. ``schema`` and ``columns`` describe the rows; ``report``
    says, after reading, what was lost. to_arrow, to_pandas, to_polars and
    to_duckdb read everything into one table; libraries that take Arrow's stream
    interface (polars.DataFrame, pyarrow.table) take a Frames as it is.

    >>> frames = uprscope.frames("captures/03_noop.pcap", ["name", "opaque"])
    >>> sum(batch.num_rows for batch in frames)
    """

    def __init__(
        self, inputs: Sequence[Input], options: ReadOptions, columns: Sequence[str] | None, where: str | None
    ) -> None:
        """Check columns and filter; nothing is read yet."""
        self._filter = None if where is None else parse(where)
        if columns is None:
            names, schema = None, ROW_SCHEMA
        else:
            if isinstance(columns, str) or not columns:
                raise UsageError("columns: expected a list of names, such as ['time_ns', 'name']")
            names = row_columns_of(",".join(map(str, columns)), "columns")
            schema = pa.schema([ROW_SCHEMA.field(name) for name in names])
            options = dataclasses.replace(options, values=options.values or "value" in names)
        self._needed = frozenset(schema.names) | (self._filter.columns if self._filter is not None else frozenset())
        options = dataclasses.replace(options, columns=self._needed)
        super().__init__(inputs, schema, names or _FRAME_PREVIEW)
        self.options = options  #: how the captures are read
        self._was_read = False

    @property
    def where(self) -> str | None:
        """The filter in its canonical form; None: all frames."""
        return None if self._filter is None else str(self._filter)

    def readable(self) -> list[Input]:
        """Return the captures to read; raise InputError where one of them can't be read a second time."""
        once = next((each for each in self.inputs if each.once), None)
        if once is not None and self._was_read:
            raise InputError(f"{once.name}: can be read only once (keep the rows with to_arrow())")
        self._was_read = True
        return self.inputs

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        reader = open_frames(self.readable(), self.options)
        self._report = reader.report
        # No loop: its variables would keep a batch in memory while the next one is made.
        return filter(attrgetter("num_rows"), map(self._chosen, map(RunColumns(self._needed).add, reader)))

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kept = batch if self._filter is None else batch.filter(self._filter.mask(batch))
        return kept.select(self.schema.names)

    def _head(self) -> pa.Table:
        reader = open_frames(self.inputs, dataclasses.replace(self.options, chunk_bytes=_PREVIEW_BYTES // 8))
        derived = RunColumns(self._needed)
        found: list[pa.RecordBatch] = []
        for batch in reader:
            found.append(self._chosen(derived.add(batch)))
            if sum(each.num_rows for each in found) > ROWS or reader.bytes_read > _PREVIEW_BYTES:
                break
        return pa.Table.from_batches(found, self.schema)

    def _title(self) -> str:
        return super()._title() + ("" if self._filter is None else f", where {self.where}")


class SummaryTable(Table):
    """Rows that sum captures up. The captures are read when rows are first asked for; the rows are kept."""

    def __init__(
        self, inputs: Sequence[Input], columns: Sequence[Column], preview: Sequence[str], summary: Callable[[], Summary]
    ) -> None:
        """Take what sums the captures up; it is called when rows are asked for."""
        super().__init__(inputs, schema_of(columns), preview)
        self._summary = summary
        self._table: pa.Table | None = None
        self._notes: list[str] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.to_arrow().to_batches())

    @property
    def report(self) -> ReadReport:
        """What became of everything that is no row: ``report.losses()`` is a list of sentences."""
        self.to_arrow()
        return super().report

    @property
    def notes(self) -> list[str]:
        """What else there is to say: limits that were reached, connections without frames."""
        self.to_arrow()
        return self._notes

    def to_arrow(self) -> pa.Table:
        """Return all rows as a pyarrow.Table.

        >>> uprscope.streams("captures/03_noop.pcap").to_arrow().to_pylist()
        """
        if self._table is None:
            summary = self._summary()
            self._table = table_of(summary.rows, summary.columns)
            self._report, self._notes = summary.report, summary.notes
        return self._table

    def _head(self) -> pa.Table:
        return self.to_arrow()


class Connections(SummaryTable):
    """Connections of captures, one row each. Iterating yields record batches.

    The captures are read when rows are first asked for, and the rows are kept.
    ``schema`` and ``columns`` describe them; ``report`` says what was lost, and
    ``notes`` what else there is to say. to_arrow, to_pandas, to_polars and
    to_duckdb give the table in the form of another library.

    >>> uprscope.connections("captures/03_noop.pcap").to_arrow().to_pylist()
    """

    def __init__(self, inputs: Sequence[Input], options: ReadOptions, *, everything: bool, hashes: bool) -> None:
        summary = partial(
            connection_summary, inputs, options, everything=everything, hashes=hashes, option="everything=True"
        )
        super().__init__(inputs, connection_columns(hashes=hashes), _CONNECTION_PREVIEW, summary)


class Streams(SummaryTable):
    """Vbucket streams of captures, one row each. Iterating yields record batches.

    The captures are read when rows are first asked for, and the rows are kept.
    ``schema`` and ``columns`` describe them; ``report`` says what was lost, and
    ``notes`` what else there is to say. to_arrow, to_pandas, to_polars and
    to_duckdb give the table in the form of another library.

    >>> uprscope.streams("captures/03_noop.pcap").to_arrow().to_pylist()
    """

    def __init__(self, inputs: Sequence[Input], options: ReadOptions) -> None:
        super().__init__(inputs, STREAM_COLUMNS, _STREAM_PREVIEW, partial(stream_summary, inputs, options))


def _library(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"{method}() needs {name}, which is not installed: pip install {name}") from error
