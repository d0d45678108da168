"""The tables: what they must hold, and that mistakes in a declaration are caught when it is made.

Numbers that are asserted here come from the documents and the servers' sources, not from the tables.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissector.codec import values
from dissector.codec.decoder import decode
from dissector.codec.encoder import encode
from dissector.spec import (
    controls,
    defects,
    enums,
    errata,
    events,
    fields,
    fingerprints,
    headers,
    registry,
    topics,
    value_kinds,
)
from dissector.spec.model import (
    UNRELEASED,
    Body,
    Dialect,
    Enumeration,
    Field,
    Flags,
    JsonKey,
    JsonType,
    Layout,
    Message,
    Name,
    Party,
    Presence,
    Refusal,
    Release,
    Reply,
    Shape,
    SpecError,
    UInt,
)
from dissector.tcp import header_check as resync

if TYPE_CHECKING:
    from collections.abc import Iterable


def dcp(opcode: int) -> Message:
    found = registry.message(Dialect.DCP, opcode)
    assert found is not None
    return found


def test_every_opcode_of_each_dialect() -> None:
    def opcodes(dialect: Dialect) -> set[int]:
        return {known.opcode for known in registry.MESSAGES if known.dialect is dialect}

    assert opcodes(Dialect.DRAFT) == {1, 2, 3, 4, 5}
    assert opcodes(Dialect.UPR) == set(range(0x50, 0x5F))
    assert opcodes(Dialect.DCP) == set(range(0x50, 0x68))
    assert opcodes(Dialect.PROTO) == set(range(0x50, 0x5B))
    neighbours = {0x00, 0x01, 0x07, 0x10, 0x1F, 0x20, 0x21, 0x22, 0x3D, 0x40, 0x48, 0x82, 0x89, 0x96, 0xB7, 0xF1, 0xFE}
    assert neighbours <= opcodes(Dialect.MEMCACHED)


#: Extras lengths of the shipped protocol, from the servers' validators.
@pytest.mark.parametrize(
    ("opcode", "sizes"),
    [
        (0x50, {8}),
        (0x51, {4}),
        (0x52, {0}),
        (0x53, {48}),
        (0x54, {0}),
        (0x55, {4}),
        (0x56, {20, 1}),
        (0x57, {31, 32}),
        (0x58, {18, 19, 21}),
        (0x59, {18, 19, 20}),
        (0x5A, {0}),
        (0x5B, {1}),
        (0x5C, {0}),
        (0x5D, {4}),
        (0x5E, {0}),
        (0x5F, {13}),
        (0x60, {31}),
        (0x61, {8}),
        (0x62, {16}),
        (0x63, {16}),
        (0x64, {8}),
        (0x65, {4}),
        (0x66, {0}),
        (0x67, {0}),
    ],
)
def test_extras_lengths(opcode: int, sizes: set[int]) -> None:
    request = dcp(opcode).request
    assert request is not None
    assert {layout.extras_size for layout in request.layouts} == sizes


def test_marker_values() -> None:
    request = dcp(0x56).request
    assert request is not None
    assert {layout.name: layout.value_size for layout in request.layouts} == {
        "V1": 0,
        "V2.0": 36,
        "V2.1": 44,
        "V2.2": 52,
    }


def test_replies_and_flow_control() -> None:
    always = {
        known.opcode for known in registry.MESSAGES if known.dialect is Dialect.DCP and known.reply is Reply.ALWAYS
    }
    assert always == {0x50, 0x51, 0x52, 0x53, 0x54, 0x5B, 0x5C, 0x5E}
    assert dcp(0x56).reply is Reply.WHEN_ASKED
    counted = {known.opcode for known in registry.MESSAGES if known.dialect is Dialect.DCP and known.flow is not None}
    assert counted == {0x55, 0x56, 0x57, 0x58, 0x59, 0x5B, 0x5F, 0x60, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67}


def test_senders() -> None:
    by_sender: dict[Party, set[int]] = {}
    for opcode in range(0x50, 0x68):
        by_sender.setdefault(dcp(opcode).sender, set()).add(opcode)
    assert by_sender[Party.CONSUMER] == {0x53, 0x54, 0x5D, 0x5E, 0x61}
    assert by_sender[Party.PRODUCER] == {*range(0x55, 0x5D), 0x5F, 0x60, *range(0x62, 0x68)}


def test_records_have_their_documented_sizes() -> None:
    assert sum(field.size for field in fields.FAILOVER_ENTRY) == 16
    assert sum(field.size for field in fields.VBUCKET_SEQNO_ENTRY) == 10
    assert sum(field.size for field in fields.CACHE_RECORD) == 40


def test_catalogue_sizes() -> None:
    assert [erratum.id for erratum in errata.ERRATA] == [f"E-{number:02}" for number in range(1, 45)]
    assert len(controls.CONTROL_KEYS) == 24
    assert {event.id for event in events.SYSTEM_EVENTS} == {0, 1, 2, 3, 4, 5}
    assert {member.value for member in enums.END_REASONS.members} == set(range(9))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", defect.id) for defect in defects.DEFECTS)
    assert all(defect.rule is None or re.fullmatch(r"FRM-\d\d", defect.rule) for defect in defects.DEFECTS)


def test_everything_is_documented() -> None:
    for known in registry.MESSAGES:
        assert len(known.doc) > 10, known.name
        assert all(refusal.doc for refusal in known.refusals), known.name
        for shape in known.shapes():
            for layout in shape.layouts:
                assert all(len(field.doc) > 3 for field in (*layout.extras, *layout.value)), known.name
    tables = [table for table in vars(enums).values() if isinstance(table, Enumeration | Flags)]
    assert len(tables) > 20
    for table in (*tables, events.EVENT_NAMES):
        assert table.doc, table.name
        assert all(member.doc for member in table.members), table.name
    for info in enums.FRAME_INFOS:
        assert info.doc
        assert all(field.doc for field in info.fields)
    for body in value_kinds.BODIES.values():
        assert body.doc
        assert all(field.doc for field in body.record)


def test_states_are_swapped_between_the_dialects() -> None:
    """E-10."""
    for value, documents, servers in ((2, "pending", "replica"), (3, "replica", "pending")):
        document, server = enums.UPR_VBUCKET_STATES.member(value), enums.VBUCKET_STATES.member(value)
        assert document is not None
        assert server is not None
        assert (document.name, server.name) == (documents, servers)


def test_releases_have_an_order() -> None:
    assert Release(3) < Release(3, 0, 2) < Release(4) < Release(6, 5) < Release(8) < Release(99)
    assert [str(Release(3)), str(Release(3, 0, 2)), str(Release(99))] == ["3.0", "3.0.2", "after 8.0"]


def test_defects_of_decoder_are_declared_and_used() -> None:
    """Every id that the code reports is declared, and every declared id is reported somewhere."""
    code = "".join(path.read_text() for path in Path(registry.__file__).parent.parent.rglob("*.py"))
    reported = set(re.findall(r'report\(\s*"([a-z-]+)"', code)) | set(re.findall(r'note="([a-z-]+)"', code))
    reported |= set(re.findall(r'Defect\("([a-z-]+)"', code))
    assert reported == {defect.id for defect in defects.DEFECTS}


U8 = Field("a", UInt.U8, "doc")


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Enumeration("twice", "", (Name(1, "a"), Name(1, "b"))),
        lambda: Flags("no bit", "", (Name(3, "a"),)),
        lambda: Flags("zero", "", (Name(0, "a"),)),
        lambda: Layout("twice", extras=(U8, U8)),
        lambda: Layout("version", extras=(U8,), version=1),
        lambda: Shape(layouts=(Layout("one", extras=(U8,)), Layout("two", extras=(U8,)))),
        lambda: Message(Dialect.DCP, 0x100, "a", "A", Party.CLIENT, Party.SERVER, "", "", request=Shape()),
        lambda: Message(Dialect.DCP, 0x99, "a", "A", Party.CLIENT, Party.SERVER, "", ""),
        lambda: Message(
            Dialect.DCP, 0x99, "a", "A", Party.CLIENT, Party.SERVER, "", "", request=Shape(), subtypes=(1,)
        ),
        lambda: Message(Dialect.DCP, 0x99, "a", "A", Party.CLIENT, Party.SERVER, "", "", request=Shape(), seqno="x"),
        lambda: Message(Dialect.DRAFT, 1, "a", "A", Party.CLIENT, Party.SERVER, "", "", push=Shape(), subtypes=(1,)),
        lambda: Message(
            Dialect.DRAFT,
            1,
            "a",
            "A",
            Party.CLIENT,
            Party.SERVER,
            "",
            "",
            push=Shape(),
            subtypes=(3,),
            subtype_names=enums.DRAFT_REQUEST_TYPES,
        ),
        lambda: Message(
            Dialect.DCP,
            0x99,
            "a",
            "A",
            Party.CLIENT,
            Party.SERVER,
            "",
            "",
            request=Shape(),
            refusals=(Refusal(1, "one"), Refusal(1, "two")),
        ),
        lambda: Shape(json_keys=(JsonKey("a", JsonType.STRING, "", ""),)),
        lambda: Shape(
            body=Body.JSON,
            json_keys=(JsonKey("a", JsonType.STRING, "", ""), JsonKey("a", JsonType.INTEGER, "", "")),
        ),
        lambda: JsonKey("a", JsonType.OBJECT, "", ""),
        lambda: headers.HeaderForm("short", "", (), ((0, U8),)),
        lambda: headers.HeaderForm("gap", "", (), ((0, U8), (2, U8))),
    ],
)
def test_mistakes_are_caught_when_declared(declare: object) -> None:
    assert callable(declare)
    with pytest.raises(SpecError):
        declare()


def test_presence_of_extras_follows_from_the_layouts() -> None:
    both = (Layout("none"), Layout("one", extras=(U8,)))
    assert Shape().extras is Presence.MUST_NOT
    assert Shape(layouts=both[1:]).extras is Presence.MUST
    assert Shape(layouts=both).extras is Presence.MAY


@pytest.mark.parametrize(
    ("magics", "places"),
    [
        ((0x80, 0x82), "magic 0 opcode 1 key_length 2 extras_length 4 datatype 5 vbucket 6"),
        ((0x81, 0x83), "magic 0 opcode 1 key_length 2 extras_length 4 datatype 5 status 6"),
        ((0x08,), "magic 0 opcode 1 framing_length 2 key_length 3 extras_length 4 datatype 5 vbucket 6"),
        ((0x18,), "magic 0 opcode 1 framing_length 2 key_length 3 extras_length 4 datatype 5 status 6"),
    ],
)
def test_headers_byte_by_byte(magics: tuple[int, ...], places: str) -> None:
    for magic in magics:
        form = headers.header_form(magic)
        assert form is not None
        declared = " ".join(f"{field.name} {offset}" for offset, field in form.places)
        assert declared == f"{places} body_length 8 opaque 12 cas 16"


def test_the_draft_s_header_has_a_subtype_and_the_vbucket_both_ways() -> None:
    for magic in (0x80, 0x81):
        form = headers.header_form(magic, draft=True)
        assert form is not None
        assert (form.offset("subtype"), form.offset("vbucket"), form.offset("request_id")) == (5, 6, 12)
    assert headers.header_form(0x08, draft=True) is None


def test_frame_infos_are_packed_as_declared() -> None:
    """Half a byte each; 15 goes on in the next byte, the id's rest first."""
    noop = dcp(0x5C)
    assert (headers.FRAME_INFO_ESCAPE, headers.STREAM_ID_TAG, headers.STREAM_ID_SIZE) == (15, 0x22, 3)
    for number, size, head in ((2, 2, b"\x22"), (14, 14, b"\xee"), (15, 3, b"\xf3\0"), (20, 17, b"\xff\x05\x02")):
        frame = encode(noop, framing=[(number, bytes(size))])
        assert frame[24:] == head + bytes(size)
        (info,) = decode(Dialect.DCP, frame).frame_infos
        assert (info.id, info.data) == (number, bytes(size))


#: From the servers' headers: PROTOCOL_BINARY_RESPONSE_ and the status.
@pytest.mark.parametrize(
    ("constant", "status"),
    [
        ("KEY_ENOENT", 0x01),
        ("KEY_EEXISTS", 0x02),
        ("E2BIG", 0x03),
        ("EINVAL", 0x04),
        ("DELTA_BADVAL", 0x06),
        ("ERANGE", 0x22),
        ("EACCESS", 0x24),
        ("NOT_INITIALIZED", 0x25),
        ("ENOMEM", 0x82),
        ("EINTERNAL", 0x84),
        ("EBUSY", 0x85),
        ("ETMPFAIL", 0x86),
        ("XATTR_EINVAL", 0x87),
        ("CANNOT_APPLY_COLLECTIONS_MANIFEST", 0x8A),
        ("COLLECTIONS_MANIFEST_IS_AHEAD", 0x8B),
    ],
)
def test_statuses_know_their_constants(constant: str, status: int) -> None:
    assert [member.value for member in enums.STATUSES.members if constant in member.aliases] == [status]


#: RateLimited... (0x30 to 0x33), ScopeSizeLimitExceeded, and the four limits of a bucket, in kv_engine's numbering.
@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("rate_limited", range(0x30, 0x34)),
        ("scope_size_limit_exceeded", (0x34,)),
        ("bucket_limit", range(0x35, 0x39)),
        ("no_collections_manifest", (0x89,)),
        ("manifest_is_ahead", (0x8B,)),
        (None, (0x2F, 0x39, 0x4F, 0x52, 0x8E)),
    ],
)
def test_limits_and_manifests_have_their_statuses(name: str | None, statuses: Iterable[int]) -> None:
    assert {registry.status_name(status) for status in statuses} == {name}


def test_a_status_has_one_name() -> None:
    names = [name.casefold() for member in enums.STATUSES.members for name in (member.name, *member.aliases)]
    assert len(set(names)) == len(names)
    assert not any(member.name.upper() in member.aliases for member in enums.STATUSES.members)


def test_the_keys_of_json_values() -> None:
    def types(name: str) -> dict[str, str]:
        request = registry.named(Dialect.DCP, name).request
        assert request is not None
        return {key.name: str(key.type) for key in request.json_keys}

    assert types("open") == {"consumer_name": "string"}
    assert types("stream_request") == {
        "uid": "string",
        "sid": "integer",
        "collections": "array of strings",
        "scope": "string",
        "purge_seqno": "string",
        "cts": "object",
    }
    request = registry.named(Dialect.DCP, "stream_request").request
    assert request is not None
    assert {one.name: str(one.type) for one in request.json_keys[-1].members} == {
        "free_memory": "integer",
        "all_keys": "boolean",
    }


def test_unknown_json_keys_are_no_defect() -> None:
    frame = encode(dcp(0x53), value=b'{"sid": 3, "nobody": {"knows": ["this"]}}', datatype=1)
    assert decode(Dialect.DCP, frame).defect_ids() == ()


@pytest.mark.parametrize(
    ("opcode", "subtype", "name", "meaning"),
    [
        (0x01, 1, "stream_request", "stream_request"),
        (0x01, 2, "get_failover_log", "failover_log_request"),
        (0x02, 1, "stream_ok", "ok"),
        (0x02, 2, "stream_not_my_vbucket", "not_my_vbucket"),
        (0x02, 3, "stream_rollback", "rollback"),
        (0x03, 0, "stream_start", "stream_start"),
        (0x04, 1, "snapshot_start", "snapshot_start"),
        (0x04, 2, "snapshot_end", "snapshot_end"),
        (0x04, 3, "mutation", "mutation"),
        (0x04, 4, "deletion", "deletion"),
        (0x04, 5, "expiration", "expiration"),
        (0x04, 6, "flush", "flush"),
        (0x05, 1, "stream_end", "ok"),
        (0x05, 2, "stream_end", "state_changed"),
    ],
)
def test_draft_subtypes_have_meanings(opcode: int, subtype: int, name: str, meaning: str) -> None:
    known = registry.drafted(opcode, subtype)
    assert known is not None
    assert known.subtype_names is not None
    member = known.subtype_names.member(subtype)
    assert member is not None
    assert (known.name, member.name) == (name, meaning)


class TestSystemEvents:
    def test_the_field_has_their_names(self) -> None:
        names = {0: "collection_begin", 1: "collection_end", 2: "collection_flush", 3: "scope_create"}
        names |= {4: "scope_drop", 5: "collection_modify"}
        for event, name in names.items():
            decoded = decode(Dialect.DCP, encode(dcp(0x5F), {"event": event, "event_version": 2}))
            assert next(entry.label for entry in decoded.fields if entry.name == "event") == name

    def test_an_unknown_one_is_one_defect(self) -> None:
        for event in (6, 2**32 - 1):
            decoded = decode(Dialect.DCP, encode(dcp(0x5F), {"event": event}))
            assert decoded.defect_ids() == ("enum-out-of-range",)

    def test_the_flush_of_old_is_known(self) -> None:
        assert decode(Dialect.DCP, encode(dcp(0x5F), {"event": 2})).defect_ids() == ()
        flush = registry.EVENT_BY_ID[2]
        assert (flush.since, flush.until) == (Release(5), Release(7, 1))

    @pytest.mark.parametrize(("event", "size"), [(1, 16), (4, 12)])
    def test_what_was_dropped_has_no_name(self, event: int, size: int) -> None:
        frame = encode(dcp(0x5F), {"event": event}, value=bytes(size))
        assert decode(Dialect.DCP, frame).defect_ids() == ()
        named = encode(dcp(0x5F), {"event": event}, key=b"name", value=bytes(size))
        assert decode(Dialect.DCP, named).defect_ids() == ("key-unexpected",)


#: Statuses that a refusal may have, by opcode, as servers and the recordings of them show.
_STREAM_ERRORS = {0x01, 0x02, 0x04, 0x07, 0x0A, 0x0B, 0x22, 0x82, 0x86}
_DOCUMENT_ERRORS = _STREAM_ERRORS | {0x87, 0x88}


@pytest.mark.parametrize(
    ("opcode", "errors", "disconnects"),
    [
        (0x50, {0x04, 0x24}, True),
        (0x51, {0x02, 0x04, 0x07}, True),
        (0x52, {0x01, 0x04, 0x8D}, False),
        (0x53, {0x02, 0x04, 0x07, 0x22, 0x23, 0x24, 0x82, 0x83, 0x86, 0x88, 0x8C, 0x8D}, True),
        (0x54, {0x04, 0x07, 0x82}, True),
        (0x55, _STREAM_ERRORS, False),
        (0x56, _STREAM_ERRORS, False),
        (0x57, _DOCUMENT_ERRORS, False),
        (0x58, _DOCUMENT_ERRORS, False),
        (0x59, _DOCUMENT_ERRORS, False),
        (0x5A, {0x83}, True),
        (0x5B, {0x01, 0x04}, True),
        (0x5C, set(), False),
        (0x5D, {0x01, 0x04}, False),
        (0x5E, {0x04, 0x83}, True),
        (0x5F, _STREAM_ERRORS, False),
        (0x60, _DOCUMENT_ERRORS, False),
        (0x61, {0x04, 0x07}, False),
        (0x62, _STREAM_ERRORS, False),
        (0x63, _STREAM_ERRORS, True),
        (0x64, _STREAM_ERRORS | {0x81}, False),
        (0x65, _STREAM_ERRORS | {0x81}, False),
        (0x66, {0x82}, False),
        (0x67, set(), False),
    ],
)
def test_errors_of_each_command(opcode: int, errors: set[int], disconnects: bool) -> None:
    assert set(dcp(opcode).errors) == errors
    assert bool(dcp(opcode).disconnects) is disconnects


def test_upr_errors_and_replies() -> None:
    upr = {known.opcode: known for known in registry.MESSAGES if known.dialect is Dialect.UPR}
    assert {opcode: set(known.errors) for opcode, known in upr.items() if known.errors} == {
        0x52: {0x01},
        0x53: {0x01, 0x02, 0x04, 0x07, 0x22, 0x23},
        0x54: {0x07},
        0x5B: {0x01, 0x04},
        0x5D: {0x01, 0x04},
        0x5E: {0x04},
    }
    assert {opcode for opcode, known in upr.items() if known.disconnects} == {0x53, 0x5B}
    # Recorded in May 2014: consumers answer these, producers the buffer ack.
    tolerated = {opcode for opcode, known in upr.items() if known.reply is Reply.TOLERATED}
    assert tolerated == {0x55, 0x56, 0x57, 0x58, 0x5D}
    assert all(upr[opcode].reply_doc for opcode in tolerated)
    assert {opcode for opcode, known in upr.items() if known.reply is Reply.NEVER} == {0x59, 0x5A}


def test_open_had_four_bytes_once() -> None:
    request = registry.named(Dialect.UPR, "open").request
    assert request is not None
    assert [layout.extras_size for layout in request.layouts] == [8, 4]
    assert (registry.OPEN_EXTRAS, registry.OPEN_FLAGS_AT) == (8, 4)


#: What the producer counts, without key and value: header, extras, fixed value and surplus.
@pytest.mark.parametrize(
    ("opcode", "sizes"),
    [
        (0x55, {28}),
        (0x56, {44, 61, 77}),
        (0x57, {55, 56}),
        (0x58, {42, 45}),
        (0x59, {44}),
        (0x5B, {25}),
        (0x5F, {37}),
        (0x60, {57}),
        (0x62, {40}),
        (0x63, {40}),
        (0x64, {32}),
        (0x65, {28}),
        (0x66, {24}),
        (0x67, {24}),
    ],
)
def test_flow_control_sizes_are_told_and_true(opcode: int, sizes: set[int]) -> None:
    flow, request = dcp(opcode).flow, dcp(opcode).request
    assert flow is not None
    assert request is not None
    counted = {flow.counted(24 + layout.extras_size + layout.value_size) for layout in request.layouts}
    assert sizes <= counted
    told = {int(number) for number in re.findall(r"(?<![\d.-])\d{2}(?!\d)", re.sub(r"MB-\d+", "", flow.doc))}
    assert told == sizes


#: Releases of control keys, from the servers' sources.
@pytest.mark.parametrize(
    ("name", "since", "until"),
    [
        ("connection_buffer_size", Release(3), None),
        ("stream_buffer_size", Release(3), None),
        ("enable_noop", Release(3), None),
        ("set_noop_interval", Release(3, 0, 2), None),
        ("set_priority", Release(4), None),
        ("enable_ext_metadata", Release(4), Release(6, 6)),
        ("enable_value_compression", Release(4, 5), Release(5, 1)),
        ("supports_cursor_dropping", Release(4, 5), None),
        ("supports_cursor_dropping_vulcan", Release(5, 5), None),
        ("supports_hifi_MFU", Release(5, 5), None),
        ("force_value_compression", Release(5, 5), None),
        ("send_stream_end_on_client_close_stream", Release(5, 5), None),
        ("enable_expiry_opcode", Release(6, 5), None),
        ("enable_stream_id", Release(6, 5), None),
        ("enable_sync_writes", Release(6, 5), None),
        ("consumer_name", Release(6, 5), None),
        ("backfill_order", Release(6, 6), None),
        ("include_deleted_user_xattrs", Release(6, 6), None),
        ("enable_out_of_order_snapshots", Release(7), None),
        ("v7_dcp_status_codes", Release(7), None),
        ("flatbuffers_system_events", Release(7, 2), None),
        ("change_streams", Release(7, 2), None),
        ("max_marker_version", Release(8), None),
        ("cache_transfer", UNRELEASED, None),
    ],
)
def test_releases_of_control_keys(name: str, since: Release, until: Release | None) -> None:
    key = registry.CONTROL_BY_NAME[name]
    assert (key.since, key.until) == (since, until)


def test_releases_of_flags() -> None:
    def since(table: Flags) -> dict[int, str]:
        return {bit.value: str(bit.since) for bit in table.members if bit.since is not None}

    assert since(enums.OPEN_FLAGS) == {
        0x02: "3.0",
        0x04: "5.0",
        0x08: "5.0",
        0x10: "5.0",
        0x20: "5.5",
        0x40: "6.5",
        0x100: "6.6",
        0x200: "after 8.0",
    }
    assert since(enums.STREAM_FLAGS) == {
        0x01: "3.0",
        0x02: "3.0",
        0x04: "3.0",
        0x08: "4.5",
        0x10: "5.0",
        0x20: "5.1",
        0x40: "7.2",
        0x80: "7.2",
        0x100: "after 8.0",
    }
    assert since(enums.MARKER_FLAGS) == {0x10: "7.2", 0x20: "7.2"}


def test_features_have_the_server_s_numbers() -> None:
    numbers = {"xattr": 0x06, "collections": 0x12, "snappy_everywhere": 0x13, "preserve_ttl": 0x14, "vattr": 0x15}
    numbers |= {"report_unit_usage": 0x1A, "subdoc_replica_read": 0x1C, "skip_deletes_in_backfill": 0x26}
    known = {member.name: member.value for member in enums.FEATURES.members}
    assert {name: known[name] for name in numbers} == numbers


def test_resynchronisation_takes_its_limits_from_the_spec() -> None:
    assert (fingerprints.MAX_BODY, fingerprints.DEFAULT_VBUCKETS, fingerprints.CONFIRM_HEADERS) == (30 * 2**20, 1024, 3)
    assert resync.CONFIRM == fingerprints.CONFIRM_HEADERS
    assert (registry.MAX_BODY, registry.DEFAULT_VBUCKETS) == (fingerprints.MAX_BODY, fingerprints.DEFAULT_VBUCKETS)
    answer = bytearray(encode(dcp(0x5C), response=True))
    answer[11] = 255
    for extras, legal in ((fingerprints.MAX_ANSWER_EXTRAS, True), (fingerprints.MAX_ANSWER_EXTRAS + 1, False)):
        answer[4] = extras
        assert resync.is_legal(bytes(answer)) is legal


def test_the_decoder_reads_records_as_the_spec_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert value_kinds.RECORDS.keys() == {Body.FAILOVER_LOG, Body.FEATURES, Body.VBUCKET_SEQNOS}
    assert len(values.read_value(Body.FEATURES, bytes(4), 24, lambda *_: None).records) == 2
    monkeypatch.setitem(value_kinds.RECORDS, Body.FEATURES, fields.FEATURE_ENTRY * 2)
    assert len(values.read_value(Body.FEATURES, bytes(4), 24, lambda *_: None).records) == 1


def test_no_op_timing() -> None:
    assert (topics.NOOP_INTERVAL_S, topics.NOOP_INTERVAL_UNSET_S, topics.IDLE_TIMEOUT_S) == (180, 20, 360)
    timing = " ".join(next(topic for topic in topics.TOPICS if topic.name == "no-op timing").paragraphs)
    assert all(f"{number}" in timing for number in (180, 20, 360))


def test_the_spec_names_no_document_that_readers_do_not_have() -> None:
    for path in Path(registry.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert "WIRE" not in text, path.name
        assert "/work" not in text, path.name
