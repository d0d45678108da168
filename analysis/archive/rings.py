"""Which captures there are, and which of them hang together.

Knows paths, sizes and times of change; must not look into a file, as there may be a million of them. A ring is the unit
of reading: connections go on across its files. By default that is a directory; on request every file stands alone.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Files that are taken up in directories. Whatever is named, or matches a given pattern, is taken up anyway.
_LOOKS = re.compile(r"\.(pcap|pcapng|cap|dmp|ntar)([.\-_]?\d+)?(\.(gz|zst|zstd|lz4|bz2|xz))?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Capture:
    """A file, and what tells whether it is still the same."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> Capture | None:
        """Look a file up; None: it is not there, or no file."""
        try:
            status = Path(path).stat()
        except OSError:
            return None
        return cls(path, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Ring:
    """Captures that hang together."""

    id: str
    place: str  #: the directory, or the file where every file stands alone
    captures: tuple[Capture, ...]

    @property
    def size(self) -> int:
        """Return how many bytes there are to read."""
        return sum(capture.size for capture in self.captures)


def ring_id(place: str) -> str:
    """Return the name of a ring in the tables; it begins with a letter, so that nobody takes it for a number."""
    return f"r{hashlib.blake2b(place.encode(errors='surrogateescape'), digest_size=6).hexdigest()}"


def find(names: Sequence[str], *, without: Path | None = None) -> list[Capture]:
    """Return the files that arguments stand for (files, directories, patterns), except what is below ``without``."""
    left_out = f"{without.absolute()}{os.sep}" if without is not None else None
    found: dict[str, Capture] = {}
    for name in names:
        before = len(found)
        for path in _expanded(name):
            absolute = str(Path(path).absolute())
            if left_out is not None and absolute.startswith(left_out):
                continue
            capture = Capture.of(absolute)
            if capture is not None:
                found[absolute] = capture
        if len(found) == before and not any(Path(path).is_file() for path in _expanded(name)):
            raise InputError(f"{name}: no captures there")
    return list(found.values())


def rings(captures: Iterable[Capture], *, separate: bool = False) -> list[Ring]:
    """Put captures together; the largest ring comes first, as it takes longest."""
    places: dict[str, list[Capture]] = {}
    for capture in captures:
        places.setdefault(capture.path if separate else str(Path(capture.path).parent), []).append(capture)
    made = (Ring(ring_id(place), place, tuple(sorted(members))) for place, members in places.items())
    return sorted(made, key=lambda ring: (-ring.size, ring.place))


def _expanded(name: str) -> Iterator[str]:
    if not name:
        raise InputError("an empty name is no capture")
    if os.path.lexists(name):
        names = [name]
    elif glob.has_magic(name):
        names = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - pathlib refuses absolute patterns
    else:
        raise InputError(f"{name}: no such file or directory")
    for each in names:
        if Path(each).is_dir():
            yield from _below(each)
        else:
            yield each


def _below(folder: str) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename or folder}: {error.strerror or error}") from error

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (os.path.join(place, each) for each in sorted(files) if _LOOKS.search(each))  # noqa: PTH118
