"""SEQ: every fault is found, and each rule knows where it cannot tell."""

from __future__ import annotations

import random

import pytest

from analysis.rules.model import Severity
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Fault, NoPlaceError, size_all_buffer_acks
from tests.support.checking import batches_of, check, clean, findings_of
from tests.support.paths import ROOT
from tests.support.rule_proofs import (
    STREAM_RULES,
    faults_of,
    name_of,
    prove_found,
    prove_independent,
    prove_silent,
    rules_of,
)

FAULTS = faults_of("SEQ")


def test_all_rules_are_there() -> None:
    assert [rule.id for rule in rules_of("SEQ")] == [f"SEQ-{number:02}" for number in range(1, 13)]
    severities = {rule.id: rule.severity for rule in rules_of("SEQ")}
    assert {rule for rule, severity in severities.items() if severity is Severity.WARNING} == {"SEQ-05", "SEQ-06"}
    assert severities["SEQ-12"] is Severity.INFO


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_faults_are_found(fault: Fault) -> None:
    prove_found(fault)
    try:
        prove_found(fault, 2, 40)
    except NoPlaceError:
        prove_found(fault, 2)


@pytest.mark.parametrize("fault", FAULTS[::3], ids=name_of)
def test_cuts_do_not_matter(fault: Fault) -> None:
    chance = random.Random(fault.rule)  # noqa: S311
    prove_independent(fault, chance, rows=True)
    prove_independent(fault, chance, Impairments(loss=0.05, duplicate=0.2, mss=(50, 600)), rows=False)


@pytest.mark.parametrize("seed", range(1, 13))
def test_documents_of_other_clusters_are_left_alone(seed: int) -> None:
    """Revisions and CAS values by chance: a sign of another cluster makes the rest undecided (SEQ-04, SEQ-05)."""
    result = prove_silent("with-meta", seed)
    assert result.tallies["SEQ-04"].unknown["foreign"] > 0


def test_a_new_stream_is_not_compared_with_the_old_one() -> None:
    assert prove_silent("rollback").tallies["SEQ-01"].held > 20


def test_the_first_stream_of_the_draft_is_decided_too() -> None:
    """Its request came before anything showed the dialect: nothing is unknown for that."""
    result = check(batches_of(ROOT / "captures" / "clean" / "draft.pcapng"))
    assert [rule for rule, tally in result.tallies.items() if sum(tally.unknown.values())] == []
    assert (result.tallies["SEQ-02"].held, result.tallies["OPQ-07"].held) == (2, 2)


def test_without_its_request_a_stream_has_no_start() -> None:
    """One direction only: SEQ-02 and SEQ-03 are unknown, SEQ-01 and SEQ-07 are not (behind the first marker)."""
    result = findings_of(clean("basic"), Impairments(only=1), rules=STREAM_RULES)
    assert not result.findings
    tallies = result.tallies
    assert tallies["SEQ-02"].checked == tallies["SEQ-02"].undecided > 0
    assert tallies["SEQ-01"].held > 0
    assert tallies["SEQ-07"].held == tallies["SEQ-07"].checked


def test_an_ack_that_the_capture_has_too_early_is_unknown() -> None:
    """What a replica had received is not in the capture yet: nobody can say that it had not (SEQ-10)."""
    talks = clean("sync-writes")
    (talk,) = talks
    ack = next(each for each in talk if each.frame.name == "seqno_acknowledged")
    ack.frame.fields["prepared_seqno"] = 10_000
    size_all_buffer_acks(talks)
    assert [each.check for each in findings_of(talks, rules=STREAM_RULES).of("SEQ-10")] == ["ahead", "backwards"]
    lost = findings_of(talks, Impairments(only=0), rules=STREAM_RULES)
    assert not lost.findings


def test_only_releases_that_have_shown_themselves_are_held_to_their_clocks() -> None:
    assert prove_silent("old-cas").tallies["SEQ-06"].checked == 0
    assert prove_silent("modern").tallies["SEQ-06"].held > 0
