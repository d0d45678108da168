"""``uprscope check``: captures against the protocol's invariants, with an explanation for every violation."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from typing import IO, TYPE_CHECKING

from dissector.terminal.style import Terminal, one_line
from uprscope.cli.annotate import annotated, check_target, refuse_input, tell
from uprscope.cli.connection_option import add_connection_argument, chosen_connection, needs_names
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.list_options import add_list_arguments, list_form, prose_width, refuse_list_options
from uprscope.cli.live import add_growing_argument
from uprscope.cli.output_options import add_target_arguments, choose_format, counted, tell_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from analysis.check.findings import Finding
    from analysis.check.inspection import Inspection
    from analysis.check.text_report import CheckSummary
    from analysis.rules import Rule
    from dissector.capture import Input
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions

FORMATS = ("text", "json", "ndjson", "csv", "parquet", "junit")
SEVERITIES = ("error", "warning", "info")
EXIT_VIOLATED = 1
_SHOWN = 5

_EPILOG = """\
examples:
  uprscope check capture.pcapng
  uprscope check ring/*.pcap.zst --severity error
  uprscope check capture.pcap --rules SEQ,SNP-04 --vbucket 17
  uprscope check capture.pcap --rules 'FLC-*,OPQ-1?'
  uprscope check capture.pcap --format json -o before.json
  uprscope check later.pcap --baseline before.json
  uprscope check capture.pcap --format junit -o check.xml
  uprscope check capture.pcap --annotate for-wireshark.pcapng
  tcpdump -U -w - port 11210 | uprscope check - --live
  uprscope explain SEQ-01

uprscope explain rules lists the rules. A rule is violated, holds, or is unknown
where the capture does not tell: bytes missing, set-up not captured.
With --live each finding is shown as soon as it is proven, until the input ends
or Ctrl-C ends it; the summary comes last.
exit status: 0 nothing violated or nothing to check, 1 violations, 2 unusable
input (no message of UPR or DCP in it) or usage, 3 the input was damaged, and
nothing in what is left is violated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_growing_argument(add_reading_arguments(parser))
    chosen = parser.add_argument_group("what to check")
    chosen.add_argument("--rules", metavar="A,B,...", help="these rules or groups only, such as SEQ-01,SNP or 'FLC-*'")
    chosen.add_argument(
        "--severity", choices=SEVERITIES, default="warning", help="findings at least this bad (default: warning)"
    )
    add_connection_argument(chosen, "this connection alone")
    chosen.add_argument("--vbucket", type=_number, metavar="N", help="this vbucket alone")
    chosen.add_argument(
        "--baseline",
        metavar="FILE",
        help="only findings that an earlier check did not write to this file, in any format",
    )
    chosen.add_argument("--strict", action="store_true", help="what could not be decided counts as a violation")
    shown = parser.add_argument_group("how to show it")
    add_list_arguments(shown, neighbours=False)
    add_target_arguments(shown, FORMATS)
    shown.add_argument("--all", action="store_true", help="list rules that hold, or had nothing to check, too")
    shown.add_argument(
        "--limit",
        type=_number,
        metavar="N",
        help=f"findings of a rule that are shown as text (default: {_SHOWN}, with --live all; 0: all)",
    )
    shown.add_argument(
        "--live", action="store_true", help="show each finding as soon as it is proven (--growing implies it)"
    )
    shown.add_argument(
        "--annotate",
        metavar="FILE",
        help="also write a copy of the captures as pcapng, with a comment on every packet that proves a finding",
    )
    shown.add_argument("--no-pager", action="store_true", help="do not page long text on a terminal")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 0 on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Check, and return the exit status."""
    from analysis.check.baseline import known_ids  # noqa: PLC0415
    from analysis.check.inspection import checkable, inspect  # noqa: PLC0415 - brings numpy and pyarrow along
    from analysis.check.selection import Selection, rules_of  # noqa: PLC0415
    from analysis.check.text_report import CheckSummary  # noqa: PLC0415
    from analysis.rules import Severity  # noqa: PLC0415
    from uprscope.cli.dissect import report  # noqa: PLC0415

    choose_format(args, FORMATS)
    if args.format != "text":
        refuse_list_options(args)
    if args.live or args.growing:
        from uprscope.cli.live_check import check_usage  # noqa: PLC0415

        check_usage(args)
    elif args.annotate is not None:
        check_target(args.annotate, args.output)
    rules = rules_of(args.rules)
    known = known_ids(args.baseline) if args.baseline is not None else frozenset()
    options = options_of(args)
    if args.live or args.growing:
        from uprscope.cli.live_check import run_live  # noqa: PLC0415

        return run_live(args, rules, options, known)
    with contextlib.ExitStack() as stack:
        again = args.format == "text" or args.annotate is not None or needs_names(args)
        inputs = found(args.captures, stack, twice=again, target=args.annotate, rows=args.annotate is None)
        asked, rules = rules, checkable(inputs, rules)
        connection = chosen_connection(args, inputs, options)
        selection = Selection(Severity(args.severity), connection, args.vbucket, known)
        with watching() as watch:
            inspection = inspect(inputs, rules, options, selection=selection, watch=watch)
        require_messages(inspection, inputs)
        copied = None
        if args.annotate is not None:  # before the report: a pager that is left early ends the command
            with watching() as watch:
                copied = annotated(args.annotate, inputs, options, inspection.findings, watch)
        summary = CheckSummary(inspection, rules, selection)
        _write(args, inspection, rules, summary, inputs, options)
    tell_written(args.output, counted(len(inspection.findings), "finding"))
    report(inspection.report)
    if copied is not None:
        tell(args.annotate, copied)
    tell_left_out(asked, rules, inputs)
    if inspection.left_out:
        terminal = Terminal.of(sys.stderr)
        line = f"limit reached: {inspection.left_out:,} more violations are counted, but not listed"
        sys.stderr.write(f"{terminal.warning('uprscope:')} {one_line(line)}\n")
    return status_of(args, inspection, summary)


def tell_left_out(asked: Sequence[Rule], rules: Sequence[Rule], inputs: Sequence[Input]) -> None:
    """Say on stderr which rules could not be checked."""
    from analysis.check.inspection import NOT_INSPECTED  # noqa: PLC0415 - brings numpy and pyarrow along

    if len(rules) < len(asked):
        left_out = ", ".join(rule.id for rule in asked if rule not in rules)
        line = f"{left_out} is left out: {inputs[0].name} {NOT_INSPECTED}"
        sys.stderr.write(f"{Terminal.of(sys.stderr).warning('uprscope:')} {one_line(line)}\n")


def status_of(args: argparse.Namespace, inspection: Inspection, summary: CheckSummary) -> int:
    """Return the exit status."""
    if not inspection.clean or (args.strict and summary.undecided()):
        return EXIT_VIOLATED
    return EXIT_DAMAGED if inspection.report.damage else 0


def require_messages(inspection: Inspection, inputs: Sequence[Input]) -> None:
    """Raise InputError, before anything is written, if there is no message of UPR or DCP, and nothing else is wrong."""
    from analysis.check.inspection import CheckVerdict  # noqa: PLC0415 - as above
    from dissector.errors import InputError  # noqa: PLC0415

    if inspection.verdict is not CheckVerdict.NO_MESSAGES:
        return
    name = inputs[0].name if len(inputs) == 1 else f"{len(inputs)} captures"
    damage = "".join(f"; {each}" for each in inspection.report.damage[:1])
    raise InputError(f"{name}: no message of UPR or DCP to check; seen instead: {inspection.seen_instead}{damage}")


@contextlib.contextmanager
def watching() -> Iterator[Callable[[BatchReader], Callable[[], None]]]:
    """Yield a function that shows how far a reader has come; the bar leaves the terminal at the end of the block."""
    from dissector.terminal.progress import progress  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        yield lambda reader: stack.enter_context(progress(reader, wanted=True))


def found(
    names: Sequence[str],
    stack: contextlib.ExitStack,
    *,
    twice: bool,
    target: str | None = None,
    rows: bool = False,
) -> list[Input]:
    """Return the inputs. A pipe that is to be read ``twice`` is copied to a temporary file, until ``stack`` closes.

    ``target`` is a file to be written: it must be none of the inputs. ``rows``: files of rows will do, too.
    """
    from dissector.capture import expand  # noqa: PLC0415

    inputs = expand(names, rows=rows)
    if target is not None:
        refuse_input(target, inputs)
    if not twice or not any(each.once for each in inputs):
        return inputs
    from dissector.capture.input import spooled  # noqa: PLC0415 - pipes only

    return [stack.enter_context(spooled(each)) if each.once else each for each in inputs]


def _write(
    args: argparse.Namespace,
    inspection: Inspection,
    rules: Sequence[Rule],
    summary: CheckSummary,
    inputs: list[Input],
    options: ReadOptions,
) -> None:
    from analysis.check.export import write  # noqa: PLC0415
    from dissector.frames.writers import destination  # noqa: PLC0415
    from dissector.terminal.pager import paged  # noqa: PLC0415

    if args.format != "text":
        with destination(args.output) as stream:
            write(args.format, stream, inspection, rules)
        return
    from analysis.check import text_report  # noqa: PLC0415
    from analysis.check.transcript import read  # noqa: PLC0415

    shown, hidden = _shown(inspection.findings, _SHOWN if args.limit is None else args.limit)
    with watching() as watch:
        transcript = read(inputs, options, shown, watch)
    to_stdout = args.output in (None, "-")
    terminal = Terminal.of(sys.stdout, args.color) if to_stdout else Terminal(color=args.color == "always")
    terminal = dataclasses.replace(terminal, width=prose_width(args, terminal.width))
    encoding = sys.stdout.encoding if to_stdout else "utf-8"
    wanted = to_stdout and not args.no_pager
    form = list_form(args, paged=wanted)
    with paged(wanted=wanted, sideways=not args.wrap) if to_stdout else destination(args.output) as stream:
        print_lines(stream, terminal, encoding, summary.lines(terminal, everything=args.all))
        print_lines(stream, terminal, encoding, text_report.findings(shown, transcript, terminal, hidden, form))
        closing = terminal.wrap(summary.closing(strict=args.strict))
        print_lines(stream, terminal, encoding, ["", *(terminal.heading(line) for line in closing)])


def print_lines(stream: IO[bytes], terminal: Terminal, encoding: str, lines: Iterable[str]) -> None:
    """Write lines as the terminal can show them."""
    for line in lines:
        stream.write(f"{terminal.encode(line)}\n".encode(encoding, "backslashreplace"))


def _shown(findings: Sequence[Finding], limit: int) -> tuple[list[Finding], dict[str, int]]:
    """Return the findings to show, and for each rule how many more there are."""
    shown: list[Finding] = []
    counts: dict[str, int] = {}
    hidden: dict[str, int] = {}
    for finding in findings:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
        if limit == 0 or counts[finding.rule] <= limit:
            shown.append(finding)
        else:
            hidden[finding.rule] = hidden.get(finding.rule, 0) + 1
    return shown, hidden
