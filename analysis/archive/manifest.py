"""The manifest: the rings of an archive, their captures as they were read, and every file of every table.

Knows the format of ``manifest.json``. The manifest is written last: a file that it does not name is no part of the
archive.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analysis.archive.rings import Capture, Ring
from dissector.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "manifest.json"
FORM = 2


@dataclass(slots=True)
class ManifestEntry:
    """A ring in the archive."""

    place: str
    captures: tuple[Capture, ...]
    files: list[str] = field(default_factory=list)  #: of all tables, relative to the archive
    frames: int = 0
    connections: int = 0
    left_out: int = 0  #: captures in quarantine
    damaged: int = 0

    def holds(self, ring: Ring) -> bool:
        """Tell whether a ring is unchanged."""
        return self.captures == ring.captures


@dataclass(slots=True)
class Manifest:
    """The contents of an archive."""

    made_by: str = ""  #: what decides the rows besides the captures: release, options, rules
    rings: dict[str, ManifestEntry] = field(default_factory=dict)
    across: list[str] = field(default_factory=list)  #: files of the rules across connections
    across_of: dict[str, str] = field(default_factory=dict)  #: hash of each ring when these were made

    def dumps(self) -> str:
        """Serialize to JSON."""
        document = {
            "form": FORM,
            "made_by": self.made_by,
            "rings": {name: _as_json(entry) for name, entry in sorted(self.rings.items())},
            "across": self.across,
            "across_of": self.across_of,
        }
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def loads(cls, text: str, name: str = NAME) -> Manifest:
        """Parse JSON."""
        try:
            document = json.loads(text)
            if document["form"] != FORM:
                raise UsageError(f"{name}: of a form that this release does not know; choose another folder")
            entries = {key: _entry(entry) for key, entry in document["rings"].items()}
            return cls(document["made_by"], entries, document["across"], dict(document["across_of"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{name}: is no manifest of an archive") from error


def read(folder: Path) -> Manifest:
    """Return the manifest of an archive; an empty one for a new archive."""
    path = folder / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Manifest()
    return Manifest.loads(text, str(path))


def write_text(path: Path, text: str) -> None:
    """Write a file completely or not at all, even at a power failure."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def _as_json(entry: ManifestEntry) -> dict[str, Any]:
    return {
        "place": entry.place,
        "captures": [[each.path, each.size, each.mtime_ns] for each in entry.captures],
        "files": sorted(entry.files),
        "frames": entry.frames,
        "connections": entry.connections,
        "left_out": entry.left_out,
        "damaged": entry.damaged,
    }


def _entry(plain: dict[str, Any]) -> ManifestEntry:
    captures = tuple(Capture(path, size, mtime) for path, size, mtime in plain["captures"])
    counts = {name: plain[name] for name in ("frames", "connections", "left_out", "damaged")}
    return ManifestEntry(plain["place"], captures, plain["files"], **counts)
