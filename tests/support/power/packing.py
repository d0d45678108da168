"""Packing: a conversation as TCP, from the handshake to the end, one message per segment, and what the capture loses.

A segment acknowledges what its sender had heard, never more. Where the other side's next message shows that it heard
of a segment, or where it says no more, it acknowledges it at once.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.power.messages import Message
from tests.support.power.talks import Talk

SEGMENT = 1448
_PORTS = (40123, 11210)
_HOSTS = (bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2)))
_BEGIN = (1_000_000, 5_000_000)
_ETHERNET = bytes.fromhex("020000000002 020000000001 0800")
_RECORD = struct.Struct("<IIII")


@dataclass(slots=True)
class Packet:
    """A packet of the connection; ``message`` is the uid of the one that it carries, -1 for none."""

    time: float
    side: int
    offset: int  #: of the first byte in its direction; -1 for the SYN
    ack: int
    flags: int
    payload: bytes
    message: int = -1


def packets_of(talk: Talk) -> list[Packet]:
    """Everything that is on the wire, in the capture's order."""
    talk.settle()
    messages = talk.messages
    begin = messages[0].time - 0.001
    made = [
        Packet(begin, 0, -1, -1, 0x02, b""),
        Packet(begin + 0.0001, 1, -1, 0, 0x12, b""),
        Packet(begin + 0.0002, 0, 0, 0, 0x10, b""),
    ]
    next_heard = _next_heard(messages)
    ends = {-1: 0}
    sent = [0, 0]  # bytes by side
    acked = [0, 0]  # what each side has acknowledged of the other's
    for index, each in enumerate(messages):
        data = each.pack()
        acked[each.side] = max(acked[each.side], ends.get(each.heard, 0))
        for at in range(0, len(data), SEGMENT):
            flags = 0x18 if at + SEGMENT >= len(data) else 0x10
            piece = data[at : at + SEGMENT]
            offset = sent[each.side] + at
            made.append(Packet(each.time, each.side, offset, acked[each.side], flags, piece, each.uid))
        sent[each.side] += len(data)
        ends[each.uid] = sent[each.side]
        other = 1 - each.side
        if next_heard[index] >= index and acked[other] < sent[each.side]:
            follows = messages[index + 1] if index + 1 < len(messages) else None
            if follows is None or follows.side != other:  # else its own segment says it
                acked[other] = sent[each.side]
                made.append(Packet(each.time + 0.000005, other, sent[other], acked[other], 0x10, b""))
    last = messages[-1].time + 0.001
    made += [
        Packet(last, 0, sent[0], sent[1], 0x11, b""),
        Packet(last + 0.0001, 1, sent[1], sent[0] + 1, 0x11, b""),
        Packet(last + 0.0002, 0, sent[0] + 1, sent[1] + 1, 0x10, b""),
    ]
    return made


def _next_heard(messages: list[Message]) -> list[int]:
    """For each message: how far the other side's next message has heard, as an index; far beyond where none follows."""
    places = {each.uid: index for index, each in enumerate(messages)}
    found = [0] * len(messages)
    follows = [len(messages), len(messages)]
    for index in range(len(messages) - 1, -1, -1):
        each = messages[index]
        found[index] = follows[1 - each.side]
        follows[each.side] = min(follows[each.side], places.get(each.heard, -1)) if each.heard >= 0 else -1
    return found


def capture_of(packets: Iterable[Packet]) -> bytes:
    """The packets as a capture file."""
    out = io.BytesIO()
    out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
    now = 0
    for number, each in enumerate(packets):
        now = max(now, round(each.time * 1_000_000))  # a capture's clock does not go back
        data = _frame(each, number)
        out.write(_RECORD.pack(now // 1_000_000, now % 1_000_000, len(data), len(data)))
        out.write(data)
    return out.getvalue()


def _frame(packet: Packet, number: int) -> bytes:
    side, other = packet.side, 1 - packet.side
    seq = (_BEGIN[side] + packet.offset + 1) & 0xFFFFFFFF
    ack = (_BEGIN[other] + packet.ack + 1) & 0xFFFFFFFF if packet.flags & 0x10 else 0
    tcp = struct.pack(">HHIIBBHHH", _PORTS[side], _PORTS[other], seq, ack, 0x50, packet.flags, 65535, 0, 0)
    tcp += packet.payload
    length = 20 + len(tcp)
    head = struct.pack(">BBHHHBBH", 0x45, 0, length, number & 0xFFFF, 0x4000, 64, 6, 0) + _HOSTS[side] + _HOSTS[other]
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    pseudo = _HOSTS[side] + _HOSTS[other] + struct.pack(">BBH", 0, 6, len(tcp)) + tcp
    pseudo += b"\0" * (len(pseudo) % 2)
    total = sum(struct.unpack(f">{len(pseudo) // 2}H", pseudo))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    tcp = tcp[:16] + struct.pack(">H", ~total & 0xFFFF) + tcp[18:]
    return _ETHERNET + head + tcp
