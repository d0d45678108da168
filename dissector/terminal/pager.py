"""Long text goes through a pager, if standard output is a terminal and the user has not switched it off."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Leave at once if everything fits, keep colours, leave the text on the screen.
_LESS = "FRX"
_CHOP = "-S"  #: an argument and no part of LESS, which many people have set


def scrolls_sideways(*, wanted: bool) -> bool:
    """Tell whether :func:`paged` will start a pager that can show long lines chopped, and scroll to the rest."""
    command = _command() if wanted and sys.stdout.isatty() else None
    return command is not None and os.path.basename(command[0]) == "less"  # noqa: PTH119 - a word of a command line


@contextlib.contextmanager
def paged(*, wanted: bool, sideways: bool = False) -> Iterator[IO[bytes]]:
    """Yield a stream that ends up on standard output, by way of a pager where one is wanted and to be had.

    With ``sideways``, a pager that can do so chops long lines instead of wrapping them.
    """
    command = _command() if wanted and sys.stdout.isatty() else None
    if command is not None and sideways and scrolls_sideways(wanted=wanted):
        command = [command[0], _CHOP, *command[1:]]  # in front: what the user says in PAGER comes later, and holds
    if command is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    environment = {**os.environ, "LESS": os.environ.get("LESS", _LESS), "LV": "-c"}
    pager = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)  # noqa: S603 - the user's own pager
    stream = pager.stdin
    if stream is None:
        raise OSError("the pager has no input")
    try:
        with contextlib.suppress(BrokenPipeError):  # the reader has seen enough
            yield stream
    finally:
        with contextlib.suppress(OSError):
            stream.close()
        while pager.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the pager's to handle
                pager.wait()


def _command() -> list[str] | None:
    """Return the pager's command line: PAGER, else less; none if PAGER is empty or cat, or nothing is installed."""
    chosen = os.environ.get("PAGER", "less")
    try:
        words = shlex.split(chosen)
    except ValueError:
        return None
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return None
    return words
