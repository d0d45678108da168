"""Connections that cross splits of a run: prescan, stitching and decoding give the rows of the single-process reader.

Every test reads its captures both ways and compares all rows; it also says which conversations must fall back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.spark.partitioning import conversation_key
from analysis.spark.read_options import SourceOptions, ports_of
from analysis.spark.split import prescan_connections
from analysis.spark.split.records import RecordKind
from dissector.options import ReadOptions
from dissector.spec.model import Dialect
from dissector.tcp.fast_path import SequentialPath
from dissector.tcp.limits import Limits
from tests.support import mixed_connections
from tests.support.split_and_whole import read_both_ways
from tests.support.split_archives import (
    Packet,
    archives,
    decoded_in_splits,
    fragmented,
    packed,
    pcap_file,
    pcapng_file,
    write,
)
from tests.support.tcp_by_hand import (
    CLIENT,
    SERVER,
    Conversation,
    Ends,
    Message,
    Wire,
    counted,
    drafted,
    drafted_item,
    drafted_request,
    drop,
    marker,
    move,
    mutation,
    noop,
    request,
)


@given(archives(), st.integers(2, 30), st.integers(1, 4), st.sampled_from([1, 7, 1000]), st.booleans())
def test_rows_do_not_depend_on_splits(
    files: list[bytes], parts: int, partitions: int, batch_rows: int, values: bool
) -> None:
    read_both_ways(
        files,
        SourceOptions(values=values, split_bytes=_split(files, parts)),
        partitions=partitions,
        batch_rows=batch_rows,
    )


def _split(files: Sequence[bytes], parts: int) -> int:
    return max(sum(map(len, files)) // parts, 100)


class Tight(SourceOptions):
    """A reading in which limits of single connections are reached."""

    @property
    def options(self) -> ReadOptions:
        """Return what the engine takes."""
        return replace(super().options, limits=Limits(out_of_order_bytes=4000, frame_bytes=2500, search_bytes=1000))


READINGS = {
    "plain": SourceOptions(values=True),
    "tight": Tight(),
    "little is kept of heads": SourceOptions(),
    "known ports": SourceOptions(ports=ports_of("9999=dcp,40001=upr,40002=auto")),
    "ports to be left alone": SourceOptions(ports=ports_of("40000=none,9999=auto")),
    "known dialect": SourceOptions(dialect=Dialect.UPR),
}


@given(st.integers(0, 10**9), st.integers(2, 12), st.integers(1, 3), st.sampled_from(sorted(READINGS)))
def test_mixes_of_connections(seed: int, parts: int, partitions: int, name: str) -> None:
    files = mixed_connections.files(seed, broken_up=seed % 10 == 0)
    reading = replace(READINGS[name], split_bytes=_split(files, parts))
    with pytest.MonkeyPatch.context() as patch:
        if name == "little is kept of heads":
            patch.setattr(prescan_connections, "HEAD_BYTES", 3000)
            patch.setattr(prescan_connections, "HEADS_BYTES", 20_000)
            patch.setattr(prescan_connections, "HINT_FRAMES", 3)
        read_both_ways(files, reading, partitions=partitions)


# ---------------------------------------------------------------------------------------------------- which way it goes


def stream(
    count: int = 300, ends: Ends | None = None, value: bytes = b"v" * 300, *, opened: bool = True
) -> Conversation:
    """Make a stream with snapshots and acknowledgements."""
    made = Conversation(ends or Ends())
    if opened:
        made.open()
    made.send(CLIENT, request(0x50, bytes(8), b"name", opaque=1))
    for seqno in range(1, count + 1):
        messages = [marker(1, 5, seqno, seqno + 9)] if seqno % 10 == 1 else []
        made.send(SERVER, *messages, mutation(1, 5, seqno, b"key%d" % seqno, value), mss=500)
        if seqno % 4 == 0:
            made.send(CLIENT, counted(0x5D, seqno.to_bytes(4, "big"), opaque=9))
    return made


def together(*connections: Sequence[Wire]) -> list[Wire]:
    """Let connections go on at the same time."""
    length = max(len(wires) for wires in connections)
    return [wires[index] for index in range(length) for wires in connections if index < len(wires)]


def key_of(ends: Ends) -> bytes:
    """Return the key of a conversation."""
    return conversation_key(ends.key(CLIENT))[0]


OTHER = Ends(ports=(40_001, 11_210), isns=(2**32 - 9_000, 77))


@pytest.mark.parametrize("writer", [pcap_file, pcapng_file])
def test_a_clean_run_shuffles_heads_and_tails_alone(writer: object) -> None:
    assert callable(writer)
    value = bytes(2000)
    wires = together(stream(2000, value=value).packets, stream(2000, OTHER, value).packets)
    files = [writer(packed(wires))]
    found = read_both_ways(files, SourceOptions(split_bytes=len(files[0]) // 12))
    assert len(found.plan.splits) >= 12
    assert found.fallback == set()
    assert not len(found.segments)
    assert found.shuffled_bytes < len(files[0]) // 20
    heads = found.notes.filter(pa.compute.equal(found.notes["kind"], int(RecordKind.NOTES)))
    assert len(heads) == 2 * len(found.plan.splits)


def test_rotated_files_are_splits_too() -> None:
    packets = packed(together(stream(400).packets, stream(400, OTHER).packets))
    cuts = [0, 300, 301, 777, 1000, len(packets)]
    files = [pcap_file(packets[a:b]) for a, b in pairwise(cuts)]
    found = read_both_ways(files, SourceOptions())
    assert len(found.plan.splits) == 5
    assert found.fallback == set()


def boundary(packets: Sequence[Packet], split: int) -> int:
    """Return how many packets are before a split in the middle."""
    with tempfile.TemporaryDirectory() as folder:
        plan = decoded_in_splits(write([pcap_file(packets)], Path(folder)), SourceOptions(split_bytes=split)).plan
    return plan.splits[len(plan.splits) // 2].part.packets_before


def test_a_segment_that_comes_late_across_a_boundary_takes_its_conversation_to_the_shuffle_and_no_other() -> None:
    packets = packed(together(stream(400).packets, stream(400, OTHER).packets))
    split = len(pcap_file(packets)) // 6
    cut = boundary(packets, split)
    first = next(index for index in range(cut - 3, 0, -1) if packets[index].data[34:38] == b"\x2b\xca\x9c\x41")
    late = [*packets[:first], *packets[first + 1 : cut + 120], packets[first], *packets[cut + 120 :]]
    found = read_both_ways([pcap_file(late)], SourceOptions(split_bytes=split))
    assert found.fallback == {key_of(OTHER)}
    assert set(found.segments["conversation"].to_pylist()) == {key_of(OTHER)}


def test_a_segment_that_is_missing_at_a_boundary_takes_its_conversation_to_the_shuffle() -> None:
    packets = packed(together(stream(400).packets, stream(400, OTHER).packets))
    split = len(pcap_file(packets)) // 6
    cut = boundary(packets, split)
    lost = next(index for index in range(cut - 3, 0, -1) if packets[index].data[34:38] == b"\x2b\xca\x9c\x41")
    found = read_both_ways([pcap_file(packets[:lost] + packets[lost + 1 :])], SourceOptions(split_bytes=split))
    assert found.fallback == {key_of(OTHER)}


def test_segments_that_come_twice_or_swapped_within_a_split_are_stitched() -> None:
    packets = packed(together(stream(400).packets, stream(400, OTHER).packets))
    split = len(pcap_file(packets)) // 6
    cut = boundary(packets, split)
    packets[cut + 90 : cut + 90] = packets[cut - 40 : cut + 40]  # old ones, on either side of the boundary
    packets[cut + 300 : cut + 304] = reversed(packets[cut + 300 : cut + 304])
    found = read_both_ways([pcap_file(packets)], SourceOptions(split_bytes=split))
    assert found.fallback == set()


def test_fragments_take_their_conversation_to_the_shuffle_and_no_other() -> None:
    packets = packed(together(stream(200).packets, stream(200, OTHER).packets))
    at = next(index for index, packet in enumerate(packets) if index > 300 and len(packet.data) > 300)
    mine = packets[at].data[34:38]
    packets[at : at + 1] = fragmented(packets[at], 136, 9)
    found = read_both_ways([pcap_file(packets)], SourceOptions(split_bytes=9000))
    client = min(int.from_bytes(mine[:2], "big"), 40_001, int.from_bytes(mine[2:], "big") or 40_001)
    assert len(found.fallback) == 1
    assert client.to_bytes(2, "big") in next(iter(found.fallback)) or mine[2:] in next(iter(found.fallback))


def test_ports_used_again_in_another_split_and_within_one() -> None:
    again = replace(Ends(), isns=(900_000_000, 3))
    once_more = replace(Ends(), isns=(1_900_000_000, 3))
    wires = [*stream(100).packets, *stream(100, again).packets, *stream(4, once_more).packets, *stream(80).packets]
    for split in (3000, 11_000, 30_000):
        found = read_both_ways([pcap_file(packed(wires))], SourceOptions(split_bytes=split))
        assert found.fallback == set()
        assert len({row["connection"] for row in found.frames.to_pylist()}) == 4


def test_what_is_unfinished_when_ports_are_used_again_is_counted() -> None:
    again = replace(Ends(), isns=(900_000_000, 3))
    wires = [*stream(90, value=b"v" * 800).packets[:-1], *stream(90, again).packets]
    found = read_both_ways([pcap_file(packed(wires))], SourceOptions(split_bytes=7000))
    assert found.fallback == set()
    assert any(row["missing"] for row in found.frames.to_pylist())


def test_a_handshake_that_a_boundary_cuts() -> None:
    packets = packed(stream(60).packets)
    for cut in range(1, 6):
        found = read_both_ways([pcap_file(packets[:cut]), pcap_file(packets[cut:])], SourceOptions())
        assert found.fallback == set()
        assert len({row["connection"] for row in found.frames.to_pylist()}) == 1


@pytest.mark.parametrize("lost", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("late", [None, 9, 60, 150])
def test_whether_the_first_byte_is_known(lost: tuple[int, ...], late: int | None) -> None:
    """A SYN or its answer that is lost or comes late, before, at and behind the boundary of a split."""
    wires = drop(stream(60).packets, *lost)
    wires = wires if late is None else move(wires, 0, late)
    for cut in (2, 8, 9, 10, 59, 60, 61, 100):
        packets = packed(wires)
        found = read_both_ways([pcap_file(packets[:cut]), pcap_file(packets[cut:])], SourceOptions())
        shown = {(row["direction"], row["from_start"]) for row in found.frames.to_pylist()}
        assert shown
        if late is None:
            assert shown == {(CLIENT, 1 not in lost or 0 not in lost), (SERVER, 1 not in lost)}


DRAFT = Ends(ports=(40_002, 11_210), isns=(5, 6))


def draft() -> Conversation:
    """A conversation in the draft's words, which the answer to its second question shows."""
    made = Conversation(DRAFT).open()
    made.send(CLIENT, drafted_request(12, 1)).send(CLIENT, drafted_request(13, 2))
    made.send(SERVER, drafted(4, 1, vbucket=12, opaque=1)).send(SERVER, drafted(2, 1, vbucket=13, opaque=2))
    made.send(SERVER, *(drafted_item(13, 2, seqno) for seqno in range(30)), mss=400)
    return made


@pytest.mark.parametrize("cut", range(1, 20))
def test_messages_that_wait_for_their_dialect_across_a_boundary_take_their_conversation_to_the_shuffle(
    cut: int,
) -> None:
    drafts, others = packed(draft().packets), packed(stream(60).packets)
    packets = sorted([*drafts, *others], key=lambda packet: packet.time_ns)
    at = packets.index(drafts[cut]) if cut < len(drafts) else len(packets)
    found = read_both_ways([pcap_file(packets[:at]), pcap_file(packets[at:])], SourceOptions())
    rows = [row for row in found.frames.to_pylist() if 40_002 in (row["sport"], row["dport"])]
    assert [row["dialect"] for row in rows] == ["draft"] * 34
    # The questions are the packets 3 and 4; the answer that shows the dialect is packet 6.
    assert found.fallback == ({key_of(DRAFT)} if 3 < cut <= 6 else set())


def test_connections_from_the_middle_on_and_silent_for_long() -> None:
    silent = stream(60, OTHER, opened=False).packets
    wires = [*silent[:40], *stream(300).packets, *silent[40:], *stream(60, Ends(ports=(5, 6)), opened=False).packets]
    found = read_both_ways([pcap_file(packed(wires))], SourceOptions(split_bytes=12_000))
    assert found.fallback == set()


def test_sequence_numbers_go_round() -> None:
    ends = Ends(isns=(2**32 - 200, 2**32 - 20_000))
    found = read_both_ways([pcap_file(packed(stream(300, ends).packets))], SourceOptions(split_bytes=6000))
    assert found.fallback == set()
    assert found.frames["end_offset"].to_pylist()[-2] > 100_000


def test_other_protocols_are_stitched_without_their_bytes() -> None:
    """A connection that is known not to be memcached stays so, however much of it comes."""
    made = Conversation(Ends(ports=(50_000, 8091))).open()
    for number in range(600):
        made.send(number % 2, Message(b"GET /%d HTTP/1.1\r\n" % number + bytes(range(256)) * 4))
    wires = together(made.packets, stream(300).packets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prescan_connections, "HEAD_BYTES", 8000)
        found = read_both_ways([pcap_file(packed(wires))], SourceOptions(split_bytes=60_000))
    assert len(found.plan.splits) > 8
    assert found.fallback == set()


def test_key_value_clients_are_stitched() -> None:
    made = Conversation(Ends()).open()
    for number in range(900):
        made.send(CLIENT, request(1, bytes(8), b"key%d" % number, b"v" * 60, opaque=number))
        made.send(SERVER, Message(bytes([0x81, 1]) + bytes(22)))
    found = read_both_ways([pcap_file(packed(made.packets))], SourceOptions(split_bytes=40_000))
    assert len(found.plan.splits) > 4
    assert found.fallback == set()


def test_a_greeting_after_the_sync_point_changes_keys_in_all_later_splits() -> None:
    made = stream(200)
    made.send(CLIENT, request(0x1F, key=b"agent", value=b"\x00\x12", opaque=4))
    made.send(SERVER, Message(bytes.fromhex("811f0000000000000000000200000004") + bytes(8) + b"\x00\x12"))
    for seqno in range(1, 300):
        made.send(SERVER, mutation(1, 5, seqno, b"\x09key", b"v" * 300), mss=500)
    found = read_both_ways([pcap_file(packed(made.packets))], SourceOptions(split_bytes=12_000))
    assert found.fallback == set()
    assert sum(row["collection_id"] == 9 for row in found.frames.to_pylist()) == 299


def test_a_connection_of_an_end_with_itself_is_shuffled() -> None:
    ends = Ends(addresses=("10.0.0.1", "10.0.0.1"), ports=(11_210, 11_210))
    found = read_both_ways([pcap_file(packed(stream(60, ends).packets))], SourceOptions(split_bytes=6000))
    assert found.fallback == {key_of(ends)}


@pytest.mark.parametrize("limits", [Limits(connections=4), Limits(partial_total=900), Limits(out_of_order_total=900)])
def test_a_limit_of_a_task_decides_about_nothing(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversations that a prescan drops, for the number of connections or of bytes held, are shuffled."""
    connections = [stream(20, Ends(ports=(40_000 + number, 11_210))).packets for number in range(12)]
    for made in connections[::3]:
        made[20:23] = reversed(made[20:23])
    files = [pcap_file(packed(together(*connections[:6]) + together(*connections[6:])))]
    assert read_both_ways(files, SourceOptions(split_bytes=40_000)).fallback == set()
    begin = prescan_connections.PrescanConnections.__init__

    def crowded(
        connections: prescan_connections.PrescanConnections, slow: SequentialPath, options: ReadOptions, *, first: bool
    ) -> None:
        begin(connections, slow, options, first=first)
        connections.limits = limits

    monkeypatch.setattr(prescan_connections.PrescanConnections, "__init__", crowded)
    assert read_both_ways(files, SourceOptions(split_bytes=40_000)).fallback


def test_ports_used_again_where_the_first_packet_is_missing() -> None:
    again = replace(Ends(), isns=(900_000_000, 3))
    first, second = packed(stream(60).packets), packed(stream(60, again).packets[1:], 1000)
    splits = [first, second[:60], second[60:]]
    found = read_both_ways([pcap_file(each) for each in splits], SourceOptions())
    assert found.fallback == {key_of(Ends())}  # the prescan can't tell that this answers a SYN of another connection
    assert len({row["connection"] for row in found.frames.to_pylist()}) == 2


def test_a_dialect_that_shows_after_too_many_frames_takes_its_conversation_to_the_shuffle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prescan_connections, "HINT_FRAMES", 3)
    made = Conversation(Ends()).open()
    for number in range(60):
        made.send(CLIENT, request(2, bytes(8), b"key%d" % number, b"v" * 60, opaque=number))
        made.send(SERVER, Message(bytes([0x81, 2]) + bytes(22)))
    made.send(SERVER, counted(0x56, b"", vbucket=3, opaque=7))
    for seqno in range(1, 30):
        made.send(SERVER, mutation(3, 7, seqno, b"key", b"v" * 100))
    packets = packed(made.packets)
    splits = [packets[:40], packets[40:130], packets[130:]]
    found = read_both_ways([pcap_file(each) for each in splits], SourceOptions())
    assert found.fallback == {key_of(Ends())}
    assert {row["dialect"] for row in found.frames.to_pylist()[-20:]} == {"upr"}


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_handshake_sent_again_across_a_boundary(which: int) -> None:
    packets = packed(stream(60).packets)
    for at in (2, 4, 30):
        again = replace(packets[which], time_ns=packets[at].time_ns)
        splits = [packets[:at], [again, *packets[at : at + 40]], packets[at + 40 : at + 80], packets[at + 80 :]]
        found = read_both_ways([pcap_file(each) for each in splits], SourceOptions())
        assert len({row["connection"] for row in found.frames.to_pylist()}) == 1


def test_nothing_that_is_not_known_is_believed() -> None:
    """A prescan that begins in a value full of frames takes it for the stream; stitching finds out."""
    lure = b"".join(noop(number).data for number in range(120))
    made = stream(2)
    for seqno in range(3, 40):
        made.send(SERVER, mutation(1, 5, seqno, b"key", lure), mss=500)
    found = read_both_ways([pcap_file(packed(made.packets))], SourceOptions(split_bytes=5000))
    assert found.fallback == {key_of(Ends())}
