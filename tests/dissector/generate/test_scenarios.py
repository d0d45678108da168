"""The scenarios behave: every message decodes, and every rule that a naive check would find broken has its excuse.

The counting here is done anew from the encoded bytes; nothing of the session's own bookkeeping is believed.
"""

from __future__ import annotations

import re

import pytest

from dissector.codec.dialect import detect
from dissector.errors import UsageError
from dissector.generate.conversation import size_buffer_acks
from dissector.generate.scenario import Scenario, Size, size_all_buffer_acks
from dissector.generate.scenarios import SCENARIOS, scenario
from dissector.spec.model import Dialect
from tests.support.scenario_reading import DATA, SECOND, Naive, Said, Told, naive, read, told

NAMES = [each.name for each in SCENARIOS]
WANTED = {
    *("basic", "modern", "sync-writes", "takeover", "takeover-3x", "relay", "flow-control", "rollback", "close-resume"),
    *("multiplex", "stream-ids", "oso", "collections", "history", "cache-transfer", "ext-metadata"),
    *("early-upr", "draft"),
}
#: Defects that a scenario is about.
EXPECTED = {
    "early-upr": {"ack-count-in-value"},
    "early-upr-window": {"ack-count-in-value"},
    "framed-deletions": {"framing-length-omitted"},
}
SEEDS = (1, 2, 3)


def test_the_scenarios_that_others_build_upon_are_there() -> None:
    assert set(NAMES) >= WANTED
    assert len(set(NAMES)) == len(NAMES)


def test_a_wrong_name_gets_close_ones() -> None:
    with pytest.raises(UsageError, match="did you mean basic"):
        scenario("basik")
    with pytest.raises(UsageError, match="no scenario qqqqqq"):
        scenario("qqqqqq")


@pytest.mark.parametrize("each", SCENARIOS, ids=NAMES)
def test_excuses_name_a_rule_and_a_reason(each: Scenario) -> None:
    assert each.dialect in {"draft", "upr", "dcp"}
    assert len({rule for rule, _ in each.excuses}) == len(each.excuses)
    for rule, reason in each.excuses:
        assert re.fullmatch(r"(FRM|CON|OPQ|SNP|SEQ|FLC|FOL|TKO|NOP|XCN)-\d\d", rule)
        assert len(reason) > 10


@pytest.mark.parametrize("name", NAMES)
def test_every_message_decodes(name: str) -> None:
    for each in told(name):
        for said in each.said:
            if each.conversation.notes.get("name") == "tls":
                continue
            found = {defect.id for defect in said.decoded.defects} - EXPECTED.get(name, set())
            assert not found, f"{said.name}: {said.decoded.defects}"
    seen = {defect.id for each in told(name) for said in each.said for defect in said.decoded.defects}
    assert EXPECTED.get(name, set()) <= seen


@pytest.mark.parametrize("name", NAMES)
def test_detection_agrees(name: str) -> None:
    for each in told(name):
        verdict = detect((said.side, said.data) for said in each.said)
        assert verdict.dialect is each.dialect
        assert not verdict.contradictions
        if name != "missing-hello":
            assert verdict.collections == bool(each.conversation.notes.get("collections", False))


@pytest.mark.parametrize("name", NAMES)
def test_length_needs_no_encoding(name: str) -> None:
    for each in told(name):
        for emission, said in zip(each.conversation, each.said, strict=True):
            assert emission.frame.length == len(said.data)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_messages(name: str) -> None:
    again = scenario(name).conversations(1)
    size_all_buffer_acks(again)
    assert [[emission.frame.encode() for emission in conversation] for conversation in again] == [
        [said.data for said in each.said] for each in told(name)
    ]
    ports = [(conversation.client, conversation.client_port) for conversation in again]
    assert len(set(ports)) == len(ports)


def test_another_seed_makes_another_capture() -> None:
    first, second = (b"".join(said.data for said in told("basic", seed)[0].said) for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize("name", NAMES)
def test_settling_twice_changes_nothing(name: str) -> None:
    for each in told(name):
        size_buffer_acks(each.conversation)
        assert [emission.frame.encode() for emission in each.conversation] == [said.data for said in each.said]


@pytest.mark.parametrize("name", NAMES)
def test_nobody_hears_less_than_before_and_answers_follow_what_they_answer(name: str) -> None:
    for each in (one for seed in SEEDS for one in told(name, seed)):
        heard, place = [0, 0], [0, 0]
        first: tuple[dict[bytes, int], ...] = ({}, {})  # per side, where an opaque comes up first
        for said in each.said:
            assert heard[said.side] <= said.heard <= place[1 - said.side]
            heard[said.side] = said.heard
            if said.response and each.dialect is not Dialect.DRAFT:
                assert first[1 - said.side][said.opaque] < said.heard, f"{said.name} answers what had not arrived"
            first[said.side].setdefault(said.opaque, place[said.side])
            place[said.side] += 1


def counted(said: Said) -> int:
    """Return what a message takes from the window; its size, and 2 more for a prepare."""
    controlled = {*DATA, "snapshot_marker", "stream_end", "set_vbucket_state", "oso_snapshot"}
    controlled |= {"cache_transfer", "cache_transfer_end"}
    if said.response or said.name not in controlled:
        return 0
    return len(said.data) + (2 if said.name == "prepare" else 0)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {"draft", "early-upr-window"}])
def test_the_window_holds(name: str) -> None:
    """Outstanding is what was sent less the acks that the producer had received."""
    for each in (one for seed in SEEDS for one in told(name, seed)):
        if each.producer is None:
            continue
        window = outstanding = 0
        sent = [0]  # sizes of the producer's messages, summed up
        acks: list[tuple[int, int]] = []  # place among the consumer's messages, bytes
        consumed = given_back = 0
        sizes = control_sizes(each)
        for said in each.said:
            if said.side != each.producer:
                if said.name == "buffer_ack" and not said.response:
                    acks.append((consumed, said.numbers["buffer_bytes"]))
                    given_back += said.numbers["buffer_bytes"]
                    assert given_back <= sent[said.heard], "over-ack"
                consumed += 1
                continue
            while acks and acks[0][0] < said.heard:
                outstanding = max(0, outstanding - acks.pop(0)[1])
            if said.response and said.name == "control" and said.opaque in sizes:
                window = sizes[said.opaque]
                if window == 0 or name == "late-window-3x":
                    outstanding = 0
            size = counted(said)
            if size and window:
                assert outstanding < window, f"{said.name} was sent into a full window"
            outstanding += size
            sent.append(sent[-1] + size)


def control_sizes(each: Told) -> dict[bytes, int]:
    """Return the window sizes that were asked for, by opaque."""
    return {
        said.opaque: int(said.decoded.value.raw)
        for said in each.said
        if said.name == "control" and not said.response and b"connection_buffer_size" in said.data
    }


NAIVE_RULES = {
    *("OPQ-02", "OPQ-08", "OPQ-12", "SNP-01", "SNP-02", "SNP-04", "SNP-05", "SNP-06", "SNP-07"),
    *("SEQ-01", "SEQ-03", "SEQ-04", "SEQ-05", "SEQ-08", "SEQ-09", "SEQ-10"),
}
#: Excuses that the naive checks here are not naive enough to need.
NOT_NAIVE_ENOUGH = {
    ("takeover", "SNP-02"),
    ("oso", "SNP-05"),
    ("oso", "SNP-07"),
    ("oso-advanced", "SNP-04"),
    ("key-only", "SEQ-05"),
    ("cache-transfer", "SNP-07"),
    ("cache-transfer", "SEQ-01"),
    ("cache-transfer-only", "SEQ-03"),
    ("gomemcached", "OPQ-08"),
    ("vbucket-opaques", "OPQ-08"),
    ("collections", "SNP-06"),
    ("early-upr", "SNP-05"),
    ("rollback", "OPQ-12"),
    ("relay-rollback", "OPQ-12"),
    ("rollback", "SEQ-01"),
}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "draft"])
def test_what_a_naive_check_finds_is_excused(name: str) -> None:
    excused = dict(scenario(name).excuses)
    for seed in SEEDS:
        assert set(naive(name, seed)) <= set(excused), naive(name, seed)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "draft"])
def test_an_excuse_is_needed(name: str) -> None:
    found = naive(name)
    for rule, _ in scenario(name).excuses:
        if rule in NAIVE_RULES and (name, rule) not in NOT_NAIVE_ENOUGH:
            assert found[rule], f"{name} excuses {rule}, which nothing breaks"


def test_legs_of_a_relay_have_the_same_messages() -> None:
    for name in ("relay", "relay-rollback", "relay-refused"):
        far, near = told(name)
        forwarded = [
            [said.data for said in leg.said if said.side == leg.producer and said.name in {*DATA, "snapshot_marker"}]
            for leg in (far, near)
        ]
        assert forwarded[0] == forwarded[1]
        assert forwarded[0]
        # Nothing leaves the relay before it came in.
        arrived = {said.data: said.time_ns for said in near.said if said.side == near.producer}
        for said in far.said:
            if said.side == far.producer and said.name in DATA:
                assert said.time_ns > arrived[said.data]


def test_an_add_stream_answer_has_the_opaque_reversed() -> None:
    for name in ("relay", "relay-rollback", "consumer-leg"):
        far = told(name)[0]
        asked = [said.opaque for said in far.said if said.name == "stream_request" and not said.response]
        answers = [said.data[24:28] for said in far.said if said.name == "add_stream" and said.response]
        assert answers
        assert {answer[::-1] for answer in answers} <= set(asked)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "draft"])
def test_equal_seqnos_of_a_branch_are_equal_versions(name: str) -> None:
    """Whatever connection shows a version (XCN-01), it is the same one; a rollback may make another branch."""
    versions: dict[tuple[int, int, int], tuple[bytes, int, int]] = {}
    for each in told(name):
        logs: dict[int, list[tuple[int, int]]] = {}
        asked: dict[bytes, int] = {}
        for said in each.said:
            if said.name == "stream_request":
                if not said.response:
                    asked[said.opaque] = said.vbucket
                elif not said.status:
                    records = [
                        (
                            int.from_bytes(said.data[at : at + 8], "big"),
                            int.from_bytes(said.data[at + 8 : at + 16], "big"),
                        )
                        for at in range(24, len(said.data), 16)
                    ]
                    logs[asked[said.opaque]] = records
            elif said.name in {"mutation", "deletion", "expiration", "prepare"} and not said.response:
                seqno = said.numbers["by_seqno"]
                log = logs.get(said.vbucket, [(0, 0)])
                branch = next(uuid for uuid, begin in log if begin < seqno)
                version = (said.decoded.key, said.numbers["rev_seqno"], said.decoded.header.cas)
                assert versions.setdefault((said.vbucket, branch, seqno), version) == version


def test_cas_values_are_clocks_below_the_capture() -> None:
    begin_ns = 1_700_000_000 * SECOND
    for name in set(NAMES) - {"old-cas", "other-protocols"}:
        for each in told(name):
            for said in each.said:
                cas = said.decoded.header.cas
                assert cas == 0 or (cas & 0xFFFF == 0 and begin_ns - 2 * 3600 * SECOND < cas < begin_ns)


@pytest.mark.parametrize("name", ["basic", "modern", "multiplex", "flow-control"])
def test_sizes_are_kept(name: str) -> None:
    conversations = scenario(name).conversations(1, Size(frames=1_500, connections=4, vbuckets=20))
    size_all_buffer_acks(conversations)
    assert 1_450 <= sum(len(conversation.emissions) for conversation in conversations) <= 1_750
    if name == "multiplex":
        assert len(conversations) == 4
    if name != "flow-control":
        vbuckets = {
            emission.frame.vbucket
            for conversation in conversations
            for emission in conversation
            if emission.frame.name == "mutation"
        }
        assert len(vbuckets) >= 20
    for conversation in conversations:
        each = read(conversation, Dialect.DCP)
        assert not {defect.id for said in each.said for defect in said.decoded.defects}
        assert set(+Naive(each).found) <= {rule for rule, _ in scenario(name).excuses}


@pytest.mark.parametrize("size", [Size(frames=1), Size(vbuckets=1), Size(connections=1, vbuckets=1), Size(vbuckets=64)])
@pytest.mark.parametrize("name", ["basic", "modern", "multiplex", "flow-control"])
def test_odd_sizes_behave_as_well(name: str, size: Size) -> None:
    conversations = scenario(name).conversations(1, size)
    size_all_buffer_acks(conversations)
    for conversation in conversations:
        assert set(+Naive(read(conversation, Dialect.DCP)).found) <= {rule for rule, _ in scenario(name).excuses}


def test_small_ones_are_small() -> None:
    for name in NAMES:
        assert sum(len(each.said) for each in told(name)) <= 260
