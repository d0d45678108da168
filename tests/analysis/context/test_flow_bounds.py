"""Flow control within bounds: lost bytes, lost acks, lost controls, and what makes the bounds narrow again."""

from __future__ import annotations

import numpy as np

from analysis.context.flow_control.buffer_size import UNKNOWN_WINDOW, BufferSizes
from analysis.context.flow_control.doubts import UNBOUNDED
from analysis.context.flow_control.lost_bytes import LostBytes
from analysis.context.flow_control.rows import ACKED, CODE, LOST, START, WIDTH
from analysis.context.flow_control.sums import FlowSums, Level, Steps, bounded_sums, known_for_sure

KEY_SIZE = 22


def test_lost_bytes_may_have_counted() -> None:
    lost = LostBytes()
    assert not lost
    lost.add(100, 200)  # one prepare of 55 bytes fits, which counts 2 more
    lost.add(500, 540)
    assert lost
    assert lost.most_until(np.array([0, 100, 130, 160, 200, 500, 520, 900])).tolist() == (
        [0, 0, 30, 60 + 2, 100 + 2, 102, 122, 142]
    )
    lost.drop_until(300)
    assert lost.pending == 1
    assert lost.most_until(np.array([400, 900])).tolist() == [102, 142], "what was dropped still counts"


def test_acks_may_have_come_inside_of_lost_bytes() -> None:
    lost = LostBytes()
    lost.add(100, 200)
    assert lost.inside(np.array([99, 127, 128, 199, 200]), 28).tolist() == [False, False, True, True, False]


def added_up(
    level: Level,
    sizes: list[int],
    *,
    known: list[int] | None = None,
    acks: tuple[int, ...] = (),
    vague: tuple[bool, ...] = (),
    lost: list[int] | None = None,
    forgotten: list[bool] | None = None,
    full: int = 1000,
) -> tuple[FlowSums, Level]:
    count = len(sizes)
    none, size = np.zeros(count, np.int64), np.array(sizes, np.int64)
    steps = Steps(
        known=none if known is None else np.array(known),
        lost=none if lost is None else np.array(lost),
        forgotten=none > 0 if forgotten is None else np.array(forgotten),
        unsure=none,
        least=size,
        most=size,
        size=size,
        full=np.full(count, full),
        time_ns=np.arange(count),
        acks=np.array(acks, np.int64),
        vague=np.array(vague or [False] * len(acks), bool),
    )
    sums, _, after = bounded_sums(level, steps)
    return sums, after


def bounds(sums: FlowSums) -> list[tuple[int, int]]:
    assert sums.most is not None
    return list(zip(sums.before.tolist(), sums.most.tolist(), strict=True))


NOTHING = Level(0, 0, -1, 0)


def test_a_lost_message_widens_the_bounds() -> None:
    sums, after = added_up(NOTHING, [100, 100, 100], lost=[0, 250, 0])
    assert bounds(sums) == [(0, 0), (100, 350), (200, 450)]
    assert after[:2] == (300, 550)


def test_an_ack_narrows_them() -> None:
    # 100 are surely outstanding and 350 at most; 300 are given back: at least 0, at most 50.
    sums, after = added_up(NOTHING, [100, 100, 100], lost=[0, 250, 0], known=[0, 0, 1], acks=(300,))
    assert bounds(sums) == [(0, 0), (100, 350), (0, 150)]
    assert sums.before_acks.tolist() == [200]
    assert sums.after_acks.tolist() == [0]
    assert after[:2] == (100, 250)
    # Everything is given back: it is known again.
    assert added_up(NOTHING, [100, 100, 100], lost=[0, 250, 0], known=[0, 0, 1], acks=(450,))[1][:2] == (100, 100)


def test_a_lost_ack_may_have_given_back_everything_or_nothing() -> None:
    sums, after = added_up(NOTHING, [100, 100, 100], known=[0, 0, 1], acks=(0,), vague=(True,))
    assert bounds(sums) == [(0, 0), (100, 100), (0, 200)]
    assert after[:2] == (100, 300)
    sums, _ = added_up(NOTHING, [100, 100, 100], forgotten=[False, True, False])
    assert bounds(sums) == [(0, 0), (0, 100), (100, 200)]


def test_what_is_sent_shows_that_there_was_room() -> None:
    sums, after = added_up(Level(0, UNBOUNDED, -1, 0), [100, 70])
    assert bounds(sums) == [(0, UNBOUNDED), (100, 999 + 100)], "it is judged before it narrows"
    assert after[:2] == (170, 999 + 70)


def test_what_surely_is_too_much_does_not_narrow() -> None:
    sums, after = added_up(Level(1200, 1500, -1, 0), [100])
    assert bounds(sums) == [(1200, 1500)]
    assert after[:2] == (1300, 1300)


def test_an_ack_of_too_much_is_one_that_is_larger_than_the_most() -> None:
    sums, after = added_up(Level(100, 400, -1, 0), [100, 100], known=[1, 1], acks=(300,))
    assert after.until_ns == -1
    sums, after = added_up(Level(100, 400, -1, 0), [100, 100], known=[1, 1], acks=(401,))
    assert bounds(sums) == [(0, 0), (100, 100)]
    assert after.until_ns == 10**9
    assert after.allowance == 200


def test_a_message_that_an_ack_acknowledges_was_sent_before_it() -> None:
    messages, acks = np.zeros((WIDTH, 3), np.int64), np.zeros((WIDTH, 2), np.int64)
    messages[START] = 0, 100, 200
    acks[ACKED] = 50, 200
    assert known_for_sure(messages, acks, np.array([0, 1, 2])).tolist() == [0, 1, 2]
    assert known_for_sure(messages, acks, np.array([1, 2, 2])).tolist() == [0, 1, 2], "they were sent again"
    acks[CODE, 1] = LOST
    assert known_for_sure(messages, acks, np.array([0, 2, 2])).tolist() == [0, 2, 2], "what was lost may be older"


def test_a_response_without_a_request_makes_the_window_unknown_only_after_a_loss() -> None:
    for lost, changes in ((0, []), (46, []), (47, [UNKNOWN_WINDOW])):
        sizes = BufferSizes()
        if lost:
            sizes.note_lost_requests(10, 10 + lost)
        sizes.note_response(24, 60, 7, 1, granted=True)
        sizes.pair_controls(60)
        assert [each.size for each in sizes.changes] == changes, f"{24 + KEY_SIZE + 1} bytes are the shortest request"


def test_a_response_that_may_be_lost_makes_the_window_unknown_until_the_next() -> None:
    sizes = BufferSizes()
    sizes.note_request(50, 7, 500)
    sizes.note_lost_responses(100, 40, 1, 1)  # the request had not arrived yet
    sizes.pair_controls(50)
    assert not sizes.changes
    sizes.note_lost_responses(200, 50, 2, 2)
    sizes.pair_controls(50)
    assert [(each.offset, each.size) for each in sizes.changes] == [(224, UNKNOWN_WINDOW)]
    sizes.note_request(110, 8, 700)
    sizes.note_response(300, 110, 8, 3, granted=True)
    sizes.pair_controls(110)
    assert [each.size for each in sizes.changes] == [UNKNOWN_WINDOW, 700]


def test_a_later_answer_shows_that_nothing_is_owed_for_lost_requests() -> None:
    sizes = BufferSizes()
    sizes.note_lost_requests(10, 90)
    sizes.note_request(140, 7, 500)
    sizes.note_response(100, 140, 7, 1, granted=True)
    sizes.note_lost_responses(200, 140, 2, 2)
    sizes.pair_controls(140)
    assert [each.size for each in sizes.changes] == [500], "responses come in the order of their requests"


def test_responses_of_the_same_opaque_are_taken_for_no_certain_one() -> None:
    sizes = BufferSizes()
    sizes.note_request(50, 7, 500)
    sizes.note_lost_responses(100, 50, 1, 1)
    sizes.note_request(100, 7, 800)
    sizes.note_response(200, 100, 7, 2, granted=True)
    sizes.pair_controls(100)
    assert [each.size for each in sizes.changes] == [UNKNOWN_WINDOW, UNKNOWN_WINDOW]
