"""The rules OPQ: every fault is found where it is, and traffic that behaves is left alone, whatever happens to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.context.requests import state as talks_module
from analysis.rules import RULES, Severity
from dissector.generate.faults import FAULTS
from dissector.generate.scenario import Fault
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
