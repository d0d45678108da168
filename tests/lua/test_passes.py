"""Wireshark goes over a capture more than once: the plugin says the same about every packet on each pass.

The first of two passes has fields of TCP only where a filter asks for any, so both kinds are tried. And what the
built-in dissector says beside the plugin is what it says alone.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from analysis.check.inspection import check
from analysis.codegen.lua_rules import CHECKED
from analysis.rules import RULE_BY_ID
from dissector.codegen.lua_fields import OF_FRAME, OF_STATE
from tests.support.plugin import ROOT, can_be_merged, merge, messages, packets_of, tshark
from tests.support.wiresharks import FULL
from uprscope.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("wireshark")

CLEAN = sorted((ROOT / "captures" / "clean").glob("*.pcapng"))
#: The packet of an answer is not known yet when the question is shown in a single pass.
LATER = {"response_in"}
#: Documents hold line ends.
TEXTS = {"key", "text", "document", "xattr.name", "xattr.value", "record.key"}
GENERATED = [f"upr.{field.name}" for field in (*OF_FRAME, *OF_STATE) if field.name not in LATER | TEXTS]
PASSES = {"without fields": ("-2",), "with fields": ("-2", "-R", "tcp")}
BUILT_IN = ["couchbase.magic", "couchbase.opcode", "couchbase.extras.by_seqno", "couchbase.vbucket", "couchbase.status"]
SAME = {
    "magic": "magic",
    "opcode": "opcode",
    "key.length": "key_length",
    "extras.length": "extras_length",
    "datatype": "datatype",
    "total_bodylength": "body_length",
    "cas": "cas",
    "vbucket": "vbucket",
    "status": "status",
    "extras.by_seqno": "by_seqno",
    "extras.rev_seqno": "rev_seqno",
    "extras.lock_time": "lock_time",
    "extras.nmeta": "nmeta",
    "extras.nru": "nru",
}
PLACES = ("-o", "upr.places:TRUE")
NUMBERS = {
    f"upr.{name}" for name in ("magic", "opcode", "vbucket", "body_length", "opaque", "by_seqno", "nmeta", "nru")
}
OURS = ["upr.opcode", "upr.by_seqno", "upr.key", "upr.stream", "upr.outstanding", "upr.name"]


def fields_of(capture: Path, names: Sequence[str], *arguments: str, plugin: bool = True) -> dict[int, list[str]]:
    """Return the values of fields by packet."""
    columns = [part for name in ("frame.number", *names) for part in ("-e", name)]
    if plugin:
        text = tshark(capture, "-T", "fields", *columns, *arguments)
    else:
        text = tshark(capture, "-T", "fields", *columns, *arguments, plugin=None)
    lines = (line.split("\t") for line in text.splitlines())
    return {int(number): values for number, *values in lines if any(values)}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("lua") / "clean.pcap"
    merge(CLEAN, target)
    return target


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("lua")
    found = []
    for name, trouble in {"loss": ("--loss", "0.05"), "reorder": ("--reorder", "0.05")}.items():
        found.append(folder / f"{name}.pcapng")
        assert main(["generate", "multiplex", "--frames", "1500", *trouble, "-o", str(found[-1])]) == 0
    return found


@pytest.mark.parametrize("passes", PASSES)
def test_later_passes_show_what_the_first_one_found(passes: str, library: Path, troubled: list[Path]) -> None:
    for capture in (library, *troubled):
        once = fields_of(capture, GENERATED)
        again = fields_of(capture, GENERATED, *PASSES[passes])
        if capture.stem == "reorder":
            # Since 4.6, bytes that complete a message of a later packet are no longer in their own packet then.
            for values in (*once.values(), *again.values()):
                values[GENERATED.index("upr.unsynced")] = ""
            once, again = ({n: v for n, v in each.items() if any(v)} for each in (once, again))
        assert {number for number in {*once, *again} if once.get(number) != again.get(number)} == set()
        assert len(once) > 100
        for state in ("upr.snapshot_end", "upr.previous_seqno", "upr.window", "upr.era"):
            assert any(values[GENERATED.index(state)] for values in once.values()), state


@pytest.mark.parametrize("passes", PASSES)
def test_two_passes_raise_no_alarm_where_bytes_are_missing(passes: str, troubled: list[Path]) -> None:
    for capture in troubled:
        report = tshark(capture, *PASSES[passes], "-q", "-z", "expert")
        alarms = [line for line in report.splitlines() if " UPR " in line and "Bytes skipped" not in line]
        assert alarms == []


@pytest.mark.parametrize("passes", PASSES)
def test_two_passes_raise_the_alarms_of_one(passes: str) -> None:
    broken = ROOT / "captures" / "broken" / "SEQ-01-repeated.pcapng"
    assert "SEQ-01: seqno" in tshark(broken, *PASSES[passes], "-q", "-z", "expert")


def alarms(report: str) -> list[str]:
    """Return the lines of an expert report that are about rules: number, and what is wrong."""
    return sorted(line for line in report.splitlines() if re.search(r" UPR +[A-Z]{3}-\d\d: ", line))


@pytest.mark.parametrize("checks", ["TRUE", "FALSE"] if FULL else ["TRUE"])
def test_what_nobody_looks_at_is_read_like_what_is_shown(checks: str, tmp_path: Path, troubled: list[Path]) -> None:
    """Frames that no filter asks about are taken many at a time: the same alarms, counts and words come of it."""
    broken = [path for path in sorted((ROOT / "captures" / "broken").glob("*.pcapng")) if can_be_merged(path)]
    both = tmp_path / "both.pcap"
    merge([*CLEAN, *broken], both)
    preference = ("-o", f"upr.checks:{checks}")
    watched = (*preference, "-Y", "frame || upr.opcode")
    for capture in (both, *troubled):
        assert tshark(capture, *preference) == tshark(capture, *watched)
        counts = ("-q", "-z", "upr,streams", "-z", "upr,connections")
        assert tshark(capture, *preference, *counts) == tshark(capture, *watched, *counts)
        found, shown = (alarms(tshark(capture, *how, "-q", "-z", "expert")) for how in (preference, watched))
        assert found == shown
        assert (len(found) > 50) == (checks == "TRUE" and capture == both)


def test_so_many_frames_are_kept_and_the_end_is_told_once() -> None:
    basic = ROOT / "captures" / "clean" / "basic.pcapng"
    limit = ("-o", "upr.kept:40")
    whole = fields_of(basic, ["upr.previous_seqno", "upr.snapshot_end"], "-2", "-R", "tcp")
    kept = fields_of(basic, ["upr.previous_seqno", "upr.snapshot_end"], "-2", "-R", "tcp", *limit)
    (told,) = fields_of(basic, ["upr.expert.kept"], "-2", "-R", "tcp", *limit)
    assert {number: values for number, values in kept.items() if number < told} == {
        number: values for number, values in whole.items() if number < told
    }
    assert not [number for number in kept if number > told]
    assert [number for number in whole if number > told]
    once = fields_of(basic, ["upr.previous_seqno", "upr.snapshot_end"], *limit)
    assert once == fields_of(basic, ["upr.previous_seqno", "upr.snapshot_end"])


def test_beside_both_say_what_they_say_alone(library: Path) -> None:
    both = fields_of(library, [*BUILT_IN, *OURS], "-o", "upr.where:beside")
    ours = fields_of(library, OURS)
    theirs = fields_of(library, BUILT_IN, plugin=False)
    count = len(BUILT_IN)
    assert {number: values[count:] for number, values in both.items() if any(values[count:])} == ours
    assert {number: values[:count] for number, values in both.items() if any(values[:count])} == theirs
    assert len(theirs) > 500
    wanted = "couchbase.opcode == 0x57"  # nobody asks for a field of the plugin's
    beside = fields_of(library, ["frame.len"], "-o", "upr.where:beside", "-Y", wanted)
    assert beside == fields_of(library, ["frame.len"], "-Y", wanted, plugin=False)


def test_the_built_in_dissector_says_the_same_where_it_is_right(library: Path) -> None:
    """Of packets whose messages it takes for what they are: no early dialects, no markers of version 2.2.

    Seqno acks (0x61) have their seqno under the same name there, commits and aborts (0x62, 0x63) under another.
    """
    sound = '!_ws.malformed && upr && !(upr.dialect != "dcp") && !(upr.opcode in {0x61, 0x62, 0x63})'
    theirs, ours = [f"couchbase.{name}" for name in SAME], [f"upr.{name}" for name in SAME.values()]
    both = fields_of(library, [*theirs, *ours], "-o", "upr.where:beside", "-Y", sound)
    unlike = {
        (number, name): (one, other)
        for number, values in both.items()
        for name, one, other in zip(theirs, values, values[len(theirs) :], strict=False)
        if [int(each, 0) for each in one.split(",") if each] != [int(each, 0) for each in other.split(",") if each]
    }
    assert unlike == {}
    assert len(both) > 500
    assert all(any(values[column] for values in both.values()) for column in range(2 * len(SAME)))


def places(capture: Path, *arguments: str) -> Iterator[tuple[str, str, int, str]]:
    """Yield of every number of every message its name, what is shown, and its size and bytes in the packet."""
    text = tshark(capture, "-T", "pdml", *arguments)
    for packet in ElementTree.fromstring(text):  # noqa: S314 - made by tshark, here
        for message in packet.iterfind("proto[@name='upr']"):
            for field in message.iterfind("field"):
                if field.get("name") in NUMBERS:
                    yield (
                        field.get("name", ""),
                        field.get("show", ""),
                        int(field.get("size", 0)),
                        field.get("value", ""),
                    )


@pytest.mark.parametrize("name", ["basic", "collections", "early-upr"])
def test_places_of_numbers_are_told_where_asked_for(name: str) -> None:
    capture = ROOT / "captures" / "clean" / f"{name}.pcapng"
    usual, asked = list(places(capture)), list(places(capture, *PLACES))
    assert [each[:2] for each in usual] == [each[:2] for each in asked]
    assert {size for _, _, size, _ in asked} == {1, 2, 4, 8}
    assert all(int(show, 0) == int(value, 16) for _, show, _, value in asked)
    assert any(not size for _, _, size, _ in usual)
    assert all(not size or (size, value) == other[2:] for (_, _, size, value), other in zip(usual, asked, strict=True))
    assert messages(capture) == messages(capture, *PLACES)


def ends(packet: bytes) -> tuple[bytes, bytes, int, int, bytes]:
    """Return the ports, the place behind the last byte, the acked place and the payload of a packet."""
    tcp = 14 + (packet[14] & 15) * 4
    start, acked = struct.unpack_from(">II", packet, tcp + 4)
    payload = packet[tcp + (packet[tcp + 12] >> 4) * 4 : 14 + int.from_bytes(packet[16:18], "big")]
    return packet[tcp : tcp + 2], packet[tcp + 2 : tcp + 4], (start + len(payload)) % (1 << 32), acked, payload


def with_late_acks(path: Path, target: Path) -> int:
    """Put buffer acks behind a message whose sender had received them, as a capture of two interfaces may have them."""
    packets = packets_of(path)
    order = [data for _, data, _ in packets]
    moved, index = 0, 0
    while index < len(order):
        source, sink, end, _, payload = ends(order[index])
        for later in range(index + 1, min(index + 6, len(order)) if payload[:2] == b"\x80\x5d" else 0):
            other, receiver, _, acked, answer = ends(order[later])
            if (other, receiver) == (sink, source) and answer and (acked - end) % (1 << 32) < 1 << 31:
                order[index : later + 1] = [*order[index + 1 : later + 1], order[index]]
                moved, index = moved + 1, later
                break
        index += 1
    with target.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for (time, _, _), data in zip(packets, order, strict=True):
            micros = round(time * 1_000_000)
            file.write(struct.pack("<IIII", micros // 1_000_000, micros % 1_000_000, len(data), len(data)) + data)
    return moved


@pytest.mark.parametrize("name", ["clean/flow-control.pcapng", "clean/late-window.pcapng", "02_flow_control.pcap"])
def test_acks_that_were_captured_late_are_no_violation(name: str, tmp_path: Path) -> None:
    """The producer had heard of the freed bytes, as its own TCP acks say, before the capture shows who freed them."""
    late = tmp_path / "late.pcap"
    assert with_late_acks(ROOT / "captures" / name, late) > 0
    rules = [name for name in CHECKED if name.startswith("FLC")]
    items = (f"upr.expert.{name.lower().replace('-', '_')}" for name in rules)
    assert tshark(late, "-Y", " || ".join(items)) == ""
    assert check(str(late), rules=[RULE_BY_ID[name] for name in rules]).findings == []
