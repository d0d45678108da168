"""Recordings of real servers against what the client saw: every message, every field that has a column.

The truth files were written by the client that made the traffic, with code of its own. Recordings in ``captures/`` are
always compared, those of the shared reference material where that is there.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpkt
import pytest

from dissector.codec.message import Value
from dissector.codec.values import read_value
from dissector.options import ReadOptions
from dissector.spec import enums
from dissector.spec.events import EVENT_NAMES
from dissector.spec.model import Body
from tests.support.paths import CAPTURES
from tests.support.tcp_by_hand import READERS, ReaderClass, Row, read_run

Truth = dict[str, Any]
Place = tuple[str, int, str, int]  # source and destination
COMMITTED = sorted(path for path in CAPTURES.glob("*.pcap*") if path.with_suffix(".truth.json.gz").exists())
SHARED_NAMES = [
    *("01_basic.pcap", "02_flow_control.pcap", "02b_flow_control_broken.pcap", "03_noop.pcap"),
    *("04_rollback_errors.pcap", "05_multiplex_close_resume.pcapng", "06_replication_takeover.pcap"),
    *("07a_snaplen96.pcap", "07b_midconnection.pcap", "07d_capture_loss.pcap", "07e_reorder_dup.pcap"),
    *("09_feed_real_consumer.pcap", "10_upr_early_dialect.pcap", "11_ext_metadata.pcap", "12_any_cooked.pcap"),
    *("13_ipv6.pcapng", "21_basic_xattr_snappy_v705.pcap", "22_novalue_v705.pcap", "23_sync_writes_v705.pcap"),
    *("24_expiry_opcode_v705.pcap", "25_stream_id_v705.pcap", "26_collections_v705.pcap"),
    *("27_replication_takeover_v705.pcap", "41_basic_v810m.pcap", "43_collections_flatbuffers_v810m.pcap"),
    *("44_stream_id_v810m.pcap", "47_cache_transfer_v810m.pcap"),
]

#: Fields that the client names otherwise; ``flags`` is another column for every opcode.
RENAMED = {
    "snap_start": "snap_start_seqno",
    "snap_end": "snap_end_seqno",
    "vb_uuid": "vbucket_uuid",
    "sid": "stream_id",
    "state": "vbucket_state",
    "version": "event_version",
    "commit_seqno": "by_seqno",
    "abort_seqno": "by_seqno",
    "exptime": "expiration",
    "value": "text",
    "name": "key",
    "mechanism": "key",
    "bytes": "buffer_bytes",
}
FLAGS = {0x50: "open_flags", 0x51: "stream_flags", 0x53: "stream_flags", 0x55: "end_reason", 0x56: "snapshot_type"}
FLAGS |= {0x65: "oso_flags"}
SAME = {
    *("by_seqno", "rev_seqno", "item_flags", "expiration", "lock_time", "nmeta", "nru", "collection_id", "delete_time"),
    *("start_seqno", "end_seqno", "high_seqno", "prepared_seqno", "max_visible_seqno", "high_completed_seqno"),
    *("deleted", "durability_level", "buffer_bytes", "event", "manifest_uid", "scope_id", "max_ttl", "stream_opaque"),
    *("rollback_seqno", "key", "purge_seqno", "high_prepared_seqno", "event_version", "reserved"),
}
#: What has no column: unused bytes, extras that no layout has, what frame infos of KV commands say.
NO_COLUMN = {
    *("unused", "seqno", "extras_hex", "durability", "server_duration_encoded", "server_duration_raw"),
}
#: What is inside of keys and values: compared by ``inside``.
IN_DOCUMENTS = {"uncompressed_len", "uncompressed_sha1", "xattrs", "xattr_section_len", "body_len"}
INSIDE = {"doc_key", "event_name", "event_key", "agent", "mechanisms", "items", "flatbuffer", *IN_DOCUMENTS}
EVENTS = {member.value: member.name for member in EVENT_NAMES.members}
#: What the client of older recordings calls events.
OLD_EVENTS = {"collection_create": "collection_begin", "collection_drop": "collection_end"}

#: In 27, packet 178, a pcap record of 82 bytes (an acknowledgement of 19 s later) stands in the middle of this value:
#: the file itself is spoilt there, as dpkt sees it too. The copy on the relay's other leg is whole.
SPOILT = "377cad3b37b9d6d832c622edd9ef01c61695e90e"


def signed(name: str, number: int) -> int:
    """Return a number as a signed column holds it: identifiers by their bits, seqnos up to "no end"."""
    if number < 1 << 63:
        return number
    return number - (1 << 64) if name in ("cas", "vbucket_uuid") else (1 << 63) - 1


def text(data: bytes) -> str:
    """Write bytes as the client did."""
    return data.decode() if all(0x20 <= byte < 0x7F for byte in data) else "hex:" + data.hex()


def expected(message: Truth) -> Row:
    """Return the columns that a message of the truth must have."""
    opcode = message["opcode"]
    row: Row = {name: message[name] for name in ("magic", "opcode", "opaque", "datatype")}
    row |= {"extras_length": message["extlen"], "key_length": message["keylen"], "body_length": message["bodylen"]}
    row |= {name: message[name] for name in ("vbucket", "status") if name in message}
    row |= {"cas": signed("cas", message["cas"]), "flow_bytes": message.get("fc_bytes", 0)}
    for there, here in (("framing_len", "framing_length"), ("key", "key")):
        if there in message:
            row[here] = message[there]
    if "value_len" in message:
        row["value_length"] = message["value_len"] + metadata(message)  # the column counts the metadata in
    for name, value in message.get("f", {}).items():
        if name in NO_COLUMN or name in INSIDE:
            continue
        if name == "flags":
            row[FLAGS[opcode]] = value
        elif name == "marker_version":
            row[name] = {"1": None, "2.0": 0, "2.2": 2}[value]
        elif name == "failover_log":
            row[name] = [{"vbucket_uuid": signed("vbucket_uuid", uuid), "seqno": seqno} for uuid, seqno in value]
        elif name == "json":
            row |= {"text": value} if opcode == 0x53 else {}  # the values of other JSON commands have no column
        elif name == "features":
            row[name] = value
        else:
            assert name in SAME or name in RENAMED, f"nobody compares {name}"
            column = RENAMED.get(name, name)
            row[column] = signed(column, value) if isinstance(value, int) else value
    return row


#: Slots of the servers' tables of system events, by event: names and sizes; a text has none.
COLLECTION = (
    *(("manifest_uid", 8), ("scope_id", 4), ("collection_id", 4), ("ttl_valid", 1), ("max_ttl", 4), ("name", 0)),
    *(("history", 1), ("default_max_visible_seqno", 8), ("metered", 1), ("flush_uid", 8)),
)
SLOTS = {
    0: COLLECTION,
    1: (("manifest_uid", 8), ("scope_id", 4), ("collection_id", 4), ("system_collection", 1)),
    3: (("manifest_uid", 8), ("scope_id", 4), ("name", 0)),
    4: (("manifest_uid", 8), ("scope_id", 4), ("system_scope", 1)),
    5: COLLECTION,
}


def table_of(event: int, data: bytes) -> dict[str, Any]:
    """Read a sound FlatBuffers table, as the columns have it; ``name`` is the text in it."""

    def number(at: int, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(data[at : at + size], "little", signed=signed)

    table = number(0, 4)
    vtable = table - number(table, 4, signed=True)
    found: dict[str, Any] = {}
    for index, (name, size) in enumerate(SLOTS[event], 2):
        place = number(vtable + 2 * index, 2) if 2 * index < number(vtable, 2) else 0
        at = table + place
        if size == 0:
            text_at = at + number(at, 4)
            found[name] = data[text_at + 4 : text_at + 4 + number(text_at, 4)] if place else b""
        else:
            found[name] = number(at, size) if place else 0
    if not found.pop("ttl_valid", 0):
        found["max_ttl"] = None
    found.pop("default_max_visible_seqno", None)
    return found


def inside(row: Row, message: Truth) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is inside of key and value: its name, what we read and what the client did."""
    told: Truth = message.get("f", {})
    key, value = row["key_bytes"] or b"", row["value"] or b""
    document = Value()
    if IN_DOCUMENTS & told.keys():
        document = read_value(Body.DOCUMENT, value, 0, complain, datatype=row["datatype"], nmeta=metadata(message))
    for name, wanted in told.items():
        match name:
            case "doc_key":
                yield name, row["key"], wanted
            case "event_key" | "agent":
                yield name, text(key), wanted
            case "event_name":
                yield name, EVENTS[row["event"]], OLD_EVENTS.get(wanted, wanted)
            case "mechanisms" | "json":
                yield name, text(value), wanted
            case "items":
                yield name, [cached(record) for record in row["cache_records"]], wanted
            case "flatbuffer":
                table = table_of(row["event"], bytes.fromhex(wanted))
                yield name, text(key), text(table.pop("name", b""))
                yield name, {column: row[column] for column in table}, table
            case "uncompressed_len":
                yield name, len(document.inflated or b""), wanted
            case "uncompressed_sha1":
                yield name, hashlib.sha1(document.inflated or b"").hexdigest(), wanted  # noqa: S324 - as above
            case "xattrs":
                yield name, {key.decode(): held.decode() for key, held in document.xattrs}, wanted
            case "xattr_section_len":
                yield name, 4 + sum(len(key) + len(held) + 6 for key, held in document.xattrs), wanted
            case "body_len":
                yield name, len(document.document), wanted


def complain(defect: str, detail: str) -> None:
    """Take what is wrong with a document: those of recordings are sound."""
    raise AssertionError(f"{defect}: {detail}")


def cached(record: Row) -> dict[str, Any]:
    """Return a record of a cache transfer as the client wrote it."""
    same = ("cas", "by_seqno", "rev_seqno", "item_flags", "expiration", "datatype", "cache_hint", "collection_id")
    found = {name: record[name] for name in same} | {"value_len": record["value_length"]}
    return found | {"key": text(record["key_bytes"]), "doc_key": record["key"]}


def metadata(message: Truth) -> int:
    """Return the size of the extended metadata at the end of the body, if it is one that fits."""
    size: int = message.get("f", {}).get("nmeta", 0)
    return size if "meta" in message else 0


def differences(row: Row, message: Truth) -> list[tuple[str, Any, Any]]:
    """Compare a row with its message; of a frame that is not whole, what there is of it."""
    found = dict(row)
    found["key"] = text(row["key_bytes"]) if row["key_bytes"] is not None else None
    if row["features"] is not None:
        members = {member.value: member.name for member in enums.FEATURES.members}
        found["features"] = [members.get(number, number) for number in row["features"]]
    wanted = expected(message)
    if row["missing"]:
        wanted = {name: value for name, value in wanted.items() if found[name] is not None}
    elif "value_sha1" in message and message["value_sha1"] != SPOILT:
        wanted["value"] = message["value_sha1"]
        value = row["value"] or b""
        document = value[: len(value) - metadata(message)]
        found["value"] = hashlib.sha1(document).hexdigest()  # noqa: S324 - as the truth files have it
    assert row["end_offset"] - row["start_offset"] == message["size"]
    unlike = [(name, found[name], value) for name, value in wanted.items() if found[name] != value]
    if row["missing"] or message.get("value_sha1") == SPOILT:
        return unlike
    return unlike + [(name, ours, theirs) for name, ours, theirs in inside(row, message) if ours != theirs]


@dataclass
class Recording:
    """A capture's rows and truth, direction by direction."""

    path: Path
    truth: Truth
    rows: dict[Place, dict[int, Row]]

    @classmethod
    def read(cls, path: Path, reader_class: ReaderClass) -> Recording:
        packed = path.with_suffix(".truth.json.gz")
        unpacked = path.with_suffix(".truth.json")
        truth = json.loads(gzip.decompress(packed.read_bytes()) if packed.exists() else unpacked.read_bytes())
        found, report = read_run(path, reader_class, ReadOptions(values=True, withhold_secrets=False))
        assert report.damage == []
        assert not report.given_up
        rows: dict[Place, dict[int, Row]] = {}
        for row in found:
            place = (row["src"], row["sport"], row["dst"], row["dport"])
            assert row["start_offset"] not in rows.setdefault(place, {})
            rows[place][row["start_offset"]] = row
        return cls(path, truth, rows)

    def directions(self) -> list[tuple[Truth, str, dict[int, Row], list[Truth]]]:
        """Return connection, direction, its rows by offset and its messages, for each that the truth lists."""
        out = []
        for connection in self.truth["connections"]:
            client, server = (endpoint(connection[end]) for end in ("client", "server"))
            for name, place in (("c2s", (*client, *server)), ("s2c", (*server, *client))):
                messages = [message for message in connection["messages"] if message["dir"] == name]
                out.append((connection, name, self.rows.get(place, {}), messages))
        return out


def endpoint(written: str) -> tuple[str, int]:
    address, _, port = written.rpartition(":")
    return address.strip("[]"), int(port)


def captured_starts(path: Path) -> Counter[tuple[int, int, int]]:
    """Return (source port, destination port, offset) of every payload of which at least a header was captured."""
    bases: dict[tuple[int, int], int] = {}
    starts: Counter[tuple[int, int, int]] = Counter()
    with path.open("rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(data).data
            tcp = ip.data
            if tcp.flags & dpkt.tcp.TH_SYN:
                bases[tcp.sport, tcp.dport] = tcp.seq + 1
            elif len(tcp.data) >= 24:
                starts[tcp.sport, tcp.dport, (tcp.seq - bases[tcp.sport, tcp.dport]) % 2**32] += 1
    return starts


def check_cut(recording: Recording) -> None:
    """Snap length: nothing but messages, and all those whose header a packet starts with."""
    starts = captured_starts(recording.path)
    needed = 0
    for connection, name, rows, messages in recording.directions():
        by_offset = {message["off"]: message for message in messages}
        assert rows.keys() <= by_offset.keys()
        assert [difference for offset, row in rows.items() for difference in differences(row, by_offset[offset])] == []
        ports = [endpoint(connection[end])[1] for end in ("client", "server")][:: 1 if name == "c2s" else -1]
        must = {offset for offset in by_offset if (ports[0], ports[1], offset) in starts}
        assert must <= rows.keys(), sorted(must - rows.keys())
        needed += len(must)
    assert needed > 300  # most of 825 messages had a packet of their own


def check_middle(recording: Recording) -> None:
    """A start in mid-connection: offsets count from the first captured byte, and no whole message is missing."""
    skipped = 0
    for connection, name, rows, messages in recording.directions():
        started = connection.get("capture_started_mid_connection")
        first = started["first_captured_stream_offset"][name] if started else 0
        wanted = [message for message in messages if message["off"] >= first]
        skipped += len(messages) - len(wanted)
        assert sorted(rows) == [message["off"] - first for message in wanted]
        assert [each for message in wanted for each in differences(rows[message["off"] - first], message)] == []
    assert skipped > 0


def check_loss(recording: Recording) -> None:
    """Packets lost: undamaged messages are all there, the others not at all or not whole."""
    damaged_rows = 0
    for connection, _, rows, messages in recording.directions():
        damaged = set(recording.truth["damaged_messages"].get(connection["name"], ()))
        assert rows.keys() <= {message["off"] for message in messages}
        for message in messages:
            row = rows.get(message["off"])
            if message["i"] not in damaged:
                assert row is not None, message
                assert row["missing"] == 0
            if row is not None:
                assert (row["missing"] > 0) == (message["i"] in damaged)
                damaged_rows += row["missing"] > 0
                assert differences(row, message) == []
    assert damaged_rows > 0


def check_exact(recording: Recording) -> None:
    """Nothing missing, nothing more, everything as it was."""
    for _, _, rows, messages in recording.directions():
        assert sorted(rows) == [message["off"] for message in messages]
        for message in messages:
            row = rows[message["off"]]
            assert (row["missing"], row["gap"], row["skipped"]) == (0, 0, 0)
            assert differences(row, message) == [], message


CHECKS = {"07a_snaplen96": check_cut, "07b_midconnection": check_middle, "07d_capture_loss": check_loss}


@pytest.mark.parametrize("reader_class", READERS)
@pytest.mark.parametrize("path", COMMITTED, ids=[path.stem for path in COMMITTED])
def test_committed_recordings(path: Path, reader_class: ReaderClass) -> None:
    CHECKS.get(path.stem, check_exact)(Recording.read(path, reader_class))


def test_there_are_committed_recordings_of_every_kind() -> None:
    assert {"07a_snaplen96", "07b_midconnection", "10_upr_early_dialect"} <= {path.stem for path in COMMITTED}


@pytest.mark.shared
@pytest.mark.parametrize("reader_class", READERS)
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_shared_recordings(shared_dir: Path, name: str, reader_class: ReaderClass) -> None:
    path = shared_dir / "captures" / name
    CHECKS.get(path.stem, check_exact)(Recording.read(path, reader_class))


@pytest.mark.shared
def test_no_shared_recording_is_left_out(shared_dir: Path) -> None:
    assert sorted(path.name for path in (shared_dir / "captures").glob("*.pcap*")) == sorted(SHARED_NAMES)


@pytest.mark.shared
def test_both_forms_of_system_events_say_the_same(shared_dir: Path) -> None:
    """The recording has connections with tables and without: of one event of a vbucket all say the same."""
    rows, _ = read_run(shared_dir / "captures" / "43_collections_flatbuffers_v810m.pcap", READERS[0], ReadOptions())
    names = ("event", "key", "manifest_uid", "scope_id", "collection_id", "max_ttl")
    found: dict[tuple[int, int], dict[bool, set[tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        if row["event"] is not None:
            assert row["defects"] == []
            place = row["vbucket"], row["by_seqno"]
            found[place][row["event_version"] == 2].add(tuple(row[name] for name in names))
    both = [forms for forms in found.values() if len(forms) == 2]
    assert [forms for forms in both if forms[True] != forms[False]] == []
    assert {event for forms in both for event, *_ in forms[True]} == {0, 1, 3, 4}
    assert all(len(forms[True]) == 1 for forms in both)
