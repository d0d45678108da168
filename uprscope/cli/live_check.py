"""``uprscope check --live``: findings as they are proven, and the summary when the input ends or the user ends it."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from typing import IO, TYPE_CHECKING

from dissector.terminal.style import Terminal
from uprscope.cli.connection_option import NameOnPipe, needs_names
from uprscope.cli.list_options import list_form
from uprscope.cli.live import found_inputs, prompt, stoppable, tell_begin, tell_end
from uprscope.cli.output_options import counted, tell_written

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from analysis.check.findings import Finding
    from analysis.check.live import LiveChecker
    from analysis.check.text_report import CheckSummary
    from analysis.rules import Rule
    from dissector.options import ReadOptions

_FORMATS = ("text", "ndjson")
_NO_CONNECTION = "0" * 16  #: the id of none, until the name that was asked for comes up


def check_usage(args: argparse.Namespace) -> None:
    """Raise UsageError for what does not go together with findings that are shown as they come."""
    from dissector.errors import UsageError  # noqa: PLC0415

    option = "--live" if args.live else "--growing"
    if args.format not in _FORMATS:
        raise UsageError(f"{option} shows findings one by one: as text or ndjson, not as {args.format}")
    if args.annotate is not None:
        raise UsageError(f"{option} can't go back to write a copy of the capture: leave out --annotate")


def run_live(args: argparse.Namespace, asked: Sequence[Rule], options: ReadOptions, known: frozenset[str]) -> int:
    """Check what comes, and return the exit status."""
    from analysis.check.inspection import checkable, for_rules  # noqa: PLC0415 - brings numpy and pyarrow along
    from analysis.check.live import LiveChecker  # noqa: PLC0415
    from analysis.check.selection import Selection  # noqa: PLC0415
    from analysis.check.text_report import CheckSummary  # noqa: PLC0415
    from analysis.rules import Severity  # noqa: PLC0415
    from dissector.frames.sources import open_frames  # noqa: PLC0415
    from dissector.frames.writers import destination  # noqa: PLC0415
    from uprscope.cli.check import require_messages, status_of, tell_left_out  # noqa: PLC0415
    from uprscope.cli.dissect import report  # noqa: PLC0415

    inputs = found_inputs(args.captures, growing=args.growing, rows=True)
    rules = checkable(inputs, asked)
    named = NameOnPipe(args.connection) if needs_names(args) else None
    wanted = _NO_CONNECTION if named is not None else args.connection
    selection = Selection(Severity(args.severity), wanted, args.vbucket, known)
    checker = LiveChecker(rules, selection=selection)
    with stoppable(inputs), destination(args.output) as stream:
        writer = _FindingWriter(prompt(stream, wanted=True), args, checker)
        reader = open_frames(
            inputs,
            dataclasses.replace(for_rules(options), live=True),
            ended=named.end if named is not None else None,
            over=lambda connection: writer.write(checker.end(connection.id)),
            whole=True,
        )
        tell_begin(inputs)
        for batch in reader:
            if named is not None and (name := named.found_in(batch)):
                checker.follow(name)
                selection = dataclasses.replace(selection, connection=name)
            writer.write(checker.fold(batch))
        if named is not None:
            named.finish()
        found, inspection = checker.finish(reader.report)
        writer.write(found)
        require_messages(inspection, inputs)
        summary = CheckSummary(inspection, rules, selection)
        writer.close(summary)
    tell_written(args.output, counted(len(inspection.findings), "finding"))
    tell_end(inputs, reader.report)
    report(inspection.report)
    tell_left_out(asked, rules, inputs)
    return status_of(args, inspection, summary)


class _FindingWriter:
    """Writes findings as they come: for people with the frames around them, for programs a line each."""

    def __init__(self, stream: IO[bytes], args: argparse.Namespace, checker: LiveChecker) -> None:
        self._stream, self._args, self._checker = stream, args, checker
        to_stdout = args.output in (None, "-")
        self._terminal = Terminal.of(sys.stdout, args.color) if to_stdout else Terminal(color=args.color == "always")
        self._encoding = sys.stdout.encoding if to_stdout else "utf-8"
        self._form = list_form(args, paged=False)
        self._shown: Counter[str] = Counter()  #: findings by rule

    def write(self, findings: Sequence[Finding]) -> None:
        """Write findings that are proven by what came last."""
        if not findings:
            return
        findings = sorted(findings, key=lambda each: each.guilty.frame)
        if self._args.format == "ndjson":
            from analysis.check.export import ndjson  # noqa: PLC0415

            self._stream.write(b"".join(map(ndjson, findings)))
        else:
            self._print(self._texts(findings))

    def close(self, summary: CheckSummary) -> None:
        """Write the end of the output: for people, the summary of everything."""
        if self._args.format == "text":
            closing = self._terminal.wrap(summary.closing(strict=self._args.strict, beyond="told, but not kept"))
            self._print(["", *summary.lines(self._terminal, everything=self._args.all)])
            self._print(["", *(self._terminal.heading(line) for line in closing)])

    def _texts(self, findings: Sequence[Finding]) -> Iterator[str]:
        from analysis.check import text_report  # noqa: PLC0415 - takes a while to load

        transcript = self._checker.transcript_of(findings)
        for finding in findings:
            rule, before = finding.rule, self._shown[finding.rule]
            self._shown[rule] += 1
            if not self._args.limit or before < self._args.limit:
                yield from text_report.findings(
                    [finding], transcript, self._terminal, form=self._form, explained={rule} if before else ()
                )
            elif before == self._args.limit:
                yield ""
                yield self._terminal.dim(f"{rule}: --limit {before} is reached, more are only counted")

    def _print(self, lines: Iterable[str]) -> None:
        from uprscope.cli.check import print_lines  # noqa: PLC0415 - it is there already

        print_lines(self._stream, self._terminal, self._encoding, lines)
