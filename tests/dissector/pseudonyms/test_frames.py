"""What no declaration describes is not kept, and what a frame has wrong with it stays wrong."""

from __future__ import annotations

import struct

import pytest

from dissector.codec.decoder import decode
from dissector.pseudonyms import Pseudonyms
from dissector.pseudonyms.frames import replaced
from dissector.pseudonyms.permutation import secret_of
from dissector.spec.model import Dialect

PSEUDONYMS = Pseudonyms(secret_of(b"a secret for tests"))
REQUEST, RESPONSE = 0x80, 0x81
OPEN, MUTATION, CONTROL, FAILOVER_LOG, VERSION = 0x50, 0x57, 0x5E, 0x54, 0x0B  # opcodes
NOT_SUPPORTED = 0x83


def frame(magic: int, opcode: int, status: int = 0, extras: bytes = b"", key: bytes = b"", value: bytes = b"") -> bytes:
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", magic, opcode, len(key), len(extras), 0, status, len(body), 7, 0) + body


def made_of(data: bytes, dialect: Dialect = Dialect.DCP) -> bytes:
    made = replaced(PSEUDONYMS, dialect, data, collections=False)
    assert len(made) == len(data)
    assert decode(dialect, made).defect_ids() == decode(dialect, data).defect_ids()
    return made


def test_extras_beyond_the_fields_are_blanked() -> None:
    """Extras of a mutation have 32 bytes in their longest form: what is behind them nobody knows."""
    extras = bytes(range(1, 33))
    made = made_of(frame(REQUEST, MUTATION, extras=extras + b"Ada Smith", key=b"user::17", value=b"Ada Smith"))
    assert made[24:56] == extras
    assert made[56:65] == bytes(9)
    assert b"Ada" not in made


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        (b"connection_buffer_size", b"1048576", True),
        (b"set_priority", b"high", True),
        (b"consumer_name", b"ada-laptop", True),  # a name: --redact-names
        (b"owner", b"ada", False),
        (b"owner_age", b"36", True),
    ],
)
def test_values_of_unknown_controls(key: bytes, value: bytes, kept: bool) -> None:
    made = made_of(frame(REQUEST, CONTROL, key=key, value=value))
    assert made[24 : 24 + len(key)] == key
    assert (made.endswith(value)) == kept


def test_what_is_left_of_a_list_is_blanked() -> None:
    """An entry of a failover log has 16 bytes."""
    entry = bytes(range(16))
    assert made_of(frame(RESPONSE, FAILOVER_LOG, value=entry + b"Ada Smith"))[24:] == entry + bytes(9)


def test_the_text_of_a_refusal_is_no_word_of_the_protocol() -> None:
    version, refusal = b"7.0.5-7659", b"not for Ada Smith"
    assert made_of(frame(RESPONSE, VERSION, value=version), Dialect.MEMCACHED).endswith(version)
    made = made_of(frame(RESPONSE, VERSION, NOT_SUPPORTED, value=refusal), Dialect.MEMCACHED)
    assert b"Ada" not in made
    assert made[24:] != bytes(len(refusal))


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("name", [b"ada-laptop", b"cafe", b"d2f0c7a1"])
def test_a_name_that_looks_like_an_id_is_a_name(name: bytes, names: bool) -> None:
    """An open's value has no ids."""
    data = frame(REQUEST, OPEN, extras=bytes(8), key=b"ada", value=b'{"consumer_name":"%s"}' % name)
    made = replaced(Pseudonyms(PSEUDONYMS.secret, names=names), Dialect.DCP, data, collections=False)
    assert (name in made, b"ada" in made) == (not names, not names)
    assert b'{"consumer_name":"' in made
    assert decode(Dialect.DCP, made).defect_ids() == decode(Dialect.DCP, data).defect_ids()
