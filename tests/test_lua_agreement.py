"""The Wireshark plugin shows the same messages, with the same values, as the rows of the dissector.

Every field of every message of every capture is held against its column. Both read captures from the same bytes, but
share no code: the plugin is Lua in tshark, with Wireshark's reassembly.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from lua_support import ROOT, Message, by_part, listed, merge, messages
from support import Row, read_rows

from dissector.frames import FIELD_COLUMNS, NO_END, TEXT_LIMIT, UNSIGNED
from dissector.pipeline import FrameReader

pytestmark = pytest.mark.tool("tshark")

#: TCP hands bytes over in order where nothing is lost; where something is, it would wait for ever.
ORDERED = ("-o", "tcp.reassemble_out_of_order:TRUE")
NUMBERS = (
    *("magic", "opcode", "vbucket", "status", "subtype", "datatype", "framing_length", "extras_length", "key_length"),
    *("value_length", "body_length", "opaque", "opaque_swapped", "cas", "flow_bytes", "stream_id", "collection_id"),
    *(column.name for column in FIELD_COLUMNS),
)


def number(message: Message, name: str) -> int | None:
    """Return a field's number as its column has it."""
    found = listed(message.get(f"upr.{name}"))
    if not found:
        return None
    value = int(found[-1], 0)
    if value > NO_END:
        return value - (1 << 64) if name in UNSIGNED else NO_END
    return value


def shown(message: Message) -> dict[str, object]:
    """Return a message of the plugin as a row."""
    found: dict[str, object] = {name: number(message, name) for name in NUMBERS}
    key = message.get("upr.key_bytes")
    found |= {
        "name": message["upr.name"],
        "dialect": message["upr.dialect"],
        "response": message["upr.response"] == "1",
        "key": None if key is None else bytes.fromhex(key.replace(":", "")),
        "defects": sorted(listed(message.get("upr.defect"))),
        "missing": number(message, "missing") or 0,
    }
    uuids, seqnos = listed(message.get("upr.failover_log.vbucket_uuid")), listed(message.get("upr.failover_log.seqno"))
    found["failover_log"] = [(int(uuid, 0), int(seqno)) for uuid, seqno in zip(uuids, seqnos, strict=True)]
    found["features"] = [int(each, 0) for each in listed(message.get("upr.feature"))]
    return found


def told(row: Row) -> dict[str, object]:
    """Return a row in the same form."""
    found: dict[str, object] = {name: row[name] for name in (*NUMBERS, "name", "dialect", "response", "key", "missing")}
    found["defects"] = sorted(row["defects"])
    log = row["failover_log"] or []
    found["failover_log"] = [(each["vbucket_uuid"] % (1 << 64), each["seqno"]) for each in log]
    found["features"] = row["features"] or []
    return found


def in_packets(rows: list[Row]) -> dict[int, list[Row]]:
    """Return rows by the packet that the plugin shows them in: where the last byte came, or where they were cut."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["packet_first"] if row["missing"] else row["packet_last"]].append(row)
    return {packet: sorted(each, key=lambda row: row["start_offset"]) for packet, each in found.items()}


def differences(plugin: dict[int, list[Message]], rows: list[Row]) -> list[str]:
    """Return a line for everything that is not the same."""
    lines = []
    expected = in_packets(rows)
    for packet in sorted(set(plugin) | set(expected)):
        theirs = [shown(each) for each in plugin.get(packet, []) if "upr.magic" in each]
        ours = [told(each) for each in expected.get(packet, [])]
        if [each["name"] for each in theirs] != [each["name"] for each in ours]:
            names = [each["name"] for each in theirs], [each["name"] for each in ours]
            lines.append(f"packet {packet}: plugin {names[0]}, rows {names[1]}")
            continue
        for one, other in zip(theirs, ours, strict=True):
            unlike = {name: (one[name], other[name]) for name in one if one[name] != other[name]}
            if unlike:
                lines.append(f"packet {packet} {other['name']}: {unlike}")
    return lines
