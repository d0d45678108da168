"""XCN-01 where most of an archive is one vbucket: thousands of connections show the same few seqnos of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from analysis.archive import xcn_01
from analysis.archive.document_versions import versions
from analysis.archive.seqno_spans import with_interval
from tests.support.archive_cases import RING_SCHEMA, read, with_ring, write_capture
from tests.support.checking import clean

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

CONNECTIONS = 3_000
FILES = 3  #: tasks that read them
GUILTY = 2_345  #: the connection that shows a document otherwise
SEQNO = "by_seqno"


def one_vbucket(path: Path) -> pa.RecordBatch:
    """Read a capture; return what it says of the vbucket that most is said of."""
    batch = pa.Table.from_batches(read(path)).combine_chunks().to_batches()[0]
    shown = [row["vbucket"] for row in batch.to_pylist() if row["name"] == "mutation"]
    hot = max(set(shown), key=shown.count)
    return batch.filter(pa.array([row["vbucket"] in (None, hot) for row in batch.to_pylist()]))


def replaced(batch: pa.RecordBatch, name: str, values: list[Any]) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), pa.array(values, batch.schema.field(place).type))


@pytest.fixture(scope="module")
def frames(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """The same frames on thousands of connections, a second apart; one of them shows another CAS once."""
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("skew")
    batch = one_vbucket(write_capture(folder / "one.pcap", clean("basic")))
    names, cas, times = (batch.column(name).to_pylist() for name in ("name", "cas", "time_ns"))
    first = names.index("mutation")
    (folder / "frames").mkdir()
    for file in range(FILES):
        with pq.ParquetWriter(folder / "frames" / f"{file}.parquet", RING_SCHEMA) as writer:
            made = []
            for number in range(file, CONNECTIONS, FILES):
                one = replaced(batch, "connection", [f"c{number}"] * len(batch))
                one = replaced(one, "time_ns", [time + number * 10**9 for time in times])
                if number == GUILTY:
                    one = replaced(one, "cas", [*cas[:first], cas[first] + 1, *cas[first + 1 :]])
                made.append(with_ring(one, f"r{number % 7}"))
            writer.write_table(pa.Table.from_batches(made))
    return spark.read.parquet(str(folder / "frames"))


def exchanges(plan: Any) -> Iterator[Any]:
    """Go through a plan that was run, and yield where rows were sent around."""
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    if plan.nodeName().endswith("QueryStage"):
        plan = plan.plan()
    if plan.nodeName() == "Exchange":
        yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from exchanges(children.apply(number))


@pytest.fixture
def named(spark: SparkSession) -> DataFrame:
    """The connections."""
    rows = [(f"r{number % 7}", f"c{number}", "hot") for number in range(CONNECTIONS)]
    return spark.createDataFrame(rows, "ring string, connection string, bucket string")


def test_frames_stay_where_they_are_while_they_get_their_branch(
    frames: DataFrame, named: DataFrame, tmp_path: Path
) -> None:
    spark, threshold = frames.sparkSession, "spark.sql.autoBroadcastJoinThreshold"
    small = named.hint("broadcast")
    usual = spark.conf.get(threshold)
    try:
        spark.conf.set(threshold, "25k")  # less than the frames have, more than the answers to stream requests
        plain, materialized = versions(frames, small), versions(frames, small, str(tmp_path / "scratch"))
        plans = [rows._jdf.queryExecution().sparkPlan().toString() for rows in (plain, materialized)]
        assert ["SortMergeJoin" in plan for plan in plans] == [True, False]
        one, other = (
            rows.groupBy("branch", "bucket").count().orderBy("branch").collect() for rows in (plain, materialized)
        )
    finally:
        spark.conf.set(threshold, usual)
    assert one == other
    assert any(row["branch"] is not None for row in one)


def test_a_hot_vbucket_is_summed_up_before_it_is_sent_around(frames: DataFrame, named: DataFrame) -> None:
    shown = versions(frames, named).where("branch is not null")
    counted = xcn_01.compare_intervals(with_interval(shown, None))
    roots = xcn_01.roots(counted)
    (root,) = [row.asDict() for row in roots.collect()]
    seqnos = root["checked"]
    assert (root["violated"], root["undecided"], 2 < seqnos < 100) == (1, 0, True)
    # What is sent is at most a row per seqno and task, not one per message.
    sent = {}
    for exchange in exchanges(roots._jdf.queryExecution().executedPlan()):
        sent[exchange.outputPartitioning().toString()] = exchange.metrics().apply("shuffleRecordsWritten").value()
    by_seqno = [count for keys, count in sent.items() if SEQNO in keys]
    assert by_seqno, sent
    assert CONNECTIONS * seqnos > 30_000
    assert all(seqnos <= count <= 8 * seqnos for count in by_seqno), sent
    # The proof: of thousands of observations that are alike, the earliest one.
    (finding,) = xcn_01.findings(shown, roots.where("violated > 0"))
    assert "another CAS;" in finding.sentence
    assert finding.connection == f"c{GUILTY}"
    assert [frame.role for frame in finding.frames] == ["guilty", "other"]
    assert finding.frames[0].time_ns - finding.frames[1].time_ns == GUILTY * 10**9


def test_observations_that_differ_in_every_way() -> None:
    """However many there are, the pair is the first that differs and the earliest that it differs from."""
    nothing = dict.fromkeys(xcn_01.ATTRIBUTES)
    rows = [
        {**nothing, "time_ns": time, "ring": "r", "frame": 1, **dict.fromkeys(xcn_01.OBSERVATION[3:], 0)}
        for time in range(9)
    ]
    rows[1]["cas"] = 5
    rows[2]["kind"] = 0
    rows[4] |= {"cas": 5, "kind": 0}
    rows[6] |= {"cas": 6, "kind": 1}
    rows[7] |= {"cas": 7}
    what, later, earlier = xcn_01._first_difference(rows[::-1])
    assert (what, later["time_ns"], earlier["time_ns"]) == (4, 6, 1)
    with pytest.raises(ValueError, match="do not"):
        xcn_01._first_difference(rows[:6])
