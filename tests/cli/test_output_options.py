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


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["dissect", "-o", "a.xlsx"], ".txt, .json, .ndjson, .jsonl, .csv, .parquet, .pq, .arrow"),
        (["dissect", "-o", "a.tsv"], ".txt, .json"),
        (["dissect", "-o", "rows.ndjson.gz"], ".txt, .json"),
        (["connections", "-o", "a.xml"], ".txt, .json"),
        (["check", "-o", "a.html"], ".parquet, .pq, .xml"),
        (["check", "--annotate", "a.pcap"], ".pcapng"),
        (["report", "-o", "a.pdf"], ".html, .htm"),
        (["generate", "basic", "-o", "made.pcap", "--truth", "a.txt"], ".json"),
    ],
)
def test_an_ending_that_is_not_known(
    capture: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    known: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = words
    assert main([command, *([] if command == "generate" else [str(capture)]), *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"unknown ending .{words[-1].rpartition('.')[2]} (known: " in said.err
    assert known in said.err
    assert said.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [capture.name]


def test_names_that_say_nothing_of_the_form(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "d.xlsx"
    folder.mkdir()
    for target in (folder / "a", folder / ".hidden", Path("/dev/null"), folder / "b.xlsx"):
        said = ["--format", "csv"] if target.name == "b.xlsx" else []
        assert main(["dissect", str(capture), "-o", str(target), *said]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [".hidden", "a", "b.xlsx"]
    assert "/dev/null" not in capsys.readouterr().err


def test_columns_with_tabs(capture: Path, tmp_path: Path) -> None:
    assert main(["dissect", str(capture), "--fields", "frame,name", "-o", str(tmp_path / "a.tsv")]) == 0
    assert (tmp_path / "a.tsv").read_text().startswith("frame\tname\n1\t")


def test_commands_say_what_they_wrote(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    frames = len(_written(["dissect", str(capture), "--format", "ndjson"], capsys))

    def said(*words: str) -> str:
        main([*words[:1], str(capture), *words[1:]] if words[0] != "generate" else list(words))
        out, err = capsys.readouterr()
        assert out == ""
        return err.replace(str(tmp_path), "")

    assert said("dissect", "-o", "a.parquet") == f"uprscope: wrote a.parquet: {frames} frames\n"
    assert said("dissect", "--limit", "1", "-o", "a.txt") == "uprscope: wrote a.txt: 1 frame\n"
    assert said("connections", "-o", "a.csv") == "uprscope: wrote a.csv: 1 connection\n"
    assert said("check", "-o", "a.json") == "uprscope: wrote a.json: 0 findings\n"
    assert said("plot", "rates", "-o", "a.png") == "uprscope: wrote a.png: rates of a.pcap\n"
    assert said("report", "--no-pictures", "-o", "a.html") == f"uprscope: wrote a.html: {frames} frames, 0 findings\n"
    assert said("generate", "basic", "--rotate", "1000", "-o", "b.pcap").startswith("uprscope: wrote b-00001.pcap: ")


def _written(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines that a command writes to standard output, where it must say nothing of having written."""
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()
