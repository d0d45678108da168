"""Parquet and Arrow that ``dissect`` wrote, as input: the same answers as from the capture, or one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from uprscope import cli

CAPTURES = (
    "captures/09_feed_real_consumer.pcap",
    "captures/25_stream_id_v705.pcap",
    "captures/rough/lossy.pcapng",
    "captures/broken/FLC-02.pcapng",
)
FORMATS = ("parquet", "arrow")
#: What rows do not tell of a connection, or tell by frames where the capture tells by packets.
_OF_PACKETS = ("ended", "start", "start_ns", "duration_ns", "handshake")
_OF_SIDES = ("bytes", "gaps", "bytes_lost", "bytes_repeated", "bytes_conflicting", "bytes_skipped")


@pytest.fixture(autouse=True)
def _surroundings(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = cli.main([*map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def stored(capsys: pytest.CaptureFixture[str], capture: str, path: Path, *words: str) -> Path:
    status, _, _ = run(capsys, "dissect", capture, "--format", path.suffix[1:], "-o", path, *words)
    assert status == 0
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """Run a command that must refuse its input in one line, before any output."""
    status, out, err = run(capsys, *words)
    assert status == 2
    assert not out
    assert err.startswith("uprscope: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("form", FORMATS)
def test_the_same_answers(capsys: pytest.CaptureFixture[str], tmp_path: Path, capture: str, form: str) -> None:
    rows = stored(capsys, capture, tmp_path / f"frames.{form}", "--inspect")
    for command in (["dissect"], ["dissect", "--format", "ndjson"], ["connections", "--streams"]):
        expected, found = run(capsys, *command, capture), run(capsys, *command, rows)
        assert found[:2] == expected[:2]
    expected, found = (run(capsys, "check", "--format", "ndjson", source) for source in (capture, rows))
    assert found[:2] == expected[:2]


@pytest.mark.parametrize("capture", CAPTURES)
def test_connections(capsys: pytest.CaptureFixture[str], tmp_path: Path, capture: str) -> None:
    rows = stored(capsys, capture, tmp_path / "frames.parquet")
    expected, found = (
        json.loads(run(capsys, "connections", "--format", "json", source)[1]) for source in (capture, rows)
    )
    left_out = {*_OF_PACKETS, *(f"{side}_{name}" for side in ("client", "server") for name in _OF_SIDES)}
    assert [_without(row, left_out) for row in found] == [_without(row, left_out) for row in expected]
    for stored_row, row in zip(found, expected, strict=True):
        assert stored_row["start_ns"] >= row["start_ns"]
        assert stored_row["client_bytes"] + stored_row["client_bytes_skipped"] <= row["client_bytes"]


def _without(row: dict[str, object], names: set[str]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}


def test_whole_conversations_have_whole_bytes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    capture = "captures/02_flow_control.pcap"
    rows = stored(capsys, capture, tmp_path / "frames.parquet")
    expected, found = (
        json.loads(run(capsys, "connections", "--format", "json", source)[1]) for source in (capture, rows)
    )
    for name in ("client_bytes", "server_bytes", "client_frames", "server_frames", "handshake"):
        assert [row[name] for row in found] == [row[name] for row in expected]


def test_rows_are_recognised_by_their_content(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = stored(capsys, CAPTURES[0], tmp_path / "frames.parquet")
    renamed = rows.rename(tmp_path / "frames.pcap")
    assert run(capsys, "dissect", renamed)[0] == 0


def test_a_part_of_the_frames_is_not_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without the markers every mutation would look like one outside of its snapshot."""
    rows = stored(capsys, CAPTURES[0], tmp_path / "some.parquet", "--filter", "name != snapshot_marker")
    assert "rows of a whole capture" in refused(capsys, "check", rows)
    assert run(capsys, "dissect", rows)[0] == 0


def test_what_was_not_looked_into_is_not_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    capture = "captures/broken/FRM-10-json.pcapng"
    rows = stored(capsys, capture, tmp_path / "frames.parquet")
    status, out, err = run(capsys, "check", rows)
    assert "FRM-10" not in out
    assert "FRM-10 is left out" in err
    assert "--inspect" in err
    assert "--inspect" in refused(capsys, "check", rows, "--rules", "FRM-10")
    assert status == 0
    looked_into = stored(capsys, capture, tmp_path / "inspected.parquet", "--inspect")
    assert run(capsys, "check", looked_into)[0] == 1


def test_commands_that_need_packets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = stored(capsys, CAPTURES[0], tmp_path / "frames.parquet")
    for words in (
        ["slice", rows, "--finding", "SEQ-01-00000000", "-o", tmp_path / "x.pcapng"],
        ["check", rows, "--annotate", tmp_path / "x.pcapng"],
    ):
        assert "packets of the capture itself" in refused(capsys, *words)
    assert "-V" in refused(capsys, "dissect", "-V", rows)
    assert "hashes" in refused(capsys, "connections", "--hash", rows)
    assert "does not go together" in refused(capsys, "dissect", rows, CAPTURES[0])


def test_columns_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = stored(capsys, CAPTURES[0], tmp_path / "few.parquet", "--fields", "frame,time_ns,connection,opaque")
    assert "has no column" in refused(capsys, "check", rows)
    status, out, _ = run(capsys, "dissect", rows, "--fields", "frame,opaque")
    assert status == 0
    assert out.startswith("frame\topaque\n1\t")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("direction", 2),
        ("direction", None),
        ("opcode", 256),
        ("status", -1),
        ("dialect", "klingon"),
        ("start_offset", -5),
        ("frame", 0),
    ],
)
def test_values_that_no_capture_gives(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, column: str, value: object
) -> None:
    rows = stored(capsys, CAPTURES[0], tmp_path / "frames.parquet")
    table = pq.read_table(rows)
    values = table.column(column).to_pylist()
    values[1] = value
    place = table.column_names.index(column)
    field = pa.field(column, table.schema.field(column).type)
    pq.write_table(table.set_column(place, field, pa.array(values, field.type)), rows)
    for command in ("check", "dissect", "connections"):
        assert f"column {column}" in refused(capsys, command, rows)


@pytest.mark.parametrize("form", FORMATS)
def test_damaged_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    rows = stored(capsys, CAPTURES[0], tmp_path / f"frames.{form}")
    whole = rows.read_bytes()
    random = np.random.default_rng(7)
    for keep in (12, 40, len(whole) // 2, len(whole) - 9):
        rows.write_bytes(whole[:keep])
        status, _, err = run(capsys, "check", rows)
        assert status == 2, err
        assert err.count("\n") == 1
    for _ in range(20):
        broken = bytearray(whole)
        for place in random.integers(0, len(whole), 8).tolist():
            broken[place] ^= 0xFF
        rows.write_bytes(broken)
        status, _, err = run(capsys, "check", rows)
        assert status in (0, 1, 2), err
        assert status < 2 or err.count("\n") == 1


def test_several_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Files are read in the order of time, whatever their names."""
    later = stored(capsys, "captures/25_stream_id_v705.pcap", tmp_path / "a.parquet")
    earlier = stored(capsys, "captures/02_flow_control.pcap", tmp_path / "b.parquet")
    _, out, _ = run(capsys, "dissect", later, earlier, "--fields", "time_ns")
    times = [int(line) for line in out.splitlines()[1:]]
    assert len(times) == pq.read_metadata(later).num_rows + pq.read_metadata(earlier).num_rows
    assert times[0] < times[-1]


@pytest.mark.parametrize("form", FORMATS)
def test_keys_of_earlier_builds(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    """``key`` held the bytes on the wire, and there was no ``key_bytes``."""
    rows = stored(capsys, CAPTURES[1], tmp_path / f"frames.{form}", "--inspect")
    table = pq.read_table(rows) if form == "parquet" else pa.ipc.open_stream(rows.read_bytes()).read_all()
    keys, place = table.column("key_bytes"), table.column_names.index("key")
    record = {"collection_id": 130, "key": b"k\xff", "cas": 1, "by_seqno": 7}
    old = pa.list_(pa.struct([("collection_id", pa.int64()), ("key", pa.binary())] + [
        (name, pa.int64()) for name in ("cas", "by_seqno")
    ]))  # fmt: skip
    table = table.set_column(place, "key", keys).drop_columns(["key_bytes"])
    write(table, rows)
    expected, found = (run(capsys, "dissect", "--format", "ndjson", source) for source in (CAPTURES[1], rows))
    assert found == expected
    assert run(capsys, "check", rows)[:2] == run(capsys, "check", CAPTURES[1])[:2]
    listed = run(capsys, "dissect", CAPTURES[1])[1].count("key=k4 ")
    chosen = run(capsys, "dissect", rows, "--fields", "key", "--filter", 'key == "k4"')[1].split()
    assert listed > 4
    assert chosen == ["key", *["k4"] * listed]
    place = table.column_names.index("cache_records")
    write(table.set_column(place, "cache_records", pa.array([[record]] * table.num_rows, old)), rows)
    transfers = json.loads(run(capsys, "dissect", rows, "--limit", "1", "--format", "ndjson")[1])["cache_records"]
    assert [(each["key"], each["key_bytes"]) for each in transfers] == [("hex:6bff", "hex:82016bff")]  # 130 = 0x82 0x01
    write(table.select(["frame", "time_ns", "connection", "key"]), rows)
    assert "has no column" in refused(capsys, "dissect", rows, "--fields", "key")
    assert run(capsys, "dissect", rows, "--fields", "key_bytes")[0] == 0


def write(table: pa.Table, path: Path) -> None:
    """Write rows as a file of the format that its name ends with."""
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)


def test_keys_that_cannot_be_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = stored(capsys, CAPTURES[0], tmp_path / "frames.parquet")
    table = pq.read_table(rows)
    keys = pa.array(["\x1b[2J"] * table.num_rows)
    write(table.set_column(table.column_names.index("key"), "key", keys), rows)
    assert "column key" in refused(capsys, "dissect", rows)


def test_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import uprscope

    rows = stored(capsys, CAPTURES[0], tmp_path / "frames.parquet", "--inspect")
    assert uprscope.frames(rows).to_arrow().num_rows == uprscope.frames(CAPTURES[0]).to_arrow().num_rows
    found, expected = uprscope.check(rows), uprscope.check(CAPTURES[0])
    assert [finding.id for finding in found.findings] == [finding.id for finding in expected.findings]


def test_some_rows_of_a_run_keep_their_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    capture = "captures/02_flow_control.pcap"
    chosen = "conn in {2, 4} and opcode == open"
    rows = stored(capsys, capture, tmp_path / "some.parquet", "--filter", "conn in {2, 4}")
    listed = run(capsys, "dissect", capture, "--filter", chosen)[1]
    assert run(capsys, "dissect", rows, "--filter", chosen)[1] == listed
    names = [line.split()[-2] for line in listed.splitlines()[1:] if "→" in line]
    assert names == ["key=fc-auto", "key=fc-resize"]
    assert "key=fc-resize" in run(capsys, "dissect", rows, "--follow", "4", "-c", "1")[1]
    found = json.loads(run(capsys, "stats", rows, "--json")[1])["connections"]
    assert [(each["number"], each["name"]) for each in found] == [(2, "fc-auto"), (4, "fc-resize")]
    for command in (["connections"], ["connections", "--streams"]):
        lines = run(capsys, *command, rows)[1].splitlines()[1:]
        assert {line.split()[0] for line in lines} == {"2", "4"}
    assert "no connection 3 (connections are 2 to 4)" in refused(capsys, "dissect", rows, "--follow", "3")
    assert "no connection 3 (connections are 2 to 4)" in refused(capsys, "stats", rows, "--connection", "3")


def test_a_derived_column_without_those_that_it_is_made_of(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    fields = ("--fields", "frame,response_time_ns,status_name")
    rows = stored(capsys, CAPTURES[0], tmp_path / "few.parquet", *fields)
    assert run(capsys, "dissect", rows, *fields) == run(capsys, "dissect", CAPTURES[0], *fields)
    slow = (*fields, "--filter", "response_time_ns > 200000")
    assert run(capsys, "dissect", rows, *slow) == run(capsys, "dissect", CAPTURES[0], *slow)
    assert "has no column time_ns" in refused(capsys, "dissect", rows, "--fields", "seconds")


@pytest.mark.parametrize(
    ("number", "seconds"), [(2**62, 1.0), (1, float("nan")), (1, -1e300), (2, None), (None, 1e300), (None, None)]
)
def test_numbers_of_a_strange_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, number: int | None, seconds: float | None
) -> None:
    """Two connections of the same number, or one beyond all sense: both are listed, each with a number."""
    path = stored(capsys, CAPTURES[1], tmp_path / "strange.parquet", "--filter", "opcode == open")
    table = pq.read_table(path)
    for name, value in (("connection_number", number), ("seconds", seconds)):
        place = table.schema.get_field_index(name)
        kind = table.schema.field(name).with_nullable(True)
        table = table.set_column(place, kind, pa.array([value] * table.num_rows, kind.type))
    pq.write_table(table, path)
    status, out, err = run(capsys, "dissect", path)
    if status == 2:
        assert err.count("\n") == 1
    else:
        ids = len(set(table["connection"].to_pylist()))
        assert len({line.split()[2] for line in out.splitlines()[1:]}) == ids
