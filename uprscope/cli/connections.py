"""``uprscope connections``: captures to connections or vbucket streams, as a table or as rows for programs."""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any

from dissector.terminal.style import Terminal, one_line
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.output_options import add_target_arguments, settle_format

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from dissector.display.table import TextColumn
    from dissector.frames.reader import FrameReader
    from dissector.frames.schema import Column
    from dissector.summary.connections import ConnectionSummaries
    from dissector.summary.streams import Streams

    Rows = Sequence[dict[str, Any]]


_EPILOG = """\
examples:
  uprscope connections capture.pcapng
  uprscope connections ring/*.pcap.zst --streams
  uprscope connections capture.pcap --streams --format json | jq '.[].ended'
  uprscope connections capture.pcap --hash --all

docs/connections.md describes the columns. In the table, → is from the client,
the side that opened the connection, and ← is to it.
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
    settle_format(args)
    reader, notes = _streams(args) if args.streams else _connections(args)
    report(reader.report)
    terminal = Terminal.of(sys.stderr)
    for note in notes:
        sys.stderr.write(f"{terminal.warning('uprscope:')} {one_line(note)}\n")
    return EXIT_DAMAGED if reader.report.damage else 0


def _connections(args: argparse.Namespace) -> tuple[FrameReader, list[str]]:
    from dissector.capture import expand  # noqa: PLC0415 - brings numpy along
    from dissector.display.table import CONNECTION_TABLE  # noqa: PLC0415
    from dissector.frames.reader import FrameReader  # noqa: PLC0415
    from dissector.summary.byte_hash import HashingReader  # noqa: PLC0415
    from dissector.summary.connections import ConnectionSummaries  # noqa: PLC0415
    from dissector.summary.rows import ConnectionRows  # noqa: PLC0415
    from dissector.summary.schema import CONNECTION_COLUMNS, HASH_COLUMNS  # noqa: PLC0415

    found = ConnectionRows(everything=args.all)
    summaries = ConnectionSummaries(found.add)
    inputs, options = expand(args.captures), options_of(args)
    if args.hash:
        reader: FrameReader = (hashing := HashingReader(inputs, options, ended=summaries.end))
        found.digests = hashing.digests
    else:
        reader = FrameReader(inputs, options, ended=summaries.end)
    _read(reader, summaries)
    columns = (*CONNECTION_COLUMNS, *HASH_COLUMNS) if args.hash else CONNECTION_COLUMNS
    _write(args, found.sorted(), columns, CONNECTION_TABLE)
    notes = []
    if found.left_out:
        notes.append(f"limit reached: {len(found.rows):,} connections are listed, {found.left_out:,} are not")
    if found.gaps_left_out:
        notes.append(f"limit reached: {found.gaps_left_out:,} gaps are counted, but not listed")
    if found.without_frames and found.rows and not args.all:
        plural = "s have" if found.without_frames > 1 else " has"
        notes.append(
            f"{found.without_frames:,} other connection{plural} no frames that could be read (--all lists them)"
        )
    return reader, notes


def _streams(args: argparse.Namespace) -> tuple[FrameReader, list[str]]:
    from dissector.capture import expand  # noqa: PLC0415 - brings numpy along
    from dissector.display.table import STREAM_TABLE  # noqa: PLC0415
    from dissector.frames.reader import FrameReader  # noqa: PLC0415
    from dissector.summary.connections import ConnectionSummaries, forget  # noqa: PLC0415
    from dissector.summary.rows import stream_rows  # noqa: PLC0415
    from dissector.summary.schema import STREAM_COLUMNS  # noqa: PLC0415
    from dissector.summary.streams import Streams  # noqa: PLC0415

    streams = Streams()
    summaries = ConnectionSummaries(forget)
    reader = FrameReader(expand(args.captures), options_of(args), ended=summaries.end)
    _read(reader, summaries, streams)
    _write(args, list(stream_rows(streams)), STREAM_COLUMNS, STREAM_TABLE)
    limit = f"limit reached: {streams.limit:,} streams are listed, later ones are not"
    return reader, [limit] if streams.limit_reached else []


def _read(reader: FrameReader, summaries: ConnectionSummaries, streams: Streams | None = None) -> None:
    """Fold over everything; streams only need to know what their connections are called."""
    from dissector.frames.batch import FrameBatch  # noqa: PLC0415
    from dissector.terminal.progress import progress  # noqa: PLC0415

    with progress(reader, wanted=True) as advance:
        for batch in reader:
            advance()
            frames = FrameBatch(batch)
            connections = summaries.fold(frames, names_only=streams is not None)
            if streams is not None:
                streams.fold(frames, connections)
            summaries.release_ended()


def _write(args: argparse.Namespace, rows: Rows, columns: Sequence[Column], texts: Sequence[TextColumn]) -> None:
    from dissector.frames.writers import destination, open_writer  # noqa: PLC0415
    from dissector.summary.schema import joined, table_of  # noqa: PLC0415

    with destination(args.output) as stream:
        if args.format == "text":
            _write_text(args, rows, texts, stream)
            return
        table = table_of(rows, columns)
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
