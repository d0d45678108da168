"""The rules FOL: where a rollback goes, and what recordings of real servers show of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.context.requests import failover_logs
from analysis.context.requests.rollback_point import RollbackVerdict, StreamRange, in_order, rollback_point
from analysis.rules import RULES
from dissector.generate.faults import failover
from tests.support import checking
from tests.support.rule_proofs import place_of

MINE = [rule for rule in RULES if rule.group == "FOL"]


def test_too_much_to_remember_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_logs, "MAX_WAITING", 0)
    fault = next(each for each in failover.FAULTS if each.variant == "elsewhere")
    result = checking.findings_of(checking.broken(fault)[0], rules=MINE)
    assert result.findings == []
    assert result.tallies["FOL-05"].undecided


# ------------------------------------------------------------------------------------------------------ the formula

LOG = ((0xC, 40), (0xB, 24), (0xA, 0))


@pytest.mark.parametrize(
    ("asked", "verdict", "right", "wrong"),
    [
        # start, uuid, snapshot
        ((50, 0xD, 50, 50), RollbackVerdict.UNKNOWN_BRANCH, [0], [1, 24, 40]),
        ((20, 0xA, 20, 20), RollbackVerdict.NONE, [], [0, 19, 20]),
        ((24, 0xA, 20, 24), RollbackVerdict.NONE, [], [0, 20, 23]),
        ((24, 0xA, 24, 90), RollbackVerdict.NONE, [], [0, 23]),  # nothing of the snapshot is there
        ((30, 0xA, 30, 30), RollbackVerdict.OLD_BRANCH, [24], [0, 23, 25, 30]),
        ((30, 0xA, 10, 30), RollbackVerdict.OLD_BRANCH, [24], [0, 10]),  # all of the snapshot is there
        ((20, 0xA, 10, 30), RollbackVerdict.OLD_BRANCH, [10], [0, 24]),
        ((30, 0xA, 28, 32), RollbackVerdict.OLD_BRANCH, [24], [0, 28]),
        ((50, 0xB, 50, 50), RollbackVerdict.OLD_BRANCH, [40], [0, 24]),
        # The high seqno is 60 or more.
        ((60, 0xC, 60, 60), RollbackVerdict.NONE, [], [0, 40]),
        ((90, 0xC, 90, 90), RollbackVerdict.NEWEST_BRANCH, [60, 75, 89], [0, 40, 59, 90]),
        ((90, 0xC, 50, 95), RollbackVerdict.NEWEST_BRANCH, [50], [0, 49, 60, 75]),
        ((90, 0xC, 80, 95), RollbackVerdict.NEWEST_BRANCH, [60, 79, 80], [0, 59, 81]),
    ],
)
def test_where_a_rollback_goes(
    asked: tuple[int, int, int, int], verdict: RollbackVerdict, right: list[int], wrong: list[int]
) -> None:
    point = rollback_point(StreamRange(*asked), LOG, 60)
    assert point.verdict is verdict
    assert [each for each in (*right, *wrong) if point.fits(each)] == right


@pytest.mark.parametrize(
    "log", [(), ((1, 0), (2, 5)), ((1, 5), (1, 0)), ((0, 0),)], ids=["empty", "disorder", "twice", "zero"]
)
def test_a_log_that_is_not_in_order(log: tuple[tuple[int, int], ...]) -> None:
    assert in_order(LOG)
    assert not in_order(log)


# ------------------------------------------------------------------------------------------------------- recordings


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("01_basic.pcap", []),
        ("05_multiplex_close_resume.pcapng", []),
        ("06_replication_takeover.pcap", []),
        ("07d_capture_loss.pcap", []),
        ("25_stream_id_v705.pcap", []),
        ("27_replication_takeover_v705.pcap", []),
        ("41_basic_v810m.pcap", []),
        ("09_feed_real_consumer.pcap", ["FOL-01"]),
        # The client tries requests of all kinds: the rollbacks that it gets are right, and it goes on as if nothing
        # had been said.
        ("04_rollback_errors.pcap", ["FOL-04"] * 3 + ["FOL-07"] * 3),
        ("10_upr_early_dialect.pcap", ["FOL-04"] + ["FOL-07"] * 2),
    ],
)
def test_recordings(shared_dir: Path, file: str, expected: list[str]) -> None:
    """Nothing but what the recordings were made with."""
    found = checking.check(checking.batches_of(shared_dir / "captures" / file), MINE).findings
    assert [each.rule for each in found] == expected


@pytest.mark.shared
def test_bad_requests_of_a_recording(shared_dir: Path) -> None:
    """They are those that the client had answered with 0x22."""
    path = shared_dir / "captures" / "04_rollback_errors.pcap"
    truth = path.with_suffix(".truth.json")
    told = json.loads(truth.read_text())
    talk = next(each for each in told["connections"] if each["name"] == "errs")
    refused = {
        each["opaque"] for each in talk["messages"] if each["dir"] == "s2c" and each.get("status") in (0x22, "0x22")
    }
    asked = [each["i"] for each in talk["messages"] if each["dir"] == "c2s" and each["opaque"] in refused]
    result = checking.check(checking.batches_of(path), MINE)
    places = [result.frames[each.guilty.frame] for each in result.of("FOL-04")]
    assert [(str(place[1]), place[4]) for place in places] == [place_of(truth, "errs", each) for each in asked]


@pytest.mark.shared
def test_rollbacks_of_a_recording_are_recomputed(shared_dir: Path) -> None:
    result = checking.check(checking.batches_of(shared_dir / "captures" / "04_rollback_errors.pcap"), MINE)
    assert not result.tallies["FOL-05"].unknown
    assert result.tallies["FOL-05"].checked > 5
