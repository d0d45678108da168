"""What can be made, as text: the scenarios, the faults by rule, the bugs, and the captures that are there already.

Knows how a list looks on a terminal; must not know how anything is made.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from dissector.generate import bulk, library
from dissector.generate.bugs import BUGS
from dissector.generate.faults import FAULTS
from dissector.generate.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dissector.terminal.style import Terminal

_WIDEST_NAME = 30


def render(terminal: Terminal) -> str:
    """Return the whole list."""
    lines = [terminal.heading("scenarios")]
    known = [(each.name, each.title, f"{each.dialect}, {each.era}") for each in SCENARIOS]
    lines += _table(terminal, [*known, (bulk.NAME, bulk.TITLE, "dcp, 3.0 and later")])
    lines += ["", terminal.heading("faults, for --break")]
    faults = sorted(FAULTS, key=lambda fault: fault.rule)
    for rule, group in groupby(faults, key=lambda fault: fault.rule):
        rows = [
            (f"{rule}/{each.variant}" if each.variant else rule, each.title, f"in {each.scenario}") for each in group
        ]
        lines += _table(terminal, rows)
    lines += ["", terminal.heading("historical bugs, for --bug")]
    lines += _table(terminal, ((each.name, each.title, ", ".join(each.rules)) for each in BUGS if each.capture))
    entries = library.read()
    if entries:
        lines += ["", terminal.heading(f"captures in {library.FOLDER}/")]
        lines += _table(
            terminal, ((each.file, each.title, f"server {each.server}" if each.server else "") for each in entries)
        )
    return "\n".join(lines) + "\n"


def _table(terminal: Terminal, rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Write names and what they are; a name that is too long has a line of its own."""
    indent = " " * (_WIDEST_NAME + 4)
    for name, title, more in rows:
        text = f"{title} ({more})" if more else title
        first, *rest = terminal.wrap(text, indent, indent)
        if len(name) > _WIDEST_NAME:
            yield f"  {terminal.name(name)}"
            yield first
        else:
            yield f"  {terminal.name(name.ljust(_WIDEST_NAME))}  {first.lstrip()}"
        yield from rest
