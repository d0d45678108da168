"""Faults about seqnos, snapshots and flow control: each breaks its rule and nothing else, wherever it is put.

What exactly a fault does to its messages is checked by the tables of the groups' own modules.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dissector.generate.faults import flow_control, liveness, seqno, snapshot, takeover
from dissector.generate.scenario import Fault, NoPlaceError
from tests.dissector.generate import (
    test_faults_flow_control,
    test_faults_liveness,
    test_faults_seqno,
    test_faults_snapshot,
    test_faults_takeover,
)
from tests.support.fault_trials import Trial, at_home, attempt, defects, named

GROUPS = {
    "SEQ": (seqno.FAULTS, test_faults_seqno.CHECKS, 12),
    "SNP": (snapshot.FAULTS, test_faults_snapshot.CHECKS, 14),
    "FLC": (flow_control.FAULTS, test_faults_flow_control.CHECKS, 9),
    "TKO": (takeover.FAULTS, test_faults_takeover.CHECKS, 7),
    "NOP": (liveness.FAULTS, test_faults_liveness.CHECKS, 6),
}
FAULTS = [fault for faults, _, _ in GROUPS.values() for fault in faults]
CHECKS: dict[tuple[str, str], Callable[[Trial], bool]] = {
    key: check for _, checks, _ in GROUPS.values() for key, check in checks.items()
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_rule_has_a_fault_and_every_fault_a_check(group: str) -> None:
    faults, checks, rules = GROUPS[group]
    assert {fault.rule for fault in faults} == {f"{group}-{number:02}" for number in range(1, rules + 1)}
    assert {(fault.rule, fault.variant) for fault in faults} == set(checks)
    assert len(faults) == len(checks)


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_breaks_its_rule_and_nothing_else(fault: Fault) -> None:
    for trial in at_home(fault):
        assert CHECKS[fault.rule, fault.variant](trial)
        assert trial.broken.because
        assert "None" not in trial.broken.because


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_same_seed_same_messages(fault: Fault) -> None:
    one, other = attempt(fault, 3), attempt(fault, 3)
    assert one.sent == other.sent
    assert defects(one) == []  # each message for itself is fine
    assert one.broken.because == other.broken.because


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_says_when_there_is_no_place(fault: Fault) -> None:
    with pytest.raises(NoPlaceError, match="nothing to break from message 100000 on"):
        attempt(fault, 1, 100_000)
