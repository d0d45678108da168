"""The rules FRM need no history: what they say of a message does not depend on what was lost elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from analysis.check.findings import Finding
from analysis.rules import RULES, Severity
from dissector.generate.faults import FAULTS, fault
from dissector.generate.scenario import Fault
from tests.support import checking
from tests.support.power import messages as m
from tests.support.power.messages import Message
from tests.support.power.packing import Packet, capture_of, packets_of
from tests.support.power.recordings import talks
from tests.support.power.talks import Talk

MINE = [rule for rule in RULES if rule.group == "FRM"]
BY_ID = {rule.id: rule for rule in RULES}
REQUEST = 0x80
DOCUMENTS = {"snappy", "xattr", "xattr-pair", "json"}  #: of FRM-10: found only where documents are looked into
FOUND = [each for each in FAULTS if each.rule.startswith("FRM") and each.variant not in DOCUMENTS]


def checked(packets: Sequence[Packet], chunk: int | None = None) -> checking.Result:
    return checking.check(checking.batches_of(capture_of(packets), chunk), MINE)


def told(result: checking.Result, rule: str) -> list[str]:
    return [each.sentence for each in result.of(rule) if each.severity is not Severity.INFO]


@pytest.fixture
def talk() -> Talk:
    """A conversation of a 3.1.5 server with a few streams, to be edited."""
    found = next(
        (each for each in talks("315") if each.name.startswith("01_basic/") and len(each.messages) > 100), None
    )
    if found is None:
        pytest.skip("no recordings here")
    return found.copied()


def item(talk: Talk, at: int = 40) -> Message:
    """A mutation in the middle, with other messages of its side before and after it."""
    return [each for each in talk.messages[at:] if each.opcode == m.MUTATION and each.magic == REQUEST][10]


def without(packets: list[Packet], *messages: Message) -> list[Packet]:
    lost = {each.uid for each in messages}
    return [each for each in packets if each.message not in lost]


def _no_key(message: Message) -> None:
    message.key = b""


def _strays(message: Message) -> None:
    message.tail = bytes(7)


def _no_magic(message: Message) -> None:
    message.magic = 0x90


EDITS = {"FRM-04": _no_key, "FRM-01": _strays, "FRM-02": _no_magic}


@pytest.mark.shared
@pytest.mark.parametrize("rule", EDITS)
@pytest.mark.parametrize("how", ["before", "other direction", "start"])
def test_what_was_lost_elsewhere_does_not_matter(talk: Talk, rule: str, how: str) -> None:
    guilty = item(talk)
    EDITS[rule](guilty)
    packets = packets_of(talk)
    place = talk.messages.index(guilty)
    if how == "start":
        begin = next(index for index, each in enumerate(packets) if each.message == talk.messages[place - 12].uid)
        left = packets[begin:]
    else:
        side = guilty.side if how == "before" else 1 - guilty.side
        left = without(packets, [each for each in talk.messages[:place] if each.side == side][-6])
    assert len(told(checked(packets), rule)) == 1
    assert told(checked(left), rule) == told(checked(packets), rule)


def of_side(talk: Talk, side: int) -> list[Message]:
    return [each for each in talk.messages if each.side == side]


@pytest.mark.shared
def test_a_frame_that_was_searched_for_is_not_judged(talk: Talk) -> None:
    """It may have been found by mistake, in the middle of another one."""
    end = next(each for each in talk.messages if each.opcode == m.STREAM_END and each.magic == REQUEST)
    end.put(0, 77, 4)
    same = of_side(talk, end.side)
    packets = packets_of(talk)
    right_before = checked(without(packets, same[same.index(end) - 1]))
    assert (told(right_before, "FRM-13"), right_before.tallies["FRM-13"].unknown["gap-or-unreadable"]) == ([], 1)
    one_earlier = checked(without(packets, same[same.index(end) - 2]))
    assert len(told(one_earlier, "FRM-13")) == 1


@pytest.mark.shared
@pytest.mark.parametrize("rule", ["FRM-01", "FRM-02"])
def test_bytes_next_to_a_loss_may_be_part_of_a_frame(talk: Talk, rule: str) -> None:
    guilty = item(talk)
    EDITS[rule](guilty)
    same = of_side(talk, guilty.side)
    result = checked(without(packets_of(talk), same[same.index(guilty) + 1]))
    assert (told(result, rule), result.tallies[rule].unknown["gap"]) == ([], 1)


@pytest.mark.shared
def test_a_frame_with_missing_bytes_is_judged_by_its_header() -> None:
    """A header says that there is no key, whatever became of the body; what the body says is not known."""
    talks_, done = checking.broken(fault("FRM-04", "missing"))
    batches = checking.batches_of(checking.captured(talks_))
    frame = checking.frame_of(checking.check(batches, MINE), talks_, done.emissions[0])
    cut = [_cut(batch, frame, ["truncated-frame", "key-missing"]) for batch in batches]
    result = checking.check(cut, MINE)
    assert [(each.rule, each.guilty.frame) for each in result.findings] == [("FRM-04", frame)]
    assert result.tallies["FRM-01"].unknown["gap"] == 1
    assert result.tallies["FRM-10"].unknown["gap"] == 0


def test_flags_that_were_not_captured_are_not_judged() -> None:
    conversations, done = checking.broken(fault("FRM-08", "stream"))
    batches = checking.batches_of(checking.captured(conversations))
    whole = checking.check(batches, MINE)
    frame = checking.frame_of(whole, conversations, done.emissions[0])
    assert [each.guilty.frame for each in whole.of("FRM-08")] == [frame]
    cut = checking.check([_cut(each, frame, ["truncated-frame"], stream_flags=None) for each in batches], MINE)
    assert (cut.of("FRM-08"), cut.tallies["FRM-08"].unknown["gap"]) == ([], 1)


def _cut(batch: pa.RecordBatch, frame: int, defects: list[str], **fields: int | None) -> pa.RecordBatch:
    numbers = batch.column("frame").to_pylist()
    for name, value in {"defects": defects, "missing": 9, **fields}.items():
        at = batch.schema.get_field_index(name)
        old = batch.column(at).to_pylist()
        new = [value if number == frame else each for number, each in zip(numbers, old, strict=True)]
        batch = batch.set_column(at, batch.schema.field(at), pa.array(new, batch.schema.field(at).type))
    return batch


# --- dialects ------------------------------------------------------------------------------------------------------


def _old_request(talk: Talk) -> Message:
    request = talk.asks(m.STREAM_REQUEST)[0]
    request.extras = request.extras[:40]
    return request


@pytest.mark.shared
def test_a_form_of_another_dialect_is_told_when_the_dialect_is_settled(talk: Talk) -> None:
    request = _old_request(talk)
    packets = packets_of(talk)
    whole = checked(packets)
    assert told(whole, "FRM-03") == ["a stream request with 40 bytes of extras, as upr has it; in dcp it has 48"]
    assert whole.of("FRM-03")[0].guilty.frame == talk.messages.index(request) + 1
    # Before the first marker nothing speaks against upr.
    marker = next(each for each in talk.messages if each.opcode == m.MARKER)
    begun = checked(packets[: next(index for index, each in enumerate(packets) if each.message == marker.uid)])
    assert not told(begun, "FRM-03")
    assert begun.tallies["FRM-03"].unknown["dialect"] == 1


@pytest.mark.shared
@pytest.mark.parametrize("chunk", [1000, 3000, 20000])
def test_findings_do_not_depend_on_batches(talk: Talk, chunk: int) -> None:
    _old_request(talk)
    _strays(item(talk))
    _no_key(item(talk, 90))
    packets = packets_of(talk)
    left = without(packets, talk.messages[30], talk.messages[60])
    for each in (packets, left):
        assert checked(each, chunk).summary == checked(each).summary


# --- flags that a peer refuses -------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("release", ["315", "705"])
@pytest.mark.parametrize(("opcode", "place", "bit"), [(m.OPEN, 4, 0x8000), (m.STREAM_REQUEST, 0, 0x4000)])
def test_a_refusal_changes_nothing_about_flags(release: str, opcode: int, place: int, bit: int) -> None:
    """The request did break the rule, refused or not, and whether the refusal was captured or not."""
    verdicts = []
    for refused, lost in ((False, False), (True, False), (True, True)):
        talk = next(each for each in talks(release) if each.asks(opcode) and each.asks(m.STREAM_REQUEST)).copied()
        request = talk.asks(opcode)[0]
        answer = talk.answer_to(request)
        assert answer is not None
        request.put(place, request.at(place, 4) | bit, 4)
        if refused:
            answer.number, answer.value, answer.extras = 4, b"", b""
        packets = packets_of(talk)
        verdicts.append(told(checked(without(packets, answer) if lost else packets), "FRM-08"))
    assert verdicts[0] == verdicts[1] == verdicts[2]
    assert len(verdicts[0]) == (release == "315")  # later peers may be newer than this program


# --- sentences -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", FOUND, ids=lambda one: f"{one.rule}-{one.variant}".rstrip("-"))
def test_sentences_name_what_is_wrong_alone(one: Fault) -> None:
    conversations, _ = checking.broken(one)
    for found in checking.findings_of(conversations).of(one.rule):
        assert not re.search(r"-\d|[{}]|none\)", found.sentence), found.sentence
        assert found.next_step
        assert found.fault


FLAGS = (
    "a stream request with stream flags 0x10000; named bits are 0x1 (takeover), 0x2 (disk_only), 0x4 (to_latest), 0x8 "
    "(no_value), 0x10 (active_vbucket_only), 0x20 (strict_vbucket_uuid), 0x40 (from_latest), 0x80 "
    "(ignore_purged_tombstones) and 0x100 (cache_transfer)"
)


def _edited(talk: Talk, opcode: int, edit: Callable[[Message], object]) -> str:
    guilty = [each for each in talk.messages if each.opcode == opcode and each.magic == REQUEST][-1]
    edit(guilty)
    (sentence,) = {each.sentence for each in checked(packets_of(talk)).findings if each.severity is not Severity.INFO}
    return sentence


@pytest.mark.shared
@pytest.mark.parametrize(
    ("opcode", "edit", "sentence"),
    [
        (m.STREAM_END, lambda each: each.put(0, 77, 4), "a stream end with end reason 77; reasons are 0 to 8"),
        (
            m.STREAM_REQUEST,
            lambda each: each.put(4, 7, 4),
            "a stream request with 0x7 in its reserved field; it must be 0",
        ),
        (
            m.STREAM_REQUEST,
            lambda each: each.put(0, 0x10000, 4),
            FLAGS,
        ),
        (
            m.MARKER,
            lambda each: setattr(each, "extras", each.extras + b"\0"),
            "a snapshot marker with 21 bytes of extras; it has 1 or 20",
        ),
        (
            m.STREAM_END,
            lambda each: setattr(each, "extras", b""),
            "a stream end without extras; it has 4 bytes of them",
        ),
        (
            m.STREAM_END,
            lambda each: setattr(each, "datatype", 1),
            "a stream end with datatype 0x01 (json); it may have 0x00",
        ),
        (m.MUTATION, lambda each: setattr(each, "opcode", 0x6F), "opcode 0x6f is none that the dialect has"),
    ],
)
def test_sentences_say_what_came_and_what_was_expected(
    talk: Talk, opcode: int, edit: Callable[[Message], object], sentence: str
) -> None:
    assert _edited(talk, opcode, edit) == sentence


@pytest.mark.shared
@pytest.mark.parametrize("rule", ["FRM-01", "FRM-02"])
def test_the_display_filter_shows_the_bytes_that_are_no_frame(talk: Talk, rule: str) -> None:
    guilty = item(talk)
    EDITS[rule](guilty)
    packets = packets_of(talk)
    bad = {number for number, each in enumerate(packets, 1) if each.message == guilty.uid}
    (found,) = (each for each in checked(packets).findings if each.rule == rule)
    assert bad <= shown(found)


def shown(found: Finding) -> set[int]:
    """The packets that a display filter lets through."""
    spans = re.findall(r"(\d+)(?:\.\.(\d+))?", found.display_filter().split("frame.number", 1)[1])
    return {number for first, last in spans for number in range(int(first), int(last or first) + 1)}


@pytest.mark.parametrize("rule", MINE, ids=lambda rule: rule.id)
def test_every_rule_says_what_to_do_next(rule: object) -> None:
    assert BY_ID[rule.id].next_step  # type: ignore[attr-defined]
