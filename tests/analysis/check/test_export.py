"""Findings for programs: every format says the same, and each can serve as a baseline."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analysis.check.baseline import known_ids
from analysis.check.export import COLUMNS, SCHEMA, junit
from analysis.check.inspection import check
from analysis.check.selection import rules_of
from dissector.errors import UsageError
from uprscope import cli

FEED = "captures/09_feed_real_consumer.pcap"
FORMATS = ("json", "ndjson", "csv", "parquet", "junit")
RULES = "SEQ-01,SEQ-02"


@pytest.fixture(autouse=True)
def _at_root(repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo_root)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("formats")
    for form in FORMATS:
        words = ["check", str(repo_root / FEED), "--rules", RULES, "--format", form, "-o", str(folder / form)]
        assert cli.main(words) == 1
    return {form: folder / form for form in FORMATS}


@pytest.fixture
def rows(written: dict[str, Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written["ndjson"].read_text().splitlines()]


def test_rows(rows: list[dict[str, Any]]) -> None:
    assert len(rows) >= 4
    first = rows[0]
    assert set(first) <= {column.name for column in COLUMNS}
    assert first["rule"] == "SEQ-01"
    assert first["severity"] == "error"
    assert first["vbucket"] == 2
    assert (first["frame"], first["packet_first"], first["packet_last"]) == (69, 102, 102)
    assert first["facts"] | {"by_seqno": 2, "previous_seqno": 2} == first["facts"]
    assert [(each["role"], each["frame"]) for each in first["frames"]] == [("guilty", 69), ("last", 68)]
    assert first["filter"] == "frame.number in {100, 102}"


def test_json_has_the_rows_and_how_rules_fared(written: dict[str, Path], rows: list[dict[str, Any]]) -> None:
    document = json.loads(written["json"].read_text())
    assert document["findings"] == rows
    assert (document["frames"], document["connections"]) == (149, 5)
    first, second = document["rules"]
    assert (first["rule"], first["verdict"], first["violated"]) == ("SEQ-01", "violated", len(rows))
    for each in (first, second):
        assert each["checked"] == each["held"] + each["violated"] + sum(each["unknown"].values())


def test_csv(written: dict[str, Path], rows: list[dict[str, Any]]) -> None:
    read = list(csv.DictReader(io.StringIO(written["csv"].read_text())))
    assert [row["id"] for row in read] == [row["id"] for row in rows]
    assert list(read[0]) == [column.name for column in COLUMNS]
    assert read[0]["frames"] == "guilty=69 last=68"
    assert "by_seqno=2" in read[0]["facts"].split()
    assert read[0]["stream_id"] == ""


def test_parquet(written: dict[str, Path], rows: list[dict[str, Any]]) -> None:
    table = pq.read_table(written["parquet"])
    assert table.schema.equals(SCHEMA)
    for name in ("id", "sentence", "frame", "time_ns", "frames"):
        assert table.column(name).to_pylist() == [row[name] for row in rows]


def test_junit(written: dict[str, Path], rows: list[dict[str, Any]]) -> None:
    suite = ET.fromstring(written["junit"].read_text())  # noqa: S314 - our own
    cases = suite.findall("testcase")
    assert [case.get("name", "")[:6] for case in cases] == ["SEQ-01", "SEQ-02"]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failure,) = cases[0].findall("failure")
    assert failure.get("type") == "error"
    lines = (failure.text or "").splitlines()
    assert [line.split(":")[0] for line in lines] == [row["id"] for row in rows]
    assert not cases[1].findall("failure")


def test_junit_skips_what_had_nothing_to_check() -> None:
    inspection = check("captures/03_noop.pcap", rules=rules_of("SEQ-02"))
    suite = ET.fromstring(junit(inspection, rules_of("SEQ-02")))  # noqa: S314 - our own
    decided = inspection.tallies[0].held
    assert suite.get("skipped") == ("0" if decided else "1")
    assert len(suite.findall("testcase/skipped")) == (0 if decided else 1)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_a_baseline(
    form: str, written: dict[str, Path], rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert known_ids(str(written[form])) == {row["id"] for row in rows}
    assert cli.main(["check", FEED, "--rules", RULES, "--baseline", str(written[form])]) == 0
    out = capsys.readouterr().out
    assert f"Not listed: {len(rows)} findings that the baseline has." in out
    assert "\nNothing else is violated" in out


def test_what_is_new_is_left(written: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = written["ndjson"].read_text().splitlines(keepends=True)
    some = tmp_path / "some.ndjson"
    some.write_text("".join(lines[1:]))
    assert cli.main(["check", FEED, "--rules", RULES, "--baseline", str(some), "--format", "ndjson"]) == 1
    assert capsys.readouterr().out == lines[0].replace(str(Path.cwd() / FEED), FEED)


@pytest.mark.parametrize("form", FORMATS)
def test_no_findings_are_a_baseline_too(form: str, tmp_path: Path) -> None:
    path = tmp_path / form
    words = ["check", "captures/clean/basic.pcapng", "--rules", "SEQ-01", "--format", form, "-o", str(path)]
    assert cli.main(words) == 0
    assert known_ids(str(path)) == frozenset()


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"a,b\n1,2\n",
        b"{",
        b"[1]",
        b'{"findings": 3}',
        b'{"id": "x"}',
        b"\xff\xfe",
        b"PAR1junk",
        b"<html/>",
        b"[" * 9999,
    ],
)
def test_what_is_no_baseline(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="--baseline"):
        known_ids(str(path))


def test_parquet_is_not_for_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.main(["check", FEED, "--format", "parquet"]) == 2
    assert "parquet is not for terminals" in capsys.readouterr().err
