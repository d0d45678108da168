"""All scenarios: traffic that behaves, each in the module of its theme."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from dissector.errors import UsageError
from dissector.generate.scenarios import (
    connections,
    dialects,
    everyday,
    failovers,
    framing,
    lifecycles,
    modern,
    noops,
    recent,
    relays,
    replication,
    seqnos,
    snapshots,
    special,
    takeovers,
    windows,
)

if TYPE_CHECKING:
    from dissector.generate.scenario import Scenario

_THEMES = (
    everyday,
    modern,
    replication,
    special,
    dialects,
    framing,
    connections,
    failovers,
    takeovers,
    noops,
    lifecycles,
    relays,
    snapshots,
    seqnos,
    windows,
    recent,
)

SCENARIOS: tuple[Scenario, ...] = tuple(each for theme in _THEMES for each in theme.SCENARIOS)


def scenario(name: str) -> Scenario:
    """Return the scenario of this name."""
    for each in SCENARIOS:
        if each.name == name:
            return each
    close = difflib.get_close_matches(name.lower(), [each.name for each in SCENARIOS], 3, 0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "it is none of those listed"
    raise UsageError(f"no scenario {name}: {hint}")
