"""``uprscope slice``: some packets of captures as a capture of their own, to look at or to attach to a bug report."""

from __future__ import annotations

import contextlib
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.terminal.style import Terminal, one_line, safe_text
from uprscope.cli.check import found, watching
from uprscope.cli.connection_option import add_connection_argument, chosen_connection
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.output_options import STANDARD_OUTPUT, counted

if TYPE_CHECKING:
    import argparse

    from analysis.rules import Rule
    from analysis.slice.criteria import Criteria
    from analysis.slice.packet_choice import PacketChoice
    from analysis.slice.slicer import SliceResult
    from dissector.capture import Input
    from dissector.options import ReadOptions, ReadReport

_ID = re.compile(r"([A-Za-z]{3}-[0-9]{2})-[0-9A-Fa-f]{8}\Z")

_EPILOG = """\
examples:
  uprscope check capture.pcapng
  uprscope slice capture.pcapng --finding SEQ-01-06a74178 -o small.pcapng
  uprscope check small.pcapng
  uprscope slice capture.pcapng --connection 2 --time 10..12.5 -o small.pcap
  uprscope slice capture.pcapng --filter 'status != success' -o refused.pcapng
  uprscope slice capture.pcapng --frames 10-20,33 -o few.pcapng

--connection, --filter, --frames and --time all have to hold. Frames come with
their handshake and set-up, so that they can be read; without --filter and
--frames, all packets of the connections and the time are kept. --finding adds
the frames that prove it. If a check of these does not show the finding again,
because bytes are missing in between, more of the connection is kept until it
does; stderr says what it was. Packets have comments in pcapng, and check gives
the finding the same name.
Log-ins are blanked, their lengths are kept. uprscope explain sharing says what
else is in a capture.
exit status: 0 done, 2 unusable input or usage, 3 the input was damaged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser)
    chosen = parser.add_argument_group("which packets")
    chosen.add_argument("--finding", metavar="ID", help="those that show the finding, as uprscope check names it")
    add_connection_argument(chosen, "of this connection")
    chosen.add_argument("--filter", metavar="EXPR", help="of frames for which this holds (uprscope explain filters)")
    chosen.add_argument("--frames", metavar="N-M,...", help="of frames with these numbers, as in 10-20,33 or 40-")
    chosen.add_argument(
        "--time",
        metavar="FROM..TO",
        help="of this time: seconds since the first frame, or as in 2026-11-16T02:10:00Z; one may be left out",
    )
    chosen.add_argument("--all", action="store_true", help="all of them")
    written = parser.add_argument_group("what is written")
    written.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="write to this file, whose name ends in .pcapng or .pcap"
    )
    written.add_argument("--show-secrets", action="store_true", help="do not blank log-ins, keys and tokens")


def run(args: argparse.Namespace) -> int:
    """Write the slice, and return the exit status."""
    from analysis.slice.criteria import choose  # noqa: PLC0415 - brings numpy and pyarrow along
    from analysis.slice.slicer import write_packets  # noqa: PLC0415
    from dissector.capture import order_by_time  # noqa: PLC0415
    from dissector.frames.writers import destination  # noqa: PLC0415
    from uprscope.cli.dissect import report  # noqa: PLC0415

    form = capture_form(args.output)
    wanted = _read(args.finding) if args.finding is not None else None
    criteria = _criteria(args)
    options = options_of(args)
    with contextlib.ExitStack() as stack:
        inputs = found(args.captures, stack, twice=True, target=None if args.output == "-" else args.output)
        inputs = inputs if args.separate else order_by_time(inputs)
        choice = None
        if criteria is not None:
            connection = chosen_connection(args, inputs, options)
            with watching() as watch:
                choice = choose(inputs, options, criteria(connection=connection), watch)
        if wanted is not None:
            made, read = _write_finding(args, inputs, options, wanted, choice, form)
        elif choice is not None:
            with watching() as watch, destination(args.output) as stream:
                made, read = write_packets(inputs, options, choice, stream, form=form, watch=watch)
                if not made.packets and not args.all:
                    raise UsageError("no packet is chosen: there is nothing to write")
    report(read)
    tell(args.output, made, wanted)
    return EXIT_DAMAGED if read.damage else 0


def capture_form(name: str) -> str:
    """Tell the form of a capture that is to be written, pcap or pcapng, by its name."""
    from dissector.generate.capture_files import FORMS, form_of  # noqa: PLC0415 - brings numpy along

    if name == "-" and sys.stdout.isatty():
        raise UsageError("a capture is not for terminals: give a file with -o, or a pipe")
    nameless = name == "-" or (Path(name).exists() and not Path(name).is_file())  # a pipe or a device
    return FORMS[-1] if nameless else form_of(name)


def _criteria(args: argparse.Namespace) -> partial[Criteria] | None:
    """Return what chooses frames, without the connection; None: nothing but a finding does."""
    from analysis.slice.criteria import Criteria, read_frames, read_times  # noqa: PLC0415
    from dissector.filters import parse  # noqa: PLC0415

    limits = {"--connection": args.connection, "--filter": args.filter, "--frames": args.frames, "--time": args.time}
    given = [option for option, value in limits.items() if value is not None]
    if args.all and (given or args.finding):
        raise UsageError(f"--all takes every packet: it does not go with {(given or ['--finding'])[0]}")
    if not args.all and not given:
        if args.finding is None:
            raise UsageError("which packets? Give --finding, --connection, --filter, --frames, --time, or --all")
        return None
    return partial(
        Criteria,
        chosen=parse(args.filter) if args.filter is not None else None,
        frames=read_frames(args.frames) if args.frames is not None else None,
        times=read_times(args.time) if args.time is not None else (None, None),
    )


def _write_finding(
    args: argparse.Namespace,
    inputs: list[Input],
    options: ReadOptions,
    wanted: tuple[str, Rule],
    beside: PacketChoice | None,
    form: str,
) -> tuple[SliceResult, ReadReport]:
    """Find the finding, and write what shows it; return the report of the search, too."""
    from analysis.check.inspection import inspect  # noqa: PLC0415
    from analysis.check.selection import Selection  # noqa: PLC0415
    from analysis.slice.packets_needed import packets_needed  # noqa: PLC0415
    from analysis.slice.slicer import write_slice  # noqa: PLC0415
    from dissector.frames.writers import destination  # noqa: PLC0415
    from dissector.pseudonyms.permutation import without_addresses  # noqa: PLC0415

    name, rule = wanted
    same_ids = replace(options, pseudonyms=without_addresses(options.pseudonyms))
    with watching() as watch:
        chosen = Selection(only=frozenset((name,)))
        inspection = inspect(inputs, (rule,), same_ids, selection=chosen, watch=watch)
    if not inspection.findings:
        raise UsageError(f"--finding {name}: not found ({_hint(inputs, same_ids, rule)})")
    finding = inspection.findings[0]
    if same_ids != options:  # the id is a hash of addresses, which can be found by trying
        finding = replace(finding, id=rule.id)
    needs = packets_needed(inputs, options, finding)
    with destination(args.output) as stream:
        made = write_slice(inputs, options, finding, rule, needs, stream, form=form, beside=beside)
    return made, inspection.report


def _read(text: str) -> tuple[str, Rule]:
    """Read the name of a finding; return it and its rule."""
    from analysis.check.selection import hint  # noqa: PLC0415
    from analysis.rules import RULE_BY_ID  # noqa: PLC0415

    match = _ID.match(text)
    if match is None:
        raise UsageError(f"--finding {safe_text(text[:60])}: no name of a finding, such as SEQ-01-06a74178")
    rule = RULE_BY_ID.get(match[1].upper())
    if rule is None:
        raise UsageError(f"--finding {text}: no rule {match[1].upper()} ({hint(match[1])})")
    return f"{rule.id}-{text[-8:].lower()}", rule


def _hint(inputs: list[Input], options: ReadOptions, rule: Rule) -> str:
    """Return which findings of the rule there are."""
    from analysis.check.inspection import inspect  # noqa: PLC0415

    others = [finding.id for finding in inspect(inputs, (rule,), options, limit=5).findings]
    return f"of {rule.id} there is {', '.join(others)}" if others else f"nothing breaks {rule.id} here"


def tell(target: str, made: SliceResult, wanted: tuple[str, Rule] | None = None) -> None:
    """Say on stderr what was written."""
    terminal = Terminal.of(sys.stderr)
    about = f" for {wanted[0]}" if wanted is not None else ""
    wrote = "" if target == STANDARD_OUTPUT else f"wrote {safe_text(target)}: "
    line = f"{wrote}{counted(made.packets, 'packet')}{about}: {made.what}"
    sys.stderr.write(f"uprscope: {one_line(line)}\n")
    for line in made.counts.sentences():
        sys.stderr.write(f"uprscope: {line}\n")
    if wanted is not None and not made.shown:
        line = f"a check of these packets alone does not show {wanted[1].id}: it needs what other connections say"
        sys.stderr.write(f"{terminal.warning('uprscope:')} {line}\n")
