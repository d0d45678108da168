"""``uprscope slice``: the packets that prove a finding, as a small capture to look at or to attach to a bug report."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from analysis.cli.check import repeatable
from dissector.cli.reading import EXIT_DAMAGED, add_reading_arguments, options_of
from dissector.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from analysis.findings import Finding

_EPILOG = """\
examples:
  uprscope check capture.pcapng
  uprscope slice capture.pcapng --finding SEQ-01-06a74178 -o small.pcapng

The handshake, the set-up messages and the stream's request are kept too, so
that the small capture can be read on its own; packets have comments.
exit status: 0 done, 2 unusable input or usage, 3 the input was damaged."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser)
    parser.add_argument("--finding", required=True, metavar="ID", help="the finding, as uprscope check names it")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="write to this pcapng file")


def run(args: argparse.Namespace) -> int:
    """Cut, and return the exit status."""
    from analysis.cutting import cut, packets_of  # noqa: PLC0415 - brings numpy and pyarrow along
    from analysis.inspection import inspect  # noqa: PLC0415
    from analysis.selection import rules_of  # noqa: PLC0415
    from dissector.cli.dissect import report  # noqa: PLC0415
    from dissector.output import destination  # noqa: PLC0415
    from dissector.progress import progress  # noqa: PLC0415

    rules = rules_of("-".join(args.finding.split("-")[:2]))
    options = options_of(args)
    if args.output == "-" and sys.stdout.isatty():
        raise UsageError("a capture is not for terminals: give a file with -o, or a pipe")
    with contextlib.ExitStack() as stack:
        inputs = repeatable(args.captures, stack)
        inspection = inspect(
            inputs, rules, options, watch=lambda reader: stack.enter_context(progress(reader, wanted=True))
        )
        finding = _found(inspection.findings, args.finding)
        wanted = packets_of(inputs, options, finding)
        with destination(args.output) as stream:
            packets = cut(inputs, wanted, stream)
    report(inspection.report)
    sys.stderr.write(f"uprscope: {packets:,} packets of {finding.id}: {finding.sentence}\n")
    return EXIT_DAMAGED if inspection.report.damage else 0


def _found(findings: list[Finding], name: str) -> Finding:
    for finding in findings:
        if finding.id == name:
            return finding
    rule = "-".join(name.split("-")[:2])
    others = [finding.id for finding in findings][:5]
    hint = f"of {rule} there is {', '.join(others)}" if others else f"nothing breaks {rule} here"
    raise UsageError(f"--finding {name}: not found ({hint})")
