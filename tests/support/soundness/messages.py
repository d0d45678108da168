"""Where messages lie in the streams of a capture: a plain walk from header to header, for placing and for set-up."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.soundness.packets import Packet

_HEADER = 24
_MAGICS = (0x80, 0x81, 0x08, 0x18, 0x82, 0x83)
_LARGEST = 32 << 20
_SURE = 3  #: headers in a row that make a place in the middle of bytes the start of a message
#: HELLO, SASL, select bucket, error map; open, add stream, close, stream request, failover log, end, state, control.
SET_UP = frozenset((0x1F, 0x20, 0x21, 0x22, 0x89, 0xFE, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x5B, 0x5E))
MARKER = 0x56


class Message(NamedTuple):
    """Bytes of a stream."""

    side: int
    start: int
    end: int
    opcode: int


def messages(packets: Sequence[Packet]) -> list[Message]:
    """Return the messages of one connection, side by side."""
    return [message for side in (0, 1) for run in _runs(packets, side) for message in _walk(side, *run)]


def _runs(packets: Sequence[Packet], side: int) -> list[tuple[int, bytes, bool]]:
    """Return what was captured without holes: offset, bytes, and whether a message begins there for certain."""
    pieces = sorted((each for each in packets if each.side == side and each.data), key=lambda each: each.offset)
    begun = any(each.side == side and each.offset == -1 for each in packets)
    runs: list[tuple[int, bytearray]] = []
    for piece in pieces:
        end = runs[-1][0] + len(runs[-1][1]) if runs else None
        if end is None or piece.offset > end:
            runs.append((piece.offset, bytearray(piece.data)))
        else:
            runs[-1][1].extend(piece.data[end - piece.offset :])
    return [(offset, bytes(data), begun and offset == 0) for offset, data in runs]


def _walk(side: int, base: int, data: bytes, sure: bool) -> list[Message]:
    found, at = [], 0
    if not sure:
        at = next((each for each in range(len(data)) if _looks_right(data, each)), len(data))
    while at + _HEADER <= len(data) and data[at] in _MAGICS:
        size = _HEADER + struct.unpack_from(">I", data, at + 8)[0]
        if size > _LARGEST:
            break
        found.append(Message(side, base + at, base + at + size, data[at + 1]))
        at += size
    return found


def _looks_right(data: bytes, at: int) -> bool:
    if data[at] not in _MAGICS:
        return False
    for _ in range(_SURE):
        if at + _HEADER > len(data):
            return at >= len(data)
        extras, body = data[at + 4], struct.unpack_from(">I", data, at + 8)[0]
        if data[at] not in _MAGICS or extras > body or body > _LARGEST:
            return False
        at += _HEADER + body
    return True
