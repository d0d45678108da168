"""Captures for plots and reports, made by hand: a stream with known numbers, and a hostile one."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.support.tcp_by_hand import (
    CLIENT,
    SERVER,
    Conversation,
    Message,
    marker,
    mutation,
    noop,
    pcap,
    request,
    response,
    stream_answer,
)

#: Everything that a page, a picture or a terminal could fall for. ``pwned`` is what runs if anything does.
HOSTILE = (
    b"<script>window.pwned=1</script>",
    b'"><img src=x onerror="window.pwned=2">',
    b"</pre></details></script><script>window.pwned=3</script>",
    b"' onmouseover='window.pwned=4' x='",
    b"<svg/onload=window.pwned=5>&lt;b&gt;",
    b"<link rel=stylesheet href=http://192.0.2.1/x.css><style>*{display:none}</style>",
    "\u202egnp.exe \u200b\u2066\ufeff".encode(),
    b"$\\frac{1}{0}$ $ \\input{x}",
    "\u6f22\u5b57 \U0001f600 e\u0301".encode(),
    b"\x1b[31m\x00\x07\x9b\xff\xfe",
)
VBUCKET, OPAQUE = 7, 0x40


def opening(name: bytes, window: int = 0) -> list[tuple[int, Message]]:
    """Return the set-up of a producer connection, with a flow-control window if ``window`` is not 0."""
    said = [
        (CLIENT, request(0x50, struct.pack(">II", 0, 1), name, opaque=1)),
        (SERVER, response(0x50, opaque=1)),
    ]
    if window:
        said += [
            (CLIENT, request(0x5E, b"", b"connection_buffer_size", str(window).encode(), opaque=2)),
            (SERVER, response(0x5E, opaque=2)),
        ]
    return said


def streaming(vbucket: int = VBUCKET, opaque: int = OPAQUE, end: int = 0xFFFFFFFFFFFFFFFF) -> list[tuple[int, Message]]:
    """Return a stream request and its successful response."""
    extras = struct.pack(">IIQQQQQ", 0, 0, 0, end, 0, 0, 0)
    asked = request(0x53, extras, vbucket=vbucket, opaque=opaque)
    return [(CLIENT, asked), (SERVER, stream_answer(opaque))]


def ack(number: int, opaque: int = 9) -> Message:
    """Return a buffer ack."""
    return request(0x5D, struct.pack(">I", number), opaque=opaque)


def written(path: Path, *said: tuple[int, Message]) -> Path:
    """Write a conversation, each message in a packet of its own."""
    conversation = Conversation().open()
    for side, message in said:
        conversation.send(side, message)
    path.write_bytes(pcap(conversation.packets))
    return path


def plain(path: Path, seqnos: tuple[int, ...] = (1, 2, 3, 4), name: bytes = b"plain") -> Path:
    """One stream with one snapshot, and a no-op."""
    items = [(SERVER, mutation(VBUCKET, OPAQUE, seqno, b"key-%d" % seqno, b"{}")) for seqno in seqnos]
    last = max(seqnos)
    live = [(SERVER, noop(5)), (CLIENT, response(0x5C, opaque=5))]
    return written(path, *opening(name), *streaming(), (SERVER, marker(VBUCKET, OPAQUE, 0, last)), *items, *live)


def hostile(path: Path) -> Path:
    """Hostile names, keys and values, and seqnos that go back, so that findings show them."""
    said = opening(HOSTILE[0] + HOSTILE[6])
    said += [
        (CLIENT, request(0x1F, b"", HOSTILE[1], opaque=3)),
        (CLIENT, request(0x5E, b"", HOSTILE[4], HOSTILE[2], opaque=4)),
        (SERVER, response(0x5E, 4, HOSTILE[3], opaque=4)),
        *streaming(),
        (SERVER, marker(VBUCKET, OPAQUE, 0, 100)),
    ]
    for place, key in enumerate(HOSTILE):
        said.append((SERVER, mutation(VBUCKET, OPAQUE, 10 + place, key, key)))
        said.append((SERVER, mutation(VBUCKET, OPAQUE, 5, key, key)))
    return written(path, *said)
