"""What a rule is: a declaration of what must hold. The context keeps all state.

A rule has one or more checks. A check looks at the rows of one table (or at a named part of it), and answers for each
with a term: whether it holds, and whether something makes it undecidable. Everything that neither holds nor is
undecidable is violated, so an undecided case must be named: a false alarm is worse than a missed one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from analysis.context.codes import UnknownReason
from analysis.context.losses import Doubt
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


class Fault(StrEnum):
    """Whose doing it is when a check does not hold, seen from the guilty frame or by role."""

    SENDER = "sender"  #: the side that sent the guilty frame
    RECEIVER = "receiver"  #: the side that it was sent to: it did not do what the frame asked for
    PRODUCER = "producer"
    CONSUMER = "consumer"
    CAPTURE = "capture"  #: neither: the recording shows what was not on the wire


#: A word may have facts in braces whose words have facts in braces.
_WORDS_IN_WORDS = 2


@dataclass(frozen=True, slots=True)
class Unknown:
    """A reason why a row can't be decided."""

    reason: str  #: one of :data:`REASONS`
    when: Term


#: Why something can't be decided, for people.
REASONS = {
    "gap": "bytes are missing from the capture",
    "unreadable": "a message before it could not be read, or makes no sense where it stands",
    "gap-or-unreadable": "bytes are missing, or a message could not be read: the connection has both",
    "start": "the connection's beginning was not captured",
    "end": "the capture ends too early",
    "one-sided": "what the other side had received is not known",
    "limit": "too much to remember",
    "clock": "the capture's clock was set meanwhile, so how long it took is not known",
    "setup": "what was agreed upon is not known",
    "dialect": "messages leave it open which dialect is spoken",
    "history": "the failover log by which the producer answered is not known",
    "source": "the producer may be a replica, which merges snapshots",
    "foreign": "another cluster wrote documents meanwhile, with revisions and CAS values of their own",
}

#: What checks name for anything that was lost; in the end :func:`reason_of_loss` tells by the connection what it was.
GAP = "gap"
GAP_OF_CHECKS = "something before it is missing, or could not be read"


def reason_of_loss(doubt: Doubt) -> str:
    """Return why a case is undecided that something lost leaves so, by what its connection has."""
    if doubt & Doubt.UNREAD:
        return "gap-or-unreadable" if doubt & Doubt.MISSING else "unreadable"
    if doubt & Doubt.MISSING:
        return GAP
    return "start" if doubt & Doubt.LATE else "unreadable"


@dataclass(frozen=True, slots=True)
class Check:
    """One clause of a rule."""

    over: str  #: a table of the context, or a part of one: see :mod:`analysis.rules.row_sets`
    holds: Term
    because: str  #: why it is violated, with facts in braces: "seqno {by_seqno} after {previous_seqno}"
    when: Term | None = None  #: rows that it is about; None: all
    unknown: tuple[Unknown, ...] = ()
    facts: tuple[str, ...] = ()  #: columns that become the finding's facts
    spoken: tuple[str, ...] = ()  #: further columns that the sentence names by their words
    evidence: tuple[str, ...] = ()  #: references to the frames that prove it, in addition to the guilty one
    root: str | None = None  #: column of the row that everything like it goes back to: echoes share its value
    name: str = ""  #: tells the checks of one rule apart
    severity: Severity | None = None  #: where it differs from the rule's
    #: A reference: the packets between it and the guilty frame belong to the finding, for what they hold is no frame.
    between: str = ""
    guilty: str = "guilty"  #: the reference to blame, where the row itself is only what shows it
    #: By fact, what its numbers are called in the sentence; such a word may have facts in braces itself.
    words: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    #: By column, what findings call the fact where that is another name: it is one that programs rely on.
    exported_as: Mapping[str, str] = field(default_factory=dict)
    fault: Fault = Fault.SENDER
    next_step: str = ""  #: what to look at next, where it differs from the rule's

    def sentence(self, facts: Mapping[str, int]) -> str:
        """Return why it is violated, with the numbers in it."""
        return self.filled_in(self.because, facts)

    def filled_in(self, text: str, facts: Mapping[str, int], place: Mapping[str, int | str] | None = None) -> str:
        """Return a text with facts, called by their words, and names of the finding's ``place`` in its braces."""
        spoken: dict[str, int | str] = {**(place or {}), **facts}
        if self.words:
            spoken |= {name: words.get(facts[name], str(facts[name])) for name, words in self.words.items()}
            for _ in range(_WORDS_IN_WORDS):
                spoken |= {name: str(spoken[name]).format_map(spoken) for name in self.words}
        return text.format_map(spoken)


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
    #: What to look at next, in a sentence. In braces: the facts of all its checks, and those of :data:`PLACE`.
    next_step: str = ""
    inspects: bool = False  #: it is about what is inside of documents, which not every reading looks into

    @property
    def group(self) -> str:
        """Return the first part of the id."""
        return self.id.partition("-")[0]


#: What a next step can name besides facts: the guilty frame's number and capture, the ids of connection and finding.
PLACE = ("frame", "capture", "connection", "finding")

LOST_SINCE_MARKER = Unknown("gap", col.lost_since_marker)
LOST_SINCE_PREVIOUS = Unknown("gap", col.lost_since_previous)
LOST_SINCE_ANSWER = Unknown("gap", col.lost_since_answer)
#: The stream request, and so what it asked for, is not known.
NOT_REQUESTED = (
    Unknown("start", col.presumed.equals(UnknownReason.START)),
    Unknown("gap", ~col.granted.true()),
)
#: Only messages that one dialect alone has tell the dialect of a connection whose beginning was not captured.
DIALECT_UNKNOWN = Unknown("dialect", col.since.equals(0) & ~col.is_upr & ~col.draft)
#: A frame that was searched for may be none.
SEARCHED = Unknown("gap", col.searched)
