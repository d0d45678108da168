"""What losses may hide of requests and answers, and what settles it. Offsets are made up, and small."""

from __future__ import annotations

from analysis.context import kinds
from analysis.context.requests.hidden import HiddenBytes


def hides(hidden: HiddenBytes, acked: int, opcode: int = kinds.CONTROL, *, begun: bool = True) -> bool:
    return hidden.may_hide(opcode, 1, acked, begun=begun)


def test_nothing_is_hidden_where_nothing_was_lost() -> None:
    assert not hides(HiddenBytes(), 10_000)


def test_a_loss_hides_what_the_other_side_had_received_of_it() -> None:
    hidden = HiddenBytes()
    hidden.add(100, 200, row=7, acked=50)
    assert not hides(hidden, 123), "a header has 24 bytes"
    assert hides(hidden, 124)
    assert hides(hidden, 10_000)


def test_an_answered_request_after_a_loss_settles_those_before() -> None:
    hidden = HiddenBytes()
    hidden.add(100, 200, row=7, acked=50)
    hidden.settle(kinds.STREAM_REQUEST, 9, 150)
    assert hides(hidden, 10_000), "it was sent before the loss ends"
    hidden.settle(kinds.STREAM_REQUEST, 9, 200)
    assert not hides(hidden, 10_000)
    assert hides(hidden, 10_000, kinds.NOOP), "no-ops wait for nothing else"
    hidden.add(300, 400, row=9, acked=60)
    assert hides(hidden, 10_000)
    assert not hides(hidden, 323)


def test_a_beginning_that_was_not_captured_hides_everything_until_settled() -> None:
    hidden = HiddenBytes()
    assert hides(hidden, 30, begun=False)
    hidden.settle(kinds.OPEN, 1, 0)
    assert not hides(hidden, 30, begun=False)


def test_an_answer_may_be_lost_only_after_its_request_had_arrived() -> None:
    hidden = HiddenBytes()
    assert not hidden.may_hold_answer(40)
    hidden.add(100, 200, row=7, acked=50)
    assert hidden.may_hold_answer(50)
    assert not hidden.may_hold_answer(51)
