"""``uprscope stats``: one screen about captures: traffic, waiting, streams, losses."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import IO, TYPE_CHECKING

from dissector.terminal.style import Terminal
from uprscope.cli.connection_option import add_connection_argument, chosen_connection, needs_names
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.output_options import add_target_arguments, choose_format, counted, tell_written

if TYPE_CHECKING:
    import argparse

    from analysis.stats.statistics import Statistics

FORMATS = ("text", "json")

_EPILOG = """\
examples:
  uprscope stats capture.pcapng
  uprscope stats ring/*.pcap.zst
  uprscope stats capture.pcap --connection 2
  uprscope stats frames.parquet
  uprscope stats capture.pcap --json | jq '.stalls.total_ns'

uprscope explain stats says what is counted, and has the keys of the JSON object.
exit status: 0 done, 2 unusable input or usage, 3 the input was damaged and
everything readable was counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser)
    wanted = parser.add_argument_group("what to count")
    add_connection_argument(wanted, "this connection only")
    shown = parser.add_argument_group("how to show it")
    add_target_arguments(shown, FORMATS)
    shown.add_argument("--all", action="store_true", help="all rows of the tables, instead of one screen")


def run(args: argparse.Namespace) -> int:
    """Count, and return the exit status."""
    from analysis.stats.collect import collect  # noqa: PLC0415 - brings numpy and pyarrow along
    from dissector.frames.writers import destination  # noqa: PLC0415
    from uprscope.cli.check import found as found_inputs  # noqa: PLC0415
    from uprscope.cli.check import watching  # noqa: PLC0415
    from uprscope.cli.dissect import report  # noqa: PLC0415

    choose_format(args, FORMATS)
    options = options_of(args)
    with contextlib.ExitStack() as stack:
        inputs = found_inputs(args.captures, stack, twice=needs_names(args), rows=True)
        connection = chosen_connection(args, inputs, options)
        with watching() as watch:
            found, read = collect(inputs, options, connection=connection, watch=watch)
    with destination(args.output) as stream:
        _write(args, found, stream)
    tell_written(args.output, f"statistics of {counted(read.frames, 'frame')}")
    report(read)
    return EXIT_DAMAGED if read.damage else 0


def _write(args: argparse.Namespace, found: Statistics, stream: IO[bytes]) -> None:
    if args.format == "json":
        from analysis.stats.document import document  # noqa: PLC0415

        stream.write((json.dumps(document(found), indent=2) + "\n").encode())
        return
    from analysis.stats.text import MOST_ROWS, lines  # noqa: PLC0415

    to_stdout = args.output in (None, "-")
    terminal = Terminal.of(sys.stdout, args.color) if to_stdout else Terminal(color=args.color == "always")
    encoding = sys.stdout.encoding if to_stdout else "utf-8"
    most = len(found.opcodes) + len(found.connections) if args.all else MOST_ROWS
    for line in lines(found, terminal, most_rows=most):
        stream.write(f"{terminal.encode(line)}\n".encode(encoding, "backslashreplace"))
