"""``--annotate`` of ``uprscope check``: checks where the copy may go, writes it, and says what is in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dissector.errors import UsageError
from dissector.terminal.style import Terminal, one_line, safe_text
from uprscope.cli.output_options import STANDARD_OUTPUT, counted, known_ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from analysis.annotate.capture_copy import CopyResult
    from analysis.check.findings import Finding
    from dissector.capture import Input
    from dissector.frames.sources import BatchReader
    from dissector.options import ReadOptions


def check_target(target: str, report: str | None) -> None:
    """Refuse a target that cannot be written, before anything is read; ``report`` is where the report goes."""
    known_ending(target, "--annotate", ("pcapng",))
    if target == STANDARD_OUTPUT:
        if report in (None, STANDARD_OUTPUT):
            raise UsageError("--annotate -: the report goes to standard output: give it a file with -o")
        if sys.stdout.isatty():
            raise UsageError("--annotate -: a capture is not for terminals: give a file, or a pipe")
    elif Path(target).is_dir():
        raise UsageError(f"--annotate {target}: is a directory (give the name of a file)")
    elif report not in (None, STANDARD_OUTPUT) and os.path.realpath(target) == os.path.realpath(report):
        raise UsageError(f"--annotate {target}: the report goes to this file (-o): give another one")


def refuse_input(target: str, inputs: Sequence[Input], option: str = "--annotate", use: str = "check") -> None:
    """Refuse a target that is one of the inputs, be it under another name."""
    if target == STANDARD_OUTPUT:
        return
    there = _identity(Path(target))
    if there is not None and any(_identity(each.path) == there for each in inputs):
        raise UsageError(f"{option} {target}: is one of the captures to {use}: give another file")


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Return the file's device and inode, None if there is no such file; a path of None is standard input."""
    try:
        found = os.fstat(0) if path is None else path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def annotated(
    target: str,
    inputs: Sequence[Input],
    options: ReadOptions,
    findings: Sequence[Finding],
    watch: Callable[[BatchReader], Callable[[], None]],
) -> CopyResult:
    """Write the copy; ``inputs`` can be read more than once."""
    from analysis.annotate.capture_copy import copy  # noqa: PLC0415
    from analysis.annotate.packet_comments import comments_for  # noqa: PLC0415 - brings numpy and pyarrow along
    from dissector.capture import order_by_time  # noqa: PLC0415
    from dissector.frames.writers import destination  # noqa: PLC0415

    ordered = list(inputs) if options.separate else order_by_time(inputs)
    comments = comments_for(ordered, options, findings, watch)
    with destination(target) as stream, _rewritable(stream) as output:
        return copy(ordered, comments, output)


@contextlib.contextmanager
def _rewritable(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield a seekable file: the stream itself or, for pipes and stdout, a temporary file that is copied to it."""
    if stream is not sys.stdout.buffer and stream.seekable():
        yield stream
        return
    with tempfile.TemporaryFile(prefix="uprscope-") as whole:
        yield whole
        whole.seek(0)
        shutil.copyfileobj(whole, stream)


def tell(target: str, copied: CopyResult) -> None:
    """Say what is in the copy, and what is not."""
    name = "standard output" if target == STANDARD_OUTPUT else safe_text(target)
    wrote = "" if target == STANDARD_OUTPUT else "wrote "
    what = f"{copied.commented:,} of {counted(copied.packets, 'packet')} {'has' if copied.commented == 1 else 'have'}"
    hint = '; in Wireshark: frame.comment contains "uprscope"' if copied.commented else ""
    sys.stderr.write(f"uprscope: {wrote}{name}: {what} comments{hint}\n")
    if copied.removed:
        _warn(f"{name}: {counted(copied.removed, 'comment')} of an earlier check left out")
    if copied.passed_over:
        _warn(f"{name}: {counted(copied.passed_over, 'block')} of more than 256 MiB left out")
    if copied.left_out:
        _warn(f"{name}: {counted(copied.left_out, 'comment')} left out, on packets that have too many")


def _warn(line: str) -> None:
    sys.stderr.write(f"{Terminal.of(sys.stderr).warning('uprscope:')} {one_line(line)}\n")
