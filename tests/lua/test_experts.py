"""The plugin's expert items are the findings of the check: the same rules on the same packets, over the whole library.

Where something is missing from a capture the plugin may say less, for it can't wait for what comes later. It never says
more.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from analysis.check.inspection import check
from analysis.codegen.lua_rules import CHECKED
from analysis.rules import RULE_BY_ID
from tests.support.paths import ROOT
from tests.support.plugin import Part, can_be_merged, carrying, leave_out, merge, tshark
from tests.support.wiresharks import FULL, SUITES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.support.wiresharks import Wireshark

pytestmark = pytest.mark.usefixtures("wireshark")

CLEAN = sorted((ROOT / "captures" / "clean").glob("*.pcapng"))
BROKEN = sorted((ROOT / "captures" / "broken").glob("*.pcapng"))
RECORDED = sorted((*(ROOT / "captures").glob("*.pcap"), *(ROOT / "captures").glob("*.pcapng")))
ROUGH = sorted((*(ROOT / "captures" / "rough").glob("*.pcap"), *(ROOT / "captures" / "rough").glob("*.pcapng")))
DEFECTS = sorted((ROOT / "tests" / "data" / "defects").glob("*.pcap"))
UNORDERED = {"lossy", "snaplen", "07a_snaplen96", "opq04_snaplen128", "snp07_snaplen128"}
ORDERED = ("-o", "tcp.reassemble_out_of_order:TRUE")
#: Captures of which the plugin says less. After a packet that was cut and holds several messages it believes what it
#: finds only when three in a row are whole and legal.
LESS = {"opq04_snaplen128"}
_RULE = re.compile(r"[A-Z]{3}-\d\d(?=: )")
#: The rules that the plugin checks, so that every violation is a finding of its own.
_RULES = [
    dataclasses.replace(
        RULE_BY_ID[name], checks=tuple(dataclasses.replace(each, root=None) for each in RULE_BY_ID[name].checks)
    )
    for name in CHECKED
]
Items = dict[int, Counter[str]]  #: by packet


def items_of(capture: Path, *arguments: str) -> Items:
    """Return the rules that the plugin reports, by packet; in two passes, for some are about earlier packets."""
    text = tshark(
        capture,
        *("-2", "-o", "upr.inspect:TRUE", "-Y", "upr && _ws.expert", "-T", "fields", "-E", "aggregator=|"),
        *("-e", "frame.number", "-e", "_ws.expert.message", *arguments),
    )
    found: Items = {}
    for line in text.splitlines():
        number, _, words = line.partition("\t")
        rules = Counter(_RULE.findall(words))
        if rules:
            found[int(number)] = rules
    return found


def findings_of(path: Path) -> Items:
    """Return the check's findings by the packet of the guilty frame."""
    found: Items = {}
    for finding in check(str(path), rules=_RULES, limit=1_000_000).findings:
        found.setdefault(finding.guilty.packet_last, Counter())[finding.rule] += 1
    return found


def unlike(items: Items, path: Path, findings: Items, *, less: bool = False) -> list[str]:
    """Return a line for everything that plugin and check do not agree about; the plugin may say ``less``."""
    lines = []
    for packet in sorted({*items, *findings}):
        plugin, checked = items.get(packet, Counter()), findings.get(packet, Counter())
        if plugin - checked:
            lines.append(f"{path.stem}: packet {packet} has {dict(plugin - checked)} in the plugin only")
        if checked - plugin and not less:
            lines.append(f"{path.stem}: packet {packet} has {dict(checked - plugin)} in the check only")
    return lines


def differences(items: dict[Path, Items], paths: Iterable[Path]) -> list[str]:
    """Return what plugin and check do not agree about, over captures."""
    return [line for path in paths for line in unlike(items[path], path, findings_of(path), less=path.stem in LESS)]


def by_capture(items: Items, parts: list[Part]) -> dict[Path, Items]:
    """Take a merged capture's items apart again."""
    return {
        part.path: {
            number: items[part.before + number] for number in range(1, part.count + 1) if part.before + number in items
        }
        for part in parts
    }


@pytest.fixture(scope="module")
def generated(wireshark: Wireshark, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Items]:
    target = tmp_path_factory.mktemp(f"lua-{wireshark.version}") / "generated.pcap"
    parts = merge([*CLEAN, *BROKEN], target)
    return by_capture(items_of(target), parts)


def test_clean_captures_raise_no_alarm(generated: dict[Path, Items]) -> None:
    assert differences(generated, CLEAN) == []


def test_broken_captures_raise_the_same_alarms(generated: dict[Path, Items]) -> None:
    assert differences(generated, BROKEN) == []


def read_in_turn(paths: list[Path], target: Path) -> dict[Path, Items]:
    """Read captures: together those that one run of tshark can read, each of the others by itself."""
    together = [path for path in paths if path.stem not in UNORDERED and can_be_merged(path)]
    parts = merge(together, target)
    items = by_capture(items_of(target, *ORDERED), parts)
    for path in paths:
        if path not in items:
            items[path] = items_of(path, *(() if path.stem in UNORDERED else ORDERED))
    return items


def test_recorded_and_rough_captures(tmp_path: Path) -> None:
    items = read_in_turn([*RECORDED, *ROUGH], tmp_path / "recorded.pcap")
    assert differences(items, items) == []
    assert len(items) > 20


def test_captures_of_which_the_check_was_wrong(tmp_path: Path) -> None:
    items = read_in_turn(DEFECTS, tmp_path / "defects.pcap")
    assert differences(items, items) == []
    wrong_form = next(each for path, each in items.items() if path.stem == "frm03_streamreq40")
    assert wrong_form[8]["FRM-03"] == 1
    # The first message of a packet that was cut, which the check has too.
    cut = next(each for path, each in items.items() if path.stem == "opq04_snaplen128")
    assert sum(cut.values(), Counter())["FRM-01"] > 10


def one_packet(count: int, chance: random.Random) -> set[int]:
    """One is lost, and it may be one that sets things up."""
    return {chance.randrange(min(count, chance.choice((14, count))))}


def some_packets(count: int, chance: random.Random) -> set[int]:
    return set(chance.sample(range(count), min(count, 3)))


def the_beginning(count: int, chance: random.Random) -> set[int]:
    return set(range(int(count * chance.choice((0.1, 0.15, 0.3, 0.5)))))


#: What is lost of a capture, given the number of its packets that carry something; in each Wireshark another kind.
LOSSES: tuple[Callable[[int, random.Random], set[int]], ...] = (one_packet, some_packets, the_beginning)


@pytest.mark.parametrize("seed", range(2 if FULL else 1))
def test_after_a_loss_the_plugin_says_nothing_that_the_check_does_not_say(
    wireshark: Wireshark, tmp_path: Path, seed: int
) -> None:
    lose = LOSSES[(list(SUITES).index(wireshark.version) + seed) % len(LOSSES)]
    damaged = []
    for path in (*CLEAN, *BROKEN, *DEFECTS):
        if can_be_merged(path):
            chance = random.Random(f"{seed} {path.stem}")  # noqa: S311 - repeatable
            places = carrying(path)
            lost = {places[index] for index in lose(len(places), chance)}
            if lose is the_beginning:
                lost = set(range(max(lost, default=0)))
            damaged.append(tmp_path / f"{path.stem}.pcap")
            leave_out(path, lost, damaged[-1])
    parts = merge(damaged, tmp_path / "damaged.pcap")
    items = by_capture(items_of(tmp_path / "damaged.pcap"), parts)
    findings = {path: findings_of(path) for path in damaged}
    assert [line for path in damaged for line in unlike(items[path], path, findings[path], less=True)] == []
    shown, found = (sum((sum(each.values(), Counter()) for each in of.values()), Counter()) for of in (items, findings))
    assert shown.total() > 0.8 * found.total()
    assert found.total() > 60
