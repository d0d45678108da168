"""What a rule is: a declaration of what must hold. The context keeps all state.

A rule has one or more checks. A check looks at the rows of one table (or at a named part of it), and answers for each
with a term: whether it holds, and whether something makes it undecidable. Everything that neither holds nor is
undecidable is violated, so an undecided case must be named: a false alarm is worse than a missed one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from analysis.rules.expressions import Term, col

if TYPE_CHECKING:
    from collections.abc import Mapping


class Severity(StrEnum):
    """How bad it is when a rule does not hold."""

    ERROR = "error"  #: the protocol is violated, or data is at risk
    WARNING = "warning"  #: suspicious, or bad for performance
    INFO = "info"  #: worth knowing

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return ("error", "warning", "info").index(self.value)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A reason why a row can't be decided."""

    reason: str  #: one of :data:`REASONS`
    when: Term


#: Why something can't be decided, for people.
REASONS = {
    "gap": "bytes are missing from the capture, or a message before it could not be read",
    "start": "the connection's beginning was not captured",
    "end": "the capture ends too early",
    "one-sided": "what the other side had received is not known",
    "limit": "too much to remember",
    "setup": "what was agreed upon is not known",
    "source": "the producer may be a replica, which merges snapshots",
    "foreign": "other clusters wrote documents, with revisions and CAS values of their own",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One clause of a rule."""

    over: str  #: a table of the context, or a part of one: see :mod:`analysis.rules.row_sets`
    holds: Term
    because: str  #: why it is violated, with facts in braces: "seqno {by_seqno} after {previous_seqno}"
    when: Term | None = None  #: rows that it is about; None: all
    unknown: tuple[Unknown, ...] = ()
    facts: tuple[str, ...] = ()  #: columns that become the finding's facts
    evidence: tuple[str, ...] = ()  #: references to the frames that prove it, in addition to the guilty one
    root: str | None = None  #: column of the row that everything like it goes back to: echoes share its value
    name: str = ""  #: tells the checks of one rule apart
    severity: Severity | None = None  #: where it differs from the rule's
    guilty: str = "guilty"  #: the reference to blame, where the row itself is only what shows it
    #: By fact, what its numbers are called in the sentence; such a word may have facts in braces itself.
    words: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    #: By column, what findings call the fact where that is another name: it is one that programs rely on.
    exported_as: Mapping[str, str] = field(default_factory=dict)

    def sentence(self, facts: Mapping[str, int]) -> str:
        """Return why it is violated, with the numbers in it."""
        if not self.words:
            return self.because.format_map(facts)
        spoken: dict[str, int | str] = dict(facts)
        spoken |= {name: words.get(facts[name], str(facts[name])) for name, words in self.words.items()}
        return self.because.format_map(spoken).format_map(spoken)


@dataclass(frozen=True, slots=True)
class Excuse:
    """A case that looks like a violation and is none."""

    title: str
    scenario: str = ""  #: of the generator: traffic that shows it


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue. The id is stable."""

    id: str
    severity: Severity
    title: str  #: what must hold, in a line
    doc: str  #: what must hold, in full
    checks: tuple[Check, ...]
    dialects: tuple[str, ...] = ("upr", "dcp")
    since: str = ""  #: the release from which on it holds
    excuses: tuple[Excuse, ...] = ()
    source: str = ""
    bugs: tuple[str, ...] = ()  #: historical defects that it would have shown
    limits: str = ""  #: what of it can't be decided from a capture

    @property
    def group(self) -> str:
        """Return the first part of the id."""
        return self.id.partition("-")[0]


LOST_SINCE_MARKER = Unknown("gap", col.lost_since_marker)
LOST_SINCE_PREVIOUS = Unknown("gap", col.lost_since_previous)
LOST_SINCE_BEGIN = Unknown("gap", col.lost_since_begin)
UNOPENED = Unknown("start", ~col.opened.true())
