"""The plugin's expert items are the findings of the check: the same rules on the same packets, over the whole library.

A finding stands for all that goes back to the same cause; the plugin shows each of them. So every finding has an item
in its guilty frame's packet, and there are as many items of a rule as findings and their echoes together.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from analysis.check.inspection import check
from analysis.codegen.lua_rules import CHECKED
from analysis.rules import RULE_BY_ID
from tests.support.plugin import ROOT, Part, can_be_merged, merge, tshark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.wiresharks import Wireshark

pytestmark = pytest.mark.usefixtures("wireshark")

CLEAN = sorted((ROOT / "captures" / "clean").glob("*.pcapng"))
BROKEN = sorted((ROOT / "captures" / "broken").glob("*.pcapng"))
RECORDED = sorted((*(ROOT / "captures").glob("*.pcap"), *(ROOT / "captures").glob("*.pcapng")))
ROUGH = sorted((*(ROOT / "captures" / "rough").glob("*.pcap"), *(ROOT / "captures" / "rough").glob("*.pcapng")))
UNORDERED = {"lossy", "snaplen", "07a_snaplen96"}
ORDERED = ("-o", "tcp.reassemble_out_of_order:TRUE")
_RULE = re.compile(r"[A-Z]{3}-\d\d(?=: )")
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


def findings_of(path: Path) -> tuple[Items, Counter[str]]:
    """Return the check's findings by the packet of the guilty frame, and how many violations of each rule there are."""
    rules = [RULE_BY_ID[name] for name in CHECKED]
    inspection = check(str(path), rules=rules)
    guilty: Items = {}
    totals: Counter[str] = Counter()
    for finding in inspection.findings:
        guilty.setdefault(finding.guilty.packet_last, Counter())[finding.rule] += 1
        totals[finding.rule] += 1 + finding.echoes
    return guilty, totals


def unlike(items: Items, path: Path) -> list[str]:
    """Return a line for everything that plugin and check do not agree about."""
    guilty, totals = findings_of(path)
    lines = [
        f"{path.stem}: packet {packet} has {dict(rules - items.get(packet, Counter()))} in the check only"
        for packet, rules in guilty.items()
        if rules - items.get(packet, Counter())
    ]
    shown: Counter[str] = sum(items.values(), Counter())
    if shown != totals:
        lines.append(f"{path.stem}: plugin {dict(shown)}, check {dict(totals)}")
    return lines


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
    alarms = {path.stem: unlike(generated[path], path) for path in CLEAN}
    assert {name: lines for name, lines in alarms.items() if lines} == {}


def test_broken_captures_raise_the_same_alarms(generated: dict[Path, Items]) -> None:
    assert [line for path in BROKEN for line in unlike(generated[path], path)] == []


def test_recorded_and_rough_captures(tmp_path: Path) -> None:
    together = [path for path in (*RECORDED, *ROUGH) if path.stem not in UNORDERED and can_be_merged(path)]
    parts = merge(together, tmp_path / "recorded.pcap")
    items = by_capture(items_of(tmp_path / "recorded.pcap", *ORDERED), parts)
    for path in (*RECORDED, *ROUGH):
        if path not in items:
            items[path] = items_of(path, *(() if path.stem in UNORDERED else ORDERED))
    assert [line for path, found in items.items() for line in unlike(found, path)] == []
    assert len(together) > 10
