"""Captures made to break the reader: it does not raise, hang or grow, and loses no more than what was damaged.

Cases are named by level and seed (see ``hostile``); ``UPRSCOPE_SWEEP=full`` reads thousands of them. Bombs are read in
a process of their own with little address space. Where work must not explode, executed lines are counted: a count does
not depend on the machine as a time does.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from dissector.codec.decoder import decode
from dissector.codec.values import INFLATE_LIMIT
from dissector.frames.reader import FrameReader
from dissector.frames.reference_reader import ReferenceReader
from dissector.link.drop_counts import LinkCounts
from dissector.link.flow_key import flow_key
from dissector.link.fragments import Fragment, FragmentBuffer
from dissector.spec.model import Dialect
from dissector.tcp import header_check
from dissector.tcp.connections import Connection, Connections, TcpSegment
from dissector.tcp.framing import Framer, RawFrame, State
from dissector.tcp.limits import Limits
from dissector.tcp.reassembly import Chunk
from tests.support import hostile, tcp_by_hand
from tests.support.hostile import PCAP_HEADER, Case, disagreement, flood
from tests.support.tcp_by_hand import CLIENT, SERVER, Conversation, Ends, Message, Wire, mutation

FULL = os.environ.get("UPRSCOPE_SWEEP") == "full"
#: Cases per level, in portions that pytest-xdist can share out.
CASES, PORTION = (4_000, 100) if FULL else (20, 5)
GIGABYTE = 1_000_000_000


# ------------------------------------------------------------------------------------------------------------ fuzzing


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, CASES, PORTION))
@pytest.mark.parametrize("level", hostile.LEVELS)
def test_both_readers_agree_on_damaged_captures(level: str, first: int) -> None:
    for seed in range(first, first + PORTION):
        assert disagreement(hostile.case_of(level, seed)) is None


def test_cases_do_damage() -> None:
    """A fuzzer that changes nothing finds nothing: of each level most cases must read unlike the recording."""
    for level in hostile.LEVELS:
        told = [hostile.read(hostile.case_of(level, seed), ReferenceReader, 1 << 20) for seed in range(20)]
        troubled = sum(_is_troubled(outcome) for outcome in told)
        assert troubled >= 8, level


def _is_troubled(outcome: hostile.Outcome) -> bool:
    said = outcome.report
    odd = set(said["link"]) - {"packets", "tcp-segments"}
    return bool(
        said["damage"] or said["given_up"] or any(said["bytes"]) or odd or any(outcome.rows["defects"].to_pylist())
    )


def test_a_connection_with_itself() -> None:
    """Found by fuzzing: both ends of a connection were the same address and port, and ending it raised."""
    talk = Conversation(Ends(("10.0.0.1", "10.0.0.1"), (11_210, 11_210), (7, 7)))
    talk.packets.append(Wire(talk.ends, CLIENT, 0, acked=None, flags=tcp_by_hand.SYN))
    talk.send(CLIENT, *(mutation(0, 1, seqno, b"key") for seqno in range(1, 9)))
    other = Conversation().open().send(CLIENT, *(mutation(0, 1, seqno, b"key") for seqno in range(1, 4)))
    case = Case("self", (tcp_by_hand.pcap([*talk.packets, *other.packets]),))
    outcome = hostile.read(case, FrameReader, 1 << 20)
    assert (outcome.rows.num_rows, outcome.report["connections"]) == (8 + 3, (2, 0))
    assert disagreement(case) is None
    crowded = replace(case, options=replace(case.options, limits=Limits(connections=1)))
    assert hostile.read(crowded, FrameReader, 1 << 20).rows.num_rows == 8 + 3


# ----------------------------------------------------------------------------------------------- outside the damage

_DAMAGED = 1  #: the second of three connections
_KEYS = 40


def _three_talks(mss: int) -> tuple[list[Conversation], list[tuple[int, Wire]]]:
    """Three servers send mutations; their packets come in turns."""
    talks = []
    for number in range(3):
        talk = Conversation(Ends(ports=(40_000 + number, 11_210))).open()
        talk.send(CLIENT, *(tcp_by_hand.noop(opaque) for opaque in range(3)))
        sent = [mutation(5, 9, seqno, b"key-%d-%d" % (number, seqno), b"v" * 90) for seqno in range(1, _KEYS)]
        talks.append(talk.send(SERVER, *sent, mss=mss))
    longest = max(len(talk.packets) for talk in talks)
    turns = [
        (number, talk.packets[at])
        for at in range(longest)
        for number, talk in enumerate(talks)
        if at < len(talk.packets)
    ]
    return talks, turns


def _garbled(rng: random.Random, packet: Wire) -> Wire:
    return replace(packet, data=bytes(len(packet.data)) if rng.random() < 0.3 else b"\x55" * len(packet.data))


_HARMS: dict[str, Callable[[random.Random, Wire], list[Wire]]] = {
    "lost": lambda _, packet: [replace(packet, data=b"")],
    "garbled": lambda rng, packet: [_garbled(rng, packet)],
    "cut by the snap length": lambda rng, packet: [replace(packet, cut=rng.randint(1, len(packet.data)))],
    "far away": lambda rng, packet: [replace(packet, offset=packet.offset + rng.choice((1 << 31, 3 << 30, 1 << 28)))],
    "forged before": lambda rng, packet: [_garbled(rng, packet), packet],
    "forged behind": lambda rng, packet: [packet, _garbled(rng, packet)],
    "reset": lambda _, packet: [replace(packet, data=b"", flags=tcp_by_hand.RST), packet],
}


@pytest.mark.parametrize("mss", [60, 500, 1448])
@pytest.mark.parametrize("harm", _HARMS)
def test_everything_outside_the_damage_is_decoded(harm: str, mss: int) -> None:
    """Damage of one packet costs the frames with bytes in it: none of the others, and nothing on other connections.

    No frame around the damage has to be allowed for: the first header behind it is found by those that follow it.
    """
    rng = random.Random(f"{harm} {mss}")  # noqa: S311 - repeatable, not secret
    talks, turns = _three_talks(mss)
    places = [
        at for at, (number, packet) in enumerate(turns) if number == _DAMAGED and packet.side == SERVER and packet.data
    ]
    for at in rng.sample(places[1:-1], min(len(places) - 2, 6)):
        harmed = turns[at][1]
        packets = [packet for _, packet in turns]
        packets[at : at + 1] = _HARMS[harm](rng, harmed)
        rows = hostile.read(Case(harm, (tcp_by_hand.pcap(packets),)), FrameReader, 1 << 20).rows.to_pylist()
        found = {
            (row["dport"], row["direction"], row["start_offset"], row["key_bytes"])
            for row in rows
            if not row["missing"]
        }
        for number, talk in enumerate(talks):
            for frame in talk.sent:
                touched = frame.start < harmed.offset + len(harmed.data) and harmed.offset < frame.end
                if number == _DAMAGED and frame.side == SERVER and touched:
                    continue
                port = talk.ends.ports[1 - frame.side]
                assert (port, frame.side, frame.start, frame.message.expected["key_bytes"]) in found, (harm, at, frame)


@pytest.mark.parametrize("claim", [0xFFFF_FFFF, 1 << 31, (32 << 20) + 1])
def test_a_length_that_nothing_can_have_costs_one_frame(claim: int) -> None:
    sent = [mutation(5, 9, seqno, b"key-%d" % seqno, b"v" * 50) for seqno in range(1, 30)]
    data = [bytearray(message.data) for message in sent]
    data[10][8:12] = claim.to_bytes(4, "big")
    talk = Conversation().open().send(SERVER, Message(b"".join(data)))
    case = Case("lie", (tcp_by_hand.pcap(talk.packets),))
    keys = hostile.read(case, FrameReader, 1 << 20).rows["key_bytes"].to_pylist()
    assert keys == [message.expected["key_bytes"] for number, message in enumerate(sent) if number != 10]
    assert disagreement(case) is None


# -------------------------------------------------------------------------------------------------------------- bombs


def _header(body: int, *, opcode: int = 0x57, extras: int = 31, key: int = 3) -> bytes:
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, key, extras, 0, 0, body, 0, 1)


ITEM = _header(31 + 3 + 10) + bytes(31) + b"abc" + bytes(10)
_OPENED = flood(1, seq=0xFFFF_FFFF, flags=hostile.SYN)


def _many(count: int, first: int = 0) -> dict[str, Any]:
    """Addresses and ports of as many connections."""
    numbers = first + np.arange(count)
    return {"source": 0x0A010000 + numbers // 60_000, "sport": 1_024 + numbers % 60_000}


def _bomb(folder: Path, *parts: bytes) -> dict[str, Any]:
    path = folder / "bomb.pcap"
    path.write_bytes(b"".join((PCAP_HEADER, *parts)))
    told = hostile.survive(path)
    path.unlink()
    assert told["peak"] < GIGABYTE
    return told


def test_a_body_of_4_gib(tmp_path: Path) -> None:
    told = _bomb(tmp_path, _OPENED, flood(1, ITEM + _header(0xFFFF_FFFF) + ITEM * 4))
    assert (told["rows"], told["bytes_skipped"]) == (5, 24)


def test_20_000_partial_frames_of_30_mb(tmp_path: Path) -> None:
    count, each = 20_000, ITEM + _header(30_000_000) + bytes(7_000)
    told = _bomb(
        tmp_path, flood(count, seq=0xFFFF_FFFF, flags=hostile.SYN, **_many(count)), flood(count, each, **_many(count))
    )
    assert (told["rows"], told["missing"]) == (2 * count, count)
    assert told["given_up"]["partial_total"] > 0  # 140 MB, and 96 MiB may be held


def test_100_000_half_open_connections(tmp_path: Path) -> None:
    told = _bomb(tmp_path, flood(100_000, flags=hostile.SYN, **_many(100_000)))
    assert told["connections"] == 100_000
    assert told["given_up"] == {"connections": 100_000 - 65_536}


def test_100_000_connections_with_a_byte_too_early_each(tmp_path: Path) -> None:
    packets = []
    for first in range(0, 100_000, 1_000):
        opened = _many(1_000, first)
        packets += [flood(1_000, flags=hostile.SYN, **opened), flood(1_000, b"\x80", seq=500, **opened)]
    told = _bomb(tmp_path, *packets)
    assert told["connections"] == 100_000
    assert told["given_up"] == {"connections": 100_000 - 65_536}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_million_segments_of_one_byte(tmp_path: Path, backwards: bool) -> None:
    count = 1_000_000 if FULL else 250_000
    numbers = np.arange(count)[::-1] if backwards else np.arange(count)
    told = _bomb(tmp_path, _OPENED, flood(1, _header(count)), flood(count, b"x", seq=24 + numbers))
    if backwards:
        assert told["given_up"]["out_of_order_bytes"] > 0
    else:
        assert (told["rows"], told["missing"], told["given_up"]) == (1, 0, {})


def test_gaps_of_4_gb(tmp_path: Path) -> None:
    """3 GB is the farthest that TCP can tell from what is old; the next jump starts where that gap was given up."""
    body = 31 + 3 + 59_000
    run, count = _header(body) + bytes(body), 300  # 17 MB: more than is held behind a gap
    packets, at = [_OPENED, flood(1, ITEM)], len(ITEM)
    for _ in range(3):
        at += 3_000_000_000
        packets.append(flood(count, run, seq=at + np.arange(count) * len(run)))
        at += count * len(run)
    told = _bomb(tmp_path, *packets)
    assert told["bytes_lost"] == 3 * 3_000_000_000
    assert told["rows"] == 1 + 3 * count
    assert told["given_up"] == {"out_of_order_bytes": 3}


@pytest.mark.parametrize("jump", [1 << 31, (1 << 31) - 1])
def test_jumps_of_2_gib(tmp_path: Path, jump: int) -> None:
    told = _bomb(tmp_path, _OPENED, flood(1, ITEM), flood(5_000, ITEM * 3, seq=np.arange(1, 5_001) * jump))
    assert told["rows"] >= 4


def test_fragment_bombs(tmp_path: Path) -> None:
    count = 60_000
    numbers = np.arange(count)
    never_whole = flood(count, bytes(1_000 - 20), fragment=0x2000 | numbers % 60 * 125, id=numbers // 3 % 65_536)
    told = _bomb(tmp_path, never_whole)["link"]
    assert told["fragment-evicted"] + told["fragment-pending"] == told["fragment-held"] == count
    tiny = flood(8_100, length=28, fragment=0x2000 | np.arange(8_100), id=1)
    wide = flood(20_000, length=20 + 64_800, fragment=0x2000, id=1)
    assert _bomb(tmp_path, tiny, wide)["link"]["fragment-overlap"] == 20_000


def test_blocks_of_no_length(tmp_path: Path) -> None:
    linktype, packets = hostile.packets_of(next(path for path in hostile.CAPTURES if "03_noop" in path.name))
    whole = hostile.write_pcapng(linktype, packets)
    empty = struct.pack("<III", 6, 0, 0)
    path = tmp_path / "bomb.pcapng"
    path.write_bytes(whole + empty * 500_000 + whole)
    told = hostile.survive(path)
    assert told["peak"] < GIGABYTE
    assert told["link"]["packets"] == 2 * len(packets)
    assert any("claims 0 bytes" in damage for damage in told["damage"])


def test_zeros_on_a_searched_direction(tmp_path: Path) -> None:
    """Not memcached, or not any more: the first is given up, the second searched to its end."""
    count = 200_000 if FULL else 30_000
    zeros = flood(count, bytes(1_000), seq=np.arange(count) * 1_000)
    told = _bomb(tmp_path, zeros)
    assert (told["rows"], told["connections"]) == (0, 1)
    behind = flood(count, bytes(1_000), seq=len(ITEM) + np.arange(count) * 1_000)
    after = flood(1, ITEM * 4, seq=len(ITEM) + count * 1_000)
    told = _bomb(tmp_path, _OPENED, flood(1, ITEM), behind, after)
    assert (told["rows"], told["bytes_skipped"]) == (5, count * 1_000)


@pytest.mark.parametrize("claim", [0xFFFF_FFFF, 300_000_000, 1_000_000])
def test_snappy_bombs(claim: int) -> None:
    size = bytearray()
    rest = claim
    while rest >= 0x80:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    value = bytes(size) + bytes([rest]) + b"\xfe\x01\x00" * 40  # copies of 64 bytes from just before
    extras = struct.pack(">QQIIIHB", 1, 1, 0, 0, 0, 0, 0)
    frame = struct.pack(">BBHBBHIIQ", 0x80, 0x57, 3, 31, 2, 0, 34 + len(value), 0, 1) + extras + b"abc" + value
    decoded = decode(Dialect.DCP, frame)
    expected = {"snappy-too-large"} if claim > INFLATE_LIMIT else {"snappy-invalid"}
    assert {each for each in decoded.defect_ids() if each.startswith("snappy")} == expected
    assert decoded.value.inflated is None


@pytest.mark.parametrize(
    "text", [b"[" * 1_000_000, b'{"a":' * 200_000, b"[" * 100_000 + b"]" * 100_000, b"9" * 100_000]
)
def test_deeply_nested_json(text: bytes) -> None:
    extras = struct.pack(">QQIIIHB", 1, 1, 0, 0, 0, 0, 0)
    frame = struct.pack(">BBHBBHIIQ", 0x80, 0x57, 3, 31, 1, 0, 34 + len(text), 0, 1) + extras + b"abc" + text
    decoded = decode(Dialect.DCP, frame)
    assert decoded.value.document == text
    assert set(decoded.defect_ids()) <= {"json-invalid"}


# --------------------------------------------------------------------------------------------------------- growth


def _lines(work: Callable[[], object]) -> int:
    """Count the lines of Python that something executes."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _searched(data: bytes, step: int = 1_000) -> Framer:
    """Feed bytes to a framer that searches; its user says that there is memcached in them."""
    framer = Framer(Limits(), State.SEARCH, forced=True)
    out: list[RawFrame] = []
    for number, at in enumerate(range(0, len(data), step)):
        framer.data(Chunk(at, data[at : at + step], number, number, None), out)
    framer.finish(out)
    return framer


_NOOP = _header(0, opcode=0x5C, extras=0, key=0)
_TEASERS = {
    "zeros": bytes(24),
    "magics": b"\x80" * 24,
    "a legal header": _header(40),
    "a legal header that claims 20 MB": _header(20_000_000),
    "a legal header that claims the next but one": _header(34),
    "fails at the third": _NOOP * 2 + bytes(8),
    "fails at the third, far away": _header(31 + 3 + 200) + bytes(31 + 3 + 200 - 1) + b"\x80",
}


@pytest.mark.parametrize("teaser", _TEASERS)
def test_searching_takes_as_long_as_the_data(teaser: str) -> None:
    pattern = _TEASERS[teaser]
    once, twice = (_lines(partial(_searched, pattern * (size // len(pattern)))) for size in (60_000, 120_000))
    assert twice < 2.6 * once + 1_000


def test_waiting_for_a_long_frame_takes_as_long_as_the_data() -> None:
    """20 MB are waited for before each of the headers behind each other can be ruled out."""
    once, twice = (_lines(partial(_searched, _header(100_000) * (size // 24), 100)) for size in (200_000, 400_000))
    assert twice < 3.5 * once  # nothing is ruled out in the first 100 kB


def test_wide_fragments_over_small_ones_are_cheap() -> None:
    """Found here: 1 MB of such packets took half a minute, as every wide one was compared with all small ones."""

    def send(wide: int) -> FragmentBuffer:
        buffer = FragmentBuffer(LinkCounts())
        for at in range(0, 16_000, 16):  # every other 8 bytes
            buffer.add("key", Fragment(at, at + 8, bytes(8), more=True, protocol=6), 0)
        for _ in range(wide):
            buffer.add("key", Fragment(0, 16_000, b"", more=True, protocol=6), 0)
        return buffer

    none, many = _lines(lambda: send(0)), _lines(lambda: send(100))
    assert many - none < 1_000 * 40 + 100 * 100  # once over the thousand small ones, then some lines each


# ---------------------------------------------------------------------------------------------------- memory of marks


@pytest.mark.parametrize("state", [State.SEARCH, State.WALK])
def test_small_packets_are_not_remembered_for_ever(state: State) -> None:
    """Found here: a search, and a long frame, remembered every packet since their beginning."""
    framer = Framer(Limits(), state, forced=True)
    out: list[RawFrame] = []
    data = bytes(30_000) if state is State.SEARCH else _header(40_000) + bytes(30_000)
    for at in range(len(data)):
        framer.data(Chunk(at, data[at : at + 1], at, at, at), out)
    assert len(framer.marks) <= 24
    assert out == []


def test_what_was_forgotten_is_not_missed() -> None:
    """A frame that came byte by byte tells the same of its packets as one that came at once."""
    rng = random.Random("marks")  # noqa: S311 - repeatable, not secret
    for _ in range(50):
        frame = _header(31 + 3 + 40) + bytes(31) + b"abc" + bytes(40)
        arrival = [rng.randrange(1_000) for _ in frame]  # segments held out of order are delivered late
        framer = Framer(Limits(), State.WALK)
        out: list[RawFrame] = []
        for at in range(len(frame)):
            framer.data(Chunk(at, frame[at : at + 1], arrival[at], arrival[at] * 7, at + 3), out)
        (found,) = out
        assert (found.packet_first, found.packet_last) == (min(arrival), max(arrival))
        assert (found.time_ns, found.acked) == (max(arrival) * 7, 3)


def test_nothing_is_forgotten_before_a_header_is_whole() -> None:
    """Found by fuzzing: 24 bytes that are no header may have the next one in them."""
    framer = Framer(Limits(), State.WALK)
    out: list[RawFrame] = []
    data = b"\x55" * 17 + ITEM * 4
    for at in range(len(data)):
        framer.data(Chunk(at, data[at : at + 1], 1_000 + at, at, at), out)
    assert [frame.packet_first for frame in out] == [1_000 + 17 + number * len(ITEM) for number in range(4)]
    assert out[0].acked == 17


def test_packets_of_an_undecided_search_count_against_the_limit() -> None:
    """A header that claims 20 MB is waited for: 400,000 one-byte packets would cost 100 times their bytes."""
    given_up: Counter[str] = Counter()
    limits = Limits(partial_total=1 << 20)

    def ignore(_connection: Connection, _side: int, _frame: RawFrame) -> None: ...

    connections = Connections(ignore, limits)
    key = flow_key(bytes(4), b"\1\0\0\0", 1, 11_210)
    data = _header(20_000_000) + bytes(30_000)
    largest = 0
    for at in range(len(data)):
        connections.feed(TcpSegment(key, at, 0, 16, data[at : at + 1], 1, at, at))
        (connection, _) = connections.live[key]
        largest = max(largest, len(connection.framers[0].marks))
    given_up.update(connections.given_up)
    assert given_up["partial_total"] > 0
    assert largest <= (1 << 20) // 256 + 1


def test_the_first_header_of_others_survives_relief() -> None:
    """Found here: relief went on to connections that held nothing, and made them forget where they started."""
    rows: list[RawFrame] = []
    connections = Connections(lambda _connection, _side, frame: rows.append(frame), Limits(partial_total=10))
    greedy, idle = (flow_key(bytes(4), b"\1\0\0\0", port, 11_210) for port in (1, 2))
    connections.feed(TcpSegment(idle, 99, 0, hostile.SYN, b"", 0, 1, 1))
    connections.feed(TcpSegment(greedy, 99, 0, hostile.SYN, b"", 0, 2, 2))
    connections.feed(TcpSegment(greedy, 100, 0, 16, ITEM, len(ITEM), 3, 3))
    connections.feed(TcpSegment(greedy, 100 + len(ITEM), 0, 16, ITEM[:20], 20, 4, 4))  # too short to be let go
    assert connections.live[idle][0].framers[0].state is State.TRIAL


def test_headers_in_the_way_are_believed_only_together() -> None:
    """The teasers above really reach the search: each has legal headers where it says so."""
    legal = {name: header_check.is_legal(pattern.ljust(24, b"\0")) for name, pattern in _TEASERS.items()}
    assert [name for name, is_legal in legal.items() if not is_legal] == ["zeros", "magics"]
