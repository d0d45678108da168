"""Documents that stand in for others are as long, sound for their datatype, and tell nothing of them."""

from __future__ import annotations

import json

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.codec.encoder import pack_xattrs
from dissector.codec.values import document_defects, inflate, read_xattrs, silent
from dissector.pseudonyms import Pseudonyms
from dissector.pseudonyms.documents import document_of, literal_size, literals, plain_of
from dissector.pseudonyms.permutation import secret_of

PSEUDONYMS = Pseudonyms(secret_of(b"a secret for tests"))
JSON, SNAPPY, XATTR = 1, 2, 4  # the protocol's bits of the datatype


def compressed(plain: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain))


def stands_in(raw: bytes, datatype: int, *, json: bool) -> bytes:
    made = document_of(PSEUDONYMS, raw, datatype, json=json)
    assert len(made) == len(raw)
    assert document_defects(made, datatype) == document_defects(raw, datatype)
    return made


def test_json_of_any_length() -> None:
    for length in range(1, 300):
        text = b"7" if length == 1 else b'"%s"' % (b"x" * (length - 2))
        assert json.loads(stands_in(text, JSON, json=True)) is not None
    assert stands_in(b"{}", JSON, json=True) == b"{}"
    assert isinstance(json.loads(stands_in(b'{"name": "Ada"}', JSON, json=True)), str)


def test_numbers_stay_numbers_of_as_many_digits() -> None:
    made = {plain_of(PSEUDONYMS, b"%d" % number, json=True) for number in range(100, 1000)}
    assert made == {b"%d" % number for number in range(100, 1000)}


def test_snappy_blocks_of_any_length() -> None:
    """Literals alone: their tags and the length in front take up what is not content."""
    for length in (*range(3, 5001), *range(16_380, 16_395), *range(65_530, 65_550), 1 << 20):
        found = literal_size(length)
        assert found is not None
        size, split = found
        block = literals(b"x" * size, split)
        assert len(block) == length
        assert inflate(block, silent, 1 << 21) == b"x" * size
        assert length - 10 < size < length


@pytest.mark.parametrize("datatype", [JSON | SNAPPY, SNAPPY, JSON | SNAPPY | XATTR, SNAPPY | XATTR])
def test_compressed_documents(datatype: int) -> None:
    for count in (0, 1, 2, 5, 40, 900):
        document = json.dumps({"name": "Grace Hopper", "list": ["secret"] * count}).encode()
        pairs = [(b"_sync", b'{"rev": "hidden"}'), (b"mine", b"[1,2]")] if count % 2 else []
        plain = pack_xattrs(pairs, document) if datatype & XATTR else document
        made = stands_in(compressed(plain), datatype, json=bool(datatype & JSON))
        expanded = inflate(made, silent, 1 << 20)
        assert expanded is not None
        assert not any(word in expanded + made for word in (b"Grace", b"secret", b"hidden", b"mine", b"name"))


def test_xattrs_keep_their_sizes() -> None:
    pairs = [(b"_sync", b'{"rev": "1-abc"}'), (b"mine", b"17"), (b"x", b"")]
    made = stands_in(pack_xattrs(pairs, b'{"a": 1}'), XATTR | JSON, json=True)
    found, document = read_xattrs(made, silent)
    assert [(len(name), len(value)) for name, value in found] == [(len(name), len(value)) for name, value in pairs]
    assert [name[:1] == b"_" for name, _ in found] == [True, False, False]
    assert json.loads(document)
    assert found[1][1].isdigit()


@pytest.mark.parametrize(
    ("raw", "datatype"),
    [
        (b"\0\0\0\x09\0\0\0\x05ab\0c\0{}", XATTR),  # sound
        (b"\0\0\0\x09\0\0\0\x05abcde{}", XATTR | JSON),  # no zero byte
        (b"\0\0\0\x09\0\0\0\x50ab\0c\0secret", XATTR),  # a pair beyond the section
        (b"\x7f\0\0\x09secret", XATTR),  # a section beyond the value
        (b'{"plain": 1}', XATTR | JSON),
        (b"\0\0", XATTR),
        (b"\xff\xff\xff\xff\xff\xffsecret", SNAPPY),
        (b"\x20secret", SNAPPY | JSON),
        (b"not json, secret", JSON),
        (b"", JSON | SNAPPY | XATTR),
    ],
)
def test_what_is_malformed_stays_malformed(raw: bytes, datatype: int) -> None:
    sound = datatype & JSON and "json-invalid" not in document_defects(raw, datatype)
    assert b"secret" not in stands_in(raw, datatype, json=bool(sound))


@given(raw=st.binary(max_size=200), datatype=st.integers(0, 7), json=st.booleans())
def test_any_bytes(raw: bytes, datatype: int, json: bool) -> None:
    assert len(document_of(PSEUDONYMS, raw, datatype, json=json)) == len(raw)


@given(plain=st.binary(max_size=3000), datatype=st.sampled_from((SNAPPY, SNAPPY | XATTR)))
def test_any_compressed_bytes(plain: bytes, datatype: int) -> None:
    raw = compressed(plain)
    made = document_of(PSEUDONYMS, raw, datatype, json=False)
    assert len(made) == len(raw)
    assert inflate(made, silent, 1 << 20) is not None
