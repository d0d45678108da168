"""The rules OPQ: every fault is found where it is, and traffic that behaves is left alone, whatever happens to it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from analysis.context.requests import state as talks_module
from analysis.rules import RULES, Severity
from dissector.generate.faults import FAULTS, fault
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Fault
from dissector.generate.scenarios import SCENARIOS
from tests.support import checking

MINE = [rule for rule in RULES if rule.group == "OPQ"]
BY_ID = {rule.id: rule for rule in RULES}
FOUND = [each for each in FAULTS if each.rule.startswith("OPQ")]
#: Streams that share an opaque are what the scenario is about; worth a remark, and no more.
INHERENT = {("shared-opaque", "OPQ-08", Severity.INFO), ("shared-opaque", "OPQ-12", Severity.INFO)}


def named(one: Fault) -> str:
    return f"{one.rule}-{one.variant}".rstrip("-")


def test_there_are_twelve() -> None:
    assert sorted(rule.id for rule in MINE) == [f"OPQ-{number:02}" for number in range(1, 13)]


@pytest.mark.parametrize("one", FOUND, ids=named)
def test_finds_the_fault(one: Fault) -> None:
    talks, done = checking.broken(one)
    result = checking.findings_of(talks)
    found = result.of(one.rule)
    assert [each.guilty.frame for each in found] == [checking.frame_of(result, talks, done.emissions[0])]
    assert all(each.sentence and "{" not in each.sentence for each in found)
    rank = BY_ID[one.rule].severity.rank
    others = {each.rule for each in result.findings if each.severity.rank <= rank} - {one.rule}
    assert others <= set(one.implies)


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS])
def test_leaves_good_traffic_alone(name: str) -> None:
    found = checking.findings_of(checking.clean(name), rules=MINE).findings
    assert {(name, each.rule, each.severity) for each in found} <= INHERENT


@pytest.mark.parametrize("name", sorted({excuse.scenario for rule in MINE for excuse in rule.excuses}))
def test_excuses_are_scenarios(name: str) -> None:
    assert name in {each.name for each in SCENARIOS}


@pytest.mark.parametrize(
    "troubles",
    [
        Impairments(mss=(40, 900), loss=0.1),
        Impairments(mss=(40, 600), reorder=0.4, duplicate=0.2, retransmit=0.2, overlap=0.2),
        Impairments(mss=(40, 600), reorder=0.3, loss=0.05),
        Impairments(mss=(100, 900), skip_packets=21),
        Impairments(skip_messages=7),
        Impairments(only=0),
        Impairments(only=1),
    ],
    ids=["loss", "disorder", "both", "late", "later", "client", "server"],
)
def test_troubles_are_no_violations(troubles: Impairments) -> None:
    chance = random.Random(f"opaque {troubles}")  # noqa: S311
    always = [each for each in SCENARIOS if each.name in ("early-upr", "relay-close-in-flight", "close-in-flight")]
    for one in (*always, *chance.sample(SCENARIOS, 10)):
        found = checking.findings_of(checking.clean(one.name, 2), troubles, seed=chance.randrange(99), rules=MINE)
        assert {(one.name, each.rule, each.severity) for each in found.findings} <= INHERENT, one.name


@pytest.mark.parametrize(
    ("rule", "variant"), [("OPQ-01", "twice"), ("OPQ-04", "end"), ("OPQ-09", "no-end"), ("OPQ-10", None)]
)
def test_batches_do_not_matter(rule: str, variant: str | None) -> None:
    capture = checking.captured(checking.broken(fault(rule, variant))[0])
    batches = checking.batches_of(capture)
    whole = checking.check(batches, MINE).summary
    assert checking.check(checking.batches_of(capture, 4096), MINE).summary == whole
    assert checking.check(checking.single_rows(batches), MINE).summary == whole


def test_too_much_to_remember_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for nothing every answer looks like one to nothing: that must not be held against anybody."""
    monkeypatch.setattr(talks_module, "MAX_WAITING", 0)
    result = checking.findings_of(checking.clean("basic"), rules=MINE)
    assert result.findings == []
    assert result.tallies["OPQ-01"].undecided


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("01_basic.pcap", []),
        ("04_rollback_errors.pcap", []),
        ("06_replication_takeover.pcap", []),
        ("07d_capture_loss.pcap", []),
        ("07e_reorder_dup.pcap", []),
        ("10_upr_early_dialect.pcap", []),
        ("25_stream_id_v705.pcap", []),
        ("27_replication_takeover_v705.pcap", []),
        ("03_noop.pcap", ["OPQ-01"]),
        # An opaque of no stream, a vbucket without a stream, another stream's opaque, and an end with a wrong opaque.
        ("09_feed_real_consumer.pcap", ["OPQ-04"] * 4),
    ],
)
def test_recordings(shared_dir: Path, file: str, expected: list[str]) -> None:
    """No errors but those that the recordings were made with."""
    found = checking.check(checking.batches_of(shared_dir / "captures" / file), MINE).findings
    assert [each.rule for each in found if each.severity is Severity.ERROR] == expected


@pytest.mark.shared
def test_shared_opaque_of_a_recording(shared_dir: Path) -> None:
    found = checking.check(checking.batches_of(shared_dir / "captures" / "05_multiplex_close_resume.pcapng"), MINE)
    assert [(each.rule, each.severity) for each in found.findings] == [("OPQ-08", Severity.INFO)]
