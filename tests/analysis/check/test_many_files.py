"""A check of several files: what are different connections never share anything, however alike they are."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from analysis.check.inspection import Inspection, check
from dissector.options import ReadOptions
from tests.support.paths import ROOT

DEFECTS = ROOT / "tests" / "data" / "defects"
SAME = [DEFECTS / "separate_a.pcap", DEFECTS / "separate_b.pcap"]
SEPARATE = ReadOptions(separate=True)
#: Made to order, so that all have the same ends and times; and recordings of servers.
MIXED = sorted([*(ROOT / "captures" / "broken").glob("*.pcapng"), *(ROOT / "captures").glob("*.pcap")])


def told(*inspections: Inspection) -> list[tuple[str, str]]:
    """Rules and sentences, without the numbers of frames, which are counted through."""
    found = ((each.rule, each.sentence) for inspection in inspections for each in inspection.findings)
    return sorted((rule, re.sub(r"frame [0-9]+", "frame", sentence)) for rule, sentence in found)


def test_a_recording_that_is_there_twice_is_two_worlds() -> None:
    alone = [check(path, options=SEPARATE) for path in SAME]
    both = check(SAME, options=SEPARATE)
    assert told(both) == told(*alone)
    assert both.connections == sum(each.connections for each in alone)
    assert len({each.id for each in both.findings}) == len(both.findings)


def test_without_being_told_apart_they_do_no_harm() -> None:
    assert check(SAME).frames


@pytest.mark.parametrize("seed", range(4))
def test_files_that_stand_alone_say_what_each_says(seed: int, tmp_path: Path) -> None:
    chosen = random.Random(seed).sample(MIXED, 8)  # noqa: S311 - no secret
    copy = tmp_path / f"again{chosen[0].suffix}"
    copy.write_bytes(chosen[0].read_bytes())
    chosen.append(copy)
    alone = [check(path, options=SEPARATE) for path in chosen]
    assert told(check(chosen, options=SEPARATE)) == told(*alone)


@pytest.mark.parametrize("seed", range(4))
def test_files_that_are_no_ring_do_no_harm(seed: int) -> None:
    chosen = random.Random(seed).sample(MIXED, 12)  # noqa: S311 - no secret
    assert check([*chosen, *chosen[:3]]).frames


def test_all_that_was_made_to_order_at_once() -> None:
    names: list[Path] = [ROOT / "captures" / "broken", ROOT / "captures" / "clean"]
    assert check(names).frames
