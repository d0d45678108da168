"""Properties of encoder and decoder, for every layout of the spec and for any bytes at all."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.codec.decoder import decode
from dissector.codec.encoder import encode, pack_fields
from dissector.spec import enums, registry
from dissector.spec.fields import CACHE_RECORD
from dissector.spec.model import (
    Body,
    CasRule,
    Dialect,
    Enumeration,
    Field,
    Flags,
    KeyRole,
    Layout,
    Message,
    MessageType,
    Presence,
    Shape,
)

DIALECTS = st.sampled_from(list(Dialect))


def forms() -> list[tuple[Message, bool, int, Shape, Layout]]:
    """List every (message, response?, status, shape, layout) that the spec describes."""
    rows: list[tuple[Message, bool, int, Shape, Layout]] = []
    for message in registry.MESSAGES:
        shapes = [(False, 0, message.request), (True, 0, message.push)]
        shapes += [(True, status, shape) for status, shape in message.responses]
        for response, status, shape in shapes:
            if shape is not None:
                rows += [(message, response, status, shape, layout) for layout in shape.layouts]
    return rows


FORMS = forms()


def number(field: Field) -> st.SearchStrategy[int]:
    """Draw a number that the field may hold."""
    if field.reserved:
        return st.just(0)
    if isinstance(field.names, Enumeration):
        return st.sampled_from([member.value for member in field.names.members])
    if isinstance(field.names, Flags):
        bits = [member.value for member in field.names.members]
        return st.lists(st.sampled_from(bits), unique=True).map(sum)
    return st.integers(0, (1 << 8 * field.size) - 1)


@st.composite
def well_formed(draw: st.DrawFn, form: tuple[Message, bool, int, Shape, Layout]) -> dict[str, Any]:
    """Draw the arguments of a frame that breaks no rule."""
    _, response, status, shape, layout = form
    fields = {
        field.name: draw(number(field)) for field in (*layout.extras, *layout.value) if field.name != "marker_version"
    }
    if "nmeta" in fields:
        fields["nmeta"] = 0
    key = b""
    if shape.key is Presence.MUST or (shape.key is Presence.MAY and draw(st.booleans())):
        key = draw(st.binary(min_size=1, max_size=200))
    if shape.key_role is KeyRole.PARAMETER:
        key = b"consumer_name"
    value = b""
    if not any(entry.value for entry in shape.layouts) and shape.value is not Presence.MUST_NOT:
        if shape.body is Body.BYTES or shape.body is Body.DOCUMENT:
            value = draw(st.binary(min_size=shape.value is Presence.MUST, max_size=300))
        elif shape.body is Body.TEXT:
            value = draw(st.text("abc", min_size=1)).encode()
        elif shape.body is Body.JSON:
            value = b'{"sid": 1}'
        elif shape.body is Body.FAILOVER_LOG:
            value = draw(st.binary(min_size=16, max_size=16)) * draw(st.integers(1, 4))
        elif shape.body is Body.CACHE_TRANSFER:
            rows = {"key_length": 2, "value_length": 3}
            value = (pack_fields(CACHE_RECORD, rows) + b"kkvvv") * draw(st.integers(1, 3))
    if shape.body is Body.SYSTEM_EVENT:
        fields["event"], fields["event_version"], key, value = 0, 0, b"name", bytes(16)
    return {
        "fields": fields,
        "response": response,
        "layout": layout,
        "status": status,
        "key": key,
        "value": value,
        "opaque": draw(st.binary(min_size=4, max_size=4)),
        "vbucket": draw(st.integers(0, 1023)),
        "cas": 0 if shape.cas is CasRule.ZERO else draw(st.integers(1, 2**64 - 1)),
    }


def _id(form: tuple[Message, bool, int, Shape, Layout]) -> str:
    message, response, status, _, layout = form
    return f"{message.dialect}-{message.name}-{'response' if response else 'request'}-{status:x}-{layout.name}"


@pytest.mark.parametrize("form", FORMS, ids=_id)
@given(data=st.data())
def test_round_trip(form: tuple[Message, bool, int, Shape, Layout], data: st.DataObject) -> None:
    message, response, status, shape, layout = form
    drawn = data.draw(well_formed(form))
    frame = encode(message, **drawn)
    assert len(frame) == 24 + int.from_bytes(frame[8:12], "big")
    decoded = decode(message.dialect, frame + encode(registry.named(Dialect.DCP, "noop")), withhold_secrets=False)
    assert decoded.length == len(frame)
    assert decoded.spec is message
    assert decoded.layout is layout
    assert list(decoded.defect_ids()) == ([layout.note] if layout.note else [])
    assert {name: decoded[name] for name in drawn["fields"]} == drawn["fields"]
    assert decoded.key == drawn["key"]
    fixed = sum(field.size for field in layout.value)
    assert decoded.value.raw[fixed:] == drawn["value"]
    assert decoded.header is not None
    assert decoded.header.opaque == drawn["opaque"]
    assert decoded.header.cas == drawn["cas"]
    if message.dialect is Dialect.DRAFT or not response:
        assert decoded.vbucket == drawn["vbucket"]
    else:
        assert decoded.status == status
    assert decoded.direction is (MessageType.RESPONSE if response else MessageType.REQUEST)
    assert shape in message.shapes()


@pytest.mark.parametrize("form", FORMS, ids=_id)
def test_truncation_at_any_byte_is_a_defect(form: tuple[Message, bool, int, Shape, Layout]) -> None:
    message, response, status, shape, layout = form
    key = b"key" if shape.key is Presence.MUST else b""
    value = b"value" if shape.value is Presence.MUST else b""
    frame = encode(message, response=response, status=status, layout=layout, key=key, value=value)
    for length in range(len(frame)):
        decoded = decode(message.dialect, frame[:length])
        assert decoded.length == length
        names = decoded.defect_ids()
        wanted = {"truncated-header"} if length < 24 else {"truncated-frame", "extras-overstated"}
        assert wanted & set(names), (length, names)


@given(dialect=DIALECTS, data=st.binary(max_size=400), collections=st.booleans(), withhold_secrets=st.booleans())
def test_any_bytes(dialect: Dialect, data: bytes, collections: bool, withhold_secrets: bool) -> None:
    check_total(dialect, data, collections, withhold_secrets)


@given(
    dialect=DIALECTS,
    magic=st.sampled_from([*registry.MAGICS, 0x00]),
    opcode=st.integers(0, 255),
    head=st.binary(min_size=6, max_size=6),
    body=st.binary(max_size=200),
    surplus=st.integers(-30, 30),
    rest=st.binary(min_size=12, max_size=12),
    collections=st.booleans(),
)
def test_plausible_frames(
    dialect: Dialect,
    magic: int,
    opcode: int,
    head: bytes,
    body: bytes,
    surplus: int,
    rest: bytes,
    collections: bool,
) -> None:
    """Frames with a true magic and nearly the right length reach every branch after the header."""
    small = bytes([head[0] & 3, head[1] & 31, head[2] & 63, head[3] & 7, head[4] & 3, head[5]])
    length = max(len(body) + surplus, 0)
    check_total(dialect, bytes([magic, opcode]) + small + length.to_bytes(4, "big") + rest + body, collections, True)


def check_total(dialect: Dialect, data: bytes, collections: bool, withhold_secrets: bool) -> None:
    decoded = decode(dialect, data, collections=collections, withhold_secrets=withhold_secrets)
    if len(data) < 24:
        assert decoded.length == len(data)
        assert decoded.defect_ids() == ("truncated-header",)
        return
    body = int.from_bytes(data[8:12], "big")
    assert decoded.length == min(24 + body, len(data))
    assert (24 + body > len(data)) <= bool({"truncated-frame", "extras-overstated"} & set(decoded.defect_ids()))
    for defect in decoded.defects:
        assert defect.spec.id == defect.id
        assert defect.detail
    table = decoded.value.table
    tabled = {slot.name for slot in table.spec.slots} if table is not None else set()  # these have no fixed place
    for entry in itertools.chain(decoded.fields, *(info.fields for info in decoded.frame_infos)):
        assert entry.offset >= 24
        if entry.name in tabled:
            continue
        assert entry.offset + entry.spec.size <= decoded.length
        piece = data[entry.offset : entry.offset + entry.spec.size]
        assert int.from_bytes(piece, "big") == entry.value
    assert len(decoded.extras) + len(decoded.key) + len(decoded.value.raw) <= max(body, 0)


@given(
    infos=st.lists(st.tuples(st.integers(0, 270), st.binary(max_size=30)), max_size=3, unique_by=lambda info: info[0])
)
def test_framing_extras_round_trip(infos: list[tuple[int, bytes]]) -> None:
    frame = encode(registry.named(Dialect.DCP, "noop"), framing=infos)
    decoded = decode(Dialect.DCP, frame)
    assert [(info.id, info.data) for info in decoded.frame_infos] == infos
    assert "framing-malformed" not in decoded.defect_ids()


@given(sid=st.integers(0, 0xFFFF), by_seqno=st.integers(1, 2**63), key=st.binary(min_size=1, max_size=60))
def test_stream_id_that_the_header_does_not_count(sid: int, by_seqno: int, key: bytes) -> None:
    """E-41: the same frame, right and as 7.0 sends it, decodes to the same message."""
    deletion = registry.named(Dialect.DCP, "deletion")
    layout = next(entry for entry in (deletion.request or Shape()).layouts if entry.name == "V2")
    fields = {"by_seqno": by_seqno, "rev_seqno": 3, "delete_time": 5}
    right = encode(deletion, fields, layout=layout, key=key, framing=[(enums.STREAM_ID_INFO, sid.to_bytes(2, "big"))])
    wrong = right[:2] + b"\0" + right[3:]
    decoded, quirky = decode(Dialect.DCP, right), decode(Dialect.DCP, wrong)
    assert decoded.defect_ids() == ()
    assert quirky.defect_ids() == ("framing-length-omitted",)
    assert (quirky.stream_id, quirky.by_seqno, quirky.key) == (sid, by_seqno, key)
    assert quirky.fields == decoded.fields
