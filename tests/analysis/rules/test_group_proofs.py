"""The rules CON, FOL, TKO and NOP: what each of them has to prove.

Every fault is found where it is, and implies nothing that it does not say; traffic that behaves is left alone, whatever
happens to its packets; batches do not matter. What is special to a group stands in the module of the group.
"""

from __future__ import annotations

import random

import pytest

from analysis.rules import RULE_BY_ID, RULES, Severity
from dissector.generate.faults import FAULTS
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Fault, NoPlaceError
from dissector.generate.scenarios import SCENARIOS
from tests.support import checking
from tests.support.fault_trials import named
from tests.support.rule_proofs import IMPAIRED, recut

GROUPS = ("CON", "FOL", "TKO", "NOP")
MINE = [rule for rule in RULES if rule.group in GROUPS]
FOUND = [each for each in FAULTS if each.rule[:3] in GROUPS]
#: What a scenario is about, and a rule remarks on.
INHERENT = {("purged-history", "FOL-11", Severity.INFO)}
#: Faults with several findings of their rule: the same is wrong in more than one way.
SEVERAL = {
    *(("CON-05", variant) for variant in ("sync-writes", "seqno-acknowledged", "replica")),
    ("CON-01", "granted"),
    ("FOL-04", "accepted"),
}
EXCUSED = sorted({excuse.scenario for rule in MINE for excuse in rule.excuses if excuse.scenario})
every_fault = pytest.mark.parametrize("one", FOUND, ids=named)


def test_these_are_the_rules() -> None:
    numbers = {"CON": (1, 2, 3, 4, 5, 6, 7, 9), "FOL": (*range(1, 9), 11), "TKO": range(1, 8), "NOP": range(1, 7)}
    expected = [f"{group}-{number:02}" for group in GROUPS for number in numbers[group]]
    assert sorted(rule.id for rule in MINE) == sorted(expected)
    assert len(expected) == 30


@pytest.mark.parametrize("seed", [1, 4])
@every_fault
def test_finds_the_fault(one: Fault, seed: int) -> None:
    talks, done = checking.broken(one, seed)
    result = checking.findings_of(talks, seed=seed)
    found = result.of(one.rule)
    guilty = checking.frame_of(result, talks, done.emissions[0])
    assert guilty in [each.guilty.frame for each in found], done.because
    assert len(found) == 1 or (one.rule, one.variant) in SEVERAL
    assert all(each.sentence and "{" not in each.sentence for each in found)
    rank = RULE_BY_ID[one.rule].severity.rank
    others = {each.rule for each in result.findings if each.severity.rank <= rank} - {one.rule}
    assert others <= set(one.implies)


@pytest.mark.parametrize("group", GROUPS)
def test_every_check_is_broken_by_a_fault(group: str) -> None:
    rules = [rule for rule in MINE if rule.group == group]
    faults = [one for one in FOUND if one.rule.startswith(group)]
    results = [checking.findings_of(checking.broken(one)[0], rules=rules) for one in faults]
    broken = {(each.rule, each.check) for result in results for each in result.findings}
    assert broken == {(rule.id, check.name) for rule in rules for check in rule.checks}


@every_fault
def test_says_when_there_is_no_place(one: Fault) -> None:
    with pytest.raises(NoPlaceError, match="nothing to break from message 100000 on"):
        checking.broken(one, 1, 100_000)


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS])
def test_leaves_good_traffic_alone(name: str) -> None:
    found = checking.findings_of(checking.clean(name), rules=MINE).findings
    assert {(name, each.rule, each.severity) for each in found} <= INHERENT


@pytest.mark.parametrize("name", EXCUSED)
@pytest.mark.parametrize("impairments", IMPAIRED.values(), ids=IMPAIRED.keys())
def test_impairments_are_no_violations(name: str, impairments: Impairments) -> None:
    for seed in (3, 4):
        found = checking.findings_of(checking.clean(name, seed), impairments, seed=seed, rules=MINE).findings
        assert {(name, each.rule, each.severity) for each in found} <= INHERENT, seed


@every_fault
def test_batches_do_not_matter(one: Fault) -> None:
    capture = checking.captured(checking.broken(one)[0])
    batches = checking.batches_of(capture)
    whole = checking.check(batches, MINE).summary
    assert checking.check(checking.batches_of(capture, 4096), MINE).summary == whole
    assert checking.check(checking.single_rows(batches), MINE).summary == whole
    chance = random.Random(named(one))  # noqa: S311 - no secret
    assert checking.check(recut(batches, chance), MINE).summary == whole
