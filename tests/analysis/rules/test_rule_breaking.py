"""Recordings of real servers whose client broke rules on purpose: the rules about connections, histories, takeovers and
no-ops find each of them on its connection, and nothing else at error in any recording.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from analysis.rules import RULES, Severity
from tests.support import checking

pytestmark = pytest.mark.shared
GROUPS = ("CON", "FOL", "TKO", "NOP")
MINE = tuple(rule for rule in RULES if rule.group in GROUPS)
#: By recording and connection, the rules that what its truth file lists breaks.
BROKEN = {
    ("02b_flow_control_broken", "ack-unopened"): ["CON-01"],
    ("03_noop", "noop-silent"): ["NOP-02"],
    ("03_noop", "noop-wrong-opaque"): ["NOP-01"],
    ("04_rollback_errors", "errs"): ["FOL-04", "FOL-04", "FOL-04"],
    ("04_rollback_errors", "double-open"): ["CON-02"],
    ("04_rollback_errors", "no-open"): ["CON-01"],
    ("04_rollback_errors", "addstream-on-producer"): ["CON-03"],
    ("04_rollback_errors", "streamreq-on-consumer"): ["CON-03"],
    ("09_feed_real_consumer", "feed-bad-failoverlog"): ["FOL-01"],
    ("09_feed_real_consumer", "feed-broken-1"): ["TKO-05"],
    ("21_basic_xattr_snappy_v705", "badauth"): ["CON-04"],
    ("23_sync_writes_v705", "sync-noname"): ["CON-05"],
}
#: What truth files do not list: the early client asks for 9 to 3, and is refused; and these clients try requests that
#: are sent back without going back themselves.
UNLISTED = {("10_upr_early_dialect", "FOL-04"), ("10_upr_early_dialect", "FOL-07"), ("04_rollback_errors", "FOL-07")}


@cache
def findings(capture: Path) -> list[tuple[str, str, Severity]]:
    """Connection by its name, rule and severity of every finding of these rules."""
    truth = json.loads(capture.with_suffix(".truth.json").read_text())
    names = {int(each["client"].rpartition(":")[2]): each["name"] for each in truth["connections"]}
    result = checking.check(checking.batches_of(capture), MINE)
    places = result.frames
    found = []
    for each in result.findings:
        _, sender, _, receiver, _ = places[each.guilty.frame]
        name = next((names[port] for port in (sender, receiver) if port in names), "")
        found.append((name, each.rule, each.severity))
    return found


@pytest.mark.parametrize(("recording", "connection"), BROKEN)
def test_finds_what_was_broken_on_purpose(shared_dir: Path, recording: str, connection: str) -> None:
    (capture,) = (shared_dir / "captures").glob(f"{recording}.pcap*")
    found = [rule for name, rule, _ in findings(capture) if name == connection]
    assert [rule for rule in found if (recording, rule) not in UNLISTED] == BROKEN[recording, connection]


def test_nothing_else_is_found(shared_dir: Path) -> None:
    for capture in sorted((shared_dir / "captures").glob("*.pcap*")):
        told = {name for recording, name in BROKEN if recording == capture.stem}
        others = [
            (name, rule)
            for name, rule, severity in findings(capture)
            if name not in told and severity is not Severity.INFO and (capture.stem, rule) not in UNLISTED
        ]
        assert not others, capture.name
