"""The findings of a report: each with its rule, its frames, its transcript and a filter to copy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from analysis.check import text_report as plain_text
from analysis.report.table import PageColumn, PageTable
from analysis.report.verdicts import MARKS
from analysis.rules import RULE_BY_ID
from dissector.terminal.style import Terminal, safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from analysis.check.findings import Finding, FrameRef
    from analysis.report.collect import ReportData
    from analysis.report.pictures import Picture

_TERMINAL = Terminal(width=100)
_ROLES = 16  #: most characters of a role beside the transcript


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding as sentences and tables."""

    id: str
    severity: str
    mark: str  #: of the severity
    rule: str  #: its id and title
    about: Sequence[str]  #: what the rule demands, where that is written, bugs of this kind
    sentence: str
    echoes: str
    refusal: str  #: a sentence; empty: nobody refused it
    fault: str  #: a sentence; empty: not known
    next_step: Sequence[str]  #: words and commands in turn; empty: nothing comes next
    evidence: PageTable
    transcript: Sequence[str]
    display_filter: str
    capture: str
    ladder: Picture | None


@dataclass(frozen=True, slots=True)
class ShownFindings:
    """Findings that are shown in full, and notes on those that are not."""

    shown: Sequence[ShownFinding]
    any: bool  #: there are findings, shown or not
    notes: Sequence[str]


def findings(data: ReportData, ladders: Mapping[str, Picture]) -> ShownFindings:
    """Return the findings that are shown in full."""
    shown = [_finding(finding, data, ladders.get(finding.id)) for finding in data.shown]
    return ShownFindings(shown, bool(data.inspection.findings), _left_out(data))


def _left_out(data: ReportData) -> list[str]:
    all_of = Counter(finding.rule for finding in data.inspection.findings)
    shown = Counter(finding.rule for finding in data.shown)
    notes = [
        f"{all_of[rule] - shown[rule]:,} more of {rule} are not told here: uprscope check --rules {rule} --limit 0."
        for rule in all_of
        if all_of[rule] > shown[rule]
    ]
    if data.inspection.left_out:
        notes.append(f"{data.inspection.left_out:,} more violations were counted, but not kept.")
    return notes


def _finding(finding: Finding, data: ReportData, ladder: Picture | None) -> ShownFinding:
    return ShownFinding(
        id=finding.id,
        severity=finding.severity.value,
        mark=MARKS[finding.severity],
        rule=f"{finding.rule}: {finding.title}",
        about=_about(finding.rule),
        sentence=_sentence(finding.sentence),
        refusal=plain_text.refusal(data.transcripts[finding.id][1], data.transcripts[finding.id][0]),
        echoes=_echoes(finding),
        fault=plain_text.fault(finding, data.transcripts[finding.id][0]) if finding.fault else "",
        next_step=safe_text(f"{finding.next_step.rstrip('.')}.").split("`") if finding.next_step else (),
        evidence=_evidence(finding, data),
        transcript=_transcript(finding, data),
        display_filter=finding.display_filter(),
        capture=safe_text(finding.guilty.capture),
        ladder=ladder,
    )


def _about(name: str) -> list[str]:
    rule = RULE_BY_ID.get(name)
    if rule is None:
        return []
    about = [_sentence(rule.doc)]
    if rule.source:
        about.append(f" Source: {rule.source.rstrip('.')}.")
    if rule.bugs:
        about.append(f" Bugs of this kind: {', '.join(rule.bugs)}.")
    return about


def _echoes(finding: Finding) -> str:
    if not finding.echoes:
        return ""
    goes = "goes" if finding.echoes == 1 else "go"
    return f" {finding.echoes:,} more like it {goes} back to the same cause."


def _evidence(finding: Finding, data: ReportData) -> PageTable:
    number = data.transcripts[finding.id][0].numbering.numbers.get(finding.connection)
    parts = [f"connection {number} ({finding.connection})" if number else f"connection {finding.connection}"]
    if finding.vbucket is not None:
        stream = f", stream id {finding.stream_id}" if finding.stream_id else ""
        parts.append(f"vbucket {finding.vbucket}{stream}")
    columns = [
        PageColumn("what it is"),
        PageColumn("frame", right=True),
        PageColumn("packets"),
        PageColumn("time, UTC"),
    ]
    rows = [_row(frame) for frame in finding.frames]
    return PageTable(f"frames-{finding.id}", f"Frames that prove it: {', '.join(parts)}", columns, rows, fixed=True)


def _row(frame: FrameRef) -> list[str]:
    packets = str(frame.packet_first)
    if frame.packet_last != frame.packet_first:
        packets += f" to {frame.packet_last}"
    return [frame.role.replace("_", " "), f"{frame.frame:,}", packets, time_of(frame.time_ns)]


def time_of(time_ns: int) -> str:
    """Write a time in UTC, or in nanoseconds if it is beyond the calendar."""
    try:
        begin = datetime.fromtimestamp(time_ns // 10**9, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ns} ns"
    return f"{begin:%Y-%m-%d %H:%M:%S}.{time_ns % 10**9:09d}"


def _transcript(finding: Finding, data: ReportData) -> list[str]:
    transcript, there = data.transcripts[finding.id]
    return list(plain_text.lines_of(there, transcript, _TERMINAL, _width(there)))


def _width(finding: Finding) -> int:
    """Return the width of the roles beside the transcript."""
    return min(max((len(frame.role) for frame in finding.frames[1:]), default=len("refusal")), _ROLES)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
