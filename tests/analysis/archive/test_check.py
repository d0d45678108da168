"""Order-local rules in Spark: the same findings as the command line's, on every capture there is, in one job."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analysis.archive import check_by_ring
from analysis.archive.check_by_connection import OUTCOMES, check_task, findings_of, outcomes, tallies_of
from analysis.archive.check_by_ring import check_ring
from analysis.archive.ordered_frames import frames_in_order
from analysis.archive.packed_batches import packed_frames
from analysis.check.checker import Checker
from analysis.check.export import row_of
from analysis.rules import RULES
from dissector.frames.schema import SCHEMA
from tests.support.archive_cases import read
from uprscope import cli

Row = dict[str, Any]


def library(root: Path) -> list[Path]:
    return sorted(path for path in (root / "captures").rglob("*") if path.suffix in (".pcap", ".pcapng"))


Library = tuple[dict[str, list[Path]], dict[str, Checker]]


@pytest.fixture(scope="module")
def expected(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Every capture as a ring in two files, and what the checker says of it."""
    folder = tmp_path_factory.mktemp("library")
    rings: dict[str, list[Path]] = {}
    checkers: dict[str, Checker] = {}
    for path in library(repo_root):
        ring = path.relative_to(repo_root).as_posix()
        checker = checkers[ring] = Checker()
        batches = read(path)
        for batch in batches:
            checker.fold(batch)
        checker.finish()
        rings[ring] = in_files(pa.Table.from_batches(batches, SCHEMA), folder / f"{len(rings)}")
    return rings, checkers


def in_files(frames: pa.Table, place: Path) -> list[Path]:
    """Write frames to two files that overlap, as those of neighbouring days may."""
    number = frames.column("frame").to_numpy()
    later = (number * 7919 % 1000 / 1000 + number / max(len(number), 1)) > 1
    paths = [place.with_suffix(f".{day}.parquet") for day in (1, 2)]
    for path, mask in zip(paths, (~later, later), strict=True):
        pq.write_table(frames.filter(pa.array(mask)), path)
    return paths


def plain(row: Row) -> Row:
    """A finding as Spark gives it, without what Spark adds."""
    made = {name: value for name, value in row.items() if name != "ring"}
    return made | {name: [dict(each) for each in row[name]] for name in ("frames", "facts")}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_findings_are_those_of_the_command_line(spark: SparkSession, expected: Library, tmp_path: Path) -> None:
    rings, checkers = expected
    path = str(tmp_path / "outcomes")
    outcomes(spark, rings, {ring: 1 + place % 3 for place, ring in enumerate(rings)}).write.parquet(path)
    rows = spark.read.parquet(path)
    found: dict[str, list[Row]] = {ring: [] for ring in checkers}
    for row in findings_of(rows).collect():
        found[row["ring"]].append(plain(row.asDict(recursive=True)))
    for ring, checker in checkers.items():
        wanted = sorted((row_of(finding) for finding in checker.findings), key=lambda row: row["id"])
        assert sorted(found[ring], key=lambda row: row["id"]) == wanted, ring
    assert sum(map(len, found.values())) > 200
    checked: Counter[tuple[str, ...]] = Counter()
    for row in tallies_of(rows).where("unknown is not null").toLocalIterator():
        checked[row["ring"], row["rule"], "checked"] += row["checked"]
        checked[row["ring"], row["rule"], "violated"] += row["violated"]
        checked.update({(row["ring"], row["rule"], each["reason"]): each["count"] for each in row["unknown"]})
    for ring, checker in checkers.items():
        for rule, tally in checker.tallies.items():
            assert checked[ring, rule, "checked"] == tally.checked
            assert checked[ring, rule, "violated"] == tally.violated
            assert all(checked[ring, rule, reason] == count for reason, count in tally.unknown.items())


def findings(checker: Checker) -> list[Row]:
    return [row_of(finding) for finding in checker.findings]


@pytest.mark.parametrize("rows", [1, 7, 10_000])
def test_however_frames_are_bundled(repo_root: Path, tmp_path: Path, rows: int) -> None:
    """One task with two rings of the same capture: connections of the same id do not get in each other's way."""
    batches = read(repo_root / "captures" / "09_feed_real_consumer.pcap")
    paths = in_files(pa.Table.from_batches(batches), tmp_path / "frames")
    packed = [batch for ring in ("a", "b") for path in paths for batch in packed_frames(path, ring, 1, rows)]
    shuffled = pa.Table.from_batches(packed).sort_by(
        [(name, "ascending") for name in ("ring", "partition", "first_frame")]
    )
    made = check_task([rule.id for rule in RULES])(iter(shuffled.to_batches(max_chunksize=3)))
    found = pa.Table.from_batches(made, OUTCOMES).to_pylist()
    by_ring = {ring: [row["finding"] for row in found if row["ring"] == ring and row["finding"]] for ring in ("a", "b")}
    wanted = findings(checked(batches))
    assert len(wanted) > 10
    assert by_ring == {"a": wanted, "b": wanted}


@pytest.mark.parametrize("rows", [1, 7, 10_000])
def test_files_are_read_in_the_order_of_the_run(repo_root: Path, tmp_path: Path, rows: int) -> None:
    batches = read(repo_root / "captures" / "09_feed_real_consumer.pcap")
    table = pa.Table.from_batches(batches)
    paths = in_files(table, tmp_path / "frames")
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    found = list(frames_in_order([*reversed(paths), tmp_path / "empty.parquet"], ["frame", "connection"], rows))
    assert pa.Table.from_batches(found).equals(table.select(["frame", "connection"]))
    assert all(batch.num_rows <= rows for batch in found)
    pq.write_table(table.take(list(range(table.num_rows))[::-1]), tmp_path / "backwards.parquet")
    with pytest.raises(ValueError, match="not in the order"):
        list(frames_in_order([tmp_path / "backwards.parquet"], ["frame"], rows))


def test_a_ring_by_itself(repo_root: Path, tmp_path: Path) -> None:
    """What a task writes of a whole ring is what the checker says."""
    batches = read(repo_root / "captures" / "09_feed_real_consumer.pcap")
    names = check_ring(tmp_path, "r", in_files(pa.Table.from_batches(batches), tmp_path / "frames"))
    written = {Path(name).parts[0]: pq.read_table(tmp_path / name, partitioning=None).to_pylist() for name in names}
    checker = checked(batches)
    assert written["findings"] == findings(checker)
    summary = {row["rule"]: row for row in written["summary"]}
    assert {rule for rule, tally in checker.tallies.items() if tally.checked} == summary.keys()
    for rule, row in summary.items():
        tally = checker.tallies[rule]
        assert (row["checked"], row["held"], row["violated"]) == (tally.checked, tally.held, tally.violated)
        assert {each["reason"]: each["count"] for each in row["unknown"]} == tally.unknown
        assert row["findings"] == sum(finding.rule == rule for finding in checker.findings)


def checked(batches: list[pa.RecordBatch]) -> Checker:
    checker = Checker()
    for batch in batches:
        checker.fold(batch)
    checker.finish()
    return checker


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_findings_beyond_the_limit_are_counted(spark: SparkSession, repo_root: Path, tmp_path: Path) -> None:
    """Every task keeps up to the limit; what is too much of their sum is counted as if there were one task."""
    batches = read(repo_root / "captures" / "09_feed_real_consumer.pcap")
    paths = in_files(pa.Table.from_batches(batches), tmp_path / "frames")
    path = str(tmp_path / "outcomes")
    outcomes(spark, {"r": paths}, {"r": 3}, limit=2).write.parquet(path)
    rows = spark.read.parquet(path)
    sums = tallies_of(rows, limit=2).groupBy("rule").sum("violated", "unlisted").collect()
    kept = findings_of(rows, limit=2).groupBy("rule").agg({"*": "count", "echoes": "sum"}).collect()
    listed = {row["rule"]: row["count(1)"] + row["sum(echoes)"] for row in kept}
    assert any(row["sum(unlisted)"] for row in sums)
    assert all(row["count(1)"] <= 2 for row in kept)
    for row in sums:
        assert row["sum(violated)"] == listed.get(row["rule"], 0) + row["sum(unlisted)"]


@pytest.mark.parametrize(
    ("sizes", "cores", "whole", "partitions"),
    [
        ({"a": 50, "b": 60, "c": 10}, 1, ["b", "a", "c"], {}),
        ({"a": 50, "b": 60, "c": 10}, 2, ["c"], {"b": 4, "a": 4}),
        ({"a": 900, "b": 100}, 4, ["b"], {"a": 16}),
    ],
)
def test_which_rings_are_shared_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sizes: dict[str, int],
    cores: int,
    whole: list[str],
    partitions: dict[str, int],
) -> None:
    """More than half of a core's part is too much: 60 of 120 for one core, 30 for two; 125 of 1,000 for four."""
    monkeypatch.setattr(check_by_ring, "_ONE_TASK_BYTES", 1)
    for ring, size in sizes.items():
        place = tmp_path / "frames" / "day=2026-11-16" / f"ring={ring}"
        place.mkdir(parents=True)
        (place / "x.parquet").write_bytes(b"x" * size)
        (place / "_hidden.parquet").write_bytes(b"x" * 1000)
    assert check_by_ring.whole_or_partitioned(check_by_ring.rings_below(tmp_path), cores) == (whole, partitions)


def test_every_part_of_a_ring_is_a_run_of_its_own(repo_root: Path) -> None:
    """What one connection says does not depend on which others the task has."""
    batches = read(repo_root / "captures" / "09_feed_real_consumer.pcap")
    table = pa.Table.from_batches(batches)
    names = sorted(set(table.column("connection").to_pylist()))
    found = []
    for name in names:
        checker = Checker()
        alone = table.filter(pa.array([each == name for each in table.column("connection").to_pylist()]))
        for batch in alone.to_batches():
            checker.fold(batch)
        checker.finish()
        found += [row_of(finding) for finding in checker.findings]
    together = Checker()
    for batch in batches:
        together.fold(batch)
    together.finish()
    wanted = [row_of(finding) for finding in together.findings]
    assert len(names) > 2
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert all(one["id"] != other["id"] for one, other in itertools.combinations(found, 2))


def test_bundles_are_small_for_java(tmp_path: Path) -> None:
    assert cli.main(["generate", "bulk", "--frames", "4000", "-o", str(tmp_path / "bulk.pcap")]) == 0
    path = tmp_path / "frames.parquet"
    pq.write_table(pa.Table.from_batches(read(tmp_path / "bulk.pcap")), path)
    sizes = [len(value.as_py()) for batch in packed_frames(path, "r", 1) for value in batch.column("frames")]
    assert len(sizes) == 4
    assert max(sizes) < 512 << 10
