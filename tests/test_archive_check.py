"""Order-local rules in Spark: the same findings as the command line's, on every capture there is, in one job."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from archive_cases import read, with_ring, write_table
from pyspark.sql import SparkSession

from analysis.archive.checking import OUTCOMES, checks, findings_of, outcomes, parts
from analysis.checker import Checker
from analysis.formats import row_of
from analysis.rules import RULES

Row = dict[str, Any]


def library(root: Path) -> list[Path]:
    return sorted(path for path in (root / "captures").rglob("*") if path.suffix in (".pcap", ".pcapng"))


@pytest.fixture(scope="module")
def expected(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Checker]]:
    """All frames in one file, and what the checker says of each capture by itself."""
    checkers: dict[str, Checker] = {}

    def batches() -> Any:
        for path in library(repo_root):
            ring = path.relative_to(repo_root).as_posix()
            checker = checkers[ring] = Checker()
            for batch in read(path):
                checker.fold(batch)
                yield with_ring(batch, ring)
            checker.finish()

    return write_table(tmp_path_factory.mktemp("library") / "frames.parquet", batches()), checkers


def plain(row: Row) -> Row:
    """A finding as Spark gives it, without what Spark adds."""
    made = {name: value for name, value in row.items() if name != "ring"}
    return made | {name: [dict(each) for each in row[name]] for name in ("frames", "facts")}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_findings_are_those_of_the_command_line(
    spark: SparkSession, expected: tuple[Path, dict[str, Checker]], tmp_path: Path
) -> None:
    path, checkers = expected
    told = str(tmp_path / "outcomes")
    outcomes(spark.read.parquet(str(path))).write.parquet(told)
    rows = spark.read.parquet(told)
    found: dict[str, list[Row]] = {ring: [] for ring in checkers}
    for row in findings_of(rows).collect():
        found[row["ring"]].append(plain(row.asDict(recursive=True)))
    for ring, checker in checkers.items():
        wanted = sorted((row_of(finding) for finding in checker.findings), key=lambda row: row["id"])
        assert sorted(found[ring], key=lambda row: row["id"]) == wanted, ring
    assert sum(map(len, found.values())) > 200
    checked: Counter[tuple[str, ...]] = Counter()
    for row in rows.where("tally is not null").select("ring", "tally.*").toLocalIterator():
        checked[row["ring"], row["rule"], "checked"] += row["checked"]
        checked[row["ring"], row["rule"], "violated"] += row["violated"]
        checked.update({(row["ring"], row["rule"], each["reason"]): each["count"] for each in row["unknown"]})
    for ring, checker in checkers.items():
        for rule, tally in checker.tallies.items():
            assert checked[ring, rule, "checked"] == tally.checked
            assert checked[ring, rule, "violated"] == tally.violated
            assert all(checked[ring, rule, reason] == count for reason, count in tally.unknown.items())


def test_a_batch_is_cut_at_its_rings() -> None:
    batch = pa.RecordBatch.from_pydict({"ring": ["a", "a", "b", "c", "c"], "frame": [1, 2, 1, 1, 2]})
    assert [(ring, part.column("frame").to_pylist()) for ring, part in parts(batch)] == [
        ("a", [1, 2]),
        ("b", [1]),
        ("c", [1, 2]),
    ]
    assert list(parts(batch.slice(0, 0))) == []


@pytest.mark.parametrize("rows", [1, 7, 10_000])
def test_however_the_frames_of_a_task_are_cut(repo_root: Path, rows: int) -> None:
    """One task with two rings of the same capture: connections of the same id do not get in each other's way."""
    batches = read(repo_root / "captures" / "09_feed_real_consumer.pcap")
    both = [with_ring(batch, ring) for ring in ("a", "b") for batch in batches]
    table = pa.Table.from_batches(both)
    made = checks([rule.id for rule in RULES])(iter(table.combine_chunks().to_batches(max_chunksize=rows)))
    found = pa.Table.from_batches(made, OUTCOMES).to_pylist()
    by_ring = {ring: [row["finding"] for row in found if row["ring"] == ring and row["finding"]] for ring in ("a", "b")}
    checker = Checker()
    for batch in batches:
        checker.fold(batch)
    checker.finish()
    wanted = [row_of(finding) for finding in checker.findings]
    assert len(wanted) > 10
    assert by_ring == {"a": wanted, "b": wanted}


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
