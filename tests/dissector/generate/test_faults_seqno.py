"""Faults about seqnos: each breaks its rule and nothing else, wherever it is put."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from dissector.errors import UsageError
from dissector.generate.conversation import Emission
from dissector.generate.faults.seqno import FAULTS
from tests.support.fault_trials import Trial, attempt

START, END = "snap_start_seqno", "snap_end_seqno"
DATA = {"mutation", "deletion", "expiration", "prepare", "commit", "abort", "seqno_advanced", "system_event"}


def field(each: Emission, name: str) -> int:
    return each.frame.fields[name]


def seqnos(trial: Trial) -> list[int]:
    """All seqnos of the guilty message's vbucket, in order."""
    wanted = trial.guilty.frame.vbucket
    return [
        each.frame.seqno or 0
        for each in trial.broken.conversation
        if each.frame.name in DATA and each.frame.vbucket == wanted
    ]


def falls(trial: Trial) -> bool:
    """Exactly one seqno is not higher than the one before it: the guilty one."""
    numbers = seqnos(trial)
    wrong = [later for earlier, later in pairwise(numbers) if later <= earlier]
    return wrong == [trial.guilty.frame.seqno]


def two_versions(trial: Trial) -> tuple[Emission, Emission]:
    """The newer and the older version of a key, with a marker between them."""
    newer, older = trial.broken.emissions
    conversation = trial.broken.conversation
    between = conversation.emissions[conversation.place(older) : conversation.place(newer)]
    assert newer.frame.key == older.frame.key
    assert (newer.frame.seqno or 0) > (older.frame.seqno or 0)
    assert any(each.frame.name == "snapshot_marker" and each.frame.vbucket == newer.frame.vbucket for each in between)
    return newer, older


def lower(trial: Trial, name: str, *, equal: bool) -> bool:
    newer, older = two_versions(trial)
    here, there = ((each.frame.cas if name == "cas" else field(each, name)) for each in (newer, older))
    return here == there if equal else here < there


def early_end(trial: Trial) -> bool:
    end, last, request = trial.broken.emissions
    return field(end, "end_reason") == 0 and (last.frame.seqno or 0) + 500 < field(request, "end_seqno")


def completed_twice(trial: Trial) -> bool:
    again, first, prepare = trial.broken.emissions
    return (
        (again.frame.key, field(again, "prepared_seqno"))
        == (
            first.frame.key,
            field(first, "prepared_seqno"),
        )
        == (prepare.frame.key, prepare.frame.seqno)
    )


def prepared_twice(trial: Trial) -> bool:
    newer, older = trial.broken.emissions
    conversation = trial.broken.conversation
    between = conversation.emissions[conversation.place(older) + 1 : conversation.place(newer)]
    open_ = not any(each.frame.fields.get("prepared_seqno") == older.frame.seqno and not ack(each) for each in between)
    return newer.frame.key == older.frame.key and newer.frame.name == older.frame.name == "prepare" and open_


def ack(each: Emission) -> bool:
    return each.frame.name == "seqno_acknowledged"


def acknowledged_ahead(trial: Trial) -> bool:
    conversation = trial.broken.conversation
    sent = conversation.emissions[: conversation.place(trial.guilty)]
    highest = max(each.frame.fields.get(END, 0) for each in sent if each.frame.name == "snapshot_marker")
    return field(trial.guilty, "prepared_seqno") > highest


def thin(trial: Trial) -> bool:
    marker = trial.guilty
    span = field(marker, END) - field(marker, START) + 1
    count = sum(field(marker, START) <= seqno <= field(marker, END) for seqno in seqnos(trial))
    return span >= 100 and 0 < count < span / 10 and seqnos(trial)[-1] == field(marker, END)


#: What each fault is about, read off the messages that it names.
CHECKS: dict[tuple[str, str], Callable[[Trial], bool]] = {
    ("SEQ-01", "backwards"): falls,
    ("SEQ-01", "repeated"): falls,
    ("SEQ-02", ""): lambda trial: trial.guilty.frame.seqno == field(trial.broken.emissions[1], "start_seqno") > 0,
    ("SEQ-02", "draft"): lambda trial: trial.guilty.frame.seqno == field(trial.broken.emissions[1], "start_seqno") > 0,
    ("SEQ-03", "early"): early_end,
    ("SEQ-03", "beyond"): lambda trial: field(trial.guilty, START) > field(trial.broken.emissions[1], "end_seqno"),
    ("SEQ-04", "backwards"): lambda trial: lower(trial, "rev_seqno", equal=False),
    ("SEQ-04", "equal"): lambda trial: lower(trial, "rev_seqno", equal=True),
    ("SEQ-05", "backwards"): lambda trial: lower(trial, "cas", equal=False),
    ("SEQ-05", "equal"): lambda trial: lower(trial, "cas", equal=True),
    ("SEQ-06", "zero"): lambda trial: trial.guilty.frame.cas == 0,
    ("SEQ-06", "all-ones"): lambda trial: trial.guilty.frame.cas == 2**64 - 1,
    ("SEQ-06", "ahead"): lambda trial: trial.guilty.frame.cas > (1_700_000_000 + 2 * 86_400) * 10**9,
    ("SEQ-07", "zero"): lambda trial: trial.guilty.frame.seqno == 0,
    ("SEQ-07", "huge"): lambda trial: (trial.guilty.frame.seqno or 0) >= 2**48,
    ("SEQ-08", "own-seqno"): lambda trial: field(trial.guilty, "prepared_seqno") >= (trial.guilty.frame.seqno or 0),
    ("SEQ-08", "other-key"): lambda trial: trial.guilty.frame.key != trial.broken.emissions[1].frame.key,
    ("SEQ-08", "twice"): completed_twice,
    ("SEQ-09", ""): prepared_twice,
    ("SEQ-10", "backwards"): lambda trial: (
        field(trial.guilty, "prepared_seqno") < field(trial.broken.emissions[1], "prepared_seqno")
    ),
    ("SEQ-10", "ahead"): acknowledged_ahead,
    ("SEQ-11", "again"): lambda trial: trial.guilty.frame.seqno == trial.broken.emissions[1].frame.seqno,
    ("SEQ-11", "beyond"): lambda trial: (trial.guilty.frame.seqno or 0) > field(trial.broken.emissions[1], END),
    ("SEQ-11", "early"): lambda trial: trial.broken.emissions[1].frame.name in DATA,
    ("SEQ-12", ""): thin,
}


@pytest.mark.parametrize(
    ("rule", "variant", "home"),
    [
        ("SEQ-01", "repeated", "basic"),
        ("SEQ-03", "early", "modern"),
        ("SEQ-04", "equal", "cache-transfer"),  # every version is there twice: another copy would contradict
        ("SEQ-08", "twice", "modern"),
        ("SEQ-09", "", "basic"),
        ("SEQ-10", "ahead", "modern"),
        ("SEQ-11", "early", "basic"),  # its servers never heard of the message
        ("SEQ-12", "", "draft"),
    ],
)
def test_says_when_a_scenario_has_nothing_for_it(rule: str, variant: str, home: str) -> None:
    fault = next(each for each in FAULTS if (each.rule, each.variant) == (rule, variant))
    with pytest.raises(UsageError, match="nothing to break"):
        attempt(fault, 1, home=home)


def test_the_draft_can_go_backwards_too() -> None:
    assert falls(attempt(next(each for each in FAULTS if each.variant == "backwards"), 1, home="draft"))
