"""What ``dissect`` writes frames to: rows for programs, lines, trees and dumps for people."""

from __future__ import annotations

import contextlib
import sys
from typing import IO, TYPE_CHECKING, Any

from dissector.terminal.style import Terminal
from uprscope.cli.list_options import list_form
from uprscope.cli.live import prompt
from uprscope.cli.tshark_options import heading_wanted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import pyarrow as pa

    from dissector.display.list_layout import ListForm
    from dissector.frames.connection_numbers import ConnectionNumbers
    from dissector.frames.writers import Writer
    from dissector.options import ReadOptions
    from dissector.tcp.frame_table import FrameTable


class FrameWriter:
    """Takes chosen frames of a batch."""

    frames = 0  #: written so far

    def __init__(self, writer: Writer, names: list[str] | None) -> None:
        self._writer = writer
        self._names = names

    def write(self, batch: pa.RecordBatch, table: FrameTable | None, indexes: Any) -> None:
        """Write the chosen rows; every batch comes here, even if none of its rows is chosen."""
        del table
        if not len(indexes):
            return
        rows = batch if len(indexes) == batch.num_rows else batch.take(indexes)
        self._writer.write(rows.select(schema(self._names).names))

    def close(self) -> None:
        """Write the end of the output."""
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more."""
        self._writer.abandon()


class TextWriter(FrameWriter):
    """Lines, trees and dumps for people."""

    def __init__(
        self,
        stream: IO[bytes],
        args: argparse.Namespace,
        options: ReadOptions,
        numbering: ConnectionNumbers,
        form: ListForm,
    ) -> None:
        from dissector.display.listing import Listing  # noqa: PLC0415 - brings pyarrow along
        from dissector.display.times import TimeColumn  # noqa: PLC0415

        self._stream = stream
        self._args = args
        self._options = options
        to_stdout = args.output in (None, "-")
        self._terminal = Terminal.of(sys.stdout, args.color) if to_stdout else Terminal(color=args.color == "always")
        self._encoding = sys.stdout.encoding if to_stdout else "utf-8"
        self._listing = Listing(self._terminal, numbering, form)
        self._times = TimeColumn(form.time, numbering)
        self._begun = False

    def write(self, batch: pa.RecordBatch, table: FrameTable | None, indexes: Any) -> None:
        """Write the chosen frames."""
        times = self._times.texts(batch, indexes)
        if not times:
            return
        lines: list[str] = []
        if not self._begun and not self._args.tree:
            lines.append(self._listing.heading())
        self._begun = True
        for index, row, time in zip(indexes.tolist(), self._rows(batch, indexes), times, strict=True):
            if not self._args.tree:
                lines += self._listing.lines(row, time)
            if (self._args.tree or self._args.hex) and table is not None:
                lines += self._details(row, table.data(index))
        self._stream.write(("\n".join(lines) + "\n").encode(self._encoding, "backslashreplace"))

    def _rows(self, batch: pa.RecordBatch, indexes: Any) -> list[dict[str, Any]]:
        """Return the chosen rows; where they become lines only, with the columns that these take."""
        from dissector.display.listing import columns_to_show  # noqa: PLC0415

        rows = batch.take(indexes)
        if not self._args.tree and not self._args.hex:
            rows = rows.select(columns_to_show(rows))
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    def _details(self, row: dict[str, Any], data: bytes) -> Iterator[str]:
        from dissector.codec.decoder import decode  # noqa: PLC0415 - trees only
        from dissector.display.hexdump import hexdump  # noqa: PLC0415
        from dissector.display.tree import hidden_spans, tree  # noqa: PLC0415
        from dissector.spec.model import Dialect  # noqa: PLC0415

        prefixed = row["collection_id"] is not None or {"collection-id-invalid", "key-empty"} & set(row["defects"])
        collections = bool(prefixed) and row["event"] is None
        decoded = decode(
            Dialect(row["dialect"]), data, collections=collections, withhold_secrets=self._options.withhold_secrets
        )
        if self._args.tree:
            yield from tree(decoded, data, row, self._terminal)
        if self._args.hex:
            if self._args.tree:
                yield self._terminal.heading("  Bytes")
            yield from ("    " + line for line in hexdump(data, hidden=hidden_spans(decoded)))
        yield ""

    def abandon(self) -> None:
        """Do nothing: everything has been written already."""

    def close(self) -> None:
        """Do nothing: text has no end of its own."""


@contextlib.contextmanager
def opened(
    args: argparse.Namespace,
    names: list[str] | None,
    options: ReadOptions,
    numbering: ConnectionNumbers,
    *,
    live: bool = False,
) -> Iterator[FrameWriter]:
    """Open the output and close it properly, or not at all. Rows of ``live`` inputs are shown at once."""
    from dissector.frames.stored_rows import marked  # noqa: PLC0415
    from dissector.frames.writers import destination, open_writer  # noqa: PLC0415
    from dissector.terminal.pager import paged  # noqa: PLC0415

    for_people = args.format in ("text", "json")
    to_stdout = args.output in (None, "-")
    wanted = to_stdout and for_people and not args.no_pager and not live
    form = list_form(args, paged=wanted) if args.format == "text" and names is None else None
    listed = form is not None and not args.tree and not args.wrap
    target = paged(wanted=wanted, sideways=listed) if to_stdout else destination(args.output)
    with target as opened_stream:
        stream = prompt(opened_stream, wanted=live)
        if form is not None:
            writer: FrameWriter = TextWriter(stream, args, options, numbering, form)
        else:
            kind = "tsv" if args.format == "text" else args.format
            form_schema = marked(schema(names), inspected=options.inspect)
            writer = FrameWriter(open_writer(kind, stream, form_schema, heading=heading_wanted(args)), names)
        try:
            yield writer
        except BaseException:
            writer.abandon()
            raise
        writer.close()


def schema(names: list[str] | None) -> pa.Schema:
    """Return the schema of the chosen columns."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    from dissector.frames.derived_columns import ROW_SCHEMA  # noqa: PLC0415

    return ROW_SCHEMA if names is None else pa.schema([ROW_SCHEMA.field(name) for name in names])
