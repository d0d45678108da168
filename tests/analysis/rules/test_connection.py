"""The rules CON: late captures, every use of a feature, severities; test_group_proofs has what all groups prove."""

from __future__ import annotations

import pytest

from analysis.check.findings import Finding
from analysis.context.feature_uses import FEATURE_USES
from analysis.rules import RULES, Severity
from dissector.generate.faults import FAULTS
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Fault
from tests.support import checking
from tests.support.fault_trials import named

MINE = [rule for rule in RULES if rule.group == "CON"]
FOUND = [each for each in FAULTS if each.rule.startswith("CON")]


def findings(one: Fault) -> list[Finding]:
    return checking.findings_of(checking.broken(one)[0], rules=MINE).findings


@pytest.mark.parametrize("one", FOUND, ids=named)
def test_a_late_capture_accuses_nobody_for_what_came_before_it(one: Fault) -> None:
    """Without its first messages a connection may have agreed upon anything, and be opened by anybody."""
    talks, _ = checking.broken(one)
    known = {(each.rule, each.sentence) for each in checking.findings_of(talks, rules=MINE).findings}
    assert known
    for skipped in (1, 2, 3, 5, 8, 12, 20):
        late = checking.findings_of(talks, Impairments(skip_messages=skipped), rules=MINE)
        assert {(each.rule, each.sentence) for each in late.findings} <= known, skipped


@pytest.mark.parametrize("use", [each.name for each in FEATURE_USES])
def test_every_use_has_a_fault_or_a_reason(use: str) -> None:
    """Uses that no fault shows are those of messages whose other forms do."""
    shown = {
        fact for one in FOUND if one.rule == "CON-05" for fact in (each.facts.get("use") for each in findings(one))
    }
    number = [each.name for each in FEATURE_USES].index(use) + 1
    assert number in shown or use in ("flatbuffers", "collection_modify")


def test_a_warning_is_one_where_the_catalogue_says_so() -> None:
    assert {rule.id: rule.severity for rule in MINE if rule.severity is not Severity.ERROR} == {
        "CON-04": Severity.WARNING,
        "CON-07": Severity.WARNING,
        "CON-09": Severity.INFO,
    }
