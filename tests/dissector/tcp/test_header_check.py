"""Which 24 bytes are believed to be a header, and where a search finds the first frame."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dissector.spec import registry
from dissector.tcp import header_check
from dissector.tcp.header_check import CONFIRM, HEADER_SIZE, Search, find_frame, is_legal, is_plausible
from tests.support.paths import DATA
from tests.support.tcp_by_hand import (
    Message,
    drafted,
    drafted_request,
    marker,
    mutation,
    noop,
    request,
    response,
    stream_answer,
)

VECTORS: list[dict[str, Any]] = json.loads((DATA / "vectors.json").read_text())
#: What a header alone shows to be wrong: these frames are decoded where they are found, but nothing is built on them.
VISIBLE = {"extras-length-unknown", "key-missing"}
#: The draft and the prototype share their opcodes with KV commands and were never released: not searched for.
RELEASED = {"dcp", "upr", "memcached"}
WELL_FORMED = [each for each in VECTORS if each["dialect"] in RELEASED and not VISIBLE & set(each.get("defects") or ())]
BROKEN = [each for each in VECTORS if VISIBLE & set(each.get("defects") or ())]
HEAD = struct.Struct(">BBHBBHI")
MAGIC, OPCODE, KEY, EXTRAS, DATATYPE, NUMBER, BODY = range(7)
RESPONSES, FLEXIBLE = {0x81, 0x18, 0x83}, {0x08, 0x18}
#: In no table of any dialect; statuses and opcodes are never reused, so these stay free for long.
UNKNOWN_OPCODE, UNKNOWN_STATUS = 0x7E, 0x7FFE


def changed(header: bytes, **fields: int) -> bytes:
    """Return a header with other numbers in it."""
    numbers = list(HEAD.unpack_from(header))
    for name, number in fields.items():
        numbers[globals()[name]] = number
    return HEAD.pack(*numbers) + header[HEAD.size : HEADER_SIZE]


def names(vectors: list[dict[str, Any]]) -> list[str]:
    return [vector["id"] for vector in vectors]


def test_the_vectors_cover_every_magic_and_both_verdicts() -> None:
    magics = {int(vector["hex"][:2], 16) for vector in WELL_FORMED}
    assert magics >= {0x80, 0x81, 0x08, 0x18}
    assert {defect for vector in BROKEN for defect in vector["defects"]} >= VISIBLE
    assert registry.status_name(UNKNOWN_STATUS) is None
    assert all(message.opcode != UNKNOWN_OPCODE for message in registry.MESSAGES)


@pytest.mark.parametrize("vector", WELL_FORMED, ids=names(WELL_FORMED))
def test_well_formed_frames_are_legal(vector: dict[str, Any]) -> None:
    frame = bytes.fromhex(vector["hex"])
    assert is_legal(frame)
    assert is_legal(bytearray(b"\x80" + frame), 1)
    assert is_plausible(frame)
    assert header_check.frame_length(frame) == len(frame)
    assert find_frame(frame, 0, final=True) == Search(True, 0)


DRAFTED = (
    drafted_request(900, 7),
    drafted(1, 2, vbucket=900, opaque=7),
    drafted(2, 2, value=bytes(32), vbucket=3, opaque=7),
)
#: Commands of key-value clients that are the nearest to those.
NOT_DRAFTED = (
    request(0x01, bytes(8), b"key", b"value", vbucket=900, datatype=1),
    request(0x01, bytes(8), b"key", vbucket=900, datatype=2),
    request(0x01, bytes(32), vbucket=900, datatype=1),  # without the name of a stream
    request(0x01, bytes(32), b"key", b"value", vbucket=900, datatype=1),
    request(0x01, bytes(32), b"key", vbucket=1024, datatype=1),
    request(0x01, b"", b"key", vbucket=900, datatype=2),
    response(0x02, 5, b'{"error":{"context":"text"}}', datatype=1),  # a refusal with its reason
    response(0x02, 1),
    response(0x03),  # stored
    response(0x04, 1),
)


@pytest.mark.parametrize("message", DRAFTED)
def test_the_drafts_own_forms_begin_a_direction_and_are_not_searched_for(message: Message) -> None:
    assert header_check.is_draft(message.data)
    assert header_check.is_draft(bytearray(b"\x80" + message.data), 1)
    assert not is_legal(drafted_request(900, 7).data)


@pytest.mark.parametrize("message", NOT_DRAFTED)
def test_other_commands_are_not_the_drafts(message: Message) -> None:
    assert not header_check.is_draft(message.data)


@pytest.mark.parametrize("vector", WELL_FORMED, ids=names(WELL_FORMED))
def test_no_released_message_has_a_form_of_the_draft(vector: dict[str, Any]) -> None:
    assert not header_check.is_draft(bytes.fromhex(vector["hex"]))


@pytest.mark.parametrize("vector", BROKEN, ids=names(BROKEN))
def test_broken_frames_are_not(vector: dict[str, Any]) -> None:
    assert not is_legal(bytes.fromhex(vector["hex"]))


@pytest.mark.parametrize("vector", WELL_FORMED, ids=names(WELL_FORMED))
def test_one_wrong_field_is_enough(vector: dict[str, Any]) -> None:
    frame = bytes.fromhex(vector["hex"])
    magic, _, key_word, extras, _, _, body = HEAD.unpack_from(frame)
    key = key_word & 0xFF if magic in FLEXIBLE else key_word
    needed = extras + key + (key_word >> 8 if magic in FLEXIBLE else 0)
    wrong = [
        *(changed(frame, MAGIC=other) for other in (0x00, 0x16, 0x47, 0x7F, 0x84, 0xFF)),
        *(changed(frame, DATATYPE=other) for other in (8, 0x10, 0xFF)),
        changed(frame, OPCODE=UNKNOWN_OPCODE),
        changed(frame, BODY=registry.MAX_BODY + 1),
        changed(frame, EXTRAS=255, BODY=body - extras + 255),
    ]
    if needed:
        wrong.append(changed(frame, BODY=needed - 1))
    if magic not in FLEXIBLE:
        wrong.append(changed(frame, KEY=registry.MAX_KEY + 1, BODY=body + registry.MAX_KEY + 1))
    if magic in RESPONSES:
        wrong.append(changed(frame, NUMBER=UNKNOWN_STATUS))
    else:
        wrong += [changed(frame, NUMBER=other) for other in (registry.DEFAULT_VBUCKETS, 0xFFFF)]
    assert [header.hex() for header in wrong if is_legal(header)] == []


@pytest.mark.parametrize(
    ("header", "legal"),
    [
        (request(0x5C).data, True),
        (changed(request(0x5C).data, KEY=1, BODY=1), False),  # a no-op has no key,
        (changed(request(0x5C).data, BODY=1), False),  # no value
        (changed(request(0x5C).data, EXTRAS=4, BODY=4), False),  # and no extras
        (mutation(0, 1, 1, b"k").data, True),
        (changed(mutation(0, 1, 1, b"k").data, KEY=0, BODY=31), False),  # a mutation has a key
        (changed(mutation(0, 1, 1, b"k").data, EXTRAS=29, BODY=30), False),  # 30 or 31 bytes of extras
        (changed(mutation(0, 1, 1, b"k").data, BODY=registry.MAX_BODY), True),
        (changed(mutation(0, 1, 1, b"k").data, NUMBER=1023), True),
        (marker(0, 1, 0, 9).data, True),
        (changed(marker(0, 1, 0, 9).data, KEY=1, BODY=21), False),
        (changed(marker(0, 1, 0, 9).data, EXTRAS=19, BODY=19), False),
        (response(0x53, 0x23, bytes(8)).data, True),
        (response(0x57, 0x22, b"Outside range").data, True),  # a refusal, though a mutation has no answer of its own
    ],
)
def test_what_an_opcode_may_look_like(header: bytes, legal: bool) -> None:
    assert is_legal(header) is legal


@st.composite
def variations(draw: st.DrawFn) -> bytes:
    """Draw a header of a vector with anything else in the fields that are not fixed by its opcode."""
    header = bytes.fromhex(draw(st.sampled_from(WELL_FORMED))["hex"])[:HEADER_SIZE]
    body = HEAD.unpack_from(header)[BODY]
    header = changed(
        header,
        DATATYPE=draw(st.integers(0, 7)),
        NUMBER=draw(st.one_of(st.integers(0, registry.DEFAULT_VBUCKETS - 1), st.integers(0, 0xFFFF))),
        BODY=draw(st.one_of(st.just(body), st.integers(body, registry.MAX_BODY))),
    )
    return header[: HEAD.size] + draw(st.binary(min_size=12, max_size=12))


@given(variations())
def test_the_prefilter_lets_every_legal_header_pass(header: bytes) -> None:
    assume(is_legal(header))
    assert header_check._CANDIDATE.match(header) is not None


@given(st.binary(max_size=200), st.integers(0, 200), st.booleans())
def test_a_search_never_goes_back_nor_beyond(data: bytes, start: int, final: bool) -> None:
    start = min(start, len(data))
    found, at = find_frame(data, start, final=final)
    assert start <= at <= len(data)
    assert not found or is_legal(data, at)


# ---------------------------------------------------------------------------------------------------------- searching

FRAMES = [noop(1), stream_answer(2), mutation(3, 4, 5, b"key", b"v" * 40), marker(3, 4, 6, 9), noop(2)]
NOISE = b"\x80W" + bytes(range(1, 60))  # a magic and an opcode, and nothing else that fits


def joined(*messages: Message) -> bytes:
    return b"".join(message.data for message in messages)


def test_three_headers_in_a_row_are_believed() -> None:
    assert CONFIRM == 3
    data = NOISE + joined(*FRAMES)
    assert find_frame(data, 0, final=False) == Search(True, len(NOISE))
    assert find_frame(data, len(NOISE) + 1, final=False) == Search(True, len(NOISE) + 24)
    # The third header is enough, its body need not be there.
    third = len(NOISE) + len(joined(*FRAMES[:2])) + HEADER_SIZE
    assert find_frame(data[:third], 0, final=False) == Search(True, len(NOISE))
    assert find_frame(data[: third - 1], 0, final=False) == Search(False, len(NOISE))


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_headers_wait_until_nothing_more_comes(count: int) -> None:
    data = NOISE + joined(*FRAMES[:count])
    assert find_frame(data, 0, final=False) == Search(False, len(NOISE))
    assert find_frame(data, 0, final=True) == Search(True, len(NOISE))


def test_before_a_gap_a_frame_has_to_be_whole_or_confirmed() -> None:
    one, two = stream_answer(1).data, mutation(3, 4, 5, b"key", b"v" * 40).data
    assert not find_frame(NOISE + two[:-1], 0, final=True).found  # cut, and nothing confirms it
    assert find_frame(NOISE + one + two[:-1], 0, final=True) == Search(True, len(NOISE))
    assert find_frame(NOISE + one + two[:3], 0, final=True) == Search(True, len(NOISE))
    assert not find_frame(NOISE + one + b"\x47", 0, final=True).found  # what follows is no header


def test_a_header_that_others_contradict_is_passed_over() -> None:
    false = mutation(0, 1, 1, b"k", b"v" * 30).data[:HEADER_SIZE]
    data = false + joined(*FRAMES)
    assert is_legal(data)
    assert find_frame(data, 0, final=False) == Search(True, HEADER_SIZE)


def test_nothing_found_leaves_less_than_a_header() -> None:
    data = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"
    assert find_frame(data, 0, final=False) == Search(False, len(data) - HEADER_SIZE + 1)
    assert find_frame(data, 0, final=True) == Search(False, len(data))
    assert find_frame(b"\x80", 0, final=False) == Search(False, 0)
    assert find_frame(b"", 0, final=True) == Search(False, 0)
