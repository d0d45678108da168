"""The part of a report that tells findings: each with its rule, its frames, its transcript and a filter to copy."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from analysis.check import text_report as plain_text
from analysis.report.html import Heading, Html, element, joined, lines, table
from analysis.rules import RULE_BY_ID
from dissector.terminal.style import Terminal, safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from analysis.check.findings import Finding, FrameRef
    from analysis.report.collect import ReportData

_TERMINAL = Terminal(width=100)
_ROLES = 16  #: columns that the names of evidence may take
_OPEN = 1  #: findings that are open from the beginning


def section(found: ReportData, ladders: Mapping[str, Html]) -> Html:
    """Tell all findings."""
    shown = found.shown
    if not shown:
        if not found.inspection.findings:
            return element("p", "Nothing that was asked for is violated.")
        return element("p", "None is told in full.")
    told = [_finding(finding, found, ladders.get(finding.id), opened=at < _OPEN) for at, finding in enumerate(shown)]
    return joined((element("div", *told, id="findings-list"), *_left_out(found)))


def _left_out(found: ReportData) -> list[Html]:
    all_of = Counter(finding.rule for finding in found.inspection.findings)
    shown = Counter(finding.rule for finding in found.shown)
    notes = [
        f"{all_of[rule] - shown[rule]:,} more of {rule} are not told here: uprscope check --rules {rule} --limit 0."
        for rule in all_of
        if all_of[rule] > shown[rule]
    ]
    if found.inspection.left_out:
        notes.append(f"{found.inspection.left_out:,} more violations were counted, but not kept.")
    return [element("p", note, class_="quiet") for note in notes]


def _finding(finding: Finding, found: ReportData, ladder: Html | None, *, opened: bool) -> Html:
    severity = finding.severity.value
    rule = RULE_BY_ID.get(finding.rule)
    about = [element("strong", f"{finding.rule}: {finding.title}. ")]
    if rule is not None:
        about.append(element("span", _sentence(rule.doc)))
        if rule.source:
            about.append(element("span", f" Source: {rule.source.rstrip('.')}."))
        if rule.bugs:
            about.append(element("span", f" Bugs of this kind: {', '.join(rule.bugs)}."))
    inside = [
        element("p", *about),
        element("p", element("strong", "What happened: "), _sentence(finding.sentence), _echoes(finding)),
        _frames(finding, found),
        _transcript(finding, found),
        element(
            "p",
            "Wireshark: ",
            element("code", finding.display_filter(), class_="copy"),
            element("span", f" in {safe_text(finding.guilty.capture)}", class_="quiet"),
        ),
        ladder or Html(""),
    ]
    summary = element(
        "summary",
        element("span", severity, class_=f"tag {severity}"),
        " ",
        element("strong", finding.id),
        " ",
        _sentence(finding.sentence),
    )
    return element("details", summary, element("div", *inside), id=finding.id, class_="finding", open=opened)


def _echoes(finding: Finding) -> str:
    if not finding.echoes:
        return ""
    goes = "goes" if finding.echoes == 1 else "go"
    return f" {finding.echoes:,} more like it {goes} back to the same cause."


def _frames(finding: Finding, found: ReportData) -> Html:
    number = found.told[finding.id][0].numbering.numbers.get(finding.connection)
    parts = [f"connection {number} ({finding.connection})" if number else f"connection {finding.connection}"]
    if finding.vbucket is not None:
        stream = f", stream id {finding.stream_id}" if finding.stream_id else ""
        parts.append(f"vbucket {finding.vbucket}{stream}")
    headings = [Heading("what it is"), Heading("frame", right=True), Heading("packets"), Heading("time, UTC")]
    rows = [_row(frame) for frame in finding.frames]
    caption = f"Frames that prove it: {', '.join(parts)}"
    return table(f"frames-{finding.id}", caption, headings, rows, fixed=True)


def _row(frame: FrameRef) -> list[object]:
    packets = str(frame.packet_first)
    if frame.packet_last != frame.packet_first:
        packets += f" to {frame.packet_last}"
    return [frame.role.replace("_", " "), f"{frame.frame:,}", packets, time_of(frame.time_ns)]


def time_of(time_ns: int) -> str:
    """Write a time; one that no calendar has stays a number."""
    try:
        begin = datetime.fromtimestamp(time_ns // 10**9, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ns} ns"
    return f"{begin:%Y-%m-%d %H:%M:%S}.{time_ns % 10**9:09d}"


def _transcript(finding: Finding, found: ReportData) -> Html:
    transcript, there = found.told[finding.id]
    told = list(plain_text.lines_of(there, transcript, _TERMINAL, _width(there)))
    if not told:
        return element("p", "The frames themselves are not here.", class_="quiet")
    return element("pre", lines(told), tabindex="0", role="region", aria_label=f"transcript of {finding.id}")


def _width(finding: Finding) -> int:
    """Return how wide the names of evidence are."""
    return min(max((len(frame.role) for frame in finding.frames[1:]), default=0), _ROLES)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
