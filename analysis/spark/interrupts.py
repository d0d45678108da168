"""Ctrl-C while Spark starts, and after: a command ends quietly, and leaves no Java behind.

Knows signals; must not know what is interrupted. A Java that is on its way when its Python dies waits for ever: whoever
was to take its address is gone. A session puts a handler of its own in place, which talks to Java in the middle of what
is being said to it. And the library in between tells the root logger of every interruption, with a traceback.
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
    """Have an interruption in the block come when it ends, and the handler from before be there again."""
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
    """Have the root logger say nothing: with no handler at all, it would make one that writes to stderr."""
    logging.getLogger().addHandler(logging.NullHandler())


def caused_by_interrupt(error: BaseException) -> bool:
    """Tell whether an error came up while an interruption was on its way out: Java does not answer any more then."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, KeyboardInterrupt):
            return True
        found = found.__cause__ or found.__context__
    return False
