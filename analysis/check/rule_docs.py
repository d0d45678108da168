"""Rules as data: everything that is declared about one, with an example that breaks it. For JSON, text and pages.

Collects declarations; pages and terminals decide how they look. Reads no capture: the examples come from a file that
``python -m analysis.codegen`` writes.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.context.schema import ARCHIVE_TABLES, TABLES
from analysis.rules import GLOBAL_RULES, RULES, Rule
from analysis.rules.model import GAP, GAP_OF_CHECKS, REASONS, Check, Fault
from analysis.rules.row_sets import PARTS
from dissector.errors import UsageError
from dissector.generate.bugs import BUGS
from dissector.generate.library import FOLDER
from dissector.spec.defects import DEFECTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Facts = dict[str, Any]

_FORMAT = re.compile(r"\{(\w+):[^}]*\}")  #: a name in braces, with how it is written
EXAMPLES = Path(__file__).with_name("examples.json")
#: What the groups are about, in the order of pages.
GROUPS = {
    "FRM": "framing: single messages",
    "CON": "connections: set-up and roles",
    "OPQ": "opaques, and the life of streams",
    "SNP": "snapshots",
    "SEQ": "sequence numbers",
    "FLC": "flow control",
    "FOL": "failover logs and rollback",
    "TKO": "takeover and vbucket states",
    "NOP": "liveness",
    "XCN": "across connections",
}
#: Who is at fault where a check does not hold, in words.
FAULTS = {
    Fault.SENDER: "who sent the guilty frame",
    Fault.RECEIVER: "who received the guilty frame",
    Fault.PRODUCER: "the producer",
    Fault.CONSUMER: "the consumer",
    Fault.CAPTURE: "the capture",
}
_ALL = ("RULE", "RULES")
#: Rules for a capture, and rules for an archive only.
ALL: tuple[Rule, ...] = (*RULES, *GLOBAL_RULES)


@cache
def examples() -> dict[str, Facts]:
    """Return the examples by rule; none where the file is missing."""
    try:
        found: dict[str, Facts] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def groups(rules: Sequence[Rule] = ALL) -> list[str]:
    """Return the groups that there are, in their order."""
    there = dict.fromkeys(rule.group for rule in rules)
    return sorted(there, key=lambda group: [*GROUPS].index(group) if group in GROUPS else len(GROUPS))


def ordered(rules: Sequence[Rule] = ALL) -> tuple[Rule, ...]:
    """Return rules by group and number."""
    places = {group: at for at, group in enumerate(groups(rules))}
    return tuple(sorted(rules, key=lambda rule: (places[rule.group], rule.id)))


def find_rules(name: str) -> tuple[str, tuple[Rule, ...]]:
    """Return the rules that a name stands for, and the title of their list; one rule has none."""
    from analysis.check.selection import hint  # noqa: PLC0415 - only mistakes need it

    wanted = name.upper()
    if wanted in _ALL:
        return "every rule", ordered()
    chosen = tuple(rule for rule in ordered() if wanted in (rule.id, rule.group))
    if not chosen:
        raise UsageError(f"no rule is called '{name}' ({hint(wanted)})")
    if wanted == chosen[0].id:
        return "", chosen
    title = GROUPS.get(wanted, "")
    return f"rules of {wanted}: {title}" if title else f"rules of {wanted}", chosen


def rule_facts(rule: Rule, known: Mapping[str, Facts] | None = None) -> Facts:
    """Say everything about a rule; what does not apply is left out."""
    example = (examples() if known is None else known).get(rule.id)
    facts: Facts = {
        "kind": "rule",
        "id": rule.id,
        "group": rule.group,
        "severity": rule.severity.value,
        "title": rule.title,
        "doc": rule.doc,
        "dialects": list(rule.dialects),
        "since": rule.since,
        "checks": [_check(rule, check) for check in rule.checks],
        "excuses": [_given({"title": each.title, "scenario": each.scenario}) for each in rule.excuses],
        "limits": rule.limits,
        "next_step": _named(rule.next_step),
        "source": rule.source,
        "bugs": list(rule.bugs),
        "bug_captures": [f"{FOLDER}/{each.capture}" for each in BUGS if each.capture and rule.id in each.rules],
        "example": example,
    }
    return _given(facts)


def _check(rule: Rule, check: Check) -> Facts:
    rows = PARTS[check.over].doc if check.over in PARTS else (TABLES | ARCHIVE_TABLES)[check.over].doc
    docs = {**REASONS, GAP: GAP_OF_CHECKS}
    unknown = [{"reason": each.reason, "doc": docs[each.reason], "when": str(each.when)} for each in check.unknown]
    return _given(
        {
            "name": check.name,
            "over": check.over,
            "rows": rows,
            "when": str(check.when) if check.when is not None else "",
            "holds": str(check.holds),
            "unknown": unknown,
            "because": _because(rule, check),
            "fault": check.fault.value,
            "next_step": _named(check.next_step),
            "evidence": list(check.evidence),
            "severity": check.severity.value if check.severity not in (None, rule.severity) else "",
        }
    )


def _because(rule: Rule, check: Check) -> str:
    """Return the sentence; where it is made of words altogether, what they are about: defects of single messages."""
    found = [defect.id for defect in DEFECTS if defect.rule == rule.id]
    if found and check.because.strip("{}") in check.words:
        return f"what the dissector found wrong: {', '.join(found)}"
    return _named(check.because)


def _named(text: str) -> str:
    """Return a text with the names of facts in braces, and not how they are written."""
    return _FORMAT.sub(r"{\1}", text)


def _given(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value not in ("", None, [], ())}
