"""The rules FRM and OPQ once more, and a few of their neighbours, as plainly as they can be said.

Everything is unpacked with ``struct`` in the open: nothing here asks the package under test what a frame is. Judges
traffic of the dialect dcp that the generator made; exceptions are left out where no scenario needs them.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dissector.generate.conversation import Conversation, Emission

SECOND = 1_000_000_000
Finding = tuple[str, Emission]

WARNINGS = frozenset(["FRM-07", "FRM-08", "FRM-10", "OPQ-03", "OPQ-08", "OPQ-11", "SEQ-06"])
REMARKS = frozenset(["FRM-15", "OPQ-12"])


def gravity(rule: str) -> int:
    """0 for an observation, 1 for a warning, 2 for an error."""
    return 0 if rule in REMARKS else 1 if rule in WARNINGS else 2


# ------------------------------------------------------------------------------------------------------------ frames


@dataclass(frozen=True)
class Wire:
    """A message as its bytes tell it."""

    emission: Emission
    side: int
    time_ns: int
    heard: int  #: how many of the other side's messages it had heard
    size: int
    magic: int
    op: int
    key_length: int
    extras_length: int
    datatype: int
    number: int  #: vbucket or status
    body: int
    opaque: bytes
    cas: int
    framing: bytes
    extras: bytes
    key: bytes
    value: bytes

    @property
    def response(self) -> bool:
        return self.magic in (0x81, 0x18)

    @property
    def infos(self) -> list[tuple[int, bytes]]:
        found, rest = [], self.framing
        while rest:
            found.append((rest[0] >> 4, rest[1 : 1 + (rest[0] & 15)]))
            rest = rest[1 + (rest[0] & 15) :]
        return found

    @property
    def sid(self) -> bytes:
        """The stream id; a stream request has it in its value."""
        if self.op == 0x53 and b'"sid"' in self.value:
            return (int(json.loads(self.value)["sid"]) % 65536).to_bytes(2, "big")
        return next((data for number, data in self.infos if number == 2), b"")

    def u64(self, at: int) -> int:
        return int(struct.unpack_from(">Q", self.extras, at)[0])

    def u32(self, at: int) -> int:
        return int(struct.unpack_from(">I", self.extras, at)[0])

    @property
    def seqno(self) -> int | None:
        if self.response or self.op not in SEQNO_AT or len(self.extras) < SEQNO_AT[self.op] + 8:
            return None
        return self.u64(SEQNO_AT[self.op])

    @property
    def marker(self) -> tuple[int, int, int] | None:
        """Start, end and flags of a marker that can be read."""
        if self.op != 0x56 or self.response:
            return None
        if len(self.extras) == 20:
            return struct.unpack(">QQI", self.extras)
        return struct.unpack_from(">QQI", self.value) if self.extras in (b"\0", b"\1", b"\2") else None


SEQNO_AT = {0x57: 0, 0x58: 0, 0x59: 0, 0x5F: 0, 0x60: 0, 0x64: 0, 0x62: 8, 0x63: 8}
DATA = {*SEQNO_AT, 0x66, 0x67}
SILENT = {0x57, 0x58, 0x59, 0x5F, 0x5D, *range(0x60, 0x68)}
COUNTED = {0x55, 0x56, 0x57, 0x58, 0x59, 0x5B, 0x5F, 0x60, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67}


def wires(talk: Conversation) -> list[Wire]:
    """Unpack a conversation."""
    clock, said, found = talk.begin_ns, [0, 0], []
    for emission in talk:
        data = emission.frame.encode()
        magic, op, word, extras, datatype, number, body, opaque, cas = struct.unpack_from(">BBHBBHI4sQ", data)
        framing, key = divmod(word, 256) if magic in (0x08, 0x18) else (0, word)
        rest = data[24 : 24 + body]
        cut = framing, framing + extras, framing + extras + key
        clock += emission.pause_ns
        found.append(
            Wire(
                emission,
                emission.side,
                clock,
                said[1 - emission.side] - emission.unheard,
                len(data),
                magic,
                op,
                key,
                extras,
                datatype,
                number,
                body,
                opaque,
                cas,
                rest[: cut[0]],
                rest[cut[0] : cut[1]],
                rest[cut[1] : cut[2]],
                rest[cut[2] :],
            )
        )
        said[emission.side] += 1
    return found


# ----------------------------------------------------------------------------------------------------- single frames

#: request: extras sizes, key, value (y must, n must not, m may)
REQUESTS = {
    0x50: ({8}, "y", "m"),
    0x51: ({4}, "n", "n"),
    0x52: ({0}, "n", "n"),
    0x53: ({48}, "n", "m"),
    0x54: ({0}, "n", "n"),
    0x55: ({4}, "n", "n"),
    0x56: ({1, 20}, "n", "m"),
    0x57: ({31, 32}, "y", "m"),
    0x58: ({18, 19, 21}, "y", "m"),
    0x59: ({18, 19, 20}, "y", "m"),
    0x5B: ({1}, "n", "n"),
    0x5C: ({0}, "n", "n"),
    0x5D: ({4}, "n", "n"),
    0x5E: ({0}, "y", "y"),
    0x5F: ({13}, "m", "m"),
    0x60: ({31}, "y", "m"),
    0x61: ({8}, "n", "n"),
    0x62: ({16}, "y", "n"),
    0x63: ({16}, "y", "n"),
    0x64: ({8}, "n", "n"),
    0x65: ({4}, "n", "n"),
    0x66: ({0}, "n", "y"),
    0x67: ({0}, "n", "n"),
}
NEIGHBOURS = {0x1F, 0x20, 0x21, 0x22, 0x48, 0x89, 0xFE}
FRAME_INFOS = {0: {0}, 1: {1, 3}, 2: {2}, 4: None, 5: {0}, 6: None, 7: {2}}


def has_collections(frames: Sequence[Wire]) -> bool:
    """Tell whether HELLO granted collections."""
    granted = [wire.value for wire in frames if wire.op == 0x1F and wire.response]
    return any(b"\x00\x12" in (value[at : at + 2] for at in range(0, len(value), 2)) for value in granted)


def findings(talks: Sequence[Conversation], era: tuple[int, int]) -> list[Finding]:
    """Return all rules that are broken, with the message that breaks each."""
    found: list[Finding] = []
    for talk in talks:
        frames = wires(talk)
        collections = has_collections(frames)
        for wire in frames:
            found += [(rule, wire.emission) for rule in frame_rules(wire, era=era, collections=collections)]
        found += conversation_rules(talk)
    return found


def frame_rules(wire: Wire, *, era: tuple[int, int], collections: bool) -> set[str]:
    """Return the rules FRM that a message breaks by itself."""
    broken = set()
    framing = len(wire.framing)
    if framing + wire.extras_length + wire.key_length > wire.body or wire.size != 24 + wire.body:
        broken.add("FRM-01")
    if sum(1 + len(data) for _, data in wire.infos) != sum(1 + (head & 15) for head in _heads(wire.framing)):
        broken.add("FRM-01")
    if wire.magic not in (0x80, 0x81, 0x82, 0x83, 0x08, 0x18):
        return {"FRM-02"}
    if wire.op not in REQUESTS and wire.op not in NEIGHBOURS:
        return broken | {"FRM-02"}
    if wire.magic in (0x08, 0x18) and era < (6, 5):
        broken.add("FRM-02")
    if wire.response or wire.op in NEIGHBOURS:
        return broken
    sizes, key, value = REQUESTS[wire.op]
    whole = "FRM-01" not in broken
    numbers = [number for number, _ in wire.infos]
    if wire.extras_length not in sizes or len(numbers) != len(set(numbers)):
        broken.add("FRM-03")
    for number, data in wire.infos if whole else ():
        if number not in FRAME_INFOS:
            broken.add("FRM-08")
        elif FRAME_INFOS[number] is not None and len(data) not in FRAME_INFOS[number]:
            broken.add("FRM-03")
    if key != "m" and bool(wire.key) != (key == "y"):
        broken.add("FRM-04")
    short_marker = wire.op == 0x56 and wire.extras_length == 20
    if (value != "m" and bool(wire.value) != (value == "y")) or (short_marker and wire.value):
        broken.add("FRM-05")
    if wire.datatype > 7 or (wire.op == 0x58 and wire.datatype not in (0, 2, 4, 5, 6, 7)):
        broken.add("FRM-06")
    if wire.op in (0x55, 0x56, 0x5B, 0x5D, 0x5E) and wire.datatype:
        broken.add("FRM-06")
    if wire.cas and wire.op in (0x61, 0x62, 0x63, 0x66, 0x67):
        broken.add("FRM-07")
    if not wire.cas and wire.op in (0x57, 0x60) and era >= (4, 5):
        broken |= {"FRM-07", "SEQ-06"}
    if wire.op in (0x57, 0x58, 0x59, 0x60, 0x62, 0x63) and collections and not _good_key(wire.key):
        broken.add("FRM-09")
    if wire.op in (0x57, 0x58, 0x60) and whole and wire.datatype <= 7 and not _good_value(wire):
        broken.add("FRM-10")
    if wire.number >= 1024:
        broken.add("FRM-15")
    return broken | (_field_rules(wire, era) if wire.extras_length in sizes else set())


def _heads(framing: bytes) -> Iterator[int]:
    while framing:
        yield framing[0]
        framing = framing[1 + (framing[0] & 15) :]


def _field_rules(wire: Wire, era: tuple[int, int]) -> set[str]:
    broken = set()
    op = wire.op
    if (op == 0x50 and (wire.u32(0) or wire.u32(4) & ~0x3FF)) or (op == 0x53 and (wire.u32(4) or wire.u32(0) & ~0x1FF)):
        broken.add("FRM-08")
    if op == 0x56 and wire.marker is not None and wire.marker[2] & ~0x3F:
        broken.add("FRM-08")
    if op == 0x56 and wire.extras_length == 1 and {0: 36, 2: 52}.get(wire.extras[0]) != len(wire.value):
        broken.add("FRM-11")
    nmeta = _nmeta(wire)
    if nmeta > len(wire.value) or (nmeta and era >= (5, 0)):
        broken.add("FRM-12")
    if (
        (op == 0x55 and wire.u32(0) > 8)
        or (op == 0x5B and not 1 <= wire.extras[0] <= 4)
        or (op == 0x65 and wire.u32(0) not in (1, 2))
        or (op == 0x5F and wire.u32(8) not in (0, 1, 3, 4, 5))
        or (op == 0x60 and not 1 <= wire.extras[30] <= 3)
    ):
        broken.add("FRM-13")
    if op == 0x53 and b'"sid"' in wire.value and json.loads(wire.value)["sid"] > 65535:
        broken.add("FRM-13")
    if op == 0x5F and wire.extras[12] == 2 and not _leads_inside(wire.value):
        broken.add("FRM-10")
    if op == 0x66 and not _tiles(wire.value):
        broken.add("FRM-14")
    return broken


def _leads_inside(value: bytes) -> bool:
    """Tell whether a value has a table and a vtable inside of it, and in these every slot."""
    if len(value) < 4:
        return False
    place = int.from_bytes(value[:4], "little")
    vtable = place - int.from_bytes(value[place : place + 4], "little", signed=True)
    if not 0 <= vtable <= len(value) - 4 or place > len(value) - 4:
        return False
    size, table = struct.unpack_from("<HH", value, vtable)
    if size < 4 or table < 4 or vtable + size > len(value) or place + table > len(value):
        return False
    return all(at < table for at in struct.unpack_from(f"<{size // 2 - 2}H", value, vtable + 4))


def _nmeta(wire: Wire) -> int:
    at = {0x57: 28, 0x58: 16}.get(wire.op)
    if at is None or (wire.op == 0x58 and wire.extras_length != 18):
        return 0
    return int.from_bytes(wire.extras[at : at + 2], "big")


def _good_key(key: bytes) -> bool:
    size = next((at + 1 for at, byte in enumerate(key) if byte < 0x80), 99)
    canonical = size == 1 or (size <= 5 and key[size - 1] != 0)
    return canonical and size < len(key) <= 251


def _good_value(wire: Wire) -> bool:
    nmeta = _nmeta(wire)
    value = wire.value[: len(wire.value) - nmeta] if nmeta <= len(wire.value) else b""
    if not value:
        return True
    if wire.datatype & 2:
        return any(byte < 0x80 for byte in value[:5])
    if wire.datatype & 4:
        end = 4 + int.from_bytes(value[:4], "big")
        if end > len(value):
            return False
        at = 4
        while at < end:
            at += 4 + int.from_bytes(value[at : at + 4], "big")
        if at != end:
            return False
        value = value[end:]
    try:
        return not wire.datatype & 1 or json.loads(value) is not ...
    except ValueError:
        return False


def _tiles(value: bytes) -> bool:
    while value:
        if len(value) < 40:
            return False
        size, key = int.from_bytes(value[24:28], "big"), int.from_bytes(value[36:38], "big")
        if not 2 <= key <= 251 or len(value) < 40 + key + size:
            return False
        value = value[40 + key + size :]
    return True


# ----------------------------------------------------------------------------------------------------- conversations


@dataclass
class Life:
    """A stream."""

    request: Wire
    granted: Wire
    marker: tuple[int, int, int] | None = None
    last: int = 0
    ended: Wire | None = None
    closed: Wire | None = None
    last_item: Wire | None = None
    oso: bool = False


@dataclass
class State:
    """What has been said so far."""

    found: list[Finding] = field(default_factory=list)
    asked: dict[tuple[int, int, bytes], list[Wire]] = field(default_factory=lambda: defaultdict(list))
    seen: set[tuple[int, int, bytes]] = field(default_factory=set)
    lives: dict[tuple[int, bytes], Life] = field(default_factory=dict)
    agreed: set[bytes] = field(default_factory=set)

    def report(self, rule: str, wire: Wire) -> None:
        self.found.append((rule, wire.emission))


NEEDS_REPLY = {0x1F, 0x89, *range(0x50, 0x55), 0x5B, 0x5C, 0x5E}


def conversation_rules(talk: Conversation) -> list[Finding]:
    """Return the rules OPQ that a conversation breaks, and SNP-01, 02, 04, 06, SEQ-01, TKO-01, FLC-01, 02."""
    state = State()
    frames = [wire for wire in wires(talk) if wire.magic in (0x80, 0x81, 0x08, 0x18)]
    for at, wire in enumerate(frames):
        if wire.response:
            _response(state, wire, frames, at)
        else:
            _request(state, wire)
    end = frames[-1].time_ns
    for waiting in state.asked.values():
        for wire in waiting:
            if end - wire.time_ns > 60 * SECOND or wire.op == 0x54:
                state.report("OPQ-02", wire)
    for life in state.lives.values():
        _at_the_end(state, life, end)
    return state.found + _added_streams(frames) + _takeover(frames) + _flow_control(frames)


def _response(state: State, wire: Wire, frames: Sequence[Wire], at: int) -> None:
    pair = (1 - wire.side, wire.op, wire.opaque)
    if wire.op in NEEDS_REPLY or (wire.op == 0x56 and wire.number == 0):
        if not state.asked[pair]:
            state.report("OPQ-01", wire)
            return
        request = state.asked[pair].pop()
        if wire.op == 0x53 and wire.number == 0:
            _granted(state, request, wire)
        elif wire.op == 0x52 and wire.number == 0:
            life = state.lives.get((request.number, request.sid))
            if life is not None and life.granted.side == wire.side:
                life.closed = wire
        elif wire.op == 0x5E and wire.number == 0:
            state.agreed.add(request.key)
        return
    if pair not in state.seen:
        state.report("OPQ-01", wire)
    if wire.op in SILENT and wire.number == 0:
        state.report("OPQ-03", wire)
    if wire.op in DATA and wire.number in (0x01, 0x02, 0x0A, 0x0B, 0x04, 0x22):
        around = frames[max(0, at - 15) : at + 15]
        if not any(each.op in (0x52, 0x5B, 0x55) and each.opaque == wire.opaque for each in around):
            state.report("OPQ-11", wire)


def _granted(state: State, request: Wire, wire: Wire) -> None:
    place = (request.number, request.sid)
    former = state.lives.get(place)
    if former is not None and former.ended is None and former.closed is None:
        state.report("OPQ-07", wire)
    elif former is not None and former.request.opaque == wire.opaque:
        state.report("OPQ-12", request)
    for other, life in state.lives.items():
        live = life.ended is None and life.closed is None
        if other != place and live and life.request.opaque == wire.opaque:
            state.report("OPQ-08", request)
    state.lives[place] = Life(request, wire, last=request.u64(8))


def _request(state: State, wire: Wire) -> None:
    key = (wire.side, wire.op, wire.opaque)
    state.seen.add(key)
    if wire.op in NEEDS_REPLY or (wire.marker is not None and wire.marker[2] & 8):
        state.asked[key].append(wire)
    if wire.op not in DATA | {0x55, 0x56, 0x5B, 0x65}:
        return
    life = state.lives.get((wire.number, wire.sid))
    if life is None or life.request.opaque != wire.opaque:
        state.report("OPQ-04", wire)
    if life is None:
        return
    if life.ended is not None:
        state.report("OPQ-06", wire)
    told = b"send_stream_end_on_client_close_stream" in state.agreed
    if life.closed is not None and not told:
        state.report("OPQ-09", wire)
    if wire.op == 0x55:
        if life.closed is not None and told and wire.extras != b"\0\0\0\1":
            state.report("OPQ-09", wire)
        if wire.extras == b"\0\0\0\0" and life.marker is not None and life.last != life.marker[1]:
            state.report("SNP-06", wire)
        life.ended = wire
    elif wire.op == 0x65:
        if wire.extras in (b"\0\0\0\1", b"\0\0\0\2"):
            life.oso = wire.extras == b"\0\0\0\1"
            life.marker = None
    elif wire.marker is not None:
        _marker(state, life, wire, wire.marker)
    elif wire.seqno is not None:
        _item(state, life, wire, wire.seqno)


def _marker(state: State, life: Life, wire: Wire, marker: tuple[int, int, int]) -> None:
    if life.marker is not None and not marker[2] & 0x30:
        if marker[0] <= life.marker[1]:
            state.report("SNP-04", wire)
        if life.last != life.marker[1]:
            state.report("SNP-06", wire)
    life.marker = marker


def _item(state: State, life: Life, wire: Wire, seqno: int) -> None:
    life.last_item = wire
    if life.oso:
        return
    if life.marker is None:
        state.report("SNP-01", wire)
    elif not life.marker[0] <= seqno <= life.marker[1]:
        state.report("SNP-02", wire)
    if seqno <= life.last:
        state.report("SEQ-01", wire)
    life.last = seqno


def _at_the_end(state: State, life: Life, end: int) -> None:
    told = b"send_stream_end_on_client_close_stream" in state.agreed
    if life.closed is not None and told and life.ended is None and end - life.closed.time_ns > 5 * SECOND:
        state.report("OPQ-09", life.closed)
    item = life.last_item
    if item is not None and life.last >= life.request.u64(16) and life.ended is None and life.closed is None:
        state.report("OPQ-10", item)


def _added_streams(frames: Sequence[Wire]) -> list[Finding]:
    found: list[Finding] = []
    orders: dict[bool, list[Wire]] = {True: [], False: []}
    for asked in frames:
        if asked.op != 0x51 or asked.response:
            continue
        reply = next(
            (each for each in frames if each.op == 0x51 and each.response and each.opaque == asked.opaque), None
        )
        made = [each for each in frames if each.op == 0x53 and not each.response and each.number == asked.number]
        if reply is None or reply.number:
            continue
        if not made:
            found.append(("OPQ-05", reply.emission))
            continue
        if asked.u32(0) & ~made[0].u32(0):
            found.append(("OPQ-05", made[0].emission))
        if reply.extras not in (made[0].opaque, made[0].opaque[::-1]):
            found.append(("OPQ-05", reply.emission))
        else:
            orders[reply.extras == made[0].opaque].append(reply)
    odd = min(orders.values(), key=len)
    return found + [("OPQ-05", wire.emission) for wire in odd]


def _takeover(frames: Sequence[Wire]) -> list[Finding]:
    states: dict[int, list[Wire]] = defaultdict(list)
    for wire in frames:
        if wire.op == 0x5B and not wire.response:
            states[wire.number].append(wire)
    bad = [sent for sent in states.values() if [each.extras for each in sent] not in ([b"\3", b"\1"], [b"\2", b"\1"])]
    return [("TKO-01", sent[0].emission) for sent in bad]


def _flow_control(frames: Sequence[Wire]) -> list[Finding]:
    """Hold every ack against what had arrived, and every message against the window as its sender knew it."""
    found: list[Finding] = []
    #: Per side, before each of its messages: the sizes that count so far, and the acks it gave.
    sent: list[list[int]] = [[0], [0]]
    acked: list[list[int]] = [[0], [0]]
    window: list[list[int]] = [[0], [0]]
    for wire in frames:
        side, peer = wire.side, 1 - wire.side
        known = min(wire.heard, len(sent[peer]) - 1)
        gift = wire.u32(0) if wire.op == 0x5D and not wire.response and len(wire.extras) == 4 else 0
        if gift and acked[side][-1] + gift > sent[peer][known]:
            found.append(("FLC-01", wire.emission))
        size = 24 + wire.body + 2 * (wire.op == 0x60) if wire.op in COUNTED and not wire.response else 0
        limit = window[peer][known]
        if size and limit and sent[side][-1] - acked[peer][known] >= limit:
            found.append(("FLC-02", wire.emission))
        sized = wire.op == 0x5E and not wire.response and wire.key == b"connection_buffer_size"
        sent[side].append(sent[side][-1] + size)
        acked[side].append(acked[side][-1] + gift)
        window[side].append(int(wire.value) if sized else window[side][-1])
    return found
