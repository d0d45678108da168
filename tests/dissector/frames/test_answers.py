"""Answers and their requests: what a queue for each opcode and opaque says, whatever the batches are."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.capture import expand
from dissector.frames.answers import COLUMNS, NO_REQUEST, NO_TIME, Answers
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions
from dissector.spec import registry
from tests.support.paths import CAPTURES

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPCODES = {known.name: known.opcode for known in registry.MESSAGES if known.dialect.value == "dcp"}
_SCHEMA = pa.schema([SCHEMA.field(name) for name in sorted(COLUMNS)])


def row(
    number: int, name: str, direction: int, opaque: int, connection: str = "a", **others: object
) -> dict[str, object]:
    """Return a row; ``name`` ends with ``!`` for an answer. Time is ten times the number."""
    found = dict.fromkeys(_SCHEMA.names) | {"frame": number, "time_ns": 10 * number, "dialect": "dcp"}
    opcode = _OPCODES[name.rstrip("!")]
    found |= {"opcode": opcode, "response": name.endswith("!"), "direction": direction, "opaque": opaque}
    return found | {"connection": connection} | others


def pairs(rows: Sequence[dict[str, object]], size: int = 1_000, limit: int = 1_000) -> dict[int, tuple[int, int]]:
    """Return, by the frame of an answer, its request and the time it took."""
    answers = Answers(limit)
    found = {}
    for start in range(0, len(rows), size):
        batch = pa.RecordBatch.from_pylist(list(rows[start : start + size]), _SCHEMA)
        request, time_ns = answers.take(batch)
        assert ((request == NO_REQUEST) == (time_ns == NO_TIME)).all()
        for each, of, took in zip(rows[start:], request.tolist(), time_ns.tolist(), strict=False):
            if of != NO_REQUEST:
                found[int(str(each["frame"]))] = of, took
    return found


@pytest.mark.parametrize("size", [1, 2, 100])
def test_by_hand(size: int) -> None:
    rows = [
        row(1, "noop", 1, 7),
        row(2, "noop", 1, 7),
        row(3, "noop!", 0, 7),
        row(4, "noop!", 1, 7),  # the asking side's own: no answer to itself
        row(5, "noop!", 0, 8),  # nobody asked
        row(6, "control", 0, 7),
        row(7, "noop!", 0, 7),
        row(8, "noop!", 0, 7),  # nobody asked a third time
        row(9, "control!", 1, 7),
        row(10, "mutation", 1, 9),
        row(11, "mutation!", 0, 9),  # a refusal: of which of the stream's mutations it does not say
        row(12, "noop", 1, 7),
        row(13, "noop!", 0, 7, "b"),  # another connection
        row(14, "noop!", 0, 7),
        row(15, "snapshot_marker", 1, 9, snapshot_type=1),
        row(16, "snapshot_marker", 1, 9, snapshot_type=8 | 1),  # wants an ack
        row(17, "snapshot_marker!", 0, 9),
    ]
    assert pairs(rows, size) == {3: (1, 20), 7: (2, 50), 9: (6, 30), 14: (12, 20), 17: (16, 10)}


def test_the_oldest_are_forgotten() -> None:
    rows = [row(number, "noop", 1, number) for number in range(1, 5)]
    rows += [row(4 + number, "noop!", 0, number) for number in range(1, 5)]
    assert pairs(rows, size=4, limit=2) == {7: (3, 40), 8: (4, 40)}


_EVENTS = st.tuples(st.sampled_from(["noop", "noop!", "control", "control!"]), st.integers(0, 1), st.integers(0, 1))


@given(st.lists(_EVENTS, max_size=40), st.integers(1, 9))
def test_as_queues_do(events: list[tuple[str, int, int]], size: int) -> None:
    rows = [row(number, *event) for number, event in enumerate(events, 1)]
    queues: dict[tuple[str, int, int], deque[int]] = defaultdict(deque)
    expected = {}
    for number, (name, direction, opaque) in enumerate(events, 1):
        if not name.endswith("!"):
            queues[name, direction, opaque].append(number)
        elif queues[name[:-1], 1 - direction, opaque]:
            request = queues[name[:-1], 1 - direction, opaque].popleft()
            expected[number] = request, 10 * (number - request)
    assert pairs(rows, size) == expected


def test_a_recording() -> None:
    """Each no-op has an opaque of its own, and at most one answer; one answer is to none of them."""
    reader = FrameReader(expand([str(CAPTURES / "03_noop.pcap")]), ReadOptions(columns=COLUMNS | {"name"}))
    rows = [each for batch in reader for each in batch.to_pylist()]
    noops = [each for each in rows if each["name"] == "noop"]
    asked = {(each["connection"], each["opaque"]): each["frame"] for each in noops if not each["response"]}
    answered = {each["frame"]: asked.get((each["connection"], each["opaque"]), 0) for each in noops if each["response"]}
    found = pairs(rows)
    assert sum(request > 0 for request in answered.values()) > 4
    assert {frame: found.get(frame, (0, 0))[0] for frame in answered} == answered
