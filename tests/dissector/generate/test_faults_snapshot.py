"""Faults about snapshots: each breaks its rule and nothing else, wherever it is put."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dissector.errors import UsageError
from dissector.generate.conversation import Emission
from dissector.generate.faults.snapshot import FAULTS
from tests.support.fault_trials import Trial, attempt

START, END, FLAGS = "snap_start_seqno", "snap_end_seqno", "snapshot_type"


def field(each: Emission, name: str) -> int:
    return each.frame.fields[name]


def about(trial: Trial, like: Emission, *names: str) -> list[Emission]:
    """The requests of these names of the same stream, in order."""
    return [
        each
        for each in trial.broken.conversation
        if not each.frame.response and each.frame.name in names and each.frame.vbucket == like.frame.vbucket
    ]


def before(trial: Trial, each: Emission, *names: str) -> list[Emission]:
    place = trial.broken.conversation.place(each)
    return [one for one in about(trial, each, *names) if trial.broken.conversation.place(one) < place]


def behind(trial: Trial, each: Emission, *names: str) -> list[Emission]:
    place = trial.broken.conversation.place(each)
    return [one for one in about(trial, each, *names) if trial.broken.conversation.place(one) > place]


def confirmations(trial: Trial) -> int:
    conversation = trial.broken.conversation
    return sum(each.frame.name == "snapshot_marker" and each.frame.response for each in conversation)


def asking(trial: Trial) -> int:
    return sum(each.frame.fields.get(FLAGS, 0) & 0x08 > 0 for each in trial.broken.conversation)


def outside(trial: Trial) -> bool:
    item, marker = trial.broken.emissions
    return not field(marker, START) <= (item.frame.seqno or 0) <= field(marker, END)


def same_key(trial: Trial) -> bool:
    newer, older = trial.broken.emissions
    between = behind(trial, older, "snapshot_marker", "snapshot_start", "oso_snapshot")
    conversation = trial.broken.conversation
    return newer.frame.key == older.frame.key and not any(
        conversation.place(each) < conversation.place(newer) for each in between
    )


def incomplete(trial: Trial) -> bool:
    proof, marker, last = trial.broken.emissions
    later = behind(trial, last, "mutation", "deletion", "expiration")
    conversation = trial.broken.conversation
    return last.frame.seqno != field(marker, END) and not any(
        conversation.place(each) < conversation.place(proof) for each in later
    )


def confirmed_before_last(trial: Trial) -> bool:
    answer, marker, last = trial.broken.emissions
    conversation = trial.broken.conversation
    assert field(marker, END) == last.frame.seqno
    return conversation.place(marker) < conversation.place(answer) < conversation.place(last)


def brackets(trial: Trial) -> list[int]:
    return [field(each, "oso_flags") for each in about(trial, trial.guilty, "oso_snapshot")]


def drafted(trial: Trial) -> str:
    """S and E for starts and ends, i for items, of the guilty stream."""
    letters = {"snapshot_start": "S", "snapshot_end": "E", "mutation": "i", "deletion": "i", "expiration": "i"}
    return "".join(letters[each.frame.name] for each in about(trial, trial.guilty, *letters))


def flags(trial: Trial) -> int:
    return field(trial.guilty, FLAGS)


#: What each fault is about, read off the messages that it names.
CHECKS: dict[tuple[str, str], Callable[[Trial], bool]] = {
    ("SNP-01", "item-first"): lambda trial: not before(trial, trial.guilty, "snapshot_marker"),
    ("SNP-01", "draft"): lambda trial: drafted(trial).startswith("iS"),
    ("SNP-01", "never-closed"): lambda trial: not behind(trial, trial.guilty, "snapshot_marker"),
    ("SNP-02", "below"): outside,
    ("SNP-02", "above"): outside,
    ("SNP-03", ""): lambda trial: field(trial.guilty, START) > field(trial.guilty, END),
    ("SNP-04", "at-end"): lambda trial: field(trial.guilty, START) == field(trial.broken.emissions[1], END),
    ("SNP-04", "reaching-back"): lambda trial: field(trial.guilty, START) < field(trial.broken.emissions[1], END),
    ("SNP-05", ""): same_key,
    ("SNP-05", "oso"): same_key,
    ("SNP-05", "early"): same_key,
    ("SNP-05", "draft"): same_key,
    ("SNP-06", "marker"): lambda trial: incomplete(trial) and trial.guilty.frame.name == "snapshot_marker",
    ("SNP-06", "end"): lambda trial: incomplete(trial) and field(trial.guilty, "end_reason") == 0,
    ("SNP-07", "below"): lambda trial: field(trial.guilty, START) < field(trial.broken.emissions[1], START),
    ("SNP-07", "above"): lambda trial: (
        field(trial.broken.emissions[1], START)
        < field(trial.guilty, START)
        <= field(trial.broken.emissions[1], "start_seqno")
    ),
    ("SNP-08", "both"): lambda trial: flags(trial) & 0x03 == 0x03,
    ("SNP-08", "neither"): lambda trial: flags(trial) & 0x03 == 0,
    ("SNP-08", "duplicates"): lambda trial: flags(trial) & 0x30 == 0x20,
    ("SNP-08", "history"): lambda trial: bool(flags(trial) & 0x10),
    ("SNP-08", "confirmation"): lambda trial: flags(trial) & 0x08 > 0 and asking(trial) == confirmations(trial) == 1,
    ("SNP-09", "visible"): lambda trial: field(trial.guilty, "max_visible_seqno") > field(trial.guilty, END),
    ("SNP-09", "prepared"): lambda trial: field(trial.guilty, "high_prepared_seqno") > field(trial.guilty, END),
    ("SNP-09", "purged"): lambda trial: field(trial.guilty, "purge_seqno") > field(trial.guilty, END),
    ("SNP-09", "no-completed"): lambda trial: (
        flags(trial) & 0x02 > 0 and "high_completed_seqno" not in trial.guilty.frame.fields
    ),
    ("SNP-09", "completed-backwards"): lambda trial: (
        field(trial.guilty, "high_completed_seqno") < field(trial.broken.emissions[1], "high_completed_seqno")
    ),
    ("SNP-10", "missing"): lambda trial: confirmations(trial) == asking(trial) - 1,
    ("SNP-10", "twice"): lambda trial: confirmations(trial) == asking(trial) + 1,
    ("SNP-10", "early"): confirmed_before_last,
    ("SNP-11", "start-twice"): lambda trial: brackets(trial) == [1, 1, 2],
    ("SNP-11", "end-twice"): lambda trial: brackets(trial) == [1, 2, 2],
    ("SNP-11", "marker-inside"): lambda trial: (
        len(before(trial, trial.guilty, "oso_snapshot")) == len(behind(trial, trial.guilty, "oso_snapshot")) == 1
    ),
    ("SNP-11", "over-inside"): lambda trial: brackets(trial) == [1] and trial.guilty.frame.name == "stream_end",
    ("SNP-12", ""): lambda trial: (
        about(trial, trial.guilty, "snapshot_marker", "mutation")[:2] == list(trial.broken.emissions)
    ),
    ("SNP-13", "to-memory"): lambda trial: (
        flags(trial) & 0x07 == 0x01 and field(trial.broken.emissions[1], FLAGS) & 0x03 == 0x02
    ),
    ("SNP-13", "to-disk"): lambda trial: (
        flags(trial) & 0x07 == 0x02 and field(trial.broken.emissions[1], FLAGS) & 0x03 == 0x01
    ),
    ("SNP-14", "start-twice"): lambda trial: re.search("S[^E]*S", drafted(trial)) is not None,
    ("SNP-14", "end-twice"): lambda trial: "EE" in drafted(trial),
    ("SNP-14", "item-outside"): lambda trial: "Ei" in drafted(trial),
}


@pytest.mark.parametrize(
    ("rule", "variant", "home"),
    [
        ("SNP-03", "", "flow-control"),  # a marker more would overrun the window
        ("SNP-05", "oso", "basic"),
        ("SNP-07", "below", "basic"),  # fresh streams: nothing is below 0
        ("SNP-08", "duplicates", "modern"),
        ("SNP-09", "visible", "basic"),
        ("SNP-10", "missing", "basic"),
        ("SNP-11", "start-twice", "modern"),
        ("SNP-12", "", "basic"),
        ("SNP-13", "to-memory", "draft"),
        ("SNP-14", "end-twice", "basic"),
    ],
)
def test_says_when_a_scenario_has_nothing_for_it(rule: str, variant: str, home: str) -> None:
    fault = next(each for each in FAULTS if (each.rule, each.variant) == (rule, variant))
    with pytest.raises(UsageError, match="nothing to break"):
        attempt(fault, 1, home=home)


def test_the_place_decides_which_snapshot() -> None:
    fault = next(each for each in FAULTS if each.rule == "SNP-04")
    first = attempt(fault, 1)
    number = first.number(first.guilty)
    again = attempt(fault, 1, number)
    later = attempt(fault, 1, number + 1)
    assert again.number(again.guilty) == number
    assert later.number(later.guilty) > number
