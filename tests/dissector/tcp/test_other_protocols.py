"""What connections speak that are not memcached, by their first bytes; and what looks like it and is not."""

from __future__ import annotations

import pytest

from dissector.tcp import other_protocols as named
from dissector.tcp.other_protocols import protocol_of

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(8)
APPLICATION_DATA = bytes.fromhex("1703030045") + bytes(11)


@pytest.mark.parametrize(
    ("protocol", "openings"),
    [
        (named.TLS, (CLIENT_HELLO, b"")),
        (named.TLS, (b"", APPLICATION_DATA)),
        (named.HTTP, (b"GET /pools HTTP/1", b"")),
        (named.HTTP, (b"", b"HTTP/1.1 200 OK\r")),
        (named.HTTP, (b"PRI * HTTP/2.0\r\n", b"")),
        (named.TEXT, (b"set a 0 0 1\r\n", b"STORED\r\n")),
        (named.TEXT, (b"stats\r\n", b"")),
        (named.SSH, (b"SSH-2.0-OpenSSH_", b"")),
        (named.UNKNOWN, (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"N")),
        (named.UNKNOWN, (b"settle down now", b"getaway")),  # the words are not commands
        (named.UNKNOWN, (b"\x16\x03\x01\x00\x00\x01", b"")),  # a record without content
        (named.UNKNOWN, (b"\x16\x03\x01\xff\xff\x01", b"")),  # longer than records are
        (named.UNKNOWN, (b"\x16\x04\x01\x00\x10\x01", b"")),  # no version of TLS
        (named.UNKNOWN, (b"\x16\x03", b"")),
        (named.SILENT, (b"", b"")),
    ],
)
def test_protocols(protocol: str, openings: tuple[bytes, bytes]) -> None:
    assert protocol_of(openings) == protocol
