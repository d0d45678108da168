"""Faults about flow control: each breaks its rule and nothing else, wherever it is put."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from dissector.errors import UsageError
from dissector.generate.conversation import Emission
from dissector.generate.faults import idle_time, window_sums
from dissector.generate.faults.flow_control import FAULTS
from dissector.generate.scenario import Fault, Script, size_all_buffer_acks
from dissector.generate.scenarios import scenario
from tests.support.fault_trials import Trial, attempt, named

SECOND = 1_000_000_000


def amount(each: Emission) -> int:
    assert each.frame.name == "buffer_ack"
    return each.frame.fields["buffer_bytes"]


def until(trial: Trial, each: Emission) -> list[Emission]:
    conversation = trial.broken.conversation
    return conversation.emissions[: conversation.place(each)]


def counted(messages: list[Emission]) -> int:
    return sum(each.frame.flow_bytes for each in messages)


def given_back(messages: list[Emission]) -> int:
    return sum(amount(each) for each in messages if each.frame.name == "buffer_ack" and not each.frame.response)


def window(trial: Trial, each: Emission | None = None) -> int:
    messages = until(trial, each or trial.guilty)
    sizes = [one.frame.value for one in messages if one.frame.key == b"connection_buffer_size"]
    return int(sizes[-1]) if sizes else 0


def outstanding(trial: Trial, each: Emission) -> int:
    """What was sent and not given back before a message, if everything arrives at once."""
    messages = until(trial, each)
    return counted(messages) - given_back(messages)


def seconds(trial: Trial, begin: Emission, end: Emission) -> float:
    conversation = trial.broken.conversation
    passed = conversation.emissions[conversation.place(begin) + 1 : conversation.place(end) + 1]
    return sum(each.pause_ns for each in passed) / SECOND


def over(trial: Trial) -> int:
    """How much more the guilty ack gives back than there is."""
    return amount(trial.guilty) - outstanding(trial, trial.guilty)


def left(trial: Trial) -> int:
    messages = list(trial.broken.conversation)
    return counted(messages) - given_back(messages)


def longest_silence(trial: Trial) -> float:
    """Seconds in which the producer says nothing, behind the guilty message."""
    conversation = trial.broken.conversation
    longest = passed = 0
    for each in conversation.emissions[conversation.place(trial.guilty) + 1 :]:
        passed += each.pause_ns
        if each.frame.flow_bytes or each.frame.name == "noop" or each is conversation.emissions[-1]:
            longest, passed = max(longest, passed), 0
    return longest / SECOND


def no_op_count(trial: Trial) -> int:
    messages = until(trial, trial.guilty)
    while not any(each.frame.name == "noop" for each in messages[-1:]):
        assert messages.pop().frame.name != "buffer_ack"
    return sum(each.frame.name == "noop" and not each.frame.response for each in messages[-2:])


def prepares(trial: Trial) -> int:
    return sum(each.frame.name == "prepare" for each in trial.broken.conversation)


#: What each fault is about, read off the messages that it names.
CHECKS: dict[tuple[str, str], Callable[[Trial], bool]] = {
    ("FLC-01", "too-much"): lambda trial: over(trial) == 4096,
    ("FLC-01", "twice"): lambda trial: over(trial) == amount(trial.guilty) == amount(trial.broken.emissions[1]) > 0,
    ("FLC-02", ""): lambda trial: all(
        outstanding(trial, each) >= window(trial, each) for each in trial.broken.emissions[:3]
    ),
    ("FLC-03", ""): lambda trial: (
        outstanding(trial, trial.guilty) >= window(trial)
        and seconds(trial, trial.broken.emissions[1], trial.guilty) > 60
    ),
    ("FLC-04", ""): lambda trial: 0.2 * window(trial) <= left(trial) < window(trial) and longest_silence(trial) > 10,
    ("FLC-05", ""): lambda trial: left(trial) == 2 * prepares(trial) > 0 and longest_silence(trial) > 10,
    ("FLC-06", ""): lambda trial: not window(trial) and amount(trial.guilty) > 0,
    ("FLC-07", ""): lambda trial: amount(trial.guilty) == 0,
    ("FLC-08", ""): lambda trial: over(trial) == 24 * no_op_count(trial) > 0,
    ("FLC-09", ""): lambda trial: 10 < seconds(trial, trial.broken.emissions[1], trial.guilty) < 60,
}


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_says_when_there_is_no_flow_control(fault: Fault) -> None:
    with pytest.raises(UsageError, match="nothing to break"):
        attempt(fault, 1, home="draft")


def test_the_ledger_counts_what_is_written_down_later() -> None:
    for home in ("basic", "flow-control", "modern", "sync-writes", "relay"):
        conversations = scenario(home).conversations(2)
        expected = [
            [row.amount for row in window_sums.balances(conversation) if window_sums.is_ack(row.emission)]
            for conversation in conversations
        ]
        size_all_buffer_acks(conversations)
        assert expected == [
            [amount(each) for each in conversation if window_sums.is_ack(each)] for conversation in conversations
        ]


def test_no_ops_go_on_while_time_passes() -> None:
    conversations = scenario("close-resume").conversations(1)
    first, later = conversations
    ack = next(each for each in first if window_sums.is_ack(each))
    begin = later.begin_ns
    script = Script(conversations, random.Random(1))  # noqa: S311
    idle_time.hold(script, first, ack, 90)
    no_ops = [each for each in first if each.frame.name == "noop" and not each.frame.response]
    # 90 seconds have room for four intervals of 20.
    assert len(no_ops) == 4
    assert [int.from_bytes(each.frame.opaque, "little") for each in no_ops] == list(range(10_000_001, 10_000_005))
    assert later.begin_ns == begin + 90 * SECOND  # the same client's next connection waits for it
    clock = sum(each.pause_ns for each in first.emissions[: first.place(ack) + 1])
    assert clock > 90 * SECOND
