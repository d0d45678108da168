"""``uprscope dissect``: captures to frames, as lines for people or as rows for programs."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import IO, TYPE_CHECKING

from dissector.limits import Limits
from dissector.ports import Ports
from dissector.spec.model import Dialect
from dissector.terminal import Terminal, one_line

if TYPE_CHECKING:
    import pyarrow as pa

    from dissector.run import Options, Report

EXIT_DAMAGED = 3
FORMATS = ("text", "ndjson", "csv", "parquet", "arrow")
BINARY_FORMATS = ("parquet", "arrow")

_EPILOG = """\
examples:
  uprscope dissect capture.pcapng
  uprscope dissect ring/*.pcap.zst --limit 100
  uprscope dissect capture.pcap --format ndjson | jq .name
  uprscope dissect capture.pcap --format parquet -o frames.parquet
  tcpdump -w - port 11210 | uprscope dissect -

exit status: 0 done, 2 unusable input or usage, 3 the input was damaged and
everything readable was written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "captures", nargs="+", metavar="CAPTURE", help="file, directory, pattern, or - for standard input"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="form of the output (default: text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to a file; it appears when it is complete")
    parser.add_argument("--fields", metavar="A,B,...", help="these columns only, in this order (not for text)")
    parser.add_argument("--limit", type=_count, metavar="N", help="stop after N frames")
    parser.add_argument("--values", action="store_true", help="keep the values of documents in the rows")
    parser.add_argument("--separate", action="store_true", help="connections do not go on from one file to the next")
    parser.add_argument(
        "--port", action="append", default=[], metavar="N", help="this port is memcached, whatever it looks like"
    )
    parser.add_argument(
        "--decode-as",
        action="append",
        default=[],
        metavar="N=DIALECT",
        help="as --port, with the dialect, auto or none",
    )
    parser.add_argument("--dialect", choices=[entry.value for entry in Dialect], help="take this dialect for granted")
    parser.add_argument("--show-secrets", action="store_true", help="do not withhold what SASL commands carry")
    limits = parser.add_argument_group("limits", "what may be held in memory; reaching one is reported")
    for field in dataclasses.fields(Limits):
        limits.add_argument(
            f"--max-{field.name.replace('_', '-')}",
            type=_count,
            default=field.default,
            metavar="N",
            help=f"default: {field.default:,}",
        )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def options_of(args: argparse.Namespace) -> Options:
    """Read the options that say how captures are to be read."""
    from dissector.run import Options  # noqa: PLC0415 - brings numpy along

    limits = Limits(**{field.name: getattr(args, f"max_{field.name}") for field in dataclasses.fields(Limits)})
    return Options(
        limits=limits,
        ports=Ports.parse(args.port, args.decode_as),
        dialect=Dialect(args.dialect) if args.dialect else None,
        values=args.values,
        redact=not args.show_secrets,
        separate=args.separate,
    )


def run(args: argparse.Namespace) -> int:
    """Dissect, and return the exit status."""
    from dissector.capture import expand  # noqa: PLC0415 - brings numpy along
    from dissector.errors import UsageError  # noqa: PLC0415
    from dissector.output import destination, open_writer  # noqa: PLC0415
    from dissector.pipeline import FrameReader  # noqa: PLC0415

    options = options_of(args)
    names = fields_of(args)
    to_terminal = args.output in (None, "-") and sys.stdout.isatty()
    if args.format in BINARY_FORMATS and to_terminal:
        raise UsageError(f"{args.format} is not for terminals: give a file with -o, or a pipe")
    reader = FrameReader(expand(args.captures), options)
    left = args.limit
    with destination(args.output) as stream:
        writer = TextWriter(stream, args) if args.format == "text" else open_writer(args.format, stream, schema(names))
        for batch in reader:
            rows = batch if left is None else batch.slice(0, left)
            writer.write(rows if names is None else rows.select(names))
            if left is not None:
                left -= rows.num_rows
                if left <= 0:
                    break
        writer.close()
    report(reader.report)
    return EXIT_DAMAGED if reader.report.damage else 0


def fields_of(args: argparse.Namespace) -> list[str] | None:
    """Read the columns that were asked for; None: all."""
    from dissector.errors import UsageError  # noqa: PLC0415
    from dissector.frames import SCHEMA  # noqa: PLC0415 - brings pyarrow along

    if args.fields is None:
        return None
    if args.format == "text":
        raise UsageError("--fields is for rows: give a --format (ndjson, csv, parquet or arrow)")
    names = [name.strip() for name in args.fields.split(",")]
    for name in names:
        if name not in SCHEMA.names:
            import difflib  # noqa: PLC0415 - only for those who mistyped

            close = difflib.get_close_matches(name, SCHEMA.names, 1)
            hint = f"did you mean {close[0]}?" if close else "docs/frames.md lists them"
            raise UsageError(f"--fields: no column {name!r} ({hint})")
        if names.count(name) > 1:
            raise UsageError(f"--fields: {name} is there twice")
    return names


def schema(names: list[str] | None) -> pa.Schema:
    """Return the schema of the chosen columns."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load

    from dissector.frames import SCHEMA  # noqa: PLC0415

    return SCHEMA if names is None else pa.schema([SCHEMA.field(name) for name in names])


class TextWriter:
    """Lines for people."""

    def __init__(self, stream: IO[bytes], args: argparse.Namespace) -> None:
        from dissector.listing import Listing  # noqa: PLC0415 - brings pyarrow along

        self._stream = stream
        to_stdout = args.output in (None, "-")
        terminal = Terminal.of(sys.stdout, args.color) if to_stdout else Terminal(color=args.color == "always")
        self._listing = Listing(terminal)
        self._begun = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        lines = [self._listing.line(row) for row in batch.to_pylist()]
        if not self._begun and lines:
            lines.insert(0, self._listing.heading())
            self._begun = True
        if lines:
            self._stream.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Nothing has to come last."""


def report(found: Report) -> None:
    """Say on stderr what was lost, and why there may be nothing to see."""
    terminal = Terminal.of(sys.stderr)
    for line in found.losses():
        sys.stderr.write(f"{terminal.warning('uprscope:')} {one_line(line)}\n")
    if not found.frames and not found.damage:
        link = found.link
        sys.stderr.write(
            f"uprscope: no frames: {link.packets:,} packets, {link.segments:,} TCP segments, "
            f"{found.connections:,} connections, none of them memcached (--port N forces one)\n"
        )
