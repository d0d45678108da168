"""``python -m uprscope.make_captures``: make every synthetic capture of the repository anew, and their index.

``dissector.generate.library`` says which there are; each is made by running its command. For ``make captures``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.generate.library import FOLDER, INDEX, MADE, ROOT, planned, written
from uprscope import cli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissector.generate.library import LibraryEntry


def make(entry: LibraryEntry, folder: Path) -> LibraryEntry:
    """Make a synthetic capture below a folder; return its entry, complete."""
    target = folder / entry.file
    target.parent.mkdir(parents=True, exist_ok=True)
    truth = target.with_name(f".{target.name}.truth.json")
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:  # what was written goes without saying
            status = cli.main([*entry.words(folder), "--truth", str(truth)])
        if status:
            raise RuntimeError(f"{entry.command}: exit status {status}: {said.getvalue().strip()}")
        facts = json.loads(truth.read_text(encoding="utf-8"))
    finally:
        truth.unlink(missing_ok=True)
    if not facts["broken"]:
        return entry
    broken = facts["broken"][0]
    return replace(entry, wrong=broken["because"], packets=tuple(broken["packets"]))


def refresh(root: Path = ROOT) -> list[str]:
    """Make every synthetic capture anew, and the index; return the names of the files that have changed."""
    home = root / FOLDER
    changed, entries = [], []
    with tempfile.TemporaryDirectory() as temporary:
        for plan in planned():
            entry = make(plan, Path(temporary))
            entries.append(entry)
            fresh, kept = Path(temporary, entry.file), home / entry.file
            if not kept.exists() or kept.read_bytes() != fresh.read_bytes():
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(fresh.read_bytes())
                changed.append(entry.file)
    for folder in ("clean", "broken", "bugs", "rough"):
        for stray in sorted((home / folder).glob("*.pcap*")):
            name = f"{folder}/{stray.name}"
            if name not in {entry.file for entry in entries}:
                stray.unlink()
                changed.append(name)
    index = home / INDEX
    before = index.read_text(encoding="utf-8")
    after = before.partition(MADE)[0] + MADE + "".join(f"\n{written(entry)}" for entry in entries)
    if after != before:
        index.write_text(after, encoding="utf-8")
        changed.append(INDEX)
    return changed


def main(argv: Sequence[str] | None = None) -> int:
    """Make the library anew, and name what has changed."""
    parser = argparse.ArgumentParser(prog="python -m uprscope.make_captures", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: this one)")
    args = parser.parse_args(argv)
    if not (args.root / FOLDER / INDEX).is_file():
        parser.error(f"{args.root} is not a checkout of the repository; name one with --root")
    with contextlib.redirect_stdout(sys.stderr):  # nothing but names goes to stdout
        changed = refresh(args.root)
    for name in changed:
        print(f"{FOLDER}/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
