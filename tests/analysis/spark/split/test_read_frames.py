"""Captures in splits, segments in partitions: wherever cut, the rows are those of the single-process reader."""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.spark.read_options import Mode, SourceOptions, ports_of
from analysis.spark.split.plan import make_plan
from dissector.capture import CaptureReader, split
from dissector.capture.split import WHOLE, FilePart, FilePartStream, RangeScan
from dissector.errors import InputError, UsageError
from dissector.spec.model import Dialect
from tests.support.split_archives import (
    _LOOKALIKE,
    WRITERS,
    Packet,
    archives,
    decoded_at_once,
    decoded_in_parts,
    fragmented,
    packed,
    pcap_file,
    pcapng_file,
    write,
)
from tests.support.tcp_by_hand import SERVER, Conversation, Ends, mutation


@given(archives(), st.integers(100, 6000), st.integers(1, 4), st.sampled_from([1, 7, 50, 1000]), st.booleans())
def test_rows_do_not_depend_on_cuts(
    files: list[bytes], split: int, partitions: int, batch_rows: int, values: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write(files, Path(folder))
        reading = SourceOptions(values=values, split_bytes=split)
        expected = decoded_at_once(paths, reading)
        found, _ = decoded_in_parts(paths, reading, partitions=partitions, batch_rows=batch_rows)
    assert found.to_pylist() == expected.to_pylist()


def conversation(count: int = 60, value: bytes = b"v" * 300, ends: Ends | None = None) -> Conversation:
    made = Conversation(ends or Ends()).open()
    for seqno in range(1, count + 1):
        made.send(SERVER, mutation(1, 5, seqno, b"key%d" % seqno, value), mss=500)
    return made


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_every_container_is_cut_or_left_whole(name: str, tmp_path: Path) -> None:
    paths = write([WRITERS[name](packed(conversation().packets))], tmp_path)
    reading = SourceOptions(split_bytes=2000)
    found, plan = decoded_in_parts(paths, reading, partitions=2)
    assert found.equals(decoded_at_once(paths, reading))
    # Later interfaces and sections, and packets without a time, need what came before them.
    assert (len(plan.splits) > 10) == (name not in {"late interface", "two sections", "no times"})


def test_a_part_is_surveyed_again_where_a_payload_looked_like_records(tmp_path: Path) -> None:
    data = pcap_file(packed(conversation(40, _LOOKALIKE).packets))
    paths = write([data], tmp_path)
    guesses = wrong = 0
    cut = split.ranges(len(data), 700)
    walked = [split.scan_range(io.BytesIO(data), "x", data[:24], *each) for each in cut]
    starts = record_starts(data)
    for (start, _), walk in zip(cut[1:], walked[1:], strict=True):
        guesses += 1
        wrong += walk.first != min((each for each in starts if each >= start), default=None)
    assert wrong > guesses // 4, "the payloads must be taken for records, or nothing is tried here"
    reading = SourceOptions(split_bytes=700)
    found, plan = decoded_in_parts(paths, reading)
    assert found.equals(decoded_at_once(paths, reading))
    assert {split.part.begin for split in plan.splits} <= {0, *starts}
    assert len(plan.splits) > 10


def record_starts(data: bytes) -> list[int]:
    starts, at = [], 24
    while at < len(data):
        starts.append(at)
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    return starts


@pytest.mark.parametrize("writer", [pcap_file, pcapng_file])
def test_parts_give_the_packets_of_the_whole(writer: object, tmp_path: Path) -> None:
    assert callable(writer)
    paths = write([writer(packed(conversation().packets))], tmp_path)
    plan = make_plan(paths, SourceOptions(split_bytes=3000))
    assert len(plan.splits) > 5
    packets, numbers = [], []
    for each in plan.splits:
        with each.address.open() as file:
            for block in CaptureReader(FilePartStream(file, each.part), name="part"):
                packets += [block.packet(index) for index in range(len(block))]
                numbers += [each.part.packets_before + block.first_number + index for index in range(len(block))]
    with CaptureReader(io.BytesIO(Path(paths[0]).read_bytes())) as reader:
        whole = [block.packet(index) for block in reader for index in range(len(block))]
    assert packets == whole
    assert numbers == list(range(1, len(whole) + 1))


def test_damage_before_another_part_leaves_a_file_whole_and_damage_at_the_end_does_not(tmp_path: Path) -> None:
    data = pcap_file(packed(conversation().packets))
    starts = record_starts(data)
    middle = starts[len(starts) // 2]
    broken = data[: middle + 8] + b"\xff" * 4 + data[middle + 12 :]
    for name, made, whole in (("broken", broken, True), ("cut", data[:-100], False)):
        folder = tmp_path / name
        folder.mkdir()
        paths = write([made], folder)
        reading = SourceOptions(split_bytes=2000)
        found, plan = decoded_in_parts(paths, reading)
        assert found.equals(decoded_at_once(paths, reading))
        assert ([split.part for split in plan.splits] == [WHOLE]) == whole


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("rotation", [7, 40])
@pytest.mark.parametrize("batch_rows", [1, 5, 1000])
def test_fragments_that_lie_in_several_files_and_parts(
    every: int, rotation: int, batch_rows: int, tmp_path: Path
) -> None:
    # Two connections, one packet of each in turn: segments from fragments stand between, before and after the others.
    wires = [conversation(30).packets, conversation(30, ends=Ends(ports=(40_001, 11_210))).packets]
    packets: list[Packet] = []
    for number, packet in enumerate(packed([wire for pair in zip(*wires, strict=True) for wire in pair])):
        cut = len(packet.data) > 200 and (number % every == 0 or number > 60)
        packets += fragmented(packet, 136, number) if cut else [packet]
    paths = write([pcap_file(packets[at : at + rotation]) for at in range(0, len(packets), rotation)], tmp_path)
    reading = SourceOptions(split_bytes=1500)
    for partitions in (1, 3):
        found, _ = decoded_in_parts(paths, reading, partitions=partitions, batch_rows=batch_rows)
        assert len(found) == 60
        assert found.to_pylist() == decoded_at_once(paths, reading).to_pylist()


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_what_the_end_of_the_run_releases_comes_in_the_order_of_the_connections(
    partitions: int, tmp_path: Path
) -> None:
    wires = []
    for port in (40_003, 40_001, 40_002):
        made = conversation(2, ends=Ends(ports=(port, 11_210)))
        wires += made.send(SERVER, mutation(1, 5, 9, b"cut", b"v" * 900), mss=500).packets[:-1]
    paths = write([pcap_file(packed(wires))], tmp_path)
    found, _ = decoded_in_parts(paths, SourceOptions(), partitions=partitions, batch_rows=4)
    assert found.equals(decoded_at_once(paths, SourceOptions()))
    assert [row["dport"] for row in found.to_pylist() if row["missing"]] == [40_003, 40_001, 40_002]


def test_compressed_captures_are_read_by_one_task(tmp_path: Path) -> None:
    data = pcap_file(packed(conversation().packets))
    paths = write([gzip.compress(data)], tmp_path)
    reading = SourceOptions(split_bytes=100)
    found, plan = decoded_in_parts(paths, reading)
    assert [split.part for split in plan.splits] == [WHOLE]
    assert len(found) == 60


def test_a_record_larger_than_a_range(tmp_path: Path) -> None:
    made = (
        Conversation(Ends()).open().send(SERVER, *(mutation(1, 5, n, b"k", b"v" * 9000) for n in range(1, 9)), mss=9100)
    )
    paths = write([pcap_file(packed(made.packets))], tmp_path)
    reading = SourceOptions(split_bytes=1024)
    found, plan = decoded_in_parts(paths, reading)
    assert found.equals(decoded_at_once(paths, reading))
    assert len(plan.splits) == 8  # one for each large packet; the first begins in the same range as the handshake


def test_parts_of_a_file_need_every_walk_to_meet_the_next() -> None:
    cut = [(0, 10), (10, 20), (20, 30)]
    good = [RangeScan(4, 12, 3, sure=True), RangeScan(12, 25, 2, sure=True), RangeScan(25, None, 1, sure=True)]
    assert split.parts_of(b"c", cut, good, _never) == [
        FilePart(0, 12, 0),
        FilePart(12, 25, 3, b"c"),
        FilePart(25, None, 5, b"c"),
    ]
    unsure = [good[0], RangeScan(12, 25, 2, sure=False), good[2]]
    assert split.parts_of(b"c", cut, unsure, _never) == [WHOLE]
    missed = [good[0], RangeScan(14, 20, 1, sure=True), good[2]]
    asked = []

    def again(index: int, known: int) -> RangeScan:
        asked.append((index, known))
        return good[1]

    assert split.parts_of(b"c", cut, missed, again) == split.parts_of(b"c", cut, good, _never)
    assert asked == [(1, 12)]
    passed = [RangeScan(4, None, 3, sure=True), good[1], good[2]]
    assert split.parts_of(b"c", cut, passed, _never) == [FilePart(0, None, 0)]


def _never(index: int, known: int) -> RangeScan:
    raise AssertionError((index, known))


def test_files_that_are_no_captures_are_left_out_or_end_the_reading(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap_file(packed(conversation(3).packets)))
    (tmp_path / "b.pcap").write_bytes(b"this is no capture at all")
    for name in (str(tmp_path), f"{tmp_path}/*.pcap"):
        plan = make_plan([name], SourceOptions())
        assert plan.captures == (f"{tmp_path}/a.pcap",)
        assert [each.name for each in plan.skipped] == [f"{tmp_path}/b.pcap"]
        with pytest.raises(InputError, match=r"b\.pcap: not a capture"):
            make_plan([name], SourceOptions(mode=Mode.FAILFAST))
    with pytest.raises(InputError, match="no such file, or no file matches"):
        make_plan([f"{tmp_path}/*.cap"], SourceOptions())


def test_options() -> None:
    reading = SourceOptions.of(
        {"path": "x", "VALUES": "true", "ports": "1234, 99=upr", "dialect": "dcp", "mode": "failfast"}
    )
    assert (reading.values, reading.dialect, reading.mode) == (True, Dialect.DCP, Mode.FAILFAST)
    assert reading.ports == ports_of("1234,99=upr")
    assert {1234: "auto", 99: "upr"}.items() <= reading.ports.rules.items()
    assert SourceOptions.of({"splitBytes": "2000"}).split_bytes == 2000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"valeus": "true"}, "option valeus: not known"),
        ({"values": "maybe"}, "option values=maybe"),
        ({"ports": "x"}, "--port x"),
        ({"dialect": "latin"}, "option dialect=latin"),
        ({"mode": "dropmalformed"}, "expected permissive or failfast"),
        ({"splitBytes": "12"}, "at least 1024"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SourceOptions.of(options)
