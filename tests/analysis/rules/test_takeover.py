"""The rules TKO: answers that may be another stream's, limits, and recordings of real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.context.requests import handovers, state
from analysis.rules import RULES, Severity
from dissector.generate.faults import fault
from tests.support import checking

MINE = [rule for rule in RULES if rule.group == "TKO"]


def test_too_much_to_remember_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for nothing no answer is known: that must not be held against anybody."""
    for module, name in ((state, "MAX_WAITING"), (handovers, "_MOST_MARKERS")):
        monkeypatch.setattr(module, name, 0)
    result = checking.findings_of(checking.clean("takeover"), rules=MINE)
    assert result.findings == []
    assert result.tallies["TKO-03"].undecided


def test_answers_that_may_be_another_streams_are_unknown() -> None:
    """Answers name no vbucket: with one opaque for two streams nobody knows whose marker was confirmed."""
    talks, _ = checking.broken(fault("TKO-04"))
    for each in talks[0]:
        if each.frame.name == "snapshot_marker" and each.frame.response:
            break
    conversation = talks[0]
    request = next(each for each in conversation if each.frame.name == "stream_request" and not each.frame.response)
    granted = next(each for each in conversation if each.frame.name == "stream_request" and each.frame.response)
    marker = next(
        each
        for each in conversation
        if each.frame.name == "snapshot_marker" and each.frame.fields.get("snapshot_type", 0) & 8
    )
    at = conversation.place(granted) + 1
    other = [
        (request.side, request.frame.copy(vbucket=9)),
        (granted.side, granted.frame.copy()),
        (marker.side, marker.frame.copy(vbucket=9, fields={**marker.frame.fields, "snap_start_seqno": 0})),
    ]
    for side, frame in reversed(other):
        conversation.emissions.insert(at, type(marker)(side, frame))
    result = checking.findings_of(talks, rules=MINE)
    assert not result.of("TKO-04")
    assert result.tallies["TKO-04"].unknown["unreadable"]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "judged", "expected"),
    [
        ("06_replication_takeover.pcap", 8, []),
        ("27_replication_takeover_v705.pcap", 8, []),
        # States on a stream that is no takeover: the client plays a producer that breaks rules.
        ("09_feed_real_consumer.pcap", 0, ["TKO-05"]),
        ("07d_capture_loss.pcap", 0, []),
        ("10_upr_early_dialect.pcap", 0, []),
    ],
)
def test_recordings(shared_dir: Path, file: str, judged: int, expected: list[str]) -> None:
    found = checking.check(checking.batches_of(shared_dir / "captures" / file), MINE)
    assert [each.rule for each in found.findings if each.severity is Severity.ERROR] == expected
    assert found.tallies["TKO-01"].checked == found.tallies["TKO-03"].checked == judged
