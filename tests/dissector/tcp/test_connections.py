"""Which segments are one connection, who opened it, when it ends, and what happens at the limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.link.flow_key import flow_key
from dissector.tcp.connections import Connection, Connections, packet_of, packet_ordinal
from dissector.tcp.framing import PREFIX_BYTES, RawFrame, State
from dissector.tcp.limits import SEGMENT_OVERHEAD, Limits
from dissector.tcp.ports import Ports
from tests.support.tcp_by_hand import (
    CLIENT,
    RST,
    SERVER,
    SYN,
    Conversation,
    Ends,
    Wire,
    drop,
    move,
    mutation,
    noop,
    response,
    time_of,
)

WRAP = 1 << 32
Found = tuple[int, int, int, int]  # connection, side, start, end


class Run:
    """Connections that were fed, with everything that came out."""

    def __init__(self, packets: Iterable[Wire] = (), limits: Limits | None = None, ports: Ports | None = None) -> None:
        self.frames: list[tuple[Connection, int, RawFrame]] = []
        self.ended: list[Connection] = []
        self.table = Connections(
            self._emit, limits or Limits(), ports or Ports({11_210: "auto"}), ended=self.ended.append
        )
        self.number = 0
        self.feed(packets)

    def _emit(self, connection: Connection, side: int, frame: RawFrame) -> None:
        self.frames.append((connection, side, frame))

    def feed(self, packets: Iterable[Wire]) -> Run:
        for packet in packets:
            self.table.feed(packet.segment(self.number + 1, time_of(self.number)))
            self.number += 1
        return self

    def finish(self) -> list[Found]:
        self.table.finish()
        assert (len(self.table.live), len(self.table.recent)) == (0, 0)
        assert (self.table.held_total, self.table.partial_total) == (0, 0)
        return self.found

    @property
    def found(self) -> list[Found]:
        return sorted((connection.index, side, frame.start, frame.end) for connection, side, frame in self.frames)


def spans(conversation: Conversation, index: int = 0) -> list[Found]:
    """Return what a conversation must give as the connection with this index."""
    return sorted((index, sent.side, sent.start, sent.end) for sent in conversation.sent)


def talk(ends: Ends | None = None, *, opened: bool = True) -> Conversation:
    """A short conversation: two requests, a push between them, two answers."""
    talking = Conversation(ends or Ends())
    if opened:
        talking.open()
    talking.send(CLIENT, noop(1)).send(SERVER, response(0x5C, opaque=1), mutation(1, 2, 3, b"key", b"value" * 9))
    return talking.send(CLIENT, noop(2)).send(SERVER, response(0x5C, opaque=2))


def test_packets_of_a_run_are_in_order() -> None:
    ordinals = [packet_ordinal(capture, number) for capture in (0, 1) for number in (1, 2, 1 << 39)]
    assert ordinals == sorted(set(ordinals))
    assert [packet_of(each) for each in ordinals] == [(capture, n) for capture in (0, 1) for n in (1, 2, 1 << 39)]
    captures, numbers = packet_of(np.array(ordinals))
    assert packet_ordinal(captures, numbers).tolist() == ordinals
    assert list(zip(captures.tolist(), numbers.tolist(), strict=True)) == [packet_of(each) for each in ordinals]


@pytest.mark.parametrize("isns", [(1, 2), (WRAP - 1, WRAP - 2), (WRAP - 20, WRAP - 70), (0, 0)])
def test_a_conversation(isns: tuple[int, int]) -> None:
    talking = talk(Ends(isns=isns))
    run = Run(talking.packets)
    assert run.found == spans(talking)
    assert run.finish() == spans(talking)
    (connection,) = run.ended
    assert connection.key == talking.ends.key(CLIENT)
    assert connection.start_ns == time_of(0)


def test_ports_used_again() -> None:
    """A SYN with another number ends what was there, however it stood; offsets start again."""
    first, second = talk(), talk(Ends(isns=(77, 88)))
    run = Run([*first.packets, *second.packets])
    assert [connection.index for connection in run.ended] == [0]
    assert run.finish() == spans(first) + spans(second, 1)
    assert run.ended[0].id != run.ended[1].id


def test_ports_used_again_with_an_unfinished_frame() -> None:
    first, second = talk().send(SERVER, mutation(1, 2, 4, b"key")), talk(Ends(isns=(77, 88)))
    last = first.packets[-1]
    cut = [*first.packets[:-1], replace(last, data=last.data[:-1]), *second.packets]
    run = Run(cut)
    assert run.finish() == spans(first) + spans(second, 1)
    assert [frame.missing for connection, _, frame in run.frames if connection.index == 0 and frame.missing] == [1]


def test_ports_used_again_after_a_start_in_the_middle() -> None:
    """Nothing is known of the first SYN, but the second one does not fit what was seen."""
    first, second = talk(opened=False), talk(Ends(isns=(77, 88)))
    assert Run([*first.packets, *second.packets]).finish() == spans(first) + spans(second, 1)
    without_syn = Run([*first.packets, *second.packets[1:]])  # the SYN+ACK tells as well
    assert without_syn.finish() == spans(first) + spans(second, 1)


@pytest.mark.parametrize("copies", [(0, 1), (1, 2), (0, 4), (1, 6)])
def test_a_syn_sent_again_changes_nothing(copies: tuple[int, int]) -> None:
    talking = talk()
    index, to = copies
    run = Run([*talking.packets[:to], talking.packets[index], *talking.packets[to:]])
    assert run.finish() == spans(talking)


@pytest.mark.parametrize("start", [1, 2, 3])
def test_the_side_that_opened_is_known_without_its_syn(start: int) -> None:
    """From the SYN+ACK on, from the third packet on, or from the first request on: the client is side 0."""
    talking = talk()
    run = Run(talking.packets[start:])
    assert run.finish() == spans(talking)
    assert run.ended[0].key == talking.ends.key(CLIENT)


def test_a_syn_after_its_answer() -> None:
    talking = talk()
    run = Run(move(talking.packets, 0, 1))
    assert run.table.live[talking.ends.key(CLIENT)][0].framers[CLIENT].state is State.WALK
    assert run.finish() == spans(talking)


def test_a_syn_that_carries_data() -> None:
    talking = Conversation().send(CLIENT, noop(1), noop(2), mss=30)
    first, second = talking.packets
    run = Run([replace(first, flags=SYN, acked=None), Wire(talking.ends, SERVER, 0, acked=30, flags=SYN), second])
    assert run.finish() == spans(talking)


def test_a_start_in_the_middle() -> None:
    """Side 0 is who is seen first, and each direction counts from its first byte that is seen."""
    talking = talk()
    run = Run(talking.packets[4:])
    pushed = len(talking.streams[SERVER]) - 24
    assert run.finish() == [(0, 0, 0, 24), (0, 0, 24, pushed), (0, 0, pushed, pushed + 24), (0, 1, 0, 24)]
    assert run.ended[0].key == talking.ends.key(SERVER)


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_one_direction_only(side: int) -> None:
    talking = talk()
    packets = [packet for packet in talking.packets if packet.side == side]
    assert Run(packets).finish() == [found for found in spans(talking) if found[1] == side]


def test_half_close() -> None:
    """The client has said all; the server goes on, and only then the connection is over."""
    talking = Conversation().open().send(CLIENT, noop(1)).close(CLIENT)
    connection = Run(talking.packets).table.live[talking.ends.key(CLIENT)][0]
    assert not connection.closed
    talking.send(SERVER, response(0x5C), mutation(1, 2, 3, b"key")).close(SERVER)
    run = Run(talking.packets)
    assert run.table.live[talking.ends.key(CLIENT)][0].closed
    assert run.finish() == spans(talking)


def test_reset() -> None:
    """What a RST carries is not part of the stream."""
    talking = talk()
    end = len(talking.streams[SERVER])
    run = Run([*talking.packets, Wire(talking.ends, SERVER, end, noop(9).data, flags=RST)])
    assert run.table.live[talking.ends.key(CLIENT)][0].closed
    assert run.finish() == spans(talking)


def test_keep_alives_and_bare_acknowledgements() -> None:
    talking = talk()
    packets = list(talking.packets)
    for at in range(len(packets), 3, -1):
        before = packets[at - 1]
        end = before.offset + len(before.data)
        packets[at:at] = [replace(before, offset=end - 1, data=b"\0"), replace(before, offset=end, data=b"")]
    assert Run(packets).finish() == spans(talking)


def test_ports_that_are_forced_or_forbidden() -> None:
    odd = Ends(ports=(40_000, 8_091))
    http = Conversation(odd).open()
    http.packets.append(Wire(odd, CLIENT, 0, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + noop(1).data * 3))
    assert Run(http.packets).finish() == []
    assert len(Run(http.packets, ports=Ports({8_091: "auto"})).finish()) == 3
    assert Run(talk(odd).packets).finish() == spans(talk(odd))
    assert Run(talk(odd).packets, ports=Ports({8_091: "none"})).finish() == []


# ------------------------------------------------------------------------------------------------------------- limits


def numbered(port: int) -> Ends:
    return Ends(addresses=(f"10.1.{port >> 14}.1", "10.0.0.2"), ports=(1024 + port % (1 << 14), 11_210))


def test_the_connection_that_was_silent_longest_goes_first() -> None:
    talks = [talk(numbered(port)) for port in range(5)]
    run = Run(limits=Limits(connections=3))
    for each in talks[:3]:
        run.feed(each.packets[:4])
    run.feed(talks[0].packets[4:5])  # 0 speaks again: 1 is the most silent now
    run.feed(talks[3].packets).feed(talks[4].packets)
    assert [connection.index for connection in run.ended] == [1, 2]
    assert run.table.given_up == {"connections": 2}
    run.feed(talks[0].packets[5:])
    assert [found for found in run.finish() if found[0] == 0] == spans(talks[0])


def test_letting_go_of_what_is_closed_is_no_loss() -> None:
    run = Run(limits=Limits(connections=1))
    for port in range(4):
        run.feed(talk(numbered(port)).close(CLIENT).close(SERVER).packets)
    assert run.table.count == 4
    assert run.table.given_up == {}


def test_a_flood_of_half_open_connections() -> None:
    flood, limit = 100_000, 1_000
    run = Run(limits=Limits(connections=limit))
    syn = Wire(Ends(), CLIENT, 0, acked=None, flags=SYN).segment(1, 0)
    for port in range(flood):
        run.table.feed(syn._replace(key=flow_key(port.to_bytes(4, "big"), bytes(4), 1024, 11_210)))
        if port % 10_000 == 0:
            assert len(run.table.live) <= 2 * limit
    assert (len(run.table.live), len(run.table.recent)) == (2 * limit, limit)
    assert (run.table.count, run.table.given_up) == (flood, {"connections": flood - limit})
    run.finish()


def test_out_of_order_bytes_of_one_direction() -> None:
    """The second packet is lost: what comes after it is held up to the limit, then the hole is given up."""
    frames = [mutation(1, 2, seqno, b"key", bytes(100)) for seqno in range(60)]
    size = len(frames[0].data)
    talking = Conversation().open().send(SERVER, *frames, mss=size)
    limit = 10 * (size + SEGMENT_OVERHEAD)
    run = Run(limits=Limits(out_of_order_bytes=limit))
    for packet in drop(talking.packets, 4):
        run.feed([packet])
        assert run.table.held_total <= limit
    # Ten segments fit, the eleventh is one too many; after the gap all is in order again.
    assert run.table.given_up == {"out_of_order_bytes": 1}
    assert run.finish() == [found for found in spans(talking) if found[2] != size]
    assert [frame.gap for _, _, frame in run.frames] == [0, size] + [0] * 57


def test_out_of_order_bytes_of_all_directions() -> None:
    """Whoever holds the most gives up first, until a quarter is free again."""
    frames = [mutation(1, 2, seqno, b"key", bytes(100)) for seqno in range(20)]
    size = len(frames[0].data)
    cost = size + SEGMENT_OVERHEAD
    talks = [Conversation(numbered(port)).open().send(SERVER, *frames, mss=size) for port in range(4)]
    run = Run(limits=Limits(out_of_order_total=20 * cost))
    for count, each in zip((9, 6, 5, 0), talks, strict=True):
        run.feed(drop(each.packets, 3)[: 3 + count])  # the first frame never comes: all others are held
    assert (run.table.held_total, run.table.given_up) == (20 * cost, {})
    run.feed(talks[2].packets[3 + 6 : 3 + 7])  # the 21st: connection 0 gives its nine up, and 12 of 15 are left
    assert (run.table.held_total, run.table.given_up) == (12 * cost, {"out_of_order_total": 1})
    assert [found[:3] for found in run.found] == [(0, SERVER, size * index) for index in range(1, 10)]
    run.finish()


def test_bytes_of_unfinished_frames() -> None:
    """The largest unfinished frame is kept without its value, and its end is still known."""
    large = [mutation(1, 2, 3, b"key", bytes(4000 - 100 * port)) for port in range(3)]
    talks = [Conversation(numbered(port)).open().send(SERVER, large[port], noop(5)) for port in range(3)]
    run = Run(limits=Limits(partial_total=8000))
    for each in talks:
        run.feed(each.packets[:5])  # 2 * 1448 bytes of each
        assert run.table.partial_total <= 8000
    assert run.table.given_up == {"partial_total": 1}
    assert run.table.partial_total == 2 * 2 * 1448
    for each in talks:
        run.feed(each.packets[5:])
    assert run.finish() == [found for index, each in enumerate(talks) for found in spans(each, index)]
    missing = {connection.index: frame.missing for connection, _, frame in run.frames if frame.missing}
    assert missing == {0: len(large[0].data) - PREFIX_BYTES}


# ---------------------------------------------------------------------------------------------------------- causality


@given(
    st.lists(st.tuples(st.sampled_from([CLIENT, SERVER]), st.integers(1, 3), st.integers(0, 90)), max_size=12),
    st.sampled_from([(0, 0), (WRAP - 100, WRAP - 60)]),
    st.booleans(),
)
def test_what_a_frame_acknowledges_tells_what_came_before_it(
    turns: list[tuple[int, int, int]], isns: tuple[int, int], opened: bool
) -> None:
    """Both sides hear everything at once: g was sent after f of the other side exactly if it acknowledges f's end."""
    talking = Conversation(Ends(isns=isns)).open()
    order: dict[tuple[int, int], int] = {}
    for turn, (side, count, size) in enumerate(turns):
        order |= {(side, len(talking.streams[side])): turn}
        talking.send(side, *(mutation(1, 2, turn, b"key", bytes(size)) for _ in range(count)), mss=40)
    turn_of = {(sent.side, sent.start): 0 for sent in talking.sent}
    for place in turn_of:
        turn_of[place] = max(turn for (side, start), turn in order.items() if side == place[0] and start <= place[1])
    run = Run(talking.packets if opened else talking.packets[2:])
    assert run.finish() == spans(talking)
    for _, side, g in run.frames:
        assert g.acked is not None
        for _, other, f in run.frames:
            if other != side:
                assert (g.acked >= f.end) == (turn_of[side, g.start] > turn_of[other, f.start])


def test_a_late_packet_keeps_its_own_acknowledgement() -> None:
    """A retransmission would acknowledge more: the packet whose bytes are used counts."""
    talking = (
        Conversation().open().send(SERVER, noop(1)).send(CLIENT, noop(2)).send(SERVER, noop(3)).send(CLIENT, noop(4))
    )
    *start, first, push, second = talking.packets
    again = replace(first, acked=48)
    run = Run([*start, first, push, second, again])
    assert [(frame.start, frame.acked) for _, side, frame in run.frames if side == CLIENT] == [(0, 24), (24, 48)]
    lost = Run([*start, push, second, again])
    assert [(frame.start, frame.acked) for _, side, frame in lost.frames if side == CLIENT] == [(0, 48), (24, 48)]
