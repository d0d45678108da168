"""Which rules to check, and which violations to tell of. Knows names and thresholds only."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from fnmatch import fnmatchcase

from analysis.rules import RULES, Rule
from analysis.rules.model import Severity
from dissector.errors import UsageError

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
        if name is not None and not self.is_number and not _is_id(name):
            raise UsageError(f"--connection {name}: give its number in listings, or its id of 16 digits")
        if self.vbucket is not None and not 0 <= self.vbucket <= 0xFFFF:
            raise UsageError(f"--vbucket {self.vbucket}: vbuckets are 0 to 65535")

    @property
    def is_number(self) -> bool:
        """Tell whether the connection is given by its number."""
        name = self.connection
        return name is not None and name.isascii() and name.isdigit() and len(name) < 16

    def place(self, names: list[str]) -> int:
        """Return where the connection is among all, in the order they came up; -1: not yet there."""
        if self.connection is None:
            return -1
        if self.is_number:
            return int(self.connection) - 1
        return names.index(self.connection.lower()) if self.connection.lower() in names else -1

    def confirm(self, names: list[str]) -> None:
        """Raise UsageError, when everything was read, if the connection was not there."""
        if self.connection is None or 0 <= self.place(names) < len(names):
            return
        there = {0: "no connection has frames", 1: "the only connection is 1"}
        known = there.get(len(names), f"connections are 1 to {len(names)}")
        raise UsageError(f"--connection {self.connection}: no such connection ({known})")

    def keeps(self, name: str) -> bool:
        """Tell whether a finding of this id is wanted."""
        return name not in self.known and (self.only is None or name in self.only)


def _is_id(text: str) -> bool:
    return len(text) == 16 and all(character in "0123456789abcdef" for character in text.lower())


EVERYTHING = Selection()
