"""Inputs that are still being written: pipes, devices, files that grow; and how a reading of them is brought to an end.

Knows file descriptors and waiting; bytes are bytes here. Reading takes what is there and waits only where nothing is,
so that a packet is seen when it comes, and much at once where much comes.
"""

from __future__ import annotations

import os
import select
import time
from io import FileIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import WriteableBuffer

_LOOK_S = 0.05  #: how often a file is looked at for more
_QUIET_S = 0.2  #: after a stop, a pipe that brings nothing for so long is read to its end
_LONGEST_DRAIN_S = 1.0  #: and one that always brings something is left after this
_CAN_POLL = hasattr(select, "poll")  #: not on Windows


class Stop:
    """A request to end the reading of live inputs, which a signal handler may make at any time."""

    def __init__(self) -> None:
        self._heard, self._said = os.pipe()
        os.set_blocking(self._said, False)
        self.asked_at: float | None = None

    def ask(self) -> None:
        """Let reading end once what has arrived is read."""
        if self.asked_at is None:
            self.asked_at = time.monotonic()
            os.write(self._said, b"\0")

    def fileno(self) -> int:
        """Return a descriptor that can be read from as soon as the stop was asked for."""
        return self._heard

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._heard)
        os.close(self._said)


class LiveFile(FileIO):
    """A pipe or a device. Tells whether bytes are there, and ends where it is told to."""

    def __init__(self, file: int | Path, stop: Stop | None = None) -> None:
        super().__init__(file, "rb", closefd=not isinstance(file, int))
        self._stop = stop
        self.stopped = False
        """Whether the end that was reached is the one that was asked for: what ends there is not damaged."""

    def ready(self, seconds: float = 0.0) -> bool:
        """Wait a while for bytes, or for the end; tell whether a read returns at once."""
        if not _CAN_POLL:
            return True
        poll = select.poll()
        poll.register(self, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def readinto(self, target: WriteableBuffer, /) -> int | None:
        """Read what is there; wait where nothing is. Returns 0 at the end, and after a stop."""
        if self._stop is not None and _CAN_POLL:
            self._wait(self._stop)
            if self._left(self._stop):
                self.stopped = True
                return 0
        count = super().readinto(target)
        self.stopped = count == 0 and self._stop is not None and self._stop.asked_at is not None
        return count

    def _wait(self, stop: Stop) -> None:
        poll = select.poll()
        poll.register(self, select.POLLIN)
        poll.register(stop, select.POLLIN)
        poll.poll()

    def _left(self, stop: Stop) -> bool:
        """Tell whether a stop was asked for, and what had arrived is read."""
        if stop.asked_at is None:
            return False
        return time.monotonic() - stop.asked_at > _LONGEST_DRAIN_S or not self.ready(_QUIET_S)


class GrowingFile(LiveFile):
    """A file that is being written: its end is where the next bytes will be, until a stop is asked for.

    It ends as well where nothing can come any more: another file has its name, or it has none. One that became
    shorter than what was read of it fails as a disk does.
    """

    def __init__(self, file: Path, stop: Stop | None = None) -> None:
        super().__init__(file, stop)
        self._path = file

    def ready(self, seconds: float = 0.0) -> bool:
        """Tell whether there is more of the file than was read; does not wait, as what is there came at once."""
        del seconds
        return os.fstat(self.fileno()).st_size > self.tell()

    def readinto(self, target: WriteableBuffer, /) -> int | None:
        """Read what is there; at the end, wait for more. Returns 0 after a stop, and when nothing can come."""
        while not (count := FileIO.readinto(self, target)):
            if os.fstat(self.fileno()).st_size < self.tell():
                raise OSError(None, "the file was cut off while it was read")
            if self._stop is not None and self._stop.asked_at is not None:
                self.stopped = True
                return 0
            if self._is_over() and not self.ready():
                return 0
            self._pause()
        return count

    def _is_over(self) -> bool:
        """Tell whether the file has been removed, or its name been given to another one."""
        try:
            return not os.path.samestat(os.fstat(self.fileno()), self._path.stat())
        except OSError:
            return True

    def _pause(self) -> None:
        if self._stop is None or not _CAN_POLL:
            time.sleep(_LOOK_S)
        else:
            select.select([self._stop], [], [], _LOOK_S)
