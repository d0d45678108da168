"""A check of what comes: the same findings as that of the whole, as soon as they are proven, in bounded memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.check.export import plain, row_of
from analysis.check.inspection import Inspection, check, for_rules
from analysis.check.live import LiveChecker
from analysis.check.selection import Selection
from analysis.rules import RULES
from dissector.capture import expand
from dissector.errors import UsageError
from dissector.frames.sources import open_frames
from dissector.options import ReadOptions
from dissector.tcp import patience
from tests.support.tcp_by_hand import CLIENT, SERVER, STEP_NS, Conversation, Ends, Wire, noop, pcap

if TYPE_CHECKING:
    from collections.abc import Callable

    from analysis.check.findings import Finding

ROOT = Path(__file__).parents[3]
BROKEN = sorted((ROOT / "captures/broken").glob("*.pcapng"))
FEED = ROOT / "captures/09_feed_real_consumer.pcap"  #: a client that plays a bad producer
CHOSEN = [*BROKEN[::25], FEED]


def live(
    path: Path,
    *,
    group: int = 1024,
    limit: int = 1000,
    chunk_bytes: int = 700,
    selection: Selection | None = None,
    told: Callable[[LiveChecker, list[Finding]], None] | None = None,
) -> tuple[list[Finding], Inspection]:
    """Check a capture in small pieces; return the findings as they were told, and the result."""
    checker = LiveChecker(RULES, group=group, limit=limit, selection=selection or Selection())
    shown: list[Finding] = []
    options = dataclasses.replace(for_rules(ReadOptions(chunk_bytes=chunk_bytes)), live=True)
    reader = open_frames(expand([str(path)]), options, over=lambda each: shown.extend(checker.end(each.id)))
    for batch in reader:
        found = checker.fold(batch)
        shown += found
        if told is not None:
            told(checker, found)
    last, inspection = checker.finish(reader.report)
    return [*shown, *last], inspection


def violations(inspection: Inspection) -> int:
    return sum(tally.violated for tally in inspection.tallies)


def rows(inspection: Inspection) -> list[dict[str, Any]]:
    return [plain(row_of(finding)) for finding in inspection.findings]


@pytest.mark.parametrize(("path", "group"), [(FEED, 1024), *((path, 1) for path in CHOSEN)])
def test_the_findings_are_those_of_a_check_of_the_whole(path: Path, group: int) -> None:
    whole = check(path)
    shown, inspection = live(path, group=group)
    assert rows(inspection) == rows(whole)
    assert inspection.tallies == whole.tallies
    assert (inspection.frames, inspection.connections) == (whole.frames, whole.connections)
    assert sorted(each.id for each in shown) == sorted(each.id for each in whole.findings)  # each of them once


def test_a_finding_is_told_right_after_the_frames_that_prove_it() -> None:
    frames = 0
    late: list[tuple[str, int]] = []

    def told(checker: LiveChecker, found: list[Finding]) -> None:
        nonlocal frames
        frames = checker.frames
        late.extend((each.rule, frames - max(frame.frame for frame in each.frames)) for each in found)

    shown, _ = live(FEED, chunk_bytes=300, told=told)  # hardly any of its frames is larger
    assert len(late) == len(shown)  # the end has nothing to add
    assert max(lag for _, lag in late) <= 3, late


def test_a_told_finding_says_who_is_at_fault_and_has_the_frames_around_it() -> None:
    whole = {each.id: each for each in check(FEED).findings}
    seen: dict[str, list[int]] = {}

    def told(checker: LiveChecker, found: list[Finding]) -> None:
        for each in found:
            assert each.fault == whole[each.id].fault
            seen[each.id] = [row["frame"] for row in checker.transcript_of(found).of(each)]

    live(FEED, chunk_bytes=300, told=told)
    assert seen.keys() == whole.keys()
    for name, frames in seen.items():
        guilty = whole[name].guilty.frame
        assert {guilty, *(each.frame for each in whole[name].frames)} <= set(frames)
        assert min(frames) <= max(guilty - 2, 1)


def connections(count: int) -> bytes:
    """Return a capture of connections that come and go, one after the other; each breaks rules."""
    packets: list[Wire] = []
    for number in range(count):
        made = Conversation(Ends(ports=(20_000 + number, 11_210))).open()
        packets += made.send(CLIENT, noop(1)).send(CLIENT, noop(2)).close(CLIENT).close(SERVER).packets
    return pcap(packets)


def test_what_is_remembered_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "NOW_NS", 2**63)  # captures made by hand are of 2023
    monkeypatch.setattr(patience, "LINGER_NS", 70 * STEP_NS)  # ten connections of 7 packets
    monkeypatch.setattr(patience, "_SWEEP_NS", 7 * STEP_NS)
    count, group, limit = 300, 8, 20
    path = tmp_path / "many.pcap"
    path.write_bytes(connections(count))
    most: dict[str, int] = {}

    def told(checker: LiveChecker, found: list[Finding]) -> None:
        del found
        most.update({name: max(size, most.get(name, 0)) for name, size in checker.remembered.items()})

    shown, inspection = live(path, group=group, limit=limit, chunk_bytes=2000, told=told)
    chunk = 5  # connections in a chunk of 2000 bytes: 7 packets of 70 bytes and more are 490
    assert most["numbers"] <= 10 + 1 + 2 * chunk
    assert most["groups"] <= (10 + 1 + 2 * chunk) // group + 2
    assert most["connections"] <= most["groups"] * group
    rules = {each.rule for each in shown}
    assert most["findings"] <= len(rules) * limit * (1 + most["groups"])
    assert most["rows"] <= 2 * count
    # All were told, however few were kept; the rest are counted.
    assert (inspection.frames, inspection.connections) == (2 * count, count)
    assert all(sum(each.rule == rule for each in shown) == count for rule in rules)
    assert len(inspection.findings) == len(rules) * limit
    assert inspection.left_out == violations(inspection) - sum(1 + each.echoes for each in inspection.findings)


def test_rows_for_transcripts_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.check.live.RECENT_ROWS", 20)
    sizes: list[int] = []
    live(FEED, told=lambda checker, _: sizes.append(checker.remembered["rows"]))
    assert 20 <= max(sizes) <= 20 + 14  # and those of one chunk of 700 bytes, in which a frame takes 50 at least


def test_more_findings_than_the_limit_are_told_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    path.write_bytes(connections(30))
    whole = check(path)
    shown, inspection = live(path, limit=4)
    assert sorted(each.id for each in shown) == sorted(each.id for each in whole.findings)
    rules = {each.rule for each in shown}
    assert len(inspection.findings) == 4 * len(rules)
    assert violations(inspection) == violations(whole)
    assert inspection.left_out == violations(whole) - sum(1 + each.echoes for each in inspection.findings)


@pytest.mark.parametrize("group", [1, 2, 1024])
def test_connections_have_the_numbers_of_listings(group: int, tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    path.write_bytes(connections(5))
    for number in (1, 3, 5):
        selection = Selection(connection=str(number))
        shown, _ = live(path, group=group, selection=selection)
        assert shown
        assert {each.id for each in shown} == {each.id for each in check(path, selection=selection).findings}


def test_a_connection_that_never_came_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    path.write_bytes(connections(2))
    with pytest.raises(UsageError, match="no connection 3 "):
        live(path, selection=Selection(connection="3"))
