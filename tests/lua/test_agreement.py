"""The Wireshark plugin shows the same messages, with the same values, as the rows of the dissector.

Every field of every message of every capture is held against its column. Both read captures from the same bytes, but
share no code: the plugin is Lua in tshark, with Wireshark's reassembly.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import cramjam
import pytest

from dissector.frames.reader import FrameReader
from dissector.frames.schema import FIELD_COLUMNS, NO_END, TEXT_LIMIT, UNSIGNED
from dissector.generate.faults.edits import put_after
from dissector.spec import enums
from tests.support import checking
from tests.support.plugin import ROOT, Message, by_part, can_be_merged, listed, merge, messages
from tests.support.tcp_by_hand import Row, read_rows
from tests.support.wiresharks import InUse

if TYPE_CHECKING:
    from tests.support.wiresharks import Wireshark

pytestmark = pytest.mark.usefixtures("wireshark")

#: TCP hands bytes over in order where nothing is lost; where something is, it would wait for ever.
ORDERED = ("-o", "tcp.reassemble_out_of_order:TRUE")
FLEXIBLE = {magic.value for magic in enums.MAGICS if magic.flexible}
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


def plain_key(key: str | None, key_bytes: bytes | None) -> str | None:
    """Return the text of a key where it is plain; what is no plain text the plugin leaves to Wireshark."""
    return key if key and key.isascii() and key.isprintable() and (key_bytes or b"").endswith(key.encode()) else None


def key_of(message: Message) -> bytes | None:
    """Return the key, whose bytes are shown where its text does not tell them."""
    if "upr.key_bytes" in message:
        return bytes.fromhex(message["upr.key_bytes"].replace(":", ""))
    return message["upr.key"].encode("ascii") if "upr.key" in message else None


def shown(message: Message, dialect: str) -> dict[str, object]:
    """Return a message of the plugin as a row; ``dialect`` is the one that was shown last in its packet."""
    found: dict[str, object] = {name: number(message, name) for name in NUMBERS}
    assert (found["framing_length"] is None) == (found["magic"] not in FLEXIBLE)
    found |= {
        "framing_length": found["framing_length"] or 0,
        "name": message["upr.name"],
        "dialect": dialect,
        "response": message.get("upr.response") == "1",
        "key": plain_key(message.get("upr.key"), key_of(message)),
        "key_bytes": key_of(message),
        "defects": sorted(listed(message.get("upr.defect"))),
        "missing": number(message, "missing") or 0,
    }
    uuids, seqnos = listed(message.get("upr.failover_log.vbucket_uuid")), listed(message.get("upr.failover_log.seqno"))
    found["failover_log"] = [(int(uuid, 0), int(seqno)) for uuid, seqno in zip(uuids, seqnos, strict=True)]
    found["features"] = [int(each, 0) for each in listed(message.get("upr.feature"))]
    found["cache_records"] = records_of(message)
    return found


#: What is compared of the records of a cache transfer. Keys with a comma cannot be told from two.
OF_RECORDS = ("collection_id", "by_seqno", "rev_seqno", "cas", "item_flags", "expiration", "datatype", "cache_hint")


def records_of(message: Message) -> list[tuple[object, ...]]:
    """Return the records of a cache transfer: their numbers and the text of their keys.

    Where they do not tile the value, the plugin shows the one that does not fit as far as it goes.
    """
    if "records-malformed" in listed(message.get("upr.defect")):
        return []
    numbers = [[int(each, 0) for each in listed(message.get(f"upr.record.{name}"))] for name in OF_RECORDS]
    return list(zip(*numbers, listed(message.get("upr.record.key")), strict=True))


def in_rows(messages: list[Message]) -> list[dict[str, object]]:
    """Return the messages of a packet as rows."""
    rows: list[dict[str, object]] = []
    dialect = ""
    for message in messages:
        if "upr.magic" in message:
            dialect = message.get("upr.dialect", dialect)
            rows.append(shown(message, dialect))
    return rows


def told(row: Row) -> dict[str, object]:
    """Return a row in the same form."""
    found: dict[str, object] = {name: row[name] for name in (*NUMBERS, "name", "dialect", "response", "missing")}
    found |= {"key": plain_key(row["key"], row["key_bytes"]), "key_bytes": row["key_bytes"]}
    found["defects"] = sorted(row["defects"])
    log = row["failover_log"] or []
    found["failover_log"] = [(each["vbucket_uuid"] % (1 << 64), each["seqno"]) for each in log]
    found["features"] = row["features"] or []
    found["cache_records"] = [
        (*(each[name] % (1 << 64) for name in OF_RECORDS), each["key"])
        for each in row["cache_records"] or ()
        if "records-malformed" not in row["defects"]
    ]
    return found


def shown_as(row: Row) -> dict[str, object]:
    """Return a row with its members in the plugin's order."""
    found = told(row)
    order = (
        *NUMBERS,
        "name",
        "dialect",
        "response",
        "key",
        "key_bytes",
        "defects",
        "missing",
        "failover_log",
        "features",
    )
    order += ("cache_records",)
    return {name: found[name] for name in order}


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
    # Frames of the draft look like SET and its kin until one proves otherwise: rows wait for that, the plugin does not.
    drafts = any(each[0]["dialect"] == "draft" for each in expected.values())
    shows_it = (packet for packet, each in plugin.items() if any(row["dialect"] == "draft" for row in in_rows(each)))
    drafted = min(shows_it, default=0) if drafts else 0
    for packet in sorted(packet for packet in set(plugin) | set(expected) if packet >= drafted):
        theirs = in_rows(plugin.get(packet, []))
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


GENERATED = sorted([*(ROOT / "captures" / "clean").glob("*.pcapng"), *(ROOT / "captures" / "broken").glob("*.pcapng")])
RECORDED = sorted((*(ROOT / "captures").glob("*.pcap"), *(ROOT / "captures").glob("*.pcapng")))
ROUGH = sorted((*(ROOT / "captures" / "rough").glob("*.pcap"), *(ROOT / "captures" / "rough").glob("*.pcapng")))
LOSSY = ("lossy", "07d_capture_loss")  #: messages were lost: whole ones are compared
SNAPPED = ("snaplen", "07a_snaplen96")
#: Messages show in the packet that completes the order, not in the one that has them. Since 4.4, TCP that puts segments
#: in order loses half of them, to every dissector, and TCP that does not leaves those out that came late.
REORDERED = ("07e_reorder_dup",)
LATE = ("late",)  #: the first frames are held back until others confirm them, so the dialect shows in another order


def compared(path: Path, read: dict[Path, dict[int, list[Message]]]) -> list[str]:
    """Return how the plugin and the rows differ over a capture, which may have been read already."""
    name = path.stem
    loses = name in REORDERED and InUse.wireshark.version != "4.0"
    ordered = () if name in LOSSY + SNAPPED or loses else ORDERED
    found = read[path] if path in read else messages(path, *ordered)
    plugin = {packet: each for packet, each in found.items() if each}
    rows = read_rows(path, FrameReader)
    if name in LOSSY:
        rows = [row for row in rows if not row["missing"]]
    if name in REORDERED:
        theirs = Counter(repr(each) for group in plugin.values() for each in in_rows(group))
        ours = Counter(repr(shown_as(row)) for row in rows)
        missing = sum((ours - theirs).values())
        found_most = missing == 0 or (loses and missing < 0.04 * len(rows))
        return [*(theirs - ours), *([] if found_most else [f"{missing} of {len(rows)} messages are missing"])]
    lines = differences(plugin, rows)
    return [line for line in lines if name not in LATE or "'dialect'" not in line]


@pytest.fixture(scope="module")
def generated(wireshark: Wireshark, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, dict[int, list[Message]]]:
    target = tmp_path_factory.mktemp(f"lua-{wireshark.version}") / "generated.pcap"
    parts = merge(GENERATED, target)
    return by_part(messages(target), parts)


def test_generated_captures(generated: dict[Path, dict[int, list[Message]]]) -> None:
    unlike = {path.name: differences(generated[path], read_rows(path, FrameReader))[:3] for path in GENERATED}
    assert {name: lines for name, lines in unlike.items() if lines} == {}
    assert sum(len(each) for packets in generated.values() for each in packets.values()) > 20_000


@pytest.fixture(scope="module")
def recorded(wireshark: Wireshark, tmp_path_factory: pytest.TempPathFactory) -> dict[Path, dict[int, list[Message]]]:
    """Those that one run of tshark can read together."""
    together = [path for path in (*RECORDED, *ROUGH) if path.stem not in LOSSY + SNAPPED and can_be_merged(path)]
    target = tmp_path_factory.mktemp(f"lua-{wireshark.version}") / "recorded.pcap"
    parts = merge(together, target)
    found = by_part(messages(target, *ORDERED), parts)
    return {path: found.get(path, {}) for path in together}


def test_recorded_and_rough_captures(recorded: dict[Path, dict[int, list[Message]]]) -> None:
    unlike = {path.name: compared(path, recorded)[:5] for path in (*RECORDED, *ROUGH)}
    assert {name: lines for name, lines in unlike.items() if lines} == {}
    assert len(recorded) > 10


@pytest.mark.shared
def test_captures_beside_the_checkout(shared_dir: Path) -> None:
    known = {path.name for path in RECORDED}
    beside = [path for path in sorted((shared_dir / "captures").glob("*.pcap*")) if path.name not in known]
    unlike = {path.name: compared(path, {})[:3] for number, path in enumerate(beside) if InUse.takes(number)}
    assert {name: lines for name, lines in unlike.items() if lines} == {}
    assert len(beside) > 5


def test_tables_that_lead_outside(tmp_path: Path) -> None:
    """Tables of system events, cut and spoilt in every byte: both read the same, or see the same defect."""
    talks = checking.clean("event-tables")
    stream = [each for each in talks[0] if each.frame.name == "system_event"]
    tables = [(dict(each.frame.fields), each.frame.key, each.frame.value) for each in stream]
    chance = random.Random(1)  # noqa: S311 - no secret
    anchor = stream[-1]
    for fields, key, value in tables:
        spoilt = [value[:length] for length in range(len(value))]
        spoilt += [value[:at] + bytes([byte]) + value[at + 1 :] for at in range(len(value)) for byte in (0, 1, 5, 255)]
        spoilt += [chance.randbytes(len(value)) for _ in range(5)]
        spoilt += [bytes(cramjam.snappy.compress_raw(each)) for each in (value, value[:-9], b"")]
        for each in spoilt:
            put_after(talks[0], anchor, anchor.side, anchor.frame.copy(fields=fields, key=key, value=each))
    path = tmp_path / "tables.pcap"
    path.write_bytes(checking.captured(talks))
    rows = read_rows(path, FrameReader)
    defects = Counter(defect for row in rows for defect in row["defects"])
    assert defects["event-table-invalid"] > 500
    assert defects["event-table-compressed"] >= len(tables)
    assert sum(row["event"] is not None and not row["defects"] for row in rows) > 500
    assert differences(messages(path), rows) == []


def test_values_are_looked_into(generated: dict[Path, dict[int, list[Message]]]) -> None:
    """Snappy, xattrs and JSON are decoded, and what is no UPR is shown too."""
    everything = [each for packets in generated.values() for group in packets.values() for each in group]
    assert any("upr.inflated" in each and "upr.xattr.name" in each for each in everything)
    assert any("upr.document" in each and each["upr.document"].startswith("{") for each in everything)
    assert any("upr.metadata.id" in each for each in everything)
    assert any("upr.record.key" in each for each in everything)
    names = {each["upr.name"] for each in everything if "upr.name" in each}
    assert {"hello", "noop", "control", "oso_snapshot", "stream_end"} <= names


def test_text_is_cut_nowhere_that_rows_keep(generated: dict[Path, dict[int, list[Message]]]) -> None:
    path = next(path for path in GENERATED if path.stem == "collections")
    ours = [row["text"] for row in read_rows(path, FrameReader) if row["text"] is not None]
    theirs = [each["upr.text"] for group in generated[path].values() for each in group if "upr.text" in each]
    assert sorted(ours) == sorted(text[:TEXT_LIMIT] for text in theirs)
    assert ours
