"""Findings for people: each rule once with what it is about, then its findings with the frames that prove them.

Knows findings and lines of frames; must not know how either is come by. Whatever a capture or a file's name brings
along is escaped: frames by the listing, names here.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from analysis.check.export import guilty_place
from analysis.check.totals import styled
from analysis.rules import RULE_BY_ID
from dissector.display.listing import Listing
from dissector.terminal.style import safe_text
from dissector.terminal.text_page import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analysis.check.findings import Finding, FrameRef
    from analysis.check.transcript import Transcript
    from dissector.terminal.style import Terminal

_PAUSE_NS = 5_000_000_000  #: silence that is worth a line
_ROLES = 16  #: columns that the names of evidence may take


def findings(
    shown: Sequence[Finding], transcript: Transcript, terminal: Terminal, hidden: dict[str, int] | None = None
) -> Iterator[str]:
    """Give out the lines of findings; ``hidden`` counts, by rule, those that are not shown."""
    left = dict(hidden or {})
    groups = [list(group) for _, group in groupby(shown, key=lambda finding: (finding.rule, finding.severity))]
    for number, group in enumerate(groups):
        yield ""
        yield from _rule(group[0], terminal)
        width = max(len(role) for finding in group for role in _roles(finding.frames).values())
        for at, finding in enumerate(group):
            yield ""
            yield from _finding(finding, transcript, terminal, width, heading=not at)
        rule = group[0].rule
        if rule in left and all(later[0].rule != rule for later in groups[number + 1 :]):
            yield ""
            yield terminal.dim(f"  … and {left[rule]:,} more of {rule} (--limit 0 shows all)")


def _rule(finding: Finding, terminal: Terminal) -> Iterator[str]:
    """Say what a rule is about."""
    severity = styled(terminal, finding.severity, finding.severity.value)
    yield f"{severity} {terminal.heading(finding.rule)} {finding.title}"
    rule = RULE_BY_ID.get(finding.rule)
    if rule is None:
        return
    parts = [_sentence(rule.doc)]
    if rule.source:
        parts.append(_sentence(f"Source: {rule.source}"))
    if rule.bugs:
        parts.append(f"Bugs of this kind: {', '.join(rule.bugs)}.")
    parts.append(f"More: uprscope explain {rule.id}".replace(" ", TIE))
    yield from (terminal.dim(line.replace(TIE, " ")) for line in terminal.wrap(" ".join(parts), "  "))


def _finding(
    finding: Finding, transcript: Transcript, terminal: Terminal, width: int, *, heading: bool
) -> Iterator[str]:
    sentence = f"{finding.id}  {_sentence(finding.sentence)}"
    first, *rest = terminal.wrap(sentence, "  ", "    ")
    yield first.replace(finding.id, terminal.heading(finding.id), 1)
    yield from rest
    yield from terminal.wrap(_where(finding, transcript), "    ")
    for line in lines_of(finding, transcript, terminal, min(width, _ROLES), heading=heading):
        yield f"    {line}"
    yield terminal.dim(f"    Wireshark: {finding.display_filter()}")


def lines_of(
    finding: Finding, transcript: Transcript, terminal: Terminal, width: int, *, heading: bool = True
) -> Iterator[str]:
    """Give out a finding's transcript: the frames around the guilty one and those that prove it, with their parts.

    Parts have ``width`` columns in front of the frames.
    """
    rows = transcript.of(finding)
    listing = Listing(terminal, transcript.numbering)
    roles = _roles(finding.frames)
    if rows and heading:
        yield " " * (width + 3) + listing.heading()
    before: dict[str, Any] | None = None
    for row in rows:
        if before is not None:
            between = _between(before, row, transcript)
            if between:
                yield terminal.dim(f"{'':{width}} {'⋮' if terminal.unicode else ':'}      {between}")
        before = row
        yield _margin(roles.get(row["frame"]), width, terminal) + listing.line(row)


def _roles(frames: Sequence[FrameRef]) -> dict[int, str]:
    """Return what each frame is to the finding; nothing for the guilty one, whatever else it is."""
    roles: dict[int, str] = {}
    for frame in frames[1:]:
        name = frame.role.replace("_", " ")
        roles[frame.frame] = f"{roles[frame.frame]}, {name}" if frame.frame in roles else name
    roles[frames[0].frame] = ""
    return roles


def _margin(role: str | None, width: int, terminal: Terminal) -> str:
    if role is None:
        return " " * (width + 3)
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
