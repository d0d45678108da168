"""Every capture in every Wireshark, in every form that tshark prints: the messages are those of the dissector.

No output may have a word of Lua's about an error. A run of the tests has each recording, and one in three of those
that are made, in the newest Wireshark and one of the others, in one form each; which ones changes from capture to
capture. ``make sweep`` has all.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from dissector.frames.reader import FrameReader
from tests.lua.test_agreement import LATE, LOSSY, ORDERED, REORDERED, SNAPPED, differences, in_packets
from tests.support.hostile import LEVELS, case_of
from tests.support.plugin import PLUGIN, ROOT, messages, tshark
from tests.support.tcp_by_hand import Row, read_rows
from tests.support.wiresharks import FULL, SUITES, InUse, seen_by_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("wireshark")

EVERY = sorted(path for path in (ROOT / "captures").rglob("*.pcap*") if path.suffix in {".pcap", ".pcapng"})
MADE = ("clean", "broken", "bugs")
LIBRARY = [path for number, path in enumerate(EVERY) if FULL or path.parent.name not in MADE or number % 3 == 0]
SHARES = 12
#: Captures in which TCP does not hand over what the dissector finds, or not in the same packets.
UNLIKE = {*LOSSY, *SNAPPED, *REORDERED, *LATE, "rough"}
#: The plugin finds the first message of every packet that was cut; the dissector passes over those of packets that hold
#: several.
UNLIKE |= {"opq04_snaplen128"}
DATA = {"mutation", "deletion", "expiration", "system_event", "prepare", "commit", "abort", "seqno_advanced"}


def drafted(rows: list[Row]) -> bool:
    return any(row["dialect"] == "draft" for row in rows)


def as_json(path: Path, rows: list[Row], *arguments: str) -> list[str]:
    return differences({number: each for number, each in messages(path, *arguments).items() if each}, rows)


def as_json_twice(path: Path, rows: list[Row], *arguments: str) -> list[str]:
    return as_json(path, rows, "-2", *arguments)


def as_fields(path: Path, rows: list[Row], *arguments: str) -> list[str]:
    """Names and opcodes by packet: from 4.4 on, only these fields are made."""
    text = tshark(
        path,
        "-T",
        "fields",
        *("-e", "frame.number", "-e", "upr.name", "-e", "upr.opcode", "-e", "upr.opaque"),
        *arguments,
    )
    lines = (line.split("\t") for line in text.splitlines())
    found = {int(number): rest for number, *rest in lines if any(rest)}
    expected = {
        packet: [
            ",".join(each["name"] for each in group),
            ",".join(f"0x{each['opcode']:02x}" for each in group),
            ",".join(f"0x{each['opaque']:08x}" for each in group),
        ]
        for packet, group in in_packets(rows).items()
    }
    return [
        f"packet {packet}: {found.get(packet)}, {expected.get(packet)}"
        for packet in sorted({*found, *expected})
        if found.get(packet) != expected.get(packet) and not drafted(rows)
    ]


def as_tree(path: Path, rows: list[Row], *arguments: str) -> list[str]:
    text = tshark(path, "-V", *arguments)
    found = Counter(re.findall(r"^Couchbase UPR/DCP replication, (\w+)", text, re.MULTILINE))
    expected = Counter(row["name"] for row in rows)
    return [] if found == expected or drafted(rows) else [f"{found - expected} / {expected - found}"]


def as_list(path: Path, rows: list[Row], *arguments: str) -> list[str]:
    """Runs of messages of one name, each with its count, in the order of the packet."""
    shown = {int(line.split(None, 1)[0]): line for line in tshark(path, *arguments).splitlines() if line.strip()}
    found = []
    for packet, group in in_packets(rows).items():
        runs = [
            (name, len(list(run)))
            for (name, _), run in itertools.groupby(group, key=lambda row: (row["name"], bool(row["response"])))
        ]
        line, at = shown.get(packet, ""), 0
        for words in (each for name, count in runs[:12] for each in (name, f" … x{count}" if count > 1 else "")):
            at = line.find(words, at) if at >= 0 else at
        if at < 0 and not drafted(rows):
            found.append(f"packet {packet}: {line}, {runs}")
    return found


def table(text: str) -> list[dict[str, str]]:
    """Read a table that ends with an empty line; its last column may have no words."""
    lines = text.partition("\n\n")[0].splitlines()
    names = lines[0].replace("last seqno", "last_seqno").split()
    return [dict(zip(names, line.split(), strict=False)) for line in lines[1:]]


def streams(path: Path, rows: list[Row], *arguments: str) -> list[str]:
    """Changes by vbucket."""
    text = tshark(path, "-q", "-z", "upr,streams", *arguments)
    found: Counter[int] = Counter()
    for each in table(text):
        found[int(each["vbucket"])] += int(each["changes"])
    expected = Counter(
        row["vbucket"]
        for row in rows
        if row["name"] in DATA and row["by_seqno"] is not None and not row["response"] and not row["missing"]
    )
    damaged = drafted(rows) or any(row["defects"] for row in rows)
    return [] if +found == expected or damaged else [f"{found - expected} / {expected - found}"]


def connections(path: Path, rows: list[Row], *arguments: str) -> list[str]:
    text = tshark(path, "-q", "-z", "upr,connections", *arguments)
    frames = sum(int(re.split(r" +", line.strip())[-3]) for line in text.partition("\n\n")[0].splitlines()[1:])
    return [] if frames == len(rows) else [f"{frames} frames, {len(rows)}"]


FORMS: tuple[Callable[..., list[str]], ...] = (
    as_json,
    as_fields,
    as_tree,
    as_json_twice,
    streams,
    connections,
    as_list,
)


def unlike(paths: list[tuple[int, Path]]) -> dict[str, list[str]]:
    """Return what differs, by capture and form."""
    found = {}
    turn = list(SUITES).index(InUse.wireshark.version)
    for number, path in paths:
        if not InUse.takes(number):
            continue
        rows = read_rows(path, FrameReader)
        forms = FORMS if FULL else [FORMS[(number + turn) % len(FORMS)]]
        torn = re.search("lost|snaplen", path.stem) is not None
        if "lost" in path.stem:
            rows = [row for row in rows if not row["missing"]]
        ordered = () if torn or path.stem in UNLIKE else ORDERED
        for form in forms:
            lines = form(path, rows, *ordered)
            if lines and path.stem not in UNLIKE:
                found[f"{path.name} {form.__name__}"] = lines[:3]
    return found


@pytest.mark.parametrize("share", range(SHARES))
def test_the_library(share: int) -> None:
    assert unlike(list(enumerate(LIBRARY))[share::SHARES]) == {}


@pytest.mark.shared
def test_captures_beside_the_checkout(shared_dir: Path) -> None:
    known = {path.name for path in EVERY}
    beside = [
        path for path in sorted((shared_dir / "captures").rglob("*.pcap*")) if path.suffix in {".pcap", ".pcapng"}
    ]
    assert unlike([(number, path) for number, path in enumerate(beside) if path.name not in known]) == {}


@pytest.mark.parametrize("level", LEVELS)
def test_hostile_captures_make_no_error(level: str, tmp_path: Path) -> None:
    """tshark may refuse a file or stop in it; the plugin only ever has a note."""
    for seed in range(40 if FULL else 8):
        for number, data in enumerate(case_of(level, seed).captures):
            path = tmp_path / f"{seed}-{number}.pcap"
            path.write_bytes(data)
            form = (("-V",), ("-T", "json"), ("-2",), ("-q", "-z", "upr,streams"))[seed % 4]
            done = InUse.wireshark.run("-X", f"lua_script:{seen_by_all(PLUGIN)}", "-r", path, *form)
            assert "lua" not in done.stderr.lower(), (level, seed)
            assert "Lua Error" not in done.stdout, (level, seed)
            assert done.returncode >= 0, (level, seed, "killed by a signal")
