"""The rules NOP: intervals, silence and clocks, and recordings of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.context.requests import state
from analysis.context.requests.noops import interval_of
from analysis.rules import RULES, Severity
from dissector.generate.faults import fault
from dissector.generate.session import SECOND
from tests.support import checking

MINE = [rule for rule in RULES if rule.group == "NOP"]


def test_too_much_to_remember_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for nothing no answer is known: that must not be held against anybody."""
    monkeypatch.setattr(state, "MAX_WAITING", 0)
    assert checking.findings_of(checking.clean("noop-idle"), rules=MINE).findings == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20", 20), ("0.100000", 0.1), ("1.5", 1.5), ("180", 180), ("", -1e-9), ("fast", -1e-9), ("-3", -1e-9)],
)
def test_intervals(text: str, seconds: float) -> None:
    assert interval_of(text) == round(seconds * SECOND)


def test_a_no_op_that_is_never_answered() -> None:
    """The producer goes on for longer than the interval: that is when older servers give up."""
    talks = checking.clean("noop-slow-side")
    asked = [each for each in talks[0] if each.frame.name == "noop" and not each.frame.response]
    replies = [each for each in talks[0] if each.frame.name == "noop" and each.frame.response]
    for each in (*replies[1:], *asked[2:]):
        at = talks[0].place(each)
        if at + 1 < len(talks[0].emissions):
            talks[0].emissions[at + 1].pause_ns += each.pause_ns
        talks[0].remove(each)
    result = checking.findings_of(talks, rules=MINE)
    assert [(each.rule, each.guilty.frame) for each in result.findings] == [
        ("NOP-02", checking.frame_of(result, talks, asked[1]))
    ]
    assert "none came" in result.findings[0].sentence


def test_a_clock_that_was_set_is_no_silence() -> None:
    talks, done = checking.broken(fault("NOP-06"))
    done.emissions[0].pause_ns += 300 * SECOND
    assert not checking.findings_of(talks, rules=MINE).findings


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        # One client answers with another opaque, one not at all.
        ("03_noop.pcap", [("NOP-01", Severity.ERROR), ("NOP-02", Severity.WARNING)]),
        ("06_replication_takeover.pcap", []),
        ("07a_snaplen96.pcap", []),
        ("09_feed_real_consumer.pcap", []),
        ("12_any_cooked.pcap", []),
        ("21_basic_xattr_snappy_v705.pcap", []),
        ("22_novalue_v705.pcap", []),
        ("26_collections_v705.pcap", []),
        ("27_replication_takeover_v705.pcap", []),
        ("44_stream_id_v810m.pcap", []),
    ],
)
def test_recordings(shared_dir: Path, file: str, expected: list[tuple[str, Severity]]) -> None:
    found = checking.check(checking.batches_of(shared_dir / "captures" / file), MINE)
    assert [(each.rule, each.severity) for each in found.findings] == expected
    assert found.tallies["NOP-04"].checked
