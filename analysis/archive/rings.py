"""Which captures there are, and which of them form a ring.

Knows paths, URIs, sizes and modification times; opens no file, as there may be a million of them. A ring is the unit
of reading: connections go on across its files. By default it is a directory; on request every file is a ring. A remote
capture is named by its URI without user, password and options, which belong to one run.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.spark.storage import Location, canonical, display_name, local_path, location_beside, remote_files
from dissector.capture import Input
from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from analysis.spark.storage import StoredFile

#: Files that are read in directories. What is named, or matches a given pattern, is read in any case.
_CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap|dmp|ntar)([.\-_]?\d+)?(\.(gz|zst|zstd|lz4|bz2|xz))?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Capture:
    """A file, with what tells whether it has changed."""

    path: str
    """Of a remote file its URI."""
    size: int
    mtime_ns: int
    #: How to open it, with credentials: never stored, never shown.
    address: Location | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, path: str, *, beside: Capture | None = None) -> Capture | None:
        """Look a file up, a remote one with the credentials of ``beside``; None: it is not there, or no file."""
        if not is_remote(path):
            address, remote = Location(path, "", path), False
        else:
            address, remote = location_beside(path, beside.address if beside is not None else None), True
        found = address.stat()
        return cls(path, found.size, found.mtime_ns, address if remote else None) if found is not None else None

    @property
    def directory(self) -> str:
        """Return the directory."""
        return self.path.rpartition("/")[0] if is_remote(self.path) else str(Path(self.path).parent)

    def input(self) -> Input:
        """Return the input for readers."""
        return Input(self.path, Path(self.path)) if self.address is None else self.address.input(ordered=False)


@dataclass(frozen=True, slots=True)
class Ring:
    """Captures that are read together."""

    id: str
    place: str  #: the directory; with --separate, the file
    captures: tuple[Capture, ...]

    @property
    def size(self) -> int:
        """Return how many bytes the captures have."""
        return sum(capture.size for capture in self.captures)


def ring_id(place: str) -> str:
    """Return the id of a ring in the tables; it begins with a letter, so that it is never read as a number."""
    return f"r{hashlib.blake2b(place.encode(errors='surrogateescape'), digest_size=6).hexdigest()}"


def is_remote(path: str) -> bool:
    """Tell whether this is a URI; an absolute path never has two slashes in a row."""
    return "://" in path


def find_captures(names: Sequence[str], *, without: Path | None = None) -> list[Capture]:
    """Return the captures that arguments stand for: files, directories, patterns, URIs.

    Files below ``without`` are left out.
    """
    left_out = f"{without.absolute()}{os.sep}" if without is not None else None
    found: dict[str, Capture] = {}
    for given in names:
        name = local_path(given)
        if name is None:
            _add_remote(found, given)
            continue
        before = len(found)
        for path in _expand(name):
            absolute = str(Path(path).absolute())
            if left_out is not None and absolute.startswith(left_out):
                continue
            capture = Capture.of(absolute)
            if capture is not None:
                found[absolute] = capture
        if len(found) == before and not any(Path(path).is_file() for path in _expand(name)):
            raise InputError(f"{name}: no captures there")
    return list(found.values())


def group_into_rings(captures: Iterable[Capture], *, separate: bool = False) -> list[Ring]:
    """Group captures into rings; the largest ring comes first, as it takes longest."""
    places: dict[str, list[Capture]] = {}
    for capture in captures:
        places.setdefault(capture.path if separate else capture.directory, []).append(capture)
    made = (Ring(ring_id(place), place, tuple(sorted(members))) for place, members in places.items())
    return sorted(made, key=lambda ring: (-ring.size, ring.place))


def _add_remote(found: dict[str, Capture], given: str) -> None:
    """Add the remote captures that a URI stands for."""
    chosen = [
        each for each in remote_files(given) if not each.from_directory or _CAPTURE_NAME.search(each.address.path)
    ]
    if not chosen:
        raise InputError(f"{display_name(given)}: no captures there")
    for each in chosen:
        capture = _capture(each)
        known = found.setdefault(capture.path, capture)
        if known.address is not None and _file_system_of(known.address) != _file_system_of(each.address):
            raise InputError(f"{capture.path}: is on two file systems, which an archive can't tell apart")


def _capture(listed: StoredFile) -> Capture:
    address = canonical(listed.address)
    return Capture(address.name, listed.size, listed.mtime_ns, address)


def _file_system_of(address: Location) -> str:
    """Return the file system of a remote file, without credentials."""
    scheme, _, rest = address.system.partition("://")
    host, slash, options = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{options}"


def _expand(name: str) -> Iterator[str]:
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
            yield from _captures_below(each)
        else:
            yield each


def _captures_below(folder: str) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename or folder}: {error.strerror or error}") from error

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (os.path.join(place, each) for each in sorted(files) if _CAPTURE_NAME.search(each))  # noqa: PTH118
