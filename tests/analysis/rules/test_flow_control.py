"""Flow-control rules: every fault is found where it is and nothing else; what only looks wrong is left alone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from analysis.check.findings import Finding
from analysis.rules import RULE_BY_ID
from analysis.rules.flow_control import RULES
from analysis.rules.model import Severity
from dissector.generate.faults.flow_control import FAULTS
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Fault, size_all_buffer_acks
from dissector.generate.scenarios import SCENARIOS, scenario
from dissector.generate.scenarios.setup import modern, plain
from dissector.generate.session import DISK, SECOND
from tests.support.checking import (
    Result,
    batches_of,
    broken,
    captured,
    check,
    clean,
    findings_of,
    frame_of,
    single_rows,
)
from tests.support.paths import CAPTURES, DATA

CLEAN = ("01", "02_", "03", "05", "06", "07", "10", "11", "12", "13", "21", "22", "23", "24", "25", "26", "27")
SEEDS = (1, 2, 3)


def name_of(fault: Fault) -> str:
    return f"{fault.rule} {fault.variant}".strip()


def serious(result: Result, worst: Severity = Severity.WARNING) -> list[Finding]:
    return [each for each in result.findings if each.severity.rank <= worst.rank]


def test_the_rules_are_all_there() -> None:
    assert [rule.id for rule in RULES] == [f"FLC-{number:02}" for number in range(1, 10)]
    ranks = {"E": Severity.ERROR, "W": Severity.WARNING, "I": Severity.INFO}
    assert [rule.severity for rule in RULES] == [ranks[letter] for letter in "EEWWWWIEI"]
    names = {each.name for each in SCENARIOS}
    for rule in RULES:
        assert RULE_BY_ID[rule.id] is rule
        assert all(excuse.scenario in names for excuse in rule.excuses if excuse.scenario)
        for excuse in rule.excuses:
            excused = {one for one, _ in scenario(excuse.scenario).excuses}
            assert rule.id in excused or excuse.scenario == "window-off"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_faults_are_found(fault: Fault, seed: int) -> None:
    talks, done = broken(fault, seed)
    result = findings_of(talks, rules=RULES)
    found = result.of(fault.rule)
    guilty = frame_of(result, talks, done.emissions[0])
    assert [each.guilty.frame for each in found] == [guilty]
    severity = RULE_BY_ID[fault.rule].severity
    others = {each.rule for each in serious(result, severity)} - {fault.rule, *fault.implies}
    assert not others
    # One cause is one finding: the other guilty messages are its echoes.
    if fault.rule in ("FLC-02", "FLC-06"):
        assert found[0].echoes


@pytest.mark.parametrize("fault", FAULTS, ids=name_of)
def test_faults_are_found_however_the_capture_is_cut(fault: Fault) -> None:
    talks, _ = broken(fault)
    capture = captured(talks)
    batches = batches_of(capture)
    whole = check(batches, RULES).summary
    assert check(single_rows(batches), RULES).summary == whole
    for chunk in (600, 4096):
        assert check(batches_of(capture, chunk), RULES).summary == whole


@pytest.mark.parametrize("each", SCENARIOS, ids=lambda each: each.name)
def test_clean_traffic_is_left_alone(each: Any) -> None:
    for seed in SEEDS:
        result = findings_of(clean(each.name, seed), rules=RULES)
        assert not serious(result)
        assert not any(tally.unknown for tally in result.tallies.values())


@cache
def talks_of(name: str, seed: int) -> Any:
    return clean(name, seed)


# A seed cannot be made simpler, so nothing is shrunk.
@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.sampled_from(SCENARIOS), st.integers(1, 1 << 20), st.sampled_from((1, 2)))
def test_troubles_are_nobodys_fault(each: Any, seed: int, which: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    troubles = Impairments(
        mss=chance.choice(((1448, 1448), (20, 400))),
        reorder=chance.choice((0, 0.3)),
        overlap=chance.choice((0, 0.2)),
        retransmit=chance.choice((0, 0.2)),
        duplicate=chance.choice((0, 0.2)),
        loss=chance.choice((0, 0.02, 0.2)),
        skip_packets=chance.choice((0, 0, 5, 30)),
        skip_messages=chance.choice((0, 0, 0, 7)),
        only=chance.choice((None, None, 0, 1)),
    )
    result = findings_of(talks_of(each.name, which), troubles, chance.choice((None, 700)), seed=seed, rules=RULES)
    assert not serious(result)


def unknown(result: Result, rule: str) -> dict[str, int]:
    return dict(result.tallies[rule].unknown)


def test_what_is_not_there_is_not_known() -> None:
    talks, _ = broken(FAULTS[0])
    whole = findings_of(talks, rules=RULES)
    assert whole.tallies["FLC-01"].verdict == "violated"
    late = findings_of(talks, Impairments(skip_messages=4), rules=RULES)
    assert not serious(late)
    assert set(unknown(late, "FLC-06")) == {"start"}
    lossy = findings_of(talks, Impairments(lose=(9,)), rules=RULES)
    assert not unknown(lossy, "FLC-06"), "the request was captured"
    half = findings_of(talks, Impairments(only=0), rules=RULES)
    assert not serious(half)
    assert not unknown(half, "FLC-06"), "the consumer's own direction has the request"


# --- what losses leave open -----------------------------------------------------------------------------------------

MUTATION, MARKER = 158, 44  # bytes of a mutation with a key of 3 and a value of 100 bytes, and of a marker


def lossy(batches: Sequence[pa.RecordBatch], lost: Callable[[dict[str, Any]], bool]) -> pa.RecordBatch:
    """Frames without some of them: what was lost shows as a gap before the next one of the direction."""
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    rows, gaps, kept = whole.to_pylist(), [0, 0], []
    for at, row in enumerate(rows):
        side = row["direction"]
        if lost(row):
            gaps[side] += row["end_offset"] - row["start_offset"]
        else:
            kept.append((at, gaps[side]))
            gaps[side] = 0
    found = whole.take(pa.array([at for at, _ in kept]))
    return found.set_column(found.schema.get_field_index("gap"), "gap", pa.array([gap for _, gap in kept], pa.int64()))


def turns(*acks: int, window: int = 20_000) -> list[pa.RecordBatch]:
    """Ten mutations and an ack, again and again; acks are for the mutations, and more or less by so much."""
    session = plain(random.Random(1), "turns", window=window)  # noqa: S311
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 900, DISK)
    for turn, more in enumerate(acks):
        for _ in range(10):
            stream.mutation(stream.last + 1, b"key", b"x" * 100)
        session.ack(10 * MUTATION + more + (0 if turn else MARKER))
    size_all_buffer_acks([session.conversation])
    return batches_of(captured([session.conversation]))


def seqno(number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda row: row["name"] == "mutation" and row["by_seqno"] == number


def number_of_ack(number: int) -> Callable[[dict[str, Any]], bool]:
    seen: list[int] = []

    def found(row: dict[str, Any]) -> bool:
        if row["name"] == "buffer_ack":
            seen.append(row["frame"])
        return row["name"] == "buffer_ack" and len(seen) == number

    return found


def test_a_lost_message_makes_one_ack_unknown() -> None:
    result = check([lossy(turns(0, 0, 0, 0), seqno(15))], RULES)
    assert not result.findings
    # The second ack gives the lost mutation back as well; at most 4 bytes more may have counted, as of two prepares.
    assert {rule: unknown(result, rule) for rule in ("FLC-01", "FLC-02", "FLC-06")} == {
        "FLC-01": {"gap": 1},
        "FLC-02": {},
        "FLC-06": {},
    }


@pytest.mark.parametrize(("more", "found"), [(4, []), (5, ["FLC-01"])])
def test_an_ack_of_more_than_lost_bytes_can_explain_is_found(more: int, found: list[str]) -> None:
    # Of the third ack, 4 bytes can be owed to the mutation that was lost before the second.
    result = check([lossy(turns(0, 0, more, 0), seqno(15))], RULES)
    assert [each.rule for each in serious(result)] == found


def test_a_lost_ack_does_not_hide_what_comes_later() -> None:
    lost = number_of_ack(2)
    result = check([lossy(turns(0, 0, 0, 0, 3_000), lost)], RULES)
    # The lost ack was of 1,580 bytes: one of 3,000 too much can't be explained by it.
    assert [(each.rule, each.facts["excess"]) for each in serious(result)] == [("FLC-01", 3_000 - 10 * MUTATION)]
    assert not serious(check([lossy(turns(0, 0, 0, 0, 10 * MUTATION), number_of_ack(2))], RULES))


def test_a_lost_ack_is_no_overdraft() -> None:
    batches = turns(0, 0, 0, 0, 0, 0, window=2_000)
    assert not serious(check(batches, RULES))
    result = check([lossy(batches, number_of_ack(2))], RULES)
    assert not serious(result)
    assert set(unknown(result, "FLC-02")) == {"gap"}
    assert result.tallies["FLC-02"].undecided < result.tallies["FLC-02"].checked // 2


def test_a_lost_answer_hides_the_window_until_the_next() -> None:
    session = plain(random.Random(1), "resized", window=5_000)  # noqa: S311
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 900, DISK)
    for size in (1_000, 3_000):
        for _ in range(10):
            stream.mutation(stream.last + 1, b"key", b"x" * 100)
        session.ack()
        session.control("connection_buffer_size", str(size))
    for _ in range(40):  # 6,320 bytes
        stream.mutation(stream.last + 1, b"key", b"x" * 100)
    size_all_buffer_acks([session.conversation])
    batches = batches_of(captured([session.conversation]))
    rows = [row for batch in batches for row in batch.to_pylist()]
    opaque = next(row["opaque"] for row in rows if row["name"] == "control" and row["text"] == "1000")
    result = check([lossy(batches, lambda row: row["response"] and row["opaque"] == opaque)], RULES)
    # Nothing is known of the ten mutations under the window of 1,000. Those under the next one show that there was
    # room when the first of them was sent, and then 19 of them fill it: it is known again.
    assert unknown(result, "FLC-02")["gap"] >= 10
    found = serious(result)
    assert [(each.rule, each.facts["window"]) for each in found] == [("FLC-02", 3_000)]
    assert found[0].facts["outstanding"] == 19 * MUTATION


def test_a_start_in_the_middle_is_over_with_a_window() -> None:
    def talk(too_much: int) -> pa.RecordBatch:
        session = plain(random.Random(1), "middle", window=2_000)  # noqa: S311
        session.acking = False
        stream = session.stream(0)
        stream.marker(0, 900, DISK)
        for turn in range(4):
            for _ in range(10):
                stream.mutation(stream.last + 1, b"key", b"x" * 100)
            session.ack(10 * MUTATION + (too_much if turn == 3 else 0 if turn else MARKER))
            if turn == 1:
                session.control("connection_buffer_size", "2000")
        size_all_buffer_acks([session.conversation])
        batches = batches_of(captured([session.conversation]))
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        return whole.slice(whole.column("name").to_pylist().index("mutation") + 3)

    quiet = check([talk(0)], RULES)
    assert not serious(quiet)
    assert set(unknown(quiet, "FLC-01")) == {"start"}
    # Before the last of the 10 mutations less than 2,000 were outstanding. So at most 1,999 + 158 were due at the third
    # ack, which gives 1,580 back; and 1,580 more at the fourth.
    most = 1_999 + MUTATION - 10 * MUTATION
    assert not serious(check([talk(most)], RULES))
    assert [each.rule for each in serious(check([talk(most + 1)], RULES))] == ["FLC-01"]


def test_a_message_without_a_name_makes_little_unknown() -> None:
    result = check(batches_of(DATA / "defects" / "flc01_unknown_opcode.pcap"), RULES)
    tally = result.tallies["FLC-02"]
    assert not serious(result)
    assert tally.checked > 2 * tally.undecided


# --- the capture's clock ---------------------------------------------------------------------------------------------


def stepped(batch: pa.RecordBatch, at: int, seconds: int) -> pa.RecordBatch:
    """The same frames, with a clock that was set before one of them."""
    times = batch.column("time_ns").to_numpy().copy()
    times[at:] += seconds * SECOND
    return batch.set_column(batch.schema.get_field_index("time_ns"), "time_ns", pa.array(times))


def stalled(rest: int) -> tuple[pa.RecordBatch, int]:
    """A window that stays full for so many seconds, in which failover logs are asked for; and a frame amid them."""
    session = plain(random.Random(1), "stuck", window=2_000)  # noqa: S311
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 90, DISK)
    while session.outstanding < session.window:
        stream.mutation(stream.last + 1, b"key", b"x" * 100)
    for _ in range(10):
        session.idle(rest / 10)
        session.failover_log(0)
    size_all_buffer_acks([session.conversation])
    batch = pa.Table.from_batches(batches_of(captured([session.conversation]))).combine_chunks().to_batches()[0]
    return batch, batch.num_rows - 9


@pytest.mark.parametrize(("rest", "step", "verdict"), [
    (30, 0, "holds"),
    (30, 599, "violated"),  # that may be silence
    (30, 3_600, "unknown"),
    (90, 3_600, "violated"),  # 60 s have passed without it
    (90, -3_600, "unknown"),
])  # fmt: skip
def test_a_step_of_the_clock_is_no_stall(rest: int, step: int, verdict: str) -> None:
    batch, at = stalled(rest)
    for batches in ([stepped(batch, at, step)], single_rows([stepped(batch, at, step)])):
        result = check(batches, RULES)
        assert result.tallies["FLC-03"].verdict == verdict
        assert unknown(result, "FLC-03") == ({"clock": 1} if verdict == "unknown" else {})
        if verdict == "violated" and step == 3_600:
            assert result.of("FLC-03")[0].facts["waited_s"] in (rest - 1, rest)


def test_a_step_of_the_clock_is_no_late_ack() -> None:
    batch = pa.Table.from_batches(turns(0, 0, 0)).combine_chunks().to_batches()[0]
    at = batch.column("name").to_pylist().index("buffer_ack")
    result = check([stepped(batch, at, 3_600)], RULES)
    assert not result.findings
    assert unknown(result, "FLC-09") == {"clock": 1}


# --- roots and echoes ------------------------------------------------------------------------------------------------


def test_one_missing_ack_is_one_finding() -> None:
    session = plain(random.Random(1), "short", window=2_000)  # noqa: S311
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 900, DISK)
    for turn in range(9):
        before = stream.last
        while stream.last < before + 12:  # as much as fits, for a producer that has got every ack
            stream.mutation(stream.last + 1, b"key", b"x" * 100)
        if turn != 2:
            session.ack(12 * 158 + (44 if not turn else 0))
    size_all_buffer_acks([session.conversation])
    found = serious(findings_of([session.conversation], rules=RULES))
    assert [each.rule for each in found] == ["FLC-02"]
    assert found[0].echoes > 30


def test_a_message_without_a_name_may_count() -> None:
    assert not serious(check(batches_of(DATA / "defects" / "flc01_unknown_opcode.pcap"), RULES))


def test_an_over_ack_does_not_spoil_what_follows() -> None:
    session = plain(random.Random(1), "again", window=2_000)  # noqa: S311
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 90, DISK)
    for turn in range(8):
        while session.outstanding < session.window:
            stream.mutation(stream.last + 1, b"key", b"x" * 100)
        session.ack(session.outstanding + (900 if turn == 1 else 0))
    size_all_buffer_acks([session.conversation])
    result = findings_of([session.conversation], rules=RULES)
    assert [(each.rule, each.echoes, each.facts["excess"]) for each in serious(result)] == [("FLC-01", 0, 900)]


def test_an_overrun_behind_an_over_ack_is_still_found() -> None:
    session = plain(random.Random(1), "again", window=2_000)  # noqa: S311
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 90, DISK)
    stream.mutation(1, b"key", b"x" * 100)
    session.ack(5_000)
    stream.mutation(2, b"key", b"x" * 100)
    session.pending_ns = 2 * SECOND  # by then every server has read the ack
    while stream.last < 40:
        stream.mutation(stream.last + 1, b"key", b"x" * 100)
    size_all_buffer_acks([session.conversation])
    result = findings_of([session.conversation], rules=RULES)
    assert [each.rule for each in serious(result)] == ["FLC-01", "FLC-02"]


def test_a_stall_without_an_end_is_found_once() -> None:
    session = plain(random.Random(1), "stuck", window=2_000)  # noqa: S311
    session.acking = False
    stream = session.stream(0)
    stream.marker(0, 90, DISK)
    while session.outstanding < session.window:
        stream.mutation(stream.last + 1, b"key", b"x" * 100)
    session.idle(130)
    session.failover_log(0)
    size_all_buffer_acks([session.conversation])
    result = findings_of([session.conversation], rules=RULES)
    found = serious(result)
    assert [each.rule for each in found] == ["FLC-03"]
    assert 125 < found[0].facts["waited_s"] <= 130


def test_a_refused_window_is_none() -> None:
    session = modern(random.Random(1), "refused", window=0, collections=False)  # noqa: S311
    session.acking = False
    session.control("connection_buffer_size", "1000", status=4)
    stream = session.stream(0)
    stream.marker(0, 5, DISK)
    session.ack(10)
    size_all_buffer_acks([session.conversation])
    assert [each.rule for each in serious(findings_of([session.conversation], rules=RULES))] == ["FLC-06"]


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(CAPTURES.glob("*.pcap*")) if path.name.startswith(CLEAN)],
    ids=lambda path: path.name,
)
def test_servers_keep_the_rules(path: Path) -> None:
    keeps_the_rules(path)


@pytest.mark.shared
def test_servers_keep_the_rules_in_shared_recordings(shared_dir: Path) -> None:
    own = {path.name for path in CAPTURES.glob("*.pcap*")}
    for path in sorted((shared_dir / "captures").glob("*.pcap*")):
        if path.name not in own and path.name.startswith(CLEAN):
            keeps_the_rules(path)


def keeps_the_rules(path: Path) -> None:
    result = check(batches_of(path), RULES)
    assert not serious(result)
    assert check(batches_of(path, 20_000), RULES).summary == result.summary


def test_the_broken_recording() -> None:
    path = CAPTURES / "02b_flow_control_broken.pcap"
    result = check(batches_of(path), RULES)
    ports = {number: place[1] if place[3] == 12001 else place[3] for number, place in result.frames.items()}
    found = [(each.rule, ports[each.guilty.frame], each.facts.get("excess", 0)) for each in result.findings]
    # over-ack (7139 of 2139), early-ack (300 of 0, later 0 bytes), ack-without-control; the malformed ack of
    # ack-vb is no matter of flow control, and before its OPEN nothing is known of ack-unopened.
    assert sorted(found) == [
        ("FLC-01", 37862, 5000),
        ("FLC-01", 37888, 300),
        ("FLC-06", 37874, 0),
        ("FLC-07", 37888, 0),
    ]
    assert unknown(result, "FLC-06") == {"start": 1}


def test_a_client_that_plays_the_producer_overruns_the_window() -> None:
    # feed-good sends a message at 4,506 bytes outstanding in a window of 4,096; its own count says so, too.
    path = CAPTURES / "09_feed_real_consumer.pcap"
    found = serious(check(batches_of(path), RULES))
    assert [(each.rule, each.facts) for each in found] == [("FLC-02", {"outstanding": 4506, "window": 4096})]


@pytest.mark.parametrize("path", sorted((CAPTURES / "broken").glob("FLC-*.pcapng")), ids=lambda path: path.stem)
def test_the_library_shows_what_it_says(path: Path) -> None:
    result = check(batches_of(path), RULES)
    assert path.stem[:6] in {each.rule for each in result.findings}
    for each in result.findings:
        assert "{" not in each.sentence
        assert json.dumps(each.facts)
