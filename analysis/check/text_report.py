"""The text report of a check: a table of rules, the findings with the frames that prove them, a closing line.

Each rule is explained once, above its findings. Knows findings, tallies and lines of frames. File names are
escaped here, everything else that a capture controls by the listing.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from analysis.check.export import guilty_place
from analysis.check.inspection import CheckVerdict
from analysis.check.refusals import told
from analysis.check.selection import EVERYTHING, Selection
from analysis.rules import RULE_BY_ID
from analysis.rules.model import REASONS, Severity
from dissector.display.list_layout import ListForm
from dissector.display.listing import Listing
from dissector.display.times import TimeColumn
from dissector.terminal.alignment import GUTTER, pad
from dissector.terminal.style import safe_text
from dissector.terminal.text_page import TIE

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from analysis.check.findings import Finding, FrameRef, Tally
    from analysis.check.inspection import Inspection
    from analysis.check.transcript import Transcript
    from analysis.rules import Rule
    from dissector.terminal.style import Terminal

_PAUSE_NS = 5_000_000_000  #: silence that is worth a line
_WIDEST_ROLE = 16  #: columns that the names of evidence may take
_HEADINGS = ("rule", "severity", "verdict", "checked", "violated", "findings", "unknown")
_NUMBERS = (3, 4, 5)  #: of these, columns of numbers
_VERDICTS = {
    "violated": "violated",
    "unknown": "undecided in part",
    "remarked": "with lesser violations only",
    "holds": "held",
    "unchecked": "with nothing to check",
}
_NOUNS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "remark"}
_REFUSAL = "refusal"  #: role of the answer that refused the guilty message
#: Who is at fault, in words.
_PARTIES = {
    "proxy": "the proxy that plays the producer",
    "sender": "the sender, whose role is not known",
    "receiver": "the receiver, whose role is not known",
}
_COMMAND = re.compile("`[^`]*`")  #: in a next step
_INDENT = "    "  #: of a finding
_NO_MARK = "   "  #: between the role of a frame and the frame
_LEAST_TITLE = 24  #: a title that has less room goes under its row


class CheckSummary:
    """The summary of a check: the table of rules, what is not listed, and the closing line."""

    def __init__(self, inspection: Inspection, rules: Sequence[Rule], selection: Selection = EVERYTHING) -> None:
        self._inspection = inspection
        self._rules = {rule.id: rule for rule in rules}
        self._selection = selection
        self._findings = Counter(finding.rule for finding in inspection.findings)
        self._worst: dict[str, Severity] = {}  #: of the findings of a rule, which may be milder than the rule
        for finding in inspection.findings:
            self._worst.setdefault(finding.rule, finding.severity)

    def lines(self, terminal: Terminal, *, everything: bool = False) -> Iterator[str]:
        """Give out the lines that come before the findings."""
        inspection = self._inspection
        there = f"{_count(inspection.frames, 'frame')} on {_count(inspection.connections, 'connection')}"
        rules = _count(len(self._rules), "rule")
        if inspection.chosen_frames is not None:
            mine = f"{_count(inspection.chosen_frames, 'frame')} of connection {self._selection.connection}"
            there = f"{mine} ({there} in all)"
        if self._selection.vbucket is not None:
            rules = f"vbucket {self._selection.vbucket}, {rules}"
        yield from terminal.wrap(f"{there}, {rules}: {self._verdicts() or 'none'}.")
        listed = sorted((tally for tally in inspection.tallies if everything or self._matters(tally)), key=self._order)
        if listed:
            yield ""
            yield from self._table(listed, terminal, everything=everything)
        reasons = sorted({reason for tally in listed for reason in tally.unknown})
        if reasons:
            yield ""
            yield "unknown:"
            for name in reasons:
                yield from terminal.wrap(f"{name}: {REASONS.get(name, name)}", "  ", "    ")
        hidden = self.hidden()
        if hidden:
            yield ""
            yield from terminal.wrap(f"Not listed: {hidden}.", "", "  ")

    def closing(self, *, strict: bool = False, beyond: str = "only counted") -> str:
        """Return the last line: the result in a sentence; ``beyond`` is what became of those above the limit."""
        inspection = self._inspection
        if inspection.verdict is CheckVerdict.NO_MESSAGES:
            return f"No message of UPR or DCP, so nothing was checked. Seen instead: {inspection.seen_instead}."
        if inspection.verdict is CheckVerdict.NOTHING_TO_CHECK:
            about = "the rule is" if len(self._rules) == 1 else f"any of the {len(self._rules)} rules is"
            return f"Nothing to check: there is no message that {about} about."
        undecided = self.undecided()
        cases = f"{_count(undecided, 'case')} could not be decided" if undecided else ""
        if strict and undecided:
            cases += f", which counts as {'a violation' if undecided == 1 else 'violations'} (--strict)"
        if inspection.clean:
            hidden = "Nothing else is violated" if inspection.hidden.total() else "Nothing is violated"
            return f"{hidden}; {cases}." if cases else f"{hidden}."
        by_severity = Counter(finding.severity for finding in inspection.findings)
        parts = [_count(by_severity[each], _NOUNS[each]) for each in Severity if by_severity[each]]
        text = _count(len(inspection.findings), "finding")
        violations = sum(tally.violated - tally.mild for tally in inspection.tallies)
        if violations != len(inspection.findings):
            text += f" of {_count(violations, 'violation')}"
        text += f": {', '.join(parts)}"
        if inspection.left_out:
            text += f"; {_count(inspection.left_out, 'more violation')} of the same rules {beyond}"
        return f"{text}; {cases}." if cases else f"{text}."

    def undecided(self) -> int:
        """Return how many cases could not be decided, of the rules that the table is about."""
        return sum(tally.undecided for tally in self._inspection.tallies if self._matters(tally))

    def hidden(self) -> str:
        """Say what was left out, and by which option."""
        hidden, selection = self._inspection.hidden, self._selection
        parts = {
            "severity": f"less severe than {selection.severity.value} (--severity info lists all)",
            "connection": f"on other connections (--connection {selection.connection})",
            "vbucket": f"of other vbuckets, or of none (--vbucket {selection.vbucket})",
        }
        texts = [f"{_count(hidden[name], 'violation')} {text}" for name, text in parts.items() if hidden[name]]
        if hidden["baseline"]:
            texts.append(f"{_count(hidden['baseline'], 'finding')} that the baseline has")
        return "; ".join(texts)

    def _verdicts(self) -> str:
        counts = Counter(_verdict(tally) for tally in self._inspection.tallies)
        return ", ".join(f"{counts[verdict]} {words}" for verdict, words in _VERDICTS.items() if counts[verdict])

    def _matters(self, tally: Tally) -> bool:
        """Tell whether a rule is in the table: it is broken or undecided, and as severe as was asked for."""
        severe_enough = self._rules[tally.rule].severity.rank <= self._selection.severity.rank
        return _verdict(tally) == "violated" or (severe_enough and _verdict(tally) == "unknown")

    def _order(self, tally: Tally) -> tuple[int, int, str]:
        return ([*_VERDICTS].index(_verdict(tally)), self._severity(tally).rank, tally.rule)

    def _severity(self, tally: Tally) -> Severity:
        """Return how bad a rule's findings are, or else how bad it is to break it."""
        return self._worst.get(tally.rule, self._rules[tally.rule].severity)

    def _table(self, tallies: Sequence[Tally], terminal: Terminal, *, everything: bool) -> Iterator[str]:
        rows = []
        for tally in tallies:
            unknown = f"{tally.undecided:,} {', '.join(sorted(tally.unknown))}" if tally.undecided else ""
            numbers = [tally.checked, tally.violated - tally.mild, self._findings[tally.rule]]
            cells = [f"{number:,}" if number else "" for number in numbers]
            rows.append((tally.rule, self._severity(tally).value, _verdict(tally), *cells, unknown))
        # Where rules that hold are not listed, the numbers say what the verdict would.
        used = [at for at in range(len(_HEADINGS)) if (at != 2 or everything) and any(row[at] for row in rows)]
        widths = {at: max(len(_HEADINGS[at]), *(len(row[at]) for row in rows)) for at in used}
        start = sum(width + 2 for width in widths.values())
        beside = terminal.width - start >= _LEAST_TITLE
        heading = GUTTER.join(pad(_HEADINGS[at], widths[at], right=at in _NUMBERS) for at in used)
        yield terminal.heading(f"{heading}  what must hold" if beside else heading.rstrip())
        for row in rows:
            cells = [pad(row[at], widths[at], right=at in _NUMBERS) for at in used]
            if row[2] == "violated":
                cells[1] = _styled(terminal, Severity(row[1]), cells[1])
            indent = " " * (start if beside else 4)
            first, *rest = terminal.wrap(self._rules[row[0]].title, indent) or [""]
            line = GUTTER.join(cells)
            if beside:
                yield f"{line}  {first.strip()}".rstrip()
            else:
                yield line.rstrip()
                yield first
            yield from rest


def _verdict(tally: Tally) -> str:
    """Return a rule's verdict, given which severities were asked for."""
    if tally.violated == tally.mild:
        return "unknown" if tally.undecided else "remarked" if tally.mild else tally.verdict
    return tally.verdict


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _styled(terminal: Terminal, severity: Severity, text: str) -> str:
    """Return a text in the colour of a severity."""
    if severity is Severity.ERROR:
        return terminal.error(text)
    return terminal.warning(text) if severity is Severity.WARNING else terminal.name(text)


def findings(
    shown: Sequence[Finding],
    transcript: Transcript,
    terminal: Terminal,
    hidden: dict[str, int] | None = None,
    form: ListForm | None = None,
    *,
    explained: Container[str] = (),
) -> Iterator[str]:
    """Give out the lines of findings; ``hidden`` counts, by rule, those that are not shown.

    The rules in ``explained`` are only named.
    """
    form = form or ListForm()
    left = dict(hidden or {})
    groups = [list(group) for _, group in groupby(shown, key=lambda finding: (finding.rule, finding.severity))]
    for number, group in enumerate(groups):
        yield ""
        yield from _rule(group[0], terminal, brief=group[0].rule in explained)
        width = max(len(role) for finding in group for role in _roles(finding.frames).values())
        if any(transcript.refusal(finding) is not None for finding in group):
            width = max(width, len(_REFUSAL))
        for at, finding in enumerate(group):
            yield ""
            yield from _finding(finding, transcript, terminal, width, form, heading=not at)
        rule = group[0].rule
        if rule in left and all(later[0].rule != rule for later in groups[number + 1 :]):
            yield ""
            yield terminal.dim(f"  … and {left[rule]:,} more of {rule} (--limit 0 shows all)")


def _rule(finding: Finding, terminal: Terminal, *, brief: bool) -> Iterator[str]:
    """Say what a rule is about."""
    severity = _styled(terminal, finding.severity, finding.severity.value)
    yield f"{severity} {terminal.heading(finding.rule)} {finding.title}"
    rule = RULE_BY_ID.get(finding.rule)
    if rule is None or brief:
        return
    parts = [_sentence(rule.doc)]
    if rule.source:
        parts.append(_sentence(f"Source: {rule.source}"))
    if rule.bugs:
        parts.append(f"Bugs of this kind: {', '.join(rule.bugs)}.")
    parts.append(f"More: uprscope explain {rule.id}".replace(" ", TIE))
    yield from (terminal.dim(line.replace(TIE, " ")) for line in terminal.wrap(" ".join(parts), "  "))


def _finding(
    finding: Finding, transcript: Transcript, terminal: Terminal, width: int, form: ListForm, *, heading: bool
) -> Iterator[str]:
    sentence = f"{finding.id}  {_sentence(finding.sentence)}"
    first, *rest = terminal.wrap(sentence, "  ", "    ")
    yield first.replace(finding.id, terminal.heading(finding.id), 1)
    yield from rest
    about = [fault(finding, transcript)] if finding.fault else []
    refused = refusal(finding, transcript)
    yield from terminal.wrap(" ".join([*about, refused] if refused else about), "    ")
    yield from terminal.wrap(_where(finding, transcript), "    ")
    width, form = min(width, _WIDEST_ROLE), form.indented(len(_INDENT))
    for line in lines_of(finding, transcript, terminal, width, form, heading=heading):
        yield f"{_INDENT}{line}"
    yield terminal.dim(f"    Wireshark: {finding.display_filter()}")
    if finding.next_step:
        next_step = safe_text(f"Next: {finding.next_step.rstrip('.')}.")
        # A command that goes on in the next line could not be copied.
        tied = _COMMAND.sub(lambda command: command[0].replace(" ", TIE), next_step)
        yield from (terminal.dim(line.replace(TIE, " ")) for line in terminal.wrap(tied, "    "))


def lines_of(
    finding: Finding,
    transcript: Transcript,
    terminal: Terminal,
    width: int,
    form: ListForm | None = None,
    *,
    heading: bool = True,
) -> Iterator[str]:
    """Give out a finding's transcript: the frames around the guilty one, and those that prove it with their roles.

    Roles stand before the frames, in ``width`` columns.
    """
    rows = transcript.of(finding)
    margin = width + len(_NO_MARK)
    form = (form or ListForm()).indented(margin)
    if len({row["connection"] for row in rows}) == 1:  # it is named above
        form = dataclasses.replace(form, droppable=("connection", *(each for each in form.droppable if each == "time")))
    listing, times = Listing(terminal, transcript.numbering, form), TimeColumn(form.time, transcript.numbering)
    roles = _roles(finding.frames)
    refused = transcript.refusal(finding)
    if refused is not None:
        roles.setdefault(refused["frame"], _REFUSAL)
    if rows and heading:
        yield " " * margin + listing.heading()
    before: dict[str, Any] | None = None
    for row in rows:
        if before is not None:
            between = _between(before, row, transcript)
            if between:
                yield terminal.dim(f"{'':{width}} {'⋮' if terminal.unicode else ':'}      {between}")
        before = row
        first, *rest = listing.lines(row, times.text(row["time_ns"]))
        yield _margin(roles.get(row["frame"]), width, terminal) + first
        yield from (" " * margin + line for line in rest)


def _roles(frames: Sequence[FrameRef]) -> dict[int, str]:
    """Return the role of each frame in the finding; the guilty one's is empty, even if it is evidence as well."""
    roles: dict[int, str] = {}
    for frame in frames[1:]:
        name = frame.role.replace("_", " ")
        roles[frame.frame] = f"{roles[frame.frame]}, {name}" if frame.frame in roles else name
    roles[frames[0].frame] = ""
    return roles


def _margin(role: str | None, width: int, terminal: Terminal) -> str:
    if role is None:
        return " " * width + _NO_MARK
    marks = ("▶", "•") if terminal.unicode else (">", "*")
    mark = terminal.warning(marks[1]) if role else terminal.error(marks[0])
    return f"{role[:width]:>{width}} {mark} "


def _between(before: dict[str, Any], row: dict[str, Any], transcript: Transcript) -> str:
    """Say what is left out between two frames of a connection, or how long nothing happened."""
    if before["connection"] != row["connection"]:
        return ""
    left_out = transcript.place[row["frame"]] - transcript.place[before["frame"]] - 1
    pause = row["time_ns"] - before["time_ns"]
    if left_out > 0:
        frames = f"{left_out:,} frame{'s' if left_out > 1 else ''}"
        return f"{frames} in {pause / 1e9:,.1f} s" if pause >= 100_000_000 else frames
    return f"{pause / 1e9:,.1f} s of silence" if pause >= _PAUSE_NS else ""


def fault(finding: Finding, transcript: Transcript) -> str:
    """Say who is at fault, and where that is."""
    text = f"At fault: {_PARTIES.get(finding.fault, f'the {finding.fault}')}"
    row = transcript.rows.get(finding.guilty.frame)
    if row is None or finding.at_sender is None:
        return f"{text}."
    host, port = ("src", "sport") if finding.at_sender else ("dst", "dport")
    return f"{text}, {row[host]}:{row[port]}."


def refusal(finding: Finding, transcript: Transcript) -> str:
    """Say with what the receiver refused the guilty message; empty if it did not."""
    row = transcript.refusal(finding)
    if row is None:
        return ""
    other = {"producer": "consumer", "proxy": "consumer", "consumer": "producer"}
    by = other.get(finding.fault, "receiver") if finding.at_sender else "receiver"
    return safe_text(f"Refused by the {by}: {told(row).rstrip('.')}.")


def _where(finding: Finding, transcript: Transcript) -> str:
    number = transcript.numbering.numbers.get(finding.connection)
    parts = [f"Connection {number} ({finding.connection})" if number else f"Connection {finding.connection}"]
    row = transcript.rows.get(finding.guilty.frame)
    if row is not None:
        source, target = (f"{row[name]}:{row[port]}" for name, port in (("src", "sport"), ("dst", "dport")))
        parts[0] += f", {source} to {target}"
    if finding.vbucket is not None:
        stream = f", stream id {finding.stream_id}" if finding.stream_id else ""
        parts.append(f"vbucket {finding.vbucket}{stream}")
    parts.append(safe_text(guilty_place(finding)))
    text = ", ".join(parts) + "."
    if finding.echoes:
        last = f", the last in frame {finding.last_echo.frame}" if finding.last_echo is not None else ""
        goes = "goes" if finding.echoes == 1 else "go"
        text += f" {finding.echoes:,} more like it {goes} back to the same cause{last}."
    return text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
