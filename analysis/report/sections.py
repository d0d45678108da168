"""The other parts of a report: verdicts, connections and streams, what the capture lacks, how the page was made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from analysis.check.text_report import CheckSummary
from analysis.report.html import Heading, Html, element, joined, table, text
from analysis.rules.model import REASONS
from dissector.display.table import CONNECTION_TABLE, STREAM_TABLE
from dissector.terminal.style import safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from analysis.check.findings import Tally
    from analysis.report.collect import ReportData
    from dissector.display.table import TextColumn

    Row = dict[str, Any]

_ALWAYS = 4  #: columns of rules that are there even if they are empty
_LONGEST = 80  #: characters of a cell
MOST_ROWS = 5000  #: of a table: browsers get slow
_VERDICTS = {
    "violated": "✗ violated",
    "unknown": "? undecided in part",
    "holds": "✓ holds",
    "unchecked": "· nothing to check",
}


def verdict(found: ReportData) -> Html:
    """Return the one sentence that matters most."""
    findings = found.inspection.findings
    worst = min((finding.severity for finding in findings), key=lambda each: each.rank, default=None)
    if found.given:
        by = Counter(finding.severity.value for finding in findings)
        listed = ", ".join(f"{number:,} {name}" for name, number in by.items())
        said = f"The archive has {len(findings):,} findings ({listed})." if findings else "The archive has no findings."
    else:
        said = CheckSummary(found.inspection, found.rules, found.selection).closing()
    return element("p", said, class_=f"verdict {worst.value if worst is not None else 'good'}")


def rules(found: ReportData) -> Html:
    """Return a table of all rules and how each fared."""
    titles = {rule.id: rule for rule in found.rules}
    counts = Counter(finding.rule for finding in found.inspection.findings)
    first = {finding.rule: finding.id for finding in reversed(found.shown)}
    order = [*_VERDICTS]

    def rank(tally: Tally) -> tuple[int, int, str]:
        rule = titles.get(tally.rule)
        return order.index(tally.verdict), rule.severity.rank if rule else 0, tally.rule

    rows = []
    for tally in sorted(found.inspection.tallies, key=rank):
        rule = titles.get(tally.rule)
        unknown = ", ".join(f"{number:,} {reason}" for reason, number in sorted(tally.unknown.items()))
        name: object = tally.rule
        if tally.rule in first:
            name = element("a", tally.rule, href=f"#{first[tally.rule]}")
        rows.append(
            (
                name,
                element("span", _VERDICTS[tally.verdict], class_=f"tag {tally.verdict}"),
                rule.severity.value if rule else "",
                *(f"{number:,}" if number else "" for number in (tally.checked, tally.violated, counts[tally.rule])),
                unknown,
                rule.title if rule else "",
            )
        )
    headings = (
        *(Heading("rule"), Heading("verdict"), Heading("severity"), Heading("checked", right=True)),
        *(
            Heading("violated", right=True),
            Heading("findings", right=True),
            Heading("undecided", wrap=True),
            Heading("what must hold", wrap=True),
        ),
    )
    used = [at for at in range(len(headings)) if at < _ALWAYS or any(row[at] for row in rows)]
    return table("rules-table", "Rules", [headings[at] for at in used], [[row[at] for at in used] for row in rows])


def _listed(name: str, caption: str, columns: Sequence[TextColumn], rows: Sequence[Row]) -> Html:
    """Return a table with the columns that have anything in them."""
    cells = [[_cut(column.show(row)) for column in columns] for row in rows[:MOST_ROWS]]
    used = [at for at in range(len(columns)) if any(row[at] for row in cells)]
    headings = [Heading(columns[at].heading, columns[at].right) for at in used]
    return table(name, caption, headings, ([row[at] for at in used] for row in cells))


def _cut(shown: str) -> str:
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def connections(found: ReportData) -> Html:
    """Return the table of connections."""
    if not found.connections:
        return element("p", "No connection has frames.")
    parts = [_listed("connections-table", "Connections", CONNECTION_TABLE, found.connections)]
    against = [
        f"Connection {row['number']}: {line}." for row in found.connections for line in row.get("contradictions") or ()
    ]
    if against:
        parts.append(_list(against))
    parts += _more(len(found.connections), "connections", "uprscope connections")
    parts.append(element("p", "→ is from the client, the side that opened the connection; ← is to it.", class_="quiet"))
    return joined(parts)


def streams(found: ReportData) -> Html:
    """Return the table of streams."""
    if not found.streams:
        return element("p", "There are no streams.")
    table_of = _listed("streams-table", "Streams and refused requests", STREAM_TABLE, found.streams)
    return joined((table_of, *_more(len(found.streams), "streams", "uprscope connections --streams")))


def _more(number: int, what: str, how: str) -> list[Html]:
    if number <= MOST_ROWS:
        return []
    return [element("p", f"{number - MOST_ROWS:,} more {what} are not listed here: {how} has all.", class_="quiet")]


def quality(found: ReportData) -> Html:
    """Tell what the capture lacks, and what could not be decided for that."""
    report = found.inspection.report
    parts: list[Html] = []
    losses = [*report.losses(), *found.notes]
    if found.source.rows:
        parts.append(element("p", "Read from rows of frames: how the capture was is not known beyond its gaps."))
    if losses:
        parts += [element("h3", "Lost or left out"), _list(losses)]
    elif not found.source.rows:
        parts.append(element("p", "Nothing is missing: no gaps, no damage, no limit reached."))
    if not found.source.rows:
        counts = [(name.replace("-", " "), f"{number:,}") for name, number in report.link.as_dict().items()]
        counts += [
            ("connections", f"{report.connections:,}"),
            ("of another protocol", f"{report.connections_ignored:,}"),
            ("bytes sent again", f"{report.bytes_repeated:,}"),
            ("of them with other content", f"{report.bytes_conflicting:,}"),
        ]
        parts += [element("h3", "Packets"), pairs(counts)]
    if not found.given:
        parts.append(_undecided(found))
    return joined(parts)


def _undecided(found: ReportData) -> Html:
    reasons: dict[str, list[tuple[str, int]]] = {}
    for tally in found.inspection.tallies:
        for reason, number in tally.unknown.items():
            reasons.setdefault(reason, []).append((tally.rule, number))
    if not reasons:
        return element("p", "Every case of every rule could be decided.")
    rows = [
        (
            reason,
            REASONS.get(reason, reason),
            f"{sum(number for _, number in cases):,}",
            ", ".join(f"{rule} ({number:,})" for rule, number in sorted(cases)),
        )
        for reason, cases in sorted(reasons.items())
    ]
    headings = (
        Heading("reason"),
        Heading("what it means", wrap=True),
        Heading("cases", right=True),
        Heading("rules", wrap=True),
    )
    return joined(
        (element("h3", "What could not be decided, and why"), table("undecided-table", "Undecided", headings, rows))
    )


def made(found: ReportData, how: Sequence[tuple[str, str]]) -> Html:
    """Tell how the page was made."""
    selection = found.selection
    told = [*how, ("findings told", f"{selection.severity.value} or worse"), ("rules", f"{len(found.rules)}")]
    return joined((pairs(told), element("h3", "Read"), _list(safe_text(name) for name in found.source.names)))


def pairs(entries: Iterable[tuple[str, object]]) -> Html:
    """Return names with what they stand for."""
    return element("dl", *(joined((element("dt", name), element("dd", value))) for name, value in entries))


def _list(entries: Iterable[object]) -> Html:
    return element("ul", *(element("li", text(entry)) for entry in entries))
