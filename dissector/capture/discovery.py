"""Command-line arguments to the captures to read: files, directories, patterns, standard input.

Knows paths, and looks at the beginning of each file for its format and the time of its first packet. Every mistake is
an InputError of one line, before anything else is read.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.capture import magic
from dissector.capture.chunk_sizes import PEEK_CHUNK_BYTES
from dissector.capture.input import STANDARD_INPUT, Input, unusable
from dissector.capture.reader import CaptureReader
from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Expansion:
    """The inputs that arguments stand for."""

    inputs: list[Input]
    skipped: int
    """Files in the given directories that are no captures."""


def expand(args: Sequence[str], *, rows: bool = False) -> list[Input]:
    """Return the captures that command-line arguments stand for, without duplicates, in the order given.

    With ``rows`` they may be files of rows that were read from captures, but not both at once.
    """
    return find_captures(args, rows=rows).inputs


def find_captures(args: Sequence[str], *, rows: bool = False) -> Expansion:
    """Expand arguments and count what was passed over in directories."""
    inputs: dict[str, Input] = {}
    skipped = 0
    for arg in args:
        if arg == STANDARD_INPUT:
            if STANDARD_INPUT in inputs:
                raise InputError("standard input (-) can be given only once")
            inputs[STANDARD_INPUT] = Input.of(arg)
            continue
        for name in _names(arg):
            if Path(name).is_dir():
                found, others = _directory(name)
                skipped += others
            else:
                found = [_file(name, rows=rows)]
            for each in found:
                inputs.setdefault(os.path.realpath(each.name), each)
    _confirm_one_kind(inputs.values())
    return Expansion(list(inputs.values()), skipped)


def _confirm_one_kind(inputs: Iterable[Input]) -> None:
    """Raise InputError if there are captures and files of rows."""
    stored, capture = (next((each for each in inputs if (each.rows is None) is kind), None) for kind in (False, True))
    if stored is not None and capture is not None:
        raise InputError(f"{stored.name}: holds frames as rows: it does not go together with {capture.name}")


def order_by_time(inputs: Sequence[Input]) -> list[Input]:
    """Order the files of a ring by the time of their first packet; what can be read only once keeps its place.

    Files without packets go last, files with the same time keep their order.
    """
    files = [each for each in inputs if not each.once]
    times = {each: _first_time(each) for each in files}
    in_order = iter(sorted(files, key=lambda each: (times[each] is None, times[each] or 0)))
    return [each if each.once else next(in_order) for each in inputs]


def _names(arg: str) -> list[str]:
    """Expand a pattern that the shell left alone; the name of an existing file is no pattern."""
    if not arg:
        raise InputError("an empty name is no capture")
    if os.path.lexists(arg):
        return [arg]
    if not glob.has_magic(arg):
        raise InputError(f"{arg}: no such file or directory")
    names = sorted(glob.glob(arg, recursive=True))  # noqa: PTH207 - pathlib refuses absolute patterns
    if not names:
        raise InputError(f"{arg}: no file matches this pattern")
    return names


def _file(name: str, *, rows: bool) -> Input:
    """Check a file that the user named."""
    chosen = Input(name, Path(name))
    if chosen.once:
        return chosen
    with chosen.open() as stream:
        try:
            found = magic.row_format(stream.read(magic.HEAD_BYTES))
        except OSError as error:
            raise unusable(name, error) from error
    if found is None:
        _peek(chosen).close()
    elif not rows:
        raise InputError(f"{name}: holds frames as rows ({found}); the packets of the capture itself are needed here")
    return Input(name, Path(name), rows=found)


def _directory(name: str) -> tuple[list[Input], int]:
    """Return the captures in a directory and below, sorted by name, and how many files are none."""
    found, others = [], 0
    for path in _walk(name):
        candidate = Input(str(path), path)
        try:
            regular = path.is_file()
        except OSError as error:
            raise unusable(candidate.name, error) from error
        if not regular:  # a dangling link, or a pipe: opening that could wait forever
            others += 1
            continue
        candidate.open().close()  # what may not be read is an error, not "no capture"
        try:
            _peek(candidate).close()
        except InputError:
            others += 1
        else:
            found.append(candidate)
    if not found:
        passed = f" ({others} other file{'s' if others > 1 else ''})" if others else ""
        raise InputError(f"{name}: no captures in this directory{passed}")
    return found, others


def _walk(name: str) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise unusable(str(error.filename or name), error) from error

    for folder, folders, files in os.walk(name, onerror=refuse):
        folders.sort()
        yield from (Path(folder, file) for file in sorted(files))


def _peek(chosen: Input) -> CaptureReader:
    return CaptureReader(chosen, chunk_bytes=PEEK_CHUNK_BYTES)


def _first_time(chosen: Input) -> int | None:
    with _peek(chosen) as reader:
        for block in reader:
            return int(block.time_ns[0])
    return None
