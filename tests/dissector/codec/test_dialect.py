"""Dialect, era, roles and features from a connection's frames."""

from __future__ import annotations

from typing import Any

import pytest

from dissector.codec import dialect_evidence
from dissector.codec.dialect import detect
from dissector.codec.encoder import encode
from dissector.spec import fingerprints, registry
from dissector.spec.model import UNRELEASED, Dialect, Release

CLIENT, SERVER = 0, 1


def make(name: str, extras: int | None = None, dialect: Dialect = Dialect.DCP, **arguments: Any) -> bytes:
    """Write a frame; ``extras`` chooses the layout by its size."""
    message = registry.named(dialect, name)
    layouts = [layout for shape in message.shapes() for layout in shape.layouts]
    layout = next((entry for entry in layouts if extras in (None, entry.extras_size)), None)
    return encode(message, layout=layout, **arguments)


OPEN_PRODUCER = make("open", fields={"open_flags": 1}, key=b"replication:1")
OPEN_CONSUMER = make("open", fields={"open_flags": 0}, key=b"replication:1")
SET = make("set", 8, Dialect.MEMCACHED, key=b"k", value=b"v")
STORED = make("set", 0, Dialect.MEMCACHED, response=True)


@pytest.mark.parametrize(
    ("frames", "dialect", "era", "until"),
    [
        ([make("stream_request", 40, Dialect.UPR)], Dialect.UPR, None, None),
        ([make("snapshot_marker", 0, Dialect.UPR)], Dialect.UPR, None, None),
        ([make("mutation", 28, Dialect.UPR, key=b"k")], Dialect.UPR, None, None),
        ([make("mutation", 30, Dialect.UPR, key=b"k")], Dialect.UPR, None, None),
        ([make("stream_request", 48)], Dialect.DCP, Release(3), None),
        ([make("snapshot_marker", 20)], Dialect.DCP, Release(3), None),
        ([make("mutation", 31, key=b"k")], Dialect.DCP, None, None),
        ([make("mutation", 32, key=b"k")], Dialect.DCP, Release(5), Release(6)),
        ([make("deletion", 19, key=b"k")], Dialect.DCP, Release(5), Release(6)),
        ([make("deletion", 21, key=b"k")], Dialect.DCP, Release(5, 5), None),
        ([make("open", fields={"open_flags": 0x21}, key=b"n")], Dialect.DCP, Release(5, 5), None),
        ([make("prepare", key=b"k", cas=1)], Dialect.DCP, Release(6, 5), None),
        ([make("snapshot_marker", 1)], Dialect.DCP, Release(6, 5), None),
        ([make("mutation", 31, key=b"k", framing=[(2, b"\0\1")])], Dialect.DCP, Release(6, 5), None),
        ([make("seqno_advanced")], Dialect.DCP, Release(7), None),
        ([make("oso_snapshot")], Dialect.DCP, Release(7), None),
        ([make("cache_transfer_end"), make("cache_transfer_end")], Dialect.DCP, UNRELEASED, None),
        ([make("flush")], Dialect.MEMCACHED, None, None),
        ([make("flush"), make("noop")], Dialect.DCP, None, None),
        ([SET], Dialect.MEMCACHED, None, None),
        ([], Dialect.MEMCACHED, None, None),
        ([b"\x80\x57" + bytes(10)], Dialect.MEMCACHED, None, None),
    ],
)
def test_evidence(frames: list[bytes], dialect: Dialect, era: Release | None, until: Release | None) -> None:
    verdict = detect((SERVER, frame) for frame in frames)
    assert (verdict.dialect, verdict.era, verdict.until) == (dialect, era, until)
    assert not verdict.contradictions


def test_marker_v2_2_is_8_0() -> None:
    message = registry.named(Dialect.DCP, "snapshot_marker")
    assert message.request is not None
    layout = next(entry for entry in message.request.layouts if entry.version == 2)
    assert detect([(SERVER, encode(message, layout=layout))]).era == Release(8)


def test_first_decisive_frame_wins_and_a_contradiction_is_kept() -> None:
    verdict = detect([(CLIENT, make("stream_request", 48)), (SERVER, make("snapshot_marker", 0, Dialect.UPR))])
    assert verdict.dialect is Dialect.DCP
    assert [(entry.frame, entry.says) for entry in verdict.contradictions] == [
        (1, "upr: snapshot_marker with 0 bytes of extras")
    ]


def test_early_upr_connection_that_starts_with_items() -> None:
    """The marker follows its items, and 31-byte mutations come before and after 3.0: they must not decide."""
    mutation = make("mutation", 31, key=b"k")
    frames = [(SERVER, mutation), (SERVER, mutation), (SERVER, make("snapshot_marker", 0, Dialect.UPR))]
    assert detect(frames[:2]).dialect is Dialect.DCP
    verdict = detect(frames)
    assert verdict.dialect is Dialect.UPR
    assert not verdict.contradictions


REQUEST_ID = b"\0\0\0\x2d"
DRAFT_REQUEST = make("stream_request", 32, Dialect.DRAFT, key=b"g", vbucket=12, opaque=REQUEST_ID)
DRAFT_LOG_REQUEST = make("get_failover_log", 0, Dialect.DRAFT, vbucket=12, opaque=REQUEST_ID)
DRAFT_OK = make("stream_ok", 0, Dialect.DRAFT, vbucket=12, opaque=REQUEST_ID)
DRAFT_MUTATION = make("mutation", 28, Dialect.DRAFT, key=b"k", opaque=REQUEST_ID)


@pytest.mark.parametrize(
    ("frames", "dialect"),
    [
        ([(CLIENT, DRAFT_REQUEST), (SERVER, DRAFT_OK)], Dialect.DRAFT),
        ([(CLIENT, DRAFT_LOG_REQUEST), (SERVER, DRAFT_OK)], Dialect.DRAFT),
        ([(SERVER, DRAFT_MUTATION)], Dialect.DRAFT),
        ([(CLIENT, DRAFT_REQUEST)], Dialect.MEMCACHED),
        ([(SERVER, DRAFT_OK)], Dialect.MEMCACHED),
        (
            [(CLIENT, DRAFT_REQUEST), (SERVER, make("stream_ok", 0, Dialect.DRAFT, vbucket=12, opaque=b"else"))],
            Dialect.MEMCACHED,
        ),
        (
            [(CLIENT, DRAFT_REQUEST), (SERVER, make("stream_ok", 0, Dialect.DRAFT, vbucket=7, opaque=REQUEST_ID))],
            Dialect.MEMCACHED,
        ),
        ([(CLIENT, SET), (SERVER, STORED)] * 5, Dialect.MEMCACHED),
        (
            # A SET with datatype 1, answered like an ADD of the same opaque: still KV, its shape is a SET's.
            [
                (CLIENT, make("set", 8, Dialect.MEMCACHED, key=b"k", datatype=1, opaque=REQUEST_ID)),
                (SERVER, make("add", 0, Dialect.MEMCACHED, response=True, datatype=1, opaque=REQUEST_ID)),
            ],
            Dialect.MEMCACHED,
        ),
    ],
)
def test_draft_needs_positive_evidence(frames: list[tuple[int, bytes]], dialect: Dialect) -> None:
    assert detect(frames).dialect is dialect


def test_a_forced_dialect_is_kept() -> None:
    assert detect([(CLIENT, SET)], forced=Dialect.DRAFT).dialect is Dialect.DRAFT
    assert detect([(CLIENT, make("stream_request", 48))], forced=Dialect.PROTO).dialect is Dialect.PROTO


@pytest.mark.parametrize(
    ("frames", "producer"),
    [
        ([(CLIENT, OPEN_PRODUCER)], SERVER),
        ([(CLIENT, OPEN_CONSUMER)], CLIENT),
        ([(CLIENT, make("open", fields={"open_flags": 2}, key=b"notifier"))], SERVER),
        ([(CLIENT, OPEN_CONSUMER[:26])], None),  # cut by a snap length: the flags are not there
        ([(SERVER, make("mutation", key=b"k"))], SERVER),
        ([(CLIENT, make("mutation", key=b"k"))], CLIENT),
        ([(CLIENT, make("stream_request"))], SERVER),
        ([(SERVER, make("stream_request"))], CLIENT),
        ([(CLIENT, make("buffer_ack"))], SERVER),
        ([(CLIENT, make("add_stream"))], CLIENT),
        ([(CLIENT, make("close_stream"))], None),
        # The open's word counts, whatever was seen before it.
        ([(CLIENT, make("mutation", key=b"k")), (CLIENT, OPEN_PRODUCER)], SERVER),
    ],
)
def test_roles(frames: list[tuple[int, bytes]], producer: int | None) -> None:
    assert detect(frames).producer == producer


def hello(*features: int, opaque: bytes = b"hell", response: bool = False, status: int = 0) -> bytes:
    value = b"".join(feature.to_bytes(2, "big") for feature in features)
    return encode(registry.named(Dialect.DCP, "hello"), response=response, status=status, value=value, opaque=opaque)


@pytest.mark.parametrize(
    ("frames", "collections"),
    [
        ([(CLIENT, hello(0x12)), (SERVER, hello(0x06, 0x12, response=True))], True),
        ([(CLIENT, hello(0x12)), (SERVER, hello(0x06, response=True))], False),  # asked for, not granted
        ([(CLIENT, hello(0x12)), (SERVER, hello(0x12, response=True, status=4))], False),
        ([(CLIENT, hello(0x12)), (SERVER, hello(0x12, opaque=b"else", response=True))], False),
        # 0x12 across two features is not collections: 0x0012 must start at an even place.
        ([(CLIENT, hello(0x12)), (SERVER, hello(0x0100, 0x1200, response=True))], False),
        # A later HELLO replaces what was granted before.
        (
            [
                (CLIENT, hello(0x12)),
                (SERVER, hello(0x12, response=True)),
                (CLIENT, hello(opaque=b"next")),
                (SERVER, hello(opaque=b"next", response=True)),
            ],
            False,
        ),
    ],
)
def test_collections(frames: list[tuple[int, bytes]], collections: bool) -> None:
    assert detect(frames).collections is collections


def test_programs() -> None:
    controls = ("enable_noop", "set_noop_interval", "set_priority", "supports_cursor_dropping_vulcan")
    frames = [
        (CLIENT, make("open", key=b"n", opaque=bytes.fromhex("beaf0001"))),
        (SERVER, make("noop", opaque=(1_000_001).to_bytes(4, "little"))),
        *((CLIENT, make("control", key=key.encode(), value=b"x")) for key in controls),
    ]
    says = {entry.says: entry.frame for entry in detect(frames).evidence}
    assert says == {
        "open opaque of a couchbase/gomemcached client": 0,
        "no-op opaque of a 3.0.0 server": 1,
        "controls in the order of a kv_engine consumer": 5,
    }
    later = detect([(SERVER, make("noop", opaque=(10_000_001).to_bytes(4, "little")))])
    assert [entry.says for entry in later.evidence] == ["no-op opaque of a server later than 3.0.0"]


def test_the_tables_say_what_the_fingerprints_say() -> None:
    for form in fingerprints.FORMS:
        assert form in fingerprints.fingerprints_of(form.opcode, form.extras, form.version)
        assert (form.opcode, form.extras) in dialect_evidence.UPR_REQUESTS
        assert dialect_evidence.IS_UPR_REQUEST[form.opcode, form.extras]
        assert dialect_evidence.HAS_FINGERPRINT[form.opcode, form.extras]
        assert dialect_evidence.IS_EVIDENCE[form.opcode]
        if form.dialect is Dialect.DCP:
            version = dialect_evidence.NO_VERSION if form.version is None else form.version
            since = dialect_evidence.SINCE[form.opcode, form.extras, version]
            assert since == dialect_evidence.release_number(form.since)
    assert not dialect_evidence.HAS_FINGERPRINT[0x57, 31]
    assert dialect_evidence.IS_UPR_REQUEST[0x57, 31]
    assert fingerprints.fingerprints_of(0x56, 1, None) == []
    assert dialect_evidence.release_number(Release(6, 5)) == 605
