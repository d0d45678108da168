"""``uprscope report``: everything about captures as one page."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shlex
import sys
from typing import TYPE_CHECKING

from dissector import __version__
from dissector.errors import UsageError
from dissector.extras import install_command
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.output_options import counted, known_ending, tell_written

if TYPE_CHECKING:
    from analysis.check.findings import Finding
    from analysis.plots.frame_source import FrameSource
    from analysis.report.collect import ReportData

SEVERITIES = ("error", "warning", "info")
_SHOWN = 20

_EPILOG = """\
examples:
  uprscope report capture.pcapng -o report.html
  uprscope report ring/*.pcap.zst -o report.html --severity error
  uprscope report frames.parquet -o report.html
  uprscope report --archive out/ -o report.html

The page is one file: it fetches nothing, its script is only there for sorting,
filtering and zooming, and what a capture contains is shown, never run. The same
input gives the same bytes. Needs Jinja2, and matplotlib for pictures.
exit status: 0 done, whatever was found; 2 unusable input or usage; 3 the input
was damaged, and the page tells of what is left."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser, optional=True)
    wanted = parser.add_argument_group("what to tell")
    wanted.add_argument("--archive", metavar="DIR", help="read frames/ and findings/ of this directory (Parquet)")
    wanted.add_argument(
        "--severity",
        choices=SEVERITIES,
        default="info",
        help="findings at least this bad (default: info, which is all)",
    )
    wanted.add_argument(
        "--limit", type=_number, default=_SHOWN, metavar="N", help=f"findings of a rule (default: {_SHOWN}; 0: all)"
    )
    wanted.add_argument("--no-pictures", action="store_true", help="tables and text only")
    wanted.add_argument("-o", "--output", required=True, metavar="FILE", help="write the page to this file")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 0 on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Read, write the page, and return the exit status."""
    from dissector.frames.writers import destination  # noqa: PLC0415 - brings numpy and pyarrow along
    from uprscope.cli.dissect import report  # noqa: PLC0415

    if bool(args.captures) == (args.archive is not None):
        raise UsageError("give captures, or --archive with a directory, not both (try uprscope report --help)")
    if args.output == "-" and sys.stdout.isatty():
        raise UsageError("a page is not for terminals: give a file with -o, or a pipe")
    known_ending(args.output, "-o", ("html", "htm"))
    _require(pictures=not args.no_pictures)
    from analysis.report.page import page  # noqa: PLC0415 - needs Jinja2

    with contextlib.ExitStack() as stack:
        source, archived = _source(args, stack)
        data = _collect(args, source, archived)
        html = page(data, _provenance(args), drawn=not args.no_pictures)
        with destination(args.output) as stream:
            stream.write(html.encode("utf-8", "backslashreplace"))
    there = counted(data.inspection.frames, "frame")
    tell_written(args.output, f"{there}, {counted(len(data.inspection.findings), 'finding')}")
    report(data.inspection.report)
    return EXIT_DAMAGED if data.inspection.report.damage else 0


def _require(*, pictures: bool) -> None:
    """Raise UsageError if a package of the extra ``report`` is not installed."""
    if importlib.util.find_spec("jinja2") is None:
        hint = install_command("jinja2", *(["matplotlib"] if pictures else []))
        raise UsageError(f"a report needs Jinja2, which is not here: {hint}")
    if pictures:
        from analysis.plots import theme  # noqa: PLC0415

        theme.require_matplotlib()


def _source(args: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[FrameSource, list[Finding] | None]:
    from analysis.plots.frame_source import source_of  # noqa: PLC0415
    from analysis.report.archive_source import open_archive  # noqa: PLC0415

    options = options_of(args)
    if args.archive is not None:
        return open_archive(args.archive, options)
    return source_of(args.captures, options, stack, twice=True), None


def _collect(args: argparse.Namespace, source: FrameSource, archived: list[Finding] | None) -> ReportData:
    from analysis import plots  # noqa: PLC0415
    from analysis.check.selection import Selection  # noqa: PLC0415
    from analysis.report.collect import collect  # noqa: PLC0415
    from analysis.rules import Severity  # noqa: PLC0415
    from dissector.terminal.progress import progress  # noqa: PLC0415

    selection = Selection(Severity(args.severity))
    if archived is not None:
        archived = [finding for finding in archived if finding.severity.rank <= selection.severity.rank]
    with contextlib.ExitStack() as watched:
        return collect(
            source,
            () if args.no_pictures else plots.KINDS,
            selection,
            limit=args.limit,
            given_findings=archived,
            watch=lambda reader: watched.enter_context(progress(reader, wanted=True)),
        )


def _provenance(args: argparse.Namespace) -> list[tuple[str, str]]:
    read = ["--archive", args.archive] if args.archive is not None else list(args.captures)
    command = ["uprscope", "report", *read, "-o", args.output, "--severity", args.severity, "--limit", str(args.limit)]
    command += [
        f"--{name.replace('_', '-')}" for name in ("redact", "redact_names", "redact_addresses") if getattr(args, name)
    ]
    return [("by", f"uprscope {__version__}"), ("with", shlex.join(command))]
