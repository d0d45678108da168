"""Byte vectors of every message and layout: recorded from real servers where there is a recording, else by hand.

What is expected comes from the client that made the recording, which decoded its traffic with code of its own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissector.codec.decoder import decode
from dissector.codec.message import Decoded
from dissector.spec import registry
from dissector.spec.model import Dialect, Layout, Message, MessageType
from tests.support.paths import DATA

VECTORS: list[dict[str, Any]] = json.loads((DATA / "vectors.json").read_text())
SEED_VECTORS: list[dict[str, Any]] = json.loads((DATA / "seed_vectors.json").read_text())


def run(vector: dict[str, Any]) -> Decoded:
    return decode(
        Dialect(vector["dialect"]), bytes.fromhex(vector["hex"]), collections=vector.get("collections", False)
    )


def text(key: bytes) -> str:
    """Write a key as the recording client did."""
    printable = all(0x20 <= byte < 0x7F for byte in key)
    return key.decode() if printable else "hex:" + key.hex()


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    decoded = run(vector)
    header = decoded.header
    assert header is not None
    assert decoded.length == len(vector["hex"]) // 2
    for name, expected in vector["header"].items():
        actual = header.opaque.hex() if name == "opaque" else getattr(header, name)
        assert actual == expected, name
    for name, expected in vector["fields"].items():
        assert decoded[name] == expected, name
    assert decoded.vbucket == vector.get("vbucket")
    assert decoded.status == vector.get("status")
    assert list(decoded.defect_ids()) == vector.get("defects", [])
    if "key" in vector:
        assert text(decoded.key) == vector["key"]
    if "document_key" in vector:
        assert text(decoded.document_key) == vector["document_key"]
        assert decoded.collection_id == vector["collection_id"]
    if "failover_log" in vector:
        assert [[row["vbucket_uuid"], row["seqno"]] for row in decoded.value.records] == vector["failover_log"]
    if "features" in vector:
        assert [row.fields[0].label for row in decoded.value.records] == vector["features"]
    if "xattrs" in vector:
        assert {name.decode(): value.decode() for name, value in decoded.value.xattrs} == vector["xattrs"]
    if "inflated_length" in vector:
        assert decoded.value.inflated is not None
        assert len(decoded.value.inflated) == vector["inflated_length"]
    if "table" in vector:
        check_table(decoded, vector["table"])
    if "records" in vector:
        for row, expected_row in zip(decoded.value.records, vector["records"], strict=True):
            key, value = expected_row.pop("key"), expected_row.pop("value")
            assert (row.key.hex(), row.value.hex()) == (key, value)
            assert {name: row[name] for name in expected_row} == expected_row


def check_table(decoded: Decoded, expected: dict[str, str | None] | None) -> None:
    """Compare the texts of a table, and the numbers in it that say nothing: they are no fields of the message."""
    table = decoded.value.table
    if expected is None:
        assert table is None
        return
    assert table is not None
    found = {entry.name: entry.value for entry in table.entries}
    for name, value in expected.items():
        if value is None:
            assert decoded.get(name) is None
        else:
            assert found[name] == value.encode()


def seen_layouts() -> set[tuple[Message, MessageType, Layout]]:
    seen = set()
    for vector in (*VECTORS, *SEED_VECTORS):
        for name in ("hex", "normalized"):
            if name in vector:
                decoded = run({**vector, "hex": vector[name]})
                if decoded.spec is not None and decoded.direction is not None and decoded.layout is not None:
                    seen.add((decoded.spec, decoded.direction, decoded.layout))
    return seen


@pytest.mark.parametrize(
    "message",
    [known for known in registry.MESSAGES if known.dialect is not Dialect.MEMCACHED],
    ids=lambda known: f"{known.dialect}-{known.name}",
)
def test_every_layout_has_a_vector(message: Message) -> None:
    """A new opcode or layout without bytes that prove it fails here."""
    seen = seen_layouts_cached()
    shape, direction = (
        (message.request, MessageType.REQUEST) if message.request is not None else (message.push, MessageType.RESPONSE)
    )
    assert shape is not None
    missing = [layout.name for layout in shape.layouts if (message, direction, layout) not in seen]
    assert not missing
    assert shape.layouts or any(message is found for found in seen_messages_cached())


_cache: dict[str, Any] = {}


def seen_layouts_cached() -> set[tuple[Message, MessageType, Layout]]:
    if "layouts" not in _cache:
        _cache["layouts"] = seen_layouts()
    layouts: set[tuple[Message, MessageType, Layout]] = _cache["layouts"]
    return layouts


def seen_messages_cached() -> list[Message]:
    if "messages" not in _cache:
        _cache["messages"] = [spec for spec in (run(vector).spec for vector in VECTORS) if spec is not None]
    messages: list[Message] = _cache["messages"]
    return messages
