"""SNP: every fault is found, every excuse is silent, and what the capture does not show stays unknown."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.rules.model import Severity
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Fault, NoPlaceError
from tests.support.checking import batches_of, check
from tests.support.rule_proofs import (
    NAMES,
    STREAM_RULES,
    faults_of,
    name_of,
    place_of,
    prove_found,
    prove_independent,
    prove_silent,
    rules_of,
)
from tests.support.tcp_by_hand import is_judged

FAULTS = faults_of("SNP")


def test_all_rules_are_there() -> None:
    assert [rule.id for rule in rules_of("SNP")] == [f"SNP-{number:02}" for number in range(1, 15)]
    severities = {rule.id: rule.severity for rule in rules_of("SNP")}
    warnings = {rule for rule, severity in severities.items() if severity is Severity.WARNING}
    assert warnings == {"SNP-12", "SNP-13", "SNP-14"}
    assert {severities[rule] for rule in severities if rule not in warnings} == {Severity.ERROR}


def test_excuses_name_scenarios() -> None:
    for rule in STREAM_RULES:
        assert {excuse.scenario for excuse in rule.excuses} <= {*NAMES}, rule.id
        assert rule.title
        assert rule.doc
        assert rule.source


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_faults_are_found(fault: Fault) -> None:
    prove_found(fault)
    try:
        prove_found(fault, 2, 40)
    except NoPlaceError:
        prove_found(fault, 2)


@pytest.mark.parametrize("name", NAMES)
def test_clean_traffic_is_silent(name: str) -> None:
    result = prove_silent(name)
    prove_silent(name, 7)
    # Without losses hardly anything stays unknown but what a rule says it cannot know.
    assert not {reason for tally in result.tallies.values() for reason in tally.unknown} & {"limit", "one-sided"}


@given(
    st.sampled_from(NAMES),
    st.integers(1, 1000),
    st.builds(
        Impairments,
        mss=st.sampled_from([(1448, 1448), (30, 600), (1, 200)]),
        loss=st.sampled_from([0.0, 0.02, 0.1, 0.3]),
        reorder=st.sampled_from([0.0, 0.3]),
        duplicate=st.sampled_from([0.0, 0.2]),
        retransmit=st.sampled_from([0.0, 0.2]),
        overlap=st.sampled_from([0.0, 0.2]),
        skip_packets=st.sampled_from([0, 0, 7, 40]),
        skip_messages=st.sampled_from([0, 0, 5, 30]),
        only=st.sampled_from([None, None, 0, 1]),
    ),
)
@settings(max_examples=120)
def test_damaged_captures_of_clean_traffic_are_silent(name: str, seed: int, troubles: Impairments) -> None:
    prove_silent(name, seed, troubles)


@pytest.mark.parametrize("fault", FAULTS[::3], ids=name_of)
def test_cuts_do_not_matter(fault: Fault) -> None:
    chance = random.Random(fault.rule)  # noqa: S311
    prove_independent(fault, chance, rows=True)
    prove_independent(fault, chance, Impairments(loss=0.05, reorder=0.2, mss=(50, 600)), rows=False)


def test_a_source_that_is_known_to_be_active_is_judged_as_one() -> None:
    """The same fault is an error on a takeover, and a warning where the source may be a replica."""
    fault = next(each for each in FAULTS if name_of(each) == "SNP-04 at-end")
    assert {each.severity for each in prove_found(fault).of("SNP-04")} == {Severity.WARNING}
    elsewhere = Fault(fault.rule, fault.title, "takeover", fault.apply, fault.variant, ("SNP-08",))
    assert {each.severity for each in prove_found(elsewhere).of("SNP-04")} == {Severity.ERROR}


def test_echoes_go_back_to_one_root() -> None:
    """One marker that ends too early: all items behind its end are one finding."""
    fault = next(each for each in FAULTS if name_of(each) == "SNP-02 above")
    (finding,) = prove_found(fault).of("SNP-02")
    assert finding.echoes == 0
    assert [frame.role for frame in finding.frames] == ["guilty", "marker"]


# ------------------------------------------------------------------------------------------------------- recordings

#: What a recording's truth calls it, and the rule that it is.
CALLED = {
    "before any snapshot marker": "SNP-01",
    "beyond snapshot end": "SNP-02",
    "start > end": "SNP-03",
    "wholly in the past": "SNP-04",
    "seqno goes backwards": "SEQ-01",
    "with seqno 0": "SEQ-07",
}


@pytest.mark.shared
def test_recordings_are_silent_but_for_what_is_broken(shared_dir: Path) -> None:
    captures = sorted((shared_dir / "captures").glob("*.pcap*"))
    assert len(captures) > 20
    for path in captures:
        if not path.name.startswith("09_") and is_judged(path):
            result = check(batches_of(path), STREAM_RULES)
            assert not result.findings, (path.name, [f"{each.rule} {each.sentence}" for each in result.findings])


@pytest.mark.shared
def test_what_a_recording_breaks_on_purpose_is_found(shared_dir: Path) -> None:
    truth = shared_dir / "captures" / "09_feed_real_consumer.truth.json"
    result = check(batches_of(truth.with_name("09_feed_real_consumer.pcap")), STREAM_RULES)
    found = {
        (each.rule, str(result.frames[each.guilty.frame][1]), result.frames[each.guilty.frame][4])
        for each in result.findings
    }
    told = json.loads(truth.read_text())["rule_breaking"]
    covered = 0
    for entry in told:
        for words, rule in CALLED.items():
            if words in entry["rule"] and "at_msg" in entry:
                covered += 1
                assert (rule, *place_of(truth, entry["connection"], entry["at_msg"])) in found, entry["rule"]
    assert covered == 8
    # Its good connection has nothing worse than a confirmation that nobody would ask for.
    good = next(each for each in json.loads(truth.read_text())["connections"] if each["name"] == "feed-good")
    port = good["client"].rpartition(":")[2]
    for each in result.findings:
        if port in map(str, result.frames[each.guilty.frame][1:4:2]):
            assert each.severity is not Severity.ERROR, each.sentence


@pytest.mark.parametrize("folder", ["clean", "rough"])
def test_committed_captures_are_silent(repo_root: Path, folder: str) -> None:
    paths = sorted((repo_root / "captures" / folder).glob("*.pcap*"))
    assert paths
    for path in paths:
        result = check(batches_of(path), STREAM_RULES)
        assert not result.findings, (path.name, [f"{each.rule} {each.sentence}" for each in result.findings])
