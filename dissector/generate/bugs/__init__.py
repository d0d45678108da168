"""All historical bugs that the rules know by number, each in the module of its theme."""

from __future__ import annotations

import re
from itertools import chain

from dissector.errors import UsageError
from dissector.generate.bugs import (
    connections,
    documents,
    failover,
    flow_control,
    snapshot_starts,
    snapshots,
    streams,
    sync_writes,
    takeovers,
    without_capture,
)
from dissector.generate.bugs.model import Bug

__all__ = ["BUGS", "BUG_BY_NAME", "Bug", "bug", "bug_name"]

_THEMES = (
    streams,
    snapshots,
    snapshot_starts,
    documents,
    sync_writes,
    flow_control,
    connections,
    failover,
    takeovers,
    without_capture,
)

#: By number.
BUGS: tuple[Bug, ...] = tuple(
    sorted(chain.from_iterable(theme.BUGS for theme in _THEMES), key=lambda each: each.number)
)
BUG_BY_NAME: dict[str, Bug] = {each.name: each for each in BUGS}
_WRITTEN = re.compile(r"(?:MB[-_ ]?)?([0-9]{4,6})\Z", re.IGNORECASE)

if len(BUG_BY_NAME) != len(BUGS):
    raise ValueError("a bug is declared twice")


def bug_name(text: str) -> str | None:
    """Return the name of the bug that a text may mean: MB-16042, mb16042, 16042; None: it looks like none."""
    found = _WRITTEN.match(text)
    return f"MB-{int(found[1])}" if found else None


def bug(text: str) -> Bug:
    """Return the bug of this number."""
    name = bug_name(text)
    if name in BUG_BY_NAME:
        return BUG_BY_NAME[name]
    # The last digit is wrong or missing, or there is one too many: nothing else of a number can be guessed.
    close = [known for known in BUG_BY_NAME if name and known[:-1] in (name, name[:-1])]
    hint = f"did you mean {' or '.join(close[:3])}?" if close else "uprscope explain bugs lists them"
    raise UsageError(f"no bug is called '{text}' ({hint})")
