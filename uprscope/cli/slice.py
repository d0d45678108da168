"""``uprscope slice``: the packets that prove a finding, as a small capture to look at or to attach to a bug report."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.terminal.style import Terminal, one_line, safe_text
from uprscope.cli.check import found, watching
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.output_options import STANDARD_OUTPUT, counted, known_ending

if TYPE_CHECKING:
    import argparse

    from analysis.check.findings import Finding
    from analysis.rules import Rule
    from analysis.slice.slicer import SliceResult
    from dissector.capture import Input
    from dissector.options import ReadOptions

_ID = re.compile(r"([A-Za-z]{3}-[0-9]{2})-[0-9A-Fa-f]{8}\Z")

_EPILOG = """\
examples:
  uprscope check capture.pcapng
  uprscope slice capture.pcapng --finding SEQ-01-06a74178 -o small.pcapng
  uprscope check small.pcapng

Kept are the frames that prove the finding, the handshake and the set-up. If a
check of these does not show the finding again, because bytes are missing in
between, more of the connection is kept until it does; stderr says what it was.
Packets have comments, and check gives the finding the same name.
exit status: 0 done, 2 unusable input or usage, 3 the input was damaged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser)
    parser.add_argument("--finding", required=True, metavar="ID", help="the finding, as uprscope check names it")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="write to this pcapng file")


def run(args: argparse.Namespace) -> int:
    """Write the slice, and return the exit status."""
    from analysis.check.inspection import inspect  # noqa: PLC0415
    from analysis.check.selection import Selection  # noqa: PLC0415
    from analysis.slice.packets_needed import packets_needed  # noqa: PLC0415
    from analysis.slice.slicer import write_slice  # noqa: PLC0415 - brings numpy and pyarrow along
    from dissector.capture import order_by_time  # noqa: PLC0415
    from dissector.frames.writers import destination  # noqa: PLC0415
    from uprscope.cli.dissect import report  # noqa: PLC0415

    name, rule = _read(args.finding)
    known_ending(args.output, "-o", ("pcapng",))
    options = options_of(args)
    if args.output == "-" and sys.stdout.isatty():
        raise UsageError("a capture is not for terminals: give a file with -o, or a pipe")
    with contextlib.ExitStack() as stack:
        inputs = found(args.captures, stack, twice=True)
        inputs = inputs if args.separate else order_by_time(inputs)
        with watching() as watch:
            chosen = Selection(only=frozenset((name,)))
            inspection = inspect(inputs, (rule,), options, selection=chosen, watch=watch)
        if not inspection.findings:
            raise UsageError(f"--finding {name}: not found ({_hint(inputs, options, rule)})")
        finding = inspection.findings[0]
        needs = packets_needed(inputs, options, finding)
        with destination(args.output) as stream:
            made = write_slice(inputs, options, finding, rule, needs, stream)
    report(inspection.report)
    _tell(args.output, finding, made)
    return EXIT_DAMAGED if inspection.report.damage else 0


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


def _tell(target: str, finding: Finding, made: SliceResult) -> None:
    terminal = Terminal.of(sys.stderr)
    wrote = "" if target == STANDARD_OUTPUT else f"wrote {safe_text(target)}: "
    line = f"{wrote}{counted(made.packets, 'packet')} for {finding.id}: {made.what}"
    sys.stderr.write(f"uprscope: {one_line(line)}\n")
    if not made.shown:
        line = f"a check of these packets alone does not show {finding.rule}: it needs what other connections say"
        sys.stderr.write(f"{terminal.warning('uprscope:')} {line}\n")
