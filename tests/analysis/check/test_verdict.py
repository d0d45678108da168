"""What a check came to where there was little to judge, and why cases are undecided where something was lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analysis.check.findings import Tally
from analysis.check.inspection import CheckVerdict, Inspection, check
from analysis.context.losses import Doubt
from analysis.rules.model import REASONS, reason_of_loss
from tests.support.drawn_captures import OPAQUE, VBUCKET, opening, streaming
from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import (
    CLIENT,
    SERVER,
    Conversation,
    Message,
    Wire,
    drop,
    marker,
    mutation,
    noop,
    pcap,
    response,
    snap,
)

GARBAGE = Message(b"\xff" * 100)


@pytest.mark.parametrize(
    ("verdict", "tally", "has_upr"),
    [
        (CheckVerdict.NOT_VIOLATED, Tally("SEQ-01", checked=2), True),
        (CheckVerdict.NOTHING_TO_CHECK, Tally("SEQ-01"), True),
        (CheckVerdict.NO_MESSAGES, Tally("SEQ-01"), False),
        (CheckVerdict.NO_MESSAGES, Tally("SEQ-01", checked=2), False),
        (CheckVerdict.NOT_VIOLATED, Tally("SEQ-01", checked=2, violated=1, mild=1), False),  # told as "nothing else"
    ],
)
def test_verdicts(verdict: CheckVerdict, tally: Tally, *, has_upr: bool) -> None:
    inspection = Inspection([], [tally], 2, 1, has_upr=has_upr)
    assert inspection.verdict is verdict
    assert verdict.empty == (verdict in (CheckVerdict.NO_MESSAGES, CheckVerdict.NOTHING_TO_CHECK))


def test_violations_that_are_only_counted_are_violations() -> None:
    assert Inspection([], [Tally("SEQ-01", 3, 3)], 3, 1, left_out=3).verdict is CheckVerdict.VIOLATED


@pytest.mark.parametrize(
    ("reason", "doubt"),
    [
        ("gap", Doubt.MISSING),
        ("gap", Doubt.MISSING | Doubt.LATE),
        ("unreadable", Doubt.UNREAD),
        ("unreadable", Doubt.UNREAD | Doubt.LATE),
        ("gap-or-unreadable", Doubt.MISSING | Doubt.UNREAD),
        ("start", Doubt.LATE),
        ("unreadable", Doubt(0)),
    ],
)
def test_reasons(reason: str, doubt: Doubt) -> None:
    assert reason_of_loss(doubt) == reason
    assert reason in REASONS


def packets(*, garbage: bool = False) -> list[Wire]:
    """A stream with four items, of a packet each, and what is no frame between the second and the third."""
    conversation = Conversation().open()
    said = [*opening(b"a"), *streaming(), (SERVER, marker(VBUCKET, OPAQUE, 0, 4))]
    said += [(SERVER, mutation(VBUCKET, OPAQUE, seqno, b"key-%d" % seqno, b"{}" * 40)) for seqno in (1, 2)]
    said += [(SERVER, GARBAGE)] * garbage
    said += [(SERVER, mutation(VBUCKET, OPAQUE, seqno, b"key-%d" % seqno, b"{}" * 40)) for seqno in (3, 4)]
    said += [(SERVER, noop(5)), (CLIENT, response(0x5C, opaque=5))]
    for side, message in said:
        conversation.send(side, message)
    return conversation.packets


def reasons(path: Path, sent: list[Wire]) -> set[str]:
    """Return the reasons for undecided cases that something lost may have."""
    path.write_bytes(pcap(sent))
    found: Counter[str] = Counter()
    for tally in check(path).tallies:
        found += tally.unknown
    return set(found) & {"gap", "unreadable", "gap-or-unreadable", "start"}


def test_nothing_lost_leaves_nothing_undecided(tmp_path: Path) -> None:
    assert reasons(tmp_path / "a.pcap", packets()) == set()


def test_lost_packets_are_missing_bytes(tmp_path: Path) -> None:
    second_item = 3 + 4 + 1 + 1  # after the handshake, four messages of set-up, the marker and the first item
    assert reasons(tmp_path / "a.pcap", drop(packets(), second_item)) == {"gap"}


def test_what_a_snap_length_cuts_off_is_missing(tmp_path: Path) -> None:
    assert reasons(tmp_path / "a.pcap", snap(packets(), 60)) <= {"gap"}


def test_bytes_that_are_no_frame_are_unreadable(tmp_path: Path) -> None:
    assert reasons(tmp_path / "a.pcap", packets(garbage=True)) == {"unreadable"}


def test_both_on_a_connection_leave_it_open(tmp_path: Path) -> None:
    fourth_item = 3 + 4 + 1 + 2 + 1 + 1  # behind two items, the garbage and the third one
    assert reasons(tmp_path / "a.pcap", drop(packets(garbage=True), fourth_item)) == {"gap-or-unreadable"}


def test_a_connection_that_had_begun_before_lacks_its_start(tmp_path: Path) -> None:
    marker_on = 3 + 4
    assert reasons(tmp_path / "a.pcap", packets()[marker_on:]) == {"start"}


def test_a_connection_of_which_one_direction_was_captured_lacks_bytes() -> None:
    found: Counter[str] = Counter()
    for tally in check(CAPTURES / "rough" / "server-only.pcapng").tallies:
        found += tally.unknown
    assert found["gap"] > 0
    assert not found["unreadable"]


def test_the_first_prepare_of_a_key_is_decided_where_nothing_was_lost() -> None:
    by_rule = {tally.rule: tally for tally in check(CAPTURES / "clean" / "sync-writes.pcapng").tallies}
    assert by_rule["SEQ-09"].checked > 0
    assert by_rule["SEQ-09"].held == by_rule["SEQ-09"].checked
