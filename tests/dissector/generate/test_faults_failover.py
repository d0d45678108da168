"""Faults about failover logs and rollbacks: each breaks its rule, by the message it names, and nothing else."""

from __future__ import annotations

import pytest

from dissector.generate.faults import failover
from dissector.generate.scenario import Fault, NoPlaceError
from tests.support.fault_trials import at_home, attempt, defects, named

RULES = {f"FOL-{number:02}" for number in (*range(1, 9), 11)}
MALFORMED = {"FOL-01"}  # a log of another length is a defect of its message as well
every_fault = pytest.mark.parametrize("one", failover.FAULTS, ids=named)


def test_every_rule_has_a_fault() -> None:
    assert {one.rule for one in failover.FAULTS} == RULES
    assert len({named(one) for one in failover.FAULTS}) == len(failover.FAULTS)


@every_fault
def test_breaks_its_rule_and_nothing_else(one: Fault) -> None:
    for trial in at_home(one):
        assert trial.broken.because
        assert "None" not in trial.broken.because


@every_fault
def test_same_seed_same_messages(one: Fault) -> None:
    first, second = attempt(one, 3), attempt(one, 3)
    assert first.sent == second.sent
    assert (defects(first) != []) == (one.rule in MALFORMED)
    assert first.broken.because == second.broken.because


@every_fault
def test_says_when_there_is_no_place(one: Fault) -> None:
    with pytest.raises(NoPlaceError, match="nothing to break from message 100000 on"):
        attempt(one, 1, 100_000)
