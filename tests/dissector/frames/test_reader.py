"""The columnar path and the reference path: same rows, same report, for any chunk size and any fault of the network."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.frames.reader import FrameReader
from dissector.frames.reference_reader import ReferenceReader
from dissector.link.segment_block import RST, SYN
from dissector.options import ReadOptions
from dissector.tcp.limits import Limits
from tests.support.paths import ROOT
from tests.support.tcp_by_hand import (
    CLIENT,
    SERVER,
    Conversation,
    Ends,
    Wire,
    drop,
    duplicate,
    marker,
    move,
    mutation,
    noop,
    pcap,
    read_run,
    snap,
    stream_answer,
    widen,
)

CAPTURES = sorted((ROOT / "captures").glob("*.pcap*"))
CHUNKS = [300, 1_000, 4_000, 8 << 20]
#: Limits so small that a few packets reach them.
TIGHT = Limits(
    out_of_order_bytes=3_000,
    out_of_order_total=6_000,
    connections=2,
    frame_bytes=4_000,
    partial_total=2_000,
    search_bytes=3_000,
)


def assert_same(source: Path | bytes | Sequence[Path | bytes], options: ReadOptions, chunks: Sequence[int]) -> None:
    rows, report = read_run(source, ReferenceReader, options)
    for chunk in chunks:
        found, its_report = read_run(source, FrameReader, dataclasses.replace(options, chunk_bytes=chunk))
        for mine, theirs in zip(found, rows, strict=False):
            assert mine == theirs
        assert len(found) == len(rows)
        assert its_report == report


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_recordings(capture: Path) -> None:
    assert_same(capture, ReadOptions(values=True), [600, 5_000, 60_000, 8 << 20])


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["01_basic.pcap", "05_multiplex_close_resume.pcapng", "07d_capture_loss.pcap", "07e_reorder_dup.pcap"]
)
def test_shared_recordings(shared_dir: Path, name: str) -> None:
    assert_same(shared_dir / "captures" / name, ReadOptions(), [2_000, 20_000, 200_000])


def talk(rng: random.Random, number: int) -> Conversation:
    """Make a connection with some streams; ports repeat, sequence numbers may wrap."""
    isns = (rng.getrandbits(32), rng.choice((rng.getrandbits(32), 2**32 - rng.randrange(1, 2_000))))
    ends = Ends(ports=(40_000 + number % 3, rng.choice((11_210, 12_001))), isns=isns)
    conversation = Conversation(ends)
    if rng.random() < 0.8:
        conversation.open()
    for opaque in range(rng.randrange(1, 4)):
        conversation.send(CLIENT, noop(opaque), mss=rng.choice((1448, 10)))
        items = rng.randrange(1, 12)
        pushed = [
            mutation(opaque, opaque, seqno, b"k%d" % seqno, bytes(rng.randrange(0, 900))) for seqno in range(1, items)
        ]
        first = stream_answer(opaque), marker(opaque, opaque, 1, items)
        conversation.send(SERVER, *first, *pushed, mss=rng.choice((1448, 536, 40)))
    if rng.random() < 0.5:
        conversation.close(rng.choice((CLIENT, SERVER)), rng.choice((1, RST)))
    return conversation


def damaged(rng: random.Random, packets: list[Wire], streams: tuple[bytearray, bytearray]) -> list[Wire]:
    """Do something to the packets of one connection."""
    for _ in range(rng.choice((0, 0, 1, 2, 5))):
        if len(packets) < 3:
            break
        index = rng.randrange(len(packets))
        place = min(index + rng.randrange(1, 8), len(packets) - 1)
        what = rng.randrange(6)
        if what == 0:
            packets = drop(packets, index)
        elif what in (1, 2):
            packets = move(packets, index, place)
        elif what == 3:
            packets = duplicate(packets, index, place)
        elif what == 4 and packets[index].data and not packets[index].flags & SYN:
            stream = bytes(streams[packets[index].side])
            packets = widen(packets, index, stream, rng.randrange(60), rng.randrange(60), rng.choice((0, 0x55)))
        elif rng.random() < 0.2:
            packets = snap(packets, rng.randrange(20, 200))
    return packets


def interleaved(rng: random.Random, runs: list[list[Wire]]) -> list[Wire]:
    """Mix connections, each in its own order; those of the same ports one after the other, or it is no reuse."""
    lanes: dict[tuple[int, int], list[Wire]] = {}
    for run in runs:
        if run:
            lanes.setdefault(run[0].ends.ports, []).extend(run)
    waiting = [lane for lane in lanes.values() if lane]
    mixed: list[Wire] = []
    while waiting:
        lane = rng.choice(waiting)
        count = rng.randrange(1, 6)
        mixed += lane[:count]
        del lane[:count]
        waiting = [lane for lane in waiting if lane]
    return mixed


@given(seed=st.integers(0, 2**32), tight=st.booleans(), chunk=st.sampled_from(CHUNKS), files=st.integers(1, 3))
def test_any_fault_any_chunk(seed: int, tight: bool, chunk: int, files: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - faults, not secrets
    talks = [talk(rng, number) for number in range(rng.randrange(1, 6))]
    runs = [damaged(rng, list(each.packets), each.streams) for each in talks]
    packets = interleaved(rng, runs)
    cuts = sorted(rng.randrange(len(packets) + 1) for _ in range(files - 1))
    bounds = [0, *cuts, len(packets)]
    parts = [pcap(packets[begin:end], begin) for begin, end in itertools.pairwise(bounds) if end > begin]
    options = ReadOptions(limits=TIGHT if tight else Limits(), values=True, separate=rng.random() < 0.2)
    if parts:
        assert_same(parts, options, [chunk])
