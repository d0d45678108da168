"""Comments on packets as text: the form, the check, what is refused, and what is shortened."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.annotate.comment import PacketComment, checksum, read_comment
from analysis.rules import RULES

ROLES = sorted({"guilty"} | {role for rule in RULES for check in rule.checks for role in check.evidence})
#: 5381, then h * 33 + byte modulo 2^32 for every byte before "; CHECK]": worked out below, in the open.
WRITTEN = (
    "SEQ-01 error guilty, mutation vb 12 seqno 9: seqno 9 comes after 11 in the same stream. "
    "[uprscope SEQ-01-06a74178; guilty 1685, last 1680, marker 1671"
)
MEANT = PacketComment(
    "SEQ-01",
    "error",
    "guilty",
    "mutation vb 12 seqno 9",
    "seqno 9 comes after 11 in the same stream.",
    "SEQ-01-06a74178",
    (("guilty", 1685), ("last", 1680), ("marker", 1671)),
)


def check_of(text: str) -> str:
    value = 5381
    for byte in text.encode():
        value = (value * 33 + byte) % 2**32
    return f"{value:08x}"


PRINTABLE = st.text(st.characters(codec="utf-8").filter(str.isprintable), max_size=200)
SEVERITIES = ("error", "warning", "info")


@st.composite
def annotations(draw: st.DrawFn, sentences: st.SearchStrategy[str] = PRINTABLE) -> PacketComment:
    rule = draw(st.sampled_from(RULES)).id
    message = draw(st.sampled_from(("mutation", "0xf3", "get_failover_log"))) + draw(st.sampled_from(("", " response")))
    for word in (" vb ", " seqno "):
        number = draw(st.none() | st.integers(0, 2**63 - 1))
        message += "" if number is None else f"{word}{number}"
    place = st.tuples(st.sampled_from(ROLES), st.integers(1, 10**12))
    return PacketComment(
        rule,
        draw(st.sampled_from(SEVERITIES)),
        draw(st.sampled_from(ROLES)),
        message,
        draw(sentences),
        f"{rule}-{draw(st.integers(0, 2**32 - 1)):08x}",
        tuple(draw(st.lists(place, min_size=1, max_size=6))),
    )


def test_the_form() -> None:
    assert str(MEANT) == f"{WRITTEN}; {check_of(WRITTEN)}]"
    assert read_comment(str(MEANT)) == MEANT


def test_the_check_by_hand() -> None:
    assert checksum("") == 5381
    assert checksum("ab") == (5381 * 33 + ord("a")) * 33 + ord("b")
    assert checksum("é") == (5381 * 33 + 0xC3) * 33 + 0xA9


@given(annotations())
def test_what_is_written_is_read(meant: PacketComment) -> None:
    assert read_comment(str(meant)) == meant


@given(annotations(), st.data())
def test_any_other_character_is_refused(meant: PacketComment, data: st.DataObject) -> None:
    text = str(meant)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda each: each != text[at]))
    assert read_comment(text[:at] + other + text[at + 1 :]) is None


@given(annotations(), st.data())
def test_what_is_cut_or_longer_is_refused(meant: PacketComment, data: st.DataObject) -> None:
    text = str(meant)
    at = data.draw(st.integers(0, len(text) - 1))
    assert read_comment(text[:at]) is None
    assert read_comment(text[at + 1 :]) is None
    assert read_comment(text + data.draw(st.text(min_size=1, max_size=3))) is None
    assert read_comment(data.draw(st.text(min_size=1, max_size=3)) + text) is None


@given(st.text(max_size=300))
def test_other_text_is_none_of_ours(text: str) -> None:
    assert read_comment(text) is None


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN.replace("SEQ-01-06a74178", "SEQ-02-06a74178"),
        WRITTEN.replace("SEQ-01-06a74178", "SEQ-01-06A74178"),
        WRITTEN.replace("error", "fatal"),
        WRITTEN.replace("1685", "9" * 19),
        WRITTEN.replace("1685", "9" * 5000),  # more digits than Python turns into a number
        WRITTEN.replace("it", "i" * 3000).replace("comes", "c" * 3000),
        WRITTEN.replace("guilty 1685, ", "guilty, "),
        WRITTEN.replace("guilty 1685, last 1680, marker 1671", ""),
        WRITTEN.replace("mutation vb 12", "mutation"),  # sound: a message need not have a vbucket
        WRITTEN.replace("mutation vb 12", "mutation vb x"),
        WRITTEN.replace("seqno 9 comes", "seqno 9\ncomes"),
        WRITTEN.replace("seqno 9 comes", "seqno 9\u202ecomes"),
    ],
)
def test_the_form_counts_as_well_as_the_check(text: str) -> None:
    read = read_comment(f"{text}; {check_of(text)}]")
    assert (read is not None) == ("mutation seqno 9" in text)


@given(annotations(st.text(max_size=6000)))
def test_sentences_are_harmless_and_comments_short(meant: PacketComment) -> None:
    text = str(meant)
    assert len(text.encode()) <= 2000
    assert not any(unicodedata.category(each) in {"Cc", "Cf", "Zl", "Zp", "Cs"} for each in text)
    read = read_comment(text)
    assert read is not None
    assert (read.finding, read.packets, read.message) == (meant.finding, meant.packets, meant.message)


@pytest.mark.parametrize("letter", ["a", "é", "…", "🙂"])
def test_a_long_sentence_is_cut_between_characters(letter: str) -> None:
    text = str(PacketComment("SEQ-01", "info", "last", "noop", letter * 3000, "SEQ-01-00000000", (("guilty", 1),)))
    read = read_comment(text)
    assert read is not None
    assert read.sentence.endswith("…")
    assert set(read.sentence[:-1]) == {letter}
    assert 2000 - 4 < len(text.encode()) <= 2000


def test_hostile_comments_take_no_time() -> None:
    """64 KiB is the longest that an option can be."""
    for text in (WRITTEN[:90] + " [uprscope SEQ-01-06a74178; guilty 1" * 1700, WRITTEN + ", guilty 1" * 6000):
        assert read_comment(text[:65535] + "; 00000000]") is None
