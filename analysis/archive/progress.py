"""Progress of a Spark job on stderr: a bar on a terminal, a line per step elsewhere.

Knows Spark's status tracker.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext
    from rich.progress import Progress, TaskID

_REFRESH_SECONDS = 0.5


@contextlib.contextmanager
def step(context: SparkContext, title: str) -> Iterator[None]:
    """Show the progress of the Spark jobs in the block."""
    if sys.stderr is None:
        yield
        return
    if not sys.stderr.isatty():
        sys.stderr.write(f"uprscope: {title}\n")
        sys.stderr.flush()
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - takes a while to load
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    over = threading.Event()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        watcher = threading.Thread(target=_update_bar, args=(context, bar, bar.add_task(title, total=None), over))
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _update_bar(context: SparkContext, bar: Progress, task: TaskID, over: threading.Event) -> None:
    """Show the tasks of the running stages until ``over`` is set."""
    tracker = context.statusTracker()
    while not over.wait(_REFRESH_SECONDS):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if known:
            done, total = (sum(getattr(each, name) for each in known) for name in ("numCompletedTasks", "numTasks"))
            bar.update(task, completed=done, total=total)
