"""Mixes of connections that cross splits: long enough to be followed from the middle on, with all that goes wrong.

Made from a number each, with :mod:`random`: hypothesis would take longer to draw them than they take to decode. All
kinds of traffic that a decoder may meet on these ports go on at once: streams of every dialect, HELLOs that change
what keys look like, key-value clients, other protocols, and ports that are used again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.support.split_archives import Packet, fragmented, packed, pcap_file, pcapng_file
from tests.support.tcp_by_hand import (
    CLIENT,
    FIN,
    RST,
    SERVER,
    SYN,
    Conversation,
    Ends,
    Message,
    Wire,
    counted,
    drafted,
    drafted_item,
    drafted_request,
    drop,
    duplicate,
    marker,
    move,
    mutation,
    noop,
    request,
    response,
    snap,
    stream_answer,
    widen,
)

KINDS = ("stream", "stream", "old stream", "plain stream", "key-value", "other", "draft")
_HELLO, _COLLECTIONS = 0x1F, 0x12
_PORTS = (11_210, 9_999, 11_210)


def conversation(random: Random, port: int) -> list[Wire]:
    """Return the packets of one connection, sometimes with troubles."""
    ends = Ends(
        addresses=random.choice([("10.0.0.1", "10.0.0.2"), ("10.0.0.9", "10.0.0.2"), ("fd00::1", "fd00::2")]),
        ports=(port, random.choice(_PORTS)),
        isns=(random.choice([1_000, 2**32 - 700, random.randrange(2**32)]), random.choice([5_000_000, 2**32 - 5_000])),
    )
    sender = Conversation(ends)
    if random.random() < 0.7:
        sender.open()
    kind = random.choice(KINDS)
    mss = random.choice([60, 300, 700, 1448])
    rounds = random.randint(2, 25)
    for number in range(rounds):
        _say(random, sender, kind, number, mss)
        if random.random() < 0.3:
            side = random.choice([CLIENT, SERVER])
            acked = len(sender.streams[1 - side])
            sender.packets.append(Wire(ends, side, len(sender.streams[side]), acked=acked))
    if random.random() < 0.5:
        sender.close(random.choice([CLIENT, SERVER]), random.choice([FIN, RST]))
    wires = sender.packets[random.choice([0, 0, 0, random.randrange(10)]) :]
    return _troubled(random, wires, sender) if random.random() < 0.6 else list(wires)


def _say(random: Random, sender: Conversation, kind: str, number: int, mss: int) -> None:
    """Send something."""
    if kind == "other":
        text = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number + bytes(random.choices(range(256), k=200))
        sender.send(random.choice([CLIENT, SERVER]), Message(text), mss=mss)
        return
    if random.random() < (0.3 if number == 0 else 0.06) * (kind != "draft" or number % 5 == 4):
        features = struct.pack(">HH", 3, _COLLECTIONS if random.random() < 0.6 else 4)
        sender.send(CLIENT, request(_HELLO, key=b"agent", value=features, opaque=number), mss=mss)
        sender.send(SERVER, response(_HELLO, value=features, opaque=number), mss=mss)
    if kind == "key-value":
        _store(random, sender, number, mss)
        return
    if kind == "draft":
        _draft(random, sender, number, mss)
        return
    if number == 0:
        sender.send(CLIENT, request(0x50, struct.pack(">II", 0, 1), b"name", opaque=1), mss=mss)
    if random.random() < 0.2:
        sender.send(SERVER, stream_answer(7), mss=mss)
    count = random.randint(1, 8)
    messages = []
    if kind == "stream" and random.random() < 0.6:
        messages.append(marker(3, 7, number, number + count))
    if kind == "old stream" and random.random() < 0.6:
        messages.append(counted(0x56, b"", vbucket=3, opaque=7))
    for _ in range(count):
        value = random.choice([b"", b"v" * 40, b"v" * 400, bytes(range(256)) * 3, noop(1).data * 5, b"w" * 3000])
        messages.append(mutation(3, 7, number, random.choice([b"key%d", b"\x08key%d", b"\x80key%d"]) % number, value))
    sender.send(SERVER, *messages, mss=mss)
    if random.random() < 0.4:
        sender.send(CLIENT, counted(0x5D, struct.pack(">I", 400), opaque=9) if random.random() < 0.5 else noop(11))


def _store(random: Random, sender: Conversation, number: int, mss: int) -> None:
    """Do what key-value clients do; the draft has the same opcodes."""
    opcode = random.choice([0x01, 0x01, 0x02, 0x04, 0x00])
    extras = bytes(8) if opcode in (1, 2) else b""
    asked = request(opcode, extras, b"key%d" % number, b"v" * 50 if opcode in (1, 2) else b"", opaque=number, vbucket=3)
    told = response(opcode, value=b"v" * 90 if opcode == 0 else b"", extras=bytes(4) if opcode == 0 else b"")
    sender.send(CLIENT, asked, mss=mss)
    sender.send(SERVER, told, mss=mss)
    if random.random() < 0.03:
        sender.send(CLIENT, request(0x02, b"", opaque=number, vbucket=3), mss=mss)
        sender.send(SERVER, request(0x04, b"", b"draft", opaque=number), mss=mss)


def _draft(random: Random, sender: Conversation, number: int, mss: int) -> None:
    """Ask and answer in the draft's words; what proves them may come late or never."""
    vbucket, said = random.choice([3, 12, 700]), random.random()
    if said < 0.3:
        sender.send(CLIENT, drafted_request(vbucket, number), mss=mss)
    elif said < 0.4:
        sender.send(CLIENT, drafted(1, 2, vbucket=vbucket, opaque=number), mss=mss)
        sender.send(SERVER, drafted(2, 2, value=bytes(16), vbucket=vbucket, opaque=number), mss=mss)
    elif said < 0.5:
        sender.send(CLIENT, request(0x00, key=b"key", opaque=number))
        sender.send(SERVER, response(0x00, value=b"v" * 90, extras=bytes(4)))
    elif said < 0.6:
        answer = drafted(
            2, random.choice([1, 2, 3]), vbucket=vbucket, opaque=random.choice([max(number - 1, 0), number])
        )
        sender.send(SERVER, answer, mss=mss)
    else:
        words = [drafted(4, 1, vbucket=vbucket, opaque=7)]
        if said < 0.75:
            words += [drafted_item(vbucket, 7, each, b"v" * random.choice([9, 600])) for each in range(9)]
        sender.send(SERVER, *words, drafted(4, 2, vbucket=vbucket, opaque=7), mss=mss)


def _troubled(random: Random, wires: Sequence[Wire], sender: Conversation) -> list[Wire]:
    made = list(wires)
    for _ in range(random.randint(1, 4)):
        if len(made) < 2:
            break
        index, trouble = random.randrange(len(made)), random.choice(["drop", "move", "twice", "wide", "alive", "cut"])
        near = max(0, min(len(made) - 1, index + random.randint(-6, 6)))
        to = random.choice([near, near, random.randrange(len(made))])
        wire = made[index]
        if trouble == "drop":
            made = drop(made, *range(index, index + random.choice([1, 1, 3])))
        elif trouble == "move":
            made = move(made, index, to)
        elif trouble == "twice":
            made = duplicate(made, index, to)
        elif trouble == "wide" and wire.data:
            flip = random.choice([0, 0, 1])
            made = widen(
                made, index, bytes(sender.streams[wire.side]), random.randrange(90), random.randrange(90), flip
            )
        elif trouble == "alive" and wire.offset and not wire.flags & SYN:
            made.insert(to, replace(wire, offset=wire.offset - 1, data=b"\0", cut=0, flags=0))
        elif trouble == "cut" and random.random() < 0.3:
            made = made[:index] + snap(made[index : index + 5], random.choice([30, 90])) + made[index + 5 :]
    return made


def run(seed: int, *, broken_up: bool = False) -> list[list[Packet]]:
    """Return the packets of a run, by file."""
    random = Random(seed)  # noqa: S311 - repeatable, not secret
    remaining = [conversation(random, 40_000 + random.randint(0, 3)) for _ in range(random.randint(1, 5))]
    wires: list[Wire] = []
    while any(remaining):
        wires_left = random.choice([each for each in remaining if each])
        count = random.randint(1, 12)
        wires += wires_left[:count]
        del wires_left[:count]
    packets: list[Packet] = []
    for number, packet in enumerate(packed(wires)):
        whole = len(packet.data) == packet.original and packet.data[12:14] == b"\x08\x00"
        if broken_up and whole and len(packet.data) > 150 and random.random() < 0.05:
            packets += fragmented(packet, random.choice([64, 136]), number)
        else:
            packets.append(packet)
    cuts = sorted(random.randrange(len(packets) + 1) for _ in range(random.choice([0, 0, 1, 3])))
    return [packets[a:b] for a, b in zip([0, *cuts], [*cuts, len(packets)], strict=True)]


def files(seed: int, *, broken_up: bool = False) -> list[bytes]:
    """Write the files of a run."""
    random = Random(~seed)  # noqa: S311
    return [random.choice([pcap_file, pcapng_file])(packets) for packets in run(seed, broken_up=broken_up)]
