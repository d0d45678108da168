"""What a group of rules has to prove: faults are found, clean traffic is silent, cuts do not matter."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from analysis.rules import RULES, Rule
from dissector.generate.faults import FAULTS
from dissector.generate.impairments import Impairments
from dissector.generate.scenario import Fault
from dissector.generate.scenarios import SCENARIOS
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

#: The two groups are judged together: they look at the same messages.
STREAM_RULES: tuple[Rule, ...] = tuple(rule for rule in RULES if rule.group in ("SNP", "SEQ"))
#: What may happen to the packets of traffic that behaves.
IMPAIRED = {
    "loss": Impairments(mss=(40, 900), loss=0.1),
    "disorder": Impairments(mss=(40, 600), reorder=0.4, duplicate=0.2, retransmit=0.2, overlap=0.2),
    "both": Impairments(mss=(40, 600), reorder=0.3, loss=0.05),
    "late": Impairments(mss=(100, 900), skip_packets=21),
    "later": Impairments(skip_messages=7),
    "client": Impairments(only=0),
    "server": Impairments(only=1),
}
NAMES = [each.name for each in SCENARIOS]


def rules_of(group: str) -> list[Rule]:
    return [rule for rule in STREAM_RULES if rule.group == group]


def faults_of(group: str) -> list[Fault]:
    return [fault for fault in FAULTS if fault.rule.startswith(group)]


def name_of(fault: Fault) -> str:
    return f"{fault.rule} {fault.variant}".strip()


def prove_found(fault: Fault, seed: int = 1, place: int = 1) -> Result:
    """The rule is found with the fault's guilty message, and nothing as bad that the fault does not imply."""
    conversations, done = broken(fault, seed, place)
    result = findings_of(conversations, rules=STREAM_RULES)
    guilty = frame_of(result, conversations, done.emissions[0])
    found = [each for each in result.findings if each.rule == fault.rule]
    assert guilty in [each.guilty.frame for each in found], f"{done.because}: {[each.sentence for each in found]}"
    worst = min(each.severity.rank for each in found)
    allowed = {fault.rule, *fault.implies}
    others = [each for each in result.findings if each.rule not in allowed and each.severity.rank <= worst]
    assert not others, [f"{each.rule} {each.sentence}" for each in others]
    assert all("{" not in each.sentence and each.sentence for each in found)
    return result


def prove_silent(name: str, seed: int = 1, troubles: Impairments | None = None) -> Result:
    """A clean scenario raises nothing."""
    result = findings_of(clean(name, seed), troubles, seed=seed, rules=STREAM_RULES)
    assert not result.findings, [f"{each.rule} {each.check} {each.sentence}" for each in result.findings]
    return result


def recut(batches: Sequence[pa.RecordBatch], chance: random.Random) -> list[pa.RecordBatch]:
    """The same rows in other batches."""
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    cuts = sorted({0, whole.num_rows, *(chance.randrange(whole.num_rows) for _ in range(chance.randrange(6)))})
    return [whole.slice(start, end - start) for start, end in pairwise(cuts)]


def prove_independent(fault: Fault, chance: random.Random, troubles: Impairments | None = None, *, rows: bool) -> None:
    """Findings and tallies are the same for chunks of 4 KB, other cuts, and single rows."""
    capture = captured(broken(fault)[0], troubles)
    batches = batches_of(capture)
    if not batches:
        return
    expected = check(batches, STREAM_RULES).summary
    assert check(batches_of(capture, 4096), STREAM_RULES).summary == expected
    assert check(recut(batches, chance), STREAM_RULES).summary == expected
    if rows:
        assert check(single_rows(batches), STREAM_RULES).summary == expected


def place_of(truth: Path, connection: str, message: int) -> tuple[str, int]:
    """Where a recording's truth has a message: the sender's port and the offset."""
    told = json.loads(truth.read_text())
    conversation = next(each for each in told["connections"] if each["name"] == connection)
    found = next(each for each in conversation["messages"] if each["i"] == message)
    sender = conversation["client"] if found["dir"] == "c2s" else conversation["server"]
    return sender.rpartition(":")[2], found["off"]
