"""Derived columns: what they say, however rows are cut into batches, and that only those asked for are made."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from dissector.capture import expand
from dissector.frames import answers
from dissector.frames.derived_columns import (
    ALIASES,
    DERIVED,
    NAME_COLUMNS,
    ROW_COLUMNS,
    ROW_SCHEMA,
    row_columns_of,
    with_sources,
)
from dissector.frames.reader import FrameReader
from dissector.frames.run_columns import RunColumns
from dissector.frames.schema import NO_END, SCHEMA, SEQNOS
from dissector.options import ReadOptions
from dissector.spec import enums
from tests.support.paths import CAPTURES

CAPTURE = CAPTURES / "04_rollback_errors.pcap"


@cache
def frames() -> pa.Table:
    return pa.Table.from_batches(FrameReader(expand([str(CAPTURE)]), ReadOptions()), SCHEMA).combine_chunks()


def derived(table: pa.Table, *names: str, size: int = 1_000_000) -> pa.Table:
    made = RunColumns(names)
    return pa.Table.from_batches([made.add(batch) for batch in table.to_batches(max_chunksize=size)])


def made_of(rows: list[dict[str, object]], *names: str) -> list[dict[str, object]]:
    """Return derived columns of rows that have nothing else."""
    empty = dict.fromkeys(SCHEMA.names) | {"dialect": "dcp"}
    batch = pa.RecordBatch.from_pylist([empty | row for row in rows], pa.schema([(f.name, f.type) for f in SCHEMA]))
    return RunColumns(names).add(batch).select(list(names)).to_pylist()


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_the_place_in_the_run(size: int) -> None:
    rows = derived(frames(), *DERIVED, size=size).to_pylist()
    order = list(dict.fromkeys(row["connection"] for row in rows))
    assert len(order) > 2
    before = rows[0]["time_ns"]
    for row in rows:
        assert row["seconds"] == pytest.approx((row["time_ns"] - rows[0]["time_ns"]) / 1e9, abs=1e-9)
        assert row["delta"] == pytest.approx((row["time_ns"] - before) / 1e9, abs=1e-9)
        assert order[row["connection_number"] - 1] == row["connection"]
        assert row["time"].timestamp() == pytest.approx(row["time_ns"] / 1e9, abs=1e-6)
        before = row["time_ns"]


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_answers_name_their_requests(size: int) -> None:
    rows = derived(frames(), *DERIVED, size=size).to_pylist()
    by_frame = {row["frame"]: row for row in rows}
    answered = [row for row in rows if row["response_to"] is not None]
    assert len(answered) > 20
    for row in answered:
        request = by_frame[row["response_to"]]
        assert row["response"]
        assert not request["response"]
        assert (request["opcode"], request["opaque"]) == (row["opcode"], row["opaque"])
        assert request["direction"] != row["direction"]
        assert row["response_time_ns"] == row["time_ns"] - request["time_ns"]
    assert all(row["response_time_ns"] is None for row in rows if row["response_to"] is None)


def test_names_of_numbers() -> None:
    rows = made_of(
        [
            {"status": enums.SUCCESS, "datatype": 0, "open_flags": 1},
            {"status": 0x23, "datatype": 5, "end_reason": 1, "vbucket_state": 2},
            {"status": 0x7F7F, "datatype": 0x81, "end_reason": 99, "event": 0},
            {"dialect": "upr", "end_reason": 1, "vbucket_state": 2, "features": [0x12, 0x7777]},
        ],
        *("status_name", "datatype_names", "open_flags_names", "end_reason_name", "vbucket_state_name", "event_name"),
        "feature_names",
    )
    assert [list(row.values()) for row in rows] == [
        ["success", [], ["producer"], None, None, None, None],
        ["rollback", ["json", "xattr"], None, "closed", "replica", None, None],
        ["0x7f7f", ["json", "0x80"], None, "0x63", None, "collection_begin", None],
        [None, None, None, "state_changed", "pending", None, ["collections", "0x7777"]],  # E-09, E-10
    ]


def test_what_has_no_end() -> None:
    rows = made_of(
        [
            {"end_seqno": 5},
            {"end_seqno": NO_END},
            {},
            {"by_seqno": NO_END},
            {"failover_log": [{"vbucket_uuid": 1, "seqno": 3}, {"vbucket_uuid": 1, "seqno": NO_END}]},
        ],
        "open_ended",
    )
    assert [row["open_ended"] for row in rows] == [False, True, None, True, True]


def test_the_schema() -> None:
    assert [column.name for column in ROW_COLUMNS if column.name not in DERIVED] == SCHEMA.names
    assert derived(frames(), *DERIVED).schema.equals(ROW_SCHEMA)
    for each in (*DERIVED.values(),):
        assert each.sources <= {*SCHEMA.names}
    assert with_sources(["opcode", "response_to"]) >= {"opcode", "response_to", *answers.COLUMNS}
    assert with_sources(["open_ended"]) >= SEQNOS
    assert {"status", "datatype", "open_flags", "stream_flags", "end_reason", "snapshot_type"} <= {
        each.behind for each in NAME_COLUMNS
    }
    assert row_columns_of("conn, packet,message", "--fields") == list(ALIASES.values())


def test_only_what_is_asked_for() -> None:
    plain = frames().select(["frame", "time_ns", "connection", "status"])
    assert derived(plain).schema.names == plain.schema.names
    assert derived(plain, "seconds").schema.names == ["frame", "time_ns", "seconds", "connection", "status"]
    assert derived(plain.select(["frame"])).num_rows == plain.num_rows


def test_what_is_there_already_is_kept() -> None:
    """Rows that were written before may lack frames of their run."""
    table = derived(frames(), *DERIVED)
    some = table.filter(np.arange(table.num_rows) % 3 == 2)
    assert derived(some, *DERIVED).equals(some)
