"""Pseudonyms: as long, of the same kind, and different where the texts are."""

from __future__ import annotations

import itertools
import string

from hypothesis import given
from hypothesis import strategies as st

from dissector.pseudonyms import Pseudonyms
from dissector.pseudonyms.permutation import is_number, new_secret, secret_of

PSEUDONYMS = Pseudonyms(secret_of(b"a secret for tests"))
WORD = (string.ascii_letters + string.digits + "-_:.").encode()


def kind(text: bytes) -> int:
    """0: a word, 1: printable, 2: any bytes."""
    if all(byte in WORD for byte in text):
        return 0
    return 1 if all(0x20 <= byte < 0x7F for byte in text) else 2


def test_all_short_texts() -> None:
    """A permutation: the pseudonyms of all texts of a length are all texts of that length."""
    for length, alphabet in ((1, range(256)), (2, range(0x20, 0x7F))):
        texts = [bytes(each) for each in itertools.product(alphabet, repeat=length)]
        made = [PSEUDONYMS.of(text) for text in texts]
        assert set(made) == set(texts)
        assert [*map(kind, made)] == [*map(kind, texts)]


def test_all_numbers_of_up_to_three_digits() -> None:
    for first, last in ((0, 9), (10, 99), (100, 999)):
        numbers = [b"%d" % number for number in range(first, last + 1)]
        made = [PSEUDONYMS.of_number(number) for number in numbers]
        assert set(made) == set(numbers)
        assert made != numbers


@given(st.lists(st.binary(min_size=1, max_size=250) | st.text(WORD.decode(), min_size=1).map(str.encode), unique=True))
def test_different_texts_stay_different(texts: list[bytes]) -> None:
    made = [PSEUDONYMS.of(text) for text in texts]
    assert len(set(made)) == len(texts)
    assert [(len(text), kind(text)) for text in made] == [(len(text), kind(text)) for text in texts]
    assert made == [Pseudonyms(PSEUDONYMS.secret).of(text) for text in texts]


@given(st.integers(min_value=0, max_value=10**40))
def test_numbers_stay_numbers(number: int) -> None:
    text = b"%d" % number
    made = PSEUDONYMS.of_number(text)
    assert is_number(made)
    assert len(made) == len(text)


def test_another_secret_gives_others() -> None:
    assert new_secret() != new_secret()
    texts = [b"user::%d" % number for number in range(50)]
    other = Pseudonyms(secret_of(b"another one"))
    assert not {other.of(text) for text in texts} & {PSEUDONYMS.of(text) for text in texts}
    assert b"user" not in b"".join(PSEUDONYMS.of(text)[:4] for text in texts)
    assert "secret=" not in repr(PSEUDONYMS)


def test_fillers_are_letters_that_depend_on_the_text() -> None:
    assert PSEUDONYMS.filler(b"one") == PSEUDONYMS.filler(b"one")
    fillers = {PSEUDONYMS.filler(b"%d" % number, 12) for number in range(1000)}
    assert len(fillers) == 1000
    assert set(b"".join(fillers)) <= set(b"abcdefghijklmnopqrstuvwxyz234567")


def test_texts_longer_than_any_key() -> None:
    """No arithmetic with a million digits: letters and digits, and different ones for different texts."""
    for text in (b"k" * 1_000_000, b"\0" * 65_535):
        made = PSEUDONYMS.of(text)
        assert len(made) == len(text)
        assert made.isalnum()
        assert made != PSEUDONYMS.of(text[:-1] + b"x")
    number = b"9" * 100_000
    assert is_number(PSEUDONYMS.of_number(number))
    assert len(PSEUDONYMS.of_number(number)) == len(number)
