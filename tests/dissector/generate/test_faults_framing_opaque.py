"""Faults of the groups FRM and OPQ: each breaks its rule, by the message it names, and nothing else."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache

import pytest

from dissector.codec.decoder import decode
from dissector.errors import UsageError
from dissector.generate.conversation import CLIENT, SERVER, Conversation, Emission
from dissector.generate.faults import FAULTS, edits, fault
from dissector.generate.frame import Frame
from dissector.generate.scenario import Broken, Fault, FaultPlace, NoPlaceError, Script, size_all_buffer_acks
from dissector.generate.scenarios import scenario
from dissector.spec.model import Dialect
from dissector.tcp.framing import Framer, RawFrame, State
from dissector.tcp.limits import Limits
from dissector.tcp.reassembly import Chunk
from tests.support import generated_rules as rules

MINE = [each for each in FAULTS if each.rule[:3] in ("FRM", "OPQ")]
SEEDS = range(3)
#: What a look at one frame cannot tell: it takes the server's release, or the table is lenient (E-43).
UNSEEN = {("FRM-02", "flexible"), ("FRM-07", "mutation"), ("FRM-08", "stream"), ("FRM-12", "era"), ("FRM-15", "")}
every_fault = pytest.mark.parametrize("one", MINE, ids=lambda each: f"{each.rule}-{each.variant}".rstrip("-"))


def made(one: Fault, seed: int) -> list[Conversation]:
    return scenario(one.scenario).conversations(seed)


def broken(one: Fault, seed: int, frame: int = 1) -> tuple[list[Conversation], Broken]:
    conversations = made(one, seed)
    result = one.apply(Script(conversations, random.Random(seed), FaultPlace(frame)))  # noqa: S311 - no secret
    size_all_buffer_acks(conversations)
    return conversations, result


@cache
def trial(one: Fault, seed: int) -> tuple[list[Conversation], Broken]:
    """The same, made once for all who only look."""
    return broken(one, seed)


def era(one: Fault) -> tuple[int, int]:
    first = re.search(r"(\d+)\.(\d+)", scenario(one.scenario).era)
    return (int(first[1]), int(first[2])) if first else (0, 0)


def drafted(conversations: Sequence[Conversation]) -> bool:
    return conversations[0].emissions[0].frame.dialect is Dialect.DRAFT


def draft_findings(conversations: Sequence[Conversation]) -> list[rules.Finding]:
    """The draft's opcodes and the values that byte 5 may have."""
    known = {1: (1, 2), 2: (1, 2, 3), 3: (0,), 4: (1, 2, 3, 4, 5, 6), 5: (1, 2)}
    found = [each for conversation in conversations for each in rules.wires(conversation)]
    return [("FRM-02", each.emission) for each in found if each.datatype not in known.get(each.op, ())]


def findings(one: Fault, conversations: Sequence[Conversation]) -> list[rules.Finding]:
    return draft_findings(conversations) if drafted(conversations) else rules.findings(conversations, era(one))


def test_every_rule_has_a_fault() -> None:
    wanted = {f"FRM-{number:02}" for number in range(1, 16)} | {f"OPQ-{number:02}" for number in range(1, 13)}
    assert {each.rule for each in MINE} == wanted
    names = [(each.rule, each.variant) for each in FAULTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("one", {each.scenario: each for each in MINE}.values(), ids=lambda each: each.scenario)
def test_scenarios_break_nothing(one: Fault, seed: int) -> None:
    conversations = made(one, seed)
    size_all_buffer_acks(conversations)
    assert findings(one, conversations) == []


@pytest.mark.parametrize("seed", SEEDS)
@every_fault
def test_breaks_its_rule_and_no_other(one: Fault, seed: int) -> None:
    conversations, result = trial(one, seed)
    found = findings(one, conversations)
    assert (result.rule, result.variant) == (one.rule, one.variant)
    assert [emission for rule, emission in found if rule == one.rule] == [result.emissions[0]]
    others = {rule for rule, _ in found if rule != one.rule and rules.gravity(rule) >= rules.gravity(one.rule)}
    assert others <= set(one.implies)


@pytest.mark.parametrize("seed", SEEDS)
@every_fault
def test_names_what_it_did(one: Fault, seed: int) -> None:
    conversations, result = trial(one, seed)
    assert any(conversation is result.conversation for conversation in conversations)
    assert result.because
    for emission in result.emissions:
        assert any(emission is each for each in result.conversation)
    # All that was not named is as it was, in the same order; acks count anew, and no-ops fill a silence.
    named = {id(emission) for emission in result.emissions}
    kept = [each for conversation in conversations for each in conversation if id(each) not in named]
    said = [_telling(each) for each in kept]
    original = _original(one.scenario, seed)
    rest = iter(original)
    fills = one.rule == "OPQ-02"
    assert all(each in rest for each in said if not (fills and each[1] == "noop"))
    assert len(original) - len(said) <= len(result.emissions) + 1


@cache
def _original(name: str, seed: int) -> list[tuple[object, ...]]:
    return [_telling(each) for conversation in scenario(name).conversations(seed) for each in conversation]


def _telling(emission: Emission) -> tuple[object, ...]:
    frame, side = emission.frame, emission.side
    data = b"" if frame.name == "buffer_ack" else frame.encode()
    return side, frame.name, data


@every_fault
def test_decodes_with_its_defect(one: Fault) -> None:
    _, result = trial(one, 1)
    frames = rules.wires(result.conversation)
    data = result.emissions[0].frame.encode()
    decoded = decode(
        result.emissions[0].frame.dialect,
        data,
        collections=rules.has_collections(frames),
    )
    found = {defect.spec.rule for defect in decoded.defects}
    if one.rule.startswith("OPQ") or (one.rule, one.variant) in UNSEEN:
        assert found == set()
    elif (one.rule, one.variant) == ("FRM-11", "length"):
        assert decoded.defect_ids() == ("value-length",)
    else:
        assert one.rule in found


@every_fault
def test_is_deterministic(one: Fault) -> None:
    first, second = trial(one, 2), broken(one, 2)
    assert first[1].because == second[1].because
    assert _bytes(first[0]) == _bytes(second[0])


def _bytes(conversations: Sequence[Conversation]) -> list[tuple[int, int, int, bytes]]:
    return [
        (each.side, each.unheard, each.pause_ns, each.frame.encode())
        for conversation in conversations
        for each in conversation
    ]


@every_fault
def test_honours_the_place(one: Fault) -> None:
    total = sum(1 for conversation in made(one, 0) for _ in conversation)
    for frame in (total // 4, total // 2, total * 3 // 4):
        try:
            conversations, result = broken(one, 0, frame)
        except NoPlaceError:
            continue
        numbers = {
            id(each): number
            for number, each in enumerate((each for conversation in conversations for each in conversation), 1)
        }
        assert max(numbers[id(each)] for each in result.emissions) >= frame
        found = [emission for rule, emission in findings(one, conversations) if rule == one.rule]
        assert found == [result.emissions[0]]
    with pytest.raises(NoPlaceError):
        broken(one, 0, total + 1)


@pytest.mark.parametrize("frame", [18, 30, 60, 90])
def test_takes_the_first_chance_from_the_place_on(frame: int) -> None:
    one = fault("FRM-06", "unknown")
    before = [each.frame.name for conversation in made(one, 0) for each in conversation]
    conversations, result = broken(one, 0, frame)
    assert conversations[0].place(result.emissions[0]) + 1 == before.index("mutation", frame - 1) + 1


@every_fault
def test_nobody_hears_less_than_before(one: Fault) -> None:
    """TCP acknowledges everything up to a byte, so what a side has heard never shrinks."""
    for conversation in trial(one, 2)[0]:
        heard = {0: 0, 1: 0}
        for wire in rules.wires(conversation):
            assert wire.heard >= heard[wire.side]
            heard[wire.side] = wire.heard


@every_fault
def test_the_next_header_is_found(one: Fault) -> None:
    conversations, result = trial(one, 0)
    if drafted(conversations):
        return  # the draft's headers are found only on request
    for side in (0, 1):
        sent = [each for each in result.conversation if each.side == side]
        stream = b"".join(each.frame.encode() for each in sent)
        out: list[RawFrame] = []
        framer = Framer(Limits(), State.TRIAL)
        framer.data(Chunk(0, stream, 0, 0, None), out)
        framer.finish(out)
        guilty = result.emissions[0]
        expected = [each.frame.encode() for each in sent]
        if one.variant in ("magic", "stray") and guilty.side == side:
            at = sent.index(guilty)
            expected[at : at + 1] = [] if one.variant == "magic" else [expected[at][:24]]
        assert [frame.data for frame in out] == expected


def test_a_scenario_without_a_chance_is_no_place() -> None:
    one = fault("FRM-14")
    script = Script(scenario("basic").conversations(0), random.Random(0))  # noqa: S311 - no secret
    with pytest.raises(NoPlaceError, match="nothing to break"):
        one.apply(script)


def test_silence_is_longer_than_anybody_waits() -> None:
    for one in (each for each in MINE if each.rule == "OPQ-02"):
        conversations, result = trial(one, 0)
        times = {
            id(wire.emission): wire.time_ns for conversation in conversations for wire in rules.wires(conversation)
        }
        asked, later = result.emissions
        assert times[id(later)] - times[id(asked)] > 120 * rules.SECOND


def talk_with_flight() -> Conversation:
    """Three messages of the server, and one of the client's that had heard the first alone."""
    conversation = Conversation()
    for number in range(3):
        conversation.send(SERVER, Frame(Dialect.DCP, "noop", opaque=bytes([0, 0, 0, number])))
    conversation.send(CLIENT, Frame(Dialect.DCP, "buffer_ack"), unheard=2)
    conversation.send(CLIENT, Frame(Dialect.DCP, "buffer_ack"))
    return conversation


@pytest.mark.parametrize(("at", "unheard"), [(0, 2), (1, 3), (2, 3), (3, 3), (4, 2), (5, 2)])
def test_what_is_put_in_flight_is_not_heard(at: int, unheard: int) -> None:
    # Behind the first message nobody can tell whether it was heard: then it was not.
    conversation = talk_with_flight()
    flying, last = conversation.emissions[3:]
    fresh = edits.put(conversation, at, SERVER, Frame(Dialect.DCP, "noop"))
    assert conversation.place(fresh) == at
    assert (flying.unheard, last.unheard) == (unheard, 0)


def test_what_was_heard_stays_heard() -> None:
    conversation = Conversation()
    for side, unheard in ((CLIENT, 0), (SERVER, 0), (CLIENT, 0), (SERVER, 1), (SERVER, 0)):
        conversation.send(side, Frame(Dialect.DCP, "noop"), unheard=unheard)
    # The first message of the server's hears what is put before it, so the second one, which hears no more, did too.
    edits.put(conversation, 1, CLIENT, Frame(Dialect.DCP, "noop"))
    assert [edits.heard(conversation, each) for each in conversation if each.side == SERVER] == [2, 2, 3]


@pytest.mark.parametrize(("at", "heard"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 3), (5, 3)])
def test_what_is_put_before_a_message_has_heard_no_more_than_that(at: int, heard: int) -> None:
    conversation = talk_with_flight()
    assert edits.heard(conversation, edits.put(conversation, at, CLIENT, Frame(Dialect.DCP, "noop"))) == heard


@pytest.mark.parametrize(("at", "unheard"), [(0, 2), (1, 1), (2, 1)])
def test_what_is_taken_out_was_heard_or_not(at: int, unheard: int) -> None:
    conversation = talk_with_flight()
    flying, last = conversation.emissions[3:]
    edits.take_out(conversation, conversation.emissions[at])
    assert (flying.unheard, last.unheard) == (unheard, 0)


@pytest.mark.parametrize(("at", "place"), [(0, 1), (1, 4), (2, 4)])
def test_an_answer_comes_behind_what_was_sent_without_knowing(at: int, place: int) -> None:
    conversation = talk_with_flight()
    asked = conversation.emissions[at]
    reply = edits.answer(conversation, asked, Frame(Dialect.DCP, "noop", response=True))
    assert conversation.place(reply) == place
    assert edits.heard(conversation, reply) >= at + 1


def test_lookup() -> None:
    assert fault("frm-01") is fault("FRM-01", "key")
    assert fault("OPQ-02", "noop").variant == "noop"
    with pytest.raises(UsageError, match="no fault for rule FRM-16: did you mean FRM-1"):
        fault("FRM-16")
    with pytest.raises(UsageError, match=r"no variant keys of FRM-01: did you mean key\?"):
        fault("FRM-01", "keys")
    with pytest.raises(UsageError, match="none of those listed"):
        fault("nonsense")
