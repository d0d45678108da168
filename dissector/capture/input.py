"""One input that can be opened: a file, one that is still being written, or standard input.

Knows names, how to open them, and how to read standard input twice. Opening fails with an InputError of one clear
line.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.capture import magic
from dissector.capture.live import GrowingFile, LiveFile
from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

    from dissector.capture.live import Stop

STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Input:
    """Something to read a capture from, or the rows that were read from one."""

    name: str
    """What the user calls it; goes into every message about it."""
    path: Path | None
    """None is standard input."""
    rows: magic.RowFormat | None = field(default=None, kw_only=True)
    """The format, if it holds frames as rows and is no capture."""
    growing: bool = field(default=False, kw_only=True)
    """It is still being written: its end is waited for."""
    stop: Stop | None = field(default=None, kw_only=True, compare=False)
    """What ends the reading of an input that is live."""

    @classmethod
    def of(cls, name: str | os.PathLike[str]) -> Input:
        """Make an input from a path, or from the string ``-``; a Path("-") is a file of that name."""
        return cls("standard input", None) if name == STANDARD_INPUT else cls(os.fspath(name), Path(name))

    @property
    def once(self) -> bool:
        """Whether its bytes can be read only once: a pipe or a device, so a look ahead would lose them."""
        if self.path is None:
            return True
        try:
            return not stat.S_ISREG(self.path.stat().st_mode)
        except OSError as error:
            raise unusable(self.name, error) from error

    @property
    def live(self) -> bool:
        """Whether its bytes come while they are read: a pipe, a device, or a file that grows."""
        if self.path is not None:
            return self.growing or self.once
        try:
            return not stat.S_ISREG(os.fstat(0).st_mode)
        except OSError as error:
            raise unusable(self.name, error) from error

    def open(self) -> FileIO:
        """Open for unbuffered reading."""
        live = self.live
        try:
            if self.path is None:
                return LiveFile(0, self.stop) if live else open(0, "rb", buffering=0, closefd=False)
            if self.growing:
                return GrowingFile(self.path, self.stop)
            return LiveFile(self.path, self.stop) if live else self.path.open("rb", buffering=0)
        except OSError as error:
            raise unusable(self.name, error) from error


def unusable(name: str, error: OSError) -> InputError:
    """Say in one line why the system refuses an input."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{name}: no such file or directory")
    if isinstance(error, PermissionError):
        return InputError(f"{name}: permission denied")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{name}: is a directory, not a capture")
    return InputError(f"{name}: {error.strerror or error}")


@contextlib.contextmanager
def spooled(source: Input) -> Iterator[Input]:
    """Copy an input that can be read only once to a temporary file; yield an input of the same name that reads it."""
    import shutil  # noqa: PLC0415 - pipes only
    import tempfile  # noqa: PLC0415

    with tempfile.NamedTemporaryFile(prefix="uprscope-", suffix=".capture") as copy:
        with source.open() as stream:
            shutil.copyfileobj(stream, copy)
        copy.flush()
        copy.seek(0)
        yield Input(source.name, Path(copy.name), rows=magic.row_format(copy.read(magic.HEAD_BYTES)))
