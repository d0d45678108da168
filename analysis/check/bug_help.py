"""What ``uprscope explain`` and the pages say about historical bugs: found by number, as text and as data.

The bugs are declared where their captures are made (:mod:`dissector.generate.bugs`); here the rules get their titles.
The command looks this module up by its name, so that questions about the protocol need nothing of the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.check.rule_docs import ALL
from dissector.generate.bugs import BUGS, Bug, bug
from dissector.generate.library import FOLDER
from dissector.terminal.text_page import Page

if TYPE_CHECKING:
    from dissector.terminal.style import Terminal

    Facts = dict[str, Any]

EVERY = "bugs"
_RULES = {rule.id: rule for rule in ALL}


def names() -> list[str]:
    """Return everything that can be asked."""
    return [EVERY, *(each.name for each in BUGS)]


def facts(name: str) -> Facts:
    """Answer as data."""
    chosen = BUGS if name == EVERY else (bug(name),)
    return {"query": name, "answers": [bug_facts(each) for each in chosen]}


def bug_facts(each: Bug) -> Facts:
    """Say everything about a bug; what does not apply is left out."""
    known: Facts = {
        "kind": "bug",
        "id": each.name,
        "title": each.title,
        "doc": each.doc,
        "rules": list(each.rules),
        "across": list(each.across),
        "silent": [{"rule": rule, "because": because} for rule, because in each.silent],
        "dialect": each.dialect if each.capture else "",
        "era": each.era,
        "capture": f"{FOLDER}/{each.capture}" if each.capture else "",
        "command": f"uprscope generate --bug {each.name} -o {each.name}.pcapng" if each.capture else "",
        "why_no_capture": each.why_no_capture,
    }
    return {key: value for key, value in known.items() if value not in ("", [])}


def text(name: str, terminal: Terminal) -> str:
    """Answer as text."""
    page = Page(terminal)
    if name == EVERY:
        _write_listing(page)
    else:
        _write_bug(page, bug(name))
    return page.text()


def _write_listing(page: Page) -> None:
    shown = [each for each in BUGS if each.capture]
    others = [each for each in BUGS if not each.capture]
    page.title("historical bugs with a capture", f"{len(shown)} of {len(BUGS)}")
    page.table([(each.name, " ".join(each.rules), each.title) for each in shown])
    page.section("And those without one, with the reason")
    page.table([(each.name, f"{each.title} ({each.why_no_capture})") for each in others])
    page.gap()
    page.paragraph(
        f"More about one: uprscope explain {shown[0].name}. Its capture: {FOLDER}/{shown[0].capture}, or uprscope "
        f"generate --bug {shown[0].name} -o bug.pcapng."
    )


def _write_bug(page: Page, each: Bug) -> None:
    known = bug_facts(each)
    page.title(f"bug {each.name}", each.title)
    page.paragraph(each.doc)
    if each.rules:
        page.section("Rules that see it")
        page.table([(rule, severity_of(rule), title_of(rule)) for rule in each.rules])
    if each.across:
        page.section("Rules that see it across connections or captures")
        page.table([(rule, severity_of(rule), title_of(rule)) for rule in each.across])
    if each.silent:
        page.section("Rules that are named with it, and say nothing")
        page.table(list(each.silent))
    page.section("Its capture")
    page.facts(
        [
            ("file", known.get("capture", "")),
            ("servers", f"{each.dialect}, {each.era}" if each.capture else ""),
            ("make it", known.get("command", "")),
            ("check it", f"uprscope check {known['capture']}" if each.capture else ""),
            ("none", each.why_no_capture),
        ]
    )


def title_of(rule: str) -> str:
    """Return what a rule demands, in a line; nothing where this version does not have it."""
    return _RULES[rule].title if rule in _RULES else ""


def severity_of(rule: str) -> str:
    """Return how bad it is when the rule does not hold; nothing where this version does not have it."""
    return _RULES[rule].severity.value if rule in _RULES else ""
