"""``uprscope archive``: captures of any amount to Parquet tables, with Spark; a further run adds what is new."""

from __future__ import annotations

import contextlib
import sys
from typing import IO, TYPE_CHECKING

from dissector.errors import InputError, UsageError
from dissector.terminal.style import Terminal, one_line
from uprscope.cli.input_options import EXIT_DAMAGED, add_reading_arguments, options_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from analysis.archive.job import Outcome
    from analysis.archive.summary_text import ArchiveSummary

SEVERITIES = ("error", "warning", "info")
EXIT_VIOLATED = 1
_STDERR_BYTES = 4096

_EPILOG = """\
examples:
  uprscope archive captures/ -o archive/
  uprscope archive s3://traces/rings/ -o archive/
  uprscope archive '/rings/*/' -o archive/ --master 'local[8]' --conf spark.driver.memory=8g
  uprscope archive captures/ -o archive/ --conf spark.log.level=INFO
  uprscope archive --make-zip uprscope.zip
  spark-submit --py-files uprscope.zip uprscope_archive.py /rings -o /archive

A directory is a ring: connections go on from one of its files to the next. A
further run over the same folder reads only rings with new or changed files.
uprscope explain archive describes the tables and what can be asked.
exit status: 0 nothing violated, 1 violations, 2 unusable input or usage, 3 files
were left out or damaged, and nothing in what is left is violated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_reading_arguments(parser, redaction=False)
    for action in parser._actions:  # captures are wanted, but not by --make-zip
        if action.dest == "captures":
            action.nargs, action.help = "*", "file, directory, pattern or address (s3://...)"
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the tables are, or will be")
    parser.add_argument(
        "--severity", choices=SEVERITIES, default="warning", help="what counts for the exit status (default: warning)"
    )
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", default="local[*]", help="where to run (default: local[*]); not under spark-submit")
    spark.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; may be repeated"
    )
    spark.add_argument("--make-zip", metavar="FILE", help="write what spark-submit needs, and do nothing else")


def run(args: argparse.Namespace) -> int:
    """Bring an archive up to date, and return the exit status."""
    if args.make_zip is not None:
        return _make_zip(args)
    if not args.captures:
        raise UsageError("no captures given (try uprscope archive --help)")
    if args.output is None:
        raise UsageError("-o is missing: the folder that the tables go to")
    if "-" in args.captures:
        raise UsageError("standard input can't be read by several tasks: give files")
    from pathlib import Path  # noqa: PLC0415

    from analysis.archive.rings import find_captures  # noqa: PLC0415
    from analysis.spark import interrupts, log4j  # noqa: PLC0415
    from analysis.spark.session import spark_session  # noqa: PLC0415
    from analysis.spark.storage import display_name, local_path  # noqa: PLC0415

    options, conf = options_of(args), dict(_setting(text) for text in args.conf)
    folder = local_path(args.output)
    if folder is None:
        name = display_name(args.output)
        raise UsageError(f"{name}: the tables go to a folder that this machine and all workers see, local or mounted")
    if args.master.startswith("sc://"):
        raise UsageError("--master sc://...: a client of Spark Connect can't deal out tasks; use spark-submit there")
    archive = Path(folder)
    if archive.exists() and not archive.is_dir():
        raise UsageError(f"{args.output}: is no folder")
    find_captures(args.captures, without=archive)  # mistakes are reported before Spark starts
    verbose = log4j.LOG_LEVEL in conf
    interrupts.silence_root_logger()
    with (
        interrupts.delay_interrupt(),
        contextlib.nullcontext() if verbose else log4j.capture_stderr() as stderr,
        _spark_errors("Spark does not start", stderr),
    ):
        spark = spark_session(args.master, conf, log_level="OFF")

    from analysis.archive.job import run as update_archive  # noqa: PLC0415
    from analysis.archive.summary_text import archive_summary  # noqa: PLC0415
    from analysis.rules.model import Severity  # noqa: PLC0415

    with _spark_errors("Spark failed"):
        outcome = update_archive(spark, archive, args.captures, options, separate=args.separate)
        summary = archive_summary(spark, outcome.archive)
    _print_summary(args, outcome, summary)
    if summary.violations(Severity(args.severity)):
        return EXIT_VIOLATED
    return EXIT_DAMAGED if summary.quarantine else 0


@contextlib.contextmanager
def _spark_errors(what: str, stderr: IO[bytes] | None = None) -> Iterator[None]:
    """Turn an exception of Spark into one line. ``stderr`` is what a JVM that failed to start has written."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        from analysis.spark import interrupts  # noqa: PLC0415
        from analysis.spark.log4j import LOG_LEVEL, failure_reason  # noqa: PLC0415

        if interrupts.caused_by_interrupt(error):
            raise KeyboardInterrupt from error

        written = b""
        if stderr is not None:
            stderr.seek(0)
            written = stderr.read(_STDERR_BYTES)
        raise InputError(f"{what}: {failure_reason(error, written)} (--conf {LOG_LEVEL}=ERROR shows more)") from error


def _print_summary(args: argparse.Namespace, outcome: Outcome, summary: ArchiveSummary) -> None:
    from analysis.archive.summary_text import summary_lines, warning_lines  # noqa: PLC0415

    terminal = Terminal.of(sys.stdout, args.color)
    for line in summary_lines(outcome, summary, terminal):
        sys.stdout.write(f"{line}\n")
    errors = Terminal.of(sys.stderr)
    for note in warning_lines(outcome, summary):
        sys.stderr.write(f"{errors.warning('uprscope:')} {errors.encode(one_line(note))}\n")


def _make_zip(args: argparse.Namespace) -> int:
    from uprscope.submit_zip import make_zip  # noqa: PLC0415

    script = make_zip(args.make_zip)
    sys.stdout.write(f"spark-submit --py-files {args.make_zip} {script} CAPTURES -o FOLDER\n")
    return 0


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UsageError(f"--conf {text}: expected NAME=VALUE")
    return name, value
