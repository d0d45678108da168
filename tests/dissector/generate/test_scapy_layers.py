"""The generated scapy layers against the package's own encoder, decoder and readers.

Every message and layout of the spec is built by scapy and by :mod:`dissector.codec.encoder`, and read by scapy and by
:mod:`dissector.codec.decoder`. Scapy is told to raise what it would otherwise hide behind a Raw layer.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.codec.decoder import decode
from dissector.codec.encoder import encode
from dissector.codec.flatbuffers import pack_table
from dissector.codec.message import Decoded
from dissector.codegen import scapy_layers as generator
from dissector.frames.reader import FrameReader
from dissector.frames.schema import FIELD_COLUMNS, NO_END, UNSIGNED
from dissector.options import ReadOptions
from dissector.spec import dcp, enums, events, registry, value_kinds
from dissector.spec.model import Body, Dialect, Field, Layout, Message, Party, Presence, Shape, UInt, size_of
from tests.dissector.codec.test_properties import FORMS, well_formed
from tests.support.paths import CAPTURES, DATA
from tests.support.tcp_by_hand import CLIENT, SERVER, Row, read_rows

inet: Any = pytest.importorskip("scapy.layers.inet")
packets: Any = pytest.importorskip("scapy.packet")
sessions: Any = pytest.importorskip("scapy.sessions")
sendrecv: Any = pytest.importorskip("scapy.sendrecv")
config: Any = pytest.importorskip("scapy.config")
layers: Any = pytest.importorskip("dissector.generate.scapy_layers")

Form = tuple[Message, bool, int, Shape, Layout]
HEADERS: dict[Dialect, Any] = {Dialect(header.dialect): header for header in layers.HEADERS}
VECTORS: list[dict[str, Any]] = json.loads((DATA / "vectors.json").read_text())
LENGTHS = ("framing_length", "key_length", "extras_length", "body_length")
NOOP = encode(registry.named(Dialect.DCP, "noop"), opaque=b"last")


@pytest.fixture(autouse=True, scope="module")
def strict() -> Iterator[None]:
    """Let scapy raise what its dissectors do wrong."""
    before, config.conf.debug_dissector = config.conf.debug_dissector, True
    yield
    config.conf.debug_dissector = before


# ------------------------------------------------------------------------------------------------- building, reading


def name_of(form: Form) -> str:
    message, response, status, _, layout = form
    return f"{message.dialect}-{message.name}-{'response' if response else 'request'}-{status:x}-{layout.name}"


def class_of(form: Form) -> Any:
    """Find the one class that stands for a layout."""
    message, response, status, shape, layout = form
    found = [
        body
        for body in layers.BODIES
        if (body.form.dialect, body.form.opcode, body.form.subtypes)
        == (message.dialect, message.opcode, message.subtypes)
        and (body.form.response, body.form.status, body.form.server_push) == (response, status, message.server_push)
        and (body.form.extras_size, body.form.version) == (layout.extras_size, layout.version)
        and (body.form.value_size, body.form.takes_value) == (layout.value_size, shape.value is not Presence.MUST_NOT)
    ]
    assert len(found) == 1, found
    return found[0]


def built(form: Form, drawn: dict[str, Any]) -> Any:
    """Build the message that ``encode(message, **drawn)`` writes."""
    message, response, *_ = form
    drafted = message.dialect is Dialect.DRAFT
    head: dict[str, Any] = {"cas": drawn["cas"], "request_id" if drafted else "opaque": int.from_bytes(drawn["opaque"])}
    if drafted or not response:
        head["vbucket"] = drawn["vbucket"]
    return HEADERS[message.dialect](**head) / class_of(form)(**drawn["fields"], key=drawn["key"], value=drawn["value"])


def value_bytes(body: Any) -> bytes:
    """Return everything of a body that is behind extras and key."""
    names = [field.name for field in body.fields_desc]
    data = b""
    for field in body.fields_desc[names.index("key") + 1 :]:
        data = field.addfield(body, data, body.getfieldval(field.name))
    return data


def check_agreement(header: Any, decoded: Decoded) -> None:
    """Hold a dissected message against the decoder's reading of the same bytes."""
    wire, body = decoded.header, header.payload
    assert wire is not None
    assert (header.magic, header.opcode, header.cas) == (wire.magic, wire.opcode, wire.cas)
    assert (header.extras_length, header.key_length) == (wire.extras_length, wire.key_length)
    assert header.body_length == wire.body_length
    assert (header.framing_length or 0) == wire.framing_length
    assert header.is_response() == (decoded.vbucket is None or (decoded.subtype is not None and wire.magic == 0x81))
    drafted = decoded.subtype is not None
    assert (header.request_id if drafted else header.opaque) == int.from_bytes(wire.opaque)
    assert (header.subtype if drafted else int(header.datatype)) == wire.datatype
    if decoded.vbucket is not None:
        assert header.vbucket == decoded.vbucket
    if decoded.status is not None:
        assert header.status == decoded.status
    if not drafted:
        assert header.message_name() == decoded.name
    assert [info.id for info in header.framing] == [info.id for info in decoded.frame_infos]
    for mine, theirs in zip(header.framing, decoded.frame_infos, strict=True):
        assert {entry.name: mine.getfieldval(entry.name) for entry in theirs.fields} == {
            entry.name: entry.value for entry in theirs.fields
        }
        assert bytes(mine)[-len(theirs.data) or len(bytes(mine)) :] == theirs.data
    if type(body) is layers.UPRBody:
        assert body.extras == decoded.extras
    else:
        table = decoded.value.table
        tabled = {entry.name for entry in table.entries} if table is not None else set()
        plain = [entry for entry in decoded.fields if entry.name not in tabled]
        found = {entry.name: body.getfieldval(entry.name) for entry in plain}
        assert found == {entry.name: entry.value for entry in plain}
        if table is not None and table.compressed:
            assert body.event_table is None  # it stays bytes here
        elif table is not None:
            assert {name: value for name, value in body.event_table.items() if value} == {
                entry.name: entry.value for entry in table.entries if entry.value
            }
    assert body.key == decoded.key
    assert len(value_bytes(body)) == decoded.value.length
    assert value_bytes(body).startswith(decoded.value.raw)


def check_rebuilding(header: Any, frame: bytes) -> None:
    """A dissected message gives the same bytes, also field by field, also with its lengths computed anew."""
    assert bytes(header) == frame
    header.clear_cache()
    assert bytes(header) == frame
    for name in LENGTHS:
        header.delfieldval(name)
    assert bytes(header) == frame


def check_form(form: Form, drawn: dict[str, Any]) -> None:
    message = form[0]
    frame = encode(message, **drawn)
    assert bytes(built(form, drawn)) == frame
    decoded = decode(message.dialect, frame, withhold_secrets=False)
    assert {name: decoded[name] for name in drawn["fields"]} == drawn["fields"]
    header = HEADERS[message.dialect](frame)
    assert type(header.payload) is class_of(form)
    check_agreement(header, decoded)
    check_rebuilding(header, frame)


def numbers(layout: Layout) -> dict[str, int]:
    """Give every field of a layout another number, with all its bytes in use."""
    found = {}
    for index, field in enumerate((*layout.extras, *layout.value), 1):
        pattern = bytes((index * 16 + at) & 0xFF for at in range(field.size))
        found[field.name] = 0 if field.name in ("nmeta", "event", "event_version") else int.from_bytes(pattern)
    if layout.version is not None:
        found[layout.extras[-1].name] = layout.version
    return found


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_every_layout(form: Form) -> None:
    message, response, status, shape, layout = form
    record = value_kinds.BODIES[shape.body]
    entry = bytearray(range(size_of(record.record)))
    at = 0
    for field in record.record:
        if field.name in record.tail:
            entry[at : at + field.size] = (3).to_bytes(field.size)
        at += field.size
    value = bytes(entry + b"kkkvvv"[: 3 * len(record.tail)]) * 2
    if shape.body is Body.SYSTEM_EVENT:
        value = bytes(size_of(events.SYSTEM_EVENTS[1].fields[:3]))
    drawn = {
        "fields": numbers(layout),
        "response": response,
        "layout": layout,
        "status": status,
        "key": b"" if shape.key is Presence.MUST_NOT else b"key",
        "value": value or (b"" if shape.value is Presence.MUST_NOT or layout.value else b"value"),
        "opaque": b"\x01\x02\x03\x04",
        "vbucket": 0x0102,
        "cas": 0x0102030405060708,
    }
    check_form(form, drawn)
    packet = HEADERS[message.dialect](encode(message, **drawn))
    if record.record:
        assert packet.payload.value == b""
        assert len(packet.payload.getfieldval(shape.body.value.replace(" ", "_"))) == 2


@given(data=st.data(), form=st.sampled_from(FORMS))
def test_any_numbers(data: st.DataObject, form: Form) -> None:
    check_form(form, data.draw(well_formed(form)))


@pytest.mark.parametrize(
    "message",
    [known for known in registry.MESSAGES if known.request is not None and not known.request.layouts],
    ids=lambda known: f"{known.dialect}-{known.name}",
)
def test_messages_without_a_layout(message: Message) -> None:
    for response in (False, True):
        magic = ("server_" if message.server_push else "") + ("response" if response else "request")
        head = HEADERS[message.dialect](magic=magic, opcode=message.name, opaque=0x01020304)
        frame = encode(message, response=response, key=b"key", value=b"value", opaque=b"\x01\x02\x03\x04")
        shape = message.response(0) if response else message.request
        if shape is not None and not shape.layouts:
            assert bytes(head / layers.UPRBody(key=b"key", value=b"value")) == frame
            found = HEADERS[message.dialect](frame)
            assert type(found.payload) is layers.UPRBody
            check_agreement(found, decode(message.dialect, frame, withhold_secrets=False))
            assert message.name in found.summary()
            assert message.name in repr(found)


@pytest.mark.parametrize("dialect", Dialect)
def test_opcodes_mean_what_the_registry_says(dialect: Dialect) -> None:
    for magic in enums.MAGICS:
        for opcode in range(256):
            if (
                dialect is Dialect.DRAFT
                and opcode in registry.DRAFT_OPCODES
                and not (magic.flexible or magic.server_push)
            ):
                continue
            known = registry.message(dialect, opcode, server_push=magic.server_push)
            header = HEADERS[dialect](magic=magic.value, opcode=opcode)
            assert header.table() == (None if known is None else known.dialect)
            assert header.message_name() == (f"0x{opcode:02x}" if known is None else known.name)


def test_no_field_hides_behind_an_attribute() -> None:
    """Scapy finds fields only where Python finds no attribute of the name."""
    for layer in (*layers.HEADERS, *layers.BODIES, *layers.FRAME_INFOS, layers.UPRBody, layers.UPRFrameInfo):
        assert [field.name for field in layer.fields_desc if field.name in dir(packets.Packet)] == []
        assert [field.name for field in layer.fields_desc if any(field.name in vars(up) for up in layer.__mro__)] == []


# ------------------------------------------------------------------------------------------------------------ framing


def test_frame_infos_make_a_frame_flexible() -> None:
    sent = layers.UPR(vbucket=5, framing=[layers.UPRStreamIdInfo(stream_id=0x0102)]) / layers.UPRNoop()
    frame = encode(registry.named(Dialect.DCP, "noop"), vbucket=5, framing=[(2, b"\x01\x02")])
    assert bytes(sent) == frame
    check_agreement(layers.UPR(frame), decode(Dialect.DCP, frame))
    check_rebuilding(layers.UPR(frame), frame)


@pytest.mark.parametrize(("timeout", "data"), [(None, b"\x02"), (0x0304, b"\x02\x03\x04")])
def test_a_field_that_a_frame_info_may_leave_out(timeout: int | None, data: bytes) -> None:
    info = layers.UPRDurabilityInfo(durability_level="majority_and_persist_on_active", durability_timeout=timeout)
    assert bytes(info) == bytes([0x10 | len(data)]) + data
    again = layers.UPRDurabilityInfo(bytes(info))
    assert (again.durability_level, again.durability_timeout, again.data) == (2, timeout, b"")


@given(
    infos=st.lists(st.tuples(st.integers(0, 270), st.binary(max_size=30)), max_size=3, unique_by=lambda info: info[0]),
    response=st.booleans(),
)
def test_any_frame_infos(infos: list[tuple[int, bytes]], response: bool) -> None:
    frame = encode(registry.named(Dialect.DCP, "noop"), framing=infos, response=response)
    given_infos = [layers.UPRFrameInfo(id=number, data=data) for number, data in infos]
    magic = "flexible_response" if response else "flexible_request"
    opcode = layers.UPRNoopResponse() if response else layers.UPRNoop()
    assert bytes(layers.UPR(magic=magic, framing=given_infos) / opcode) == frame
    header = layers.UPR(frame)
    check_agreement(header, decode(Dialect.DCP, frame))
    check_rebuilding(header, frame)


@given(sid=st.integers(0, 0xFFFF), key=st.binary(min_size=1, max_size=60), value=st.binary(max_size=9))
def test_a_stream_id_that_the_header_does_not_count(sid: int, key: bytes, value: bytes) -> None:
    """E-41: built by forcing the length, and read like the decoder does."""
    sent = layers.UPR(framing_length=0, datatype=4 if value else 0, framing=[layers.UPRStreamIdInfo(stream_id=sid)])
    sent /= layers.UPRDeletionV2(by_seqno=9, key=key, value=value)
    decoded = decode(Dialect.DCP, bytes(sent), inspect=False)
    assert "framing-length-omitted" in decoded.defect_ids()
    found = layers.UPR(bytes(sent))
    assert found.framing[0].stream_id == sid
    check_agreement(found, decoded)
    found.clear_cache()
    assert bytes(found) == bytes(sent)


# ------------------------------------------------------------------------------------------------- lengths and faults


@pytest.mark.parametrize(
    ("lengths", "defect"),
    [
        ({"key_length": 9}, "lengths-exceed-body"),
        ({"extras_length": 200}, "lengths-exceed-body"),
        ({"extras_length": 28}, "layout-of-other-dialect"),
        ({"extras_length": 29, "key_length": 3}, "extras-length-unknown"),
        ({"extras_length": 0}, "extras-missing"),
        ({"key_length": 0}, "key-missing"),
        ({"body_length": 20}, "lengths-exceed-body"),
        ({"body_length": 0}, "lengths-exceed-body"),
    ],
    ids=str,
)
def test_lengths_can_be_wrong(lengths: dict[str, int], defect: str) -> None:
    right = bytes(layers.UPR(vbucket=1) / layers.UPRMutation(by_seqno=5, key=b"k", value=b"value"))
    wrong = bytes(layers.UPR(vbucket=1, **lengths) / layers.UPRMutation(by_seqno=5, key=b"k", value=b"value"))
    assert wrong[24:] == right[24:]
    decoded = decode(Dialect.DCP, wrong)
    assert defect in decoded.defect_ids()
    header = layers.UPR(wrong)
    check_agreement(header, decoded)
    assert bytes(header) == wrong


def test_a_length_that_its_field_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="key_length: 256 does not fit"):
        bytes(layers.UPR(framing=[layers.UPRStreamIdInfo()]) / layers.UPRMutation(key=bytes(256)))


def test_names_stand_for_numbers() -> None:
    sent = layers.UPR() / layers.UPROpen(open_flags="producer+no_value", key="name")
    assert layers.UPR(bytes(sent)).open_flags == 0x09
    assert layers.UPR(bytes(sent)).key == b"name"
    refusal = layers.UPR(opcode="mutation", status="not_my_vbucket") / layers.UPRBody(value=b"map")
    decoded = decode(Dialect.DCP, bytes(refusal))
    assert (decoded.name, decoded.status_name, decoded.value.raw) == ("mutation", "not_my_vbucket", b"map")
    check_agreement(layers.UPR(bytes(refusal)), decoded)


def test_the_body_says_what_the_header_is() -> None:
    rollback = layers.UPR() / layers.UPRStreamRequestRollback(rollback_seqno=7)
    decoded = decode(Dialect.DCP, bytes(rollback))
    assert (decoded.status_name, decoded["rollback_seqno"], decoded.defects) == ("rollback", 7, ())
    ended = layers.UPRDraft(request_id=1, subtype=2) / layers.UPRDraftStreamEnd()
    assert decode(Dialect.DRAFT, bytes(ended)).subtype == 2
    neighbour = layers.UPRDraft(opaque=3) / layers.MemcachedSaslAuth(key=b"PLAIN")
    check_agreement(layers.UPRDraft(bytes(neighbour)), decode(Dialect.DRAFT, bytes(neighbour), withhold_secrets=False))


def test_early_forms_are_reached_from_the_shipped_dialect() -> None:
    frame = bytes(layers.UPREarly() / layers.UPREarlyMutation28Bytes(by_seqno=3, key=b"k"))
    assert type(layers.UPR(frame).payload) is layers.UPREarlyMutation28Bytes
    check_agreement(layers.UPR(frame), decode(Dialect.DCP, frame))


def test_a_layer_is_found_under_the_name_of_its_message() -> None:
    packet = inet.IP(bytes(inet.IP() / inet.TCP() / layers.UPR() / layers.UPRDeletionV2(delete_time=4, key=b"k")))
    assert layers.UPRDeletion in packet
    assert packet[layers.UPRDeletion].delete_time == 4
    assert layers.UPRMutation not in packet


def test_the_fields_of_a_system_event() -> None:
    sent = layers.UPR() / layers.UPRSystemEvent(by_seqno=4, event="collection_begin", event_version=1, scope_id=8)
    decoded = decode(Dialect.DCP, bytes(sent))
    assert [decoded[name] for name in ("manifest_uid", "scope_id", "collection_id", "max_ttl")] == [0, 8, 0, 0]
    check_agreement(layers.UPR(bytes(sent)), decoded)
    bare = layers.UPR() / layers.UPRSystemEvent(event="scope_drop", value=bytes(11) + b"\x09")
    assert layers.UPR(bytes(bare)).scope_id == 9


TABLE_VALUES: dict[str, dict[str, int | bytes]] = {
    "Collection": {
        "manifest_uid": 2**64 - 2,
        "scope_id": 8,
        "collection_id": 0x1FF,
        "ttl_valid": 1,
        "max_ttl": 3600,
        "collection_name": b"fruit",
        "history": 1,
        "metered": 1,
        "flush_uid": 7,
    },
    "DroppedCollection": {"manifest_uid": 5, "collection_id": 9, "system_collection": 1},
    "Scope": {"scope_id": 8, "scope_name": b"a longer name of a scope"},
    "DroppedScope": {"manifest_uid": 9},
}


@pytest.mark.parametrize(("event", "version"), layers.EVENT_TABLES)
def test_the_table_of_a_system_event(event: int, version: int) -> None:
    given = TABLE_VALUES[layers.EVENT_TABLES[event, version]]
    key = {} if event in (1, 4) else {"key": b"fruit"}
    sent = layers.UPR() / layers.UPRSystemEvent(event=event, event_version=version, event_table=given, **key)
    decoded = decode(Dialect.DCP, bytes(sent))
    assert decoded.defects == ()
    assert decoded.value.table is not None
    assert {entry.name: entry.value for entry in decoded.value.table.entries if entry.value} == given
    assert decoded.value.raw == pack_table(decoded.value.table.spec, given)
    read = layers.UPR(bytes(sent))
    assert (read.event_table, read.value) == (given, b"")
    check_rebuilding(read, bytes(sent))


def test_a_table_as_a_server_wrote_it_stays_as_it_is_until_it_is_changed() -> None:
    raw = bytes.fromhex("140000000000000000000a0018000c00040008000a0000000900000010000000020000000000000000000000")
    raw += bytes.fromhex("05000000656d707479000000")
    frame = bytes(layers.UPR() / layers.UPRSystemEvent(event=3, event_version=2, key=b"empty", value=raw))
    read = layers.UPR(frame)
    assert read.event_table == {"manifest_uid": 2, "scope_id": 9, "scope_name": b"empty"}
    check_rebuilding(read, frame)
    read.event_table["scope_id"] = 10
    read.payload.clear_cache()
    read.clear_cache()
    assert decode(Dialect.DCP, bytes(read))["scope_id"] == 10
    with pytest.raises(ValueError, match="no slots of this table: collection_id"):
        bytes(layers.UPR() / layers.UPRSystemEvent(event=3, event_version=2, event_table={"collection_id": 1}))


@pytest.mark.parametrize("size", [0, 7, 8, 12, 15, 16, 21, 24, 40])
@pytest.mark.parametrize("name", ["failover_log", "system_event", "cache_transfer", "rollback", "V2.0"])
def test_values_that_are_too_short_or_too_long(name: str, size: int) -> None:
    value = bytes(size)
    sent = {
        "failover_log": layers.UPR() / layers.UPRStreamRequestResponse(value=value),
        "system_event": layers.UPR(extras_length=13, opcode=0x5F) / layers.UPRBody(extras=bytes(13), value=value),
        "cache_transfer": layers.UPR() / layers.UPRCacheTransfer(value=value + b"\0" * 30),
        "rollback": layers.UPR(status="rollback", opcode="stream_request") / layers.UPRBody(value=value),
        "V2.0": layers.UPR(opcode="snapshot_marker") / layers.UPRBody(extras=b"\0", value=value),
    }[name]
    found = layers.UPR(bytes(sent))
    assert bytes(found) == bytes(sent)
    assert found.payload.self_build() == bytes(sent)[24:]
    found.clear_cache()
    assert bytes(found) == bytes(sent)
    if isinstance(found.payload, layers.UPRSystemEvent) and size < 16:
        # The decoder reads the fields that are there; here a value is read as a whole or not at all.
        assert (found.payload.manifest_uid, found.payload.value) == (None, value)
    elif type(found.payload) is not layers.UPRBody:
        check_agreement(found, decode(Dialect.DCP, bytes(sent)))


@given(
    header=st.sampled_from(layers.HEADERS),
    magic=st.sampled_from([*registry.MAGICS, 0x00]),
    opcode=st.one_of(st.integers(0, 255), st.sampled_from([known.opcode for known in dcp.MESSAGES])),
    head=st.binary(min_size=6, max_size=6),
    body=st.binary(max_size=90),
    surplus=st.integers(-30, 1),
)
def test_any_bytes(header: Any, magic: int, opcode: int, head: bytes, body: bytes, surplus: int) -> None:
    """Nothing makes the dissector fail, and what it read it writes."""
    small = bytes([head[0] & 3, head[1] & 31, head[2] & 63, head[3] & 7, head[4] & 3, head[5]])
    length = max(len(body) + surplus, 0).to_bytes(4, "big")
    data = bytes([magic, opcode]) + small + length + bytes(12) + body
    found = header(data)
    assert bytes(found) == data
    assert found.show(dump=True)
    assert isinstance(found, packets.Raw) == (magic not in registry.MAGICS or len(body) < max(len(body) + surplus, 0))


# ---------------------------------------------------------------------------------------------------------------- TCP


@pytest.mark.parametrize("port", registry.PORTS)
@pytest.mark.parametrize("end", ["sport", "dport"])
def test_the_well_known_ports(port: int, end: str) -> None:
    packet = inet.IP() / inet.TCP(**{end: port}) / layers.UPR(opaque=7, vbucket=3)
    packet /= layers.UPRMutation(by_seqno=5, key=b"k", value=b"v")
    found = inet.IP(bytes(packet))
    assert found[layers.UPR].vbucket == 3
    assert (found[layers.UPRMutation].by_seqno, found[layers.UPRMutation].key) == (5, b"k")
    assert bytes(found) == bytes(packet)


def test_a_packet_goes_to_the_data_port_unless_told_otherwise() -> None:
    assert (inet.TCP() / layers.UPR()).dport == registry.PORTS[0]
    assert (inet.TCP(dport=1) / layers.UPR()).dport == 1


def test_another_port_can_be_bound() -> None:
    frame = bytes(inet.TCP(dport=12321) / layers.UPREarly() / layers.UPREarlySnapshotMarker())
    assert layers.UPR not in inet.TCP(frame)
    for header in (layers.UPR, layers.UPREarly):
        layers.bind_port(12321, header)
        assert type(inet.TCP(frame).payload) is header
    layers.unbind_port(12321)
    assert layers.UPR not in inet.TCP(frame)
    assert type(inet.TCP(bytes(inet.TCP(dport=11210)) + frame[20:]).payload) is layers.UPR


@pytest.mark.parametrize("count", [1, 2, layers.CHAINED, layers.CHAINED + 1, 700])
def test_several_messages_in_one_payload(count: int) -> None:
    """Scapy walks layers recursively, so only some are chained; nothing is lost for that."""
    data = b"".join(
        bytes(layers.UPR(opaque=at) / layers.UPRControl(key=b"k", value=b"v" * (at % 9))) for at in range(count)
    )
    found = inet.TCP(bytes(inet.TCP())[:2] + (11210).to_bytes(2) + bytes(inet.TCP())[4:] + data)
    listed = list(layers.messages(found))
    assert [message.opaque for message in listed] == list(range(count))
    assert [message.payload.value for message in listed] == [b"v" * (at % 9) for at in range(count)]
    assert bytes(found)[20:] == data
    assert bytes(found.copy())[20:] == data
    assert (layers.UPRMore in found) == (count > layers.CHAINED)


def test_messages_are_chained_when_built_too() -> None:
    packet = layers.UPR(opaque=1) / layers.UPRMutation(key=b"a") / layers.UPR(opaque=2) / layers.UPRNoop()
    packet = packet / layers.UPR(opaque=3, opcode="noop") / b"rest"
    found = layers.UPR(bytes(packet))
    assert [(message.opaque, message.body_length) for message in layers.messages(found)] == [(1, 32), (2, 0), (3, 4)]


def test_a_partial_message_stays_raw() -> None:
    frame = bytes(layers.UPR() / layers.UPRMutation(key=b"key", value=b"value"))
    for length in range(1, len(frame)):
        alone = layers.UPR(frame[:length])
        assert (type(alone), alone.load) == (packets.Raw, frame[:length])
        behind = layers.UPR(NOOP + frame[:length])
        assert [message.message_name() for message in layers.messages(behind)] == ["noop"]
        assert behind[packets.Raw].load == frame[:length]
    assert type(layers.UPR(b"HTTP/1.1 200 OK" * 9)) is packets.Raw


def reassembled(chunks: list[bytes], end: str = "FA") -> tuple[list[Any], bytes]:
    """Let scapy's TCPSession put segments together; return the messages and what stayed raw."""
    session = sessions.TCPSession()
    found: list[Any] = []
    raw = b""
    seq = 1000
    for chunk, flags in [(b"", "S"), *((chunk, "PA") for chunk in chunks), (b"", end)]:
        segment = inet.IP() / inet.TCP(sport=11210, dport=40000, seq=seq, flags=flags)
        segment = inet.IP(bytes(segment / chunk if chunk else segment), stop_dissection_after=inet.TCP)
        seq += len(chunk) + (flags == "S")
        packet = session.process(segment)
        if packet is not None:
            found += layers.messages(packet)
            raw += b"".join(layer.load for layer in packet.iterpayloads() if type(layer) is packets.Raw)
    return found, raw


@given(data=st.data(), cuts=st.lists(st.integers(1, 300), max_size=8, unique=True), missing=st.integers(0, 30))
def test_segments_may_cut_messages_anywhere(data: st.DataObject, cuts: list[int], missing: int) -> None:
    sizes = data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=6))
    frames = [
        bytes(layers.UPR(opaque=at) / layers.UPRMutation(key=b"k", value=bytes(size))) for at, size in enumerate(sizes)
    ]
    stream = b"".join(frames)
    stream = stream[: len(stream) - missing]
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    found, raw = reassembled([stream[start:end] for start, end in itertools.pairwise(places)])
    whole = frames if not missing else frames[:-1]
    assert [bytes(message)[: len(frame)] for message, frame in zip(found, whole, strict=True)] == whole
    assert raw == (frames[-1][: len(frames[-1]) - missing] if missing else b"")


def test_a_stream_that_is_joined_in_the_middle() -> None:
    found, raw = reassembled([b"the end of some value", NOOP, NOOP + b"\x80\x5c", NOOP[2:]])
    assert [message.message_name() for message in found] == ["noop"] * 3
    assert raw == b"the end of some value"


def test_a_header_that_announces_too_much_does_not_hold_the_stream_up() -> None:
    found, raw = reassembled([NOOP[:8] + b"\xff\xff\xff\xff" + NOOP[12:], NOOP])
    assert len(found) == 1
    assert len(raw) == 24


# ------------------------------------------------------------------------------------------------ vectors, recordings


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    dialect = Dialect(vector["dialect"])
    decoded = decode(dialect, data, withhold_secrets=False, inspect=False)
    header = HEADERS[dialect](data)
    assert decoded.header is not None
    if decoded.header.frame_length > len(data):
        assert type(header) is packets.Raw
        return
    check_agreement(header, decoded)
    assert bytes(header) == data
    header.clear_cache()
    assert bytes(header) == data


def column(name: str, number: int) -> int:
    """Return a field's number as its column holds it."""
    if number <= NO_END:
        return number
    return number - (1 << 64) if name in UNSIGNED else NO_END


def once(sniffed: Any) -> Iterator[Any]:
    """Leave retransmissions out: scapy forgets what it has handed on, and hands it on again."""
    seen = set()
    for packet in sniffed:
        place = (packet.payload.src, packet.sport, packet.payload.dst, packet.dport, packet.seq)
        if packet.haslayer(layers.UPR) and place not in seen:
            seen.add(place)
            yield packet


def check_row(packet: Any, header: Any, row: Row) -> None:
    body = header.payload
    assert (packet[inet.TCP].sport, packet[inet.TCP].dport) == (row["sport"], row["dport"])
    for name in ("magic", "opcode", "vbucket", "status", "datatype", "extras_length", "key_length", "body_length"):
        assert getattr(header, name) == row[name], name
    assert (header.message_name(), header.is_response()) == (row["name"], row["response"])
    assert (header.opaque, column("cas", header.cas)) == (row["opaque"], row["cas"])
    assert (header.framing_length or 0) == row["framing_length"]
    assert [info.stream_id for info in header.framing if isinstance(info, layers.UPRStreamIdInfo)] == (
        [] if row["stream_id"] is None else [row["stream_id"]]
    )
    assert body.key == (row["key_bytes"] or b"")
    assert len(value_bytes(body)) == row["value_length"]
    if row["value"] is not None:
        assert value_bytes(body) == row["value"]
    there = {field.name for field in body.fields_desc}
    seqno = {"commit_seqno", "abort_seqno"} & there
    for each in FIELD_COLUMNS:
        if row[each.name] is not None:
            name = seqno.pop() if each.name == "by_seqno" and seqno else each.name
            if name == "reserved" and name not in there:
                name = "sequence_number"  # as early opens call what is reserved since
            assert column(each.name, body.getfieldval(name)) == row[each.name], each.name
    if row["failover_log"] is not None:
        assert [column("cas", entry.vbucket_uuid) for entry in body.failover_log] == [
            entry["vbucket_uuid"] for entry in row["failover_log"]
        ]


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("25_stream_id_v705.pcap", layers.UPR),
        ("11_ext_metadata.pcap", layers.UPR),
        ("10_upr_early_dialect.pcap", layers.UPREarly),
    ],
)
def test_recording(name: str, header: Any) -> None:
    rows = read_rows(CAPTURES / name, FrameReader, ReadOptions(values=True, withhold_secrets=False))
    ports = {min(row["sport"], row["dport"]) for row in rows}
    for port in ports:
        layers.bind_port(port, header)
    try:
        sniffed = sendrecv.sniff(offline=str(CAPTURES / name), session=sessions.TCPSession, quiet=True)
    finally:
        for port in ports:
            layers.unbind_port(port)
    found = [(packet, message) for packet in once(sniffed) for message in layers.messages(packet)]
    assert len(found) == len(rows)
    # Within a direction the order is exact; the reader orders directions by when their frames were complete.
    for side in (CLIENT, SERVER):
        for connection in {row["connection"] for row in rows}:
            mine = [row for row in rows if (row["connection"], row["direction"]) == (connection, side)]
            ends = {(row["src"], row["sport"], row["dst"], row["dport"]) for row in mine}
            theirs = [
                (packet, message)
                for packet, message in found
                if (packet.payload.src, packet.sport, packet.payload.dst, packet.dport) in ends
            ]
            for (packet, message), row in zip(theirs, mine, strict=True):
                check_row(packet, message, row)


# ---------------------------------------------------------------------------------------------------------- generator


def test_a_new_opcode_becomes_a_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    field = Field("new_number", UInt.U16, "a number that is new")
    shape = Shape(layouts=(Layout("new", extras=(field,)), Layout("wide", extras=(field, Field("more", UInt.U64, "")))))
    new = Message(Dialect.DCP, 0x6F, "new_thing", "DCP_NEW", Party.CLIENT, Party.SERVER, "New.", "kv_engine", shape)
    monkeypatch.setattr(registry, "MESSAGES", (*registry.MESSAGES, new))
    text = generator.render()
    compile(text, "scapy_layers.py", "exec")
    assert 'class UPRNewThing(UPRBody):\n    """new_thing (DCP_NEW), request: new, 2 bytes of extras.' in text
    assert '        ShortField("new_number", 0),  # a number that is new\n' in text
    assert "class UPRNewThingWide(UPRNewThing):" in text
    assert '0x6F: "new_thing",' in text
    assert "@@" not in text


def test_the_page_s_examples(repo_root: Path) -> None:
    page = (repo_root / "docs" / "scapy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) > 3
    names: dict[str, Any] = {}
    try:
        for block in blocks:
            exec(block.replace("captures/", f"{CAPTURES}/"), names)  # noqa: S102 - the repository's own page
    finally:
        for port in (12000, 12001):
            layers.unbind_port(port)


def test_without_scapy_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['scapy'] = None; import dissector.generate.scapy_layers"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.endswith("dissector.generate.scapy_layers needs scapy: pip install 'scapy>=2.6'\n")


def test_the_module_knows_scapy_alone() -> None:
    text = Path(layers.__file__).read_text(encoding="utf-8")
    imported = set(re.findall(r"^ *(?:from|import) (\w+)[\w.]*(?: import|$)", text, re.MULTILINE))
    assert imported == {"__future__", "collections", "scapy", "struct", "typing"}
