"""The form of a command's output: said, or told by the name of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.archive_cases import write_capture
from tests.support.checking import clean
from uprscope.cli import main


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "a.pcap"
    write_capture(path, clean("basic"))
    return path


@pytest.mark.parametrize("command", ["dissect", "connections", "check"])
def test_the_name_of_the_file_tells_the_form(capture: Path, tmp_path: Path, command: str) -> None:
    for name in ("a.json", "a.JSONL", "a.parquet", "a.csv", "a.txt", "a"):
        main([command, str(capture), "-o", str(tmp_path / name)])
    assert isinstance(json.loads((tmp_path / "a.json").read_text()), list | dict)
    assert all(json.loads(line) for line in (tmp_path / "a.JSONL").read_text().splitlines())
    assert pq.read_table(tmp_path / "a.parquet").num_columns > 5
    assert (tmp_path / "a.csv").read_text().startswith('"')
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "a").read_text()
    assert (tmp_path / "a").read_text().count('"') == 0


def test_what_is_said_counts_more(capture: Path, tmp_path: Path) -> None:
    path = tmp_path / "frames.csv"
    assert main(["dissect", str(capture), "--format", "arrow", "-o", str(path)]) == 0
    assert pa.ipc.open_stream(path.read_bytes()).read_all().num_rows > 0


@pytest.mark.parametrize("command", ["dissect", "connections", "check"])
def test_json_has_an_option_of_its_own(capture: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([command, str(capture), "--json"])
    assert json.loads(capsys.readouterr().out)


def test_a_form_of_another_command_is_text(capture: Path, tmp_path: Path) -> None:
    assert main(["dissect", str(capture), "-o", str(tmp_path / "a.xml")]) == 0
    assert main(["dissect", str(capture), "-o", str(tmp_path / "a.txt")]) == 0
    assert (tmp_path / "a.xml").read_text() == (tmp_path / "a.txt").read_text()
