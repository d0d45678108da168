"""Changes to an archive, all or nothing: written aside first, then moved in by a journal that can be played again.

Knows folders, files and the manifest; must not know what is in the tables. A run writes below ``_staging``; when all of
it is there it writes a journal, and from then on the change is certain: files that are replaced are removed, new ones
are moved in, and the manifest comes last. Whoever dies in between leaves the journal, and the next run plays it first;
what has no journal is thrown away. Old files go before new ones come, so no reader ever sees a row twice.
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
    """Keep other runs out of an archive."""
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
    """Finish or forget what earlier runs left behind; tell whether there was something to finish."""
    staging = archive / _STAGING
    finished = False
    for folder in sorted(staging.iterdir()) if staging.is_dir() else ():
        if (folder / _JOURNAL).is_file():
            _replay(archive, folder)
            finished = True
    shutil.rmtree(staging, ignore_errors=True)
    return finished


def begin(archive: Path, run: str) -> Path:
    """Return a new folder for what a run writes, with a folder for every table."""
    folder = archive / _STAGING / run
    folder.mkdir(parents=True)
    for name in BY_NAME:
        (folder / name).mkdir()
    return folder


def staged(folder: Path) -> list[str]:
    """Return all files of tables that are below a folder of a run; those that readers pass over are none."""
    return [
        path.relative_to(folder).as_posix()
        for name in BY_NAME
        for path in sorted((folder / name).rglob("*.parquet"))
        if not path.name.startswith(("_", "."))
    ]


def commit(archive: Path, folder: Path, remove: list[str], after: Manifest) -> None:
    """Make a change: the files below a run's folder come in, others go, and the manifest says so."""
    journal = {"move": staged(folder), "remove": sorted(remove), "manifest": after.dumps()}
    manifest.write_text(folder / _JOURNAL, json.dumps(journal))
    _replay(archive, folder)
    shutil.rmtree(folder, ignore_errors=True)


def _replay(archive: Path, folder: Path) -> None:
    """Do what a journal says; what is done already does not matter."""
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
