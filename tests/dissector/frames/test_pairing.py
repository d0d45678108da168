"""Requests and answers: pairs by key and age, and nothing beyond the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dissector.frames.pairing import Key, PendingRequests

A, B = (0, 0x53, 7), (0, 0x53, 8)


def waiting(*requests: tuple[Key, str], limit: int | None = None) -> PendingRequests[str]:
    pending: PendingRequests[str] = PendingRequests(limit)
    for key, request in requests:
        pending.add(key, request)
    return pending


def test_an_answer_belongs_to_the_oldest_request_of_its_key() -> None:
    pending = waiting((A, "first"), (B, "other"), (A, "second"))
    assert (A in pending, len(pending), list(pending)) == (True, 3, ["first", "other", "second"])
    assert list(pending.by_key()) == ["first", "second", "other"]
    assert (pending.first(A), pending.take(A)) == ("first", "first")
    assert (pending.take(A), pending.take(A)) == ("second", None)
    assert (A in pending, set(pending.keys), list(pending)) == (False, {B}, ["other"])


def test_beyond_the_limit_there_is_no_room_until_one_is_answered() -> None:
    pending = waiting((A, "first"), (A, "second"), limit=2)
    assert pending.is_full
    assert not pending.add(B, "third")
    assert not pending.replace(A, "third")
    assert list(pending) == ["first", "second"]
    pending.take(A)
    assert pending.add(B, "third")
    assert list(pending) == ["second", "third"]


def test_a_request_may_replace_those_of_its_key() -> None:
    pending = waiting((A, "first"), (B, "other"), (A, "second"), limit=4)
    assert pending.replace(A, "third")
    assert list(pending) == ["other", "third"]
    pending.drop(A)
    pending.drop(A)
    assert (list(pending), pending.first(A)) == (["other"], None)


def test_the_oldest_of_all_can_be_forgotten() -> None:
    pending = waiting((A, "first"), (B, "other"), (A, "second"))
    pending.drop_oldest()
    assert list(pending) == ["other", "second"]
    pending.drop_oldest()
    assert (list(pending), B in pending) == (["second"], False)


@given(st.lists(st.tuples(st.sampled_from("arfd"), st.integers(0, 2)), max_size=60))
def test_like_a_plain_list(steps: list[tuple[str, int]]) -> None:
    """Whatever happens, the requests are those of a list that is searched from its front."""
    pending: PendingRequests[int] = PendingRequests(5)
    expected: list[tuple[Key, int]] = []
    for at, (step, number) in enumerate(steps):
        key = (number,)
        mine = [entry for entry in expected if entry[0] == key]
        if step == "a":
            assert pending.add(key, at) == (len(expected) < 5)
            expected += [(key, at)] if len(expected) < 5 else []
        elif step == "r":
            if pending.replace(key, at):
                expected = [entry for entry in expected if entry[0] != key] + [(key, at)]
        elif step == "f":
            assert pending.take(key) == (mine[0][1] if mine else None)
            expected = [entry for entry in expected if not mine or entry != mine[0]]
        else:
            pending.drop(key)
            expected = [entry for entry in expected if entry[0] != key]
        assert list(pending) == [request for _, request in expected]
        assert set(pending.keys) == {key for key, _ in expected}
