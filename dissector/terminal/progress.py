"""A progress bar on stderr for long reads, only on a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Bytes; less is read before a bar could be seen.
SMALLEST = 64 << 20


class Measured(Protocol):
    """Something that is being read."""

    bytes_read: int
    bytes_total: int | None


@contextlib.contextmanager
def progress(reader: Measured, *, wanted: bool) -> Iterator[Callable[[], None]]:
    """Show how far a reader has come. Yields a function that redraws the bar."""
    total = reader.bytes_total
    if not wanted or not sys.stderr.isatty() or (total is not None and total < SMALLEST):
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415 - takes a while to load, and only long reads need it
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    # Standard output is for the frames: rich would like to print around its bar.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda: bar.update(task, completed=reader.bytes_read)
