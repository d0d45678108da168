"""Single rules of the decoder: what must be reported, and what must not."""

from __future__ import annotations

from typing import Any

import cramjam
import pytest

from dissector.codec import leb128
from dissector.codec.decoder import decode
from dissector.codec.encoder import encode, pack_metadata, pack_xattrs
from dissector.codec.message import Decoded
from dissector.spec import registry
from dissector.spec.model import Body, Dialect


def message(name: str, dialect: Dialect = Dialect.DCP, *, layout: str | None = None, **arguments: Any) -> bytes:
    spec = registry.named(dialect, name)
    layouts = [entry for shape in spec.shapes() for entry in shape.layouts]
    chosen = next((entry for entry in layouts if entry.name == layout), None)
    assert (chosen is None) == (layout is None)
    return encode(spec, layout=chosen, **arguments)


def patched(frame: bytes, offset: int, replacement: bytes) -> bytes:
    return frame[:offset] + replacement + frame[offset + len(replacement) :]


def body_length(frame: bytes, length: int) -> bytes:
    return patched(frame, 8, length.to_bytes(4, "big"))


MUTATION = message("mutation", key=b"key", value=b"value", cas=1)
NOOP = message("noop")


@pytest.mark.parametrize(
    ("frame", "defects"),
    [
        (b"", ["truncated-header"]),
        (MUTATION[:23], ["truncated-header"]),
        (MUTATION[:-1], ["truncated-frame"]),
        (patched(NOOP, 0, b"\x7f"), ["unknown-magic"]),
        (patched(NOOP, 1, b"\x6f"), ["unknown-opcode"]),
        (patched(MUTATION, 2, b"\xff\xff"), ["lengths-exceed-body"]),
        (patched(MUTATION, 4, b"\xff"), ["lengths-exceed-body", "extras-length-unknown", "key-missing"]),
        (message("mutation", cas=1), ["key-missing"]),
        (message("noop", key=b"k"), ["key-unexpected"]),
        (message("noop", value=b"v"), ["value-unexpected"]),
        (message("control", key=b"enable_noop"), ["value-missing", "control-value-invalid"]),
        (message("control", key=b"enable_noo", value=b"true"), ["control-key-unknown"]),
        (message("control", key=b"enable_noop", value=b"true"), []),
        (message("control", key=b"set_noop_interval", value=b"0.5"), []),
        (message("mutation", key=b"k", datatype=0x08), ["datatype-invalid"]),
        (message("stream_end", datatype=1), ["datatype-not-allowed"]),
        (message("deletion", key=b"k", datatype=1), ["datatype-not-allowed"]),
        (message("deletion", key=b"k", datatype=5), []),  # MB-29040: accepted
        (message("commit", key=b"k", cas=9), ["cas-not-zero"]),
        (message("prepare", key=b"k", fields={"durability_level": 1}), ["cas-zero"]),
        (message("open", key=b"n", fields={"reserved": 1}), ["reserved-not-zero"]),
        (message("open", key=b"n", fields={"open_flags": 0x4001}), ["unknown-flag-bits"]),
        (message("snapshot_marker", fields={"snapshot_type": 0x41}), ["unknown-flag-bits"]),
        (message("stream_request", fields={"stream_flags": 0x8000}), []),  # E-43
        (message("stream_end", fields={"end_reason": 9}), ["enum-out-of-range"]),
        (message("stream_end", fields={"end_reason": 8}), []),
        (message("set_vbucket_state", fields={"vbucket_state": 0}), ["enum-out-of-range"]),
        (message("oso_snapshot", fields={"oso_flags": 3}), ["enum-out-of-range"]),
        (message("prepare", key=b"k", cas=1, fields={"durability_level": 9}), ["enum-out-of-range"]),
        (message("system_event", fields={"event": 9}), ["enum-out-of-range"]),
        (message("system_event", fields={"event": 1, "event_version": 7}), ["event-version-unknown"]),
        (message("system_event", fields={"event": 1}, value=bytes(15)), ["value-length"]),
        (message("system_event", fields={"event": 0}, value=bytes(16)), ["key-missing"]),
        (message("snapshot_marker", layout="V2.0", fields={"marker_version": 3}), ["marker-version-unknown"]),
        (message("snapshot_marker", layout="V2.1"), ["marker-version-withdrawn"]),
        (message("snapshot_marker", layout="V2.0", value=b"more"), ["value-length"]),
        (message("snapshot_marker", layout="V1", value=b"more"), ["value-unexpected"]),
        (message("get_failover_log", response=True, value=bytes(15)), ["records-malformed"]),
        (message("stream_request", response=True), ["value-missing"]),
        (message("stream_request", response=True, status=0x22, value=b"Outside range"), []),
        (message("stream_request", response=True, status=0x07), []),
        (message("stream_request", response=True, status=0x1234), ["status-unknown"]),
        (message("stream_request", response=True, status=0xC5), []),  # a family
        (message("cache_transfer", value=bytes(39)), ["records-malformed"]),
        (message("mutation", key=b"k", fields={"nmeta": 9}, value=b"short"), ["nmeta-exceeds-value"]),
        (message("mutation", key=b"k", fields={"nmeta": 3}, value=b"v\x02\x00\x00"), ["nmeta-invalid"]),
        (message("mutation", key=b"k", datatype=1, value=b"{"), ["json-invalid"]),
        (message("mutation", key=b"k", datatype=1, value=b"[NaN]"), ["json-invalid"]),
        (message("mutation", key=b"k", datatype=1, value=b"{}"), []),
        (message("mutation", key=b"k", datatype=4, value=b"\xff\xff\xff\xff"), ["xattr-invalid"]),
        (message("mutation", key=b"k", datatype=4), []),  # open flag 0x40: the datatype without the value
        (message("mutation", key=b"k", datatype=2, value=b"\xff"), ["snappy-invalid"]),
        (message("noop", framing=[(2, b"\0\1"), (2, b"\0\1")]), ["frame-info-repeated"]),
        (message("noop", framing=[(2, b"\0")]), ["frame-info-length"]),
        (message("noop", framing=[(9, b"")]), ["frame-info-unknown"]),
        (message("noop", framing=[(1, b"\x09")]), ["enum-out-of-range"]),
        (body_length(NOOP, 31 << 20), ["truncated-frame", "body-too-large", "value-unexpected"]),
        (message("stream_end", layout=None)[:4] + b"\x05" + message("stream_end")[5:], ["lengths-exceed-body"]),
    ],
    ids=lambda value: value.hex()[:40] if isinstance(value, bytes) else "-".join(value) or "clean",
)
def test_defects(frame: bytes, defects: list[str]) -> None:
    assert list(decode(Dialect.DCP, frame).defect_ids()) == defects


def test_unknown_extras_length_shows_the_longest_known_prefix() -> None:
    """33 bytes: the prototype's 32 are the nearest; 22: the first fields of the shortest layout."""
    frame = message("mutation", layout="collections prototype", key=b"k", fields={"by_seqno": 5, "nru": 2})
    longer = patched(frame[:56] + b"\0" + frame[56:], 4, b"\x21")
    decoded = decode(Dialect.DCP, body_length(longer, len(longer) - 24))
    assert decoded.defect_ids() == ("extras-length-unknown",)
    assert (decoded["by_seqno"], decoded["nru"], decoded.key) == (5, 2, b"k")
    shorter = patched(frame[:46] + frame[56:], 4, b"\x16")
    decoded = decode(Dialect.DCP, body_length(shorter, len(shorter) - 24))
    assert decoded.defect_ids() == ("extras-length-unknown",)
    assert decoded["by_seqno"] == 5
    assert [entry.name for entry in decoded.fields] == ["by_seqno", "rev_seqno", "item_flags"]


@pytest.mark.parametrize(
    ("dialect", "other", "name", "layout"),
    [
        (Dialect.DCP, Dialect.UPR, "stream_request", "40 bytes"),
        (Dialect.DCP, Dialect.UPR, "snapshot_marker", "no extras"),
        (Dialect.DCP, Dialect.UPR, "mutation", "30 bytes"),
        (Dialect.UPR, Dialect.DCP, "mutation", "collections prototype"),
        (Dialect.UPR, Dialect.DCP, "deletion", "V2"),
        (Dialect.UPR, Dialect.DCP, "expiration", "expiration"),
    ],
)
def test_form_of_the_other_dialect(dialect: Dialect, other: Dialect, name: str, layout: str) -> None:
    key = b"" if name in {"stream_request", "snapshot_marker"} else b"k"
    frame = message(name, other, layout=layout, key=key)
    assert decode(other, frame).defect_ids() == ()
    decoded = decode(dialect, frame)
    assert decoded.defect_ids() == ("layout-of-other-dialect",)
    assert decoded.layout is not None
    assert decoded.layout.name == layout


class TestKeys:
    def decode(self, key: bytes, *, collections: bool = True) -> Decoded:
        return decode(Dialect.DCP, message("mutation", key=key), collections=collections)

    @pytest.mark.parametrize("collection", [0, 8, 0x7F, 0x80, 0x1FF, 0xFFFFFFFF])
    def test_collection_id(self, collection: int) -> None:
        decoded = self.decode(leb128.pack(collection) + b"key")
        assert (decoded.collection_id, decoded.document_key) == (collection, b"key")
        assert not decoded.defects

    def test_without_collections_the_key_is_the_key(self) -> None:
        decoded = self.decode(b"\x08key", collections=False)
        assert (decoded.collection_id, decoded.document_key) == (None, b"\x08key")

    @pytest.mark.parametrize("key", [b"\x80", b"\x80\x80\x80\x80\x80\x01k", b"\x80\x00k", b"\xff\xff\xff\xff\x7fk"])
    def test_malformed_collection_id(self, key: bytes) -> None:
        """Unfinished, too long, not canonical, more than 32 bits."""
        decoded = self.decode(key)
        assert decoded.defect_ids() == ("collection-id-invalid",)
        assert decoded.document_key == key

    def test_nothing_after_the_collection_id(self) -> None:
        assert self.decode(b"\x08").defect_ids() == ("key-empty",)

    @pytest.mark.parametrize(("collections", "length"), [(False, 250), (True, 251)])
    def test_longest_key(self, collections: bool, length: int) -> None:
        assert not self.decode(b"\x08" * length, collections=collections).defects
        assert self.decode(b"\x08" * (length + 1), collections=collections).defect_ids() == ("key-too-long",)

    def test_names_and_events_have_no_collection_id(self) -> None:
        decoded = decode(Dialect.DCP, message("open", key=b"\x80name"), collections=True)
        assert (decoded.collection_id, decoded.document_key) == (None, b"\x80name")


class TestDocuments:
    XATTRS = ((b"_sync", b'{"rev":1}'), (b"meta", b"[]"))

    def test_xattrs_snappy_json(self) -> None:
        plain = pack_xattrs(self.XATTRS, b'{"a": 1}')
        raw = bytes(cramjam.snappy.compress_raw(plain))
        value = decode(Dialect.DCP, message("mutation", key=b"k", datatype=7, value=raw)).value
        assert value.raw == raw
        assert value.inflated == plain
        assert value.xattrs == self.XATTRS
        assert (value.document, value.is_json) == (b'{"a": 1}', True)

    def test_deletion_with_xattrs_alone(self) -> None:
        decoded = decode(
            Dialect.DCP, message("deletion", layout="V2", key=b"k", datatype=4, value=pack_xattrs(self.XATTRS))
        )
        assert not decoded.defects
        assert decoded.value.xattrs == self.XATTRS
        assert decoded.value.document == b""

    @pytest.mark.parametrize(
        "value",
        [
            b"\0\0\0",
            b"\0\0\0\x09doc",
            pack_xattrs([(b"n", b"v")])[:-1] + b"x",  # the last zero is missing
            b"\0\0\0\x06\0\0\0\x09n\0",  # a pair longer than the section
            b"\0\0\0\x02\0\0",  # a pair without its length
        ],
    )
    def test_malformed_xattrs(self, value: bytes) -> None:
        assert (
            "xattr-invalid" in decode(Dialect.DCP, message("mutation", key=b"k", datatype=4, value=value)).defect_ids()
        )

    def test_snappy_bomb_is_not_expanded(self) -> None:
        """1 GiB announced in five bytes: refused before any memory is taken."""
        claim = leb128.pack(1 << 30)
        decoded = decode(Dialect.DCP, message("mutation", key=b"k", datatype=2, value=claim + b"\xfe\x01\0" * 20))
        assert decoded.defect_ids() == ("snappy-too-large",)
        assert decoded.value.inflated is None

    def test_snappy_limit_is_an_option(self) -> None:
        raw = bytes(cramjam.snappy.compress_raw(bytes(1000)))
        frame = message("mutation", key=b"k", datatype=2, value=raw)
        assert decode(Dialect.DCP, frame, inflate_limit=1000).value.inflated == bytes(1000)
        assert decode(Dialect.DCP, frame, inflate_limit=999).defect_ids() == ("snappy-too-large",)

    def test_a_claim_that_the_bytes_cannot_make_is_refused(self) -> None:
        decoded = decode(Dialect.DCP, message("mutation", key=b"k", datatype=2, value=leb128.pack(20 << 20) + b"\0"))
        assert decoded.defect_ids() == ("snappy-invalid",)

    def test_deeply_nested_json_is_no_crash(self) -> None:
        decoded = decode(Dialect.DCP, message("mutation", key=b"k", datatype=1, value=b"[" * 200_000))
        assert set(decoded.defect_ids()) <= {"json-invalid"}

    def test_extended_metadata(self) -> None:
        """As 4.1.2 sends it: the last nmeta bytes of the body, and no part of the value."""
        block = pack_metadata(1, [(2, b"\0")])
        assert block == bytes.fromhex("0102000100")
        decoded = decode(Dialect.DCP, message("mutation", key=b"k", fields={"nmeta": 5}, value=b"value" + block))
        assert not decoded.defects
        assert (decoded.value.document, decoded.value.length) == (b"value", 10)
        assert [(entry.id, entry.data) for entry in decoded.value.metadata] == [(2, b"\0")]

    def test_content_of_a_cut_value_is_not_judged(self) -> None:
        frame = message("mutation", key=b"k", datatype=7, value=b"x" * 50)
        assert decode(Dialect.DCP, frame[:-1]).defect_ids() == ("truncated-frame",)


class TestSecrets:
    SECRET = b"\0user\0hunter2"

    @pytest.mark.parametrize("name", ["sasl_auth", "sasl_step"])
    @pytest.mark.parametrize(("response", "status"), [(False, 0), (True, 0), (True, 0x21), (True, 0x20)])
    def test_sasl_is_withheld(self, name: str, response: bool, status: int) -> None:
        frame = message(name, Dialect.MEMCACHED, response=response, status=status, key=b"PLAIN", value=self.SECRET)
        for dialect in Dialect:
            decoded = decode(dialect, frame)
            assert b"hunter2" not in repr(decoded).encode()
            assert (decoded.value.withheld, decoded.value.length) == (True, len(self.SECRET))
            assert decoded.value.kind is Body.SECRET
        assert decode(Dialect.DCP, frame, withhold_secrets=False).value.raw == self.SECRET

    def test_external_authentication_is_withheld(self) -> None:
        spec = next(entry for entry in registry.MESSAGES if entry.name == "authenticate")
        assert encode(spec, value=self.SECRET)[0] == 0x82
        assert b"hunter2" not in repr(decode(Dialect.DCP, encode(spec, value=self.SECRET))).encode()


class TestFlowControl:
    """What both sides count, as recorded: the frame, two more for a prepare, nothing for the others."""

    @pytest.mark.parametrize(
        ("frame", "counted"),
        [
            (message("snapshot_marker", layout="V1"), 44),
            (message("snapshot_marker", layout="V2.0"), 61),
            (message("snapshot_marker", layout="V2.2"), 77),
            (message("mutation", key=b"key", value=b"value"), 55 + 8),
            (message("deletion", layout="V1", key=b"key"), 42 + 3),
            (message("deletion", layout="V2", key=b"key"), 45 + 3),
            (message("expiration", layout="expiration", key=b"key"), 44 + 3),
            (message("prepare", key=b"key", value=b"value"), 57 + 8),
            (message("commit", key=b"key"), 40 + 3),
            (message("abort", key=b"key"), 40 + 3),
            (message("system_event", key=b"key", value=bytes(16)), 37 + 19),
            (message("seqno_advanced"), 32),
            (message("oso_snapshot"), 28),
            (message("stream_end"), 28),
            (message("stream_end", framing=[(2, b"\0\1")]), 31),
            (message("set_vbucket_state"), 25),
            (message("cache_transfer_end"), 24),
            (message("noop"), 0),
            (message("control", key=b"k", value=b"v"), 0),
            (message("stream_request"), 0),
            (message("add_stream"), 0),
            (message("close_stream"), 0),
            (message("mutation", response=True), 0),
            (message("get", Dialect.MEMCACHED, key=b"k"), 0),
        ],
    )
    def test_counted_bytes(self, frame: bytes, counted: int) -> None:
        assert decode(Dialect.DCP, frame).flow_control_bytes == counted


def test_opaque_is_four_raw_bytes() -> None:
    decoded = decode(Dialect.DCP, message("noop", opaque=b"\x81\x96\x98\x00"))
    assert decoded.header is not None
    assert decoded.header.opaque == b"\x81\x96\x98\x00"


def test_commit_and_abort_take_their_seqno_from_the_second_field() -> None:
    frame = message("commit", key=b"k", fields={"prepared_seqno": 9, "commit_seqno": 10})
    assert decode(Dialect.DCP, frame).by_seqno == 10
    assert decode(Dialect.DCP, message("stream_end")).by_seqno is None


def test_refused_add_stream_keeps_its_extras() -> None:
    frame = message("add_stream", response=True, layout="add stream response", status=2)
    decoded = decode(Dialect.DCP, frame)
    assert not decoded.defects
    assert decoded["stream_opaque"] == 0


def test_kv_commands_are_known_in_every_dialect() -> None:
    frame = message("select_bucket", Dialect.MEMCACHED, key=b"default")
    assert {decode(dialect, frame).name for dialect in Dialect} == {"select_bucket"}


def test_the_header_tells_of_a_key_that_was_not_captured() -> None:
    """An event that must have a key has one, even if the capture ends before it."""
    frame = message("system_event", fields={"event": 0}, key=b"key", value=bytes(16))
    for length in range(len(frame) - 19, len(frame)):
        assert decode(Dialect.DCP, frame[:length]).defect_ids() == ("truncated-frame",)


def test_draft_message_with_the_wrong_magic() -> None:
    frame = patched(message("mutation", Dialect.DRAFT, layout="28 bytes", key=b"k"), 0, b"\x80")
    assert decode(Dialect.DRAFT, frame).defect_ids() == ("wrong-direction",)
