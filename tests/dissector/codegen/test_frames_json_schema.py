"""The JSON Schema holds for what ``dissect --format ndjson`` writes, and for nothing else."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import pytest

from dissector.capture import expand
from dissector.codegen import ROOT, frames_json_schema
from dissector.frames.derived_columns import ROW_SCHEMA
from dissector.frames.reader import FrameReader
from dissector.frames.run_columns import RunColumns
from dissector.frames.writers import open_writer
from dissector.options import ReadOptions
from tests.support.paths import CAPTURES

SCHEMA = json.loads(frames_json_schema.render())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
_MOST = 60  #: rows of a capture: validating is slow
#: Between them they have every kind of value: lists, records, flags, refusals, cut frames, the draft.
_SAMPLE = (
    *("04_rollback_errors.pcap", "07a_snaplen96.pcap", "10_upr_early_dialect.pcap", "25_stream_id_v705.pcap"),
    *("clean/cache-transfer.pcapng", "broken/FRM-01-key.pcapng", "clean/draft.pcapng"),
)


def rows(name: str) -> list[dict[str, Any]]:
    derived, stream = RunColumns(ROW_SCHEMA.names), io.BytesIO()
    writer = open_writer("ndjson", stream, ROW_SCHEMA)
    for batch in FrameReader(expand([str(CAPTURES / name)]), ReadOptions(values=True)):
        writer.write(derived.add(batch))
    lines = stream.getvalue().splitlines()
    return [json.loads(line) for line in lines[:: 1 + len(lines) // _MOST]]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert list(SCHEMA["properties"]) == ROW_SCHEMA.names
    assert json.loads((ROOT / "docs" / "frames.schema.json").read_text()) == SCHEMA


@pytest.mark.parametrize("name", [name for name in _SAMPLE if (CAPTURES / name).exists()])
def test_rows(name: str) -> None:
    found = rows(name)
    assert len(found) > 5
    for row in found:
        VALIDATOR.validate(row)


@pytest.mark.parametrize(
    "change",
    [
        {"cas": 5},
        {"cas": "0x5"},
        {"time": "yesterday"},
        {"response": 1},
        {"opcode": None},
        {"unheard_of": 1},
        {"end_seqno": 2**63 - 1},
        {"failover_log": [{"vbucket_uuid": 3, "seqno": 1}]},
    ],
    ids=str,
)
def test_what_is_no_row(change: dict[str, Any]) -> None:
    row = rows("25_stream_id_v705.pcap")[0]
    VALIDATOR.validate(row)
    assert not VALIDATOR.is_valid(row | change)
    assert not VALIDATOR.is_valid({name: value for name, value in row.items() if name != "frame"})
