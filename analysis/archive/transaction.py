"""Transactions on an archive: changes are written aside, then moved in by a journal that can be replayed.

Knows folders, files and the manifest. A run writes below ``_staging``. When all files are there it writes a journal,
and from then on the change is certain: replaced files are removed, new ones are moved in, and the manifest comes last.
After a crash in between, the next run finds the journal and replays it first; a staging folder without a journal is
deleted. Old files go before new ones come, so no reader sees a row twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from typing import TYPE_CHECKING

from analysis.archive import manifest
from analysis.archive.schema import BY_NAME
from dissector.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from analysis.archive.manifest import Manifest

_STAGING = "_staging"
_JOURNAL = "journal.json"
_LOCK = "_lock"


@contextlib.contextmanager
def locked(archive: Path) -> Iterator[None]:
    """Lock an archive against other runs."""
    try:
        archive.mkdir(parents=True, exist_ok=True)
        stream = (archive / _LOCK).open("w")
    except OSError as error:
        raise UsageError(f"{archive}: cannot be written: {error.strerror}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{archive}: another run is writing to it") from error
        yield


def recover(archive: Path) -> bool:
    """Replay or delete what earlier runs left in staging; tell whether a journal was replayed."""
    staging = archive / _STAGING
    finished = False
    for folder in sorted(staging.iterdir()) if staging.is_dir() else ():
        if (folder / _JOURNAL).is_file():
            _replay(archive, folder)
            finished = True
    shutil.rmtree(staging, ignore_errors=True)
    return finished


def begin(archive: Path, run: str) -> Path:
    """Return a new staging folder for a run, with a folder for every table."""
    folder = archive / _STAGING / run
    folder.mkdir(parents=True)
    for name in BY_NAME:
        (folder / name).mkdir()
    return folder


def staged(folder: Path) -> list[str]:
    """Return all files of tables below a staging folder, without those that readers ignore."""
    return [
        path.relative_to(folder).as_posix()
        for name in BY_NAME
        for path in sorted((folder / name).rglob("*.parquet"))
        if not path.name.startswith(("_", "."))
    ]


def commit(archive: Path, folder: Path, remove: list[str], after: Manifest) -> None:
    """Make a change: the files of a staging folder come in, those to ``remove`` go, and the manifest is written."""
    journal = {"move": staged(folder), "remove": sorted(remove), "manifest": after.dumps()}
    manifest.write_text(folder / _JOURNAL, json.dumps(journal))
    _replay(archive, folder)
    shutil.rmtree(folder, ignore_errors=True)


def _replay(archive: Path, folder: Path) -> None:
    """Do what a journal says; steps that are done already are skipped."""
    journal = json.loads((folder / _JOURNAL).read_text(encoding="utf-8"))
    for name in journal["remove"]:
        path = archive / name
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a folder that is still in use
            os.removedirs(path.parent)
    for name in BY_NAME:
        (archive / name).mkdir(exist_ok=True)
    for name in journal["move"]:
        source, target = folder / name, archive / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
    manifest.write_text(archive / manifest.NAME, journal["manifest"])
