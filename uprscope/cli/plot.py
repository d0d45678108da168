"""``uprscope plot``: a picture of captures."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from analysis import plots
from dissector.errors import UsageError
from uprscope.cli.connection_option import add_connection_argument, chosen_connection, needs_names
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of
from uprscope.cli.output_options import tell_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from analysis.check.checker import Checker
    from analysis.check.findings import Finding
    from analysis.plots.figure import FigureContext
    from analysis.plots.figure_set import FigureSet
    from analysis.plots.frame_source import FrameSource

FORMATS = ("png", "svg", "pdf")
_MOST_NAMES = 2
_LADDER_FRAMES = 40  #: drawn, unless --frames says which

_KINDS = "\n".join(f"  {kind.name:9} {kind.help}" for kind in (*plots.KINDS, plots.LADDER))
_EPILOG = f"""\
kinds:
{_KINDS}

examples:
  uprscope plot capture.pcapng seqno -o seqno.png
  uprscope plot ring/*.pcap.zst rates -o rates.svg --dark
  uprscope plot big.pcap seqno --connection 1 --vbucket 17 -o vbucket-17.png
  uprscope plot capture.pcap ladder --frames 10-40 -o ladder.svg
  uprscope plot capture.pcap ladder --finding SEQ-01-06a74178 -o finding.svg
  uprscope plot frames.parquet heatmap -o heatmap.pdf

A capture may be a Parquet file that uprscope dissect --format parquet has
written. The same capture gives the same bytes. Needs matplotlib.
exit status: 0 done, 2 unusable input or usage, or nothing to draw, 3 the input
was damaged, and the picture shows what is left."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser)
    parser.add_argument("kind", choices=plots.NAMES, metavar="KIND", help="what to draw: see below")
    shown = parser.add_argument_group("what to show")
    add_connection_argument(shown, "only this connection")
    shown.add_argument("--vbucket", type=_vbucket, metavar="N", help="only this vbucket")
    shown.add_argument("--time", metavar="A-B", help="from so many seconds on to so many, since the first frame: 0-2.5")
    shown.add_argument(
        "--frames",
        metavar="A-B",
        help="ladder: from this frame to that one (default: the first 40)",
    )
    shown.add_argument("--finding", metavar="ID", help="ladder: around this finding of uprscope check")
    shown.add_argument("--no-findings", action="store_true", help="seqno, flow: check no rules, mark nothing (faster)")
    form = parser.add_argument_group("how to show it")
    form.add_argument("-o", "--output", required=True, metavar="FILE", help="write to this .png, .svg or .pdf file")
    form.add_argument("--format", choices=FORMATS, help="form of the picture (default: by the file's name)")
    form.add_argument("--dark", action="store_true", help="light on dark")


def _vbucket(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 0xFFFF:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a vbucket (0 to 65535)")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Draw, and return the exit status."""
    from analysis.plots import theme  # noqa: PLC0415 - brings numpy and pyarrow along
    from analysis.plots.figure import FigureContext  # noqa: PLC0415
    from analysis.plots.figure_set import require_content  # noqa: PLC0415
    from analysis.plots.frame_source import source_of  # noqa: PLC0415
    from dissector.frames.writers import destination  # noqa: PLC0415
    from uprscope.cli.dissect import report  # noqa: PLC0415

    ladder = args.kind == plots.LADDER.name
    _check_usage(args, ladder=ladder)
    if args.output == "-" and args.format is None:
        raise UsageError("-o - does not say which format: add --format png, svg or pdf")
    form = theme.format_of(args.output, args.format)
    if args.output == "-" and sys.stdout.isatty():
        raise UsageError("a picture is not for terminals: give a file with -o, or a pipe")
    theme.require_matplotlib()
    with contextlib.ExitStack() as stack:
        options = options_of(args)
        source = source_of(args.captures, options, stack, twice=ladder or needs_names(args))
        args.connection = chosen_connection(args, source.inputs, options)
        figures = _figures(args, source, ladder=ladder)
        colours = theme.DARK if args.dark else theme.LIGHT
        context = FigureContext(colours, figures.names, _short_names(source.names), figures.findings, figures.start_ns)
        with theme.drawing(colours):
            if ladder:
                figure = _ladder(args, source, figures, context)
            else:
                plot = figures.plots[args.kind]
                require_content(plot.why_empty(), args.kind)
                figure = plot.draw(context)
            with destination(args.output) as stream:
                theme.save(figure, stream, form)
    tell_written(args.output, f"{args.kind} of {_short_names(source.names)}")
    report(figures.report)
    return EXIT_DAMAGED if figures.report.damage else 0


def _check_usage(args: argparse.Namespace, *, ladder: bool) -> None:
    if not ladder and (args.frames is not None or args.finding is not None):
        raise UsageError(f"--frames and --finding are for ladder: they do not go with {args.kind}")
    if ladder and args.frames is not None and args.finding is not None:
        raise UsageError("--frames and --finding: give one of them")
    for name in ("time", "vbucket"):
        if getattr(args, name) is not None and name not in plots.kind_of(args.kind).selections:
            raise UsageError(f"--{name} does not go with {args.kind}, which needs everything that a connection said")
    if args.frames is not None:
        _frame_range(args.frames)


def _frame_range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in (first, last or first)):
        raise UsageError(f"--frames {text[:40]}: give two numbers of frames, such as 10-40")
    begin, end = int(first), int(last) if dash else int(first)
    if not 1 <= begin <= end:
        raise UsageError(f"--frames {text[:40]}: frames count from 1, and the first number is not above the second")
    return begin, end


def _time_range(text: str) -> tuple[int, int]:
    """Return the begin and end of ``--time``, in nanoseconds."""
    parts = text.split("-")
    try:
        begin, end = (int(float(part) * 10**9) for part in parts)
    except (ValueError, OverflowError):
        begin, end = 1, 0
    if not 0 <= begin < end < 1 << 62:
        raise UsageError(f"--time {text[:40]}: give two numbers of seconds, such as 0-2.5")
    return begin, end


def _figures(args: argparse.Namespace, source: FrameSource, *, ladder: bool) -> FigureSet:
    from analysis.plots.figure_set import FigureSet  # noqa: PLC0415
    from dissector.terminal.progress import progress  # noqa: PLC0415

    kind = plots.kind_of(args.kind)
    checked = (kind.marks_findings and not args.no_findings) or args.finding is not None
    figures = FigureSet([] if ladder else [kind], _checker(args.finding) if checked else None)
    begin, end = _time_range(args.time) if args.time is not None else (0, None)
    figures.select(args.connection, args.vbucket, begin, end)
    with contextlib.ExitStack() as watched:
        figures.read(source, lambda reader: watched.enter_context(progress(reader, wanted=True)))
    return figures


def _checker(finding: str | None) -> Checker:
    from analysis.check.checker import Checker as Made  # noqa: PLC0415
    from analysis.check.selection import rules_of  # noqa: PLC0415
    from analysis.rules import RULES  # noqa: PLC0415

    return Made(RULES if finding is None else rules_of("-".join(finding.split("-")[:2]), "--finding"))


def _ladder(args: argparse.Namespace, source: FrameSource, figures: FigureSet, context: FigureContext) -> Figure:
    from analysis.check.transcript import around, numbered  # noqa: PLC0415
    from analysis.plots.figure_set import connection_id, require_content  # noqa: PLC0415
    from analysis.plots.ladder import Ladder  # noqa: PLC0415

    if args.finding is not None:
        finding = _find(figures.findings, args.finding)
        transcript = around(source.open(), [finding], before=10, after=6)
        drawn = Ladder(transcript, transcript.of(finding), finding)
    else:
        first, last = _frame_range(args.frames) if args.frames is not None else (1, sys.maxsize)
        most = _LADDER_FRAMES if args.frames is None else None
        transcript = numbered(source.open(), first, last, connection_id(figures.names, args.connection), most)
        drawn = Ladder(transcript, [transcript.rows[number] for number in sorted(transcript.rows)])
    require_content(drawn.why_empty(), "ladder")
    return drawn.draw(context)


def _find(findings: Sequence[Finding], name: str) -> Finding:
    for finding in findings:
        if finding.id == name:
            return finding
    others = ", ".join(finding.id for finding in findings[:5])
    hint = f"there is {others}" if others else "nothing breaks its rule here"
    raise UsageError(f"--finding {name}: not found ({hint})")


def _short_names(names: list[str]) -> str:
    """Return the names of the first files, and how many more were read."""
    from pathlib import Path  # noqa: PLC0415

    short = [Path(name).name for name in names]
    more = len(short) - _MOST_NAMES
    return ", ".join(short[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
