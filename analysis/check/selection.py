"""Which rules to check, and which violations to tell of. Knows names and thresholds only."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from analysis.rules import RULES, Rule
from analysis.rules.model import Severity
from dissector.errors import UsageError
from dissector.frames.connection_numbers import is_name, no_such_connection, place_of

if TYPE_CHECKING:
    from analysis.context import Table
    from dissector.array_types import Mask

_SPECIAL = frozenset("*?[")  #: what makes a name a pattern


def rules_of(text: str | None, option: str = "--rules") -> tuple[Rule, ...]:
    """Read a list of rules, groups and patterns such as ``FOL-*``; None: all."""
    if text is None:
        return RULES
    names = [name.strip().upper() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option}: give at least one rule or group, such as SEQ-01, SNP or 'FLC-*'")
    chosen: set[str] = set()
    for name in names:
        found = {rule.id for rule in RULES if fnmatchcase(rule.id, name) or fnmatchcase(rule.group, name)}
        if not found and _SPECIAL.intersection(name):
            raise UsageError(f"{option}: no rule matches {name!r} (uprscope explain rules lists them)")
        if not found:
            raise UsageError(f"{option}: no rule {name!r} ({hint(name)})")
        chosen |= found
    return tuple(rule for rule in RULES if rule.id in chosen)


def hint(name: str) -> str:
    """Return what a misspelt rule may have meant."""
    known = sorted({*(rule.id for rule in RULES), *(rule.group for rule in RULES)})
    close = difflib.get_close_matches(name.upper()[:40], known, 1)
    return f"did you mean {close[0]}?" if close else "uprscope explain rules lists them"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which violations become findings. What is not chosen is counted, by the reason."""

    severity: Severity = Severity.INFO  #: at least this bad
    connection: str | None = None  #: its number in listings, or its id
    vbucket: int | None = None
    known: frozenset[str] = frozenset()  #: findings of before
    only: frozenset[str] | None = None  #: these findings and no others; None: any

    def __post_init__(self) -> None:
        name = self.connection
        if is_name(name):
            raise UsageError(f"--connection {name}: give its number in listings, or its id of 16 digits")
        if self.vbucket is not None and not 0 <= self.vbucket <= 0xFFFF:
            raise UsageError(f"--vbucket {self.vbucket}: vbuckets are 0 to 65535")

    def place(self, names: list[str]) -> int:
        """Return where the connection is among all, in the order they came up; -1: not yet there."""
        return place_of(self.connection, names) if self.connection is not None else -1

    def wanted(self, names: list[str]) -> dict[str, int]:
        """Return the columns of tables that tell what is chosen, and the value that each must have."""
        found = {}
        if self.connection is not None:
            found["connection"] = self.place(names)
        if self.vbucket is not None:
            found["vbucket"] = self.vbucket
        return found

    def rows(self, table: Table, names: list[str]) -> Mask | None:
        """Return which rows of a table are about what is chosen; None: all."""
        chosen: Mask | None = None
        for name, value in self.wanted(names).items():
            fits = table[name] == value
            chosen = fits if chosen is None else chosen & fits
        return chosen

    def confirm(self, names: list[str]) -> None:
        """Raise UsageError, when everything was read, if the connection was not there."""
        if self.connection is not None and (missing := no_such_connection(self.connection, names)):
            raise UsageError(missing)

    def keeps(self, name: str) -> bool:
        """Tell whether a finding of this id is wanted."""
        return name not in self.known and (self.only is None or name in self.only)


EVERYTHING = Selection()
