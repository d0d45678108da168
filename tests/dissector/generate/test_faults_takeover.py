"""Faults about takeovers: what each does to its messages."""

from __future__ import annotations

from collections.abc import Callable

from dissector.generate.conversation import Emission
from tests.support.fault_trials import Trial


def states(trial: Trial) -> list[int]:
    """The states that the guilty stream says, in their order."""
    opaque = trial.guilty.frame.opaque
    said = (each.frame for each in trial.broken.conversation if each.frame.name == "set_vbucket_state")
    return [each.fields["vbucket_state"] for each in said if not each.response and each.opaque == opaque]


def place(trial: Trial, each: Emission) -> int:
    return trial.broken.conversation.place(each)


def goes_on_too_early(trial: Trial) -> bool:
    """The producer says something between a message that wants an answer and that answer."""
    guilty, asked, reply = trial.broken.emissions
    assert (asked.frame.name, asked.frame.opaque) == (reply.frame.name, reply.frame.opaque)
    return place(trial, asked) < place(trial, guilty) < place(trial, reply)


def no_takeover(trial: Trial) -> bool:
    guilty, request = trial.broken.emissions
    return guilty.frame.name == "set_vbucket_state" and not request.frame.fields["stream_flags"] & 1


def behind_active(trial: Trial) -> bool:
    guilty, active = trial.broken.emissions
    return guilty.frame.name == "mutation" and place(trial, guilty) > place(trial, active)


#: By rule and variant, whether the fault has done what it says.
CHECKS: dict[tuple[str, str], Callable[[Trial], bool]] = {
    ("TKO-01", "no-pending"): lambda trial: states(trial) == [1],
    ("TKO-01", "again"): lambda trial: states(trial) == [2, 2, 1],
    ("TKO-02", ""): behind_active,
    ("TKO-03", "state"): goes_on_too_early,
    ("TKO-03", "end"): goes_on_too_early,
    ("TKO-04", ""): goes_on_too_early,
    ("TKO-05", ""): no_takeover,
    ("TKO-06", "reason"): lambda trial: trial.guilty.frame.fields["end_reason"] == 2,
    ("TKO-06", "unfinished"): lambda trial: states(trial) == [3],
    ("TKO-07", ""): lambda trial: states(trial) == [2, 1],
}
