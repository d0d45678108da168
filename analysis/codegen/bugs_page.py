"""The page about historical bugs, ``docs/bugs.md``: a table of those with a capture, the others, then each in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.check.bug_help import bug_facts, title_of
from analysis.check.rule_docs import ALL
from dissector.codegen.markdown import MarkdownPage, code, escape, slug, table
from dissector.generate.bugs import BUGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dissector.generate.bugs import Bug

    Facts = dict[str, Any]

_INTRODUCTION = """\
<!-- Generated from dissector/generate/bugs/ by `make docs`. -->

Defects of Couchbase servers and clients that were once in the field, by their numbers in the tracker of the servers,
as far as it is on record what they looked like on the wire. Each has a small capture made to order that tells its
story, and [rules](rules.md) that see it there. `uprscope explain MB-16042` says the same on a terminal."""

_WITHOUT = "Numbers that the rules and the documents name, and the reason why no capture shows them."
_ANCHORS = {rule.id: slug(f"{rule.id}: {rule.title}") for rule in ALL}


def render() -> str:
    """Return the page."""
    page = MarkdownPage()
    page.heading(1, "Historical bugs")
    page.add(_INTRODUCTION)
    page.heading(2, "With a capture")
    shown = [each for each in BUGS if each.capture]
    page.add(table(["bug", "what it was", "rules", "capture"], [_row(each) for each in shown]))
    page.heading(2, "Without a capture")
    page.add(_WITHOUT)
    others = [each for each in BUGS if not each.capture]
    rows = [[_anchor(each), escape(each.title), _rules(each.across), escape(each.why_no_capture)] for each in others]
    page.add(table(["bug", "what it was", "rules across captures", "why there is none"], rows))
    page.heading(2, "Each bug")
    for each in BUGS:
        page.heading(3, each.name)
        page.add(*_section(each))
    return "\n\n".join(page.blocks) + "\n"


def _anchor(each: Bug) -> str:
    return f"[{each.name}](#{slug(each.name)})"


def _row(each: Bug) -> list[str]:
    return [_anchor(each), escape(each.title), _rules(each.rules), _capture(bug_facts(each))]


def _capture(known: Facts) -> str:
    return f"[{known['id']}.pcapng](../{known['capture']})"


def _rules(names: tuple[str, ...]) -> str:
    return ", ".join(_rule(name) for name in names)


def _rule(name: str) -> str:
    return f"[{name}](rules.md#{_ANCHORS[name]})" if name in _ANCHORS else name


def _section(each: Bug) -> Iterator[str]:
    known = bug_facts(each)
    yield f"{escape(each.title[0].upper() + each.title[1:])}."
    yield escape(each.doc)
    rows = [["sees it", _told(rule)] for rule in each.rules]
    rows += [["sees it across captures", _told(rule)] for rule in each.across]
    rows += [["says nothing", f"{_rule(rule)}: {escape(because)}"] for rule, because in each.silent]
    if each.capture:
        rows += [["capture", f"{_capture(known)} ({each.dialect}, {escape(each.era)})"]]
        rows += [["make it", code(known["command"])]]
    else:
        rows += [["no capture", escape(each.why_no_capture)]]
    yield table(["", ""], rows)


def _told(rule: str) -> str:
    title = title_of(rule)
    return f"{_rule(rule)}: {escape(title)}" if title else _rule(rule)
