"""``uprscope dissect``: captures to frames, as lines for people or as rows for programs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from dissector.terminal.amounts import count
from dissector.terminal.style import Terminal, one_line
from uprscope.cli.connection_option import NameOnPipe, add_connection_argument, chosen_connection, needs_names
from uprscope.cli.frame_output import FrameWriter, opened, schema
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of, positive
from uprscope.cli.list_options import add_list_arguments, refuse_list_options
from uprscope.cli.live import add_growing_argument, are_live, found_inputs, stoppable, tell_end
from uprscope.cli.output_options import add_target_arguments, choose_format, counted, tell_written
from uprscope.cli.packet_output import PacketOutput, inputs_of, refuse_other_output
from uprscope.cli.tshark_options import add_tshark_arguments, apply_tshark_options, own_names

if TYPE_CHECKING:
    from dissector.filters import Filter
    from dissector.frames.connection_numbers import ConnectionNumbers
    from dissector.frames.run_columns import RunColumns
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions, ReadReport


_EPILOG = """\
examples:
  uprscope dissect capture.pcapng
  uprscope dissect capture.pcap --filter 'opcode == mutation and vbucket == 5'
  uprscope dissect capture.pcap --filter 'defects' -V
  uprscope dissect capture.pcap --follow 2 --vbucket 17
  uprscope dissect ring/*.pcap.zst --limit 100 --no-pager
  uprscope dissect -r capture.pcap -Y 'upr.status != success' -t ad -c 20
  uprscope dissect -r capture.pcap -Y 'upr.vbucket == 5' -w vbucket-5.pcapng
  uprscope dissect capture.pcap --format ndjson | jq .name
  uprscope dissect capture.pcap --format parquet -o frames.parquet
  tcpdump -U -w - port 11210 | uprscope dissect -
  uprscope dissect --growing capture.pcap

uprscope explain columns describes the fields, uprscope explain filters the
language of --filter.
A pipe, and a file with --growing, is shown as it comes; Ctrl-C ends it well.
exit status: 0 done, 2 unusable input or usage, 3 the input was damaged and
everything readable was written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_growing_argument(add_reading_arguments(parser))
    chosen = parser.add_argument_group("which frames")
    chosen.add_argument(
        "-Y", "--filter", metavar="EXPR", help="only frames for which this holds (uprscope explain filters)"
    )
    add_connection_argument(chosen, "only this connection", first="--follow")
    chosen.add_argument(
        "--vbucket", type=_vbucket, metavar="N", help="only this vbucket, answers to its requests included"
    )
    chosen.add_argument(
        "-c", "--limit", type=positive, metavar="N", help="stop after N frames, of those that are shown (tshark: read)"
    )
    shown = parser.add_argument_group("how to show them")
    shown.add_argument("-V", "--tree", action="store_true", help="every byte of each frame, with offset and meaning")
    shown.add_argument("-x", "--hex", action="store_true", help="a hexadecimal dump of each frame")
    add_list_arguments(shown)
    add_target_arguments(shown)
    shown.add_argument(
        "--fields", metavar="A,B,...", help="these columns only, in this order (uprscope explain columns)"
    )
    shown.add_argument(
        "--inspect", action="store_true", help="look into documents: whether they are what their datatype says"
    )
    shown.add_argument("--values", action="store_true", help="keep the values of documents in the rows")
    shown.add_argument("--show-secrets", action="store_true", help="do not withhold log-ins, keys and tokens")
    shown.add_argument("--no-pager", action="store_true", help="do not page long text on a terminal")
    add_tshark_arguments(parser)


def _vbucket(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 0xFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is not a vbucket (0 to 65535)")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Dissect, and return the exit status."""
    from dissector.errors import UsageError  # noqa: PLC0415
    from dissector.filters import parse  # noqa: PLC0415
    from dissector.filters.selector import FrameSelector  # noqa: PLC0415
    from dissector.frames.connection_numbers import ConnectionNumbers  # noqa: PLC0415
    from dissector.frames.run_columns import NUMBERED, RunColumns  # noqa: PLC0415
    from dissector.frames.sources import are_rows, open_frames  # noqa: PLC0415
    from dissector.terminal.progress import progress  # noqa: PLC0415

    options = options_of(args)
    apply_tshark_options(args)
    if args.write is not None:
        refuse_other_output(args)
    names = fields_of(args)
    _check_usage(args)
    chosen: Filter | None = parse(args.filter) if args.filter is not None else None
    numbering = ConnectionNumbers()
    if args.write is not None:
        return _write_packets(args, options, chosen, numbering)
    inputs = found_inputs(args.captures, growing=args.growing, rows=True)
    live = are_live(inputs)
    stored = are_rows(inputs)
    named, follow = None, None
    if needs_names(args) and (live or any(each.once for each in inputs)):
        named = NameOnPipe(args.connection)
    else:
        follow = chosen_connection(args, inputs, options)
    selector = FrameSelector(chosen, follow, args.vbucket, numbering)
    needed = selector.columns.union(columns_for(args, names), named.columns if named else ())
    if stored and (follow is not None or (args.format == "text" and names is None)):
        needed |= NUMBERED  # the rows may be some of a run: their own numbers hold on
    derived = RunColumns(needed, numbering)
    options = dataclasses.replace(options, columns=needed, live=live)
    if (args.tree or args.hex) and stored:
        raise UsageError(f"{inputs[0].name}: holds frames as rows, without their bytes; -V and -x need the capture")
    reader = open_frames(
        inputs,
        options,
        ended=named.end if named is not None else None,
        over=(lambda connection: selector.forget(connection.id)) if live else None,
    )
    to_stdout = args.output in (None, "-")
    watched = not (to_stdout and (live or sys.stdout.isatty()))
    with (
        stoppable(inputs),
        opened(args, names, options, numbering, live=live) as writer,
        progress(reader, wanted=watched) as advance,
    ):
        if _copy(reader, derived, selector, writer, args.limit, advance, named):
            if named is not None:
                named.finish()
            if selector.unknown is not None:
                report(reader.report, filtered=True)
                raise UsageError(selector.unknown)
    tell_written(args.output, counted(writer.frames, "frame"))
    tell_end(inputs, reader.report)
    report(reader.report, filtered=selector.is_selective)
    return EXIT_DAMAGED if reader.report.damage else 0


def _write_packets(
    args: argparse.Namespace, options: ReadOptions, chosen: Filter | None, numbering: ConnectionNumbers
) -> int:
    """Write the packets of the chosen frames, and return the exit status."""
    from dissector.errors import UsageError  # noqa: PLC0415
    from dissector.filters.selector import FrameSelector  # noqa: PLC0415
    from dissector.frames.run_columns import RunColumns  # noqa: PLC0415
    from dissector.frames.sources import open_frames  # noqa: PLC0415
    from dissector.terminal.progress import progress  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        inputs = inputs_of(args, stack)
        selector = FrameSelector(chosen, chosen_connection(args, inputs, options), args.vbucket, numbering)
        output = PacketOutput(args.write, inputs, options)
        derived, needed = RunColumns(selector.columns, numbering), output.columns | selector.columns
        reader = open_frames(inputs, dataclasses.replace(options, columns=needed))
        with progress(reader, wanted=True) as advance:
            whole = _copy(reader, derived, selector, output, args.limit, advance)
        if whole and selector.unknown is not None:
            raise UsageError(selector.unknown)
        output.close()
    report(reader.report, filtered=selector.is_selective)
    return EXIT_DAMAGED if reader.report.damage else 0


def _copy(
    reader: BatchReader,
    derived: RunColumns,
    selector: Any,
    writer: FrameWriter | PacketOutput,
    limit: int | None,
    advance: Any,
    named: NameOnPipe | None = None,
) -> bool:
    """Write what is selected; return whether the inputs were read to their end."""
    left = limit
    for read, table in reader.tables():
        advance()
        batch = derived.add(read)
        if named is not None and not named.found_by(batch, selector):
            continue
        indexes = selector.indexes(batch)
        if left is not None:
            indexes = indexes[:left]
            left -= len(indexes)
        writer.write(batch, table, indexes)
        writer.frames += len(indexes)
        if left is not None and left <= 0:
            return False
    return True


def _check_usage(args: argparse.Namespace) -> None:
    from dissector.errors import UsageError  # noqa: PLC0415

    choose_format(args, tsv=args.fields is not None)
    if (args.tree or args.hex) and (args.format != "text" or args.fields is not None):
        raise UsageError("-V and -x show text: they go with neither --format nor --fields")
    if args.format != "text" or args.fields is not None:
        refuse_list_options(args)


def fields_of(args: argparse.Namespace) -> list[str] | None:
    """Read the columns that were asked for; None: all."""
    if args.fields is None:
        return None
    from dissector.frames.derived_columns import row_columns_of  # noqa: PLC0415 - brings pyarrow along

    option = "-e" if args.tshark_fields else "--fields"
    return row_columns_of(own_names(args.fields, option), option)


def columns_for(args: argparse.Namespace, names: list[str] | None) -> list[str]:
    """Return the columns that the output needs: lines for people are written from those of the dissector."""
    from dissector.frames.schema import SCHEMA  # noqa: PLC0415 - as above

    if names is None and args.format == "text":
        return list(SCHEMA.names)
    return list(schema(names).names)


def report(found: ReadReport, *, filtered: bool = False) -> None:
    """Say on stderr what was lost, and why there may be nothing to see."""
    terminal = Terminal.of(sys.stderr)
    for line in found.losses() + ([] if found.frames else found.link.unread()):
        sys.stderr.write(f"{terminal.warning('uprscope:')} {one_line(line)}\n")
    if not found.frames and not found.damage and not filtered:
        link = found.link
        seen = ((link.packets, "packet"), (link.segments, "TCP segment"), (found.connections, "connection"))
        there = ", ".join(count(number, noun) for number, noun in seen)
        if found.connections:
            there += f", {'not' if found.connections == 1 else 'none of them'} memcached (--port N forces one)"
        other = found.others.sentence()
        there += f"; seen instead: {other}" if other else ""
        sys.stderr.write(f"uprscope: no frames: {there if link.packets else 'no packets'}\n")
