"""FlatBuffers tables: what any encoder may write is read, and no bytes make the reader raise, hang or read outside."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.codec.decoder import decode
from dissector.codec.encoder import encode
from dissector.codec.flatbuffers import pack_table, read_table
from dissector.codec.message import TableValue
from dissector.display.tree import tree
from dissector.spec import registry
from dissector.spec.events import SYSTEM_EVENTS, TABLES
from dissector.spec.model import Dialect, Field, TableSpec
from dissector.terminal.style import Terminal

#: A flush, as a server of 2026 sent it: every kind of slot, padding, a text.
RECORDED = bytes.fromhex(
    "1c0000001800280014000000080007000c0010000000000000001c0018000000000000010900000007000000180000000500000000000000"
    "050000000000000000000000050000006461697279000000"
)
EVENT = registry.message(Dialect.DCP, 0x5F)
OFFSET = 40


def read(spec: TableSpec, raw: bytes) -> tuple[TableValue | None, list[str]]:
    """Read a table, and return what was wrong with it."""
    found: list[str] = []
    table = read_table(spec, raw, OFFSET, lambda defect, detail: found.append(f"{defect}: {detail}"))
    assert (table is None) == bool(found)
    assert len(found) <= 1
    return table, found


def held(table: TableValue | None) -> dict[str, int | bytes]:
    assert table is not None
    return {entry.name: entry.value for entry in table.entries}


@st.composite
def contents(draw: st.DrawFn) -> tuple[TableSpec, dict[str, Any]]:
    """Draw a table and what is in it: anything, zeros included."""
    spec = draw(st.sampled_from(sorted(TABLES.values(), key=lambda each: each.name)))
    return spec, {
        slot.name: draw(st.integers(0, 256**slot.size - 1)) if isinstance(slot, Field) else draw(st.binary(max_size=40))
        for slot in spec.slots
    }


@given(contents())
def test_what_is_written_is_read(drawn: tuple[TableSpec, dict[str, Any]]) -> None:
    spec, given_values = drawn
    raw = pack_table(spec, given_values)
    table, found = read(spec, raw)
    assert found == []
    assert held(table) == given_values
    assert table is not None
    for entry in table.entries:
        assert (entry.offset is None) == (not entry.value)
        if entry.offset is None:
            continue
        assert OFFSET <= entry.offset < OFFSET + len(raw)
        if isinstance(entry.value, int):
            assert isinstance(entry.spec, Field)
            at = entry.offset - OFFSET
            assert at % entry.spec.size == 0, "numbers stand at multiples of their size"
            assert int.from_bytes(raw[at : at + entry.spec.size], "little") == entry.value


@st.composite
def other_encoders(draw: st.DrawFn) -> tuple[TableSpec, dict[str, Any], bytes]:
    """Draw a table as another encoder might write it: any order, any padding, the vtable before or behind it."""
    spec, values = draw(contents())
    written = [slot for slot in spec.slots if values[slot.name] or draw(st.booleans())]
    body, places = bytearray(4), {}
    for slot in draw(st.permutations(written)):
        body += bytes(draw(st.integers(0, 3)))
        places[slot.name] = len(body)
        body += values[slot.name].to_bytes(slot.size, "little") if isinstance(slot, Field) else bytes(4)
    newer = draw(st.integers(0, 3))  # slots that a later release has
    listed = [places.get(slot.name, 0) for slot in spec.slots] + [draw(st.integers(0, 9)) for _ in range(newer)]
    vtable = struct.pack(f"<{len(listed) + 2}H", 4 + 2 * len(listed), len(body), *listed)
    before = bytes(draw(st.integers(0, 7)))
    if draw(st.booleans()):
        place = 4 + len(before) + len(vtable)
        raw = bytearray(struct.pack("<I", place) + before + vtable + body)
        struct.pack_into("<i", raw, place, len(vtable))
    else:
        place = 4 + len(before)
        raw = bytearray(struct.pack("<I", place) + before + body + vtable)
        struct.pack_into("<i", raw, place, -len(body))
    for slot in written:
        if not isinstance(slot, Field):
            raw += bytes(draw(st.integers(0, 5)))
            at = place + places[slot.name]
            struct.pack_into("<I", raw, at, len(raw) - at)
            raw += struct.pack("<I", len(values[slot.name])) + values[slot.name] + b"\0"
    return spec, values, bytes(raw)


@given(other_encoders())
def test_every_encoder_is_understood(drawn: tuple[TableSpec, dict[str, Any], bytes]) -> None:
    spec, values, raw = drawn
    table, found = read(spec, raw)
    assert found == []
    assert held(table) == values


@given(st.sampled_from(sorted(TABLES)), st.binary(max_size=120))
def test_any_bytes(name: str, raw: bytes) -> None:
    check_whole(name, raw)


@given(
    st.sampled_from(sorted(TABLES)),
    st.lists(st.one_of(st.integers(0, 48), st.integers(0, 0xFFFF)), min_size=2, max_size=40),
)
def test_plausible_numbers(name: str, numbers: list[int]) -> None:
    """Small numbers are places inside of the value, so that all ways through the reader are gone."""
    check_whole(name, struct.pack(f"<{len(numbers)}H", *numbers))


def check_whole(name: str, raw: bytes) -> None:
    """Read a value by itself and in a frame; nothing outside of it may be looked at."""
    table, _ = read(TABLES[name], raw)
    alone = held(table) if table is not None else None
    for event in SYSTEM_EVENTS:
        if dict(event.versions).get(2) is not TABLES[name]:
            continue
        assert EVENT is not None
        key = b"" if event.id in (1, 4) else b"name"
        frame = encode(EVENT, {"event": event.id, "event_version": 2}, key=key, value=raw)
        decoded = decode(Dialect.DCP, frame + b"\x80" * 40)
        assert set(decoded.defect_ids()) <= {"event-table-invalid", "event-table-compressed", "stray-bytes"}
        if alone is not None:
            assert held(decoded.value.table) == alone
        row = {"response": False, "packet_first": 1, "packet_last": 1, "acked_offset": 0, "time_ns": 0, "frame": 1}
        row |= dict.fromkeys(("src", "sport", "dst", "dport", "connection", "capture"), "x")
        row |= dict.fromkeys(("start_offset", "end_offset", "gap", "skipped", "missing"), 0)
        assert list(tree(decoded, frame, row, Terminal(color=False)))


def test_the_recorded_table() -> None:
    table, found = read(TABLES["Collection"], RECORDED)
    assert found == []
    told = {name: value for name, value in held(table).items() if value}
    assert told == {
        "manifest_uid": 5,
        "collection_id": 9,
        "ttl_valid": 1,
        "max_ttl": 7,
        "collection_name": b"dairy",
        "flush_uid": 5,
    }


@pytest.mark.parametrize("name", sorted(TABLES))
def test_truncated_at_each_length(name: str) -> None:
    """A table without its end is none; what is behind its last byte is padding."""
    spec = TABLES[name]
    values = {slot.name: 1 if isinstance(slot, Field) else b"text" for slot in spec.slots}
    raw = pack_table(spec, values)
    # A text ends in a zero byte, and what follows it is padding; without a text the table itself comes last.
    has_text = any(not isinstance(slot, Field) for slot in spec.slots)
    needed = len(raw.rstrip(b"\0")) + 1 if has_text else len(raw)
    for length in range(len(raw)):
        table, found = read(spec, raw[:length])
        assert (table is None) == (length < needed), length
        assert len(found) == (table is None)
        check_whole(name, raw[:length])
    assert read(spec, RECORDED[:12])[0] is None


def test_every_byte_of_a_recorded_table_spoilt() -> None:
    """Wherever a byte is wrong, the table is read or refused; its texts stay inside of the value."""
    for at, byte in itertools.product(range(len(RECORDED)), (0x00, 0x01, 0x7F, 0x80, 0xFF)):
        raw = RECORDED[:at] + bytes([byte]) + RECORDED[at + 1 :]
        table, _ = read(TABLES["Collection"], raw)
        for entry in table.entries if table is not None else ():
            if isinstance(entry.value, bytes):
                assert entry.value in raw


def _table(vtable: bytes, body: bytes, back: int | None = None) -> bytes:
    place = 4 + len(vtable)
    distance = len(vtable) if back is None else back
    return struct.pack("<I", place) + vtable + struct.pack("<i", distance) + body


HOSTILE = {
    "nothing": b"",
    "a place and no table": struct.pack("<I", 4),
    "a table at its own place": struct.pack("<I", 0),
    "a table far away": struct.pack("<I", 0xFFFF_FFFC) + bytes(60),
    "a vtable that is the table": _table(b"", bytes(8), 0),
    "a vtable in front of the value": _table(struct.pack("<2H", 4, 4), b"", 0x7FFF_FFFF),
    "a vtable behind the value": _table(struct.pack("<2H", 4, 4), b"", -0x8000_0000),
    "a vtable of an odd size": _table(struct.pack("<2H", 5, 4) + b"\0", b""),
    "a vtable of no size": _table(struct.pack("<2H", 0, 4), b""),
    "a vtable that is longer than the value": _table(struct.pack("<2H", 0xFFFE, 4), b""),
    "a table of no size": _table(struct.pack("<2H", 4, 0), b""),
    "a table that is longer than the value": _table(struct.pack("<2H", 4, 5), b""),
    "a slot in the distance to the vtable": _table(struct.pack("<3H", 6, 12, 1), bytes(8)),
    "a slot that goes beyond the table": _table(struct.pack("<3H", 6, 12, 5), bytes(8)),
    "a text at its own slot": _table(struct.pack("<5H", 10, 8, 0, 0, 4), struct.pack("<I", 0)),
    "a text behind the value": _table(struct.pack("<5H", 10, 8, 0, 0, 4), struct.pack("<I", 4)),
    "a text far away": _table(struct.pack("<5H", 10, 8, 0, 0, 4), struct.pack("<I", 0xFFFF_FFFF) + bytes(9)),
    "a text that is longer than the value": _table(struct.pack("<5H", 10, 8, 0, 0, 4), struct.pack("<III", 4, 5, 0)),
    "a text of 4 GiB": _table(struct.pack("<5H", 10, 8, 0, 0, 4), struct.pack("<III", 4, 0xFFFF_FFFF, 0)),
    "a text without its end": _table(struct.pack("<5H", 10, 8, 0, 0, 4), struct.pack("<II", 4, 2) + b"abc"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_tables(what: str) -> None:
    table, found = read(TABLES["Scope"], HOSTILE[what])
    assert table is None
    assert found[0].startswith("event-table-invalid: Scope: ")
    check_whole("Scope", HOSTILE[what])


def test_slots_and_texts_may_overlap() -> None:
    """What points twice to the same bytes is odd, and read: nothing is followed again."""
    shared = _table(struct.pack("<5H", 10, 12, 4, 4, 4), struct.pack("<II", 4, 0) + b"\0")
    table, found = read(TABLES["Scope"], shared)
    assert found == []
    assert held(table) == {"manifest_uid": 4, "scope_id": 4, "scope_name": b""}
    check_whole("Scope", shared)


@pytest.mark.parametrize("claim", [200, 0xFFFF_FFFF])
def test_a_block_that_claims_to_be_large_is_not_expanded(claim: int) -> None:
    """A table that cannot be read is tried as a snappy block: with the limits that documents have."""
    assert EVENT is not None
    bomb = bytearray()
    while claim >= 0x80:
        bomb.append(claim & 0x7F | 0x80)
        claim >>= 7
    value = bytes(bomb) + bytes([claim]) + b"\xfe\x01\x00" * 40
    frame = encode(EVENT, {"event": 3, "event_version": 2}, key=b"name", value=value)
    assert decode(Dialect.DCP, frame).defect_ids() == ("event-table-invalid",)


def test_a_compressed_block_that_is_no_table() -> None:
    assert EVENT is not None
    value = bytes(cramjam.snappy.compress_raw(b"no table at all"))
    frame = encode(EVENT, {"event": 3, "event_version": 2}, key=b"name", value=value)
    assert decode(Dialect.DCP, frame).defect_ids() == ("event-table-invalid",)
    whole = bytes(cramjam.snappy.compress_raw(pack_table(TABLES["Scope"], {"scope_id": 9, "scope_name": b"name"})))
    frame = encode(EVENT, {"event": 3, "event_version": 2}, key=b"name", value=whole)
    decoded = decode(Dialect.DCP, frame)
    assert (decoded["scope_id"], decoded.defect_ids()) == (9, ("event-table-compressed",))
    # With a limit below what it expands to, it is not expanded.
    assert decode(Dialect.DCP, frame, inflate_limit=8).defect_ids() == ("event-table-invalid",)


def test_a_table_that_was_cut_is_not_judged() -> None:
    assert EVENT is not None
    frame = encode(EVENT, {"event": 3, "event_version": 2}, key=b"name", value=pack_table(TABLES["Scope"], {}))
    decoded = decode(Dialect.DCP, frame[:-1])
    assert (decoded.defect_ids(), decoded.value.table, decoded.get("scope_id")) == (("truncated-frame",), None, None)
