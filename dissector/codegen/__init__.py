"""Files that are derived from the spec: which there are, how to write them, and which have gone stale.

A generator is a module with ``render() -> str``. Adding one is a line in :data:`FILES`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Every generated file below the repository's root, and the module that renders it.
FILES: dict[str, str] = {
    "docs/protocol.md": "dissector.codegen.reference_page",
    "docs/frames.md": "dissector.codegen.frames_page",
    "docs/frames.schema.json": "dissector.codegen.frames_json_schema",
    "docs/connections.md": "dissector.codegen.connections_page",
    "captures/README.md": "dissector.codegen.captures_page",
    "dissector/generate/scapy_layers.py": "dissector.codegen.scapy_layers",
}

ROOT = Path(__file__).resolve().parents[2]


def render(name: str, files: Mapping[str, str] = FILES) -> str:
    """Return what a generated file should hold."""
    text = importlib.import_module(files[name]).render()
    if not isinstance(text, str):
        raise TypeError(f"{files[name]}.render() did not return text")
    return text


def stale(root: Path = ROOT, files: Mapping[str, str] = FILES) -> list[str]:
    """Name the generated files that are missing or hold something else than they should."""
    return [name for name in files if _current(root / name) != render(name, files)]


def write(root: Path = ROOT, files: Mapping[str, str] = FILES) -> list[str]:
    """Bring every stale file up to date, each complete or not at all, and name them."""
    changed = stale(root, files)
    for name in changed:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.new")
        draft.write_text(render(name, files), encoding="utf-8", newline="\n")
        draft.replace(path)
    return changed


def _current(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
