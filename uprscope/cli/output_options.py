"""Where a command's output goes, in which format, and what is said of it: for every command that writes files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.terminal.style import one_line, safe_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FORMATS = ("text", "json", "ndjson", "csv", "parquet", "arrow")
STANDARD_OUTPUT = "-"
_BINARY = frozenset(("parquet", "arrow"))
#: The endings of files in each format, but for those that are called as the format.
_ENDINGS = {"text": ("txt",), "ndjson": ("ndjson", "jsonl"), "parquet": ("parquet", "pq"), "junit": ("xml",)}


def add_target_arguments(group: argparse._ArgumentGroup, formats: Sequence[str] = FORMATS) -> None:
    """Declare the form and the file."""
    group.add_argument("--format", choices=formats, help="form of the output (default: by the file's name, else text)")
    group.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write to a file, whose ending tells the form; it appears when it is complete",
    )


def choose_format(args: argparse.Namespace, formats: Sequence[str] = FORMATS, *, tsv: bool = False) -> None:
    """Decide on the form, if that was not said; raises UsageError for one that a terminal can't show.

    ``tsv``: the text has columns with tabs between them.
    """
    if args.format is None:
        forms = {ending: form for form in formats for ending in _ENDINGS.get(form, (form,))}
        if tsv:
            forms["tsv"] = "text"
        ending = known_ending(args.output, "-o", tuple(forms), otherwise="--format goes before the name")
        args.format = forms.get(ending, "text")
    if args.format in _BINARY and not is_file(args.output) and sys.stdout.isatty():
        raise UsageError(f"{args.format} is not for terminals: give a file with -o, or a pipe")


def is_file(path: str | None) -> bool:
    """Tell whether an output is a file, and not standard output."""
    return path not in (None, STANDARD_OUTPUT)


def _is_device(path: Path) -> bool:
    """Tell whether a name is that of a pipe or device, such as /dev/null: it says nothing about the form."""
    return path.exists() and not path.is_file()


def known_ending(path: str | None, option: str, known: Sequence[str], *, otherwise: str = "") -> str:
    """Return the ending of a file's name in small letters, without the dot; empty where it has none.

    Raises UsageError for an ending that is not known: what is written would not be what the name says. ``otherwise``
    says what else the user can do.
    """
    if path is None or path == STANDARD_OUTPUT or _is_device(Path(path)):
        return ""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending and ending not in known:
        listed = ", ".join(f".{each}" for each in known)
        more = f"; {otherwise}" if otherwise else ""
        raise UsageError(f"{option} {path}: unknown ending .{ending} (known: {listed}{more})")
    return ending


def tell_written(path: str | None, what: str) -> None:
    """Say on stderr that a file was written, and what is in it; nothing of standard output, pipes and devices."""
    if path is None or path == STANDARD_OUTPUT or _is_device(Path(path)):
        return
    sys.stderr.write(f"uprscope: wrote {safe_text(path)}: {one_line(what)}\n")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 frame, 1,234 frames."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
