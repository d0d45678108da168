"""The page about the rules, ``docs/rules.md``: a table of all of them, then everything about each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.check.rule_docs import FAULTS, GROUPS, groups, ordered, rule_facts
from analysis.codegen.examples import examples
from analysis.rules.model import REASONS
from dissector.codegen.markdown import MarkdownPage, code, escape, slug, table
from dissector.generate.bugs import BUG_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Facts = dict[str, Any]

_INTRODUCTION = """\
<!-- Generated from analysis/rules/ by `make docs`. -->

`uprscope check CAPTURE` checks these rules; `uprscope explain SEQ-01` shows one of them. Ids are stable. Rules of the
group XCN look from one connection at another: `uprscope archive` checks them (docs/spark.md).

A rule looks at the rows of [a table that is made of the frames](context.md), such as every item of a stream together
with the item before it. For each row it **holds**, is **violated**, or is **unknown**: what the capture does not tell
is never a violation. The conditions below are the ones that are computed; `docs/findings.md` describes what comes
out."""

_SEVERITIES = """\
* **error**: the protocol is violated, or data is at risk
* **warning**: suspicious, or bad for performance
* **info**: worth knowing; listed with `--severity info` only"""

_GAP = """\
Where a check below names `gap`, results tell by the connection what it is: `gap` if bytes of it are missing, \
`gap-or-unreadable` if some of it could not be read either, `start` if it has neither and its \
beginning was not captured, else `unreadable`."""


def render() -> str:
    """Return the page."""
    page = MarkdownPage()
    page.heading(1, "Rules")
    page.add(_INTRODUCTION)
    page.heading(2, "Severities")
    page.add(_SEVERITIES)
    page.heading(2, "Why something is unknown")
    page.add(table(["reason", "meaning"], [[code(name), escape(text)] for name, text in REASONS.items()]))
    page.add(_GAP)
    page.heading(2, "All rules")
    page.add(table(["rule", "severity", "what must hold"], [_row(rule_facts(rule, {})) for rule in ordered()]))
    for group in groups():
        page.heading(2, f"{group}: {GROUPS[group]}" if group in GROUPS else group)
        for rule in ordered():
            if rule.group == group:
                known = rule_facts(rule, examples())
                page.heading(3, _title(known))
                page.add(*_section(known))
    return "\n\n".join(page.blocks) + "\n"


def _title(known: Facts) -> str:
    return f"{known['id']}: {known['title']}"


def _row(known: Facts) -> list[str]:
    return [f"[{known['id']}](#{slug(_title(known))})", known["severity"], escape(known["title"])]


def _section(known: Facts) -> Iterator[str]:
    since = f", since {known['since']}" if "since" in known else ""
    yield f"{known['severity'].capitalize()}. Dialects: {', '.join(known['dialects'])}{since}."
    yield escape(known["doc"])
    yield table(["", "what is checked"], [row for check in known["checks"] for row in _check(check)])
    if "excuses" in known:
        yield "No violation:"
        yield "\n".join(_excuse(each) for each in known["excuses"])
    if "limits" in known:
        yield f"Limits: {escape(known['limits'])}"
    if "next_step" in known:
        yield f"What to look at next: {_with_commands(known['next_step'])}"
    if "source" in known:
        yield f"Source: {escape(known['source'])}"
    if "bugs" in known:
        yield f"Would have shown: {', '.join(_bug(each) for each in known['bugs'])}"
    if "bug_captures" in known:
        yield f"Shown by: {', '.join(map(code, known['bug_captures']))}"
    if "example" in known:
        yield from _example(known["example"])


def _bug(name: str) -> str:
    return f"[{name}](bugs.md#{slug(name)})" if name in BUG_BY_NAME else escape(name)


def _check(check: Facts) -> Iterator[list[str]]:
    rows: Sequence[tuple[str, str]] = [
        ("looks at", f"{code(check['over'])}: {escape(check.get('rows', ''))}"),
        ("where", code(check["when"]) if "when" in check else ""),
        ("holds if", code(check["holds"])),
        *(("unknown if", f"{code(each['when'])} ({each['reason']})") for each in check.get("unknown", ())),
        ("says", escape(check.get("because", ""))),
        ("at fault", FAULTS[check["fault"]]),
        ("next", _with_commands(check.get("next_step", ""))),
        ("shows", ", ".join(code(each) for each in check.get("evidence", ()))),
        ("severity", check.get("severity", "")),
    ]
    if "name" in check:
        yield [f"**{check['name']}**", ""]
    yield from ([label, text] for label, text in rows if text)


def _with_commands(text: str) -> str:
    """Return prose with commands between backticks."""
    return "".join(code(part) if at % 2 else escape(part) for at, part in enumerate(text.split("`")))


def _excuse(excuse: Facts) -> str:
    made = f" (`uprscope generate {excuse['scenario']}`)" if "scenario" in excuse else ""
    return f"* {escape(excuse['title'])}{made}"


def _example(example: Facts) -> Iterator[str]:
    yield f"Example: {escape(example['fault'])}; {escape(example['sentence'])}."
    yield "\n".join(["```", f"$ {example['command']}", *example["lines"], "```"])
