"""Findings for people: a table of the rules, then each finding with its explanation and the frames around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.formats import guilty_place
from analysis.rules import RULE_BY_ID
from analysis.rules.model import REASONS, Severity
from dissector.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.findings import Finding, Tally
    from analysis.inspection import Inspection
    from analysis.rules import Rule
    from analysis.transcript import Transcript
    from dissector.terminal import Terminal

_HEADINGS = ("rule", "severity", "verdict", "checked", "violated", "unknown")
_INDENT = "    "


def summary(inspection: Inspection, rules: Sequence[Rule], terminal: Terminal, *, everything: bool) -> Iterator[str]:
    """Give out the lines of the summary."""
    told = [tally for tally in inspection.tallies if everything or tally.verdict in ("violated", "unknown")]
    by_id = {rule.id: rule for rule in rules}
    yield (
        f"{inspection.frames:,} frames on {inspection.connections:,} connections, {len(inspection.tallies)} rules: "
        f"{_counts(inspection.tallies)}"
    )
    if told:
        yield ""
        yield from _table(told, by_id, terminal)
    reasons = sorted({reason for tally in told for reason in tally.unknown})
    if reasons:
        yield ""
        yield from terminal.wrap("unknown: " + "; ".join(f"{name}: {REASONS[name]}" for name in reasons))


def _counts(tallies: Sequence[Tally]) -> str:
    words = {"violated": "violated", "unknown": "undecided", "holds": "held", "unchecked": "with nothing to check"}
    counts = {verdict: sum(tally.verdict == verdict for tally in tallies) for verdict in words}
    return ", ".join(f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]) or "none"


def _table(tallies: Sequence[Tally], rules: dict[str, Rule], terminal: Terminal) -> Iterator[str]:
    rows = []
    for tally in tallies:
        rule = rules[tally.rule]
        reasons = ", ".join(sorted(tally.unknown))
        unknown = f"{tally.undecided:,}" + (f" ({reasons})" if reasons else "")
        numbers = (f"{tally.checked:,}", f"{tally.violated:,}", unknown)
        rows.append(((tally.rule, rule.severity.value, tally.verdict, *numbers), rule.title))
    widths = [max(len(_HEADINGS[at]), *(len(row[at]) for row, _ in rows)) for at in range(len(_HEADINGS))]
    heading = "  ".join(_aligned(at, text, widths[at]) for at, text in enumerate(_HEADINGS))
    yield terminal.heading(f"{heading}  what must hold")
    for row, title in rows:
        cells = [_aligned(at, text, widths[at]) for at, text in enumerate(row)]
        if row[2] == "violated":
            cells[2] = _styled(terminal, Severity(row[1]), cells[2])
        yield "  ".join([*cells, title])


def _aligned(at: int, text: str, width: int) -> str:
    return text.rjust(width) if at in (3, 4) else text.ljust(width)


def _styled(terminal: Terminal, severity: Severity, text: str) -> str:
    if severity is Severity.ERROR:
        return terminal.error(text)
    return terminal.warning(text) if severity is Severity.WARNING else terminal.name(text)


def findings(
    shown: Sequence[Finding], transcript: Transcript, terminal: Terminal, hidden: dict[str, int]
) -> Iterator[str]:
    """Give out the lines of findings; ``hidden`` counts, by rule, those that are not shown."""
    listing = Listing(terminal, transcript.numbering)
    for at, finding in enumerate(shown):
        yield ""
        yield from _finding(finding, transcript, terminal, listing)
        following = shown[at + 1].rule if at + 1 < len(shown) else None
        if following != finding.rule and hidden.get(finding.rule):
            yield ""
            yield terminal.dim(f"… and {hidden[finding.rule]:,} more of {finding.rule} (--limit 0 shows all)")


def _finding(finding: Finding, transcript: Transcript, terminal: Terminal, listing: Listing) -> Iterator[str]:
    severity = _styled(terminal, finding.severity, finding.severity.value)
    yield f"{severity} {terminal.heading(finding.id)}  {finding.title}"
    yield from terminal.wrap(_capitalized(finding.sentence) + ".", "  ")
    yield from terminal.wrap(_where(finding, transcript), "  ")
    rule = RULE_BY_ID.get(finding.rule)
    if rule is not None and rule.source:
        bugs = f" Bugs of this kind: {', '.join(rule.bugs)}." if rule.bugs else ""
        yield from (terminal.dim(line) for line in terminal.wrap(f"Source: {rule.source}.{bugs}", "  "))
    rows = transcript.of(finding)
    if rows:
        yield _INDENT + listing.heading().lstrip()
    roles = {frame.frame: frame.role for frame in reversed(finding.frames)}
    before: int | None = None
    for row in rows:
        if before is not None and row["frame"] > before + 1 and _apart(rows, row):
            yield terminal.dim(f"{_INDENT}  ⋮") if terminal.unicode else f"{_INDENT}  :"
        before = row["frame"]
        yield _marked(listing.line(row), roles.get(row["frame"]), terminal)
    yield terminal.dim(f"  Wireshark: {finding.display_filter()}")


def _apart(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> bool:
    """Tell whether frames are left out before a row: those of other connections do not count."""
    at = rows.index(row)
    return at > 0 and row["frame"] - rows[at - 1]["frame"] > 1


def _marked(line: str, role: str | None, terminal: Terminal) -> str:
    if role == "guilty":
        return terminal.error("  ▶ " if terminal.unicode else "  > ") + line
    if role is not None:
        return terminal.warning("  • " if terminal.unicode else "  * ") + line
    return _INDENT + line


def _where(finding: Finding, transcript: Transcript) -> str:
    number = transcript.numbering.numbers.get(finding.connection)
    parts = [f"Connection {number} ({finding.connection})" if number else f"Connection {finding.connection}"]
    row = transcript.rows.get(finding.guilty.frame)
    if row is not None:
        parts[0] += f" from {row['src']}:{row['sport']} to {row['dst']}:{row['dport']}"
    if finding.vbucket is not None:
        stream = f" stream id {finding.stream_id}" if finding.stream_id else ""
        parts.append(f"vbucket {finding.vbucket}{stream}")
    parts.append(guilty_place(finding))
    text = ", ".join(parts) + "."
    if finding.echoes:
        last = f", the last in frame {finding.last_echo.frame}" if finding.last_echo is not None else ""
        text += f" {finding.echoes:,} more like it go back to the same cause{last}."
    return text


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
