"""Where a command's output goes, and in which format: the options of every command that writes more than text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dissector.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FORMATS = ("text", "json", "ndjson", "csv", "parquet", "arrow")
_BINARY = frozenset(("parquet", "arrow"))
#: Endings of files that are not called as their format.
_ENDINGS = {"txt": "text", "jsonl": "ndjson", "pq": "parquet", "xml": "junit"}


def add_target_arguments(group: argparse._ArgumentGroup, formats: Sequence[str] = FORMATS) -> None:
    """Declare the form and the file."""
    group.add_argument("--format", choices=formats, help="form of the output (default: by the file's name, else text)")
    group.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    group.add_argument("-o", "--output", metavar="FILE", help="write to a file; it appears when it is complete")


def choose_format(args: argparse.Namespace, formats: Sequence[str] = FORMATS) -> None:
    """Decide on the form, if that was not said; raises UsageError for one that a terminal can't show."""
    if args.format is None:
        ending = (args.output or "").rpartition(".")[2].lower()
        form = _ENDINGS.get(ending, ending)
        args.format = form if form in formats else "text"
    if args.format in _BINARY and args.output in (None, "-") and sys.stdout.isatty():
        raise UsageError(f"{args.format} is not for terminals: give a file with -o, or a pipe")
