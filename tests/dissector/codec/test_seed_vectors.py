"""The example packets of the protocol's own documents, byte for byte.

``stated`` is what each document's breakdown says. Where a document contradicts its own bytes, the tables below say
which of its statements the bytes overrule and which lie after the end that the header announces: they are written
from the errata, not from the decoder's output.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dissector.codec.decoder import decode
from dissector.codec.message import Decoded
from dissector.spec.model import Dialect
from tests.support.paths import DATA

VECTORS: list[dict[str, Any]] = json.loads((DATA / "seed_vectors.json").read_text())
IDS = [vector["id"] for vector in VECTORS]

#: Statements that the bytes overrule (E-02, E-04, E-14, E-19, E-20, E-21).
OVERRULED: dict[str, dict[str, int]] = {
    "000-11": {"total_body": 0},
    "003-04": {"total_body": 0},
    "004-01": {"opaque": 0},
    "004-05": {"opcode": 0x5C, "total_body": 0, "opaque": 0},
    "004-06": {"opcode": 0x5D, "opaque": 5},
}
_LOG = {f"vb_{part}{entry}" for part in ("uuid", "seqno") for entry in ("", "_2", "_3", "_4")}
#: Statements about bytes that lie after the frame's end.
BEYOND: dict[str, set[str]] = {
    "000-11": _LOG,
    "003-04": _LOG,
    "001-05": {"rollback_seqno"},
    "001-07": {"vbucket_uuid", "high_seqno", "vbucket_uuid_2", "high_seqno_2"},
    "003-01": {"snapshot_start_seqno", "snapshot_end_seqno"},
    "004-05": {"key", "value"},
}
#: What is reported; every vector that is not named is clean.
DEFECTS: dict[str, list[str]] = {
    "000-09": ["rollback-in-extras"],  # E-01
    "000-11": ["stray-failover-log"],  # E-02
    "001-01": ["unknown-subtype"],  # a bare header: request type 0 is none of the draft's
    "001-02": ["extras-overstated"],  # E-12
    "001-05": ["value-missing", "stray-rollback-seqno"],  # E-14
    "001-07": ["stray-failover-log"],  # E-14
    "001-11": ["extras-overstated"],
    "001-12": ["extras-overstated"],
    "001-13": ["extras-overstated"],
    "003-01": ["stray-snapshot-end"],  # E-03
    "003-02": ["rollback-in-extras"],
    "003-04": ["stray-failover-log"],
    "004-01": ["stray-bytes"],  # E-19
    "004-03": ["ack-count-in-value"],  # E-22
    "004-05": ["stray-bytes"],  # E-20
}
#: The documents' words for fields that go by one name here.
NAMES = {
    "seqno": "sequence_number",
    "rollback_#": "rollback_seqno",
    "flag": "end_reason",
    "state": "vbucket_state",
    "start_by_seqno": "start_seqno",
    "end_by_seqno": "end_seqno",
    "item_exp": "expiration",
    "snapshot_start_seqno": "snap_start_seqno",
    "snapshot_end_seqno": "snap_end_seqno",
    "opaque_2": "stream_opaque",
    "vb_uuid": "vbucket_uuid",
}
NAME_OF_FLAGS = {"open": "open_flags", "mutation": "item_flags"}


def read(decoded: Decoded, statement: str) -> int | str | None:
    """Return what was decoded for a document's statement."""
    header = decoded.header
    assert header is not None
    plain: dict[str, int | str | None] = {
        "magic": header.magic,
        "opcode": header.opcode,
        "key_length": header.key_length,
        "extra_length": header.extras_length,
        "data_type": header.datatype,
        "request_type": decoded.subtype,
        "vbucket": decoded.vbucket,
        "status": decoded.status,
        "total_body": header.body_length,
        "opaque": int.from_bytes(header.opaque, "big"),
        "request_id": int.from_bytes(header.opaque, "big"),
        "cas": header.cas,
        "key": decoded.key.decode(),
        "group_id": decoded.key.decode(),
        "value": decoded.value.document.decode("latin-1"),
    }
    if statement in plain:
        return plain[statement]
    records = decoded.value.records
    base, _, number = statement.rpartition("_")
    entry = int(number) - 1 if number.isdigit() and base else 0
    base = base if number.isdigit() and base else statement
    if records and base in {"vb_uuid", "vbucket_uuid"}:
        return records[entry]["vbucket_uuid"]
    if records and base in {"vb_seqno", "high_seqno"}:
        return records[entry]["seqno"]
    if statement == "flags":
        return decoded[NAME_OF_FLAGS.get(decoded.name, "stream_flags")]
    return decoded.get(NAMES.get(statement, statement))


def stated(value: str) -> int | str:
    return int(value, 16) if value.startswith("0x") else value


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_every_stated_field(vector: dict[str, Any]) -> None:
    decoded = decode(Dialect(vector["dialect"]), bytes.fromhex(vector["hex"]))
    beyond = BEYOND.get(vector["id"], set())
    overruled = OVERRULED.get(vector["id"], {})
    for statement, value in vector["stated"].items():
        if statement in beyond:
            assert read(decoded, statement) in (None, "", 0), statement
            continue
        expected = overruled.get(statement, stated(value))
        assert read(decoded, statement) == expected, statement
    for statement, value in overruled.items():
        assert stated(vector["stated"][statement]) != value, f"{statement} is not overruled at all"


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_contradictions_are_reported(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    decoded = decode(Dialect(vector["dialect"]), data)
    assert list(decoded.defect_ids()) == DEFECTS.get(vector["id"], [])
    body = int.from_bytes(data[8:12], "big")
    assert decoded.length == min(24 + body, len(data))


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_normalised_variant_is_clean(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["normalized"])
    decoded = decode(Dialect(vector["dialect"]), data)
    assert decoded.length == len(data)
    assert list(decoded.defect_ids()) == (["unknown-subtype"] if vector["id"] == "001-01" else [])
    for statement, value in vector["stated"].items():
        if statement not in {"extra_length", "total_body", "key_length"}:  # recomputed by definition
            assert read(decoded, statement) == stated(value), statement


def test_all_documents_are_there() -> None:
    counts = {source: sum(v["source"] == source for v in VECTORS) for source in {v["source"] for v in VECTORS}}
    assert counts == {"transport-spec": 18, "draft": 16, "set-vbucket-state": 1, "stream-request": 4, "flow-control": 6}
    assert sum(not vector["consistent"] for vector in VECTORS) == 12


@pytest.mark.parametrize(
    ("vector_id", "request_subtype", "name"),
    [("001-07", 2, "failover_log"), ("001-04", 1, "stream_not_my_vbucket"), ("001-04", None, "stream_not_my_vbucket")],
)
def test_draft_type_two_is_resolved_by_its_request(vector_id: str, request_subtype: int | None, name: str) -> None:
    vector = VECTORS[IDS.index(vector_id)]
    decoded = decode(Dialect.DRAFT, bytes.fromhex(vector["normalized"]), request_subtype=request_subtype)
    assert decoded.name == name


@pytest.mark.shared
def test_vectors_equal_the_reference_material(shared_dir: Path) -> None:
    reference = {vector["id"]: vector for vector in json.loads((shared_dir / "protocol" / "vectors.json").read_text())}
    assert set(reference) == set(IDS)
    for vector in VECTORS:
        original = reference[vector["id"]]
        assert vector["hex"] == original["hex"]
        assert vector["normalized"] == original["normalized_hex"]
        assert vector["stated"] == {name: field["value"] for name, field in original["fields"].items()}
