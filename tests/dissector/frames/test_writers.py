"""Files of frames: whatever the format, what is read back is what was written, and no file is there half."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import stat
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissector.capture import expand
from dissector.errors import UsageError
from dissector.frames.derived_columns import ROW_SCHEMA
from dissector.frames.reader import FrameReader
from dissector.frames.run_columns import RunColumns
from dissector.frames.schema import ALWAYS, NO_END, SCHEMA, SEQNOS
from dissector.frames.writers import destination, open_writer
from dissector.options import ReadOptions
from tests.support.paths import ROOT
from uprscope import cli

CAPTURE = str(ROOT / "captures" / "25_stream_id_v705.pcap")
#: As docs/frames.md has them.
UNSIGNED = {
    match[1] for match in re.finditer(r"(?m)^\| `(\w+)` \| int64, unsigned \|", (ROOT / "docs/frames.md").read_text())
}
BINARY = {"key_bytes", "value"}


@cache
def frames() -> pa.Table:
    return pa.Table.from_batches(FrameReader(expand([CAPTURE]), ReadOptions(values=True)), SCHEMA)


@cache
def odd() -> pa.Table:
    """Rows that no recording has: sign bits, bytes that are no text or look like digits, text that drives terminals."""
    rows: list[dict[str, Any]] = [
        {
            "cas": -1,
            "key_bytes": b"\xff\xfe",
            "value": b"",
            "text": "\x1b[2J\t\n\x9b\u202e",
            "defects": [],
            "features": [],
        },
        {
            "cas": -(1 << 63),
            "key_bytes": b"hex:00",
            "value": b"hex:",
            "text": "",
            "defects": ["a", "b"],
            "features": [1, 2],
        },
        {
            "cas": (1 << 63) - 1,
            "key_bytes": "schlüssel".encode(),
            "value": b'a,"b"\n',
            "text": 'c,"d" \\n',
            "response": True,
        },
        {
            "failover_log": [{"vbucket_uuid": -2, "seqno": 1}, {"vbucket_uuid": 3, "seqno": NO_END}],
            "capture": "ä b\\.pcap",
        },
        {"key_bytes": b" ", "value": b"null", "text": "null", "response": False, "vbucket": 0, "failover_log": []},
        {"end_seqno": NO_END, "start_seqno": NO_END - 1},
        {},
    ]
    zeros = {pa.string(): "", pa.bool_(): False}
    always = {name: zeros.get(SCHEMA.field(name).type, [] if name == "defects" else 0) for name in ALWAYS}
    return pa.Table.from_pylist([always | row for row in rows], SCHEMA)


TABLES = pytest.mark.parametrize("table", [frames, odd], ids=["recorded", "odd"])
ROWS_AT_ONCE = pytest.mark.parametrize("rows_at_once", [1_000_000, 7])


def written(kind: str, table: pa.Table, rows_at_once: int = 1_000_000) -> bytes:
    stream = io.BytesIO()
    writer = open_writer(kind, stream, table.schema)
    for batch in table.combine_chunks().to_batches(max_chunksize=rows_at_once):
        writer.write(batch)
        writer.write(batch.slice(0, 0))  # nothing is nothing, not an empty line
    writer.close()
    return stream.getvalue()


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def bytes_of(text: str) -> bytes:
    """Read bytes back as docs/frames.md says they are written."""
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()


def signed(text: str) -> int:
    """Read an identifier as rows hold it."""
    assert re.fullmatch("0x[0-9a-f]{16}", text)
    number = int(text, 16)
    return number - (1 << 64) if number >> 63 else number


def with_ends(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what says "no end", as text formats do."""
    return [
        {name: None if name in SEQNOS and value == NO_END else value for name, value in row.items()} for row in rows
    ]


def row_of(found: dict[str, Any]) -> dict[str, Any]:
    """Turn an object of JSON back into a row: all columns, bytes as bytes, identifiers signed."""
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    for name, value in found.items():
        assert value is not None  # left out instead
        if name in BINARY:
            row[name] = bytes_of(value)
        elif name in UNSIGNED:
            row[name] = signed(value)
        elif name == "failover_log":
            row[name] = [
                {
                    "vbucket_uuid": signed(each["vbucket_uuid"]),
                    "seqno": NO_END if each["seqno"] is None else each["seqno"],
                }
                for each in value
            ]
        else:
            row[name] = value
    return row


def test_the_page_names_the_unsigned_columns() -> None:
    assert {"cas", "vbucket_uuid", "key_hash"} <= UNSIGNED


@TABLES
@ROWS_AT_ONCE
def test_ndjson(table: Any, rows_at_once: int) -> None:
    lines = written("ndjson", table(), rows_at_once).decode().splitlines()
    assert [row_of(json.loads(line)) for line in lines] == with_ends(table().to_pylist())
    assert all(line.isprintable() for line in lines)


@TABLES
@ROWS_AT_ONCE
def test_json(table: Any, rows_at_once: int) -> None:
    text = written("json", table(), rows_at_once).decode()
    assert [row_of(found) for found in json.loads(text)] == with_ends(table().to_pylist())
    assert all(line.isprintable() for line in text.split("\n"))


def test_json_of_nothing_is_an_empty_array() -> None:
    assert json.loads(written("json", frames().slice(0, 0))) == []


def flat(name: str, value: Any) -> str:
    """Write a value of a row as a cell: lists by spaces, entries of a failover log as uuid@seqno."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if name == "failover_log":
        ends = ["no end" if entry["seqno"] == NO_END else entry["seqno"] for entry in value]
        return " ".join(
            f"0x{entry['vbucket_uuid'] % (1 << 64):016x}@{end}" for entry, end in zip(value, ends, strict=True)
        )
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"0x{value % (1 << 64):016x}" if name in UNSIGNED else str(value)


def check_cells(cells: list[dict[str, str]], table: pa.Table, *, safe: bool = False) -> None:
    """Compare cells with rows; ``safe``: text is written as bytes are, so that no control character is."""
    for found, row in zip(cells, with_ends(table.to_pylist()), strict=True):
        assert list(found) == SCHEMA.names
        for name, value in row.items():
            if safe and name == "text" and value is not None:
                assert bytes_of(found[name]) == value.encode()
                assert found[name].isprintable()
            elif isinstance(value, bytes):
                assert bytes_of(found[name]) == value, name
                assert found[name].isprintable()
            else:
                assert found[name] == flat(name, value), name


@TABLES
@ROWS_AT_ONCE
def test_csv(table: Any, rows_at_once: int) -> None:
    text = written("csv", table(), rows_at_once).decode()
    check_cells(list(csv.DictReader(io.StringIO(text, newline=""))), table(), safe=True)


def test_csv_tells_nothing_from_an_empty_text() -> None:
    table = pa.Table.from_pylist([{"text": ""}, {"text": None}], pa.schema([("text", pa.string())]))
    assert written("csv", table) == b'"text"\n""\n\n'


def unescaped(cell: str) -> str:
    r"""Undo the escapes of terminals: \xNN, \uNNNN, \n, \t, and a doubled backslash."""
    short = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
    return re.sub(
        r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))",
        lambda found: short[found[3]] if found[3] else chr(int(found[1] or found[2], 16)),
        cell,
    )


@TABLES
@ROWS_AT_ONCE
def test_tsv(table: Any, rows_at_once: int) -> None:
    head, *lines = written("tsv", table(), rows_at_once).decode().split("\n")[:-1]
    assert all(line.replace("\t", "").isprintable() for line in lines)
    cells = [[unescaped(cell) for cell in line.split("\t")] for line in lines]
    check_cells([dict(zip(head.split("\t"), line, strict=True)) for line in cells], table())


@TABLES
@ROWS_AT_ONCE
def test_parquet_and_arrow(table: Any, rows_at_once: int) -> None:
    parquet = pq.read_table(io.BytesIO(written("parquet", table(), rows_at_once)))
    arrow = pa.ipc.open_stream(written("arrow", table(), rows_at_once)).read_all()
    assert parquet.schema.equals(SCHEMA)
    assert arrow.schema.equals(SCHEMA)
    assert parquet.to_pylist() == arrow.to_pylist() == table().to_pylist()


def test_parquet_puts_small_batches_together() -> None:
    assert pq.ParquetFile(io.BytesIO(written("parquet", frames(), 7))).num_row_groups == 1


@given(st.lists(st.tuples(st.binary(max_size=6), st.text(max_size=6), st.integers(-(1 << 63), (1 << 63) - 1))))
def test_anything_comes_back(cells: list[tuple[bytes, str, int]]) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in ("key_bytes", "text", "cas")])
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in cells], schema)
    expected = [(key, text, cas % (1 << 64)) for key, text, cas in cells]
    lines = written("ndjson", table).decode().split("\n")[:-1]
    assert all(line.isprintable() for line in lines)
    found = [json.loads(line) for line in lines]
    assert [(bytes_of(row["key_bytes"]), row["text"], int(row["cas"], 16)) for row in found] == expected
    for row, (key, _, _) in zip(found, cells, strict=True):
        printable = key.decode("utf-8", "replace").isprintable() and b"\xef\xbf\xbd" not in key
        if printable and not key.startswith(b"hex:") and key.decode("utf-8", "ignore").encode() == key:
            assert row["key_bytes"] == key.decode()
    csv_text = written("csv", table).decode()
    assert all(line.isprintable() for line in csv_text.split("\n"))
    rows = csv.reader(io.StringIO(csv_text, newline=""))
    assert [(bytes_of(key), bytes_of(text).decode(), int(cas, 16)) for key, text, cas in list(rows)[1:]] == expected


# -------------------------------------------------------------------------------------------------- the command's files


@cache
def rows() -> pa.Table:
    derived = RunColumns(ROW_SCHEMA.names)
    return pa.Table.from_batches([derived.add(batch) for batch in frames().combine_chunks().to_batches()], ROW_SCHEMA)


@pytest.mark.parametrize("kind", ["ndjson", "json", "csv", "parquet", "arrow"])
def test_the_command_writes_the_reader_s_rows(kind: str, tmp_path: Path, capfdbinary: Any) -> None:
    target = tmp_path / "frames"
    assert cli.main(["dissect", CAPTURE, "--values", "--format", kind, "-o", str(target)]) == 0
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert re.fullmatch(rb"uprscope: wrote .*/frames: \d+ frames\n", err)
    data = target.read_bytes()
    assert names_in(tmp_path) == ["frames"]
    if kind == "parquet":
        assert pq.read_table(io.BytesIO(data)).to_pylist() == rows().to_pylist()
    elif kind == "arrow":
        assert pa.ipc.open_stream(data).read_all().to_pylist() == rows().to_pylist()
    else:
        assert data == written(kind, rows())


def test_chosen_columns_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "frames.parquet"
    options = ["--format", "parquet", "--fields", "name,frame,cas", "--filter", "opcode == mutation"]
    assert cli.main(["dissect", CAPTURE, *options, "-o", str(target)]) == 0
    found = pq.read_table(target)
    assert found.schema.names == ["name", "frame", "cas"]
    expected = [row for row in frames().select(["name", "frame", "cas"]).to_pylist() if row["name"] == "mutation"]
    assert found.to_pylist() == expected


# ---------------------------------------------------------------------------------------------------------- destination


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with destination(str(target)) as stream:
        stream.write(b"new")
        stream.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert names_in(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_what_was_not_completed_is_not_there(error: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")

    def write() -> None:
        with destination(str(target)) as stream:
            stream.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_bytes() == b"old"
    assert names_in(tmp_path) == ["out"]


def test_a_mistake_found_late_leaves_no_file(tmp_path: Path, capfdbinary: Any) -> None:
    target = tmp_path / "out.csv"
    assert cli.main(["dissect", CAPTURE, "--follow", "99", "--format", "csv", "-o", str(target)]) == 2
    assert b"no connection 99" in capfdbinary.readouterr().err
    assert names_in(tmp_path) == []


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "far" / "file")
    for content in (b"first", b"second"):  # it points to nothing yet, then to a file
        with destination(str(link)) as stream:
            stream.write(content)
        assert link.is_symlink()
        assert (tmp_path / "far" / "file").read_bytes() == content
    assert names_in(tmp_path / "far") == ["file"]


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    with destination("/dev/null") as stream:
        stream.write(b"gone")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    assert cli.main(["dissect", CAPTURE, "--values", "--format", "arrow", "-o", str(pipe)]) == 0
    reader.join(30)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert pa.ipc.open_stream(received[0]).read_all().num_rows == frames().num_rows


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="links like that of Linux are needed")
@pytest.mark.parametrize("redirection", ["> {}", "| cat > {}"])
def test_dev_stdout_is_a_link_that_stays(redirection: str, tmp_path: Path) -> None:
    link = tmp_path / "stdout"  # as /dev has it, where a mistake would do harm
    link.symlink_to("/proc/self/fd/1")
    program = (
        f"from dissector.frames.writers import destination\nwith destination({str(link)!r}) as out: out.write(b'here')"
    )
    target = tmp_path / "target"
    script = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {redirection.format(shlex.quote(str(target)))}"
    subprocess.run(["bash", "-o", "pipefail", "-c", script], check=True, timeout=60)
    assert target.read_bytes() == b"here"
    assert sorted(names_in(tmp_path)) == ["stdout", "target"]
    assert link.is_symlink()


def test_standard_output(capfdbinary: Any) -> None:
    for path in (None, "-"):
        with destination(path) as stream:
            stream.write(b"here")
    assert capfdbinary.readouterr().out == b"herehere"


@pytest.mark.parametrize("path", ["", "no/such/directory/file"])
def test_where_nothing_can_be_written(path: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a directory|cannot be written"), destination(str(tmp_path / path)):
        pass
