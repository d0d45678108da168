"""Archives that grow, change and shrink: what is compared again is enough, and is not everything."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from analysis.archive import check_by_ring, cross_check, job, seqno_spans, spark_tables, xcn_01
from analysis.archive.cross_check import RingDelta
from analysis.archive.document_versions import ATTRIBUTES
from analysis.archive.schema import BY_NAME
from dissector.generate.conversation import Conversation
from tests.support.archive_cases import write_capture
from tests.support.checking import clean

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Conversations = list[Conversation]


def tap(path: Path, port: int, history: int = 0, **change: Any) -> None:
    """Write a capture of a bucket of one history or another, with the first mutation changed or not."""
    conversations = copy.deepcopy(clean("multiplex"))
    frames = [each.frame for conversation in conversations for each in conversation]
    for frame in frames:
        if frame.name == "stream_request" and frame.response and frame.value:
            frame.value = bytes([frame.value[0] ^ history]) + frame.value[1:]
    first = next(frame for frame in frames if frame.name == "mutation" and frame.value)
    for name, value in change.items():
        setattr(first, name, value)
    write_capture(path, conversations, port)


def rows(spark: SparkSession, archive: Path, name: str) -> list[str]:
    """The rows of a table, each as text, in an order of their own."""
    return sorted(str(row.asDict(recursive=True)) for row in spark_tables.read(spark, archive, BY_NAME[name]).collect())


def test_what_has_grown_is_as_if_it_were_new(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, grown, new = tmp_path / "in", tmp_path / "one that grows", tmp_path / "new"
    read: list[list[str]] = []
    asked = seqno_spans.rings_showing

    def spy(*arguments: DataFrame) -> list[str]:
        read.append(asked(*arguments))
        return read[-1]

    monkeypatch.setattr(seqno_spans, "rings_showing", spy)
    tap(source / "a" / "0.pcap", 0)
    tap(source / "b" / "0.pcap", 500, value=b"{}")
    tap(source / "c" / "0.pcap", 1000, history=1)
    first = job.run(spark, grown, [str(source)])
    ring = {Path(entry.place).name: name for name, entry in first.manifest.rings.items()}
    assert read == [sorted((ring["a"], ring["b"]))]  # for evidence: everything was due
    before = [row for row in rows(spark, grown, "findings") if "XCN-01" in row]
    assert len(before) == 1
    assert "another value" in before[0]

    # The second tap is recorded again without its fault, and there is a third one with another.
    read.clear()
    (source / "b" / "0.pcap").unlink()
    tap(source / "b" / "1.pcap", 500)
    tap(source / "d" / "0.pcap", 1500, cas=12345)
    second = job.run(spark, grown, [str(source)])
    ring = {Path(entry.place).name: name for name, entry in second.manifest.rings.items()}
    assert sorted(second.read) == sorted((ring["b"], ring["d"]))
    assert len(read) == 2  # what is due, and evidence
    assert all(ring["c"] not in names for names in read)
    after = [row for row in rows(spark, grown, "findings") if "XCN-01" in row]
    assert len(after) == 1
    assert "another CAS" in after[0]

    # Rings that are too large for one task make no difference either: here half of them are.
    monkeypatch.setattr(check_by_ring, "_ONE_TASK_BYTES", 0)
    whole, large = check_by_ring.whole_or_partitioned(check_by_ring.rings_below(grown), 2)
    assert whole
    assert large
    fresh = job.run(spark, new, [str(source)])
    assert fresh.manifest.across_of == second.manifest.across_of
    for name in ("findings", "summary", "spans"):
        assert rows(spark, new, name) == rows(spark, grown, name), name
    held = {
        name: rows_of(xcn_01.roots(spark_tables.read(spark, path, BY_NAME["compared"])))
        for name, path in (("new", new), ("grown", grown))
    }
    assert held["new"] == held["grown"]
    listed = {name for entry in second.manifest.rings.values() for name in entry.files} | {*second.manifest.across}
    assert listed == {path.relative_to(grown).as_posix() for path in grown.rglob("*.parquet")}


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(str(row.asDict()) for row in frame.collect())


@dataclass(frozen=True)
class World:
    """Rings with versions of many buckets, each of which is a case of its own."""

    shown: dict[str, list[tuple[Any, ...]]]

    def versions(self, spark: SparkSession) -> Callable[[Any], DataFrame]:
        types = "ring string, bucket string, vbucket int, branch bigint, by_seqno bigint, " + ", ".join(
            f"{name} bigint" for name in ATTRIBUTES
        )
        every = spark.createDataFrame([row for rows in self.shown.values() for row in rows], types)
        return lambda rings: seqno_spans.rows_of_rings(every, rings)


def observed(chance: random.Random, ring: str, bucket: str) -> list[tuple[Any, ...]]:
    """What a ring shows of a bucket: some seqnos in a row, now and then one that is not as it should be."""
    made = []
    for _ in range(chance.choice((0, 1, 1, 2))):
        start, branch = chance.randrange(0, 12_000), chance.choice((7, 7, 8, None))
        for seqno in range(start, start + chance.choice((1, 3, 12)) * 100, 100):
            values = [seqno if chance.random() < 0.97 else 1, *([0] * (len(ATTRIBUTES) - 2))]
            made.append((ring, bucket, 3, branch, seqno, *values, chance.choice((None, 5))))
    return made


def test_random_moves(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(4)  # noqa: S311 - repeatable, not secret
    buckets = [f"b{number}" for number in range(40)]

    def ring(name: str, some: int) -> list[tuple[Any, ...]]:
        return [row for bucket in chance.sample(buckets, some) for row in observed(chance, name, bucket)]

    old = World({name: ring(name, 30) for name in ("kept1", "kept2", "kept3", "changed", "gone")})
    kept = {name: old.shown[name] for name in ("kept1", "kept2", "kept3")}
    new = World({**kept, "changed": ring("changed", 8), "come": ring("come", 8)})
    states = [{name: str(hash(tuple(rows))) for name, rows in world.shown.items()} for world in (old, new)]
    delta = RingDelta.between(*states)
    assert (delta.added, delta.removed) == ({"changed", "come"}, {"changed", "gone"})

    known = seqno_spans.ring_spans(old.versions(spark)(old.shown))
    earlier = xcn_01.compare_intervals(seqno_spans.with_interval(old.versions(spark)(old.shown), None))
    for name, table in (("known", known), ("earlier", earlier)):
        table.write.parquet(str(tmp_path / name))
    known, earlier = (spark.read.parquet(str(tmp_path / name)) for name in ("known", "earlier"))
    shown = new.versions(spark)
    now = seqno_spans.ring_spans(shown(delta.added))
    compared, counted = cross_check.compare_changed(
        shown, now, known, earlier, delta, spark_tables.uri(tmp_path / "due")
    )
    assert rows_of(xcn_01.roots(compared)) == rows_of(
        xcn_01.roots(xcn_01.compare_intervals(seqno_spans.with_interval(shown(new.shown), None)))
    )
    again = seqno_spans.with_interval(shown(new.shown), spark.read.parquet(str(tmp_path / "due")))
    assert 0 < again.count() < sum(map(len, new.shown.values())) / 2
    assert sorted(row["ring"] for row in counted.select("ring").distinct().collect()) == sorted(new.shown)
