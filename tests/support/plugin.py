"""The Wireshark plugin in the real tshark: many captures in one run, and what it says of each message.

Captures are put one behind the other into one file, each with addresses of its own, so that no two share a connection.
A run fails on any word of Lua's about an error: tshark itself ends well whatever a plugin does.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpkt

from tests.support.paths import ROOT
from tests.support.wiresharks import InUse, seen_by_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLUGIN = ROOT / "lua" / "upr.lua"
_IPV4_AT = 14 + 12  #: where the addresses are in an Ethernet frame
Message = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A capture inside a merged one."""

    path: Path
    before: int  #: packets of the captures before it
    count: int


def packets_of(path: Path) -> list[tuple[float, bytes, int]]:
    """Return time, bytes and link type of a capture's packets."""
    with path.open("rb") as file:
        reader = dpkt.pcap.UniversalReader(file)
        return [(float(time), data, reader.datalink()) for time, data in reader]


def can_be_merged(path: Path) -> bool:
    """Whether a capture is whole packets of Ethernet and IPv4, so that others can stand beside it in one file."""
    with path.open("rb") as file:
        reader = dpkt.pcap.UniversalReader(file)
        if reader.datalink() != dpkt.pcap.DLT_EN10MB:
            return False
        for _, data in reader:
            (length,) = struct.unpack_from(">H", data, 16)
            if data[12:14] != b"\x08\x00" or len(data) < 14 + length:
                return False
    return True


def merge(paths: Sequence[Path], target: Path) -> list[Part]:
    """Write captures of Ethernet and IPv4 into one, and say where each of them is in it."""
    parts: list[Part] = []
    total = 0
    with target.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for number, path in enumerate(paths):
            packets = packets_of(path)
            for time, data, link in packets:
                assert link == 1, path
                assert data[12:14] == b"\x08\x00", path
                fresh = bytearray(data)
                for at in (_IPV4_AT, _IPV4_AT + 4):
                    fresh[at + 1], fresh[at + 2] = 1 + number // 250, number % 250
                micros = round(time * 1_000_000)
                file.write(struct.pack("<IIII", micros // 1_000_000, micros % 1_000_000, len(data), len(data)))
                file.write(fresh)
            parts.append(Part(path, total, len(packets)))
            total += len(packets)
    return parts


def carrying(path: Path) -> list[int]:
    """Return which packets of a capture of Ethernet and TCP carry something; they are numbered from 0."""
    packets = (dpkt.ethernet.Ethernet(data) for _, data, _ in packets_of(path))
    return [index for index, packet in enumerate(packets) if len(packet.data.data.data)]


def leave_out(path: Path, lost: set[int], target: Path) -> None:
    """Write a capture without some of its packets, which are numbered from 0."""
    with target.open("wb") as file:
        writer = dpkt.pcap.Writer(file, snaplen=262144)
        for index, (time, data, _) in enumerate(packets_of(path)):
            if index not in lost:
                writer.writepkt(data, time)


def tshark(capture: Path, *arguments: str, plugin: Path | None = PLUGIN, home: Path | None = None) -> str:
    """Run the tshark in use and return what it prints; fail on anything that Lua complains about."""
    script = [] if plugin is None else ["-X", f"lua_script:{seen_by_all(plugin)}"]
    done = InUse.wireshark.run(*script, "-r", capture, *arguments, home=home)
    assert done.returncode == 0, done.stderr
    complaints = [line for line in done.stderr.splitlines() if "lua" in line.lower()]
    assert not complaints, complaints
    for words in ("_ws.lua.error", "Lua Error", "Lua error"):
        assert words not in done.stdout
    return done.stdout


def messages(capture: Path, *arguments: str, plugin: Path = PLUGIN) -> dict[int, list[Message]]:
    """Return every packet's messages as the plugin shows them."""
    text = tshark(
        capture, "-T", "json", "--no-duplicate-keys", "-J", "frame upr _ws.lua.error", *arguments, plugin=plugin
    )
    found: dict[int, list[Message]] = {}
    for packet in json.loads(text):
        layers = packet["_source"]["layers"]
        shown = layers.get("upr", [])
        listed = shown if isinstance(shown, list) else [shown]
        found[int(layers["frame"]["frame.number"])] = [each for each in listed if isinstance(each, dict)]
    return found


def by_part(found: dict[int, list[Message]], parts: Iterable[Part]) -> dict[Path, dict[int, list[Message]]]:
    """Take a merged capture's packets apart again, with their numbers in their own captures."""
    result: dict[Path, dict[int, list[Message]]] = defaultdict(dict)
    for part in parts:
        for number in range(1, part.count + 1):
            if found.get(part.before + number):
                result[part.path][number] = found[part.before + number]
    return result


def listed(value: Any) -> list[str]:
    """Return a field that may come once, several times or not at all as a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
