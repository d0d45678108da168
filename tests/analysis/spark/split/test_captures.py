"""Recorded captures cut into splits anywhere: the rows are those of the single-process reader."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from analysis.spark.read_options import SourceOptions
from dissector.capture import CaptureReader, Input
from tests.support.paths import CAPTURES
from tests.support.split_and_whole import read_both_ways
from tests.support.split_archives import Packet, pcap_file


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_recorded_captures_in_splits(path: Path) -> None:
    data = path.read_bytes()
    for parts in (3, 11):
        found = read_both_ways([data], SourceOptions(values=True, split_bytes=max(len(data) // parts, 100)))
        assert len(found.plan.splits) > 1
        assert found.fallback == set()


@pytest.mark.shared
def test_shared_captures_in_splits(shared_dir: Path) -> None:
    paths = sorted(shared_dir.glob("captures/**/*.pcap*"))
    assert paths
    for path in paths:
        size = path.stat().st_size
        if size > 1 << 21:
            continue
        read_both_ways([path.read_bytes()], SourceOptions(split_bytes=max(size // 7, 100)))


def test_recorded_captures_rotated_at_random() -> None:
    """Captures of different days, in one run and in files that were cut anywhere."""
    chance = Random(5)  # noqa: S311 - repeatable, not secret
    for path in sorted(CAPTURES.glob("*.pcap"))[:6]:
        packets: list[Packet] = []
        linktypes = set()
        with CaptureReader(Input.of(path)) as reader:
            for block in reader:
                linktypes |= set(block.linktype.tolist())
                times = block.time_ns.tolist()
                packets += [Packet(block.packet(at), int(block.original[at]), times[at]) for at in range(len(block))]
        if linktypes != {1}:
            continue
        cuts = sorted(chance.randrange(len(packets)) for _ in range(5))
        files = [pcap_file(packets[a:b]) for a, b in zip([0, *cuts], [*cuts, len(packets)], strict=True)]
        read_both_ways(files, SourceOptions(split_bytes=40_000))
