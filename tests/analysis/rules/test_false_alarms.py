"""The rules FRM and OPQ leave traffic that behaves alone, whatever the network and the recorder do to it."""

from __future__ import annotations

import random

import pytest

from analysis.rules import RULES
from dissector.generate.faults import fault
from dissector.generate.impairments import Impairments
from dissector.generate.scenarios import SCENARIOS
from tests.analysis.rules import test_framing, test_opaque
from tests.support import checking
from tests.support.rule_proofs import IMPAIRED

GROUPS = {group: [rule for rule in RULES if rule.group == group] for group in ("FRM", "OPQ")}
#: What a scenario is about and rules may remark on: scenario, rule, severity.
INHERENT = test_framing.INHERENT | test_opaque.INHERENT
#: Scenarios that are tried with every impairment, besides a sample of all.
ALWAYS = {"FRM": (), "OPQ": ("early-upr", "relay-close-in-flight", "close-in-flight")}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", [each.name for each in SCENARIOS])
def test_leaves_good_traffic_alone(group: str, name: str) -> None:
    found = checking.findings_of(checking.clean(name), rules=GROUPS[group]).findings
    assert {(name, each.rule, each.severity) for each in found} <= INHERENT


def test_excuses_are_scenarios() -> None:
    named = {excuse.scenario for rules in GROUPS.values() for rule in rules for excuse in rule.excuses}
    assert named <= {each.name for each in SCENARIOS}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("impairments", IMPAIRED.values(), ids=IMPAIRED.keys())
def test_impairments_are_no_violations(group: str, impairments: Impairments) -> None:
    chance = random.Random(f"{group} {impairments}")  # noqa: S311
    always = [each for each in SCENARIOS if each.name in ALWAYS[group]]
    for one in (*always, *chance.sample(SCENARIOS, 12)):
        traffic, seed = checking.clean(one.name, 2), chance.randrange(99)
        found = checking.findings_of(traffic, impairments, seed=seed, rules=GROUPS[group])
        assert {(one.name, each.rule, each.severity) for each in found.findings} <= INHERENT, one.name


@pytest.mark.parametrize(
    ("rule", "variant"),
    [
        *(("FRM-01", "stray"), ("FRM-02", "subtype"), ("FRM-06", "deletion")),
        *(("OPQ-01", "twice"), ("OPQ-04", "end"), ("OPQ-09", "no-end"), ("OPQ-10", None)),
    ],
)
def test_batches_do_not_matter(rule: str, variant: str | None) -> None:
    rules = GROUPS[rule[:3]]
    capture = checking.captured(checking.broken(fault(rule, variant))[0])
    batches = checking.batches_of(capture)
    whole = checking.check(batches, rules).summary
    assert checking.check(checking.batches_of(capture, 4096), rules).summary == whole
    assert checking.check(checking.single_rows(batches), rules).summary == whole
