"""Where captures are stored: local paths, and URIs of what pyarrow's file systems open (s3, gs, hdfs, ...).

Knows names, patterns and how to open a file for reading. A file is read in the order and amounts that its reader asks
for: nothing is read ahead or kept in memory. Users and passwords in a URI are in no name and no message.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from dissector.capture import Input
from dissector.capture.input import unusable
from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Schemes of Hadoop, and pyarrow's names for them.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_WILDCARDS = "*?["
_SECOND_NS = 1_000_000_000
_STATS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Location:
    """A file that can be opened on any machine that reaches it."""

    name: str
    """The user's name for it."""
    system: str = ""
    """URI of the file system, with its options; empty: a local path."""
    path: str = ""
    """Path in the file system."""

    def open(self) -> Any:
        """Open for reading, with seek."""
        if not self.system:
            return Input.of(self.path).open()
        try:
            return _file_system(self.system).open_input_file(self.path)
        except OSError as error:
            raise unusable(self.name, error) from error

    def size(self) -> int:
        """Return how many bytes the file has."""
        with self.open() as file:
            return int(file.seek(0, 2))

    def stat(self) -> StoredFile | None:
        """Ask the file system about the file; None: there is no file."""
        if not self.system:
            return _stat_local(self)
        try:
            info = _file_system(self.system).get_file_info(self.path)
        except OSError as error:
            raise unusable(self.name, error) from error
        return _stored_file(self, info) if info.type == fs.FileType.File else None

    def input(self, *, ordered: bool = True) -> Input:
        """Return an input for the readers; ``ordered``: the inputs are in the order of their packets already."""
        return RemoteFile(self.name, None, self, ordered)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as its file system describes it, without opening it."""

    address: Location
    size: int
    mtime_ns: int
    """Of a remote file to the second: listings and single answers differ below that."""
    from_directory: bool = False
    """Found by listing a directory: neither named nor matched by a pattern."""


@dataclass(frozen=True, slots=True)
class RemoteFile(Input):
    """An input that is opened through a Location. It can be read more than once."""

    address: Location
    ordered: bool = True

    @property
    def once(self) -> bool:
        """Tell readers not to open it in advance to see when it begins."""
        return self.ordered

    def open(self) -> Any:
        """Open for reading."""
        return self.address.open()


def find_files(names: Sequence[str]) -> list[Location]:
    """Return the files that paths, directories, patterns and URIs stand for, without duplicates, in order."""
    found: dict[tuple[str, str], Location] = {}
    for name in names:
        path = local_path(name)
        for each in _local_files(path) if path is not None else (one.address for one in remote_files(name)):
            found.setdefault((each.system, each.path), each)
    return list(found.values())


def file_sizes(addresses: Sequence[Location]) -> list[int]:
    """Return the sizes of files; 0 for what is not there or no file: its reader will report it."""
    # Remote file systems answer slowly, but many requests at once.
    with ThreadPoolExecutor(_STATS_AT_ONCE) as pool:
        looked = pool.map(Location.stat, addresses)
        return [0 if each is None else each.size for each in looked]


def local_path(name: str) -> str | None:
    """Return the local path that a name or URI stands for; None: it is remote."""
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name
    return f"/{unquote(rest.partition('/')[2])}" if scheme == "file" else None


def display_name(name: str) -> str:
    """Return a URI without user, password and query, as it may be shown."""
    scheme, separator, rest = name.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{_host_without_user(host)}{slash}{path.partition('?')[0]}" if separator else name


def canonical(address: Location) -> Location:
    """Return a location with pyarrow's scheme in its name: s3a and s3 are the same."""
    scheme, separator, rest = address.name.partition("://")
    return replace(address, name=f"{_SCHEMES.get(scheme, scheme)}{separator}{rest}")


def location_beside(name: str, known: Location | None) -> Location:
    """Return the location of a file by its name, on the file system of ``known``, or on the one that the name tells."""
    scheme, _, rest = name.partition("://")
    host, _, path = rest.partition("/")
    system = known.system if known is not None else f"{scheme}://{host}/"
    return Location(name, system, _path_below(_open_file_system(system)[1], path))


def _local_files(name: str) -> list[Location]:
    # An existing name is no pattern, even with wildcards in it.
    names = [name] if os.path.lexists(name) else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - as inputs.py
    if not names:
        raise InputError(f"{name}: no such file, or no file matches")
    paths: list[str] = []
    for each in names:
        paths += _files_below(each) if Path(each).is_dir() else [each]
    return [Location(each, "", str(Path(each).absolute())) for each in paths]


def _files_below(name: str) -> list[str]:
    found: list[str] = []
    for folder, folders, files in os.walk(name):
        folders.sort()
        found += [str(Path(folder, file)) for file in sorted(files)]
    return found


def _stat_local(address: Location) -> StoredFile | None:
    try:
        status = Path(address.path).stat()
    except OSError:
        return None
    return StoredFile(address, status.st_size, status.st_mtime_ns)


def remote_files(name: str) -> list[StoredFile]:
    """Return the remote files that a URI, a directory or a pattern stands for."""
    parts = urlsplit(name, allow_fragments=False)
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    # "?" is a wildcard too: only what sets an option is a query.
    is_query = "=" in parts.query
    path = unquote(parts.path if is_query or not parts.query else f"{parts.path}?{parts.query}")
    system = f"{scheme}://{parts.netloc}/" + (f"?{parts.query}" if is_query else "")
    opened, root = _open_file_system(system)
    place = f"{parts.scheme}://{_host_without_user(parts.netloc)}"
    hidden = len(root.rstrip("/")) if root.strip("/") else 0
    try:
        infos, from_directory = _matching_infos(opened, _path_below(root, path))
    except OSError as error:
        raise unusable(place + path, error) from error
    if not infos:
        raise InputError(f"{place}{path}: no such file, or no file matches")
    return [
        _stored_file(Location(place + info.path[hidden:], system, info.path), info, from_directory) for info in infos
    ]


def _path_below(root: str, path: str) -> str:
    """Return a path as the file system has it: after the bucket, or absolute."""
    return f"{root.rstrip('/')}/{path.lstrip('/')}" if root.strip("/") else f"/{path.lstrip('/')}"


def _stored_file(address: Location, info: Any, from_directory: bool = False) -> StoredFile:
    return StoredFile(address, int(info.size or 0), (info.mtime_ns or 0) // _SECOND_NS * _SECOND_NS, from_directory)


def _matching_infos(system: Any, base: str) -> tuple[list[Any], bool]:
    """Return the files that a path or a pattern stands for, and whether they were found in directories."""
    if not any(sign in base for sign in _WILDCARDS):
        info = system.get_file_info(base)
        if info.type == fs.FileType.File:
            return [info], False
        return (_infos_below(system, base) if info.type == fs.FileType.Directory else []), True
    # Only what is below the part before the first wildcard has to be listed.
    fixed = base[: min(base.find(sign) for sign in _WILDCARDS if sign in base)].rpartition("/")[0]
    listed = _infos_below(system, fixed)
    depth = base.count("/")
    if base.endswith("/"):
        deep = ((info, info.path.split("/")) for info in listed if info.path.count("/") >= depth)
        return [info for info, names in deep if fnmatch.fnmatchcase("/".join(names[:depth]) + "/", base)], True
    anywhere = "**" in base
    chosen = (info for info in listed if fnmatch.fnmatchcase(info.path, base))
    return [info for info in chosen if anywhere or info.path.count("/") == depth], False


def _infos_below(system: Any, base: str) -> list[Any]:
    infos = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return sorted((info for info in infos if info.type == fs.FileType.File), key=lambda info: str(info.path))


def _open_file_system(system: str) -> tuple[Any, str]:
    try:
        opened, root = fs.FileSystem.from_uri(system)
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        parts = urlsplit(system)
        # The error of HDFS lists all paths where it looked for a library: keep its first line.
        reason = str(error).partition("\n")[0].replace(parts.netloc, _host_without_user(parts.netloc))
        raise InputError(
            f"{parts.scheme}://{_host_without_user(parts.netloc)}: no file system opens this: {reason}"
        ) from error
    return opened, root


def _host_without_user(netloc: str) -> str:
    """Return the host of a URI without user and password."""
    return netloc.rpartition("@")[2]


def _file_system(system: str) -> Any:
    return _open_file_system(system)[0]
