"""The batch job: what is in the tables, what a rerun does, what becomes of bad files and of runs that die."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis.archive import job, manifest, spark_tables, transaction
from analysis.archive.schema import BY_NAME, TABLES, whole_schema
from analysis.check.export import row_of
from analysis.check.inspection import check
from dissector.capture import Input
from dissector.errors import InputError, UsageError
from dissector.frames.reader import FrameReader
from dissector.frames.schema import SCHEMA
from dissector.options import ReadOptions
from tests.support.archive_cases import rotated, write_capture
from tests.support.checking import captured, clean
from tests.support.paths import ROOT
from uprscope import cli

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Row = dict[str, Any]
NAMES = (
    "broken/SEQ-01-repeated.pcapng",
    "broken/SNP-02-above.pcapng",
    "clean/rollback.pcapng",
    "clean/flow-control.pcapng",
    "09_feed_real_consumer.pcap",
)


def rows(spark: SparkSession, archive: Path, name: str, ring: str | None = None) -> list[Row]:
    table = spark_tables.read(spark, archive, BY_NAME[name])
    chosen = table if ring is None else table.where(table["ring"] == ring)
    return [row.asDict(recursive=True) for row in chosen.collect()]


def ring_of(outcome: job.Outcome, folder: Path) -> str:
    return next(name for name, entry in outcome.manifest.rings.items() if entry.place == str(folder))


def frames_as_read(spark: SparkSession, archive: Path, ring: str) -> list[Row]:
    found = rows(spark, archive, "frames", ring)
    for row in found:
        assert str(row.pop("day")) == "2023-11-14"  # 1,700,000,000 s
        del row["ring"]
        row["key_bytes"] = None if row["key_bytes"] is None else bytes(row["key_bytes"])
    return sorted(found, key=lambda row: row["frame"])


def check_ring(spark: SparkSession, outcome: job.Outcome, folder: Path) -> None:
    """A ring's rows are those of one run of the command line over its files."""
    paths = sorted(folder.glob("*.pcap"))
    ring = ring_of(outcome, folder)
    reader = FrameReader([Input(str(path), path) for path in paths], ReadOptions(inspect=True))
    expected = [row for batch in reader for row in batch.to_pylist()]
    found = frames_as_read(spark, outcome.archive, ring)
    assert [*found[0]] == SCHEMA.names
    assert found == expected
    inspection = check([str(path) for path in paths])
    wanted = sorted((row_of(finding) for finding in inspection.findings), key=lambda row: row["id"])
    findings = sorted(rows(spark, outcome.archive, "findings", ring), key=lambda row: row["id"])
    assert [{**row, "ring": ring} for row in wanted] == findings
    summary = {row["rule"]: row for row in rows(spark, outcome.archive, "summary", ring)}
    for tally in inspection.tallies:
        if tally.checked:
            row = summary.pop(tally.rule)
            assert (row["checked"], row["held"], row["violated"]) == (tally.checked, tally.held, tally.violated)
            assert {each["reason"]: each["count"] for each in row["unknown"]} == tally.unknown
            assert row["verdict"] == tally.verdict
    assert summary == {}


def files_of(archive: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in archive.rglob("*") if path.is_file()}


def test_an_archive_that_grows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, archive = tmp_path / "in", tmp_path / "out"
    ring, other = source / "ring", source / "other"
    ring.mkdir(parents=True)
    parts = rotated(captured(clean("multiplex")), 4)
    for number, data in enumerate(parts[:3]):
        (ring / f"{number}.pcap").write_bytes(data)
    whole = write_capture(other / "late.pcap", clean("basic"), port=700).read_bytes()
    (other / "late.pcap").write_bytes(whole[:-7])
    (other / "junk.pcap").write_text("this is no capture")

    first = job.run(spark, archive, [str(source)])
    assert (len(first.read), first.kept) == (2, 0)
    check_ring(spark, first, ring)
    quarantine = {Path(row["capture"]).name: row for row in rows(spark, archive, "quarantine")}
    assert quarantine["junk.pcap"]["outcome"] == "left out"
    assert "capture" in quarantine["junk.pcap"]["reason"]
    assert quarantine["late.pcap"]["outcome"] == "damaged"
    entry = first.manifest.rings[ring_of(first, other)]
    assert (entry.left_out, entry.damaged, entry.frames > 50) == (1, 1, True)
    assert not (archive / "_staging" / "x").exists()
    assert {path.name for path in archive.iterdir()} >= {table.name for table in TABLES} | {"manifest.json"}

    # Nothing new: nothing is touched.
    before = files_of(archive)
    again = job.run(spark, archive, [str(source)])
    assert (again.read, again.kept) == ([], 2)
    assert {name: time for name, time in files_of(archive).items() if not name.endswith("_lock")} == {
        name: time for name, time in before.items() if not name.endswith("_lock")
    }

    # The ring goes on, and the run dies when the new files are half in: the next one completes it.
    (ring / "3.pcap").write_bytes(parts[3])
    moved = manifest.write_text

    def die(path: Path, text: str) -> None:
        if path == archive / manifest.NAME:
            raise OSError("the power is gone")
        moved(path, text)

    monkeypatch.setattr(manifest, "write_text", die)
    with pytest.raises(OSError, match="power"):
        job.run(spark, archive, [str(ring / "3.pcap")])
    monkeypatch.undo()
    grown = job.run(spark, archive, [str(source)])
    assert grown.recovered
    assert (grown.read, grown.kept) == ([], 2)
    check_ring(spark, grown, ring)
    assert grown.frames == len(rows(spark, archive, "frames"))
    listed = {name for each in grown.manifest.rings.values() for name in each.files} | set(grown.manifest.across)
    there = {path.relative_to(archive).as_posix() for path in archive.rglob("*.parquet")}
    assert there == listed


@dataclass(frozen=True)
class Commanded:
    """What the command said."""

    archive: Path
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def commanded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Commanded:
    """An archive of some of the library's captures, made by the command; it uses the session that there is."""
    del spark
    archive = tmp_path_factory.mktemp("commanded") / "archive"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(
            ["archive", *(str(repo_root / "captures" / name) for name in NAMES), "-o", str(archive), "--separate"]
        )
    return Commanded(archive, status, out.getvalue(), err.getvalue())


def test_the_command(commanded: Commanded, repo_root: Path) -> None:
    assert commanded.status == 1
    assert "SEQ-01" in commanded.out
    assert "SNP-02" in commanded.out
    assert "of 5 rings 5 read now, 0 as before." in commanded.out
    # Some are in one directory: with --separate they are rings of their own all the same.
    entries = manifest.read(commanded.archive).rings.values()
    assert sorted(entry.place for entry in entries) == sorted(str(repo_root / "captures" / name) for name in NAMES)
    assert "reading 5 rings" in commanded.err


def test_nothing_that_can_be_read(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del spark
    junk = tmp_path / "junk.pcap"
    junk.write_text("no capture at all")
    assert cli.main(["archive", str(junk), "-o", str(tmp_path / "b")]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"uprscope: {junk}: ")
    assert not (tmp_path / "b").exists()


def cookbook() -> list[tuple[str, str]]:
    """The queries of docs/spark.md, by their titles."""
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    return re.findall(r"\*\*([^*]+)\*\*\n\n```sql\n(.*?)```", text, re.DOTALL)


def test_the_cookbook_has_a_dozen() -> None:
    assert len(cookbook()) >= 12


@pytest.mark.parametrize(("title", "query"), cookbook(), ids=[title.split(":")[0] for title, _ in cookbook()])
def test_the_cookbook(spark: SparkSession, commanded: Commanded, title: str, query: str) -> None:
    spark_tables.views(spark, commanded.archive)
    found = spark.sql(query).collect()
    assert found or title in (
        "What could not be read",
        "Missing stream ends: streams that were still open when their connection was closed",
    ), title


def test_the_example(
    spark: SparkSession, commanded: Commanded, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark
    monkeypatch.setattr(sys, "argv", ["spark_example.py", str(commanded.archive)])
    runpy.run_path(str(ROOT / "docs" / "spark_example.py"))
    told = capsys.readouterr().out
    assert "SEQ-01" in told
    assert "points" in told


def test_what_readers_see_is_what_is_declared(spark: SparkSession, tmp_path: Path) -> None:
    folder = transaction.begin(tmp_path, "run")
    for table in TABLES:
        empty = spark_tables.read(spark, folder, table)
        assert empty.columns == whole_schema(table).names
        assert empty.count() == 0
    with pytest.raises(InputError, match="is no archive"):
        spark_tables.views(spark, tmp_path)


def test_two_runs_at_once(tmp_path: Path) -> None:
    with transaction.locked(tmp_path), pytest.raises(UsageError, match="another run"), transaction.locked(tmp_path):
        pass
