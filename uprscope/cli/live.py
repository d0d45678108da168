"""Inputs that are still being written, on the command line: the option for files that grow, and Ctrl-C as their end.

A pipe is live by nature. The first SIGINT or SIGTERM ends the reading, and the command goes on to its end as if the
input had ended there; the next one does what it always does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import stat
import sys
import threading
from typing import IO, TYPE_CHECKING, Any, cast

from dissector.terminal.style import Terminal, one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from dissector.capture import Input
    from dissector.options import ReadReport

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def add_growing_argument(group: argparse._ArgumentGroup) -> None:
    """Declare the option for a file that is being written."""
    group.add_argument(
        "--growing",
        action="store_true",
        help="the capture is still being written: wait for more at its end, until Ctrl-C",
    )


def found_inputs(names: Sequence[str], *, growing: bool, rows: bool = False) -> list[Input]:
    """Return the captures that the arguments stand for. What is live, and the only one, can be stopped."""
    from dissector.capture import expand  # noqa: PLC0415 - brings numpy along
    from dissector.capture.live import Stop  # noqa: PLC0415

    inputs = [_growing(names)] if growing else expand(names, rows=rows)
    if len(inputs) == 1 and inputs[0].live:
        return [dataclasses.replace(inputs[0], stop=Stop())]
    return inputs


def _growing(names: Sequence[str]) -> Input:
    """Return the one file that is to be waited for; it may be empty yet."""
    from dissector.capture import Input, magic  # noqa: PLC0415
    from dissector.capture.input import STANDARD_INPUT, unusable  # noqa: PLC0415
    from dissector.errors import UsageError  # noqa: PLC0415

    if len(names) != 1:
        raise UsageError("--growing: give one capture, the one that is being written")
    if names[0] == STANDARD_INPUT:
        raise UsageError("--growing is for files: standard input (-) is read as it comes")
    found = Input.of(names[0])
    try:
        with open(names[0], "rb") as stream:  # noqa: PTH123 - one error for all that is wrong
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            kind = magic.row_format(stream.read(magic.HEAD_BYTES)) if regular else None
    except OSError as error:
        raise unusable(names[0], error) from error
    if not regular:
        raise UsageError(f"--growing is for files: {names[0]} is read as it comes")
    if kind is not None:
        raise UsageError(f"--growing is for captures: {names[0]} holds frames as rows ({kind})")
    return dataclasses.replace(found, growing=True)


def are_live(inputs: Sequence[Input]) -> bool:
    """Tell whether bytes come while they are read."""
    return any(each.live for each in inputs)


@contextlib.contextmanager
def stoppable(inputs: Sequence[Input]) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM end the reading of an input that can be stopped, until the end of the block."""
    stop = inputs[0].stop if inputs else None
    if stop is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    # Who started us may have had a signal ignored, as nohup and & in scripts do.
    before = {each: signal.getsignal(each) for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN}

    def end(number: int, frame: object) -> None:
        del number, frame
        stop.ask()
        restore()

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    try:
        for each in before:
            signal.signal(each, end)
        yield
    finally:
        restore()
        stop.close()


class _Prompt:
    """A stream that keeps nothing back: everything written is flushed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        """Write, and flush."""
        count = self._stream.write(data)
        self._stream.flush()
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prompt(stream: IO[bytes], *, wanted: bool) -> IO[bytes]:
    """Return a stream that flushes everything at once, where that is wanted."""
    return cast("IO[bytes]", _Prompt(stream)) if wanted else stream


def tell_begin(inputs: Sequence[Input]) -> None:
    """Tell a user at a terminal, who may see nothing for long, that all is well."""
    if are_live(inputs) and sys.stderr.isatty():
        name = one_line(inputs[0].name)
        sys.stderr.write(f"uprscope: checking {name} as it comes; Ctrl-C ends it with a summary\n")


def tell_end(inputs: Sequence[Input], found: ReadReport) -> None:
    """Say on stderr why a growing file was left, if the user did not end it and no damage says it."""
    for each in inputs:
        if each.growing and each.stop is not None and each.stop.asked_at is None and not found.damage:
            line = f"{each.name}: another file has its name, or it is gone: nothing more can come"
            sys.stderr.write(f"{Terminal.of(sys.stderr).warning('uprscope:')} {one_line(line)}\n")
