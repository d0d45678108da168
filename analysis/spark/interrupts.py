"""Ctrl-C while Spark starts and runs: the command ends quietly, and leaves no JVM running.

Knows signals. If Python exits while the JVM is starting, the JVM hangs: nothing reads the port that it reports. A
Spark session installs a SIGINT handler that calls the JVM, even in the middle of another call. And py4j logs every
interrupt to the root logger, with a traceback.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def delay_interrupt() -> Iterator[None]:
    """Deliver a Ctrl-C of the block when the block ends, and restore the handler from before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received and before is not signal.SIG_IGN:
        raise KeyboardInterrupt


def silence_root_logger() -> None:
    """Give the root logger a handler that drops everything: without any, it would write to stderr."""
    logging.getLogger().addHandler(logging.NullHandler())


def caused_by_interrupt(error: BaseException) -> bool:
    """Tell whether an error was raised while a KeyboardInterrupt was handled: the JVM no longer answers then."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, KeyboardInterrupt):
            return True
        found = found.__cause__ or found.__context__
    return False
