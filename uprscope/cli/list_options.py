"""How a list of frames is written: its time column, its width, and what becomes of lines that are too long."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dissector.display.times import BY_NAME, FORMATS, RELATIVE
from dissector.errors import UsageError
from dissector.terminal.pager import scrolls_sideways
from dissector.terminal.style import MAX_WIDTH, MIN_WIDTH, line_width, text_width

if TYPE_CHECKING:
    from dissector.display.list_layout import ListForm

_MOST = 100_000  #: columns that make sense


def add_list_arguments(group: argparse._ArgumentGroup, *, neighbours: bool = True) -> None:
    """Declare them; without ``neighbours``, formats of time that look at other frames are left out."""
    known = [each for each in FORMATS if neighbours or not each.neighbours]
    told = ", ".join(f"{each.name} {each.word}" for each in known)
    group.add_argument(
        "-t",
        "--time-format",
        choices=[name for each in known for name in (each.name, each.word)],
        metavar="FORMAT",
        help=f"what the time column shows: {told} (default: r)",
    )
    group.add_argument(
        "--width",
        type=_width,
        metavar="N",
        help="chop lines of the list at N columns (default: those of the terminal; pipes and files get all)",
    )
    group.add_argument("--wrap", action="store_true", help="long lines of the list go on in the next one")


def _width(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not MIN_WIDTH <= int(text[:9]) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of columns from {MIN_WIDTH} on")
    return int(text)


def refuse_list_options(args: argparse.Namespace) -> None:
    """Raise UsageError if something is said about the list, and none will be written."""
    for name, given in (("-t", args.time_format), ("--width", args.width), ("--wrap", args.wrap)):
        if given:
            raise UsageError(f"{name} is about the list of frames as text: it goes with neither --format nor --fields")


def list_form(args: argparse.Namespace, *, paged: bool) -> ListForm:
    """Read how the list is to be written; ``paged``: by way of a pager, if there is one."""
    from dissector.display.list_layout import ListForm, Overflow  # noqa: PLC0415 - text only

    room = args.width
    if room is None and args.output in (None, "-"):
        room = line_width(sys.stdout)
    if args.wrap:
        overflow, room = Overflow.WRAP, room or text_width(sys.stdout)
    elif room is None or (args.width is None and scrolls_sideways(wanted=paged)):
        overflow = Overflow.WHOLE
    else:
        overflow = Overflow.CHOP
    asked = args.time_format is not None
    time = BY_NAME[args.time_format] if asked else RELATIVE
    return ListForm(room, overflow, time, ("connection",) if asked else ("time", "connection"))


def prose_width(args: argparse.Namespace, width: int) -> int:
    """Return how wide the text around lists gets."""
    return width if args.width is None else min(args.width, MAX_WIDTH)
