"""How a check went, for people: what was read, a table of rules, what is not listed and why, and the last word.

Knows tallies and what was asked for; must not know frames.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from analysis.check.selection import EVERYTHING, Selection
from analysis.rules.model import REASONS, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.check.findings import Tally
    from analysis.check.inspection import Inspection
    from analysis.rules import Rule
    from dissector.terminal.style import Terminal

_HEADINGS = ("rule", "severity", "verdict", "checked", "violated", "findings", "unknown")
_NUMBERS = (3, 4, 5)
_VERDICTS = {
    "violated": "violated",
    "unknown": "undecided in part",
    "remarked": "with lesser violations only",
    "holds": "held",
    "unchecked": "with nothing to check",
}
_LEAST_TITLE = 24  #: a title that has less room goes under its row


class Totals:
    """One run, as it is summed up."""

    def __init__(self, inspection: Inspection, rules: Sequence[Rule], selection: Selection = EVERYTHING) -> None:
        self._inspection = inspection
        self._rules = {rule.id: rule for rule in rules}
        self._selection = selection
        self._findings = Counter(finding.rule for finding in inspection.findings)

    def summary(self, terminal: Terminal, *, everything: bool = False) -> Iterator[str]:
        """Give out the lines that come first."""
        inspection = self._inspection
        there = f"{_count(inspection.frames, 'frame')} on {_count(inspection.connections, 'connection')}"
        rules = _count(len(self._rules), "rule")
        yield from terminal.wrap(f"{there}, {rules}: {self._verdicts() or 'none'}.")
        told = sorted((tally for tally in inspection.tallies if everything or self._matters(tally)), key=self._order)
        if told:
            yield ""
            yield from self._table(told, terminal, everything=everything)
        reasons = sorted({reason for tally in told for reason in tally.unknown})
        if reasons:
            yield ""
            yield "unknown:"
            for name in reasons:
                yield from terminal.wrap(f"{name}: {REASONS.get(name, name)}", "  ", "    ")
        hidden = self.hidden()
        if hidden:
            yield ""
            yield from terminal.wrap(f"Not listed: {hidden}.", "", "  ")

    def closing(self, *, strict: bool = False) -> str:
        """Return the last line: how it went."""
        inspection = self._inspection
        if not inspection.frames:
            return "No frames, so nothing was checked."
        undecided = self.undecided()
        cases = f"{_count(undecided, 'case')} could not be decided" if undecided else ""
        if strict and undecided:
            cases += f", which counts as {'a violation' if undecided == 1 else 'violations'} (--strict)"
        if inspection.clean:
            hidden = "Nothing else is violated" if inspection.hidden.total() else "Nothing is violated"
            return f"{hidden}; {cases}." if cases else f"{hidden}."
        by_severity = Counter(finding.severity for finding in inspection.findings)
        parts = [_count(by_severity[each], _NOUNS[each]) for each in Severity if by_severity[each]]
        text = f"{_count(len(inspection.findings), 'finding')}: {', '.join(parts)}"
        if inspection.left_out:
            text += f"; {_count(inspection.left_out, 'more violation')} of the same rules only counted"
        return f"{text}; {cases}." if cases else f"{text}."

    def undecided(self) -> int:
        """Return how many cases could not be decided, of rules that are as bad as was asked for."""
        worst = self._selection.severity.rank
        return sum(
            tally.undecided for tally in self._inspection.tallies if self._rules[tally.rule].severity.rank <= worst
        )

    def hidden(self) -> str:
        """Say what was left out, and which option did that."""
        hidden, selection = self._inspection.hidden, self._selection
        parts = {
            "severity": f"less severe than {selection.severity.value} (--severity info lists all)",
            "connection": f"on other connections (--connection {selection.connection})",
            "vbucket": f"of other vbuckets, or of none (--vbucket {selection.vbucket})",
        }
        told = [f"{_count(hidden[name], 'violation')} {text}" for name, text in parts.items() if hidden[name]]
        if hidden["baseline"]:
            told.append(f"{_count(hidden['baseline'], 'finding')} that the baseline has")
        return "; ".join(told)

    def _verdicts(self) -> str:
        counts = Counter(_verdict(tally) for tally in self._inspection.tallies)
        return ", ".join(f"{counts[verdict]} {words}" for verdict, words in _VERDICTS.items() if counts[verdict])

    def _matters(self, tally: Tally) -> bool:
        """Tell whether a rule is in the table: it is broken or undecided, and as bad as was asked for."""
        bad_enough = self._rules[tally.rule].severity.rank <= self._selection.severity.rank
        return _verdict(tally) == "violated" or (bad_enough and _verdict(tally) == "unknown")

    def _order(self, tally: Tally) -> tuple[int, int, str]:
        return ([*_VERDICTS].index(_verdict(tally)), self._rules[tally.rule].severity.rank, tally.rule)

    def _table(self, tallies: Sequence[Tally], terminal: Terminal, *, everything: bool) -> Iterator[str]:
        rows = []
        for tally in tallies:
            unknown = f"{tally.undecided:,} {', '.join(sorted(tally.unknown))}" if tally.undecided else ""
            numbers = [tally.checked, tally.violated - tally.mild, self._findings[tally.rule]]
            cells = [f"{number:,}" if number else "" for number in numbers]
            rows.append((tally.rule, self._rules[tally.rule].severity.value, _verdict(tally), *cells, unknown))
        # Without those that hold, the numbers say it all.
        used = [at for at in range(len(_HEADINGS)) if (at != 2 or everything) and any(row[at] for row in rows)]
        widths = {at: max(len(_HEADINGS[at]), *(len(row[at]) for row in rows)) for at in used}
        start = sum(width + 2 for width in widths.values())
        beside = terminal.width - start >= _LEAST_TITLE
        heading = "  ".join(_aligned(at, _HEADINGS[at], widths[at]) for at in used)
        yield terminal.heading(f"{heading}  what must hold" if beside else heading.rstrip())
        for row in rows:
            cells = [_aligned(at, row[at], widths[at]) for at in used]
            if row[2] == "violated":
                cells[1] = styled(terminal, Severity(row[1]), cells[1])
            indent = " " * (start if beside else 4)
            first, *rest = terminal.wrap(self._rules[row[0]].title, indent) or [""]
            line = "  ".join(cells)
            if beside:
                yield f"{line}  {first.strip()}".rstrip()
            else:
                yield line.rstrip()
                yield first
            yield from rest


def _verdict(tally: Tally) -> str:
    """Return a rule's verdict in the light of what was asked for."""
    if tally.violated == tally.mild:
        return "unknown" if tally.undecided else "remarked" if tally.mild else tally.verdict
    return tally.verdict


_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _aligned(at: int, text: str, width: int) -> str:
    return text.rjust(width) if at in _NUMBERS else text.ljust(width)


def styled(terminal: Terminal, severity: Severity, text: str) -> str:
    """Return a text in the colour of a severity."""
    if severity is Severity.ERROR:
        return terminal.error(text)
    return terminal.warning(text) if severity is Severity.WARNING else terminal.name(text)
