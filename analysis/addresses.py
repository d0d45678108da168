"""Where captures are kept: local paths, and addresses of whatever pyarrow's file systems open (s3, gs, hdfs, ...).

Knows names, patterns and how to open a file for reading; must not know what is in one. Nothing here reads ahead or
keeps a file in memory: what is opened is read in the order and amounts that a reader asks for.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from dissector.capture import Input
from dissector.capture.source import unusable
from dissector.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Names that Hadoop has for what pyarrow calls otherwise.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_PATTERN = "*?["


@dataclass(frozen=True, slots=True)
class Address:
    """A file that can be opened, here and on any machine that reaches it."""

    name: str
    """What the user calls it."""
    system: str = ""
    """Address of the file system, with its options; empty: a local path."""
    path: str = ""
    """Path in the file system."""

    def open(self) -> Any:
        """Open for reading from any place."""
        if not self.system:
            return Input.of(self.path).open()
        try:
            return _system(self.system).open_input_file(self.path)
        except OSError as error:
            raise unusable(self.name, error) from error

    def size(self) -> int:
        """Return how many bytes there are."""
        with self.open() as file:
            return int(file.seek(0, 2))

    def input(self) -> Input:
        """Return what the readers of this package take."""
        return Elsewhere(self.name, None, self)


@dataclass(frozen=True, slots=True)
class Elsewhere(Input):
    """An input that an address opens. It can be read more than once, but nobody should peek at it for its order."""

    address: Address

    @property
    def once(self) -> bool:
        """Tell readers to take it as it comes: the order has been settled when addresses were found."""
        return True

    def open(self) -> Any:
        """Open for reading."""
        return self.address.open()


def find(names: Sequence[str]) -> list[Address]:
    """Return the files that paths, directories, patterns and addresses stand for, without duplicates, in order."""
    found: dict[tuple[str, str], Address] = {}
    for name in names:
        for each in _remote(name) if "://" in name else _local(name):
            found.setdefault((each.system, each.path), each)
    return list(found.values())


def _local(name: str) -> list[Address]:
    # What exists under the very name is no pattern.
    names = [name] if os.path.lexists(name) else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - as inputs.py
    if not names:
        raise InputError(f"{name}: no such file, or no file matches")
    paths: list[str] = []
    for each in names:
        paths += _files_below(each) if Path(each).is_dir() else [each]
    return [Address(each, "", str(Path(each).absolute())) for each in paths]


def _files_below(name: str) -> list[str]:
    found: list[str] = []
    for folder, folders, files in os.walk(name):
        folders.sort()
        found += [str(Path(folder, file)) for file in sorted(files)]
    return found


def _remote(name: str) -> list[Address]:
    parts = urlsplit(name)
    if parts.scheme == "file":
        return _local(unquote(parts.path))
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    # Only a query that sets options is one: "?" is a pattern's sign too.
    is_query = "=" in parts.query
    path = unquote(parts.path if is_query or not parts.query else f"{parts.path}?{parts.query}")
    system = f"{scheme}://{parts.netloc}/" + (f"?{parts.query}" if is_query else "")
    opened, root = _opened(system)
    base = f"{root.rstrip('/')}/{path.lstrip('/')}" if root.strip("/") else path
    shown = f"{parts.scheme}://{_host(parts.netloc)}"
    hidden = len(root.rstrip("/")) if root.strip("/") else 0
    try:
        paths = _paths(opened, base)
    except OSError as error:
        raise unusable(shown + path, error) from error
    if not paths:
        raise InputError(f"{shown}{path}: no such file, or no file matches")
    return [Address(shown + each[hidden:], system, each) for each in paths]


def _paths(system: Any, base: str) -> list[str]:
    if not any(sign in base for sign in _PATTERN):
        info = system.get_file_info(base)
        if info.type == fs.FileType.File:
            return [base]
        return _below(system, base) if info.type == fs.FileType.Directory else []
    # The part before the first sign bounds what has to be listed.
    fixed = base[: min(base.find(sign) for sign in _PATTERN if sign in base)].rpartition("/")[0]
    depth = base.count("/")
    listed = _below(system, fixed)
    anywhere = "**" in base
    return [each for each in listed if fnmatch.fnmatchcase(each, base) and (anywhere or each.count("/") == depth)]


def _below(system: Any, base: str) -> list[str]:
    infos = system.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    return sorted(info.path for info in infos if info.type == fs.FileType.File)


def _opened(system: str) -> tuple[Any, str]:
    try:
        opened, root = fs.FileSystem.from_uri(system)
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        parts = urlsplit(system)
        said = str(error).replace(parts.netloc, _host(parts.netloc))
        raise InputError(f"{parts.scheme}://{_host(parts.netloc)}: no file system opens this: {said}") from error
    return opened, root


def _host(netloc: str) -> str:
    """Return the part of an address that may be shown: no user, no password."""
    return netloc.rpartition("@")[2]


def _system(system: str) -> Any:
    return _opened(system)[0]
