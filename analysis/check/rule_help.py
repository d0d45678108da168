"""What ``uprscope explain`` says about rules: found by name, as text and as data.

The command looks this module up by its name, so that questions about the protocol need nothing of the analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.check.rule_docs import FAULTS, examples, find_rules, groups, ordered, rule_facts
from dissector.terminal.text_page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analysis.rules import Rule
    from dissector.terminal.style import Terminal

    Facts = dict[str, Any]


def names() -> list[str]:
    """Return everything that can be asked."""
    return ["rules", *groups(), *(rule.id for rule in ordered())]


def facts(name: str) -> Facts:
    """Answer as data."""
    _, rules = find_rules(name)
    return {"query": name, "answers": [rule_facts(rule) for rule in rules]}


def text(name: str, terminal: Terminal) -> str:
    """Answer as text."""
    listing, rules = find_rules(name)
    page = Page(terminal)
    if listing:
        _write_listing(page, listing, rules)
    else:
        _write_rule(page, rules[0])
    return page.text()


def _write_listing(page: Page, title: str, rules: Sequence[Rule]) -> None:
    page.title(title, f"{len(rules)} in all")
    page.table([(rule.id, rule.severity.value, rule.title) for rule in rules])
    page.gap()
    page.paragraph(f"More about one: uprscope explain {rules[0].id}. Check a capture: uprscope check CAPTURE.")


def _write_rule(page: Page, rule: Rule) -> None:
    known = rule_facts(rule)
    page.title(f"rule {rule.id}", f"{rule.title} ({rule.severity.value})")
    page.paragraph(rule.doc)
    page.gap()
    page.facts(
        [
            ("dialects", ", ".join(rule.dialects)),
            ("since", rule.since),
            ("source", rule.source),
            ("bugs", f"would have shown {', '.join(rule.bugs)}" if rule.bugs else ""),
            ("shown by", ", ".join(known.get("bug_captures", ()))),
            ("limits", rule.limits),
            ("next", known.get("next_step", "")),
        ]
    )
    for number, check in enumerate(known["checks"]):
        name = f": {check['name']}" if "name" in check else ""
        page.section(f"What is checked, {number + 1}{name}" if len(known["checks"]) > 1 else "What is checked")
        page.facts(
            [
                ("looks at", f"{check['over']}: {check['rows']}" if "rows" in check else check["over"]),
                ("where", check.get("when", "")),
                ("holds if", check["holds"]),
                *(
                    ("unknown if", f"{each['when']} ({each['reason']}: {each['doc']})")
                    for each in check.get("unknown", ())
                ),
                ("says", check.get("because", "")),
                ("at fault", FAULTS[check["fault"]]),
                ("next", check.get("next_step", "")),
                ("shows", ", ".join(each.replace("_", " ") for each in check.get("evidence", ()))),
                ("severity", check.get("severity", "")),
            ]
        )
    if rule.excuses:
        page.section("What is no violation")
        for excuse in rule.excuses:
            made = f" (uprscope generate {excuse.scenario})" if excuse.scenario else ""
            page.bullets([f"{excuse.title}{made}"])
    example = examples().get(rule.id)
    if example is not None:
        page.section("An example that breaks it")
        page.paragraph(f"{example['fault']}: {example['sentence']}.", "  ")
        page.gap()
        page.drawing([f"  {line}" for line in example["lines"]])
        page.gap()
        others = example["variants"] if len(example["variants"]) > 1 else []
        page.facts([("make it", example["command"]), ("variants", ", ".join(others))])
