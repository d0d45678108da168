"""``uprscope connections``: captures to connections or vbucket streams, as a table or as rows for programs."""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any

from dissector.terminal.style import Terminal, one_line
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.output_options import add_target_arguments, choose_format, counted, tell_written

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from dissector.display.table import TextColumn
    from uprscope.summaries import Summary

    Rows = Sequence[dict[str, Any]]


_EPILOG = """\
examples:
  uprscope connections capture.pcapng
  uprscope connections ring/*.pcap.zst --streams
  uprscope connections capture.pcap --streams --format json | jq '.[].ended'
  uprscope connections capture.pcap --hash --all

uprscope explain connections describes the columns. In the table, → is from the
client, the side that opened the connection, and ← is to it.
exit status: 0 done, 2 unusable input or usage, 3 the input was damaged and
everything readable was written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser)
    wanted = parser.add_argument_group("what to list")
    wanted.add_argument("--streams", action="store_true", help="vbucket streams and refused requests, not connections")
    wanted.add_argument("--all", action="store_true", help="connections without any frame too")
    wanted.add_argument(
        "--hash", action="store_true", help="SHA-256, length and gaps of each direction's bytes (slower)"
    )
    add_target_arguments(wanted)


def run(args: argparse.Namespace) -> int:
    """Sum up, and return the exit status."""
    from dissector.errors import UsageError  # noqa: PLC0415
    from uprscope.cli.dissect import report  # noqa: PLC0415

    if args.streams and (args.all or args.hash):
        raise UsageError("--all and --hash are about connections: they do not go with --streams")
    choose_format(args)
    summary = _summary(args)
    _write(args, summary)
    tell_written(args.output, counted(len(summary.rows), "stream" if args.streams else "connection"))
    report(summary.report)
    terminal = Terminal.of(sys.stderr)
    for note in summary.notes:
        sys.stderr.write(f"{terminal.warning('uprscope:')} {one_line(note)}\n")
    return EXIT_DAMAGED if summary.report.damage else 0


def _summary(args: argparse.Namespace) -> Summary:
    from functools import partial  # noqa: PLC0415

    from dissector.capture import expand  # noqa: PLC0415 - brings numpy along
    from dissector.terminal.progress import progress  # noqa: PLC0415
    from uprscope.summaries import connection_summary, stream_summary  # noqa: PLC0415

    inputs, options, watch = expand(args.captures, rows=True), options_of(args), partial(progress, wanted=True)
    if args.streams:
        return stream_summary(inputs, options, watch=watch)
    return connection_summary(inputs, options, everything=args.all, hashes=args.hash, watch=watch)


def _write(args: argparse.Namespace, summary: Summary) -> None:
    from dissector.display.table import CONNECTION_TABLE, STREAM_TABLE  # noqa: PLC0415 - brings numpy along
    from dissector.frames.writers import destination, open_writer  # noqa: PLC0415
    from dissector.summary.schema import joined, table_of  # noqa: PLC0415

    with destination(args.output) as stream:
        if args.format == "text":
            _write_text(args, summary.rows, STREAM_TABLE if args.streams else CONNECTION_TABLE, stream)
            return
        table = table_of(summary.rows, summary.columns)
        if args.format == "csv":
            table = joined(table)
        writer = open_writer(args.format, stream, table.schema)
        for batch in table.to_batches():
            writer.write(batch)
        writer.close()


def _write_text(args: argparse.Namespace, rows: Rows, texts: Sequence[TextColumn], stream: IO[bytes]) -> None:
    from dissector.display.table import table_lines  # noqa: PLC0415

    to_stdout = args.output in (None, "-")
    terminal = Terminal.of(sys.stdout, args.color) if to_stdout else Terminal(color=args.color == "always")
    encoding = sys.stdout.encoding if to_stdout else "utf-8"
    if rows:
        for line in table_lines(rows, texts, terminal, _room() if to_stdout else None):
            stream.write(f"{line}\n".encode(encoding, "backslashreplace"))


def _room() -> int | None:
    """Return how wide a table may get: COLUMNS if set, the terminal's width, else anything."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
